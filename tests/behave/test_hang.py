# SPDX-License-Identifier: Apache-2.0
"""A job without progress is found, examined and ended; a job that only looks like it is left alone."""

import os
import re
import signal
import time

import pytest

from harness import SLACK, Tracer, is_alive, wait_until
from nodes import Nodes
from training import LAUNCHER

TRAIN = ("--watchdog-train", "1s")
FOUND = r"watchdog: no rank makes progress: "


def evidence(training, node=0):
    return (training.dir / ".pchrun" / f"hang.{node}.0.txt").read_text()


def test_who_is_behind_is_named(training):
    """Rank 1 does not come back from its fourth step; rank 0 has finished that, and waits for it."""
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


def test_the_users_program_looks_first(training, world):
    """It is run for every rank while it still hangs, and what it prints is kept with the rest."""
    program = world.file("look", '#!/bin/sh\necho "looking at $1 of rank $2"\nkill -0 $1 && echo alive\n'
                                 'echo and more >&2\nexit 3\n')
    program.chmod(0o755)
    config = world.file("c.json", '{"watchdog": {"train": "1s", "diagnose": ["%s", "{pid}", "{rank}"]}}'
                        % program)
    job = training("-c", config, n=2, train=2)
    assert job.job.finish() == 42
    for rank in (0, 1):
        pid = job.pid(rank)
        assert f"'{program}' for process {pid}: exit code 3\n" \
               f"looking at {pid} of rank {rank}\nalive\nand more\n" in evidence(job)


def test_a_program_that_takes_too_long(training, world):
    """It is killed with all that it has started, and the job ends all the same."""
    mark = world.root / "pid"
    program = world.file("look", f"#!/bin/sh\necho begun\nsleep 600 &\necho $! > {mark}\nsleep 600\n")
    program.chmod(0o755)
    job = training(*TRAIN, "--watchdog-diagnose", program, "--watchdog-diagnose-wait", "500ms", train=2)
    assert job.job.finish() == 42
    assert f"'{program}' for process {job.pid(0)}: killed, its time was over\nbegun\n" \
        in evidence(job)
    wait_until(lambda: not is_alive(int(mark.read_text())), "what it started to be gone")


def test_a_program_that_floods(training, world):
    program = world.file("look", "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x\n")
    program.chmod(0o755)
    job = training(*TRAIN, "--watchdog-diagnose", program, train=2)
    assert job.job.finish() == 42
    assert "exit code 0\nxxxxx" in evidence(job)
    assert "(2737856 bytes more were dropped)" in evidence(job)


def test_a_program_that_is_not_there(world):
    job = world.start(world.pchrun, "--watchdog-diagnose", "/no/such", "--", "true", code=125)
    assert "watchdog.diagnose: cannot execute '/no/such'" in job.err


def test_one_that_hangs_alone(training):
    """There are no others that could wait for it."""
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
    script = world.file("script", "open\nstep 1\n")
    job = world.start(world.pchrun, *TRAIN, "--", "sh", "-c",
                      f"(cat {script}; sleep 600) | {world.helpers}/pchclient", code=42)
    assert re.search(r"evidence:   thread \d+ \(pchclient\): state S", job.err)


@pytest.mark.parametrize("count", [2, 3])
def test_several_nodes(world, count):
    """The rank that is behind is on the last node: all nodes report it, and end alike."""
    job = Nodes(world, count, ["-n", "1", "--watchdog-train", "1s", "--state-dir", world.root / "state"])
    for rank in range(count):
        steps = "\n".join(f"step {i}" for i in range(1, 9 - rank))
        script = world.file(f"script{rank}", f"open\n{steps}\n")
        job.jobs[rank] = job.launch(rank, "sh", "-c",
                                    f"(cat {script}; sleep 600) | {world.helpers}/pchclient")
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
        script = world.file(f"script{rank}", "open\nstep 1\nstep 2\n")
        job.jobs[rank] = job.launch(rank, "sh", "-c",
                                    f"(cat {script}; sleep 600) | {world.helpers}/pchclient")
    job.say(1, "attach: rank 1 of 2 is process")
    pid = int(re.search(r"attach: rank 1 of 2 is process (\d+)", job.jobs[1].err)[1])
    wait_until(lambda: "step 2 " in job.jobs[1].out, "a rank that trains")  # its start may last for an hour
    return job, pid


def test_a_debugged_rank_has_the_others_looked_at_once(world):
    """On another node: the job is examined again and again, and stands where it stood."""
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
    """No debugger is there that could let it go on: it has the time of a step, and is named on all nodes,
    though the others stand at the same step."""
    job, pid = trained(world, "--watchdog-train", "2s")
    os.kill(pid, signal.SIGSTOP)
    assert job.finish() == 42
    view = job.agreed()
    assert view["outcome"] == "hang"
    assert re.fullmatch(rf"rank 1 \(process {pid} on node 1, .*\) is behind: it has stood at step 2 for \d+(ms|s), "
                        "phase train; a signal has stopped it, and no debugger is attached", view["why"])
    assert f"process {pid} is stopped by a signal" in job.jobs[1].err
    assert f"rank 1, process {pid} (pchclient): state T" in (world.root / "state" / "hang.1.0.txt").read_text()


def test_a_restart_in_place(world):
    """A hang is a failure like any other: the next generation goes on, and each has its evidence."""
    script = world.file("script", "open\nstep 1\nstep 2\n")
    job = world.start(world.pchrun, *TRAIN, "--restart-max", "1", "--restart-backoff", "0", "--state-dir",
                      world.root / "state", "--", "sh", "-c",
                      f"(cat {script}; sleep 600) | {world.helpers}/pchclient", code=42)
    assert len(re.findall(FOUND, job.err)) == 2 and "restarting in place" in job.err
    for generation in (0, 1):
        assert "rank 0, process " in (world.root / "state" / f"hang.0.{generation}.txt").read_text()


def test_a_program_that_falls_silent(world):
    """It does not attach; that it prints nothing any more is all that can be seen of it."""
    job = world.launch("--logs-dir", world.root / "logs", "--watchdog-silence", "1s",
                       "--watchdog-diagnose-wait", "1s", "--", "sh", "-c", "echo begun; exec sleep 1000", code=42)
    assert re.search(r"end: hang, exit code 42: node 0 .*: its commands have printed nothing for 1(\.\d+)?s$",
                     job.err_lines[-1])


def test_silence_cannot_be_heard_without_logs(world):
    job = world.launch("--watchdog-silence", "1m", "--", "true", code=125)
    assert "watchdog.silence (flag --watchdog-silence) needs logs.dir" in job.err
