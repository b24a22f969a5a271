# SPDX-License-Identifier: Apache-2.0
"""Spares that are not needed (cluster.spares): they stand by, and end with the job, for a notice, or when they are told.
test_spares.py has the spares that take the place of a lost node."""

import re
import signal
import socket

import pytest

from harness import PREEMPTED, wait_until
from pchctl import ctl  # noqa: F401
from nodes import nodes  # noqa: F401
from test_train import Attempt

HOST = socket.gethostname()
TERM, INT = signal.SIGTERM, signal.SIGINT


@pytest.fixture
def training(world):
    """training(): two nodes that train, and a spare."""
    def train(spares=1, pace=20, **more):
        job = Attempt(world, nnodes=2, spares=spares, options=["--save-every", "10"], pace=pace, **more)
        job.wait_step(3)
        return job
    return train


def said_last(spare):
    return spare.err_lines[-1].split(" end: ")[1]


def test_a_spare_ends_with_the_job(world, training):
    """It says that it stands by, and at the end that it was not needed. It leaves no file."""
    job = training()
    spare, = job.stand_by()
    assert re.search(r"spare 1 of 1 for job \S+: stands by at node 0 \(127.0.0.1, port \d+\) until a node is lost$", spare.err,
                     re.M)
    assert job.nodes.finish() == 0, job.said()
    assert spare.finish() == 0
    assert said_last(spare).startswith("completed, exit code 0: job ")
    assert said_last(spare).endswith("; it stood by as spare 1 of 1; it was not needed")
    assert not list(world.root.rglob("*.2.json*"))
    assert job.nodes.agreed("nnodes", "exit_code") == {"nnodes": 2, "exit_code": 0}


def test_a_preempted_job_ends_its_spare(training, ctl):  # noqa: F811
    """The spare ends with the code of the job, so that its scheduler starts all of them again. Until then
    node 0 names the spare."""
    job = training(pace=200)  # it does not end by itself soon
    spare, = job.stand_by()
    stands = [{"number": 2, "host": HOST, "takes_place_of": None}]
    wait_until(lambda: job.nodes.report(0)["spares"] == stands, "the spare in the report of node 0")
    assert f"spares    1 stands by ({HOST})\n" in ctl("status").stdout
    job.notice(0)
    assert job.nodes.finish() == PREEMPTED
    assert spare.finish() == PREEMPTED
    assert said_last(spare).startswith("preempted, exit code 42: job ")


def test_a_notice_releases_a_spare(training):
    """Its machine is reclaimed. The job trains on, and node 0 says that the spare is gone."""
    job = training(spares=2)
    first, second = job.stand_by()
    first.send(TERM)
    assert first.finish() == PREEMPTED
    assert re.match("preempted, exit code 42: job .*: SIGTERM came while this spare stood by; it stood by as spare 1 of 2$", said_last(first))
    job.nodes.say(0, f"spare 2 ({HOST}) leaves: it has a notice, or was told to end")
    assert job.nodes.finish() == 0, job.said()
    assert second.finish() == 0


def test_a_source_releases_a_spare(world, training):
    """A notice of its own source, as of the cloud. The spare keeps no memory of notices, and does not speak of it."""
    notice = world.root / "leave"
    job = training(own={2: ["--notices", f"file:{notice}"]})
    spare, = job.stand_by()
    notice.write_text("node is drained\n")
    assert spare.finish() == PREEMPTED
    assert ": this spare leaves for its notice: file node is drained; it stood by as " in said_last(spare)
    assert "forgets" not in spare.err
    assert job.nodes.finish() == 0, job.said()


def test_a_spare_is_interrupted(training):
    job = training()
    spare, = job.stand_by()
    spare.send(INT)
    assert spare.finish() == 130
    assert job.nodes.finish() == 0, job.said()


def test_a_spare_without_a_job(nodes, world):
    """Node 0 never comes: the spare ends as a node that waits in vain."""
    spare = nodes(3, "--cluster-spares", 1, "--cluster-join-timeout", "1s", "--checkpoint-dir", world.root).start(2)
    assert spare.finish() == 125
    assert "could not join the job" in said_last(spare)
