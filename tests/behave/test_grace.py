# SPDX-License-Identifier: Apache-2.0
"""The time that a notice leaves: the job saves at once, trains on, saves again at the last safe
moment, and leaves before the deadline; or saves once, where there is no time for two."""

import json
import re
import signal
import time

import pytest

from harness import APART, CHARLM, PREEMPTED, seconds_of, wait_until
from nodes import Nodes, committed, start_training
from pchctl import ctl  # noqa: F401

TRAINS_ON = "--save-train-on"
AUTO = {"PCHRUN_SAVE_TRAIN_ON": "auto"}  # the default, which the other tests replace
GUESS = (r"notice: the deadline is a guess \(25 s\), so the job saves and leaves at once; "
         r"to train on set grace or save\.train_on$")
KNOWN = (r"notice: the deadline is known \({}\), so the job trains on if there is time; "
         r"with save\.train_on false it saves and leaves at once$")


def between(lines, first, last, nth=1):
    """The lines from the first one with `first` to the nth one with `last`."""
    begin = next(line for line in lines if first in line)
    end = [line for line in lines if last in line][nth - 1]
    return (seconds_of(end) - seconds_of(begin)) % 86400


@pytest.mark.timing
def test_a_grace_of_20_seconds_is_trained_through(world):
    """Steps of 0.1 s and saves of 1 s: two commits, and more than 13 s of training. The first attempt does not know
    how long the end takes, and keeps 2 s for it."""
    folder = world.root / "checkpoints"
    job = world.start(world.pchrun, "-v", TRAINS_ON, "--grace", "20s", "--checkpoint-dir", folder, "--",
                      CHARLM, "--steps", "100000", "--log-every", "1", "--step-time", "100",
                      "--save-time", "1000", "--dir", folder)
    wait_until(lambda: "step 5 " in job.out, "step 5")
    job.end_by(signal.SIGTERM, PREEMPTED, 30)
    lines = [line for line in job.err.splitlines() if line.startswith("pchrun ")]
    assert len(re.findall(r"commit: step \d+ is durable on every rank", job.err)) == 2, job.err
    trained = between(lines, "every rank saves", "every rank saves", nth=2) - 1
    assert trained > 13, job.err
    assert between(lines, "notice: SIGTERM", "end: ") < 20
    saved = [int(step) for step in re.findall(r"every rank saves step (\d+)", job.err)]
    assert f"saved and committed at step {saved[1]}" in lines[-1]


def train(training, *options):
    """Two ranks that have trained five steps, and a notice; returns the job and the save step."""
    job = training(TRAINS_ON, *options, n=2, train=5)
    job.notice()
    return job, job.agreed()


@pytest.mark.parametrize("options, goodbye, outcome", [
    ("", "exit 0", (0, "completed")),
    ("", "close", (0, "completed")),
    ("last=20", "exit 0", (0, "completed")),
    ("last=21", "exit 0", (PREEMPTED, "preempted_unsaved")),
    ("bare=1", "exit 0", (PREEMPTED, "preempted_unsaved")),
    ("bare=1", "done", (0, "completed")),
], ids=["exit", "close", "at-its-last-step", "before-its-last-step", "own-handler", "done"])
def test_a_training_that_ends_while_a_notice_holds(training, options, goodbye, outcome):
    """A notice far ahead, like Slurm's time limit, must not requeue a job whose program returns 0 after its
    last step. A 0 is doubted only if the program may have left because of the notice."""
    job = training(TRAINS_ON, "--grace", "10m")
    (rank,) = job.clients
    rank.open(options)
    job.train(5)
    job.notice()
    step = job.save("continue")
    job.train(20)
    rank.tell(goodbye)
    assert job.result() == (*outcome, step)


def save_slowly(job, step, seconds, then):
    """One rank saves in `seconds`. The next save needs as much, and may itself be late by as much."""
    first, second = job.clients
    first.tell(f"saved {step} {job.path(step, 0)}")
    time.sleep(seconds)  # the save of the other rank takes this long
    second.tell(f"saved {step} {job.path(step, 1)}")
    first.expect(f"saved {step} {then}")
    second.expect(f"saved {step} {then}")


@pytest.fixture
def saved(training):
    """A function that saves slowly after a notice that leaves 6 s; returns the job and the step."""
    def save(seconds, then):
        job, step = train(training, "--grace", "6s")
        job.reach(step)
        job.said("SIGTERM, 6 s left")
        save_slowly(job, step, seconds, then)
        return job, step
    return save


