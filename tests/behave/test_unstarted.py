# SPDX-License-Identifier: Apache-2.0
"""A node of several cannot start: the others hear why, and do not wait for it until the join times out."""

import re
import signal
import socket

import pytest

from harness import OWN_ERROR, needs_namespace
from nodes import Nodes

HOST = re.escape(socket.gethostname())
# The join times out after ten minutes, and a node that cannot tell the others ends after 30 s.
SOON = 20
CANNOT = "this node cannot start, and waits to tell "


class Unstarted(Nodes):
    """Each node has a state directory of its own, as on disks of the nodes."""

    def state(self, rank):
        return self.world.root / f"state{rank}"

    def begin(self, rank, **more):
        """A node whose command says started."""
        self.jobs[rank] = self.launch(rank, self.world.actor, "say", "started",
                                      options=["--state-dir", self.state(rank)], **more)
        return self.jobs[rank]

    def damage(self, rank):
        self.state(rank).mkdir()
        (self.state(rank) / "commit.json").write_text("x")

    def end(self, failed, because):
        """All nodes end soon, for what the failed one says."""
        for rank in sorted(self.jobs):
            assert self.jobs[rank].finish(SOON) == OWN_ERROR
        own = self.jobs[failed].err_lines[-1].split(" end: ")[1]
        assert own.startswith("not_started, exit code 125: ") and because in own
        words = own.split("exit code 125: ")[1]
        who = rf"node 0 \({HOST}\) cannot start: " if failed == 0 else f"node {failed}: "
        for rank in set(self.jobs) - {failed}:
            last = self.jobs[rank].err_lines[-1]
            assert re.search(f" end: not_started, exit code 125: {who}{re.escape(words)}$", last), last
        assert not self.world.events.all("started")


@pytest.fixture
def unstarted(world):
    return lambda count, *options: Unstarted(world, count, options)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("failed", [0, 1])
def test_a_record_is_damaged(unstarted, first, failed):
    """Either node may be the first to come."""
    two = unstarted(2)
    two.damage(failed)
    two.begin(first)
    two.say(first, CANNOT if first == failed else f"waiting for node {1 - first}")
    two.begin(1 - first)
    two.end(failed, "cannot read the record of earlier attempts")


@pytest.mark.parametrize("failed", [0, 1])
def test_with_a_key(world, unstarted, failed):
    key = world.root / "key"
    assert world.launch("--make-key", key).finish() == 0
    two = unstarted(2, "--cluster-key-file", key)
    two.damage(failed)
    two.begin(0)
    two.begin(1)
    two.end(failed, "cannot read the record of earlier attempts")


def test_the_disk_of_node_0_is_full(world, unstarted):
    needs_namespace("--mount")
    two = unstarted(2)
    two.state(0).mkdir()
    two.begin(1)
    two.say(1, "waiting for node 0")
    real = world.pchrun
    fill = f"mount -t tmpfs -o size=64k none '{two.state(0)}' && cat /dev/zero >'{two.state(0)}/fill' 2>&-"
    world.pchrun = str(world.file("full", f"#!/bin/sh\nexec unshare --mount sh -c \"{fill}; exec '{real}' "
                                          "\\\"\\$@\\\"\" sh \"$@\"\n", mode=0o755))
    two.begin(0)
    two.end(0, "No space left on device")


def test_the_directory_of_node_0_is_held(world, unstarted):
    """By another job, so that there is no other node 0 to ask."""
    two = unstarted(2, "--checkpoint-lock-wait", "100ms")
    holder = world.launch("--job", "other", "--state-dir", two.state(0), "--", world.actor, "say", "holds", "wait")
    world.events.wait("holds")
    two.begin(1)
    two.begin(0)
    two.end(0, "still holds the state directory")
    holder.send(signal.SIGINT)
    holder.finish()


def test_there_is_no_place_for_the_sockets(world, unstarted):
    """A failure that does not concern the record is told, too."""
    two = unstarted(2)
    two.begin(1)
    two.begin(0, env={"PCHRUN_RUN_DIR": "/proc/none"})
    two.end(0, "/proc/none")


def test_both_cannot_start(unstarted):
    """As with a file system that all share. Node 1 hears of node 0's failure, too."""
    two = unstarted(2)
    for rank in (0, 1):
        two.damage(rank)
        two.begin(rank)
    for rank in (0, 1):
        assert two.jobs[rank].finish(SOON) == OWN_ERROR
        assert f"state{rank}" in two.jobs[rank].err_lines[-1]
    assert re.search(rf"node 0 answers: node 0 \({HOST}\) cannot start: .*state0", two.jobs[1].err)


@pytest.mark.parametrize("failed", [0, 1])
def test_a_third_node_comes_late(unstarted, failed):
    """The first two end only when it was told."""
    three = unstarted(3)
    three.damage(failed)
    three.begin(0)
    three.begin(1)
    three.say(0, CANNOT if failed == 0 else "not_started: node 1: ")
    three.begin(2)
    three.end(failed, "cannot read the record of earlier attempts")


@pytest.mark.parametrize("failed", [0, 1])
def test_a_signal_ends_the_wait(unstarted, failed):
    """Nothing was started, so the code stays that of the failure."""
    two = unstarted(2)
    two.damage(failed)
    job = two.begin(failed)
    two.say(failed, CANNOT)
    job.end_by(signal.SIGTERM, OWN_ERROR)
    assert "cannot read the record" in job.err_lines[-1]


def test_a_signal_ends_the_wait_for_a_third_node(unstarted):
    three = unstarted(3)
    three.damage(1)
    three.begin(0)
    three.begin(1)
    three.say(0, "not_started: node 1: ")
    three.jobs[0].send(signal.SIGTERM)
    three.end(1, "cannot read the record of earlier attempts")


def test_nobody_comes(unstarted):
    """The wait is not longer than that of the join."""
    two = unstarted(2, "--cluster-join-timeout", "1s")
    two.damage(0)
    assert two.begin(0).finish(SOON) == OWN_ERROR
    assert "waits to tell the others, for 1s at most: cannot read the record" in two.jobs[0].err
    assert "told 0 of 1 other nodes why" in two.jobs[0].err


def test_node_0_does_not_come(unstarted):
    two = unstarted(2, "--cluster-join-timeout", "1s")
    two.damage(1)
    assert two.begin(1).finish(SOON) == OWN_ERROR
    assert f"node 0 was not told: cannot connect to 127.0.0.1:{two.port}: Connection refused" in two.jobs[1].err
