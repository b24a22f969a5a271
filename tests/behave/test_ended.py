# SPDX-License-Identifier: Apache-2.0
"""pchctl status DIR: the state of a job by its files, while it runs, and after its end."""

import datetime
import json
import os
import re
import shutil
import signal
import time

import pytest

from harness import PREEMPTED, STOPPED, Late, marked, wait_until
from nodes import LOST_SOON, Nodes
from pchctl import PCHCTL, ctl  # noqa: F401

DONE, FAILED, USAGE = 0, 1, 2


def shown(ctl, *words, **more):  # noqa: F811
    done = ctl("status", *words, everywhere=True, **more)
    assert (done.returncode, done.stderr) == (DONE, "")
    return done.stdout


def attempts(text):
    """The table's cells up to the step, without the time."""
    lines = text.partition("\nATTEMPT ")[2].splitlines()[1:]
    return [(cells[0], *cells[2:5]) for cells in (line.split(None, 5) for line in lines)]


def attempt(world, verbs, **more):
    """One attempt of a job that is not asked to save."""
    return world.act(verbs, options=["--checkpoint-dir", world.root / "run"], **more)


@pytest.fixture
def job(world):
    (world.root / "run").mkdir()
    return world


def test_an_attempt_that_failed_after_one_that_did_not(job, ctl):  # noqa: F811
    attempt(job, "exit 0", code=0)
    attempt(job, "die SEGV", code=139)
    text = shown(ctl, job.root / "run")
    lines = text.splitlines()
    assert lines[0].startswith("job cwd: ended: failed, exit code 139: ")
    assert lines[1] == "attempt   2, generation 0, node 0 of 1"
    assert re.fullmatch(rf"as of     20\S+Z, .* ago, by the files in {job.root}/run/.pchrun", lines[2]), lines[2]
    assert re.fullmatch(r"cause     node 0 \(.+\): process \d+ ended with signal 11 .*", lines[3]), lines[3]
    assert "commit    none" in lines
    assert "next" not in text, "the program may resume by itself"
    assert attempts(text) == [("1", "completed", "0", "0"), ("2", "failed", "139", "0")]


def test_a_clock_that_is_ahead(job, ctl):  # noqa: F811
    """The ages would look right, and the job alive: its node's clock is three hours ahead of that of pchctl."""
    attempt(job, "exit 0", code=0)
    path = job.root / "run/.pchrun/report.0.json"
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=3, seconds=30)
    path.write_text(json.dumps({**json.loads(path.read_text()), "written": f"{later:%Y-%m-%dT%H:%M:%S.000Z}"}))
    line = shown(ctl, job.root / "run").splitlines()[2]
    assert re.fullmatch(r"as of     20\S+Z, 3(\.\d+)? h ahead of the clock here: ages and times that are left may be wrong; "
                        rf"by the files in {job.root}/run/.pchrun", line), line


def test_the_last_lines_of_the_process_that_failed(job, ctl):  # noqa: F811
    """One line each, and none obeyed by the terminal."""
    job.launch("--checkpoint-dir", job.root / "run", "--logs-dir", job.root / "logs", "-n", "2", "--", "sh", "-c",
               "[ $PCH_RANK = 1 ] || exec sleep 30; printf 'one\\ntwo\\033[2J\\n' >&2; exit 3", code=3)
    text = shown(ctl, job.root / "run")
    assert re.search(r"^cause     node 0 \(.+\), rank 1: process \d+ ended with exit code 3\n"
                     r"          \| one\n          \| two\?\[2J\nnotice    none\ncommit    none$", text, re.M), text


def test_where_the_next_attempt_begins(training, ctl):  # noqa: F811
    run = training("--report", "{state_dir}/report.{node_rank}.json", n=2, train=3)
    step = run.preempt()
    assert run.job.finish() == PREEMPTED
    text = shown(ctl, run.dir)
    assert re.search(rf"^commit    step {step}, .* ago\n          {re.escape(run.path(step, 0))}\n"
                     rf"next      resumes at step {step} of {re.escape(run.path(step, 0))}$", text, re.M), text
    assert attempts(text) == [("1", "preempted", "42", str(step))]
    run.close()


@pytest.mark.parametrize("content, why", [
    ("{", "commit.json:1:1: .*; the file is damaged"), ('{"commits": 3}', "commit.json has no list of commits; the file is damaged"),
    ('{"commits": [{"step": "x\\u001b"}]}', "commit.json has no list of commits; the file is damaged")], ids=["cut", "other", "step"])
