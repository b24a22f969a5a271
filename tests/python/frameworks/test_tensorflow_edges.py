# SPDX-License-Identifier: Apache-2.0
"""pch.integrations.tensorflow where nothing goes on as usual: without a pchrun, with errors, and at the end of the loop."""

import re
import signal

from conftest_frameworks import PATIENCE, PREEMPTED, finish

BEGIN = """
import os, pch, sys, tensorflow as tf
from told import say, wait_for
from pch.integrations.tensorflow import *
folder = os.environ["CHECKPOINTS"]
weight = tf.Variable(0)
checkpoint = tf.train.Checkpoint(weight=weight)
def train():
    weight.assign_add(1)
"""

ALONE = BEGIN + """
def never():
    print("called")
config = TerminationConfig(never, never, 3, never)
manager = tf.train.CheckpointManager(checkpoint, f"{folder}/managed", max_to_keep=1)
handler, watcher = PreemptionCheckpointHandler(None, manager, termination_config=config), PreemptionWatcher()
with handler.watch_preemption_scope():
    handler.run(train)
    handler.save_checkpoint_if_preempted("what", save_fn="would get")
    train()
    handler.finished(3)
print(handler.total_run_calls, weight.numpy(), watcher.preemption_message, watcher.block_until_worker_exit())
print(os.path.basename(manager.save()), [os.path.basename(path) for path in manager.checkpoints])
try:
    handler.run(int, "x")
except ValueError as error:
    print(error)
again = tf.train.CheckpointManager(tf.train.Checkpoint(weight=weight), f"{folder}/managed", max_to_keep=1)
print(PreemptionCheckpointHandler(None, again).total_run_calls)
pch.attach().close()
import keras
model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(tf.zeros((4, 1)), tf.zeros((4, 1)), batch_size=2, verbose=0, callbacks=[PreemptionCallback(f"{folder}/fit")])
print(int(model.optimizer.iterations), os.listdir(f"{folder}") == ["managed"])
"""


def test_without_a_pchrun(program):
    """The handler restores the latest checkpoint, as TensorFlow's handler does, and saves nothing by itself."""
    code, out, err = program(ALONE).alone(patience=PATIENCE)
    assert code == 0, err
    assert out.splitlines() == [
        "3 2 None None", "ckpt-1 ['ckpt-1']", "invalid literal for int() with base 10: 'x'", "3", "2 True"]


ERRORS = BEGIN + """
handler = PreemptionCheckpointHandler(None, checkpoint, folder)
def attempt(call, where):
    try:
        call()
    except Exception as error:
        say("caught", error=type(error).__name__, where=where)
def end_of_data():
    raise tf.errors.OutOfRangeError(None, None, "End of sequence")
def scope(call):
    with handler.watch_preemption_scope():
        handler.run(train)
        call()
def no_room():
    raise tf.errors.ResourceExhaustedError(None, None, "no room for it")
attempt(lambda: handler.run(end_of_data), "run")
attempt(lambda: handler.run(next, iter(())), "run")
attempt(lambda: scope(end_of_data), "scope")
attempt(lambda: scope(lambda: int("x")), "scope")
attempt(lambda: scope(no_room), "scope")
attempt(lambda: scope(lambda: handler.run(int, "y")), "run in a scope")
print(handler.total_run_calls)
sys.exit(3)
"""


def test_errors_that_the_program_catches(program, world):
    """The end of the data is no cause. An error in a scope is reported once, like an error in run()."""
    one = program(ERRORS)
    one.start()
    assert finish(one) == (3, "failed", None)
    assert one.job.out == "4\n"
    assert [(event["error"], event["where"]) for event in world.events.all("caught")] == [
        ("OutOfRangeError", "run"), ("StopIteration", "run"), ("OutOfRangeError", "scope"), ("ValueError", "scope"),
        ("ResourceExhaustedError", "scope"), ("ValueError", "run in a scope")]
    told = [line.split("says why it fails: ")[1] for line in one.job.err_lines if "says why it fails" in line]
    first = 1 + ERRORS[:ERRORS.index('int("x")')].count("\n")
    assert told == [f"ValueError: invalid literal for int() with base 10: 'x' (program0.py:{first}, in <lambda>)",
                    f"ResourceExhaustedError: no room for it (program0.py:{first - 4}, in no_room)",
                    f"ValueError: invalid literal for int() with base 10: 'y' (program0.py:{first + 2}, in <lambda>)"]


