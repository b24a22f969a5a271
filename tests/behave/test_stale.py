# SPDX-License-Identifier: Apache-2.0
"""A killed pchrun leaves its socket, its processes' scratch directories and temporary files. The next start
removes them, and touches nothing that a living process needs."""

import os

import pytest

from harness import marked, wait_until


def run_dirs(world):
    return {path.name for path in world.tmp.glob("pchrun.*")}


def scratch_dirs(job):
    return {path.name for path in job.dir.glob("pch-scratch-*")}


def begin(training, *options):
    """A job of two ranks that train; each has a scratch directory with something in it."""
    job = training(*options, n=2, train=0)
    for client in job.clients:
        path = client.ask("scratch", "scratch (.+)")[1]
        os.mkdir(f"{path}/shard")
        with open(f"{path}/shard/0", "w") as file:
            file.write("half")
    job.train(3)
    return job


def kill(job, world):
    job.job.kill()
    job.close()


@pytest.mark.killed
def test_a_killed_one_leaves_nothing_behind_its_successor(training, world):
    job = begin(training)
    kill(job, world)
    wait_until(lambda: not marked(world.mark), "the end of all")
    state = job.dir / ".pchrun"
    torn = [state / "commit.json.0123abcd.tmp", state / "ranks.0.json.89abcdef.tmp"]
    for path in torn:
        path.write_text("torn")
        os.utime(path, (0, 0))  # a younger one may be in use
    assert len(run_dirs(world)) == 1 and len(scratch_dirs(job)) == 2
    dead = run_dirs(world) | scratch_dirs(job)
    job = begin(training)
    wait_until(lambda: not dead & (run_dirs(world) | scratch_dirs(job)), "the sweep")
    assert len(run_dirs(world)) == 1 and len(scratch_dirs(job)) == 2
    job.saved(3, "continue")
    wait_until(lambda: not any(path.exists() for path in torn), "the sweep of what was torn")
    job.complete(3)
    assert not run_dirs(world) and not scratch_dirs(job)


@pytest.mark.killed
def test_nothing_of_the_living_is_touched(training, world):
    """Another job on the same host, with its records elsewhere, that even has its checkpoints in the
    same directory."""
    living = begin(training, "--job", "other", "--state-dir", world.root / "other")
    kept = run_dirs(world) | scratch_dirs(living)
    job = begin(training)
    dead = (run_dirs(world) | scratch_dirs(job)) - kept
    assert len(dead) == 3
    kill(job, world)
    job = begin(training)
    wait_until(lambda: not dead & (run_dirs(world) | scratch_dirs(job)), "the sweep")
    job.complete()
    assert kept == run_dirs(world) | scratch_dirs(job)
    for client in living.clients:
        client.ask("step 4", "step 4 continue")
    living.complete()
    assert not run_dirs(world) and not scratch_dirs(job)
