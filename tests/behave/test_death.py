# SPDX-License-Identifier: Apache-2.0
"""pchrun learns of a process's death before the kernel frees its memory.

The kernel reports the end afterwards, which takes 50 ms or more for each GiB. Until then the other ranks would
wait in a collective for the dead peer, and the job would wait for its end.
"""

import ctypes
import errno
import os
import re
import signal
import time
from pathlib import Path

import pytest

from harness import wait_until

MIB = 512
FUTEX_WAITV = 449
IDLE = 0.5
HURRY = ["--stop-exit-wait", "0s", "--stop-term-wait", "100ms"]
ATTEMPTS = 3  # on a busy machine pchrun may look after the kernel's report
KILLED = r"node 0: rank 0, process \d+ ended with signal 9 \(Killed\)"


def kernel_can():
    """Does the kernel have futex_waitv?"""
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(FUTEX_WAITV, None, 0, 0, None, 0) >= 0 or ctypes.get_errno() == errno.EINVAL


def large(training, *options, **more):
    """Two ranks; the first one is large."""
    job = training(*(options or HURRY), n=2, **more, train=0)
    job.clients[0].ask(f"swell {MIB}", rf"swell {MIB} 1")
    return job


def is_told_early(job, topic="ending", count=1):
    """Did the end of the job begin before the process's end told more about the failure?"""
    line = job.said(rf"{topic}: (?:failed: )?{KILLED}(.*)$", count)
    return "cause unknown" not in line[1] and "out of memory" not in line[1]


@pytest.mark.timing
def test_the_others_are_ended_at_once(training):
    """The others end before the memory is freed; the last line has all details of the end."""
    def once():
        job = large(training)
        job.kill(0)
        is_early = is_told_early(job)
        assert job.result() == (128 + 9, "failed", None)
        assert re.search(rf"end: failed, exit code 137: {KILLED}: SIGKILL, cause unknown", job.job.err)
        cause = job.report()["first_cause"]
        assert (cause["rank"], cause["code"], cause["signal"]) == (0, 137, 9)
        assert "SIGKILL, cause unknown" in cause["text"]
        assert job.job.err.count("ending: ") == 1 and "after another rank" not in job.job.err
        return is_early
    if kernel_can():
        assert any(once() for _ in range(ATTEMPTS))
    else:
        assert not once()


@pytest.mark.parametrize("options", [[], ["--eperm"]], ids=["old kernel", "EPERM"])
def test_an_old_kernel_tells_later(training, world, options):
    """Without futex_waitv the end of the process tells of its death."""
    job = large(training, wrap=[world.oldkernel, *options])
    job.kill(0)
    assert not is_told_early(job)
    assert job.result() == (128 + 9, "failed", None)


def test_why_it_fails_is_told_with_its_death(training):
    """pchrun reads the process's last message before its end. The exit code is the process's own."""
    job = large(training)
    job.clients[0].ask("error 9 bad loss", "error 9")
    job.clients[0].tell("exit 3")
    job.said(r"ending: failed: node 0: rank 0, process \d+ ended with exit code 3: bad loss$")
    assert job.result() == (3, "failed", None)
    assert job.report()["first_cause"]["code"] == 3


@pytest.mark.timing
def test_the_next_generation_is_watched_as_well(training):
    """A restart in place begins with the death, and so does the end when no other restart is allowed."""
    def once():
        job = large(training, *HURRY, "--restart-max", "1", "--restart-backoff", "0s")
        job.train(1)
        job.kill(0)
        is_early = is_told_early(job, "restart")
        job.said("generation 1 begins")
        for client in job.clients:
            client.rest()
        job.open()
        job.train(1)
        job.clients[0].ask(f"swell {MIB}", rf"swell {MIB} 1")
        os.kill(int(job.said(r"attach: rank 0 of 2 is process (\d+)$", 2)[1]), signal.SIGKILL)
        is_early = is_told_early(job) and is_early
        assert job.result() == (128 + 9, "failed", None)
        return is_early
    assert any(once() for _ in range(ATTEMPTS)) or not kernel_can()


@pytest.mark.timing
def test_nobody_wakes_up_for_it(training):
    """The threads that wait for the deaths of the two ranks sleep, as the loop does."""
    job = training(n=2, train=1)

    def woken():
        return {task.name: int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", (task / "status").read_text(),
                                         re.M)[1])
                for task in Path(f"/proc/{job.job.pid}/task").iterdir()}
    wait_until(lambda: (before := woken()) and not time.sleep(IDLE) and before == woken(), "pchrun to rest")
    assert len(woken()) == (3 if kernel_can() else 1)
    job.complete()
