# SPDX-License-Identifier: Apache-2.0
"""Done is done: every rank has called pch_done, and its process still has something to do. It writes, or it hangs in
its teardown. Whatever ends it then, the training is complete, and must not be made again."""

import json
import signal

import pytest

from harness import is_alive, wait_until
from training import CLIENT

PREEMPTED = 42


def completed(job, code=0):
    """The outcome and the code of a job whose processes stayed until pchrun ended them."""
    assert job.job.finish() == code, job.job.err
    return json.loads(job.report_path.read_text())["outcome"] == "completed"


@pytest.mark.parametrize("options, code", [((), 0), (("--exit-done-killed", "9"), 9)], ids=["0", "its own code"])
def test_a_rank_that_is_done_stays_until_the_deadline(training, options, code):
    job = training("--grace", "2s", *options, n=2, train=3)
    job.done()
    job.notice()
    assert completed(job, code)
    for rank in range(2):
        assert f"rank {rank} (process {job.pid(rank)}) was done, but has not ended: pchrun ends it" in job.job.err
    assert "every rank is done, but the notice leaves no more time" in job.job.err


def test_one_rank_has_ended_and_the_other_stays(training):
    job = training("--grace", "2s", n=2, train=3)
    job.done()
    job.clients[0].end_input()
    wait_until(lambda: not is_alive(job.pid(0)), "rank 0 to end")
    job.notice()
    assert completed(job)


def test_ranks_that_are_done_end_by_themselves_under_a_notice(training):
    """The notice leaves them its time: no process is ended."""
    job = training("--grace", "60s", n=2, train=3)
    job.done()
    job.notice(said="notice: SIGTERM")
    job.finish()
    assert completed(job) and "pchrun ends it" not in job.job.err


def test_a_signal_that_hurries(training):
    """A third SIGTERM ends the processes at once, and the training is still complete."""
    job = training("--grace", "60s", n=2, train=3)
    job.done()
    for _ in range(3):
        job.notice(said="SIGTERM")
        signal.sigtimedwait([], 1.1)  # a sooner signal would be the same one
    assert completed(job)


def test_a_shell_that_may_begin_another_program(training):
    """`train.py; evaluate.py`: the second program may have more to do than the first."""
    job = training("--grace", "2s", start=f"{CLIENT}; exec sleep 600", train=3)
    job.done()
    job.clients[0].end_input()
    wait_until(lambda: not is_alive(job.pid(0)), "the rank to end")
    job.notice()
    assert job.job.finish() == PREEMPTED
    assert json.loads(job.report_path.read_text())["outcome"] == "preempted_unsaved"


def test_the_end_has_a_limit(training):
    """Nothing tells of the end of a teardown, so without a limit it would hold the accelerators for ever."""
    job = training("--watchdog-end", "1s", n=2, train=3)
    job.done()
    assert completed(job)
    job.said("every rank is done, but not every process has ended within 1s")
    assert list((job.dir / ".pchrun").glob("hang*")), "no evidence was kept"


def test_the_limit_of_the_end_only_logs(training):
    job = training("--watchdog-end", "1s", "--watchdog-mode", "log", n=2, train=3)
    job.done()
    job.said("the job is left as it is")
    assert job.finish() == 0


def test_a_rank_that_trains_has_no_limit_for_the_end(training):
    """The others are done, and have to wait for it."""
    job = training("--watchdog-end", "1s", n=2, train=3)
    first, second = job.clients
    first.ask("done", "done")
    signal.sigtimedwait([], 2)  # twice the limit
    second.train(6)
    second.ask("done", "done")
    assert job.finish() == 0
