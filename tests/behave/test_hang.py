# SPDX-License-Identifier: Apache-2.0
"""A job without progress is found, examined and ended. A job that only looks like it is left alone: a long start, an
evaluation, a debugger, a pause of pchrun itself, a notice; also with a watchdog that is off."""

import json
import os
import re
import signal
import time

import pytest

from harness import SLACK, Tracer, at_rest, commands_of, is_alive, wait_until
from nodes import Nodes
from training import LAUNCHER

TRAIN = ("--watchdog-train", "1s")
FOUND = r"watchdog: no rank makes progress: "


def evidence(training, node=0):
    return (training.dir / ".pchrun" / f"hang.{node}.0.txt").read_text()


def test_who_is_behind_is_named(training):
    """Rank 1 does not come back from its fourth step; rank 0 has finished that step, and waits for rank 1."""
    since = time.monotonic()
    job = training(*TRAIN, "--exit-hang", "77", n=2, train=3)
    job.clients[0].train(4)
    pid = job.pid(1)
    job.said(FOUND + rf"rank 1 \(process {pid} on node 0, .*\) is behind: it has stood at step 3")
    assert 1 <= time.monotonic() - since < 1 + SLACK
    assert job.job.finish() == 77, job.job.err
    report = job.report()
    assert (report["outcome"], report["exit_code"]) == ("hang", 77)
    assert re.fullmatch(rf"rank 1 \(process {pid} on node 0, .*\) is behind: it has stood at step 3 for "
                        r"\d+(ms|s), phase train; the others have come to step 4", report["why"])
    assert report["evidence"] == str(job.dir / ".pchrun" / "hang.0.0.txt")
    assert re.search(rf"watchdog: rank 1, process {pid} \(pchclient\): state S in \w+, at step 3 for ",
                     job.job.err)
    kept = evidence(job)
    assert re.search(rf"^rank 1, process {pid} \(pchclient\): state S.*, phase train$", kept, re.M)
    assert re.search(rf"^  thread {pid} \(pchclient\): state S, cpu \d+\.\d\d s", kept, re.M)
    assert re.search(rf"^rank 0, process {job.pid(0)} ", kept, re.M)


def test_ranks_that_stand_at_one_step(training):
    job = training(*TRAIN, n=2, train=5)
    assert job.job.finish() == 42
    assert "stood at step 5" in job.report()["why"]
    assert job.report()["why"].endswith("phase train, as another rank does")


@pytest.fixture
def look(world):
    """A function that writes a program of the user's which examines a rank."""
    return lambda text: world.file("look", f"#!/bin/sh\n{text}\n", 0o755)


def test_the_users_program_looks_first(training, world, look):
    """The program runs for every rank that still hangs. Its output is kept with the other evidence."""
    program = look('echo "looking at $1 of rank $2"\nkill -0 $1 && echo alive\necho and more >&2\nexit 3')
    config = world.file("c.json", '{"watchdog": {"train": "1s", "diagnose": ["%s", "{pid}", "{rank}"]}}'
                        % program)
    job = training("-c", config, n=2, train=2)
    assert job.job.finish() == 42
    for rank in (0, 1):
        pid = job.pid(rank)
        assert f"'{program}' for process {pid}: exit code 3\n" \
               f"looking at {pid} of rank {rank}\nalive\nand more\n" in evidence(job)


def test_a_program_that_takes_too_long(training, world, look):
    """The program is killed with all its processes, and the job ends as usual."""
    mark = world.root / "pid"
    program = look(f"echo begun\nsleep 600 &\necho $! > {mark}\nsleep 600")
    job = training(*TRAIN, "--watchdog-diagnose", program, "--watchdog-diagnose-wait", "500ms", train=2)
    assert job.job.finish() == 42
    assert f"'{program}' for process {job.pid(0)}: killed, since its time was over\nbegun\n" \
        in evidence(job)
    wait_until(lambda: not is_alive(int(mark.read_text())), "what it started to be gone")


