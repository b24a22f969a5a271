# SPDX-License-Identifier: Apache-2.0
"""pchctl timeline: the timeline of a job as SVG, from its ledger and its journal. Its spans are those of pchctl
goodput. Whatever the files say, the picture is well-formed, and no text of a job is markup in it."""

import collections
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import xml.etree.ElementTree as ET

import pytest

from harness import PREEMPTED, wait_until
from ledger import Ledger
from pchctl import PCHCTL, ctl  # noqa: F401
from test_goodput import figures, preempted

DONE, FAILED, USAGE = 0, 1, 2
SVG = "{http://www.w3.org/2000/svg}"


def drawn(ctl, *words, code=DONE):  # noqa: F811
    done = ctl("timeline", *words, everywhere=True)
    assert done.returncode == code, done.stderr
    return done.stdout if code == DONE else done.stderr


@pytest.mark.parametrize("name", ["ledger", "events.0.jsonl"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(training, ctl, name):  # noqa: F811
    """Another user's directory must not hold root's pchctl for ever."""
    run = training(train=5)
    run.preempt()
    assert run.finish() == PREEMPTED
    where = run.dir
    shutil.copy(run.report_path, where / ".pchrun" / "report.0.json")
    (where / ".pchrun" / name).unlink()
    os.mkfifo(where / ".pchrun" / name)
    assert "job cwd" in ctl("status", where, everywhere=True).stdout
    done = ctl("timeline", where, everywhere=True)
    has_none = "has no record of a job's time (the file ledger); give" in done.stderr
    assert (done.returncode, has_none) == ((FAILED, True) if name == "ledger" else (DONE, False))


def test_a_terminal_gets_no_picture(world):
    """Thousands of characters of SVG would be no answer."""
    ours, theirs = os.openpty()
    with open(ours, "rb", closefd=True), open(theirs, "wb", closefd=True) as terminal:
        done = subprocess.run([PCHCTL, "timeline", world.root], stdout=terminal, stderr=subprocess.PIPE, text=True,
                              check=False)
    assert (done.returncode, done.stderr) == (FAILED, "pchctl: the picture is a file for a browser: give it a name by -o "
                                                      "FILE.svg (-o - prints it)\n")


class Picture:
    def __init__(self, text):
        self.text = text
        self.root = ET.fromstring(text)
        assert self.root.tag == f"{SVG}svg"
        assert self.root.get("viewBox").startswith("0 0 1000 ")
        assert not list(self.root.iter(f"{SVG}script"))

    def group(self, name):
        return next(group for group in self.root.iter(f"{SVG}g") if group.get("id") == name)

    def spans(self):
        """For spans that are drawn together: how many they are, and the time of each kind."""
        return [(int(group.get("data-spans")), {rect.get("data-kind"): int(rect.get("data-ms")) for rect in group.iter(f"{SVG}rect")})
                for group in self.group("spans").iter(f"{SVG}g") if group.get("data-spans")]

    def sums(self):
        return {row.get("data-kind"): int(row.get("data-ms")) for row in self.group("legend").iter(f"{SVG}g")
                if row.get("data-kind")}

    def flags(self):
        """(notice or cause, its title) of each mark."""
        return [(group.get("data-flag"), group.find(f"{SVG}title").text) for group in self.root.iter(f"{SVG}g")
                if group.get("data-flag")]

    def texts(self):
        return [text.text for text in self.root.iter(f"{SVG}text")]

    def titles(self):
        return [title.text for title in self.root.iter(f"{SVG}title")]


def same_spans(picture, got):
    """Spans that are drawn together have the sums of those in the list, to the millisecond."""
    rest = list(got["spans"])
    for count, drawn_ms in picture.spans():
        part, rest = rest[:count], rest[count:]
        sums = collections.Counter()
        for span in part:
            sums[span["kind"]] += span["ms"]
        assert drawn_ms == sums
    assert not rest
    shown = {kind: ms for kind, ms in got["ms"].items() if ms or kind == "training_kept"}
    assert picture.sums() == shown
    assert int(picture.root.get("data-wall-ms")) == got["wall_ms"]


def last(got, attempt, kind):
    """How long the attempt did this, if it is the last one."""
    return len(got["attempts"]) == attempt and got["attempts"][-1]["ms"][kind]


def test_a_job_that_is_preempted_and_crashes(training, ctl):  # noqa: F811
    where = preempted(training)
    run = training("--restart-max", "3")
    commit = figures(ctl, where)["attempts"][0]["commit_step"]
    run.open(resume=commit)
    run.train(commit + 1)
    wait_until(lambda: last(figures(ctl, where), 2, "training_kept"), "the first step of attempt 2 in the ledger")
    run.train(commit + 3)
    run.kill(0)
    run.said(r"generation 1 begins")
    run.open(resume=commit)
    run.train(commit + 4)
    wait_until(lambda: last(figures(ctl, where), 2, "training_lost"), "the first step after the crash")
    run.complete(commit)
    picture = Picture(drawn(ctl, where))
    got = figures(ctl, where)
    same_spans(picture, got)
    assert {"training_lost", "queued"} <= set(picture.sums())
    told = [line for _, title in picture.flags() for line in title.splitlines()]  # in a fast job they share a mark
    assert len(told) == 2 and re.match(r"notice: SIGTERM to node 0", told[0])
    assert re.match(r"first failure: .*rank 0.*signal 9", told[1])
    texts = picture.texts()
    assert any(text.startswith("rank 0 on node 0: SIGKILL") for text in texts)
    assert f"2 attempts, 1 notice, 1 failure; {got['lost_steps']} steps lost" in texts
    assert any(title.startswith("attempt 1, ") and ": preempted, exit code 42: " in title for title in picture.titles())
    assert texts[0].startswith("job cwd: goodput ")


def test_while_the_job_runs(training, ctl):  # noqa: F811
    run = training()
    run.open()
    run.train(3)
    wait_until(lambda: (run.dir / ".pchrun/ledger").exists() and "training" in (run.dir / ".pchrun/ledger").read_text(),
               "the first step")
    picture = Picture(drawn(ctl, run.dir))
    assert "now, still running" in picture.texts()
    run.complete()
    assert "now, still running" not in Picture(drawn(ctl, run.dir)).texts()


def test_a_part_of_the_time(training, ctl):  # noqa: F811
    where = preempted(training)
    middle = figures(ctl, where)["spans"][1]["from"]
    out = ["--exclude", f"2000-01-01T00:00:00Z..{middle}=<the disk> was full"]
    assert any(title.endswith(": <the disk> was full") for title in Picture(drawn(ctl, where, *out)).titles())
    for words in (["--since", middle], out, ["--job", "cwd"]):
        same_spans(Picture(drawn(ctl, where, *words)), figures(ctl, where, *words))
    assert "is the ledger of job cwd, not of job other" in drawn(ctl, "--job", "other", where, code=FAILED)
    assert "nothing has happened since then, so there is no picture" in drawn(ctl, where, "--since", "0", code=FAILED)
    assert "give the job's checkpoint.dir or state_dir: pchctl timeline DIR" in drawn(ctl, where.parent / "cwd",
                                                                                       code=FAILED)


# --- the file ---

def test_the_file_is_replaced_as_a_whole(training, ctl):  # noqa: F811
    where = preempted(training)
    folder = where.parent / "pictures"
    folder.mkdir()
    path, link = folder / "run.svg", folder / "link.svg"
    path.write_text("the old one")
    path.chmod(0o640)
    link.symlink_to("run.svg")
    before = path.stat().st_ino
    assert drawn(ctl, where, "-o", link) == ""
    assert path.read_text() == drawn(ctl, where) == drawn(ctl, where, "-o", "-")
    assert link.is_symlink() and path.stat().st_ino != before and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert drawn(ctl, where, "-o", folder / "new.svg") == ""
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((folder / "new.svg").stat().st_mode) == 0o666 & ~umask
    assert sorted(entry.name for entry in folder.iterdir()) == ["link.svg", "new.svg", "run.svg"]


def test_a_file_that_cannot_be_written(training, ctl):  # noqa: F811
    where = preempted(training)
    assert drawn(ctl, where, "-o", where / "no/such.svg", code=FAILED) == (
        f"pchctl: cannot write the picture to {where}/no/such.svg: No such file or directory\n")
    assert "is not a regular file; without --output" in drawn(ctl, where, "-o", "/dev/null", code=FAILED)
    assert "is not a regular file" in drawn(ctl, where, "-o", where, code=FAILED)
    assert drawn(ctl, where, "-o", "/dev/full", code=FAILED)
    folder = where.parent / "full"
    folder.mkdir()
    done = ctl("timeline", where, "-o", folder / "run.svg", everywhere=True, preexec_fn=no_large_files)
    assert done.returncode == FAILED
    assert "cannot write the picture to" in done.stderr and "File too large" in done.stderr
    assert not list(folder.iterdir())


def no_large_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))


