# SPDX-License-Identifier: Apache-2.0
"""Several supervisors on loopback addresses, and a network between them that can be cut.

Nodes: one job of 2 to 5 pchruns. far: two of them with a relay between (relay.py), which a test can cut.
"""

import itertools
import json
import re
import signal
import socket

import pytest

from harness import DEADLINE, wait_until
from relay import Relay

# Below the ports that the kernel gives to outgoing connections, so that no such connection takes one of them.
PORTS = range(20000, 29000)
PORTS_EACH = 150
# A node may be silent for seconds if the machine is busy, most of all under valgrind.
FAST = ["--cluster-heartbeat-interval", "200ms", "--cluster-heartbeat-timeout", "20s"]
# For tests of the loss of a node, which waits for the timeout.
LOST_S = 2
LOST_SOON = ["--cluster-heartbeat-timeout", f"{LOST_S}s"]
SAVING = ["-n", "2", "--signals", "TERM=preempt,USR2=checkpoint"]


def own_ports():
    """A part of PORTS that no other test process uses while the lock is held: a free port may be about to be
    taken. The ports come in turn, because our own processes may be about to take one, too."""
    for first in range(PORTS.start, PORTS.stop, PORTS_EACH):
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            lock.bind(f"\0pchrun-tests-{first}")
            return lock, itertools.cycle(range(first, first + PORTS_EACH))
        except OSError:
            lock.close()
    raise RuntimeError("too many processes of tests run at once")


LOCK, OWN_PORTS = own_ports()


def free_port():
    """A port that is free on all addresses of the nodes."""
    while True:
        port = next(OWN_PORTS)
        try:
            for host in range(1, 6):
                with socket.socket() as s:
                    s.bind((f"127.0.0.{host}", port))
            return port
        except OSError:
            continue


@pytest.fixture
def nodes(world):
    """A function that makes the Nodes of a job."""
    return lambda count, *options, **more: Nodes(world, count, options, **more)


@pytest.fixture
def far(nodes):
    """Two nodes with a relay between them."""
    port = free_port()
    two = nodes(2, "--cluster-bind", f"127.0.0.1:{port}")
    proxy = Relay(None, ("127.0.0.1", two.port), ("127.0.0.1", port))
    yield two, proxy
    proxy.close()


class Nodes:
    """One job. options: of every node; start() adds the options of one node."""

    def __init__(self, world, count, options=(), port=None):
        self.world = world
        self.count = count
        self.port = port or free_port()
        self.entries = ",".join(f"127.0.0.{i + 1}:{self.port}" for i in range(count))
        self.options = [*FAST, *options]
        self.jobs = {}

    def launch(self, rank, *command, options=(), **more):
        """Starts a pchrun with this rank and command, which need not become a node of the job."""
        return self.world.launch(
            "--cluster-nodes", self.entries, "--node-rank", rank, "--report",
            self.world.root / "report.{node_rank}.json", *self.options, *self.world.words(options), "--", *command,
            **more)

    def launch_all(self, *command, **more):
        """Starts the same command on all nodes."""
        for rank in range(self.count):
            self.jobs[rank] = self.launch(rank, *command, **more)

    def start(self, rank, *verbs, options=()):
        """Starts a node over an actor."""
        self.jobs[rank] = self.launch(rank, self.world.actor, *self.world.words(*verbs), options=options)
        return self.jobs[rank]

    def start_all(self, verbs="", **special):
        """Starts all nodes over actors; n2="…" are the verbs of node 2. Waits until they run and handle their
        signals."""
        for rank in range(self.count):
            own = self.world.words(special.get(f"n{rank}", verbs))
            told = 2 if {"record", "ignore"} & {*own[:1]} else 0
            self.start(rank, *own[:told], "say", f"n{rank}", *own[told:])
        for rank in range(self.count):
            self.world.events.wait(f"n{rank}")

    def pid(self, rank):
        """Of the actor."""
        return self.world.events.wait(f"n{rank}")["pid"]

    def say(self, rank, text, count=1):
        """Waits until a node has said something."""
        wait_until(lambda: self.jobs[rank].err.count(text) >= count,
                   f"node {rank} to say {text!r} {count} times; it said: {self.jobs[rank].err}")

    def finish(self, *ranks, deadline=DEADLINE):
        """The exit code that all nodes (or these) have ended with."""
        codes = {rank: self.jobs[rank].finish(deadline) for rank in ranks or sorted(self.jobs)}
        said = "".join(self.jobs[rank].err for rank in codes)
        assert len(set(codes.values())) == 1, f"{codes}; they said: {said}"
        for rank in codes:
            last = self.jobs[rank].err_lines[-1]
            assert " end: " in last, f"node {rank} says last: {last}"
        return codes.popitem()[1]

    def report(self, rank):
        return json.loads((self.world.root / f"report.{rank}.json").read_text())

    def agreed(self, *keys):
        """The fields of the reports, which are the same on all nodes."""
        reports = [self.report(rank) for rank in sorted(self.jobs)]
        assert [r["node_rank"] for r in reports] == sorted(self.jobs)
        views = [{key: r[key] for key in keys or (
            "job", "attempt", "generation", "nnodes", "state", "outcome", "exit_code", "why")}
            for r in reports]
        assert all(view == views[0] for view in views), views
        return views[0]


def start_training(world, job, *options, save_ms=0, step_ms=2, begin=0, envs=None):
    """Two ranks a node train and save through libpch until they have to leave. envs: variables for the pchrun of a
    node. Returns the step of a first commit, so all of them have begun."""
    client = world.client(f"open\ntrain {begin} 1000000 {step_ms} at://ckpt {save_ms}\n")
    job.options += [*SAVING, "--checkpoint-dir", world.root, *options]
    for rank in range(job.count):
        job.jobs[rank] = job.launch(rank, *client, env=(envs or {}).get(rank))
    where = f" on {job.count} nodes" if job.count > 1 else ""
    job.say(0, f"start: all {2 * job.count} ranks{where} have attached")
    job.jobs[job.count - 1].send(signal.SIGUSR2)
    return committed(job, 1)


def preempt(job, rank):
    """A notice to this node ends a training job (see start_training) with a second commit; returns its step."""
    job.jobs[rank].send(signal.SIGTERM)
    assert job.finish() == 42
    return committed(job, 2)


def committed(job, count):
    job.say(0, "is durable on every rank", count=count)
    return int(re.findall(r"step (\d+) is durable", job.jobs[0].err)[count - 1])


def saved_steps(job):
    """The steps that the ranks of all nodes have saved, each with how many did."""
    steps = [int(step) for node in job.jobs.values()
             for step in re.findall(r"train saves (\d+)", node.out)]
    return {step: steps.count(step) for step in steps}
