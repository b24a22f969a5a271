# SPDX-License-Identifier: Apache-2.0
"""TensorFlow and Keras: a replacement for tf.distribute.experimental.PreemptionCheckpointHandler.

    handler = PreemptionCheckpointHandler(strategy.cluster_resolver, checkpoint, "/scratch/run7")
    while handler.total_run_calls < total:
        handler.run(train_one_step, next(batches))

There is also a callback for the fit of a Keras model. pchrun decides on the notice, the step at which all ranks save, the
commit, and the end of the job with its exit code. The checkpoints are TensorFlow's: each of the two handlers reads those
of the other.
"""

import os
import signal
import tempfile
import warnings
import weakref
from contextlib import contextmanager
from functools import partial
from typing import Any, Callable, Dict, Iterator, Optional, Tuple, TypeVar, Union

import keras
import tensorflow as tf

from .._attach import attach, place_of
from .._pch import Exit, _take_sigterm
from ._files import sync_prefix
from ._needs import check_needs
from ._tf_inside import count, describe, preemption_save, report_to_cluster
from ._tf_manager import OwnSaves
from ._tf_notice import Watch

__all__ = ["PreemptionCallback", "PreemptionCheckpointHandler", "PreemptionWatcher", "TerminationConfig"]

TerminationConfig = tf.distribute.experimental.TerminationConfig

_COUNTER = "checkpointed_runs"  # its name in the checkpoints of TensorFlow's handler
_KEPT = 3  # the checkpoints of the last commit, of the save that is being written, and of the save before
_NAME = "PreemptionCheckpointHandler"

_Folder = Union[str, "os.PathLike[str]"]
_Result = TypeVar("_Result")


