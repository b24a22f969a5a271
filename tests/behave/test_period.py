# SPDX-License-Identifier: Apache-2.0
"""Saves without a notice: after a number of steps, or a time, since the last commit."""

import json
import re
import signal
import time

import pytest

from harness import DEADLINE, PREEMPTED, at_rest, seconds_of, wait_until, wakeups
from nodes import Nodes, committed, saved_steps, start_training
from pchctl import ctl  # noqa: F401
from training import LAUNCHER


def committed_step(job):
    return (job.report()["commit"] or {}).get("step")


def save(job, step, rounds):
    """The ranks come to that step, and are asked to save it. Before, pchrun must know when to look:
    these ranks make no further step that would show it."""
    job.settle()
    job.train(step - 1)
    assert job.agreed(rounds) == step
    job.serve(step, "continue")
    wait_until(lambda: committed_step(job) == step, "the report of it")


def test_a_crash_costs_no_more_than_a_period(training):
    job = training("--checkpoint-every", "10", n=2, train=0)
    save(job, 10, 1)
    save(job, 20, 2)
    job.train(28)
    job.kill(1)
    assert job.result() == (128 + signal.SIGKILL, "failed", 20)
    job = training("--checkpoint-every", "10", n=2)
    assert job.open(20) == [job.path(20, rank) for rank in range(2)]
    save(job, 30, 1)
    job.complete(30)


@pytest.mark.timing
def test_nobody_looks_before_a_save_is_due(training):
    """pchrun sleeps while thousands of steps are trained. The kernel may wake it now and then, but not in each of
    these stretches."""
    job = training("--checkpoint-every", "9000", start=LAUNCHER, train=1)
    job.said("start: the only rank has attached")
    at_rest(job.job.pid)
    woken = []
    for step in (3000, 6000, 8990):
        before = wakeups(job.job.pid)
        job.train(step)
        woken.append(wakeups(job.job.pid) - before)
    assert 0 in woken and max(woken) <= 2, woken
    save(job, 9000, 1)
    job.complete(9000)


def train_until_asked(client):
    """Trains step by step until the client is asked to save; returns that step."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        client.step += 1
        if client.ask(f"step {client.step}", rf"step {client.step} (continue|save)")[1] == "save":
            return client.step
        time.sleep(0.01)
    raise AssertionError(f"it was not asked to save up to step {client.step}")


@pytest.mark.timing
def test_by_time(training):
    """The save comes at the first step that ends after the period, and not before."""
    job = training("--checkpoint-every", "500ms", n=2)
    first, second = job.clients
    job.open()
    for _ in range(3):
        step = train_until_asked(first)
        second.reach(step)
        job.saved(step, "continue")
    job.complete(step)
    said = job.job.err.splitlines()
    begun = [seconds_of(line) for line in said if "every rank saves" in line]
    ended = [seconds_of(line) for line in said if "is durable on every rank" in line]
    assert len(begun) == len(ended) == 3
    assert all(later - sooner > 0.45 for sooner, later in zip(ended, begun[1:]))


@pytest.mark.timing
def test_nothing_is_saved_while_nobody_trains(training):
    """A long evaluation at the end, or before the first step. Time passes without cost, and the job's
    end reports no failed save."""
    job = training("--checkpoint-every", "50ms", n=2, train=0)
    time.sleep(0.3)
    assert "round:" not in job.job.err
    job.train(1)
    step = job.save("continue")
    time.sleep(0.3)
    job.complete(step)
    assert job.job.err.count("every rank saves") == 1 and "failed" not in job.job.err


def test_what_the_program_saves_by_itself_counts(training):
    job = training("--checkpoint-every", "10", n=2, train=7)
    job.saved(7, "continue")
    save(job, 17, 1)
    job.complete(17)


def test_one_that_fails_ends_nothing(training):
    """The next save is made a period later."""
    job = training("--checkpoint-every", "10", n=2)
    first, second = job.clients
    job.open()
    job.settle()
    job.train(9)
    assert job.agreed() == 10
    job.reach(10)
    first.ask("failed 10 the shelf is full", "failed 10")
    second.ask(f"saved 10 {job.path(10, 1)}", "saved 10 continue")
    job.said("rank 0 could not save step 10: the shelf is full")
    save(job, 20, 2)
    job.complete(20)


def test_a_notice_while_one_is_being_made(training):
    """The save under way becomes the notice's own: there is one save."""
    job = training("--checkpoint-every", "10", n=2, train=0)
    job.settle()
    job.train(9)
    assert job.agreed() == 10
    job.notice(said="notice: SIGTERM")
    job.serve(10, "exit")
    assert job.result() == (PREEMPTED, "preempted", 10)