@pytest.mark.parametrize("state", ["running", "done"])
def test_a_record_that_is_damaged(job, ctl, content, why, state):  # noqa: F811
    """The next pchrun will not start. The report may still know the step."""
    folder = job.root / "run"
    write_reports(folder, report_of(0, nnodes=1, state=state, next_start={"step": 9, "path": "x"}))
    (folder / "commit.json").write_text(content)
    text = shown(ctl, folder)
    assert re.search(rf"^next      pchrun does not start: {folder}/{why}\n"
                     r"          to begin anew, move the state directory away$", text, re.M), text
    told = json.loads(shown(ctl, "--json", folder))
    assert told["resume_step"] is None and re.search(why, told["resume_unknown_why"]), told


def test_a_report_that_is_elsewhere(training, ctl):  # noqa: F811
    """The file of --report may be far from the record, so where the next attempt begins is not known there."""
    run = training(train=3)
    step = run.preempt()
    assert run.finish() == PREEMPTED
    text = shown(ctl, run.report_path)
    assert f"\ncommit    step {step}, " in text and "\nnext " not in text and attempts(text) == []


def test_the_answer_of_the_files(job, ctl):  # noqa: F811
    """The same members as in a supervisor's answer, and the whole report."""
    attempt(job, "exit 7", code=7)
    path = job.root / "run/.pchrun/report.0.json"
    told = json.loads(shown(ctl, "--json", job.root / "run"))
    assert told["report"] == json.loads(path.read_text()) and told["report"]["exit_code"] == 7
    assert told["ok"] and told["version"] == 1 and told["ranks_of"] == "files" and told["dir"] == str(path.parent)


@pytest.mark.parametrize("place", ["run", "run/.pchrun", "run/.pchrun/report.0.json"])
def test_the_place_may_be_any_of_these(job, ctl, place):  # noqa: F811
    attempt(job, "exit 7", code=7)
    assert attempts(shown(ctl, job.root / place)) == [("1", "failed", "7", "0")]


@pytest.mark.killed
def test_an_attempt_that_was_killed(job, ctl):  # noqa: F811
    """It could not record its end."""
    path = job.root / "run/.pchrun/events.0.jsonl"
    killed = attempt(job, "say ready pause")
    wait_until(lambda: path.exists() and '"running"' in path.read_text(), "the journal")
    wait_until(lambda: '"running"' in (path.parent / "report.0.json").read_text(), "the report")
    killed.kill()
    wait_until(lambda: not marked(job.mark), "the program's death")
    text = shown(ctl, job.root / "run")
    assert text.startswith("job cwd: not attached: ") and "\nas of     20" in text
    assert attempts(text) == [("1", "-", "-", "-")]
    attempt(job, "exit 7", code=7)
    assert attempts(shown(ctl, job.root / "run")) == [("1", "-", "-", "-"), ("2", "failed", "7", "0")]


@pytest.mark.parametrize("state, more", [("running", [("3", "-", "-", "-")]), ("done", [])])
def test_a_journal_that_lacks_the_last_attempt(job, ctl, state, more):  # noqa: F811
    """pchrun was killed before it wrote the first event."""
    (job.root / "run/report.0.json").write_text(json.dumps({"schema": "pchrun.report", "attempt": 3, "state": state}))
    events = [{"event": "started", "attempt": 2},
              {"event": "exit", "attempt": 2, "ts": "then", "outcome": "failed", "exit_code": 7, "last_step": 5}]
    (job.root / "run/events.0.jsonl").write_text("".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events))
    assert attempts(shown(ctl, job.root / "run")) == [("2", "failed", "7", "5"), *more]


def test_the_lowest_node_of_the_last_attempt(job, ctl):  # noqa: F811
    """A disk of one node may have an older report, of another number. --node names one."""
    state = job.root / "run/.pchrun"
    state.mkdir()
    for node, number in ((0, 1), (1, 2), (2, 2)):
        (state / f"report.{node}.json").write_text(json.dumps({
            "schema": "pchrun.report", "version": 1, "job": "run7", "node_rank": node, "nnodes": 3, "attempt": number}))
    (state / "report.3.json.1").write_text("{}")
    assert shown(ctl, job.root / "run").startswith("job run7: ") and "\nattempt   2, generation 0, node 1 of 3\n" in shown(ctl, job.root / "run")
    assert "\nattempt   1, generation 0, node 0 of 3\n" in shown(ctl, "--node", 0, job.root / "run")
    done = ctl("status", "--node", 4, job.root / "run", everywhere=True)
    assert done.returncode == FAILED and "no report of node 4 is in " in done.stderr
    done = ctl("status", "--job", "run8", job.root / "run", everywhere=True)
    assert done.returncode == FAILED and done.stderr.endswith("is the report of job run7, not of job run8\n")