# --- files that no pchrun has written ---

HOSTILE = "<script>alert(1)</script>&amp;\"' ]]> \u202e \u0085 \ufffe \u2603"


@pytest.fixture
def ledger(world):
    return lambda job="run7": Ledger(world.root / "state", job)


def test_hostile_texts(ledger, ctl):  # noqa: F811
    made = ledger(HOSTILE[:100])
    made.begin(0)
    made.at += 100
    made.event("notice", source="<b>&", of_node=-7, left_ms=-5, text=HOSTILE)
    made.at += 10
    made.event("failed", kind=HOSTILE, of_node=2**60, rank=-2**60, code=2**40, text=HOSTILE * 20)
    made.event("exit", outcome="x", exit_code="<42>", text=HOSTILE)
    made.end("<failed>&", 100)
    where = made.write()
    with (where / "events.0.jsonl").open("ab") as file:
        file.write(b'{"event": "failed", "ts": 7}\n{"event": "exit", "ts": "2027"\n\xff\xfe"notice"\0\n"failed"\n[]\n')
        file.write(b'{"event": "notice"' + b" " * 200_000 + b"}\n")
    picture = Picture(drawn(ctl, where))
    assert picture.titles()[0].startswith("job <script>alert(1)</script>&amp;\"' ]]> ? ? \ufffd \u2603: goodput ")
    assert {flag for flag, _ in picture.flags()} == {"notice", "cause"}
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", picture.text)