def test_a_program_that_floods(training, look):
    job = training(*TRAIN, "--watchdog-diagnose", look("head -c 3000000 /dev/zero | tr '\\0' x"), train=2)
    assert job.job.finish() == 42
    assert "exit code 0\nxxxxx" in evidence(job)
    assert "(2737856 bytes more were dropped)" in evidence(job)

@pytest.mark.parametrize("options, said", [
    (["--watchdog-diagnose", "/no/such"], "watchdog.diagnose: cannot execute '/no/such'"),
    (["--watchdog-silence", "1m"], "watchdog.silence (flag --watchdog-silence) needs logs.dir")],
    ids=["no such program", "silence without logs"])
def test_options_that_cannot_work(world, options, said):
    assert said in world.launch(*options, "--", "true", code=125).err


def test_one_that_hangs_alone(training):
    """No other rank could wait for this one."""
    job = training("--watchdog-start", "400ms", n=1)
    job.clients[0].open()
    assert job.job.finish() == 42
    assert re.search(r"end: hang, .* is behind: it has stood at step 0 for [4-9]\d\dms, phase start$",
                     job.job.err, re.M)


def test_a_start_that_hangs(training):
    job = training("--watchdog-start", "1s", n=2)
    job.clients[0].open()
    assert job.job.finish() == 42
    assert re.fullmatch(r"node 0 \(.*\): 1 rank has not attached within 1s of the start, and the others wait",
                        job.report()["why"])


def test_a_save_on_demand_that_hangs(training):
    """Only the watchdog gives such a round a deadline. The rank that waits for the round is not to blame."""
    job = training(*TRAIN, "--signals", "USR2=checkpoint", n=2, train=2)
    job.notice(signal.SIGUSR2)
    step = job.agreed()
    job.clients[0].reach(step)
    job.clients[0].tell(f"saved {step} {job.path(step, 0)}")
    assert job.job.finish() == 42
    assert re.match(r"rank 1 \(process \d+ on node 0, .*\) is behind: it has stood at step 2 ",
                    job.report()["why"])


def test_behind_a_launcher(training):
    job = training(*TRAIN, n=2, start=LAUNCHER, train=2)
    job.clients[1].train(3)
    assert job.job.finish() == 42
    assert job.report()["why"].startswith("rank 0 ")
    assert f"process {job.pid(1)} (pchclient)" in evidence(job)


def test_without_a_place_for_it(world):
    """Without a state directory and a report, the log has the evidence."""
    job = world.launch(*TRAIN, "--", *world.client("open\nstep 1\n", stays=True), code=42)
    assert re.search(r"evidence:   thread \d+ \(pchclient\): state S", job.err)


@pytest.mark.parametrize("count", [2, 3])
def test_several_nodes(world, count):
    """The rank that is behind is on the last node: all nodes report it, and end alike."""
    job = Nodes(world, count, ["-n", "1", "--watchdog-train", "1s", "--state-dir", world.root / "state"])
    for rank in range(count):
        steps = "".join(f"step {i}\n" for i in range(1, 9 - rank))
        job.jobs[rank] = job.launch(rank, *world.client(f"open\n{steps}", stays=True))
    assert job.finish() == 42
    view = job.agreed()
    assert view["outcome"] == "hang"
    assert re.fullmatch(rf"rank {count - 1} \(process \d+ on node {count - 1}, .*\) is behind: it has stood "
                        rf"at step {9 - count} for \d+(ms|s), phase train; the others have come to step 8",
                        view["why"])
    for rank in range(count):
        kept = (world.root / "state" / f"hang.{rank}.0.txt").read_text()
        assert f"\nrank {rank}, process " in kept


def trained(world, *options):
    """Two nodes of one rank each, both of which stand at step 2; returns them and rank 1's process."""
    job = Nodes(world, 2, ["-n", "1", "-v", "--state-dir", world.root / "state", *options])
    for rank in range(2):
        job.jobs[rank] = job.launch(rank, *world.client("open\nstep 1\nstep 2\n", stays=True))
    job.say(1, "attach: rank 1 of 2 is process")
    pid = int(re.search(r"attach: rank 1 of 2 is process (\d+)", job.jobs[1].err)[1])
    wait_until(lambda: "step 2 " in job.jobs[1].out, "a rank that trains")  # a start may last for an hour
    return job, pid


