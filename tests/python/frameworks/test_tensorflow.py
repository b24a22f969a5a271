# SPDX-License-Identifier: Apache-2.0
"""pch.integrations.tensorflow with the real TensorFlow and Keras, on CPU: the programs of the manual."""

import signal
import socket

import pytest

from conftest_frameworks import PREEMPTED, example, finish, interrupt

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}

# The ranks tell that ten steps are finished, and wait there for the notice.
TOLD = """
def told(finished):
    if finished == 10 and job.resume_step == 0 and "NOTICE" in os.environ:
        from told import say, wait_for
        say("training")
        wait_for("on", 60)
"""
IN_LOOP = "            handler.run(", "            told(handler.total_run_calls)\n            handler.run("
IN_FIT = "callbacks=[", """callbacks=[
        keras.callbacks.LambdaCallback(on_train_batch_begin=lambda batch, logs: told(int(model.optimizer.iterations))),
        """


def workers(n):
    """What TensorFlow's cluster is made of: ports that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    names = ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in sockets)
    for one in sockets:
        one.close()
    return names


@pytest.mark.parametrize("name, where", [("train_tf.py", IN_LOOP), ("train_keras.py", IN_FIT)])
def test_the_manual_s_program(train, world, name, where):
    code = example(name)
    assert code.count(where[0]) == 1
    head, tail = code.split("with pch.attach()")
    code = head + TOLD + "with pch.attach()" + tail.replace(*where)
    interrupt(train, world, code, n=2, EPOCHS="8", WORKERS=lambda: workers(2), **QUIET)


# What is left, in one program: a manager with a shortest interval, an exit function, arguments that are refused,
# and TensorFlow's own handler, which reads what was saved.
PARTS = """
import os, pch, sys, types, warnings, tensorflow as tf
from pch.integrations.tensorflow import *
folder = os.environ["CHECKPOINTS"]
def attempt(call):
    try:
        print(call())
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
servers = tf.distribute.cluster_resolver.SimpleClusterResolver(
    tf.train.ClusterSpec({"ps": ["a:1"], "worker": ["b:1"]}), task_type="worker", task_id=0)
weight = tf.Variable(0.0)
checkpoint = tf.train.Checkpoint(weight=weight)
manager = tf.train.CheckpointManager(checkpoint, f"{folder}/managed", max_to_keep=2, checkpoint_interval=1000,
                                     step_counter=tf.Variable(0))

with pch.attach() as job:
    if job.resume_step == 0:
        attempt(lambda: PreemptionCheckpointHandler(None, checkpoint))
        attempt(lambda: PreemptionCheckpointHandler(servers, checkpoint, folder))
        watched = TerminationConfig(termination_watcher_fn=bool)
        attempt(lambda: PreemptionCheckpointHandler(None, manager, termination_config=watched))
        # What is there of fit, with two batches in a call: ten of earlier epochs, and four of this one, are taken.
        callback = PreemptionCallback(folder)
        callback.set_model(types.SimpleNamespace(train_function=next, steps_per_execution=2))
        callback._skip(10, 4)
        numbers = iter(range(100))
        print([callback.model.train_function(numbers) for _ in range(4)])
    def save():
        print("save_fn", manager.save(check_interval=False) is not None)
    with warnings.catch_warnings(record=True) as warned:
        handler = PreemptionCheckpointHandler(None, manager, termination_config=TerminationConfig(
            save_fn=save if job.resume_step else None, exit_fn=lambda: print("exit_fn") or sys.exit(7), grace_period=5))
    print([str(warning.message) for warning in warned])
    watcher = PreemptionWatcher()
    print(job.resume_step, handler.total_run_calls, weight.numpy(), watcher.preemption_message, flush=True)
    if job.resume_step:
        theirs = tf.train.Checkpoint(weight=weight)
        theirs = tf.distribute.experimental.PreemptionCheckpointHandler(None, theirs, os.path.dirname(job.resume_path))
        print("TensorFlow's", theirs.total_run_calls)
    while handler.total_run_calls < 8:
        weight.assign_add(1)
        if handler.total_run_calls == (5 if job.resume_step else 3):
            from told import say, wait_for
            say(f"training {job.resume_step}")
            wait_for(f"on {job.resume_step}")
            print(bool(watcher.preemption_message), flush=True)
        handler.save_checkpoint_if_preempted()
"""


def test_what_it_is_made_of(program, world):
    one = program(PARTS)

    def preempt(resumed):
        one.start(**QUIET)
        world.events.wait(f"training {resumed}", count=1, deadline=60)
        one.job.send(signal.SIGTERM)
        one.said(r"every rank saves step \d+")
        world.go_on(f"on {resumed}")
        return finish(one)
    assert preempt(0) == (PREEMPTED, "preempted", 4)
    warned = "['grace_period is not used: pchrun knows how long a notice leaves']"
    assert one.job.out.splitlines() == [
        "ValueError: with a checkpoint, instead of a manager, checkpoint_dir is needed, too",
        "NotImplementedError: a ParameterServerStrategy has no step that all workers finish",
        "ValueError: termination_watcher_fn would never be asked: pchrun looks for notices, see its --notices",
        "[{}, {}, 14, 15]", warned, "0 0 0.0 None", "True", "exit_fn"]
    assert preempt(4) == (PREEMPTED, "preempted", 6)
    assert one.job.out.splitlines() == [warned, "4 4 4.0 None", "TensorFlow's 4", "True", "save_fn True", "exit_fn"]
