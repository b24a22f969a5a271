# SPDX-License-Identifier: Apache-2.0
"""pch.integrations.tensorflow with the real TensorFlow and Keras, on CPU. test_pages.py has the programs of the
pages."""

import signal

from conftest_frameworks import PATIENCE, PREEMPTED, finish

# The parts, in one program that is started three times. They are: all fields of a TerminationConfig, refused
# arguments, a manager with a shortest interval, and TensorFlow's own handler, which reads the save.
PARTS = """
import os, pch, sys, time, types, warnings, tensorflow as tf
from tensorflow.python.distribute.distribute_lib import distribution_strategy_input_api_counter as counter
from pch.integrations.tensorflow import *
from told import attempt, say
folder = os.environ["CHECKPOINTS"]
servers = tf.distribute.cluster_resolver.SimpleClusterResolver(
    tf.train.ClusterSpec({"ps": ["a:1"], "worker": ["b:1"]}), task_type="worker", task_id=0)
weight = tf.Variable(0)
checkpoint = tf.train.Checkpoint(weight=weight)
manager = tf.train.CheckpointManager(checkpoint, f"{folder}/managed", max_to_keep=2, checkpoint_interval=1000,
                                     step_counter=weight)
job = pch.attach()
resumed, elsewhere = job.resume_step, f"{folder}/elsewhere"
if resumed == 0:
    attempt(lambda: PreemptionCheckpointHandler(None, checkpoint))
    attempt(lambda: PreemptionCheckpointHandler(servers, checkpoint, folder))
    # As in fit, with two batches in a call. _skip() drops ten batches of earlier epochs, and four of this one.
    callback = PreemptionCallback(folder)
    callback.set_model(types.SimpleNamespace(train_function=next, steps_per_execution=2))
    callback._skip(10, 4)
    numbers = iter(range(100))
    print([callback.model.train_function(numbers) for _ in range(4)])
is_asked = []
def is_preempted():  # fails the first time, as where a network is down
    is_asked.append(True)
    return 1 // (len(is_asked) - 1) and os.path.exists(f"{os.environ['HOLD']}/notice.hold")
def save_elsewhere():
    with open(elsewhere, "w") as file:
        file.write(str(int(weight.numpy())))
    print("save_fn")
def save():
    manager.save(check_interval=False)
config = {"first": TerminationConfig(is_preempted, lambda: print("exit_fn") or sys.exit(7), 3, save_elsewhere),
          "second": TerminationConfig(grace_period=2, exit_fn=lambda: print("exit_fn"), save_fn=save)}
with warnings.catch_warnings(record=True) as warned:
    handler = PreemptionCheckpointHandler(None, manager, termination_config=config.get(os.environ["TURN"]))
print([str(warning.message) for warning in warned])
if os.environ["TURN"] == "second":
    with open(elsewhere) as file:
        weight.assign(int(file.read()))
watcher = PreemptionWatcher()
print(handler.total_run_calls == resumed == weight.numpy(), watcher.preemption_message, flush=True)
if os.environ["TURN"] == "third":
    theirs = tf.train.Checkpoint(weight=tf.Variable(0))
    theirs = tf.distribute.experimental.PreemptionCheckpointHandler(None, theirs, os.path.dirname(job.resume_path))
    print("TensorFlow's", theirs.total_run_calls == resumed)
    job.done()
    sys.exit()
def train():
    weight.assign_add(1)
    time.sleep(0.02)
while not job.should_exit:
    if handler.total_run_calls == resumed + 3:
        say("training")
    handler.save_checkpoint_if_preempted()
    train()
    if watcher.preemption_message and not job.should_exit:
        say("told", text=watcher.preemption_message)
before = handler.total_run_calls
handler.run(train)
handler.save_checkpoint_if_preempted()
print("trains on", handler.total_run_calls - before,
      counter.get_cell("INTERNAL_CPU", "PreemptionCheckpointHandler Saving Checkpoint").value() > 0)
"""


def test_what_it_is_made_of(program, world):
    one = program(PARTS)

    def start(turn, preempt):
        one.start("--grace", "100s", "--save-train-on", TURN=turn)
        if preempt:
            world.events.wait("training", count=1 if turn == "first" else 2, deadline=PATIENCE)
            preempt()
        code, outcome, _ = finish(one)
        return code, outcome, one.job.out.splitlines()
    code, outcome, lines = start("first", lambda: world.go_on("notice"))
    assert (code, outcome) == (PREEMPTED, "preempted") and one.report["commit"]["path"] is None
    assert lines[:3] == ["ValueError: with a checkpoint, instead of a manager, checkpoint_dir is needed, too",
                         "NotImplementedError: ParameterServerStrategy is not supported: it has no step that all workers finish",
                         "[{}, {}, 14, 15]"]
    assert lines[3:5] == ["[]", "True None"] and "save_fn" in lines and lines[-1] == "exit_fn"
    assert "termination_watcher_fn of rank 0" in world.events.all("told")[0]["text"]
    assert "termination_watcher_fn of rank 0, 3 s left" in one.job.err and "ZeroDivisionError" in one.job.err
    step = one.report["commit"]["step"]
    code, outcome, lines = start("second", lambda: one.job.send(signal.SIGTERM))
    assert (code, outcome) == (PREEMPTED, "preempted")
    assert lines == [f"['save_fn has named no path for step {step}, at which the job resumes: the program itself is to "
                     "restore it']", "True None", "exit_fn", "trains on 2 True"]
    assert "grace_period of rank 0, 1." in one.job.err or "grace_period of rank 0, 2 s" in one.job.err
    assert start("third", None) == (0, "completed", ["[]", "True None", "TensorFlow's True"])