@pytest.mark.timing
def test_the_first_save_does_not_end_the_training(saved):
    """The last save begins by itself, and in time."""
    job, step = saved(1, "continue")
    job.said("the training goes on for [0-9.]+ s, and saves once more before the deadline")
    job.train(step + 3)
    job.leave(2)


@pytest.mark.timing
def test_a_last_save_that_takes_too_long(saved):
    """The first save counts, and the log names the save that failed."""
    job, step = saved(1, "continue")
    job.train(step + 3)
    last = job.agreed(rounds=2)
    job.reach(last)
    job.said("not all ranks saved")
    assert job.result() == (PREEMPTED, "preempted_unsaved", step)
    assert job.job.err_lines[-1].endswith("not all ranks saved: node 0 (0 of 2 ranks)")
    assert f" next: the next start resumes at step {step} of " in job.job.err_lines[-2]


@pytest.mark.timing
def test_a_first_save_that_leaves_no_time_for_another(saved):
    job, step = saved(3, "exit")
    assert job.result() == (PREEMPTED, "preempted", step)


@pytest.mark.timing
def test_how_long_saves_take_is_remembered(training, saved):
    """The next attempt knows without having saved that the grace is too short for two."""
    job, step = saved(3, "exit")
    assert job.result() == (PREEMPTED, "preempted", step)
    job = training(TRAINS_ON, "--grace", "6s", n=2)
    job.open(step)
    job.train(step + 5)
    job.notice()
    assert job.said(r"every rank saves step (\d+), then leaves")
    job.leave()


@pytest.mark.parametrize("end", ["signal", "done", "failure"])
def test_what_ends_the_training_in_the_grace(training, end):
    """A second signal ends the training, or a rank finishes or fails. The next attempt resumes from the first save,
    so even a failed job counts as preempted."""
    job, step = train(training, "--grace", "60s")
    job.serve(step, "continue")
    job.train(step + 3)
    if end == "signal":
        time.sleep(APART)
        job.notice(said="SIGTERM again: saving now, without more training")
        job.leave(2)
    elif end == "done":
        job.complete(step)
    else:
        job.kill(1)
        assert job.result() == (PREEMPTED, "preempted_unsaved", step)


@pytest.mark.parametrize("option", ["--no-save-train-on", "--save-train-on=false"])
def test_who_shall_not_train_on(training, option):
    job = training(option, "--grace", "60s", n=2, train=5)
    job.notice()
    job.leave()


@pytest.mark.parametrize("options", [
    [], ["--preset", "kubernetes"], ["--signals", "TERM=preempt"],
], ids=["nothing", "kubernetes", "no-grace"])
def test_by_a_guess_the_job_leaves_at_once(training, options):
    """docker stop kills after 10 s, and a Spot node of GKE after 15: by the built-in 25 s the job would train on until
    it is killed, and lose its exit code. 42 and a commit come before that."""
    job = training(*options, n=2, train=5, env=AUTO)
    began = time.monotonic()
    job.notice()
    job.leave()
    job.said(GUESS)
    assert time.monotonic() - began < 10, "docker stop would have killed it"


@pytest.mark.parametrize("options, left", [
    (["--grace", "60s"], "60 s"), (["--signals", "TERM=preempt:60s"], "60 s"),
    (["--preset", "slurm", "--notices", "none"], "25 s"),
], ids=["grace", "signals", "slurm"])
def test_up_to_a_known_deadline_the_job_trains_on(training, options, left):
    """The user, or the preset of the platform, says how much time the signal leaves."""
    job = training(*options, n=2, train=5, env=AUTO)
    job.notice()
    step = job.save("continue")
    job.said(KNOWN.format(left))
    job.said("the training goes on for")
    job.train(step + 3)
    time.sleep(APART)
    job.notice(said="SIGTERM again: saving now, without more training")
    job.leave(2)


def test_a_deadline_that_a_notice_names_is_known(training, ctl):
    """Then a SIGTERM comes, without a configuration: its earlier deadline decides, and that is a guess."""
    job = training(n=2, train=5, env=AUTO)
    assert ctl("drain", "--in", "60s").returncode == 0
    step = job.save("continue")
    job.said(KNOWN.format(r"(5\d(\.\d+)?|60) s"))
    job.train(step + 3)
    job.notice()
    job.said(GUESS)
    job.leave(2)