def test_what_two_nodes_tell_is_drawn_once(ledger, ctl):  # noqa: F811
    """Node 0 was killed in the second attempt before it could write."""
    made = ledger()
    made.begin(0)
    made.at += 60
    for node in (0, 3, 4):
        made.event("notice", node=node, source="aws", id="i", of_node=3, left_ms=120_000, text="spot")
    for text in ("process 9 ended with signal 9 (Killed)", "process 9 ended with signal 9 (Killed): out of memory"):
        made.event("failed", kind="signal", of_node=1, rank=8, code=137, text=text)
    made.event("failed", node=3, kind="signal", of_node=1, rank=8, code=137, text="process 9 ended with signal 9 (Killed)")
    made.at += 60
    made.end("preempted", 100)
    made.begin(100)
    made.at += 60
    made.event("failed", node=3, kind="lost", of_node=0, rank=-1, code=0, text="node 0 is lost: no message for 30 s")
    made.mark("tick", 150)
    made.event("exit", node=3, outcome="node_lost", exit_code=1, text="node 0 is lost")
    picture = Picture(drawn(ctl, made.write()))
    [(_, both), (_, lost)] = picture.flags()
    assert both.splitlines() == ["notice: aws to node 3, 120 s left: spot", "first failure: rank 8 on node 1: process "
                                 "9 ended with signal 9 (Killed): out of memory"]
    assert lost == "first failure: node 0: node 0 is lost: no message for 30 s"
    assert {"2 attempts, 1 notice, 2 failures; 50 steps lost", "node 0: lost"} <= set(picture.texts())


def test_a_node_that_leaves_ends_no_attempt(ledger, ctl):  # noqa: F811
    """Node 1 leaves for its notice, and the job goes on with another. Later node 0 is killed, and node 1 tells the end."""
    made = ledger()
    made.begin(0)
    made.at += 60
    made.event("exit", node=1, outcome="preempted", exit_code=42, text="saved and committed at step 9")
    made.at += 60
    made.mark("tick", 100)
    made.event("exit", node=1, outcome="node_lost", exit_code=42, text="node 0 is lost")
    titles = Picture(drawn(ctl, made.write())).titles()
    assert any(title.endswith(": killed, exit code 42: node 0 is lost") for title in titles), titles


