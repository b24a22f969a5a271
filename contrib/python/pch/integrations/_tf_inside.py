# SPDX-License-Identifier: Apache-2.0
"""What is taken from TensorFlow's inside, as its own handler takes it: the error that all workers get, and its metrics.
A TensorFlow that has them elsewhere goes without."""

from contextlib import AbstractContextManager, contextmanager
from typing import Any, Iterator

import tensorflow as tf


def describe(error: Exception) -> str:
    """ "ResourceExhaustedError: no room for it": TensorFlow puts pages about the operation before that, and its node behind
    it."""
    name = type(error).__name__
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if line and not line.startswith(("[", "Hint:"))] or [""]
    named = [line for line in telling if line.startswith(f"{name}: ")]
    return named[-1] if named else f"{name}: {telling[-1]}"


def report_to_cluster(error: Any, text: str) -> None:
    """The collective operations of the other workers raise it from here on."""
    is_own = isinstance(error, tf.errors.OpError)
    code, message = (error.error_code, error.message) if is_own else (tf.errors.UNKNOWN, text)
    try:
        from tensorflow.python.eager import context

        context.context().report_error_to_cluster(code, message)
    except Exception as failure:  # the error itself is what counts
        tf.get_logger().info("the other workers are not told of the error: %s", failure)


def count(what: str) -> None:
    """In tf.distribute's own counter of what is used."""
    try:
        from tensorflow.python.distribute.distribute_lib import distribution_strategy_input_api_counter as counter
    except ImportError:
        return
    # The name of the platform, without asking the network whether this is a machine of Google's.
    platform = "INTERNAL_GPU" if tf.config.list_physical_devices("GPU") else "INTERNAL_CPU"
    counter.get_cell(platform, what).increase_by(1)


@contextmanager
def preemption_save() -> Iterator[None]:
    """What is saved inside counts among the saves before a preemption, and in their time."""
    count("PreemptionCheckpointHandler Saving Checkpoint")
    with _context():
        yield


def _context() -> "AbstractContextManager[Any]":
    from contextlib import nullcontext

    try:
        from tensorflow.python.checkpoint.checkpoint_context import preemption_save_context
    except ImportError:
        return nullcontext()
    context: "AbstractContextManager[Any]" = preemption_save_context()
    return context
