# SPDX-License-Identifier: Apache-2.0
"""A lost node is replaced while the job waits (cluster.replace_wait): the other nodes stay, and all go on in place."""

import json
import re
import signal
import socket
import time

import pytest

from harness import PREEMPTED, STOPPED, wait_until
from pchctl import ctl, waited_for  # noqa: F401
from test_train import Attempt, digest  # noqa: F401

HOST = socket.gethostname()
NODE_LOST = 42
# A busy machine must not lose a node by itself. The processes of a lost node may run for 11 s.
LOST_S, KILL_S = 8, 2
WAIT_S = 50


@pytest.fixture
def training(world):
    """training(): nodes that train, and have committed step 10. They wait so many seconds for a replacement, and for so many
    nodes an hour."""
    def train(seconds=WAIT_S, count=2, allowed=10, **more):
        options = ["--cluster-heartbeat-timeout", f"{LOST_S}s", "--stop-kill-wait", f"{KILL_S}s",
                   "--cluster-replace-wait", f"{seconds}s", "--cluster-replace-max", str(allowed)]
        attempt = Attempt(world, nnodes=count, options=["--save-every", "10"], pace=20, more=options, **more)
        attempt.nodes.say(0, "step 10 is durable")
        attempt.wait_step(13)
        return attempt
    return train


def lose(job, node):
    """Kills the pchrun of this node. Its processes end with it, and the others wait for its replacement."""
    lost = job.nodes.jobs.pop(node)
    lost.kill()
    job.nodes.say(0, f"node {node} ({HOST}) is lost: the job waits up to ")
    return lost


def generations(job):
    return [int(n) for n in re.findall(r"generation (\d+) begins", job.err)]


@pytest.mark.killed
def test_a_killed_node_is_replaced(training, ctl, digest):  # noqa: F811
    """The supervisor of node 1 is killed, and another one is started as the scheduler does it: with the same words. The
    job goes on in place from its last commit, and the weights are those of an undisturbed training. The ledger and the
    journal have the wait."""
    job = training()
    first = job.nodes.jobs[0]
    lose(job, 1)
    job.start(1)
    assert job.nodes.finish() == 0, job.said()
    assert job.nodes.agreed("generation", "outcome", "exit_code", "attempt") == {
        "generation": 1, "outcome": "completed", "exit_code": 0, "attempt": 1}
    assert job.nodes.jobs[0] is first and generations(first) == [1]
    resumed = {job.nodes.report(node)["steps"]["resumed"] for node in (0, 1)}
    assert len(resumed) == 1 and resumed.pop() >= 10
    assert f"digest {digest}" in job.said()
    expect_in_ledger(ctl, job.directory(0))
    restarts = job.nodes.report(0)["restarts"]
    assert (restarts["max"], restarts["replace_max"], restarts["last_cause"]["node_rank"]) == (0, 10, 1)
    waits = [event for event in events(job) if event["event"] == "waits_for"]
    assert 0 < waits[0]["left_ms"] <= 1000 * WAIT_S
    assert [wait["of_nodes"] for wait in waits] == [[1], []]


def events(job):
    lines = (job.directory(0) / ".pchrun/events.0.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def expect_in_ledger(ctl, folder):  # noqa: F811
    """The time until the processes of the lost node had ended for certain counts as a wait for nodes, and the steps
    since the last commit as lost."""
    hours = json.loads(ctl("goodput", "--json", folder, everywhere=True).stdout)
    kinds = [span["kind"] for span in hours["spans"]]
    at = len(kinds) - 1 - kinds[::-1].index("waiting")
    assert "training_lost" in kinds[:at] and kinds[at + 1] == "starting"
    assert hours["ms"]["waiting"] > 1000 * LOST_S / 2


def test_only_the_node_with_the_notice_leaves(training, digest):  # noqa: F811
    """The machine of node 1 is reclaimed: all ranks save one step, and no step is lost. Its pchrun ends with 42, so that
    its scheduler starts another one."""
    job = training()
    left = job.nodes.jobs.pop(1)
    left.send(signal.SIGTERM)
    assert left.finish() == PREEMPTED
    job.nodes.say(0, f"node 1 ({HOST}) is lost: the job waits up to ")
    job.start(1)
    assert job.nodes.finish() == 0, job.said()
    assert f"digest {digest}" in job.said() and generations(job.log) == [1]
    resumed = {job.nodes.report(node)["steps"]["resumed"] for node in (0, 1)}
    saved = [int(step) for step in re.findall(r"every rank saves step (\d+)", job.log.err)]
    assert resumed == {saved[0]}


@pytest.mark.killed
def test_no_replacement_comes(training):
    """All nodes end as without the wait, at its end, and say for which node it was."""
    job = training(seconds=12, count=4)
    began = time.monotonic()
    lose(job, 2)
    for node in (1, 3):
        job.nodes.say(node, "s for the replacement of node 2 (cluster.replace_wait); pchctl stop ends the job")
    assert job.nodes.finish() == NODE_LOST
    assert time.monotonic() - began >= 12
    agreed = job.nodes.agreed("outcome", "exit_code", "why")
    assert agreed["outcome"] == "node_lost"
    assert agreed["why"].startswith(f"node 2 ({HOST}) is lost: ")
    assert agreed["why"].endswith("; it was not replaced within 12s")


@pytest.mark.killed
def test_a_user_ends_the_wait(training, ctl):  # noqa: F811
    """pchctl shows for which node the job waits, since when, until when, and what ends the wait."""
    job = training(seconds=3600, allowed=1)
    lose(job, 1)
    found = waited_for(ctl)
    assert len(found) == 1
    assert re.fullmatch(rf"node 1 \({HOST}\): its replacement, for .* so far; the job ends in (59|60) min, or by "
                        "pchctl stop", found[0])
    text = ctl("status").stdout
    assert "\nrestarts  0 in place; cluster.replace_max allows 1 lost node an hour\n" in text
    assert "has no connection to node 0" not in text  # its row says that it is lost
    assert re.search(rf"^1 +{HOST} +lost +0/2 +\S+ +- ", text, re.M), text
    waits = ctl.status()["report"]["waits_for"]
    assert waits["nodes"] == [{"node_rank": 1, "host": HOST, "since": waits["since"]}] and waits["more"] == 0
    assert waits["since"] < waits["starts_after"] < waits["until"]
    assert ctl("stop").returncode == 0
    assert job.nodes.finish() == STOPPED


def test_a_given_up_node_leaves_the_files_to_its_replacement(training):
    """The pchrun of node 1 stands still until it is given up and replaced, and then ends. Its end must not be in the
    files of the node, which now tell of its replacement."""
    job = training()
    old = job.nodes.jobs.pop(1)
    old.send(signal.SIGSTOP)
    job.nodes.say(0, f"node 1 ({HOST}) is lost: the job waits up to ")
    job.start(1)
    job.nodes.say(0, "generation 1 begins")
    wait_until(lambda: job.nodes.report(1)["generation"] == 1, "the report of the replacement")
    old.send(signal.SIGCONT)
    old.finish()
    assert job.nodes.report(1)["generation"] == 1
    lines = (job.directory(1) / ".pchrun/events.1.jsonl").read_text().splitlines()
    assert "exit" not in [json.loads(line)["event"] for line in lines], lines
    assert old.err.count(f"another pchrun on {HOST} has taken this node's place in generation 1; this one leaves ") == 2, old.err
    assert job.nodes.finish() == 0, job.said()
