# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's accelerate: checkpoints of a plain training loop, by accelerator.save_state.

    checkpoint = Checkpoint(job, "/scratch/run7", accelerator)
    checkpoint.load()
    data = batches(loader, job.resume_step)      # of pch.integrations.torch
    for step in job.steps(total, save=checkpoint.save):
        train(next(data))
"""

import os
from typing import Union

from accelerate import Accelerator  # type: ignore[import-untyped]

from .._pch import Job
from ._files import sync_tree

__all__ = ["Checkpoint"]


class Checkpoint:
    """All that the accelerator has prepared or that was registered for checkpointing, in `folder`, which all ranks
    must see: of each step a folder of its own. Nothing is ever removed from it.
    """

    def __init__(self, job: Job, folder: "Union[str, os.PathLike[str]]", accelerator: Accelerator) -> None:
        if accelerator.project_configuration.automatic_checkpoint_naming:
            raise ValueError("with automatic_checkpoint_naming accelerate numbers its checkpoints anew when the job is "
                             "resumed, and refuses the ones that are there: leave it False")
        self._job, self._folder, self._accelerator = job, os.path.abspath(folder), accelerator

    def save(self, step: int) -> str:
        """Saves that step, durably; returns the path for Job.saved. To be given to Job.steps, or to a Saver."""
        path = os.path.join(self._folder, f"step-{step}")
        self._accelerator.save_state(path)
        self._accelerator.wait_for_everyone()
        if self._accelerator.is_local_main_process:  # for its node
            sync_tree(path)
        return path

    def load(self) -> int:
        """Loads what the job resumes at, and returns the step; 0, and nothing is loaded, at the first start.

        To be called when all is prepared and registered.
        """
        step, path = self._job.resume_step, self._job.resume_path
        if path is None and step:
            raise RuntimeError(f"the job resumes at step {step}, but no path was given for it to saved()")
        if path is not None:
            self._accelerator.load_state(path)
        return step
