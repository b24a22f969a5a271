# SPDX-License-Identifier: Apache-2.0
"""Spares that take the place of a lost node (cluster.spares). test_standby.py has those that are not needed."""

import json
import re
import signal
import socket

import pytest

from harness import PREEMPTED, STOPPED, wait_until
from pchctl import ctl  # noqa: F401
from test_replace import KILL_S, LOST_S, events, generations
from test_train import Attempt, digest  # noqa: F401

HOST = socket.gethostname()
UNHEALTHY = 45


@pytest.fixture
def training(world):
    """training(): two nodes that train and have committed step 10, and the spares."""
    def train(spares=1, **more):
        options = ["--cluster-heartbeat-timeout", f"{LOST_S}s", "--stop-kill-wait", f"{KILL_S}s",
                   "--cluster-replace-wait", "50s"]
        job = Attempt(world, nnodes=2, spares=spares, options=["--save-every", "10"], pace=20, more=options, **more)
        job.stand_by()
        job.nodes.say(0, "step 10 is durable")
        job.wait_step(13)
        return job
    return train


def lose(job):
    """Kills the pchrun of node 1."""
    lost = job.nodes.jobs.pop(1)
    lost.kill()
    job.nodes.say(0, f"node 1 ({HOST}) is lost: the job waits up to ")


def is_called(spare):
    wait_until(lambda: "it takes the place of node 1" in spare.err, f"the call; the spare said: {spare.err}")


def completes(job, spare, digest):  # noqa: F811
    """The spare is node 1 now, and the job completes in the next generation, with the weights of an undisturbed one."""
    is_called(spare)
    job.spares.remove(spare)
    job.nodes.jobs[1] = spare
    assert job.nodes.finish() == 0, job.said()
    assert job.nodes.agreed("nnodes", "generation", "outcome", "attempt") == {
        "nnodes": 2, "generation": 1, "outcome": "completed", "attempt": 1}
    assert f"digest {digest}" in job.said() and generations(job.log) == [1]


@pytest.mark.killed
def test_a_spare_takes_the_place(training, digest):  # noqa: F811
    """Node 1 is killed: the spare becomes node 1 without any scheduler. All supervisors end with 0."""
    job = training(own={2: ["--notices", "file:leave"]})  # its source ends, and runs again for node 1
    lose(job)
    completes(job, job.spares[0], digest)
    said = [event["text"] for event in events(job) if event.get("topic") == "replace"]
    assert f"spare 2 ({HOST}) is called to the place of node 1" in said


@pytest.mark.killed
def test_a_lost_spare_is_only_told(training, digest):  # noqa: F811
    """The first of two spares is killed before it is needed. The second one takes the place."""
    job = training(spares=2)
    lost = job.spares.pop(0)
    lost.kill()
    job.nodes.say(0, f"spare 2 ({HOST}): its connection is closed")
    lose(job)
    completes(job, job.spares[0], digest)


@pytest.mark.killed
def test_a_node_that_is_back_stands_by(training, digest):  # noqa: F811
    """The scheduler starts the pchrun of node 1 again, after the spare took its place: it becomes a spare."""
    job = training()
    spare, = job.spares
    lose(job)
    is_called(spare)
    job.nodes.say(0, "generation 1 begins")
    job.start(1)
    back = job.nodes.jobs.pop(1)
    wait_until(lambda: "spare 1 (it was started as node 1) for job " in back.err, "the spare")
    completes(job, spare, digest)
    assert back.finish() == 0
    assert back.err_lines[-1].endswith("it stood by as spare 1 (it was started as node 1); it was not needed")


@pytest.mark.killed
def test_a_spare_without_the_saves(training, digest):  # noqa: F811
    """Each node has a disk of its own. The spare is not called, and the job waits for the disk of node 1. The log says so,
    and the spare stands by until the end."""
    job = training(local=True)
    spare, = job.spares
    lose(job)
    job.start(1)
    assert job.nodes.finish() == 0, job.said()
    assert f"digest {digest}" in job.said()
    said = re.findall(r"replace: no spare is called: the nodes do not share checkpoint.dir, so no spare has the save of step "
                      r"\d+; only a pchrun with the disk of node 1 can take its place\n", job.log.err)
    assert len(said) == 1 and " is called to the place of " not in job.log.err
    assert spare.finish() == 0


@pytest.mark.killed
def test_an_unhealthy_spare(world, training, digest):  # noqa: F811
    """Its check fails when it is called: it ends with 45, and node 0 calls the next one. The job completes, and the record
    of its attempts has a strike of the unhealthy host."""
    check = world.file("check", "#!/bin/sh\necho '{\"healthy\": false, \"component\": \"gpu3\"}'; exit 1\n", 0o755)
    job = training(spares=2, own={2: ["--health-check", check]})
    first, second = job.spares
    lose(job)
    assert first.finish() == UNHEALTHY
    job.spares.remove(first)
    (told,) = job.nodes.report(0)["strikes"]
    completes(job, second, digest)
    (strike,) = json.loads((job.directory(0) / ".pchrun/commit.json").read_text())["strikes"]
    assert (strike["host"], strike["count"], strike["text"]) == (HOST, 1, "gpu3")
    assert told == strike


@pytest.mark.killed
def test_no_spare_is_left(training, ctl):  # noqa: F811
    """Two losses and one spare: the job waits for the second, and a user ends the wait."""
    job = training()
    spare, = job.spares
    lose(job)
    is_called(spare)
    job.nodes.say(0, "generation 1 begins")
    spare.kill()
    job.spares.clear()
    job.nodes.say(0, f"node 1 ({HOST}) is lost: the job waits up to ", 2)
    assert "spares    none stands by\n" in ctl("status").stdout
    assert ctl("stop").returncode == 0
    assert job.nodes.finish() == STOPPED


@pytest.mark.killed
def test_a_spare_that_is_called_too_late(training, digest):  # noqa: F811
    """The first of two spares is stopped while it is called. It wakes, finds the place taken, and stands by again, under
    its own number."""
    job = training(spares=2)
    first, second = job.spares
    first.send(signal.SIGSTOP)
    lose(job)
    is_called(second)
    job.nodes.say(0, f"node 1 ({HOST}) is replaced by ")
    first.send(signal.SIGCONT)
    wait_until(lambda: first.err.count(": stands by at node 0 (") == 2, f"the spare; it said: {first.err}")
    completes(job, second, digest)
    assert first.finish() == 0
    stood = [line for line in first.err_lines if ": stands by at node 0 (" in line or " end: " in line]
    assert len(stood) == 3 and all(line.startswith("pchrun[2] ") for line in stood)


@pytest.mark.killed
def test_a_called_spare_has_a_notice(world, training, digest):  # noqa: F811
    """SIGTERM comes while a called spare waits for the end of its source. The new node leaves for it with 42."""
    ready = world.root / "ready"
    source = world.file("source", f"#!/bin/sh\ntrap '' TERM\n: >{ready}\nwhile :; do sleep 0.1; done\n", 0o755)
    job = training(own={2: ["--notices", f"command:{source}"]})
    spare, = job.spares
    wait_until(ready.exists, "the source")
    lose(job)
    is_called(spare)
    spare.send(signal.SIGTERM)
    assert spare.finish() == PREEMPTED
    job.start(1)
    assert job.nodes.finish() == 0, job.said()
    assert f"digest {digest}" in job.said()