@pytest.mark.parametrize("kind, code, label", [
    ("signal", 139, "SIGSEGV"), ("signal", 7, "what it says"), ("exit", 3, "exit code 3"), ("lost", 42, "lost"),
    ("hang", 42, "the job stood still here"), ("gave_up", 1, "gave up its wait"),
    ("silent", 1, "ended without pch_done()"), ("start", 127, "could not start"), ("broken", 125, "what it says"),
    (None, 3, "what it says"), ("", 3, "what it says")])
def test_what_a_failure_is_called(ledger, ctl, kind, code, label):  # noqa: F811
    """By its kind, and not by the words of its text. An older journal has no kind."""
    made = ledger()
    made.begin(0)
    made.at += 60
    made.event("failed", **({} if kind is None else {"kind": kind}), of_node=1, rank=2, code=code, text="what it says")
    made.end("failed", 100)
    picture = Picture(drawn(ctl, made.write()))
    assert f"rank 2 on node 1: {label}" in picture.texts()
    assert picture.flags() == [("cause", "first failure: rank 2 on node 1: what it says")]


def test_a_user_who_stops_a_job_is_no_failure(ledger, ctl):  # noqa: F811
    made = ledger()
    made.begin(0)
    made.at += 60
    made.event("failed", kind="stopped", of_node=0, rank=-1, code=44, text="stopped by pchctl")
    made.event("exit", outcome="stopped", exit_code=44, text="stopped by pchctl")
    made.end("stopped", 100)
    assert not Picture(drawn(ctl, made.write())).flags()


def test_a_failure_that_only_an_end_tells(ledger, ctl):  # noqa: F811
    """No process has failed. A restart in place always has a line of its failure, so that of the restart is not read."""
    made = ledger()
    made.begin(0)
    made.at += 60
    made.event("restart", level="warning", text="node 0: rank 2, process 9 ended with exit code 3; restarting in place")
    made.at += 600
    made.event("exit", outcome="no_progress", exit_code=43, text="three attempts brought no commit")
    made.end("no_progress", 150)
    picture = Picture(drawn(ctl, made.write()))
    assert picture.flags() == [("cause", "first failure: three attempts brought no commit")]
    assert "no_progress" in picture.texts()


def test_what_the_journal_lacks(ledger, ctl):  # noqa: F811
    made = ledger()
    made.begin(0)
    made.at += 3600
    made.event("notice", source="SIGTERM", of_node=0, left_ms=0, text="")
    made.event("dropped", count=12)
    made.end("preempted", 100)
    where = made.write()
    texts = Picture(drawn(ctl, where)).texts()
    assert "note: the journal begins at 2027-01-15 09:00: earlier notices and failures are missing" in texts
    assert "note: the journal lacks 12 events that node 0 could not write" in texts
    (where / "events.0.jsonl").unlink()
    picture = Picture(drawn(ctl, where))
    assert "note: no journal of node 0 is beside the ledger: notices and failures are missing" in picture.texts()
    assert not picture.flags()


def test_a_job_of_sixty_days_is_bounded(ledger, ctl):  # noqa: F811
    """200 attempts, of which many ended by a crash, with a save each quarter of an hour: 12,000 spans."""
    made = ledger("a-job-with-a-long-name-that-trains-for-two-months")
    step = 0
    for attempt in range(200):
        made.begin(step)
        for _ in range(29):
            made.at += 900
            step += 290
            made.mark("saving", step)
            made.at += 20
            made.mark("commit", step)
            made.mark("training", step)
        made.end("preempted" if attempt % 3 else "failed", step)
        made.at += 60
    picture = Picture(drawn(ctl, made.write()))
    same_spans(picture, figures(ctl, made.folder))
    assert len(picture.text) < 500_000
    assert "60 d" in picture.texts()
    assert len(picture.spans()) < 1900
