# SPDX-License-Identifier: Apache-2.0
"""Ranks in lockstep that mark their waits. pchrun names the rank whose own part of a step is longer, and no rank of an
even job.

A barrier over a Unix socket stands for the collective. With --long, a hundred jobs have a slow rank, and a hundred have
none.
"""

import json
import os
import random
import re

import pytest

from harness import Late, wait_until
from nodes import Nodes
from pchctl import ctl  # noqa: F401

RANKS = 4
STEPS = 1600  # three windows of 5 s, in which a rank's own part is measured
RUNS = 100 if "TEST_LONG_MINUTES" in os.environ else 1

# Rank 0 answers "." or, at the end, "!" to the dots of the others. It ends after the step of STEPS, or when told to.
LOCKSTEP = """
import os, pch, random, socket, sys, time

ranks, slow, steps = map(int, sys.argv[1:])
job = pch.attach()
path = f"{os.environ['HOLD']}/barrier"
if job.rank == 0:
    server = socket.socket(socket.AF_UNIX)
    server.bind(path + "~")
    server.listen()
    server.settimeout(60)
    os.rename(path + "~", path)
    lines = [server.accept()[0] for _ in range(ranks - 1)]
else:
    lines = [socket.socket(socket.AF_UNIX)]
    end = time.monotonic() + 60
    while lines[0].connect_ex(path):
        assert time.monotonic() < end
        time.sleep(0.01)
for line in lines:
    line.settimeout(60)

def wait_for_all(word):
    if job.rank > 0:
        lines[0].sendall(b".")
        return lines[0].recv(1)
    assert all(line.recv(1) for line in lines)
    for line in lines:
        line.sendall(word)
    return word

word = b"."
while word == b".":
    work = 0.01 * random.uniform(0.95, 1.05)
    held_up = job.finished // 80 % ranks if slow == -2 else slow
    time.sleep(work * 1.5 if job.rank == held_up else work)
    is_over = job.finished >= steps or os.path.exists(f"{os.environ['HOLD']}/on.hold")
    job.wait_begin()
    word = wait_for_all(b"!" if is_over else b".")
    job.wait_end()
    job.step()
assert word == b"!"
job.done()
"""

SLOW = (r"slow: rank (\d+) \(node (\d+), [^,)]+, local rank (\d+)\) is slow: "
        r"its own part of a step takes 1\.\d x the median of all ranks")


class Lockstep:
    """A job of four ranks on so many nodes. slow: the rank that works longer; -1: none; -2: each in turn, for a second."""

    def __init__(self, program, count, slow, steps):
        one = program(LOCKSTEP)
        self.world = one.world
        self.hold = self.world.root / f"hold{len(list(self.world.root.glob('hold*')))}"
        self.hold.mkdir()
        self.nodes = Nodes(self.world, count, ["-n", RANKS // count, "--metrics-interval", "100ms", "--metrics-file",
                                               self.hold / "metrics.{node_rank}"])
        self.nodes.launch_all(*one.command(RANKS, slow, steps), env=one.variables({"HOLD": str(self.hold)}))

    @property
    def said(self):
        return self.nodes.jobs[0].err

    def named(self):
        """The ranks that node 0 has called slow."""
        return [int(rank) for rank, _, _ in re.findall(SLOW, self.said)]

    def wait(self, what):
        try:
            return wait_until(what, "what the ranks do")
        except Late as late:
            raise Late(f"{late}; node 0 said: {self.said}") from None

    def finish(self):
        (self.hold / "on.hold").touch()
        assert {job.finish(60) for job in self.nodes.jobs.values()} == {0}, self.said


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_slow_rank_is_named(program, ctl, count):  # noqa: F811
    """In the log of node 0, once; in its status, the report, the metrics and the journal; each time with its place."""
    slow = random.randrange(RANKS)
    job = Lockstep(program, count, slow, 10 ** 6)
    job.wait(job.named)
    node, local = divmod(slow, RANKS // count)
    assert re.search(SLOW, job.said).groups() == (str(slow), str(node), str(local))
    job.wait(lambda: f'rank_slow{{name="cwd",node="{node}",rank="{slow}",local_rank="{local}"}} 1' in
             (job.hold / f"metrics.{node}").read_text())
    answer = ctl.status("--node", "0")
    ranks = {rank["rank"]: rank for rank in answer["ranks"]}
    assert [rank for rank in sorted(ranks) if ranks[rank]["slow"]] == [slow]
    assert 1.3 < ranks[slow]["slow"] < 2 and 0.014 < ranks[slow]["own_seconds"] < 0.05
    assert ranks[slow]["local_rank"] == local
    own = re.findall(r"^(\d) .*, slow: 1\.\d+ x the median \(local rank (\d)\)$", ctl("--node", "0", "status").stdout, re.M)
    assert own == [(str(slow), str(local))]
    events = [json.loads(line) for line in ctl("--node", "0", "events").stdout.splitlines()]
    assert [event["text"].split()[:2] for event in events if event["event"] == "slow"] == [["rank", str(slow)]]
    job.finish()
    assert job.named() == [slow]
    assert [rank["local_rank"] for rank in job.nodes.report(node)["ranks"] if rank["rank"] == slow] == [local]


def test_which_rank_is_slow(program):
    """Right in 95 of 100 jobs, with --long."""
    right = 0
    for _ in range(RUNS):
        slow = random.randrange(RANKS)
        job = Lockstep(program, 4, slow, STEPS)
        try:
            job.wait(job.named)
        except Late:
            pass
        job.finish()
        right += job.named() == [slow]
    print(f"{right} of {RUNS} right")
    assert right >= 0.95 * RUNS


def test_an_even_job(program):
    """No rank is named, in a hundred jobs with --long."""
    named = []
    for _ in range(RUNS):
        job = Lockstep(program, 4, -1, STEPS)
        wait_until(lambda j=job: j.nodes.jobs[0].process.poll() is not None, "all steps", 60)
        job.finish()
        named += job.named()
    print(f"{len(named)} named in {RUNS} jobs")
    assert named == []


def test_ranks_that_are_held_up_in_turn(program):
    """As on a busy machine. None of them is a slow rank."""
    job = Lockstep(program, 1, -2, STEPS)
    wait_until(lambda: job.nodes.jobs[0].process.poll() is not None, "all steps", 60)
    job.finish()
    assert job.named() == []
