# SPDX-License-Identifier: Apache-2.0
"""The saves of a program by its own CheckpointManager, with pch.integrations.tensorflow.

A hard exit once ended in a loop of crashes: the manager had removed the checkpoint that was committed.
"""

import re
import signal

from conftest_frameworks import PATIENCE, PREEMPTED, finish

# Two ranks, each with a model of its own, save every second step, and keep no checkpoint but the last, or the last KEEPS.
PROGRAM = """
import glob, os, signal, pch, tensorflow as tf
from told import say, wait_for
from pch.integrations.tensorflow import PreemptionCheckpointHandler
job = pch.attach()
folder, until = f"{os.environ['CHECKPOINTS']}/rank-{job.rank}", int(os.environ["UNTIL"])
weight = tf.Variable(0)
manager = tf.train.CheckpointManager(tf.train.Checkpoint(weight=weight), folder, max_to_keep=int(os.environ.get("KEEPS", "1")),
                                     step_counter=weight, checkpoint_interval=2)
handler = PreemptionCheckpointHandler(None, manager)
say("begins", step=handler.total_run_calls, weight=int(weight.numpy()))
def train():
    weight.assign_add(1)
while handler.total_run_calls < until:
    handler.run(train)
    if handler.total_run_calls % 2 == 0:
        manager.save()
    if handler.total_run_calls == (4, 5)[job.rank] and job.resume_step == 0:
        wait_for(("step 4", "rank 0 has gone on")[job.rank])
say("stands", files=sorted(os.path.basename(name)[5:-6] for name in glob.glob(f"{folder}/*.index")))
if os.environ.get("DIES"):
    wait_for("dies")
    os.kill(os.getpid(), signal.SIGKILL)
wait_for("ends")
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
    # Rank 1 stands at step 5, and rank 0 goes on. Rank 0 must keep step 4, and its newest four uncommitted saves.
    one.start(n=2, UNTIL="14")
    assert begun(1) == {(0, 0)}
    one.said("step 4 is durable on every rank")
    world.go_on("step 4")
    event = world.events.wait("stands", count=1, deadline=PATIENCE)
    assert event["files"] == ["2", "4", "5", "6", "7"] and commit_of(one) == 4
    world.go_on("rank 0 has gone on")
    world.events.wait("stands", count=2, deadline=PATIENCE)
    one.said("step 14 is durable on every rank")
    one.agree("ends")
    assert finish(one) == (PREEMPTED, "preempted", 15)
    # A hard exit: the job resumes at a step that the program saved in this run.
    one.start(n=2, UNTIL="19", DIES="1", KEEPS="2")
    assert begun(2) == {(15, 15)}
    one.said("step 18 is durable on every rank")
    world.go_on("dies")
    assert finish(one)[:2] == (128 + signal.SIGKILL, "failed")
    # The committed checkpoint is removed on one rank. All ranks resume at the newest commit that every rank has.
    newest = max((one.checkpoints / "rank-1").glob("*.index"), key=lambda path: int(path.stem[5:]))
    for path in newest.parent.glob(f"{newest.stem}.*"):
        path.unlink()
    one.start(n=2, UNTIL="16")
    assert begun(3) == {(16, 16)}
    assert re.search(r"step 18 is committed, but \S+/rank-1/ckpt-\d+ is missing: the job resumes at step 16,", one.job.err)
    assert finish(one)[:2] == (0, "completed")


# Rank 0 has a save_fn without parameters, rank 1 has one with the loop's arguments. Both save after every step, too.
WITH_SAVE_FN = """
import os, pch, tensorflow as tf
from told import say, wait_for
from pch.integrations.tensorflow import PreemptionCheckpointHandler, TerminationConfig
job = pch.attach()
folder = f"{os.environ['CHECKPOINTS']}/rank-{job.rank}"
weight = tf.Variable(0)
checkpoint = tf.train.Checkpoint(weight=weight)
manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
def save(*args):
    say("save_fn", args=args, weight=int(weight.numpy()))
    return checkpoint.write(f"{folder}/mine-{weight.numpy()}")
save_fn = save if job.rank else lambda: save()
handler = PreemptionCheckpointHandler(None, manager, termination_config=TerminationConfig(save_fn=save_fn))
say("begins", step=handler.total_run_calls, weight=int(weight.numpy()))
def train():
    weight.assign_add(1)
def turn():
    if job.rank:
        handler.save_checkpoint_if_preempted("by the loop")
        train()
    else:
        handler.run(train)
    say("saved", path=manager.save(checkpoint_number=weight))
while handler.total_run_calls < 12:
    if handler.total_run_calls == 3 and job.resume_step == 0:
        say("training")
        wait_for("on")
    turn()
"""


def test_its_own_save_at_the_step_that_all_save(program, world):
    """The save gets the manager's arguments. Once, it got those of save_fn."""
    one = program(WITH_SAVE_FN)
    one.start(n=2, ready="training", patience=PATIENCE)
    one.agree()
    code, outcome, step = finish(one)
    assert (code, outcome) == (PREEMPTED, "preempted") and step < 12
    assert sorted((e["rank"], e["args"], e["weight"]) for e in world.events.all("save_fn")) == [
        (0, [], step), (1, ["by the loop"], step)]
    assert one.report["commit"]["path"] == f"{one.checkpoints}/rank-0/mine-{step}"
    for rank in range(2):
        paths = [event["path"] for event in world.events.all("saved", rank=rank)]
        assert paths == [f"{one.checkpoints}/rank-{rank}/ckpt-{number}" for number in range(1, step + 1)]
    one.start(n=2)
    assert finish(one)[:2] == (0, "completed")
    assert [(e["step"], e["weight"]) for e in world.events.all("begins")[2:]] == [(step, step)] * 2


# Whenever the manager looks at a step, another thread saves a step. TensorFlow writes in the background if asked for.
IN_THE_BACKGROUND = """
import os, pch, threading, tensorflow as tf
from pch.integrations._tf_manager import OwnSaves
numbers = iter(range(100, 10**6))
class Step(int):
    def __lt__(self, other):
        thread = threading.Thread(target=lambda: saves.note(Step(next(numbers)), "elsewhere"))
        thread.start()
        thread.join(10)
        return int(self) < other
with pch.attach() as job:
    weight = tf.Variable(0)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(weight=weight), os.environ["CHECKPOINTS"], max_to_keep=1)
    saves = OwnSaves(job, manager, lambda: Step(job.finished), None, True)
    for step in job.steps(8):
        job.should_save
        manager.save()
    print(len(manager.checkpoints) > 1, next(numbers) > 100)
"""


def test_saves_of_two_threads(program):
    """The step of one thread disturbs the other thread, which looks for removable checkpoints, no more."""
    one = program(IN_THE_BACKGROUND)
    one.start()
    assert finish(one)[:2] == (0, "completed"), one.job.err
    assert one.job.out == "True True\n"
