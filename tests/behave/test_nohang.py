# SPDX-License-Identifier: Apache-2.0
"""These only look like a hang: a long start, an evaluation, a debugger, a pause of pchrun itself, a notice. The
job is left alone; also with a watchdog that is off."""

import os
import re
import signal
import time

from harness import Tracer, status_of, wait_until
from training import Training

TRAIN = ("--watchdog-train", "2s")
FOUND = "no rank makes progress"


def woken(training):
    return int(status_of(training.job.pid)["voluntary_ctxt_switches"])


def at_rest(training):
    """How often it was woken until it was not any more: what comes after the start is done."""
    def rests():
        before = woken(training)
        time.sleep(0.5)
        return before if woken(training) == before else None
    return wait_until(rests, "pchrun to rest")


def test_it_can_be_switched_off(training):
    """The switched-off watchdog causes no wake-up."""
    job = training(*TRAIN, "--watchdog-mode", "off", train=2)
    before = at_rest(job)
    time.sleep(1.5)
    assert woken(job) == before
    assert "watchdog" not in job.job.err
    job.complete()


def test_only_told(training):
    """With mode log the job is left alone, reported once, and goes on. The watchdog learns this pause."""
    job = training(*TRAIN, "--watchdog-mode", "log", train=2)
    job.said(r"watchdog: hang: rank 0 .*; the job is left as it is \(watchdog.mode is log\)")
    time.sleep(0.5)
    assert len(re.findall(FOUND, job.job.err)) == 1
    assert "rank 0" in (job.dir / ".pchrun" / "hang.0.0.txt").read_text()
    job.train(5)
    job.said("watchdog: the job is not stuck: it goes on")
    time.sleep(2.7)
    assert len(re.findall(FOUND, job.job.err)) == 1
    job.complete()


def test_the_first_step_may_take_long(training):
    """Compiling, reading, resuming: it has a limit of its own."""
    job = training(*TRAIN, "--watchdog-start", "1m", train=0)
    time.sleep(2.7)
    assert "watchdog" not in job.job.err
    job.train(1)
    assert job.job.finish() == 42
    assert "stood at step 1 for" in job.report()["why"]


def test_a_phase_has_its_own_limit(training):
    """One rank evaluates, and says so; the other waits for it, much longer than a step may take."""
    job = training(*TRAIN, "--watchdog-eval", "6s", "--watchdog-factor", "1", n=2, train=2)
    job.clients[0].ask("phase 2", "phase.*")
    time.sleep(2.7)
    assert "watchdog" not in job.job.err
    job.train(3)
    job.clients[1].ask("phase 2", "phase.*")
    pid = job.pid(1)
    assert job.job.finish() == 42
    assert re.search(rf"^rank 1 \(process {pid} .*stood at step 3 for \d+(ms|s), phase eval; the others "
                     r"wait at that step$", job.report()["why"])


def test_pauses_that_recur(training):
    """A program that pauses for evaluations: the watchdog learns its pauses."""
    job = training(*TRAIN, train=2)
    time.sleep(1)
    job.train(3)
    time.sleep(3)  # well within five times that
    assert "watchdog" not in job.job.err
    job.complete()


def test_stopped_by_a_debugger(training):
    """Said once, and nothing else happens however long it takes; also where a signal has stopped it, too."""
    job = training(*TRAIN, train=2)
    pid = job.pid(0)
    debugger = Tracer(pid)
    debugger.stop()
    os.kill(pid, signal.SIGSTOP)
    job.said(rf"watchdog: process {pid} is stopped by a debugger: no hang")
    time.sleep(2.7)
    assert [job.job.err.count(text) for text in (FOUND, "is stopped", "not stuck", "end:")] == [
        1, 1, 1, 0]
    os.kill(pid, signal.SIGCONT)
    debugger.detach()
    job.train(4)
    job.complete()
    assert not (job.dir / ".pchrun" / "hang.0.0.txt").exists()


def test_our_own_absence(training):
    """pchrun or the whole machine was stopped: the ranks' silence in that time means nothing."""
    job = training(*TRAIN, train=2)
    job.job.send(signal.SIGSTOP)
    time.sleep(3)
    job.job.send(signal.SIGCONT)
    job.train(3)
    job.said("pchrun did not run for")
    job.complete()
    assert FOUND not in job.job.err


def test_a_notice_has_its_own_deadline(training):
    """A rank that does not come to the save step is late, and not found to hang."""
    job = training(*TRAIN, "--grace", "3s", n=2, train=2)
    job.notice()
    job.agreed()
    assert job.job.finish() == 42
    assert job.report()["outcome"] == "preempted_unsaved"
    assert "watchdog" not in job.job.err


def test_no_wake_ups(world):
    """The watchdog wakes pchrun only a few times within its limit."""
    training = Training(world)
    training.open()
    training.train(2)
    before = at_rest(training)
    time.sleep(1.5)
    assert woken(training) == before
    training.done()
    assert training.finish() == 0