def test_a_debugged_rank_has_the_others_looked_at_once(world):
    """The debugged rank is on another node. The job is examined again and again, and makes no step."""
    job, pid = trained(world, "--watchdog-train", "2s")
    debugger = Tracer(pid)
    debugger.stop()
    wait_until(lambda: job.jobs[0].err.count("no rank makes progress") >= 3, "three examinations")
    assert job.jobs[0].err.count("the evidence is in") == 1, job.jobs[0].err
    assert job.jobs[1].err.count(f"process {pid} is stopped by a debugger: no hang") == 1
    debugger.detach()
    assert job.finish() == 42
    assert "hang" in job.agreed()["outcome"]


def test_a_stopped_rank_is_a_hang(world):
    """No debugger could continue the stopped rank. It has the time of a step, and all nodes name it, though other
    ranks stand at the same step."""
    job, pid = trained(world, *PATIENT)
    os.kill(pid, signal.SIGSTOP)
    assert job.finish() == 42
    view = job.agreed()
    assert view["outcome"] == "hang"
    assert re.fullmatch(rf"rank 1 \(process {pid} on node 1, .*\) is behind: it has stood at step 2 for \d+(ms|s), "
                        "phase train; a signal has stopped it, and no debugger is attached", view["why"])
    assert f"process {pid} is stopped by a signal" in job.jobs[1].err
    assert f"rank 1, process {pid} (pchclient): state T" in (world.root / "state" / "hang.1.0.txt").read_text()


def test_a_restart_in_place(world):
    """A hang is a failure like any other: the next generation goes on, and each hang has its evidence. The report
    names it as the last failure."""
    job = world.launch(*TRAIN, "--restart-max", "1", "--restart-backoff", "0", "--state-dir", world.root / "state",
                       "--", *world.client("open\nstep 1\nstep 2\n", stays=True), code=42)
    report = json.loads((world.root / "state" / "report.0.json").read_text())
    cause = report["restarts"]["last_cause"]
    assert report["first_cause"] is None and (cause["node_rank"], cause["rank"]) == (0, 0), report
    assert report["why"].startswith(cause["text"] + "; not restarted: ") and cause["code"] == 42 and cause["at"] <= report["written"], report
    assert len(re.findall(FOUND, job.err)) == 2 and "restarting in place" in job.err
    for generation in (0, 1):
        assert "rank 0, process " in (world.root / "state" / f"hang.0.{generation}.txt").read_text()


def test_a_program_that_falls_silent(world):
    """The program does not attach. Its missing output is the only sign of the hang."""
    job = world.launch("--logs-dir", world.root / "logs", "--watchdog-silence", "1s",
                       "--watchdog-diagnose-wait", "1s", "--", "sh", "-c", "echo begun; exec sleep 1000", code=42)
    assert re.search(r"end: hang, exit code 42: node 0 .*: its commands have printed nothing for 1(\.\d+)?s$",
                     job.err_lines[-1])


# --- what is no hang ------------------------------------------------------------------------------

# A rank of these tests must make its steps within this limit, and the test sees what happens when it is over.
LIMIT_S = 4
OVER_S = LIMIT_S + 0.7
PATIENT = ("--watchdog-train", f"{LIMIT_S}s")
EXAMINED = "no rank makes progress"


@pytest.mark.timing
@pytest.mark.parametrize("options", [(*PATIENT, "--watchdog-mode", "off"), ()], ids=["off", "on"])
def test_it_causes_no_wake_ups(training, options):
    """The watchdog that is switched off, and the one whose limit is far."""
    job = training(*options, train=2)
    at_rest(job.job.pid, LIMIT_S + 1)
    assert "watchdog" not in job.job.err
    job.complete()