@pytest.mark.parametrize("content, why", [
    ("x", "report.0.json:1:1: '[' or '{' expected near 'x'; the file is damaged; a running "), ("{}", "is not a report of pchrun"), ("[" * 99999, "report.0.json:1:"),
    (None, "give the job's checkpoint.dir or state_dir, or the file of --report: pchctl status DIR")],
    ids=["text", "other", "deep", "none"])
def test_what_is_no_report(job, ctl, content, why):  # noqa: F811
    if content:
        (job.root / "run/report.0.json").write_text(content)
    done = ctl("status", job.root / "run", everywhere=True)
    assert (done.returncode, done.stdout) == (FAILED, "")
    assert done.stderr.startswith("pchctl: ") and why in done.stderr


@pytest.mark.parametrize("report", [
    {}, {"first_cause": 3, "commit": [], "round": "x"}, {"first_cause": {"node_rank": 0}},
    {"job": "a\x1b[2Jb", "first_cause": {"node_rank": 0, "text": "\x1b"}}, {"state": {"a": [[[[[{}]]]]]}}])
def test_a_report_that_says_little(job, ctl, report):  # noqa: F811
    """Of another version, or damaged. No control character reaches the terminal."""
    (job.root / "run/report.0.json").write_text(json.dumps({"schema": "pchrun.report", **report}))
    lines = ['"exit"', '{"event":"exit"}', '{"event":"started","attempt":"x"}', '\0"exit"', "[" * 99999 + '"exit"']
    (job.root / "run/events.0.jsonl").write_text("\n".join(lines) + "\n")
    text = shown(ctl, job.root / "run")
    assert text.startswith("job ") and "\x1b" not in text
    assert text.partition("\nATTEMPT ")[2].splitlines()[1:] == [f"{'none':51} {-1:<5} {0:<9} "]


# --- several reports -----------------------------------------------------------------------------

def report_of(node, **more):
    return {"schema": "pchrun.report", "version": 1, "job": "run7", "node_rank": node, "nnodes": 2, "host": f"h{node}", "attempt": 2,
            "state": "running", "outcome": "unknown", "ranks": [], **more}


def write_reports(folder, *reports):
    folder.mkdir(parents=True, exist_ok=True)
    for report in reports:
        (folder / f"report.{report['node_rank']}.json").write_text(json.dumps(report))


@pytest.mark.killed
def test_node_0_was_killed_and_another_node_tells_the_end(job, ctl):  # noqa: F811
    """The files of both are in one state directory. Those of node 0 tell of no end."""
    two = Refused(job, 2, ["--job", "run7", *LOST_SOON])
    two.start_all("wait")
    state = job.root / "run/.pchrun"
    wait_until(lambda: all(path.exists() and '"running"' in path.read_text()
                           for path in (state / "report.0.json", state / "report.1.json")), "the reports")
    two.jobs[0].kill()
    assert two.jobs[1].finish() == PREEMPTED
    wait_until(lambda: not marked(job.mark), "the end of all")
    text = shown(ctl, job.root / "run")
    assert text.startswith("job run7: ended: node_lost, exit code 42: "), text
    assert "\nattempt   1, generation 0, node 1 of 2\n" in text
    assert re.search(r"^0 +\S+ +gone +.*\n1 ", text, re.M), text
    assert attempts(text) == [("1", "node_lost", "42", "0")]
    watch = ctl("status", "-w", job.root / "run", everywhere=True)
    assert watch.returncode == DONE and watch.stdout.count("job run7: ended") == 1
    assert shown(ctl, "--node", 0, job.root / "run").startswith("job run7: ") and "ended" not in shown(ctl, "--node", 0, job.root / "run")


@pytest.mark.parametrize("newer, says", [(False, "ended: failed"), (True, "training at step 9")])
def test_an_end_that_is_older_than_what_node_0_tells(job, ctl, newer, says):  # noqa: F811
    """Node 0 may go on without a node that has left, until a new one takes its place."""
    state = job.root / "run/.pchrun"
    now = time.time()
    at = [datetime.datetime.fromtimestamp(now - ago, datetime.timezone.utc).isoformat() for ago in (20, 10)]
    write_reports(state, report_of(0, written=at[0]), report_of(1, written=at[1], state="done", outcome="failed", exit_code=7))
    (state / "ledger").write_text(older(json.dumps({
        "at_ms": int(now * 1000) - (5000 if newer else 15000), "mono_ms": 1, "attempt": 2, "generation": 0, "mark": "training",
        "step": 9}), 0))
    assert shown(ctl, job.root / "run").startswith(f"job run7: {says}")


