# SPDX-License-Identifier: Apache-2.0
"""pch.integrations.tensorflow against what TensorFlow's own tests ask of its handler: a cluster whose workers are
preempted one after the other, an error in a step, the grace period, and every argument of a TerminationConfig."""

import os
import re
import signal
import socket

from conftest_frameworks import LONG, PATIENCE, PREEMPTED, finish


def workers(n):
    """The addresses of TensorFlow's cluster: n ports that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    names = ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in sockets)
    for one in sockets:
        one.close()
    return names


# Four steps of an epoch, and three epochs. The save comes before the step, as in TensorFlow's tests. A worker
# that is no chief removes its own saves, as in TensorFlow's guide: the chief's saves count.
CLUSTER = """
import os, pch, shutil, sys, tensorflow as tf
from told import say, wait_for
from pch.integrations.tensorflow import *
rank, told = int(os.environ["RANK"]), os.environ.get("NOTICE")
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
    tf.train.ClusterSpec({"worker": os.environ["WORKERS"].split(",")}), task_type="worker", task_id=rank,
    rpc_layer="grpc")
strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
with strategy.scope():
    total = tf.Variable(0., synchronization=tf.VariableSynchronization.ON_WRITE,
                        aggregation=tf.VariableAggregation.SUM)
folder = f"{os.environ['CHECKPOINTS']}/{f'workertemp_{rank}/' if rank else ''}run"
manager = tf.train.CheckpointManager(tf.train.Checkpoint(total=total), folder, max_to_keep=1)
def is_preempted():
    return told and os.path.exists(f"{os.environ['HOLD']}/notice.hold")
handler = PreemptionCheckpointHandler(resolver, manager, termination_config=TerminationConfig(is_preempted))
watcher = PreemptionWatcher()
say("begins", step=int(handler.total_run_calls), total=float(total.numpy()), message=watcher.preemption_message)
@tf.function(autograph=False)
def step(fails):
    if fails:
        raise tf.errors.ResourceExhaustedError(None, None, "no room for it")
    total.assign_add(1.)
def train(epoch, number, fails=False):
    strategy.run(step, args=(fails,))
