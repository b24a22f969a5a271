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


def train(training, to):
    training.open()
    training.train(to)


def woken(training):
    return int(status_of(training.job.pid)["voluntary_ctxt_switches"])


def at_rest(training):
    """How often it was woken until it was not any more: what comes after the start is done."""
    def rests():
        before = woken(training)
        time.sleep(0.5)
        return before if woken(training) == before else None
    return wait_until(rests, "pchrun to rest")


def test_it_can_be_switched_off(world):
    """The switched-off watchdog causes no wake-up."""
    training = Training(world, *TRAIN, "--watchdog-mode", "off")
    train(training, 2)
    before = at_rest(training)
    time.sleep(1.5)
    assert woken(training) == before
    assert "watchdog" not in training.job.err
    training.done()
    assert training.finish() == 0


def test_only_told(world):
    """With mode log the job is left alone, reported once, and goes on. The watchdog learns this pause."""
    training = Training(world, *TRAIN, "--watchdog-mode", "log")
    train(training, 2)
    training.said(r"watchdog: hang: rank 0 .*; the job is left as it is \(watchdog.mode is log\)")
    time.sleep(0.5)
    assert len(re.findall(FOUND, training.job.err)) == 1
    assert "rank 0" in (training.dir / ".pchrun" / "hang.0.0.txt").read_text()
    training.train(5)
    training.said("watchdog: the job is not stuck: it goes on")
    time.sleep(2.7)
    assert len(re.findall(FOUND, training.job.err)) == 1
    training.done()
    assert training.finish() == 0


def test_the_first_step_may_take_long(world):
    """Compiling, reading, resuming: it has a limit of its own."""
    training = Training(world, *TRAIN, "--watchdog-start", "1m")
    training.open()
    time.sleep(2.7)
    assert "watchdog" not in training.job.err
    training.train(1)
    assert training.job.finish() == 42
    assert "stood at step 1 for" in training.report()["why"]
    training.close()


def test_a_phase_has_its_own_limit(world):
    """One rank evaluates, and says so; the other waits for it, much longer than a step may take."""
    training = Training(world, *TRAIN, "--watchdog-eval", "6s", "--watchdog-factor", "1", n=2)
    train(training, 2)
    training.clients[0].ask("phase 2", "phase.*")
    time.sleep(2.7)
    assert "watchdog" not in training.job.err
    training.train(3)
    training.clients[1].ask("phase 2", "phase.*")
    pid = training.pid(1)
    assert training.job.finish() == 42
    assert re.search(rf"^rank 1 \(process {pid} .*stood at step 3 for \d+(ms|s), phase eval; the others "
                     r"wait at that step$", training.report()["why"])
    training.close()


def test_pauses_that_recur(world):
    """A program that pauses for evaluations: the watchdog learns its pauses."""
    training = Training(world, *TRAIN)
    train(training, 2)
    time.sleep(1)
    training.train(3)
    time.sleep(3)  # well within five times that
    assert "watchdog" not in training.job.err
    training.done()
    assert training.finish() == 0


def test_stopped_by_a_debugger(world):
    """Said once, and nothing else happens however long it takes; also where a signal has stopped it, too."""
    training = Training(world, *TRAIN)
    train(training, 2)
    pid = training.pid(0)
    debugger = Tracer(pid)
    debugger.stop()
    os.kill(pid, signal.SIGSTOP)
    training.said(rf"watchdog: process {pid} is stopped by a debugger: no hang")
    time.sleep(2.7)
    assert [training.job.err.count(text) for text in (FOUND, "is stopped", "not stuck", "end:")] == [
        1, 1, 1, 0]
    os.kill(pid, signal.SIGCONT)
    debugger.detach()
    training.train(4)
    training.done()
    assert training.finish() == 0
    assert not (training.dir / ".pchrun" / "hang.0.0.txt").exists()


def test_our_own_absence(world):
    """pchrun or the whole machine was stopped: the ranks' silence in that time means nothing."""
    training = Training(world, *TRAIN)
    train(training, 2)
    training.job.send(signal.SIGSTOP)
    time.sleep(3)
    training.job.send(signal.SIGCONT)
    training.train(3)
    training.said("pchrun did not run for")
    training.done()
    assert training.finish() == 0
    assert FOUND not in training.job.err


def test_a_notice_has_its_own_deadline(world):
    """A rank that does not come to the save step is late, and not found to hang."""
    training = Training(world, *TRAIN, "--grace", "3s", n=2)
    train(training, 2)
    training.notice()
    training.agreed()
    assert training.job.finish() == 42
    assert training.report()["outcome"] == "preempted_unsaved"
    assert "watchdog" not in training.job.err
    training.close()


def test_no_wake_ups(world):
    """The watchdog wakes pchrun only a few times within its limit."""
    training = Training(world)
    train(training, 2)
    before = at_rest(training)
    time.sleep(1.5)
    assert woken(training) == before
    training.done()
    assert training.finish() == 0