@pytest.mark.parametrize("told, left", [
    ({"state": "restarting", "waits_for": {"nodes": [{"node_rank": 1}]}}, {"outcome": "preempted", "exit_code": 42}),
    ({"state": "waiting", "waits_for": {"nodes": [{"node_rank": 1}]}}, {"outcome": "unhealthy", "exit_code": 45}),
    ({"generation": 1}, {"outcome": "node_lost", "exit_code": 42})])
def test_the_end_of_a_node_without_which_the_job_goes_on(job, ctl, told, left):  # noqa: F811
    """A node leaves for its notice, is not healthy, or was stopped and comes back after it was replaced. Its report is the
    newest, but tells only its own end."""
    now = time.time()
    at = [datetime.datetime.fromtimestamp(now - ago, datetime.timezone.utc).isoformat() for ago in (20, 10)]
    write_reports(job.root / "run/.pchrun", report_of(0, written=at[0], **told),
                  report_of(1, written=at[1], state="done", generation=0, **left))
    text = shown(ctl, job.root / "run")
    assert text.startswith("job run7: ") and "ended" not in text.splitlines()[0] and "node 0 of 2" in text, text


@pytest.mark.parametrize("of_all", [{"state": "restarting", "waits_for": {"nodes": [{"node_rank": 1}]}},
                                    {"state": "done", "outcome": "node_lost", "exit_code": 42}])
def test_a_node_that_was_killed_trains_no_more(job, ctl, of_all):  # noqa: F811
    """Its report is as of its last change."""
    rank = {"rank": 1, "node_rank": 1, "pid": 7, "state": "attached", "attached": True, "phase": "train", "step": 5}
    write_reports(job.root / "run/.pchrun", report_of(0, **of_all), report_of(1, ranks=[rank], ranks_expected=1))
    text = shown(ctl, job.root / "run")
    assert re.search(r"^1 +h1 +gone +0/1 +5 ", text, re.M) and re.search(r"^1 +1 +7 +gone +5 ", text, re.M), text


@pytest.mark.parametrize("then, ends", [
    ([], [("2", "-", "-", "-")]), (["exit"], [("2", "stopped", "44", "9")])])
def test_an_attempt_has_one_line(job, ctl, then, ends):  # noqa: F811
    """The pchrun of node 1 left for its notice, and another one went on for that node."""
    state = job.root / "run/.pchrun"
    write_reports(state, report_of(1))
    (state / "events.1.jsonl").write_text("".join(json.dumps(
        {"ts": "2026-11-30T21:00:00.000Z", "node": 1, "attempt": 2, "event": event, "outcome": outcome, "exit_code": code,
         "last_step": 9, "text": "so it ended"}) + "\n" for event, outcome, code in [
            ("started", "", 0), ("exit", "preempted", 42), ("started", "", 0), *[(word, "stopped", 44) for word in then]]))
    assert attempts(shown(ctl, job.root / "run")) == ends


def test_the_report_of_one_node_hides_no_other(job, ctl):  # noqa: F811
    """--node says which of them stands for the job. The others are not missing."""
    write_reports(job.root / "run", report_of(0), report_of(1, attempt=2))
    text = shown(ctl, "--node", 1, job.root / "run")
    assert ", node 1 of 2\n" in text and "other nodes" not in text
    assert re.search(r"^0 +h0 .*\n1 +h1 ", text, re.M), text


@pytest.mark.parametrize("content, why", [
    ("x", r":1:1: '\[' or '\{' expected near 'x'; the file is damaged; a running pchrun replaces it at the next change of state"),
    ("", r":1:1: .*; the file is damaged; .*"), ("{}", " is not a report of pchrun"),
    ('{"schema": "pchrun.report", "version": "1"}', " is not a report of pchrun"),
    ('{"schema": "pchrun.report", "version": 2}',
     " is a report of version 2, and this pchctl reads only version 1; use the pchctl of that pchrun")],
    ids=["text", "empty", "other", "string", "version"])
@pytest.mark.parametrize("node", [0, 1])
def test_a_report_that_cannot_be_read_hides_no_other(job, ctl, node, content, why):  # noqa: F811
    write_reports(job.root / "run", report_of(0), report_of(1))
    path = job.root / f"run/report.{node}.json"
    path.write_text(content)
    (job.root / "run/report.2.json").write_text("of an older attempt, with more nodes")
    text = shown(ctl, job.root / "run")
    assert f", node {1 - node} of 2\n" in text and "other nodes" not in text
    assert re.search(rf"\nnode {node}: {re.escape(str(path))}{why}\n\nATTEMPT ", text), text
    done = ctl("status", "--node", node, job.root / "run", everywhere=True)
    assert (done.returncode, done.stdout) == (FAILED, "")
    assert re.fullmatch(rf"pchctl: {re.escape(str(path))}{why}\n", done.stderr)