"""

LOOP = CLUSTER + """
for epoch in range(handler.total_run_calls // 4, 3):
    for number in range(handler.total_run_calls % 4, 4):
        if told and (epoch, number) == (1, 1):
            say("stands")
            wait_for("on")
            say("message", text=watcher.preemption_message)
        handler.save_checkpoint_if_preempted(checkpoint_number=handler.total_run_calls)
        train(epoch, number)
    manager.save(handler.total_run_calls)
    if rank:
        shutil.rmtree(folder)
watcher.block_until_worker_exit()
say("ends", step=int(handler.total_run_calls), total=float(total.numpy()))
job = pch.attach()
job.done()
"""


def test_workers_that_are_preempted_one_after_the_other(program, world):
    """No step is lost, and none is trained twice; the exit code is TensorFlow's own on Google's machines."""
    one = program(LOOP)
    one.start("--exit-preempted", "143", n=2, NOTICE="1", WORKERS=workers(2))
    world.events.wait("stands", count=2, deadline=PATIENCE)
    one.said("step 4 is durable on every rank")
    os.kill(next(event["pid"] for event in world.events.all("stands") if event["rank"] == 1), signal.SIGTERM)
    one.said(r"notice: SIGTERM")
    world.go_on("notice")
    one.said(r"control: pchctl \(process \d+, user \d+\): drain")
    one.agreed()
    code, outcome, step = finish(one)
    assert (code, outcome) == (143, "preempted") and step >= 5
    assert [event["message"] for event in world.events.all("begins")] == [None, None]
    told = [event["text"] for event in world.events.all("message")]
    assert len(told) == 2 and all(told)
    assert one.report["commit"]["path"] == f"{one.checkpoints}/run/ckpt-{step}"
    one.start("--exit-preempted", "143", n=2, WORKERS=workers(2))
    assert finish(one)[:2] == (0, "completed")
    assert {(e["step"], e["total"]) for e in world.events.all("begins")[2:]} == {(step, 2. * step)}
    assert [(e["step"], e["total"]) for e in world.events.all("ends")] == [(12, 24.)] * 2


# TensorFlow's test_preemption_checkpointing: four workers, 8 epochs of 15 steps. One worker stands between the call and its
# step, and the others in that step, when one of them is preempted.
FOUR = CLUSTER + """
for epoch in range(handler.total_run_calls // 15, 8):
    for number in range(handler.total_run_calls % 15, 15):
        handler.save_checkpoint_if_preempted()
        if told and rank == 2 and handler.total_run_calls == 53:
            wait_for("on")
        train(epoch, number)
        if told and handler.total_run_calls == 52:
            say("stands")
say("ends", step=int(handler.total_run_calls), total=float(total.numpy()))
job = pch.attach()
job.done()
"""


@LONG
def test_four_workers_one_of_which_is_preempted_in_a_step(program, world):
    one = program(FOUR)
    one.start(n=4, NOTICE="1", WORKERS=workers(4), ready="stands", patience=PATIENCE)
    os.kill(next(event["pid"] for event in world.events.all("stands") if event["rank"] == 1), signal.SIGTERM)
    one.agreed()
    code, outcome, step = finish(one)
    assert (code, outcome) == (PREEMPTED, "preempted") and 53 <= step < 120
    one.start(n=4, WORKERS=workers(4))
    assert finish(one)[:2] == (0, "completed")
    assert {(e["step"], e["total"]) for e in world.events.all("begins")[4:]} == {(step, 4. * step)}
    assert [(e["step"], e["total"]) for e in world.events.all("ends")] == [(120, 480.)] * 4


FAILING = CLUSTER + """
try:
    handler.run(train, 0, 0)
    say("trained")
    if rank == 0:  # in the collective operation of the second step, when the other fails
        wait_for("fails")
    handler.run(train, 0, 1, rank == 1)
except tf.errors.ResourceExhaustedError as error:
    say("caught", text=str(error))
    wait_for("ends" if rank == 1 else "never")
    sys.exit(3)
"""


def test_an_error_in_a_step_reaches_all(program, world):
    """The program catches the error, and dies later of something else. The job names the error as the cause."""
    one = program(FAILING)
    one.start(n=2, WORKERS=workers(2))
    world.events.wait("caught", count=1, deadline=PATIENCE)
    world.go_on("fails")
    world.events.wait("caught", count=2, deadline=PATIENCE)
    assert all("no room for it" in event["text"] for event in world.events.all("caught"))
    world.go_on("ends")
    assert finish(one) == (3, "failed", None)
    cause = one.report["first_cause"]
    assert cause["rank"] == 1 and "ResourceExhaustedError" in cause["text"] and "no room for it" in cause["text"]
    assert re.search(r" \(program0\.py:\d+, in \w+\)$", cause["text"]), cause


# The loop of a program that has two handlers goes on with the one that is left.
TWO = """
import os, pch, tensorflow as tf
from told import say, wait_for
from pch.integrations.tensorflow import PreemptionCheckpointHandler
v, w = tf.Variable(0.), tf.Variable(0.)
with pch.attach():
    first, second = [PreemptionCheckpointHandler(None, tf.train.Checkpoint(x=x), f"{os.environ['CHECKPOINTS']}/{name}")
                     for name, x in (("v", v), ("w", w))]
    try:
        first.run(lambda: v.assign_add(1.))
    except RuntimeError as error:
        say("refused", text=str(error), trained=float(v))
    while second.total_run_calls < 20:
        if os.environ.get("NOTICE") and second.total_run_calls == 5:
            say("stands")
            wait_for("on")
        second.run(lambda: w.assign_add(1.))
    say("ends", total=float(w))
"""


def test_two_handlers_in_one_process(program, world):
    """The earlier one is refused before it trains, and the later one loses no step."""
    one = program(TWO)
    one.start(NOTICE="1", ready="stands", patience=PATIENCE)
    refused = world.events.all("refused")
    assert len(refused) == 1 and refused[0]["trained"] == 0
    assert refused[0]["text"].startswith("a later PreemptionCheckpointHandler was made in this process")
    one.job.send(signal.SIGTERM)
    one.agreed()
    assert finish(one)[:2] == (PREEMPTED, "preempted")
    one.start()
    assert finish(one)[:2] == (0, "completed")
    assert [event["total"] for event in world.events.all("ends")] == [20]
