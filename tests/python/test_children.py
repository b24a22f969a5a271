# SPDX-License-Identifier: Apache-2.0
"""Children that a training process starts by multiprocessing, with each start method. A child survives a signal that a
scheduler sends to every process of the job. A child ends when its parent terminates it."""

import os
import signal

import pytest

from harness import PREEMPTED, descendants_of, is_pending, wait_until

KINDS = ["fork", "spawn", "forkserver"]

PROGRAM = """
import multiprocessing, signal, sys
import pch
from told import say, wait_for
def work(name):
    say(name)
    wait_for("on")
def start(name):
    child = multiprocessing.get_context(KIND).Process(target=work, args=(name,))
    child.start()
    return child
if __name__ == "__main__":
    with pch.attach() as job:
        kept, ended = start("kept"), start("ended")
        for step in job.steps(1000):
            if step == 5:
                say("training")
                wait_for("all")
                ended.terminate()
                ended.join()
                say("terminated", code=ended.exitcode)
            if job.should_save:
                wait_for("on")
                kept.join()
                say("joined", code=kept.exitcode)
                job.saved()
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_to_every_process(program, world, short_tmp, kind):
    one = program(PROGRAM.replace("KIND", repr(kind))).start(TMPDIR=short_tmp, ready="kept")
    world.events.wait("ended")
    rank = world.events.wait("training")["pid"]
    pids = [rank, *descendants_of(rank)]
    for pid in (*pids, one.job.pid):
        os.kill(pid, signal.SIGTERM)
    one.said("notice: SIGTERM")
    # The parent's signal would merge with the first one.
    wait_until(lambda: not any(is_pending(pid, signal.SIGTERM) for pid in pids), "all to have been signalled")
    world.go_on("all")
    assert world.events.wait("terminated")["code"] == -signal.SIGTERM
    one.agreed()
    assert one.result()[:2] == (PREEMPTED, "preempted"), one.job.err
    assert world.events.wait("joined")["code"] == 0
