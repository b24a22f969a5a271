# SPDX-License-Identifier: Apache-2.0
"""pchctl report: how a job ended, from the files that it left."""

import json
import os
import re
import signal

import pytest

from harness import PREEMPTED, marked, wait_until
from nodes import Nodes
from pchctl import ctl  # noqa: F401

DONE, FAILED, USAGE = 0, 1, 2


def shown(ctl, *words, **more):  # noqa: F811
    done = ctl("report", *words, everywhere=True, **more)
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
    assert re.fullmatch(r"cause     node 0 \(.+\): process \d+ ended with signal 11 .*", lines[2]), lines[2]
    assert "commit    none" in lines
    assert "next" not in text, "the program may resume by itself"
    assert attempts(text) == [("1", "completed", "0", "0"), ("2", "failed", "139", "0")]


def test_the_last_lines_of_the_process_that_failed(job, ctl):  # noqa: F811
    """One line each, and none obeyed by the terminal."""
    job.launch("--checkpoint-dir", job.root / "run", "--logs-dir", job.root / "logs", "-n", "2", "--", "sh", "-c",
               "[ $PCH_RANK = 1 ] || exec sleep 30; printf 'one\\ntwo\\033[2J\\n' >&2; exit 3", code=3)
    text = shown(ctl, job.root / "run")
    assert re.search(r"^cause     node 0 \(.+\), rank 1: process \d+ ended with exit code 3\n"
                     r"          \| one\n          \| two\?\[2J\ncommit    none$", text, re.M), text


def test_where_the_next_attempt_begins(training, ctl):  # noqa: F811
    run = training("--report", "{state_dir}/report.{node_rank}.json", n=2, train=3)
    step = run.preempt()
    assert run.job.finish() == PREEMPTED
    text = shown(ctl, run.dir)
    assert re.search(rf"^commit    step {step}, .* ago\n          {re.escape(run.path(step, 0))}\n"
                     rf"next      resumes at step {step} of {re.escape(run.path(step, 0))}$", text, re.M), text
    assert attempts(text) == [("1", "preempted", "42", str(step))]
    run.close()


def test_a_report_that_is_elsewhere(training, ctl):  # noqa: F811
    """The file of --report may be far from the record, so where the next attempt begins is not known there."""
    run = training(train=3)
    step = run.preempt()
    assert run.finish() == PREEMPTED
    text = shown(ctl, run.report_path)
    assert f"\ncommit    step {step}, " in text and "\nnext " not in text and attempts(text) == []


def test_the_whole_file(job, ctl):  # noqa: F811
    attempt(job, "exit 7", code=7)
    path = job.root / "run/.pchrun/report.0.json"
    assert shown(ctl, "--json", job.root / "run") == path.read_text()
    assert json.loads(path.read_text())["exit_code"] == 7


@pytest.mark.parametrize("place", ["run", "run/.pchrun", "run/.pchrun/report.0.json"])
def test_the_place_may_be_any_of_these(job, ctl, place):  # noqa: F811
    attempt(job, "exit 7", code=7)
    assert attempts(shown(ctl, job.root / place)) == [("1", "failed", "7", "0")]


@pytest.mark.parametrize("name, place", [("PCHRUN_CHECKPOINT_DIR", "run"), ("PCHRUN_STATE_DIR", "run/.pchrun"),
                                         (None, "run")])
def test_without_a_place(job, ctl, name, place):  # noqa: F811
    """The variables of pchrun, then the current directory."""
    attempt(job, "exit 7", code=7)
    where = {"env": {name: str(job.root / place)}} if name else {"cwd": job.root / place}
    assert "job cwd: ended: failed, exit code 7: " in shown(ctl, **where)


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
    assert "\nended     not so far: it still runs (see pchctl status), or was killed\n" in text
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
    done = ctl("report", "--node", 4, job.root / "run", everywhere=True)
    assert done.returncode == FAILED and "no report of node 4 is in " in done.stderr
    done = ctl("report", "--job", "run8", job.root / "run", everywhere=True)
    assert done.returncode == FAILED and done.stderr.endswith("is the report of job run7, not of job run8\n")


@pytest.mark.parametrize("content, why", [
    ("x", "report.0.json:1:1: "), ("{}", "is not a report of pchrun"), ("[" * 99999, "report.0.json:1:"),
    (None, "give the job's checkpoint.dir or state_dir, or the file of --report: pchctl report DIR")],
    ids=["text", "other", "deep", "none"])
def test_what_is_no_report(job, ctl, content, why):  # noqa: F811
    if content:
        (job.root / "run/report.0.json").write_text(content)
    done = ctl("report", job.root / "run", everywhere=True)
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


def test_a_run_dir_is_not_for_files(ctl):  # noqa: F811
    done = ctl("report")
    assert done.returncode == USAGE and "name the checkpoint directory, not --run-dir" in done.stderr


# --- what a failed start leaves ------------------------------------------------------------------

class Refused(Nodes):
    """Two nodes that share a state directory and keep their reports there."""

    def launch(self, rank, *command, options=(), **more):
        return self.world.launch("--cluster-nodes", self.entries, "--node-rank", rank, "--checkpoint-dir",
                                 self.world.root / "run", *self.options, *options, "--", *command, **more)

    def report(self, rank):
        return json.loads((self.world.root / f"run/.pchrun/report.{rank}.json").read_text())


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
    before = path.read_text()
    late = job.launch("--checkpoint-dir", job.root / "run", "--job", "other", "--checkpoint-lock-wait", "100ms",
                      "--", "true", code=125)
    assert "still holds the state directory" in late.err
    assert path.read_text() == before
    assert os.listdir(path.parent).count("report.0.json") == 1
    holder.send(signal.SIGINT)
    holder.finish()
