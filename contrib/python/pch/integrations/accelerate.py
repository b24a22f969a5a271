# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's accelerate: checkpoints of a plain training loop, by accelerator.save_state.

    checkpoint = Checkpoint(job, accelerator)
    checkpoint.load()
    for epoch in checkpoint.epochs(20, loader):
        for batch in checkpoint.epoch(loader, epoch):
            train(batch)
"""

import os
from typing import Any, Iterator, Optional, Union

from accelerate import Accelerator
from torch.utils.data import DataLoader

from .._pch import Job
from ._accelerated import is_whole, sync_own, together
from ._files import checkpoint_folder, sync_tree
from ._needs import check_needs
from ._waits import mark_waits
from .torch import _Epochs

__all__ = ["Checkpoint"]


class Checkpoint(_Epochs):
    """Saves everything that the accelerator has prepared, and everything registered for checkpointing.

    All ranks must see `folder`, by default checkpoint.dir of pchrun; without pchrun the folder `checkpoints` in the working
    directory. Each step has a folder of its own there. Nothing is ever removed.

    attach(needs="rank0") fits if every rank has the whole model, and is refused with FSDP, DeepSpeed and other shards.
    """

    def __init__(self, job: Job, accelerator: Accelerator,
                 folder: "Optional[Union[str, os.PathLike[str]]]" = None) -> None:
        if accelerator.project_configuration.automatic_checkpoint_naming:
            raise ValueError("with automatic_checkpoint_naming accelerate numbers its checkpoints anew when the job is "
                             "resumed, and refuses the ones that are there: leave it False")
        self._job, self._folder, self._accelerator = job, checkpoint_folder(folder), accelerator
        mark_waits(job, *getattr(accelerator, "_models", ()))

    def epoch(self, loader: "DataLoader[Any]", number: int, seed: int = 0) -> Iterator[Any]:
        """As Checkpoint.epoch of pch.integrations.torch: each batch is one step of the job, behind which it may save.

        So an accelerator with gradient_accumulation_steps above 1 is refused below pchrun: a checkpoint has no gradients.
        """
        each = self._accelerator.gradient_accumulation_steps
        if self._job.supervised and each > 1:
            raise ValueError(f"with gradient_accumulation_steps={each} a checkpoint may come between two steps of the optimizer, "
                             "and it has no gradients: leave it at 1, and divide each batch in the loop")
        return super().epoch(loader, number, seed)  # no generator, since its warnings name the line of the caller

    def save(self, step: int) -> str:
        """Saves that step durably; returns the path for Job.saved. Give this function to Job.steps or to a Saver."""
        path = os.path.join(self._folder, f"step-{step}")
        self._check_needs()
        together(lambda: self._write(path))
        if self._accelerator.is_local_main_process:  # one rank of each node, for all ranks there
            sync_tree(path)
        return path

    def _write(self, path: str) -> None:
        self._accelerator.save_state(path)
        sync_own(path, f"random_states_{self._accelerator.process_index}.pkl")

    def load(self) -> int:
        """Loads the checkpoint that the job resumes from; returns its step. At the first start loads nothing, and returns 0.

        Prepare and register everything before this call.
        """
        step, path = self._job.resume_step, self._job.resume_path
        self._check_needs()
        if path is None and step:
            raise RuntimeError(f"the job resumes at step {step}, but saved() got no path for that step")
        if path is not None:
            self._accelerator.load_state(path)
        return step

    def _check_needs(self) -> None:
        accelerator = self._accelerator
        check_needs(self._job, is_whole(accelerator.state, accelerator.project_configuration.save_on_each_node),
                    accelerator.process_index == 0)
