# SPDX-License-Identifier: Apache-2.0
"""The report (--report FILE). The verdict must survive us."""

import json
import os
import signal
import stat

import pytest

from harness import Watch, marked, wait_until

pytestmark = pytest.mark.memcheck

TOP = {"schema", "version", "job", "attempt", "generation", "node_rank", "nnodes", "state",
       "outcome", "exit_code"}


class Reports:
    """Every version of the report that a test has seen, in order."""

    def __init__(self, world):
        self.folder = world.root / "reports"
        self.folder.mkdir()
        self.path = self.folder / "report.json"
        self.watch = Watch(self.folder)
        self.seen = []
        self.written_in_place = False

    def take(self, seconds=0):
        """Notes what has happened to the file; reads it when it was renamed into place."""
        for mask, name in self.watch.next(seconds):
            if name != self.path.name:
                continue
            if mask & (Watch.MODIFY | Watch.CLOSE_WRITE | Watch.CREATE):
                self.written_in_place = True
            if mask & Watch.MOVED_TO:
                self.seen.append(json.loads(self.path.read_text()))

    def wait_for(self, is_wanted, what):
        """Waits for a report that is wanted, and returns the newest."""
        return wait_until(lambda: self.take(0.05) or [r for r in self.seen if is_wanted(r)], what)[-1]

    def wait(self, **fields):
        return self.wait_for(lambda r: all(r.get(k) == v for k, v in fields.items()), f"a report with {fields}")


@pytest.fixture
def reports(world):
    reports = Reports(world)
    yield reports
    reports.watch.close()


@pytest.mark.parametrize("verbs, code, outcome", [
    ("exit 0", 0, "completed"), ("exit 7", 7, "failed"), ("die SEGV", 139, "failed"), ("exit 42", 42, "failed")])
def test_the_last_report_is_the_verdict(world, reports, verbs, code, outcome):
    """A scheduler that loses the exit code finds the outcome in the report."""
    world.act(verbs, options=["--report", reports.path], code=code)
    last = json.loads(reports.path.read_text())
    assert TOP <= set(last)
    assert (last["exit_code"], last["outcome"], last["state"]) == (code, outcome, "done")


def test_the_first_cause_is_told(world, reports):
    """The failed rank, the cause and the time; by number and in words."""
    world.act("die SEGV", options=["-n", "1", "--report", reports.path], code=139)
    cause = json.loads(reports.path.read_text())["first_cause"]
    assert cause["rank"] == 0 and cause["node_rank"] == 0 and cause["signal"] == signal.SIGSEGV
    assert cause["pid"] > 1 and cause["text"]


def test_written_by_rename_at_each_change(world, reports):
    """A reader never sees half a report, and a killed pchrun leaves the last state behind."""
    job = world.act("record TERM say ready until TERM hold save", options=["--report", reports.path, "--grace", "20s"])
    running = reports.wait(state="running")
    assert running["exit_code"] is None and running["outcome"] in (None, "unknown")
    job.send(signal.SIGTERM)
    world.events.wait("signal", name="TERM")

    notice = reports.wait_for(lambda report: report.get("notice"), "the notice in the report")["notice"]
    assert "TERM" in notice["source"] + notice["text"]
    world.let_end(job, 42, name="save")
    assert reports.wait(state="done")["exit_code"] == 42
    assert not reports.written_in_place


@pytest.mark.killed
def test_the_state_survives_our_death(world, reports):
    """Killed with the whole control group by the OOM killer: the file still has the last state."""
    job = world.act("say ready pause", options=["--report", reports.path])
    reports.wait(state="running")
    job.kill()
    assert json.loads(reports.path.read_text())["exit_code"] is None
    wait_until(lambda: not marked(world.mark), "the program's death")


@pytest.mark.killed
def test_nothing_is_written_after_our_death(world, reports):
    """The helper that writes the report is delayed, and pchrun is killed. The delayed report would overwrite
    that of the next start."""
    (world.root / "stuck").touch()
    job = world.act("say ready pause", options=["--report", reports.path],
                    env=world.shim("stuck", SHIM_STUCK=reports.folder, SHIM_DIR=world.root))
    wait_until(lambda: list(reports.folder.iterdir()), "the report to be begun")
    job.kill()
    (world.root / "stuck").unlink()
    wait_until(lambda: not marked(world.mark), "the end of all")
    assert not reports.path.exists()


def test_nothing_but_the_report_is_left(world, reports):
    """No temporary file stays beside it."""
    assert world.act("exit 0", options=["--report", reports.path]).finish() == 0
    assert [path.name for path in reports.folder.iterdir()] == ["report.json"]


def test_exec_errors_are_in_the_report(world, reports):
    """Not started is an outcome of its own, and it is not success."""
    assert world.launch("--report", reports.path, "--", "/no/such/command").finish() == 127
    last = json.loads(reports.path.read_text())
    assert last["exit_code"] == 127 and last["outcome"] == "not_started"


def test_a_report_that_cannot_be_written_changes_no_exit_code(world):
    """The log says so, and the job runs: losing a report is no reason to lose the training."""
    job = world.act("say started exit 5", options="--report /proc/report.json", code=5)
    assert world.events.all("started")
    assert "report" in job.err


@pytest.mark.parametrize("path", ["folder/report.json", "file/report.json"])
def test_a_folder_that_is_missing_is_not_made(world, path):
    """A missing folder is most often a typing error. pchrun finds it before the training."""
    world.file("file")
    world.refused(world.root / path, "directory", options=["--report", world.root / path])
    assert not (world.root / "folder").exists()


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "socket"])
@pytest.mark.parametrize("way", ["plain", "link"])
def test_what_is_no_regular_file_is_not_replaced(world, kind, way):
    """--report /dev/null by root must leave the device as it is."""
    target = world.root / "target"
    kinds = {"fifo": stat.S_IFIFO, "device": stat.S_IFCHR, "socket": stat.S_IFSOCK}
    try:
        if kind == "folder":
            target.mkdir()
        else:
            os.mknod(target, kinds[kind] | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this user may not make devices")
    before = os.lstat(target)
    path = target
    if way == "link":
        path = world.root / "link"
        path.symlink_to("target")
    world.refused(path, "not a regular file", options=["--report", path])
    after = os.lstat(target)
    assert (after.st_ino, after.st_mode, after.st_rdev) == (
        before.st_ino, before.st_mode, before.st_rdev)


@pytest.mark.parametrize("has_target", [True, False], ids=["there", "dangling"])
def test_behind_a_link_the_target_is_replaced(world, has_target):
    """The link stays a link."""
    (world.root / "far").mkdir()
    target = world.root / "far" / "report.json"
    if has_target:
        target.write_text("old")
    near = world.root / "near.json"
    near.symlink_to("far/report.json")
    first = world.root / "first.json"
    first.symlink_to(near)
    assert world.act("exit 0", options=["--report", first]).finish() == 0
    assert first.is_symlink() and near.is_symlink() and not target.is_symlink()
    assert json.loads(target.read_text())["outcome"] == "completed"


def test_a_circle_of_links_is_refused(world):
    link = world.root / "link"
    link.symlink_to("link")
    world.refused(link, "symbolic link", options=["--report", link])


def test_the_reports_name(world):
    """{state_dir} and {node_rank} stand for their values."""
    state = world.root / "state"
    world.act("exit 0", options=["--state-dir", state], code=0)
    assert (state / "report.0.json").exists()