def test_a_program_that_attaches_far_into_its_training(training):
    """The program has resumed from a checkpoint of its own, so nothing is lost yet."""
    job = training("--checkpoint-every", "10")
    job.clients[0].ask("open first=1000", "open supervised=1 same=1 resume=0 path=-")
    job.clients[0].step = 1000
    save(job, 1010, 1)
    job.complete(1010)


def record(job):
    return json.loads((job.dir / ".pchrun/commit.json").read_text())


def test_a_time_that_pchrun_chooses(training, ctl):  # noqa: F811
    """It is shown before and after the first save, and follows from the record at the next start. An attempt
    that ends without its last save is a failure; one that is preempted, and saves, is none."""
    options = ["--checkpoint-every", "auto", "--signals", "TERM=preempt,USR2=checkpoint"]
    job = training(*options, train=4)
    assert "saves     every 5 min, if no notice comes" in ctl("status").stdout
    assert "auto: every" not in job.job.err
    job.job.send(signal.SIGUSR2)
    job.serve(job.agreed(), "continue")
    job.said(r"save: checkpoint\.every auto: every 5 min \(a save takes .* and a failure comes every 12 h\)")
    assert job.report()["save_every_ms"] == 300_000
    assert (record(job)["failures"], record(job)["ran_ns"] > 0) == (1, True)
    job.kill(0)
    assert job.result()[1] == "failed"

    (job.dir / ".pchrun/commit.json").write_text(json.dumps(
        record(job) | {"save_ns": 40 * 10**9, "ran_ns": 90 * 3600 * 10**9, "failures": 15}))
    job = training(*options, n=1)
    job.open(5)
    job.said(r"save: checkpoint\.every auto: every 21 min \(a save takes 40 s, and a failure comes every 6 h\)")
    assert re.search(r"^saves     every 21(\.\d)? min, if no notice comes(; the next in [\d.]+ min)?$", ctl("status").stdout, re.M)
    job.train(8)
    job.preempt()
    assert job.result()[1] == "preempted"
    assert record(job)["failures"] == 15


def test_on_all_nodes_at_one_step(world):
    """Free-running ranks, and a save every 20 steps. Steps are so slow that every supervisor runs in
    time. A later attempt resumes not far behind."""
    job = Nodes(world, 3)
    start_training(world, job, "--checkpoint-every", "20", step_ms=20)
    steps = [committed(job, count) for count in range(1, 5)]
    assert all(0 < b - a <= 40 for a, b in zip(steps[1:], steps[2:])), steps
    saved = saved_steps(job)
    assert all(saved[step] == 6 for step in steps), saved
    job.jobs[1].send(signal.SIGTERM)
    assert job.finish() == PREEMPTED


def test_the_nodes_agree_on_it(world):
    job = Nodes(world, 2)
    job.launch(0, world.actor, options=["--checkpoint-every", "20"])
    other = job.launch(1, world.actor, options=["--checkpoint-every", "30"])
    assert other.finish() == 125
    assert re.search(r"checkpoint\.every", other.err), other.err
    world.jobs[0].send(signal.SIGINT)
    world.jobs[0].finish()
