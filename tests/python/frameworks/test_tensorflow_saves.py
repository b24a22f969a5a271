# SPDX-License-Identifier: Apache-2.0
"""What a program saves through its own CheckpointManager, with pch.integrations.tensorflow.

A hard exit once ended in a loop of crashes: the manager had removed the checkpoint that was committed.
"""

import re
import signal

from conftest_frameworks import PATIENCE, PREEMPTED, finish

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}

# Two ranks, each with a model of its own, save every second step, and keep no checkpoint but the last.
PROGRAM = """
import glob, os, signal, pch, tensorflow as tf
from told import say, wait_for
from pch.integrations.tensorflow import PreemptionCheckpointHandler
job = pch.attach()
folder, until = f"{os.environ['CHECKPOINTS']}/rank-{job.rank}", int(os.environ["UNTIL"])
weight = tf.Variable(0)
manager = tf.train.CheckpointManager(tf.train.Checkpoint(weight=weight), folder, max_to_keep=1, step_counter=weight,
                                     checkpoint_interval=2)
handler = PreemptionCheckpointHandler(None, manager)
say("begins", step=handler.total_run_calls, weight=int(weight.numpy()))
def train():
    weight.assign_add(1)
while handler.total_run_calls < until:
    handler.run(train)
    if handler.total_run_calls % 2 == 0:
        manager.save()
    if handler.total_run_calls == (4, 5)[job.rank] and job.resume_step == 0:
        wait_for(("step 4", "rank 0 has gone on")[job.rank], 120)
say("stands", files=sorted(os.path.basename(name)[5:-6] for name in glob.glob(f"{folder}/*.index")))
if os.environ.get("DIES"):
    wait_for("dies", 120)
    os.kill(os.getpid(), signal.SIGKILL)
wait_for("ends", 120)
handler.run(train)
handler.run(train)
"""


def commit_of(one):
    return one.report["commit"]["step"]


def test_saves_of_the_program_are_saves_of_the_job(program, world):
    one = program(PROGRAM)

    def begun(attempt):
        world.events.wait("begins", count=2 * attempt, deadline=PATIENCE)
        return {(event["step"], event["weight"]) for event in world.events.all("begins")[-2:]}
    # Rank 1 stands at step 5, and rank 0 goes on: it may not remove step 4, nor the newest four that are not committed.
    one.start(n=2, UNTIL="14", **QUIET)
    assert begun(1) == {(0, 0)}
    one.said("step 4 is durable on every rank")
    world.go_on("step 4")
    event = world.events.wait("stands", count=1, deadline=PATIENCE)
    assert event["files"] == ["2", "4", "5", "6", "7"] and commit_of(one) == 4
    world.go_on("rank 0 has gone on")
    world.events.wait("stands", count=2, deadline=PATIENCE)
    one.said("step 14 is durable on every rank")
    one.job.send(signal.SIGTERM)
    one.said(r"every rank saves step \d+")
    world.go_on("ends")
    assert finish(one) == (PREEMPTED, "preempted", 15)
    # A hard exit: what was saved since is where the job resumes.
    one.start(n=2, UNTIL="19", DIES="1", **QUIET)
    assert begun(2) == {(15, 15)}
    one.said("step 18 is durable on every rank")
    world.go_on("dies")
    assert finish(one)[:2] == (128 + signal.SIGKILL, "failed")
    # What is committed is removed on one rank: all resume at the newest commit that every rank has.
    newest = max((one.checkpoints / "rank-1").glob("*.index"), key=lambda path: int(path.stem[5:]))
    for path in newest.parent.glob(f"{newest.stem}.*"):
        path.unlink()
    one.start(n=2, UNTIL="16", **QUIET)
    assert begun(3) == {(16, 16)}
    assert re.search(r"step 18 is committed, but \S+/rank-1/ckpt-\d+ is not there .* resumes at step 16,", one.job.err)
    assert finish(one)[:2] == (0, "completed")
