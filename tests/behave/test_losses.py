# SPDX-License-Identifier: Apache-2.0
"""Several nodes are lost, a lost one comes back, or a replacement has another disk (cluster.replace_wait). One usual loss is
in test_replace.py."""

import os
import re
import shutil
import signal

import pytest

from harness import descendants_of
from pchctl import ctl, waited_for  # noqa: F401
from test_replace import HOST, NODE_LOST, events, lose, training  # noqa: F401
from test_train import digest  # noqa: F401


@pytest.mark.killed
def test_one_loss_after_another(training, digest):  # noqa: F811
    """A loss, and later another one: no exit code is used up."""
    job = training(count=4)
    for generation, node in ((1, 1), (2, 3)):
        lose(job, node)
        job.start(node)
        job.nodes.say(0, f"generation {generation} begins")
    assert job.nodes.finish() == 0, job.said()
    assert job.nodes.agreed("generation", "outcome") == {"generation": 2, "outcome": "completed"}
    assert f"digest {digest}" in job.said()


@pytest.mark.killed
def test_two_nodes_are_lost(training, digest):  # noqa: F811
    """The second one in the wait for the first. The log names each, and both are replaced."""
    job = training(count=4)
    lose(job, 1)
    lose(job, 2)
    job.start(2)
    job.start(1)
    assert job.nodes.finish() == 0, job.said()
    assert job.nodes.agreed("generation", "outcome") == {"generation": 1, "outcome": "completed"}
    assert f"digest {digest}" in job.said()


def test_the_old_node_comes_back(training, digest):  # noqa: F811
    """A machine that stood still, with all processes of its node. Its lease is over, so it kills its ranks and ends with
    42. The replacement has long begun, and the job completes with the weights of an undisturbed training."""
    job = training()
    old = job.nodes.jobs.pop(1)
    stood = [old.pid, *descendants_of(old.pid)]
    for pid in stood:
        os.kill(pid, signal.SIGSTOP)
    job.nodes.say(0, f"node 1 ({HOST}) is lost: the job waits up to ")
    job.start(1)
    job.nodes.say(0, "generation 1 begins")
    for pid in stood:
        os.kill(pid, signal.SIGCONT)
    assert old.finish() == NODE_LOST
    assert re.search(r" end: node_lost, exit code 42: (node 0 is lost: |this node ends: |.* was replaced by )", old.err), old.err
    assert job.nodes.finish() == 0, job.said()
    assert f"digest {digest}" in job.said()


@pytest.mark.killed
def test_every_lost_node_is_named(training, ctl):  # noqa: F811
    """Nodes 2 and 3 are lost, one after the other. pchctl shows both on node 0, by the files and in the journal, each
    with its host. A node that is not node 0 knows of the first. The last line of each node names both."""
    job = training(seconds=22, count=4)
    lose(job, 3)
    lose(job, 2)
    found = waited_for(ctl, "--node", "0")
    assert [re.match(rf"node (\d) \({HOST}\): its replacement, for ", line)[1] for line in found] == ["2", "3"], found
    status = ctl("status", "--node", "0").stdout
    assert re.match(r"job .*: waiting for a replacement of nodes 2 and 3, \d", status), status
    waits = ctl.status("--node", "0")["report"]["waits_for"]
    assert [(node["node_rank"], node["host"]) for node in waits["nodes"]] == [(2, HOST), (3, HOST)]
    assert waits["since"] == waits["nodes"][1]["since"] < waits["nodes"][0]["since"] and waits["more"] == 0
    (known,) = ctl.status("--node", "1")["report"]["waits_for"]["nodes"]
    assert known["node_rank"] in (2, 3) and known["since"] is None
    job.nodes.say(0, "still waiting for the replacement of nodes 2, 3, ")
    assert job.nodes.finish() == NODE_LOST
    assert job.nodes.agreed("why")["why"].endswith("; nodes 2-3 were not replaced within 22s")
    waits = [event["of_nodes"] for event in events(job) if event["event"] == "waits_for"]
    assert waits == [[3], [2, 3]]


@pytest.mark.killed
def test_a_replacement_on_another_disk(training, digest):  # noqa: F811
    """Each node has a disk of its own. Without the saves a replacement is refused with the reason, and the job waits for
    one that has the disk of the lost node."""
    job = training(local=True)
    lose(job, 1)
    kept = job.directory(1).rename(job.directory(1).with_name("kept"))
    job.start(1)
    stranger = job.nodes.jobs.pop(1)
    assert stranger.finish() == 125
    assert re.search(r"does not have the save of step \d+, and the nodes do not share checkpoint.dir", stranger.err)
    shutil.rmtree(job.directory(1))
    kept.rename(job.directory(1))
    job.start(1)
    assert job.nodes.finish() == 0, job.said()
    assert f"digest {digest}" in job.said()
