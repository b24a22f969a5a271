# SPDX-License-Identifier: Apache-2.0
"""The limit on processes is used up, as by the threads of the training: fork fails on a node from some moment on.
The commit must not fail for that. Other work may fail: the log names the limits, how far they are used, and what to
do."""

import contextlib
import json
import os
import re
import resource
import signal

import pytest

from harness import children_of, open_files, stat_fields, wait_until
from nodes import nodes, preempt, start_training  # noqa: F401

LIMIT = 54321
WHY = (rf"Resource temporarily unavailable; ulimit -u \(RLIMIT_NPROC\) is {LIMIT}, and user {os.geteuid()} has \d+ "
       r"processes and threads here; .*raise the limit that is reached, or start fewer processes and threads")


class Full:
    """A moment from which on a node gets no more process."""

    def __init__(self, world):
        self.mark, self.refused = world.root / "full", world.root / "refused"
        self.env = world.shim("refuse", SHIM_REFUSE="fork:1+", SHIM_REFUSED=self.refused, SHIM_AFTER=self.mark)

    def begin(self):
        self.mark.touch()

    def count(self):
        """How many times a process was refused."""
        return self.refused.stat().st_size if self.refused.exists() else 0


@pytest.fixture
def full(world):
    return Full(world)


@pytest.mark.parametrize("count, node", [(1, 0), (2, 0), (2, 1)], ids=["one node", "node 0 of 2", "node 1 of 2"])
def test_a_node_without_processes_commits(world, nodes, full, count, node):
    """The rounds before and after the notice are committed, and the record has both."""
    job = nodes(count)
    start_training(world, job, envs={node: full.env})
    full.begin()
    step = preempt(job, 0)
    assert full.count(), "nothing was refused"
    record = json.loads((world.root / ".pchrun/commit.json").read_text())
    assert record["commits"][-1]["step"] == step
    for rank in range(count):
        saves = json.loads((world.root / f".pchrun/ranks.{rank}.json").read_text())["saves"]
        assert saves[-1]["step"] == step and len(saves[-1]["ranks"]) == 2


def writers(job):
    """The sleeping helpers that write the record. Another helper holds the lock; short-lived ones write the report."""
    def found():
        with contextlib.suppress(FileNotFoundError):
            pids = [pid for pid in children_of(job.pid) if stat_fields(pid)[2:3] == stat_fields(job.pid)[2:3]
                    and "commit.lock" not in " ".join(open_files(pid))]
            return len(pids) == 2 and pids
    return wait_until(found, "two writers")


def at_limit(full, job):
    """The node gets no more process, and has a limit to name."""
    resource.prlimit(job.pid, resource.RLIMIT_NPROC, (LIMIT, LIMIT))
    full.begin()


def kill_writers(job):
    killed = writers(job)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    return killed


def test_a_killed_writer_is_replaced(world, nodes):
    """As by the kernel's lack of memory: the next save has a new writer."""
    job = nodes(1)
    start_training(world, job)
    killed = kill_writers(job.jobs[0])
    wait_until(lambda: not {*writers(job.jobs[0])} & {*killed}, "new writers")
    preempt(job, 0)


def test_a_writer_that_cannot_be_replaced_costs_its_save(world, nodes, full):
    """The save fails with the reason. A later save, when there are processes again, is committed."""
    job = nodes(1)
    start_training(world, job, envs={0: full.env})
    at_limit(full, job.jobs[0])
    kill_writers(job.jobs[0])
    job.say(0, "the next write tries again", count=2)
    job.jobs[0].send(signal.SIGUSR2)
    job.say(0, "is not saved, so it is not committed")
    assert re.search(f"ranks.0.json.*{WHY}", job.jobs[0].err)
    full.mark.unlink()
    preempt(job, 0)


def test_a_poll_that_cannot_be_started(world, full):
    """The poll is tried on. The log has the first failures and their reason, and no flood."""
    config = world.file("config.json", json.dumps({"notices": [{"poll": ["true"], "interval": "100ms"}]}))
    job = world.act("say ready hold end", options=["-c", config, "-n", 1], env=full.env)
    at_limit(full, job)
    wait_until(lambda: full.count() > 30, "the poll to fail often")
    world.let_end(job)
    lines = re.findall(f"source: true gave no answer: .*{WHY}.*", job.err)
    assert len(lines) == 3, job.err
    assert "logs no further failure for 1m" in lines[-1]
