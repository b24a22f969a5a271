# SPDX-License-Identifier: Apache-2.0
"""Saves that a rank or a node does not outlive (save.needs): the commit stands where one rank's save is the whole
checkpoint, and the next start resumes there. With `all` it does not stand."""

import os
import re
import signal

import pytest

from nodes import Nodes
from pchctl import ctl  # noqa: F401
from training import Training

SAVES = ["--signals", "TERM=preempt,USR2=checkpoint"]


def put(job, step, rank):
    """The rank's checkpoint, in the directory that all nodes share."""
    job.shelf = job.dir
    path = job.path(step, rank)
    with open(path, "w", encoding="ascii") as file:
        file.write("weights")
    return path


def start_pair(world, *options):
    """A rank on each of two nodes, which share a checkpoint directory, and know that."""
    nodes = Nodes(world, 2, ["--cluster-heartbeat-timeout", "60s", *SAVES, *options])
    jobs = [Training(world, "--cluster-nodes", nodes.entries, "--node-rank", node, *nodes.options, first=node)
            for node in range(2)]
    jobs[1].said(r"the state directory .* is that of node 0$")
    return jobs


def decide(jobs, words=None):
    """A save after which the training would go on, up to the decision of its step. With words each rank declares whose
    saves are needed."""
    for i, job in enumerate(jobs):
        for client in job.clients:
            client.open(words[i] if words else "")
    for job in jobs:
        job.train(3)
    for job in reversed(jobs):
        job.settle()
    jobs[0].notice(signal.SIGUSR2)
    return jobs[0].agreed()


def complete(jobs, step):
    for job in jobs:
        job.done()
    for client in (client for job in jobs for client in job.clients):
        client.end_input()
    for job in jobs:
        assert job.result() == (0, "completed", step)


def resumes(jobs, step, path):
    """The next start of the job: every rank gets this path, and trains to its end."""
    for job in jobs:
        assert set(job.open(step)) == {path}
    complete(jobs, step)


@pytest.mark.killed
@pytest.mark.parametrize("needs", ["rank0", "any"])
def test_a_node_is_killed_in_a_save(world, needs):
    jobs = start_pair(world, "--save-needs", needs)
    step = decide(jobs)
    jobs[1].job.kill()
    jobs[0].said(r"lost: node 1 \(")
    jobs[0].reach(step)
    path = put(jobs[0], step, 0)
    jobs[0].clients[0].tell(f"saved {step} {path}")
    assert jobs[0].ended() == (42, "node_lost", step), jobs[0].job.err
    jobs[0].said(rf"commit: step {step} is committed without rank 1 of node 1: its node was lost$")
    assert jobs[0].report()["commit"]["without"] == "rank 1 of node 1: its node was lost"
    jobs[1].close()
    resumes(start_pair(world, "--save-needs", needs), step, path)


@pytest.mark.killed
def test_every_save_is_needed(world):
    """Without a word each rank saves a part, and the part of the lost node is missing."""
    jobs = start_pair(world)
    decide(jobs)
    jobs[1].job.kill()
    jobs[0].clients[0].end_input()
    assert jobs[0].ended() == (42, "node_lost", None), jobs[0].job.err
    jobs[1].close()


@pytest.mark.parametrize("word", ["needs_rank", "needs_any"])
def test_a_rank_is_killed_in_a_save_that_the_program_calls_whole(world, word):
    """Without any option. The rank of node 1 dies, and its node lives."""
    jobs = start_pair(world)
    step = decide(jobs, (word, word))
    jobs[1].kill(1)
    jobs[1].said(r"attach: rank 1 \(process \d+\) has ended")
    jobs[0].reach(step)
    path = put(jobs[0], step, 0)
    jobs[0].clients[0].tell(f"saved {step} {path}")
    assert [job.ended() for job in jobs] == [(128 + signal.SIGKILL, "failed", step)] * 2, jobs[0].job.err
    jobs[0].said(rf"commit: step {step} is committed without rank 1 of node 1: its process has ended$")
    jobs = start_pair(world)
    for job in jobs:
        assert job.clients[0].open(word, resume=step) == path
    complete(jobs, step)


@pytest.mark.parametrize("words, said", [
    (("", ""), ""),
    (("needs_rank", "needs_any"), "save: rank 1 of node 1 declares any, rank 0 of node 0 declares rank0: so every rank's "
     r"save is needed \(save.needs sets what counts instead\)$"),
], ids=["all", "differ"])
def test_a_rank_is_killed_in_a_save_of_parts(world, words, said):
    """A rank that says nothing saves a part. Where two say different things, each save is needed."""
    jobs = start_pair(world)
    step = decide(jobs, words)
    if said:
        jobs[0].said(said)
    jobs[1].kill(1)
    for job in jobs:
        assert job.ended() == (128 + signal.SIGKILL, "failed", None), jobs[0].job.err
    assert f"commit: step {step}" not in jobs[0].job.err


def test_nodes_with_different_options(world):
    """One node would commit where the other still waits for a save."""
    nodes = Nodes(world, 2)
    nodes.start(0, "wait", options=["--save-needs", "rank0"])
    nodes.start(1, "wait", options=["--save-needs", "any"])
    assert nodes.jobs[1].finish() == 125
    assert re.search(r"has save\.needs=any, node 0 has save\.needs=rank0; set the same on every node$",
                     nodes.jobs[1].err_lines[-1]), nodes.jobs[1].err
    nodes.jobs[0].send(signal.SIGTERM)
    assert nodes.jobs[0].finish() == 42