@pytest.mark.timing
def test_only_told(training):
    """With mode log the job is left alone, reported once, and goes on. The watchdog learns this pause."""
    job = training(*PATIENT, "--watchdog-mode", "log", train=2)
    job.said(r"watchdog: hang: rank 0 .*; the job is left as it is \(watchdog.mode is log\)")
    time.sleep(0.5)
    assert len(re.findall(EXAMINED, job.job.err)) == 1
    assert "rank 0" in (job.dir / ".pchrun" / "hang.0.0.txt").read_text()
    job.train(5)
    job.said("watchdog: the job is not stuck: it goes on")
    time.sleep(OVER_S)
    assert len(re.findall(EXAMINED, job.job.err)) == 1
    job.complete()


@pytest.mark.timing
def test_the_first_step_may_take_long(training):
    """Compiling, reading, resuming: the first step has a limit of its own."""
    job = training(*PATIENT, "--watchdog-start", "1m", train=0)
    time.sleep(OVER_S)
    assert "watchdog" not in job.job.err
    job.train(1)
    assert job.job.finish() == 42
    assert "stood at step 1 for" in job.report()["why"]


@pytest.mark.timing
def test_a_phase_has_its_own_limit(training):
    """One rank evaluates, and says so; the other waits for it, much longer than a step may take."""
    job = training(*PATIENT, "--watchdog-eval", "15s", "--watchdog-factor", "1", n=2, train=2)
    job.clients[0].ask("phase 2", "phase.*")
    time.sleep(OVER_S)
    assert "watchdog" not in job.job.err
    job.train(3)
    job.clients[1].ask("phase 2", "phase.*")
    pid = job.pid(1)
    assert job.job.finish() == 42
    assert re.search(rf"^rank 1 \(process {pid} .*stood at step 3 for \d+(ms|s), phase eval; the others "
                     r"wait at that step$", job.report()["why"])


@pytest.mark.timing
def test_pauses_that_recur(training):
    """A program that pauses for evaluations: the watchdog learns its pauses."""
    job = training(*PATIENT, train=2)
    time.sleep(LIMIT_S / 2)
    job.train(3)
    time.sleep(OVER_S)  # well within five times that
    assert "watchdog" not in job.job.err
    job.complete()


@pytest.mark.timing
def test_stopped_by_a_debugger(training):
    """The log says so once, and nothing else happens, however long it takes. The same holds if a signal has also
    stopped the process."""
    job = training(*PATIENT, "--log-level", "notice", train=2)  # with -v the later looks are in the log, too
    pid, = commands_of(job.job.pid)
    debugger = Tracer(pid)
    debugger.stop()
    os.kill(pid, signal.SIGSTOP)
    job.said(rf"watchdog: process {pid} is stopped by a debugger: no hang")
    time.sleep(OVER_S)
    assert [job.job.err.count(text) for text in (EXAMINED, "is stopped", "not stuck", "end:")] == [
        1, 1, 1, 0]
    os.kill(pid, signal.SIGCONT)
    debugger.detach()
    job.train(4)
    job.complete()
    assert not (job.dir / ".pchrun" / "hang.0.0.txt").exists()


@pytest.mark.timing
def test_our_own_absence(training):
    """pchrun or the whole machine was stopped: the ranks' silence in that time means nothing."""
    job = training(*PATIENT, train=2)
    job.job.send(signal.SIGSTOP)
    time.sleep(OVER_S)
    job.job.send(signal.SIGCONT)
    job.train(3)
    job.said("pchrun did not run for")
    job.complete()
    assert EXAMINED not in job.job.err


def test_a_notice_has_its_own_deadline(training):
    """A rank that does not come to the save step is late, and not found to hang."""
    job = training(*PATIENT, "--grace", "3s", n=2, train=2)
    job.notice()
    job.agreed()
    assert job.job.finish() == 42
    assert job.report()["outcome"] == "preempted_unsaved"
    assert "watchdog" not in job.job.err

