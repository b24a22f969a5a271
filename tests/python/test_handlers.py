# SPDX-License-Identifier: Apache-2.0
"""Several PreemptionCheckpointHandlers in one process. A stand-in for TensorFlow is enough: a handler asks it for nothing
before it is refused. tests/python/frameworks has the same with TensorFlow."""

STAND_IN = """
import sys, threading
from unittest.mock import MagicMock
tf, keras = MagicMock(), MagicMock()
tf.train.CheckpointManager = type("CheckpointManager", (), {
    "__init__": lambda self, checkpoint, directory, max_to_keep: vars(self).update(
        checkpoint=checkpoint, directory=directory),
    "restore_or_initialize": lambda self: None, "save": lambda self, *args: "saved"})
keras.callbacks.Callback = object
sys.modules.update(tensorflow=tf, keras=keras)
from pch.integrations.tensorflow import PreemptionCheckpointHandler
def make():
    checkpoint = MagicMock()
    checkpoint.checkpointed_runs.numpy.return_value = 0
    return PreemptionCheckpointHandler(None, tf.train.CheckpointManager(checkpoint, "/nowhere", 1))
def use(call, *args):
    try:
        print(call(*args))
    except RuntimeError as error:
        print("refused:", error)
"""
REFUSED = ("refused: a later PreemptionCheckpointHandler was made in this process, so this one cannot save any more: put all "
           "that the process saves into one tf.train.Checkpoint, and make one handler for it")


def said(program, code):
    exit_code, out, err = program(STAND_IN + code).alone()
    assert exit_code == 0, err
    return out.splitlines()


def test_an_earlier_handler_is_refused_in_every_way(program):
    assert said(program, """
first = make()
use(first.run, lambda: "trained")
second = make()
use(first.run, lambda: "lost")
use(first.save_checkpoint_if_preempted)
use(first.finished, 3)
use(first._manager.save)
use(second.run, lambda: "trained")
use(second._manager.save)
""") == ["trained", *[REFUSED] * 4, "trained", "saved"]


def test_three_of_which_one_is_deleted_and_one_is_in_a_thread(program):
    """A deleted handler changes nothing. If the newest is deleted, the earlier ones stay refused."""
    assert said(program, """
first = make()
del first
second = make()
use(second.run, lambda: "trained")
made = []
def train():
    made.append(make())
    use(made[0].run, lambda: "trained in a thread")
thread = threading.Thread(target=train)
thread.start()
thread.join()
use(second.run, lambda: "lost")
made.clear()
use(second.run, lambda: "lost")
""") == ["trained", "trained in a thread", REFUSED, REFUSED]