def test_the_terminal_obeys_no_text_of_a_report_in_an_error(job, ctl):  # noqa: F811
    write_reports(job.root / "run", report_of(0, job="run\x1b]0;x\x07\x1b[31m\n7"))
    done = ctl("status", "--job", "run8", job.root / "run", everywhere=True)
    assert (done.returncode, done.stdout) == (FAILED, "")
    assert done.stderr == (f"pchctl: {job.root}/run/report.0.json is the report of job run?]0;x??[31m?7, not of job run8\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
@pytest.mark.parametrize("place", [".", ".pchrun", ".pchrun/report.0.json", ".pchrun/ledger"])
@pytest.mark.parametrize("word", ["status", "goodput", "timeline"])
def test_a_directory_that_this_user_may_not_read(ctl, open_folder, word, place):  # noqa: F811
    folder = open_folder / "job"
    write_reports(folder / ".pchrun", report_of(0))
    (folder / ".pchrun/ledger").write_text("")
    (folder / ".pchrun").chmod(0o700)
    pchctl = shutil.copy(PCHCTL, open_folder)
    done = ctl(word, folder / place, everywhere=True, executable=pchctl, user=65534, group=65534, extra_groups=[], cwd="/")
    assert done.returncode == FAILED
    what = "report" if word == "status" else "ledger"
    assert re.fullmatch(rf"pchctl: cannot look for a {what} in {folder}\S*: Permission denied; run pchctl as the user of the job, "
                        "or as root\n", done.stderr), done.stderr


MOST = 2**63 - 1


@pytest.mark.parametrize("state, more", [("done", {}), ("running", {"round": {"id": MOST, "phase": "decided", "save_step": MOST}})])
def test_the_largest_numbers(job, ctl, state, more):  # noqa: F811
    """Damaged, or made to harm."""
    ranks = [{"rank": rank, "node_rank": 0, "attached": True, "state": "attached", "phase": "train", "step": rank, "saved_step": rank,
              "own_seconds": 1e300, "slow": 1e300} for rank in (MOST, -MOST - 1)]
    large = dict.fromkeys(("attempt", "generation", "save_every_ms", "ranks_expected", "exit_code"), MOST)
    write_reports(job.root / "run", report_of(
        0, **{**large, "state": state, "written": "2262-04-11T23:47:16Z", "commit": {"step": MOST, "at": "1677-09-22T00:00:00Z"},
              "restarts": {"max": MOST, "window_ms": MOST}, "ranks": ranks, **more}), report_of(1, attempt=-MOST - 1))
    (job.root / "run/commit.json").write_text(json.dumps({"commits": [{"step": MOST}]}))
    (job.root / "run/events.0.jsonl").write_text(f'{{"event":"exit","attempt":{MOST},"exit_code":{MOST},"last_step":{MOST}}}\n')
    text = shown(ctl, job.root / "run")
    assert " step 9,223,372,036,854,775,807" in text.splitlines()[0] and f"\nattempt   {MOST}, " in text
    assert re.search(rf"^{MOST} +0 +0 +training +{MOST} ", text, re.M) and "\nsaves " not in text, text
    assert json.loads(shown(ctl, "--json", job.root / "run"))["report"]["attempt"] == MOST


@pytest.mark.parametrize("state, left", [("running", r", \S+ min left"), ("done", "")])
def test_a_notice_of_a_job_that_has_ended(job, ctl, state, left):  # noqa: F811
    """Its deadline is of no interest any more, nor is the next save."""
    now = datetime.datetime.now(datetime.timezone.utc)
    write_reports(job.root / "run", report_of(
        0, nnodes=1, state=state, written=now.isoformat(), save_every_ms=3600000, commit={"step": 7, "at": now.isoformat()},
        notice={"source": "signal", "text": "SIGTERM", "node_rank": 0, "deadline": (now + datetime.timedelta(hours=1)).isoformat()}))
    text = shown(ctl, job.root / "run")
    assert re.search(f"^notice    signal SIGTERM on node 0{left}$", text, re.M), text
    assert ("next" in text) == (state == "running")


def test_a_name_of_a_job_is_no_directory(ctl):  # noqa: F811
    done = ctl("status", "run7", everywhere=True)
    assert done.returncode == FAILED and done.stderr.endswith("DIR; or choose a running job by --job NAME\n")


def test_a_run_dir_is_not_for_files(ctl):  # noqa: F811
    done = ctl("status", "x")
    assert done.returncode == USAGE
    assert done.stderr == "pchctl: status DIR reads files; name the checkpoint directory, and not --run-dir\n"


class Refused(Nodes):
    """Two nodes that share a state directory and keep their reports there."""

    def launch(self, rank, *command, options=(), **more):
        return self.world.launch("--cluster-nodes", self.entries, "--node-rank", rank, "--checkpoint-dir",
                                 self.world.root / "run", *self.options, *options, "--", *command, **more)

    def report(self, rank):
        return json.loads((self.world.root / f"run/.pchrun/report.{rank}.json").read_text())


# --- while the job runs -------------------------------------------------------------------------

# Members that no file has.
LIVE_RANK = {"steps_per_second", "step_age", "step_age_is_least"}
LIVE_NODE = {"name", "connected", "notice", "steps_per_second", "step_age", "heard_age", "why"}
# These are computed anew each time, and differ by a millisecond.
MOMENTS = {"at", "deadline", "written"}


def without_moments(value):
    if isinstance(value, dict):
        return {key: None if key in MOMENTS else without_moments(item) for key, item in value.items()}
    return [without_moments(item) for item in value] if isinstance(value, list) else value


def assert_agree(live, files):
    """Both say the same of all that the files know."""
    assert without_moments(files["report"]) == without_moments(live["report"])
    assert files["host"] == live["host"]
    assert len(files["ranks"]) == len(live["ranks"])
    for told, known in zip(files["ranks"], live["ranks"]):
        assert {key: told[key] for key in known if key not in LIVE_RANK} == {
            key: value for key, value in known.items() if key not in LIVE_RANK}
    assert len(files["nodes"]) == len(live["nodes"])
    for told, known in zip(files["nodes"], live["nodes"]):
        assert told == {key: value for key, value in known.items() if key not in LIVE_NODE}


def lines_of(text):
    """The lines of a status, without ages, speeds, and lines that only a running pchrun or only the files can give."""
    text = text.partition("\n\nATTEMPT")[0]
    cells = re.sub(r"^(\d+ +\d+ +\S+ +\d+) +\S+ +(\S+) +.+? +(\d+)$", r"\1 - \2 - \3", text, flags=re.M)
    ages = re.sub(r"[\d.]+ (m?s|min|h)\b", "TIME", re.sub(r", [\d.e+]+ steps/s", "", cells))
    return [line for line in ages.splitlines() if not re.match("as of |waits for |  +rank ", line)]


def test_the_files_agree_with_the_running_job(training, world, ctl):  # noqa: F811
    """At the same moment, while the job stands: at the start, once all have attached, after a save, with a notice, and at the end."""
    run = training("--report", "{state_dir}/report.{node_rank}.json", "--restart-max", "2", "--checkpoint-every", "10m",
                   "--save-train-on", "--job", "run7", n=2)

    def both():
        """Until no change of the job is on its way to the file."""
        def agreed():
            live, files = ctl.status(), json.loads(shown(ctl, "--json", run.dir))
            try:
                assert_agree(live, files)
            except AssertionError as why:
                agreed.why = why
                return None
            return live, files
        try:
            return wait_until(agreed, "the files to agree", 10)
        except Late:
            raise agreed.why from None

    wait_until(lambda: list(world.tmp.glob("pchrun.*/ctl")), "the socket")
    wait_until((run.dir / ".pchrun/report.0.json").exists, "the report")
    wait_until(lambda: len(ctl.status()["ranks"]) == 2, "the processes")
    both()
    assert shown(ctl, run.dir).startswith("job run7: starting: 0 of 2 ranks have attached\n")
    assert lines_of(shown(ctl, run.dir)) == lines_of(ctl("status").stdout)
    run.open()
    both()
    assert lines_of(shown(ctl, run.dir)) == lines_of(ctl("status").stdout)
    run.train(3)
    ctl("checkpoint", "--wait", 0)
    step = run.save("continue")
    live, files = both()
    assert live["report"]["commit"]["step"] == step and live["ranks"][1]["step"] == step
    text = shown(ctl, run.dir)
    assert text.startswith(f"job run7: training at step {step}, last commit ")
    assert lines_of(text) == lines_of(ctl("status").stdout)
    ctl("drain", "--in", "1h")
    step = run.save("continue", 2)
    live, files = both()
    assert live["report"]["notice"]["source"] == "pchctl" and live["report"]["commit"]["step"] == step
    assert lines_of(shown(ctl, run.dir)) == lines_of(ctl("status").stdout)
    run.done()
    assert run.finish() == 0
    text = shown(ctl, run.dir)
    assert text.startswith("job run7: ended: completed, exit code 0: ") and "waits for" not in text
    assert re.search(rf"^1 +\d+ +done +{step} +- +- +- +{step}$", text, re.M), text


def test_the_files_of_two_nodes(job, ctl):  # noqa: F811
    """They lie in one directory, and tell of each node and rank."""
    two = Refused(job, 2, ["-n", "2"])
    for rank in range(2):
        two.jobs[rank] = two.launch(rank, *job.client("open\nstep 1\n", stays=True))
    wait_until(lambda: len(list(job.tmp.glob("pchrun.*/ctl"))) == 2, "both sockets")
    wait_until(lambda: [rank["step"] for rank in ctl.status()["ranks"]] == 4 * [1], "all to train")
    ctl("checkpoint", "--wait", 0)  # with this the reports change

    def in_files():
        told = json.loads(shown(ctl, "--json", job.root / "run"))
        return [(rank["rank"], rank["step"]) for rank in told["ranks"]] == [(i, 1) for i in range(4)] and told
    told = wait_until(in_files, "all ranks in the reports")
    assert [(node["node_rank"], node["state"], node["ranks_attached"], node["ranks_expected"], node["lowest_step"])
            for node in told["nodes"]] == [(0, "running", 2, 2, 1), (1, "running", 2, 2, 1)]
    text = shown(ctl, job.root / "run")
    assert re.search(r"^1 +\S+ +running +2/2 +1 +- +- +-$", text, re.M), text
    assert "node 0 of 2" in text and "other nodes" not in text and "no connection" not in text

    def without_node_1():  # node 1 may just write its report again
        (job.root / "run/.pchrun/report.1.json").unlink(missing_ok=True)
        return f"\nthe reports of 1 other nodes are not in {job.root}/run/.pchrun\n" in shown(ctl, job.root / "run")
    wait_until(without_node_1, "the report of node 1 to be missed")
    assert ctl("stop").returncode == DONE
    assert two.finish() == STOPPED


def older(line, by_ms):
    """A line of the ledger, written earlier, with its checksum."""
    text = re.sub(r'"at_ms": (\d+)', lambda found: f'"at_ms": {int(found[1]) - by_ms}', line.partition(', "sum": "')[0].rstrip("}"))
    checksum = 0xcbf29ce484222325
    for byte in text.encode():
        checksum = (checksum ^ byte) * 0x100000001b3 % 2**64
    return f'{text}, "sum": "{checksum:016x}"}}\n'


@pytest.mark.killed
def test_the_files_of_a_job_that_is_gone(training, ctl):  # noqa: F811
    """Its machine is lost with it. The ledger, which had a line each minute, tells."""
    run = training("--report", "{state_dir}/report.{node_rank}.json", train=3)
    ctl("checkpoint", "--wait", 0)
    step = run.save("continue")
    run.clients[0].train(step + 4)
    state = run.dir / ".pchrun"
    wait_until(lambda: '"committed"' in (state / "report.0.json").read_text(), "the report")
    wait_until((state / "ledger").exists, "the ledger")
    wait_until(lambda: '"commit"' in (state / "ledger").read_text(), "the ledger")
    run.job.kill()
    run.clients[0].end_input()
    wait_until(lambda: not marked(run.job.mark), "the end of all")
    assert re.match(rf"job cwd: training at step [{step}-{step + 4}], last commit ", shown(ctl, run.dir))
    (state / "ledger").write_text("".join(older(line, 300000) for line in (state / "ledger").read_text().splitlines()))
    report = json.loads((state / "report.0.json").read_text())
    then = datetime.datetime.fromisoformat(report["written"]) - datetime.timedelta(minutes=5)
    (state / "report.0.json").write_text(json.dumps({**report, "written": then.isoformat()}))
    text = shown(ctl, run.dir)
    assert text.startswith("job cwd: gone: it was killed, or its machine is; its last sign is of 5 min ago, at step ")
    assert re.search(rf"^next      resumes at step {step} of ", text, re.M), text
    assert "waits for" not in text
    run.close()


def test_the_ledger_is_newer_than_the_report(job, ctl):  # noqa: F811
    """A job that trains for hours without a save has a line of the ledger each minute, and no new report."""
    state = job.root / "run/.pchrun"
    state.mkdir()
    (state / "report.0.json").write_text(json.dumps({
        "schema": "pchrun.report", "job": "run7", "attempt": 2, "generation": 1, "nnodes": 1, "state": "running", "outcome": "unknown",
        "ranks": [{"rank": 0, "node_rank": 0, "state": "attached", "attached": True, "phase": "start", "step": 0}]}))
    marks = [(1, 0, "training", 99000), (2, 0, "training", 5), (2, 1, "starting", 0), (2, 1, "training", 7), (2, 1, "tick", 48210)]
    now = int(time.time() * 1000) + 1000
    (state / "ledger").write_text("torn " + "".join(older(json.dumps(
        {"at_ms": now, "mono_ms": 1, "attempt": attempt, "generation": generation, "mark": mark, "step": step}), 0)
        for attempt, generation, mark, step in marks) + '{"at_ms": 9')
    text = shown(ctl, job.root / "run")
    assert text.startswith("job run7: training at step 48,210, no commit so far\nattempt   2, generation 1, node 0 of 1\n")
    assert "starting" not in text and re.search(r"^0 +0 +- +0 ", text, re.M), "the rank has begun, its phase is unknown"


@pytest.mark.parametrize("generation, says", [(0, "training at step 7"), (1, "starting at step 7")])
def test_a_report_that_is_newer_than_the_ledger(job, ctl, generation, says):  # noqa: F811
    """It may have been written after the first step, with the ranks as they were read before it."""
    now = datetime.datetime.now(datetime.timezone.utc)
    write_reports(job.root / "run", report_of(
        0, nnodes=1, generation=generation, written=now.isoformat(),
        ranks=[{"rank": 0, "node_rank": 0, "state": "attached", "attached": True, "phase": "start", "step": 7}]))
    (job.root / "run/ledger").write_text(older(json.dumps({
        "at_ms": int(now.timestamp() * 1000) - 9, "mono_ms": 1, "attempt": 2, "generation": 0, "mark": "training", "step": 7}), 0))
    text = shown(ctl, job.root / "run")
    assert text.startswith(f"job run7: {says}, no commit so far\n")
    assert re.search(rf"^0 +0 +{'-' if generation == 0 else 'starting'} +7 ", text, re.M), text


def test_the_watch_of_files(training, ctl):  # noqa: F811
    """It ends when the files tell of the end."""
    run = training("--report", "{state_dir}/report.{node_rank}.json", train=3)
    wait_until((run.dir / ".pchrun/report.0.json").exists, "the report")
    watch = ctl.start("status", run.dir, "--watch", "--interval", "50ms", everywhere=True)
    wait_until(lambda: watch.out.count("job cwd: training") >= 2, "two looks")
    run.done()
    assert run.finish() == 0
    assert watch.finish() == DONE
    assert watch.out.count("job cwd: ended: completed, ") == 1 and watch.err == ""


# --- what a failed start leaves ------------------------------------------------------------------

def test_a_failed_start_keeps_the_report_of_the_last_attempt(job, ctl):  # noqa: F811
    """Node 0 refuses the node, so this start is no attempt of it. The journal has its end."""
    two = Refused(job, 2)
    two.start_all("exit 0")
    assert two.finish() == 0
    before = [two.report(rank) for rank in (0, 1)]
    assert [report["attempt"] for report in before] == [1, 1]

    one = Refused(job, 2, ["--cluster-join-timeout", "5s"], port=two.port)
    one.start(0, "say", "again")
    one.jobs[1] = one.launch(1, job.actor, "say", "again", options=["--checkpoint-every", "77s"])
    for rank in (0, 1):
        assert one.jobs[rank].finish() != 0
    assert not job.events.all("again")
    assert one.report(1) == before[1]
    text = shown(ctl, "--node", 1, job.root / "run")
    assert text.startswith("job cwd: ended: completed, exit code 0: ") and "\nattempt   1, generation 0, node 1 of 2\n" in text
    assert [row[:3] for row in attempts(text)] == [("1", "completed", "0"), ("none", "not_started", "125")]
    assert one.report(0)["attempt"] == 2, "node 0 counts the attempt"


def test_a_failed_start_is_in_the_report_that_the_user_names(job):
    """A script reads this file after each start. It must not find the success of an earlier one."""
    path = job.root / "report.1.json"
    path.write_text('{"outcome": "completed"}')
    one = Nodes(job, 2, ["--cluster-join-timeout", "1s"])
    one.start(1, "say", "started")
    assert one.jobs[1].finish() != 0
    assert one.report(1)["outcome"] == "not_started" and one.report(1)["attempt"] == 0


def test_a_start_whose_directory_is_held_writes_no_report(job):
    holder = attempt(job, "say ready wait")
    path = job.root / "run/.pchrun/report.0.json"
    wait_until(lambda: path.exists() and '"running"' in path.read_text(), "the report")
    before = json.loads(path.read_text())
    late = job.launch("--checkpoint-dir", job.root / "run", "--job", "other", "--checkpoint-lock-wait", "100ms",
                      "--", "true", code=125)
    assert "still holds the state directory" in late.err
    assert without_moments(json.loads(path.read_text())) == without_moments(before) and before["job"] == "cwd"
    assert os.listdir(path.parent).count("report.0.json") == 1
    holder.send(signal.SIGINT)
    holder.finish()
