# SPDX-License-Identifier: Apache-2.0
"""Several nodes are lost, and a lost one comes back (cluster.replace_wait). One loss is in test_replace.py."""

import os
import re
import signal

import pytest

from harness import descendants_of
from test_replace import HOST, NODE_LOST, lose, training  # noqa: F401
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
    assert re.search(r" end: node_lost, exit code 42: (node 0 is lost: |.* was replaced by )", old.err), old.err
    assert job.nodes.finish() == 0, job.said()
    assert f"digest {digest}" in job.said()