# The notice comes in the last step.
LAST = BEGIN + """
handler = PreemptionCheckpointHandler(None, checkpoint, folder, TerminationConfig(grace_period=0))
say("begins", step=handler.total_run_calls, weight=int(weight.numpy()))
with handler.watch_preemption_scope():
    while handler.total_run_calls < 3:
        handler.run(train)
    if "NOTICE" in os.environ:
        say("last")
        wait_for("on")
print("after the scope")
"""


def test_the_last_step_of_a_scope(program, world):
    """The step is saved at the end of the scope. A grace_period of 0 leaves pchrun's grace as it is."""
    one = program(LAST)
    one.start("--grace", "77s", NOTICE="1", ready="last", patience=PATIENCE)
    one.job.send(signal.SIGTERM)
    one.said("every rank saves step 3")
    world.go_on("on")
    assert finish(one) == (PREEMPTED, "preempted", 3)
    assert one.job.out == "" and "77 s left" in one.job.err and "grace_period" not in one.job.err
    one.start()
    assert finish(one)[0] == 0 and one.job.out == "after the scope\n"
    assert [(event["step"], event["weight"]) for event in world.events.all("begins")] == [(0, 0), (3, 3)]


KEPT = BEGIN + """
import time
handler = PreemptionCheckpointHandler(None, checkpoint, folder, TerminationConfig(grace_period=1))
while True:
    handler.run(train)
    time.sleep(0.02)
    if handler.total_run_calls == 8:
        say("kept", names=[name for name in os.listdir(folder) if name.endswith(".index")])
"""


def test_a_folder_keeps_three_and_a_cloud_has_its_own_deadline(program, world):
    one = program(KEPT)
    notice = world.root / "notice"
    one.start("--grace", "77s", "--checkpoint-every", "1", "--notices", f"file:{notice}")
    kept = world.events.wait("kept", deadline=PATIENCE)
    assert len(kept["names"]) == 3, kept
    notice.write_text('{"type": "terminate", "deadline_seconds": 50}')
    assert finish(one)[:2] == (PREEMPTED, "preempted")
    assert re.search(r"(49\.\d+|50) s left", one.job.err) and "grace_period" not in one.job.err, one.job.err


NEEDS = BEGIN + """
from told import attempt
pch.attach(needs="rank0")
def cluster(number):
    spec = tf.train.ClusterSpec({"worker": ["127.0.0.1:1", "127.0.0.1:2"]})
    return tf.distribute.cluster_resolver.SimpleClusterResolver(spec, task_type="worker", task_id=number)
def handler(resolver, saver=checkpoint, **more):
    config = TerminationConfig(**more)
    attempt(lambda: PreemptionCheckpointHandler(resolver, saver, folder, config).total_run_calls)
own = tf.train.CheckpointManager(checkpoint, f"{folder}/own", max_to_keep=1)
handler(cluster(0))
handler(cluster(1))
handler(cluster(0), own)
handler(cluster(1), own)
handler(cluster(0), save_fn=train)
handler(None)
"""


def test_where_the_chief_saves_for_all(program):
    code, out, err = program(NEEDS).alone(patience=PATIENCE)
    assert code == 0, err
    refused = "ValueError: attach(needs='rank0') would lose the other ranks' parts"
    assert [line[:len(refused)] for line in out.splitlines()] == ["0", "0", "0", *[refused] * 3]