@pytest.mark.killed
def test_a_node_is_killed_in_the_last_save(world):
    """The preemption stays one."""
    jobs = start_pair(world, "--save-needs", "rank0")
    for job in jobs:
        job.open()
    for job in reversed(jobs):
        job.settle()
    jobs[0].train(3)
    jobs[1].train(3)
    jobs[0].notice()
    step = jobs[0].agreed()
    jobs[1].job.kill()
    jobs[0].said("lost: node 1")
    jobs[0].reach(step)
    jobs[0].clients[0].ask(f"saved {step} {put(jobs[0], step, 0)}", f"saved {step} exit")
    assert jobs[0].result() == (42, "preempted", step), jobs[0].job.err
    jobs[1].close()


@pytest.mark.parametrize("needs, victim, saver", [("rank0", 1, 0), ("any", 0, 2)])
def test_a_rank_is_killed_in_a_save(world, needs, victim, saver):
    """The job fails as before, and the next start resumes at the save. All ranks get the path of one of them."""
    job = Training(world, *SAVES, "--save-needs", needs, n=3)
    step = decide([job])
    job.kill(victim)
    job.said(rf"attach: rank {victim} \(process \d+\) has ended")
    others = [client for client in job.clients if client.rank != victim]
    for client in others:
        client.reach(step)
    path = put(job, step, saver)
    job.clients[saver].tell(f"saved {step} {path}")
    assert job.ended() == (128 + signal.SIGKILL, "failed", step), job.job.err
    job.said(rf"commit: step {step} is committed without rank {victim} of node 0: its process has ended$")
    resumes([Training(world, *SAVES, "--save-needs", needs, n=3)], step, path)


def test_a_restart_in_place_resumes_at_it(world):
    """Rank 1 reported a path of its own before rank 2 died: it still gets that of rank 0."""
    job = Training(world, *SAVES, "--save-needs", "rank0", "--restart-max", "1", n=3)
    step = decide([job])
    job.clients[0].reach(step)
    job.clients[1].reach(step)
    job.kill(2)
    job.said(r"attach: rank 2 \(process \d+\) has ended")
    job.clients[1].tell(f"saved {step} {put(job, step, 1)}")
    path = put(job, step, 0)
    job.clients[0].tell(f"saved {step} {path}")
    job.said(rf"commit: step {step} is committed without rank 2 of node 0: its process has ended$")
    job.said("generation 1 begins")
    for client in job.clients:
        client.rest()
    assert set(job.open(step)) == {path}
    job.complete(step)


def test_a_save_that_is_not_needed_fails(world, ctl):  # noqa: F811
    """The job goes on, and its user sees which rank is missing in the commit."""
    job = Training(world, *SAVES, "--save-needs", "rank0", n=2)
    step = decide([job])
    job.reach(step)
    job.clients[1].ask(f"failed {step} the disk is full", f"failed {step}")
    job.said(rf"save: rank 1 could not save step {step}: the disk is full; this save is not needed \(save.needs\)$")
    job.clients[0].ask(f"saved {step} {put(job, step, 0)}", f"saved {step} continue")
    job.said(rf"commit: step {step} is committed without rank 1 of node 0: it could not save$")
    assert "\n          without rank 1 of node 0: it could not save\n" in ctl("status").stdout
    job.complete(step)


def test_no_commit_without_rank_0(world):
    job = Training(world, *SAVES, "--save-needs", "rank0", n=2)
    step = decide([job])
    job.clients[1].reach(step)
    job.kill(0)
    job.clients[1].tell(f"saved {step} {put(job, step, 1)}")
    assert job.ended() == (128 + signal.SIGKILL, "failed", None), job.job.err


def test_a_late_rank_is_waited_for(world):
    """Rank 0 has saved, and rank 1 lives: the step commits when it has come to it, saved or not."""
    job = Training(world, *SAVES, "--save-needs", "rank0", n=2)
    step = decide([job])
    first, second = job.clients
    first.reach(step)
    first.tell(f"saved {step} {put(job, step, 0)}")
    job.expect_waiting(0)
    second.reach(step)
    first.expect(f"saved {step} continue")
    job.said(rf"commit: step {step} is durable: the save of rank 0 is the whole checkpoint$")
    job.complete(step)
    assert "without" not in job.report()["commit"]


def test_a_directory_of_the_node_s_own(world):
    """No later start can load from the disk of a lost node. So every save is needed, and the log says why."""
    nodes = Nodes(world, 2, ["--cluster-heartbeat-timeout", "60s", "--save-needs", "rank0"])
    jobs = []
    for node in range(2):
        disk = world.root / f"disk{node}"
        os.mkdir(disk)
        jobs.append(Training(world, "--cluster-nodes", nodes.entries, "--node-rank", node, *nodes.options,
                             "--checkpoint-dir", disk, first=node))
    for job in jobs:
        job.open()
    jobs[0].said(r"save: rank 0's save makes a checkpoint \(save.needs\), but a node has another checkpoint.dir than "
                 "node 0: so every rank's save is needed$")
    complete(jobs, None)
