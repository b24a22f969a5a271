# SPDX-License-Identifier: Apache-2.0
"""TensorFlow and Keras: what to use in place of tf.distribute.experimental.PreemptionCheckpointHandler.

    handler = PreemptionCheckpointHandler(strategy.cluster_resolver, checkpoint, "/scratch/run7")
    while handler.total_run_calls < total:
        handler.run(train_one_step, next(batches))

and a callback for the fit of a Keras model. Whose notice it is, at which step all save, whether that save counts, and
when and with which code the job ends is pchrun's; the checkpoints are TensorFlow's, and either handler reads the
other's.
"""

import glob
import os
import tempfile
import warnings
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, Optional, TypeVar, Union

import keras
import tensorflow as tf

from .._attach import attach
from .._pch import Exit

__all__ = ["PreemptionCallback", "PreemptionCheckpointHandler", "PreemptionWatcher", "TerminationConfig"]

TerminationConfig = tf.distribute.experimental.TerminationConfig

_COUNTER = "checkpointed_runs"  # what TensorFlow's handler calls it in a checkpoint
_KEPT = 3  # that of the last commit, the one in the making, and the one before

_Folder = Union[str, "os.PathLike[str]"]
_Result = TypeVar("_Result")


class PreemptionCheckpointHandler:
    """Takes the arguments of TensorFlow's, and has its methods; attaches to pchrun, unless that was done already.

    It restores when it is made: what pchrun has committed, else the latest checkpoint in the folder. With the workers
    of a cluster the chief's checkpoint counts; of the others, which must take part in a save, nothing is kept. Ranks
    that are not one cluster need folders of their own. A manager that is given must keep more than one checkpoint:
    the last one that is committed is needed until the next one is.
    """

    def __init__(self, cluster_resolver: Any, checkpoint_or_checkpoint_manager: Any,
                 checkpoint_dir: Optional[_Folder] = None, termination_config: Any = None) -> None:
        """Of termination_config: save_fn saves, and may return the path; exit_fn is called before pch.Exit is raised.

        pchrun itself looks for notices (`pchrun --notices`), and knows how long they leave: grace_period is not used,
        and a termination_watcher_fn is an error.
        """
        config = termination_config or TerminationConfig()
        if config.termination_watcher_fn:
            raise ValueError("termination_watcher_fn would never be asked: pchrun looks for notices, see its --notices")
        if config.grace_period:
            warnings.warn("grace_period is not used: pchrun knows how long a notice leaves", RuntimeWarning,
                          stacklevel=2)
        self._save_fn, self._exit_fn = config.save_fn, config.exit_fn
        self._saves_for_all = _is_chief(cluster_resolver)
        given = checkpoint_or_checkpoint_manager
        if isinstance(given, tf.train.CheckpointManager):
            self._manager, self._saves_for_all = given, True
        elif checkpoint_dir:
            self._manager = tf.train.CheckpointManager(given, os.fspath(checkpoint_dir), max_to_keep=_KEPT)
        else:
            raise ValueError("with a checkpoint, instead of a manager, checkpoint_dir is needed, too")
        checkpoint = self._manager.checkpoint
        if not hasattr(checkpoint, _COUNTER):
            setattr(checkpoint, _COUNTER, tf.Variable(0, trainable=False, dtype=tf.int64, name=_COUNTER))
        self._counter = getattr(checkpoint, _COUNTER)
        self._job = attach()
        self._calls = self._restore()

    @property
    def total_run_calls(self) -> int:
        """How often run() was called, from the first start of the training on."""
        return self._calls

    def run(self, distributed_train_function: Callable[..., _Result], *args: Any, **kwargs: Any) -> _Result:
        """Runs one step. The one before is saved first, if it is its turn: with what the loop did after it."""
        self._end_step()
        result = distributed_train_function(*args, **kwargs)
        self._calls += 1
        return result

    def save_checkpoint_if_preempted(self, *args: Any, **kwargs: Any) -> None:
        """One more step is finished, without run(). Saves it, if it is its turn, with these arguments of the save."""
        self.finished(self._calls + 1, *args, **kwargs)

    def finished(self, calls: int, *args: Any, **kwargs: Any) -> None:
        """The same, for loops that count by themselves, such as in strides."""
        self._calls = calls
        self._end_step(*args, **kwargs)

    @contextmanager
    def watch_preemption_scope(self) -> Iterator[None]:
        """Around a loop over run(): the last step is saved, too, if it is its turn."""
        yield
        self._end_step()

    def _end_step(self, *args: Any, **kwargs: Any) -> None:
        job = self._job
        if self._calls != job.finished and job.step(self._calls):
            self._save(args, kwargs)
        if job.should_exit:
            if self._exit_fn:
                self._exit_fn()
            raise Exit

    def _save(self, args: Any, kwargs: Any) -> None:
        job = self._job
        try:
            self._counter.assign(self._calls)
            path = self._write(args, kwargs)
        except BaseException as error:
            job.save_failed(error)
            raise
        if job.should_save:
            job.saved(path)

    def _write(self, args: Any, kwargs: Any) -> Optional[str]:
        """Returns the path, or None where it is another's that counts."""
        if self._save_fn:
            path = self._save_fn(*args, **kwargs) or tf.train.latest_checkpoint(self._manager.directory)
        elif self._saves_for_all:
            path = _save_with(self._manager, args, kwargs)
        else:
            with tempfile.TemporaryDirectory(dir=self._job.scratch_dir()) as folder:
                _save_with(tf.train.CheckpointManager(self._manager.checkpoint, folder, max_to_keep=1), args, kwargs)
        if not self._saves_for_all:
            return None
        if not path:
            raise RuntimeError("nothing was saved")
        return _synced(os.fspath(path))

    def _restore(self) -> int:
        job, manager = self._job, self._manager
        if job.resume_step == 0:
            manager.restore_or_initialize()
        elif job.resume_path is None:
            raise RuntimeError(f"the job resumes at step {job.resume_step}, but no path was given for it to saved()")
        else:
            manager.checkpoint.restore(job.resume_path)
        calls = int(self._counter.numpy())
        if job.resume_step not in (0, calls):
            raise RuntimeError(f"{job.resume_path} holds step {calls}; the job resumes at step {job.resume_step}")
        return calls


class PreemptionCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Saves in the midst of a model.fit, and goes on there, in the same batch of the same epoch.

    It saves the model's and the optimizer's variables, and the random numbers' states. To be there again it takes from
    the data what was trained on, without training. So the data's order in an epoch must not depend on what was drawn
    before; or it goes on through all epochs (`repeat()`, with fit's steps_per_epoch), and `endless` says so. The number
    of batches of an epoch must be known. What other callbacks remember is not saved, and the metrics of the epoch that
    is resumed are those of its rest. One fit is the training of one job.
    """

    def __init__(self, checkpoint_dir: _Folder, *, cluster_resolver: Any = None, termination_config: Any = None,
                 endless: bool = False) -> None:
        super().__init__()
        self._arguments = cluster_resolver, os.fspath(checkpoint_dir), termination_config
        self._endless, self._epoch = endless, 0

    def on_train_begin(self, logs: Optional[Dict[str, Any]] = None) -> None:
        model, steps = self.model, self.params["steps"]
        if keras.backend.backend() != "tensorflow":
            raise RuntimeError(f"the backend of Keras is {keras.backend.backend()}; this callback needs tensorflow")
        if not steps:
            raise ValueError("how many batches an epoch has is not known: give fit() steps_per_epoch")
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        variables = [*model.variables, *model.optimizer.variables]
        checkpoint = tf.train.Checkpoint(variables=[variable.value for variable in variables])
        resolver, folder, config = self._arguments
        self._handler = PreemptionCheckpointHandler(resolver, checkpoint, folder, config)
        epoch, batches = divmod(self._handler.total_run_calls, steps)
        if self._handler.total_run_calls:
            model._initial_epoch = epoch  # as keras.callbacks.BackupAndRestore does it
            self._skip(epoch * steps if self._endless else 0, batches)

    def on_epoch_begin(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        steps = self.params["steps"]
        finished = self._epoch * steps + min(batch + 1, steps)
        if finished > self._handler.total_run_calls:
            self._handler.finished(finished)

    def _skip(self, ahead: int, batches: int) -> None:
        """What fit calls for each batch takes them, and trains on none, until it is where it was."""
        model, train = self.model, self.model.train_function
        at_once = model.steps_per_execution

        def train_function(iterator: Iterator[Any]) -> Any:
            nonlocal ahead, batches
            for _ in range(ahead):
                next(iterator)
            ahead = 0
            if batches > 0:
                for _ in range(at_once):
                    next(iterator)
                batches -= at_once
                return {}
            model.train_function = train
            return train(iterator)

        if ahead or batches:
            model.train_function = train_function


class PreemptionWatcher:
    """In place of tf.distribute.experimental.PreemptionWatcher, on any platform."""

    def __init__(self) -> None:
        self._job = attach()

    @property
    def preemption_message(self) -> Optional[str]:
        """The text of the notice that is in force, or None."""
        return self._job.notice()

    def block_until_worker_exit(self) -> None:
        """Returns at once, as TensorFlow's does wherever the workers are not TPUs': pchrun ends them."""


def _is_chief(cluster_resolver: Any) -> bool:
    """Without a cluster every process is its own."""
    jobs = cluster_resolver.cluster_spec().as_dict() if cluster_resolver else {}
    if "ps" in jobs:
        raise NotImplementedError("a ParameterServerStrategy has no step that all workers finish")
    kind, number = (cluster_resolver.task_type, cluster_resolver.task_id) if jobs else ("chief", 0)
    return kind in ("chief", "evaluator") or (number == 0 and "chief" not in jobs)


def _save_with(manager: Any, args: Any, kwargs: Any) -> Optional[str]:
    """A manager may have a shortest interval between saves; it does not hold for this one."""
    path: Optional[str] = manager.save(*args, **(kwargs if len(args) > 1 else {"check_interval": False, **kwargs}))
    manager.sync()  # of one that saves in the background
    return path


def _synced(path: str) -> str:
    """The absolute path of what will be found after a loss of power; in a store of TensorFlow's own, as it is."""
    whole = os.path.abspath(path)
    folder = os.path.dirname(whole)
    if not os.path.isdir(folder):
        return path
    for name in [*glob.glob(f"{glob.escape(whole)}.*"), *glob.glob(f"{glob.escape(folder)}/checkpoint"), folder]:
        fd = os.open(name, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    return whole