def test_a_guess_that_the_user_trusts(training):
    job = training(TRAINS_ON, n=2, train=5)
    job.notice()
    job.said(r"the deadline is a guess \(25 s\), but save.train_on is true, so the job trains on$")
    step = job.save("continue")
    job.train(step + 3)
    time.sleep(APART)
    job.notice(said="SIGTERM again: saving now, without more training")
    job.leave(2)


@pytest.mark.parametrize("knows", [True, False], ids=["known", "guess"])
def test_the_node_with_the_notice_knows_its_deadline_or_not(world, knows):
    """Only node 1 is told how long its grace is. The notice that decides is of this node, or of node 0."""
    job = Nodes(world, 2, ["--save-train-on=auto"])
    start_training(world, job, envs={1: {"PCHRUN_GRACE": "20s"}})
    job.jobs[knows].send(signal.SIGTERM)
    job.say(0, "the deadline is known" if knows else "the deadline is a guess")
    if knows:
        committed(job, 2)
        time.sleep(APART)
        job.jobs[1].send(signal.SIGTERM)
    assert job.finish() == PREEMPTED
    assert job.jobs[0].err.count("is durable on every rank") == (3 if knows else 2), job.jobs[0].err
    last = committed(job, 3 if knows else 2)
    assert [job.report(rank)["commit"]["step"] for rank in (0, 1)] == [last, last]


@pytest.mark.timing
@pytest.mark.parametrize("fast, slow", [((400, 5), (420, 1000)), ((20000, 0), (20020, 500))])
def test_a_pace_that_drops_before_the_notice(world, fast, slow):
    """Steps of 5 ms or of microseconds, then an evaluation or a throttled accelerator, then the notice. Both ranks go
    on training, so there is a step that both can save. The save step is near, however late this test hears of the
    drop."""
    began = time.monotonic()
    client = world.client(f"open\ntrain 0 {fast[0]} {fast[1]}\nnotice\n"
                          f"train {fast[0]} {slow[0]} {slow[1]} {world.root}\n")
    job = world.launch("-v", TRAINS_ON, "-n", "2", "--grace", "10s", "--checkpoint-dir", world.root / "run", "--",
                       *client)
    wait_until(lambda: job.out.count("notice") == 2, "the pace has dropped")
    job.send(signal.SIGTERM)
    slow_steps = int((time.monotonic() - began) / (slow[1] / 1000))
    assert job.finish(30) == PREEMPTED, job.err
    steps = [int(step) for step in re.findall(r"every rank saves step (\d+)", job.err)]
    committed = [int(step) for step in re.findall(r"commit: step (\d+) is durable", job.err)]
    assert committed == steps and fast[0] < steps[0] <= fast[0] + slow_steps + 3, job.err
    assert "end: preempted, exit code 42: saved and committed" in job.err


@pytest.mark.timing
def test_the_last_save_leaves_time_to_end(world):
    """A program that uses a GPU takes a second and more to end after its last save. Without time for that, each
    preemption ended in SIGKILL. The first attempt does not know the time yet. The second one does, so it leaves this
    time, and hardly more: the rest belongs to the training."""
    folder, grace, step = world.root / "checkpoints", 8, 0
    record = folder / ".pchrun/commit.json"
    for _ in range(2):
        client = world.client(f"open\ntrain {step} {step + 5} 20\nnotice\n"
                              f"train {step + 5} 100000 20 {world.root} 100\npause 1500\n")
        job = world.start(world.pchrun, "-v", TRAINS_ON, "-n", "2", "--grace", f"{grace}s", "--checkpoint-dir", folder,
                          "--", *client)
        wait_until(lambda: job.out.count("notice") == 2, "the training")
        job.end_by(signal.SIGTERM, PREEMPTED, 30)
        assert "SIGKILL" not in job.err, job.err
        known = json.loads(record.read_text())
        took, step = known["end_ns"] / 1e9, known["commits"][-1]["step"]
        assert 1.5 <= took < 2, job.err
    lines = [line for line in job.err.splitlines() if line.startswith("pchrun ")]
    left = grace - between(lines, "notice: SIGTERM", "is durable on every rank", nth=2)
    assert 1.5 * 8 / 7 <= left < took * 8 / 7 + 1, job.err