class PreemptionCheckpointHandler:
    """Has the arguments and methods of TensorFlow's handler. Attaches to pchrun, unless the process is attached.

    It restores when it is made: the checkpoint that pchrun has committed, else the latest checkpoint in the folder. In
    a cluster the chief's checkpoint counts. The other workers must take part in a save, but their files are not kept.
    Ranks that are not one cluster need folders of their own. If the program gives a manager, its own saves through that
    manager are committed, too, when every rank has saved that step.

    A process has one handler, for all that it saves. If another is made, the earlier one raises an error when it is used.
    """

    _newest: Any = None  # a weak reference to the handler that was made last

    def __init__(self, cluster_resolver: Any, checkpoint_or_checkpoint_manager: Any,
                 checkpoint_dir: Optional[_Folder] = None, termination_config: Any = None) -> None:
        """docs/python/tensorflow.md says what each part of termination_config does."""
        config = termination_config or TerminationConfig()
        self._save_fn, self._exit_fn = config.save_fn, config.exit_fn
        self._has_left = False
        self._told: Optional[Exception] = None
        self.failed_save: Optional[BaseException] = None  # why the last failed save has failed
        self._is_cluster, is_chief = _place(cluster_resolver)
        given = checkpoint_or_checkpoint_manager
        if isinstance(given, tf.train.CheckpointManager):
            self._manager = given
            self._manager_saves = True
        elif checkpoint_dir:
            self._manager = tf.train.CheckpointManager(given, os.fspath(checkpoint_dir), max_to_keep=_KEPT)
            self._manager_saves = is_chief
        else:
            raise ValueError("with a checkpoint, instead of a manager, checkpoint_dir is needed, too")
        self._counts = self._manager_saves and (is_chief or not _is_temporary(self._manager.directory))
        checkpoint = self._manager.checkpoint
        if not hasattr(checkpoint, _COUNTER):
            setattr(checkpoint, _COUNTER, tf.Variable(0, trainable=False, dtype=tf.int64, name=_COUNTER))
        self._counter = getattr(checkpoint, _COUNTER)
        self._job = attach()
        is_whole = self._is_cluster and self._counts == is_chief and not self._save_fn
        check_needs(self._job, is_whole, is_chief)
        if signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, None):
            _take_sigterm()  # a TensorFlow cluster has taken SIGTERM, and does not act on it
        # A save_fn takes the loop's arguments, not the manager's.
        serve = None if self._save_fn else self._save
        self._saves = OwnSaves(self._job, self._manager, self._begin_save, serve, self._counts)
        self._calls = self._restore()
        self._watch = Watch(self._job, config.termination_watcher_fn, config.grace_period)
        weakref.finalize(self, self._watch.stop)
        PreemptionCheckpointHandler._newest = weakref.ref(self)
        count(_NAME)

    @property
    def total_run_calls(self) -> int:
        """The number of calls of run() since the first start of the training."""
        return self._calls

    def run(self, distributed_train_function: Callable[..., _Result], *args: Any, **kwargs: Any) -> _Result:
        """Runs one step. If all ranks save the step before, saves that step first, with the loop's later changes."""
        self._check_newest()
        job, calls = self._job, self._calls
        if (calls != job.finished and job.step(calls)) or job.should_save or job.should_exit:
            self._serve(args=(), kwargs={})
        try:
            result = distributed_train_function(*args, **kwargs)
        except Exception as error:
            self._tell(error)
            raise
        self._calls = calls + 1
        return result

    def save_checkpoint_if_preempted(self, *args: Any, **kwargs: Any) -> None:
        """Replaces run(), with one call for each step. If all ranks save the finished step, saves it with these arguments.

        As in TensorFlow's handler, total_run_calls is the number of calls before this one, also in the checkpoint. So a
        loop that counts by total_run_calls makes this call before the step. A loop that makes it after the step counts
        its steps in a variable of its own in the checkpoint, or calls finished().
        """
        self._end_step(*args, **kwargs)
        self._calls += 1

    def finished(self, calls: int, *args: Any, **kwargs: Any) -> None:
        """Reports the number of finished steps, and saves as above. For loops that count themselves, such as in strides."""
        self._calls = calls
        self._end_step(*args, **kwargs)

    @contextmanager
    def watch_preemption_scope(self) -> Iterator[None]:
        """Put this scope around a loop over run(): then the last step is saved, too, if all ranks save it."""
        try:
            yield
        except Exception as error:
            self._tell(error)
            raise
        self._end_step()

    def _check_newest(self) -> None:
        """The job knows one step and one path of this rank, so the saves of a second handler would be lost."""
        if PreemptionCheckpointHandler._newest() is not self:
            raise RuntimeError(f"a later {_NAME} was made in this process, so this one cannot save any more: put all that "
                               "the process saves into one tf.train.Checkpoint, and make one handler for it")

    def _end_step(self, *args: Any, **kwargs: Any) -> None:
        self._check_newest()
        if self._calls != self._job.finished:
            self._job.step(self._calls)
        self._serve(args, kwargs)

    def _serve(self, args: Any, kwargs: Any) -> None:
        """Saves the finished step, or leaves, if the job asks for it."""
        if self._job.should_save:
            self._save(args, kwargs)
        if self._job.should_exit and not self._has_left:
            self._leave()

    def _leave(self) -> None:
        """If exit_fn returns, the program trains on, without protection, until pchrun ends the process."""
        if not self._exit_fn:
            raise Exit
        self._has_left = True
        self._watch.stop()
        self._exit_fn()

    def _tell(self, error: Exception) -> None:
        """Reports the error as the cause, and to the other workers, even if the program catches it. The end of the data is
        not an error of the job."""
        if error is self._told or isinstance(error, StopIteration):
            return
        self._told = error
        text = describe(error)
        if not isinstance(error, tf.errors.OutOfRangeError):
            self._job.error(text + place_of(error))
        if self._is_cluster:
            report_to_cluster(error, text)

    def _begin_save(self) -> int:
        """Called before a save of the program. Reports the step first, so that it is not reported again."""
        self._check_newest()
        if self._calls != self._job.finished:
            self._job.step(self._calls)
        self._counter.assign(self._calls)
        return self._calls

    def _save(self, args: Any, kwargs: Any) -> Optional[str]:
        """Makes the agreed save."""
        job = self._job
        try:
            with preemption_save():
                self._counter.assign(self._calls)
                path = self._write(args, kwargs)
        except BaseException as error:
            self.failed_save = error
            job.save_failed(error)
            raise
        if job.should_save:
            job.saved(path)
        return path

    def _write(self, args: Any, kwargs: Any) -> Optional[str]:
        """Returns the path. None: the checkpoint of another rank counts, or save_fn has named no path."""
        if self._save_fn:
            path = self._write_by_function(args, kwargs)
        elif self._manager_saves:
            path = self._saves.save(self._calls, args, kwargs)
            if not path:
                raise RuntimeError("nothing was saved")
        else:
            with tempfile.TemporaryDirectory(dir=self._job.scratch_dir()) as folder:
                temporary = tf.train.CheckpointManager(self._manager.checkpoint, folder, max_to_keep=1)
                OwnSaves.save_with(temporary, args, kwargs)
            return None
        if not path or not self._counts:
            return None
        path = sync_prefix(path)
        self._saves.note(self._calls, path)
        return path

    def _write_by_function(self, args: Any, kwargs: Any) -> Optional[str]:
        """The path that save_fn returns, else that of its checkpoint by the manager, or in the manager's folder."""
        saves, folder = self._saves, self._manager.directory
        before = tf.train.latest_checkpoint(folder)
        with saves.round(self._calls):
            path = self._save_fn(*args, **kwargs)
            self._manager.sync()
        if isinstance(path, (str, os.PathLike)):
            return os.fspath(path)
        known: Optional[str] = saves.path_of(self._calls)
        if not known and saves.has_refused:
            raise RuntimeError("save_fn has saved nothing: its CheckpointManager.save() returned None")
        latest: Optional[str] = tf.train.latest_checkpoint(folder)
        return known or (latest if latest != before else None)

    def _restore(self) -> int:
        job, manager = self._job, self._manager
        if job.resume_step == 0:
            manager.restore_or_initialize()
        elif job.resume_path is None and self._save_fn:
            warnings.warn(f"save_fn has named no path for step {job.resume_step}, at which the job resumes: the program "
                          "itself is to restore it", RuntimeWarning, stacklevel=3)
            self._counter.assign(job.resume_step)
        elif job.resume_path is None:
            raise RuntimeError(f"the job resumes at step {job.resume_step}, but saved() got no path for that step")
        else:
            manager.checkpoint.restore(job.resume_path)
        calls = int(self._counter.numpy())
        if job.resume_step not in (0, calls):
            raise RuntimeError(f"{job.resume_path} holds step {calls}; the job resumes at step {job.resume_step}")
        return calls


class PreemptionCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Saves in the middle of a model.fit, and resumes there, at the same batch of the same epoch.

    It saves the variables of the model and of the optimizer, and the states of the random numbers. To resume, it takes
    the batches before that from the data, and does not train on them. So the order of the data in an epoch must not
    depend on earlier epochs. Or the data goes on through all epochs (`repeat()`, with fit's steps_per_epoch), with
    `endless`. The number of batches of an epoch must be known.

    The learning rate goes on as it was saved, also if a callback sets it when an epoch begins, as LearningRateScheduler
    does. The state of other callbacks is not saved, and the metrics of a resumed epoch cover only its rest. One fit is the
    training of one job.
    """

    def __init__(self, checkpoint_dir: _Folder, *, cluster_resolver: Any = None, termination_config: Any = None,
                 endless: bool = False) -> None:
        super().__init__()
        self._arguments = cluster_resolver, os.fspath(checkpoint_dir), termination_config
        self._endless, self._epoch = endless, 0
        self._restore_rate: Optional[Callable[[], object]] = None

    @property
    def failed_save(self) -> Optional[BaseException]:
        """The exception of the last save that failed. It was reported to the job."""
        return self._handler.failed_save

    def on_train_begin(self, logs: Optional[Dict[str, Any]] = None) -> None:
        model, steps = self.model, self.params["steps"]
        if keras.backend.backend() != "tensorflow":
            raise RuntimeError(f"the backend of Keras is {keras.backend.backend()}; this callback needs tensorflow")
        if not steps:
            raise ValueError("how many batches an epoch has is not known: give fit() steps_per_epoch")
        if not model.built or not model.weights:  # Model.build() makes none in a subclass of Model
            raise ValueError("the model has no variables before its first batch: let it begin with keras.Input(shape), or "
                             "call it with a batch before fit()")
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
        rate = model.optimizer.learning_rate
        if batches and isinstance(rate, keras.Variable):  # else a schedule, which follows the steps
            self._restore_rate = partial(rate.assign, keras.ops.convert_to_numpy(rate))

    def on_epoch_begin(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        steps = self.params["steps"]
        finished = self._epoch * steps + min(batch + 1, steps)
        if finished > self._handler.total_run_calls:
            self._handler.finished(finished)
        elif finished == self._handler.total_run_calls and self._restore_rate:
            # The last batch before the resume. Callbacks that set the rate when an epoch begins have set it again.
            self._restore_rate()

    def _skip(self, ahead: int, batches: int) -> None:
        """Makes fit drop `ahead` elements of the data, then `batches` batches, before it trains."""
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
    """Replaces tf.distribute.experimental.PreemptionWatcher, on any platform."""

    def __init__(self) -> None:
        self._job = attach()

    @property
    def preemption_message(self) -> Optional[str]:
        """The text of the notice that is in force, or None."""
        return self._job.notice()

    def block_until_worker_exit(self) -> None:
        """Returns at once, since pchrun ends the workers. TensorFlow's does the same unless the workers are TPUs'."""


def _place(cluster_resolver: Any) -> Tuple[bool, bool]:
    """(Is this process a worker of a cluster? Does its checkpoint count?) Without a cluster every checkpoint counts."""
    jobs = cluster_resolver.cluster_spec().as_dict() if cluster_resolver else {}
    if "ps" in jobs:
        raise NotImplementedError("ParameterServerStrategy is not supported: it has no step that all workers finish")
    if not jobs:
        return False, True
    kind, number = cluster_resolver.task_type, cluster_resolver.task_id
    return True, kind in ("chief", "evaluator") or (number == 0 and "chief" not in jobs)


def _is_temporary(directory: str) -> bool:
    """By the names in TensorFlow's guide: a worker that is not the chief saves there, because all must take part."""
    parent = os.path.basename(os.path.dirname(os.path.abspath(directory)))
    return parent.startswith("workertemp_")
