# SPDX-License-Identifier: Apache-2.0
"""The internal parts of TensorFlow that its own handler uses: the error that all workers get, and the metrics. In a
TensorFlow without these parts the functions do nothing."""

from contextlib import AbstractContextManager, contextmanager
from typing import Any, Iterator

import tensorflow as tf


def describe(error: Exception) -> str:
    """ "ResourceExhaustedError: no room for it", without TensorFlow's pages about the operation and its node."""
    name = type(error).__name__
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if line and not line.startswith(("[", "Hint:"))] or [""]
    named = [line for line in telling if line.startswith(f"{name}: ")]
    return named[-1] if named else f"{name}: {telling[-1]}"


def report_to_cluster(error: Any, text: str) -> None:
    """From now on the collective operations of the other workers raise this error."""
    is_own = isinstance(error, tf.errors.OpError)
    code, message = (error.error_code, error.message) if is_own else (tf.errors.UNKNOWN, text)
    try:
        from tensorflow.python.eager import context

        context.context().report_error_to_cluster(code, message)
    except Exception as failure:  # a failure here must not hide the error itself
        tf.get_logger().info("could not report the error to the other workers: %s", failure)


def count(what: str) -> None:
    """Counts a use in tf.distribute's own counter."""
    try:
        from tensorflow.python.distribute.distribute_lib import distribution_strategy_input_api_counter as counter
    except ImportError:
        return
    # The platform's name; TensorFlow would ask the network whether this is a Google machine.
    platform = "INTERNAL_GPU" if tf.config.list_physical_devices("GPU") else "INTERNAL_CPU"
    counter.get_cell(platform, what).increase_by(1)


@contextmanager
def preemption_save() -> Iterator[None]:
    """TensorFlow's metrics count a save in this block as a save before a preemption."""
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
