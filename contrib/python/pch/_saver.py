# SPDX-License-Identifier: Apache-2.0
"""Saver: the training loop for programs that do not loop over job.steps()."""

from contextlib import contextmanager
from os import PathLike
from typing import Any, Callable, Iterator, Optional, TypeVar, Union

from ._pch import Exit, Job

_Path = Union[str, bytes, "PathLike[str]", "PathLike[bytes]"]
_Result = TypeVar("_Result")


class Saver:
    """Saves when the job asks for it, and leaves when the job asks for it, in three shapes:

        saver = pch.Saver(job, save)
        saver.run(train_one_step, batch)     # runs a step
        saver.save_if_preempted()            # at the end of each step
        with saver.scope():                  # around each step
            train_one_step(batch)

    `save(step)` saves, and returns the path of the checkpoint, or None if another rank saves for this
    one. It may call job.saved() itself. If it raises, the save is reported as failed, and the exception
    goes on. To leave, the Saver raises pch.Exit: a SystemExit with status 0.
    """

    def __init__(self, job: Job, save: Callable[[int], Optional[_Path]]) -> None:
        if not callable(save):
            raise TypeError(f"save must be a function, not {save!r}")
        self._job, self._save = job, save

    def run(self, step: Callable[..., _Result], *args: Any, **keywords: Any) -> _Result:
        """Runs one step of the training, and returns its result."""
        result = step(*args, **keywords)
        self.save_if_preempted()
        return result

    def save_if_preempted(self) -> None:
        """One more step is finished: saves it if all ranks save this step."""
        job = self._job
        if job.step():
            self._serve()
        if job.should_exit:
            raise Exit

    @contextmanager
    def scope(self) -> Iterator[Job]:
        """The block is one step. If it raises, the step does not count, and the exception goes on."""
        yield self._job
        self.save_if_preempted()

    def _serve(self) -> None:
        job, step = self._job, self._job.finished
        try:
            path = self._save(step)
        except BaseException as error:
            job.save_failed(error, step)
            raise
        if job.should_save:
            job.saved(path)
