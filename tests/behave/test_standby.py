# SPDX-License-Identifier: Apache-2.0
"""Spares (cluster.spares) that stand by, and end with the job, for a notice, or when they are told; and spares that are
called before the first start. test_spares.py has the spares that take the place of a lost node."""

import re
import shutil
import signal
import socket

import pytest

from harness import PREEMPTED, wait_until
from pchctl import ctl  # noqa: F401
from nodes import nodes  # noqa: F401
from test_train import Attempt, digest  # noqa: F401

HOST = socket.gethostname()
TERM, INT = signal.SIGTERM, signal.SIGINT
UNHEALTHY = 45


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
    assert re.search(r"spare 2 for job \S+: stands by at node 0 \(127.0.0.1, port \d+\) until it is called$", spare.err,
                     re.M)
    assert job.nodes.finish() == 0, job.said()
    assert spare.finish() == 0
    assert said_last(spare).startswith("completed, exit code 0: job ")
    assert said_last(spare).endswith("; it stood by as spare 2; it was not needed")
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
    assert " is it a spare, or on another host?" in ctl("status", "--node", "2").stderr
    job.notice(0)
    assert job.nodes.finish() == PREEMPTED
    assert spare.finish() == PREEMPTED
    assert said_last(spare).startswith("preempted, exit code 42: job ")


def test_a_spare_in_a_drill(training):
    """All was saved in time, so no scheduler starts any of them again."""
    job = training(pace=200, more=["--drill", "60s"])
    spare, = job.stand_by()
    assert job.nodes.finish() == 0, job.said()
    assert spare.finish() == 0
    assert said_last(spare).startswith("preempted, exit code 0: job ")


def test_two_spares_with_one_rank(training):
    """A copied command line. The later spare stands by. The first one must not be started again: with 42 each would end
    the other for ever."""
    job = training(pace=100)
    first, = job.stand_by()
    job.start(2)
    job.spares = [job.nodes.jobs.pop(2)]
    assert first.finish() == 125
    assert re.match(r"not_started, exit code 125: job cwd: two spares with rank 2: .*Give each its own --node-rank", said_last(first))
    second, = job.stand_by()
    assert job.nodes.finish() == 0, job.said()
    assert second.finish() == 0


def test_a_notice_releases_a_spare(training):
    """Its machine is reclaimed. The job trains on, and node 0 says that the spare is gone."""
    job = training(spares=2)
    first, second = job.stand_by()
    first.send(TERM)
    assert first.finish() == PREEMPTED
    assert re.match("preempted, exit code 42: job .*: SIGTERM came while this spare stood by; it stood by as spare 2$", said_last(first))
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


def begins_as_node_1(job, spare):
    wait_until(lambda: "it takes the place of node 1" in spare.err, f"the call; the spare said: {spare.err}")
    job.spares.remove(spare)
    job.nodes.jobs[1] = spare


def completes(job, digest):  # noqa: F811
    """In the first generation: no start was in vain."""
    assert job.nodes.finish() == 0, job.said()
    assert job.nodes.agreed("nnodes", "generation", "outcome") == {"nnodes": 2, "generation": 0, "outcome": "completed"}
    assert f"digest {digest}" in job.said()


def unhealthy(world, own=None):
    """The health check of node 1 fails."""
    check = world.file("check", "#!/bin/sh\necho '{\"healthy\": false, \"component\": \"gpu3\"}'; exit 1\n", 0o755)
    return Attempt(world, nnodes=2, spares=1, own={1: ["--health-check", check], **(own or {})})


def test_a_spare_for_an_unhealthy_node(world, digest):  # noqa: F811
    """The check of node 1 fails before the start: its pchrun ends with 45, and the spare begins as node 1 at once."""
    job = unhealthy(world)
    ill = job.nodes.jobs.pop(1)
    assert ill.finish() == UNHEALTHY
    assert " is not healthy: gpu3; start the job without this host" in ill.err_lines[-1]
    begins_as_node_1(job, job.spares[0])
    completes(job, digest)
    assert f"lost: node 1 ({HOST}): it is not healthy: gpu3\n" in job.log.err
    assert f"replace: spare 2 ({HOST}) is called to the place of node 1\n" in job.log.err


def test_a_spare_without_pchrun_watch(world, digest):  # noqa: F811
    """The user has not named the source. So the spare only warns, when it stands by and when it begins."""
    (world.root / "bin").mkdir()
    world.pchrun = shutil.copy(world.pchrun, world.root / "bin" / "pchrun")
    job = unhealthy(world, {2: ["--preset", "gce"]})
    spare, = job.spares
    assert job.nodes.jobs.pop(1).finish() == UNHEALTHY
    begins_as_node_1(job, spare)
    completes(job, digest)
    assert spare.err.count("cannot execute 'pchrun-watch'") == 2, spare.err


def test_a_spare_for_a_missing_node(world, digest):  # noqa: F811
    """Node 1 does not come within a tenth of the time to join, and the job starts without it. When it comes, it stands
    by."""
    job = Attempt(world, nnodes=2, spares=1, missing=[1], pace=60, more=["--cluster-join-timeout", "10s"])
    spare, = job.spares
    begins_as_node_1(job, spare)
    job.wait_step(2)
    job.start(1)
    late, job.nodes.jobs[1] = job.nodes.jobs[1], spare
    wait_until(lambda: ": stands by at node 0 (" in late.err, f"the late node; it said: {late.err}")
    completes(job, digest)
    assert late.finish() == 0
    assert f"replace: spare 2 ({HOST}) is called to the place of node 1, which has not joined\n" in job.log.err
    assert "replace: the place of node 1, which had not joined, is taken by " in job.log.err


def test_more_nodes_are_missing_than_spares_stand_by(nodes, world):  # noqa: F811
    """The spare takes the first place. The job ends when node 2 has not joined in time, and so does the spare."""
    job = nodes(4, "--cluster-spares", 1, "--cluster-join-timeout", "4s", "--checkpoint-dir", world.root)
    for node in (0, 3):
        job.start(node)
    assert job.finish() == 125
    assert "the place of node 1, which had not joined, is taken by " in job.jobs[0].err
    assert ": 1 of 3 nodes did not join within 4s: node 2 (127.0.0.3" in said_last(job.jobs[0])
