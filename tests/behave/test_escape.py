# SPDX-License-Identifier: Apache-2.0
"""Processes that get away from their parents: as daemons, below a reaper of their own, or from a
pchrun that has died."""

import os
import signal

import pytest

from harness import PREEMPTED, children_of, is_alive, marked, wait_until
from training import CLIENT

KILLED = 128 + signal.SIGKILL
QUICK = ["--grace", "1s", "--stop-term-wait", "300ms"]

# The command waits; the rank is in a session of its own.
DAEMON = f"setsid sh -c 'exec {CLIENT}' \"$0\" \"$1\" & exec sleep 1000"


def test_a_rank_that_has_become_a_daemon(training, world):
    """The daemon is a rank like any other: it saves with all ranks, and no process of it is left."""
    job = training(*QUICK, n=2, start=DAEMON, train=3)
    pids = [job.pid(rank) for rank in range(2)]
    assert {os.getsid(pid) for pid in pids} == set(pids)
    step = job.preempt()
    assert job.result() == (PREEMPTED, "preempted", step)
    assert not any(is_alive(pid) for pid in pids)


REAPER = """
import ctypes, os, signal, sys, time
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        if os.fork():
            os._exit(0)
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(1, b"away ")
        time.sleep(1000)
time.sleep(1000)
"""


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, PREEMPTED), (signal.SIGKILL, KILLED)])
def test_below_a_reaper_of_its_own(world, number, code):
    """A launcher, or a container's init, that adopts the orphans before we do; it ends before them,
    or with them."""
    job = world.launch(*QUICK, "--stop-cgroup", "off", "--", "/usr/bin/python3", "-c", REAPER)
    wait_until(lambda: job.out.count("away") == 3, "the daemons")
    reaper = job.child()
    wait_until(lambda: len(children_of(reaper)) == 3, "their adoption")
    os.kill(job.pid if number == signal.SIGTERM else reaper, number)
    assert job.finish() == code
    assert not marked(world.mark)


@pytest.mark.killed
def test_who_comes_back_to_a_dead_socket(training, world):
    """A launcher starts its worker again when pchrun is gone: the worker must not train as if there
    had never been a pchrun."""
    job = training(n=1, start=f"{CLIENT}; exit $?", train=3)
    job.job.kill()
    client = job.clients[0]
    client.ask("close", "close .*")
    client.ask("open", "open supervised=0 .*")
    client.ask("step 4", "step 4 exit")
    job.close()
    wait_until(lambda: not marked(world.mark), "the end of all")
