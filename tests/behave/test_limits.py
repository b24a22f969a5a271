# SPDX-License-Identifier: Apache-2.0
"""The limit on processes is used up, as by the threads of the training: fork fails on a node from some moment on.
Work that may fail then says so: the log names the limits, how far they are used, and what to do."""

import json
import os
import re
import resource

import pytest

from harness import wait_until

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


def at_limit(full, job):
    """The node gets no more process, and has a limit to name."""
    resource.prlimit(job.pid, resource.RLIMIT_NPROC, (LIMIT, LIMIT))
    full.begin()


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
