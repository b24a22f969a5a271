# SPDX-License-Identifier: Apache-2.0
"""The saves of a tf.train.CheckpointManager as saves of the job."""

import copy
import os
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set

import tensorflow as tf

from .._control import ask
from .._pch import Job
from ._files import sync_prefix

# So many of the newest saves are kept that the other ranks may still make.
_PENDING = 4


class OwnSaves:
    """Reports what the program saves through the manager, and keeps what the job would resume from.

    A save is reported when it is written, so also one that is made in the background. The manager removes neither the
    checkpoint of the last commit nor the newest ones that may still be committed. An older one that it removes is
    reported as failed before, so that no rank waits for it.
    """

    def __init__(self, job: Job, manager: Any, begin: Callable[[], int],
                 serve: Callable[[Any, Any], Optional[str]], counts: bool) -> None:
        """begin() is called before a save of the program. It makes the checkpoint that of the step that it returns. If all
        ranks save that step, serve() makes that save, with these arguments of the manager, and returns its path. counts:
        the job can resume from it; else another rank's checkpoint counts, and nothing is kept here."""
        self._counts = counts
        self._job, self._manager, self._begin, self._serve = job, manager, begin, serve
        self._paths: Dict[int, str] = {}
        self._round: Optional[int] = None
        self.has_refused = False
        if not job.supervised:
            return
        if job.resume_path and counts:
            self._paths[job.resume_step] = job.resume_path
        manager.save, manager._sweep = self._save, self._sweep

    def save(self, step: int, args: Any, kwargs: Any) -> Optional[str]:
        """Saves the step that all ranks save. The manager saves no step twice if it looks at an interval."""
        with self.round(step):
            return self.save_with(self._manager, args, kwargs) or self.path_of(step)

    @staticmethod
    def save_with(manager: Any, args: Any, kwargs: Any) -> Optional[str]:
        """A manager may have a shortest interval between saves; it does not hold for this one."""
        more = kwargs if len(args) > 1 else {"check_interval": False, **kwargs}
        path: Optional[str] = manager.save(*args, **more)
        manager.sync()  # of a checkpoint that is written in the background
        return path

    @contextmanager
    def round(self, step: int) -> Iterator[None]:
        """What is saved inside is no save of the program's own. has_refused: the manager was asked, and has saved nothing."""
        self._round, self.has_refused = step, False
        try:
            yield
        finally:
            self._round = None

    def path_of(self, step: int) -> Optional[str]:
        """Where that step is saved; None: not through the manager."""
        return self._paths.get(step)

    def note(self, step: int, path: str) -> None:
        """That step is saved there."""
        self._paths[step] = path

    def _save(self, checkpoint_number: Any = None, check_interval: bool = True, options: Any = None) -> Optional[str]:
        """In place of CheckpointManager.save."""
        options = copy.copy(options) if options else tf.train.CheckpointOptions()
        before = options.experimental_write_callbacks or []
        is_own = self._round is None
        if self._round is None:
            step = self._begin()
        else:
            step = self._round
        if is_own and self._job.should_save:  # all ranks save this step: this is that save
            return self._serve((checkpoint_number, False, options), {})
        options.experimental_write_callbacks = [*before, lambda path: self._written(step, path, is_own)]
        path: Optional[str] = type(self._manager).save(self._manager, checkpoint_number, check_interval, options)
        self.has_refused = path is None
        return path

    def _written(self, step: int, path: str, is_own: bool) -> None:
        """TensorFlow calls it, perhaps in a thread of its own."""
        if self._counts:
            self.note(step, path)
        if not is_own or step == 0:
            return
        try:
            self._job.durable(step, sync_prefix(path) if self._counts else None)
        except OSError as error:  # the program has its checkpoint, and trains on
            self._job.save_failed(error, step)

    def _sweep(self) -> None:
        """In place of CheckpointManager._sweep, which removes the oldest checkpoints."""
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
        for step in [step for step in self._paths if step < committed]:
            del self._paths[step]
        pending: List[int] = sorted(step for step in self._paths if step > committed)
        removed = {_whole(path) for path in doomed}
        for step in pending[:-_PENDING]:
            path = _whole(self._paths[step])
            if path in removed and step != self._round:
                self._job.save_failed("the CheckpointManager removes it, since max_to_keep newer ones are there", step)
                del self._paths[step]
        return {_whole(self._paths[step]) for step in [committed, *pending[-_PENDING:]] if step in self._paths}

    def _committed(self) -> int:
        """The step of the last commit. Where pchrun cannot say it, the oldest that may be it."""
        try:
            return int(ask("status")["was"]["commit_step"])
        except OSError:
            return min(self._paths, default=0)


def _whole(path: str) -> str:
    return path if "://" in path else os.path.abspath(path)
