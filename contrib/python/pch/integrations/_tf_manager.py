# SPDX-License-Identifier: Apache-2.0
"""The saves of a tf.train.CheckpointManager as saves of the job."""

import copy
import os
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set

import tensorflow as tf

from .._control import committed_step
from .._pch import Job
from ._files import is_url, sync_prefix

# The number of newest uncommitted saves that are kept: other ranks may still save these steps.
_PENDING = 4


class OwnSaves:
    """Reports the saves that the program makes through the manager, and keeps the checkpoints that the job may resume from.

    A save is reported when it is written, in the background too. The manager removes neither the checkpoint of the last
    commit nor the newest ones that may still be committed. Before it removes an older uncommitted one, that save is
    reported as failed, so that no rank waits for it.
    """

    def __init__(self, job: Job, manager: Any, begin: Callable[[], int],
                 serve: Optional[Callable[[Any, Any], Optional[str]]], counts: bool) -> None:
        """begin() is called before a save of the program. It stores the step in the checkpoint, and returns the step.

        serve() makes the save if all ranks save that step. It takes the manager's arguments, and returns the path. None:
        the loop's next call makes that save, with the loop's arguments.

        counts: the job can resume from these checkpoints. If not, another rank's count, and none is kept here."""
        self._counts = counts
        self._job, self._manager, self._begin, self._serve = job, manager, begin, serve
        self._paths: Dict[int, str] = {}
        self._round: Optional[int] = None
        self.has_refused = False
        manager.save = self._save
        if not job.supervised:
            return
        if job.resume_path and counts:
            self._paths[job.resume_step] = job.resume_path
        manager._sweep = self._sweep

    def save(self, step: int, args: Any, kwargs: Any) -> Optional[str]:
        """Saves the step that all ranks save. With a checkpoint_interval the manager saves no step twice."""
        with self.round(step):
            return self.save_with(self._manager, args, kwargs) or self.path_of(step)

    @staticmethod
    def save_with(manager: Any, args: Any, kwargs: Any) -> Optional[str]:
        """Saves, even if the manager's checkpoint_interval is not over."""
        more = kwargs if len(args) > 1 else {"check_interval": False, **kwargs}
        path: Optional[str] = manager.save(*args, **more)
        manager.sync()  # waits for a checkpoint that is written in the background
        return path

    @contextmanager
    def round(self, step: int) -> Iterator[None]:
        """A save in this block is the agreed save, not one of the program's own. has_refused: the manager was asked to save,
        and saved nothing."""
        self._round, self.has_refused = step, False
        try:
            yield
        finally:
            self._round = None

    def path_of(self, step: int) -> Optional[str]:
        """The path of that step's checkpoint; None: the step was not saved through the manager."""
        return self._paths.get(step)

    def note(self, step: int, path: str) -> None:
        """Notes that `step` is saved at `path`."""
        self._paths[step] = path

    def _save(self, checkpoint_number: Any = None, check_interval: bool = True, options: Any = None) -> Optional[str]:
        """Replaces CheckpointManager.save."""
        options = copy.copy(options) if options else tf.train.CheckpointOptions()
        before = options.experimental_write_callbacks or []
        is_own = self._round is None
        step = self._begin() if self._round is None else self._round
        if is_own and self._job.should_save:  # all ranks save this step
            if self._serve:
                return self._serve((checkpoint_number, False, options), {})
            is_own = False
        options.experimental_write_callbacks = [*before, lambda path: self._written(step, path, is_own)]
        path: Optional[str] = type(self._manager).save(self._manager, checkpoint_number, check_interval, options)
        self.has_refused = path is None
        return path

    def _written(self, step: int, path: str, is_own: bool) -> None:
        """TensorFlow calls this when the checkpoint is written, perhaps in another thread."""
        if not self._job.supervised:
            return
        if self._counts:
            self.note(step, path)
        if not is_own or step == 0:
            return
        try:
            self._job.durable(step, sync_prefix(path) if self._counts else None)
        except OSError as error:  # the program has its checkpoint, and trains on
            self._job.save_failed(error, step)

    def _sweep(self) -> None:
        """Replaces CheckpointManager._sweep, which removes the oldest checkpoints."""
        manager = self._manager
        managed, limit = manager._maybe_delete, manager._max_to_keep
        doomed = list(managed)[:-limit] if limit else []
        needed = self._needed(doomed) if doomed else set()
        held = {path: managed.pop(path) for path in doomed if _whole(path) in needed}
        try:
            type(manager)._sweep(manager)
        finally:
            for path in reversed(held):
                managed[path] = held[path]
                managed.move_to_end(path, last=False)

    def _needed(self, doomed: Iterable[str]) -> Set[str]:
        committed = self._committed()
        paths = dict(self._paths)  # note() may add steps in another thread
        for step in paths:
            if step < committed:
                self._paths.pop(step, None)
        pending: List[int] = sorted(step for step in paths if step > committed)
        removed = {_whole(path) for path in doomed}
        for step in pending[:-_PENDING]:
            if _whole(paths[step]) in removed and step != self._round:
                self._job.save_failed("the CheckpointManager removes it, since max_to_keep newer ones are there", step)
                self._paths.pop(step, None)
        return {_whole(paths[step]) for step in [committed, *pending[-_PENDING:]] if step in paths}

    def _committed(self) -> int:
        """The step of the last commit. If pchrun cannot be asked: the oldest step that may be committed."""
        try:
            return committed_step()
        except OSError:
            return min(list(self._paths), default=0)


def _whole(path: str) -> str:
    return path if is_url(path) else os.path.abspath(path)
