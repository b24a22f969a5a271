# SPDX-License-Identifier: Apache-2.0
"""Lightning: saves with the Trainer's own checkpoints, and resumes from them.

    preemption = PreemptionCallback(job, "/scratch/run7")
    trainer = Trainer(callbacks=[preemption])
    trainer.fit(model, loader, ckpt_path=preemption.ckpt_path)
"""

import os
import signal
from typing import Any, Dict, Iterator, Optional, Union

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from torch.utils.data import DataLoader

from .._pch import Exit, Job, _shield, _take_sigterm
from ._files import checkpoint_folder, sync_tree
from ._needs import check_needs
from ._waits import mark_waits
from .torch import _of_rank, _place, _random_state, _set_random_state, _shared_out, _write, batches

__all__ = ["PreemptionCallback", "ResumableLoader"]

_CHECKPOINT = "lightning.ckpt"


class PreemptionCallback(Callback):
    """Reports every step of the optimizer, and saves the agreed steps in `folder`, which all ranks must see.

    Each step has a folder of its own there, with the Trainer's checkpoint and every rank's random numbers (Python's,
    torch's, and the current CUDA device's). Lightning does not save these numbers. Nothing is ever removed. By default
    the folder is checkpoint.dir of pchrun, without pchrun `checkpoints` in the working directory.

    When the job has to leave, fit() raises pch.Exit at the end of that batch, before any validation. A resumed epoch
    continues with its next batch if the loader has a state_dict, as ResumableLoader has.

    While the Trainer runs, a SIGTERM stays what pch makes of it, and Lightning does not see it. A handler of the
    program's own stays with Lightning.

    attach(needs="rank0") fits the strategy "ddp". Any other strategy for several ranks refuses it.
    """

    def __init__(self, job: Job, folder: "Optional[Union[str, os.PathLike[str]]]" = None) -> None:
        self._job, self._folder, self._told = job, checkpoint_folder(folder), job.resume_step
        self._resumes = job.resume_path is not None
        mark_waits(job)  # before the Trainer wraps the model

    @property
    def ckpt_path(self) -> Optional[str]:
        """The checkpoint that fit() resumes from; None at the first start."""
        path = self._job.resume_path
        return None if path is None else os.path.join(path, _CHECKPOINT)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuses to train from any step but the one that all ranks resume at."""
        _keep_shield(trainer)
        check_needs(self._job, rank0_saves_all(trainer), trainer.global_rank == 0)
        resumed = self._job.resume_step
        if resumed and trainer.global_step != resumed:
            raise RuntimeError(f"the Trainer begins at step {trainer.global_step}, but the job resumes at step "
                               f"{resumed}: call trainer.fit(..., ckpt_path=callback.ckpt_path)")

    def on_train_batch_start(self, trainer: Trainer, *_: Any) -> None:
        """Restores the random numbers, since the start of the loaders has drawn some."""
        if self._resumes:
            self._resumes = False
            path = os.path.join(str(self._job.resume_path), _of_rank(trainer.global_rank))
            if os.path.exists(path):  # a rank that is new since the save has no file
                _set_random_state(torch.load(path, map_location="cpu", weights_only=True)["random"])

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        """Reports the finished step, unless gradients are still accumulated."""
        job, step = self._job, trainer.global_step
        if step != self._told:
            self._told = step
            if job.step(step):
                job.saved(self._save(trainer, step))
            if job.should_exit:
                raise Exit

    def on_validation_start(self, trainer: Trainer, *_: Any) -> None:
        """Sets the phase; the next step sets it back to the training."""
        _keep_shield(trainer)
        self._job.phase("eval")

    def on_test_start(self, trainer: Trainer, *_: Any) -> None:
        _keep_shield(trainer)

    def on_predict_start(self, trainer: Trainer, *_: Any) -> None:
        _keep_shield(trainer)

    def _save(self, trainer: Trainer, step: int) -> str:
        path = os.path.join(self._folder, f"step-{step}")
        self._write_own(trainer, path, step)
        try:
            trainer.save_checkpoint(os.path.join(path, _CHECKPOINT))  # called by all ranks; waits for all
        except OSError:
            trainer.strategy.barrier()  # where the other ranks wait
            raise
        if trainer.local_rank == 0:  # one rank of each node, for all ranks there
            sync_tree(path)
        return path

    @staticmethod
    def _write_own(trainer: Trainer, path: str, step: int) -> None:
        """Writes this rank's random numbers. Fails on all ranks if one rank fails, so that none waits for another."""
        failure: Optional[Exception] = None
        try:
            os.makedirs(path, exist_ok=True)
            _write(path, _of_rank(trainer.global_rank), {"step": step, "random": _random_state()})
        except Exception as error:
            failure = error
        all_have_written = trainer.strategy.reduce_boolean_decision(failure is None)
        if failure:
            raise failure
        if not all_have_written:
            raise RuntimeError("another rank could not write its random numbers")


def rank0_saves_all(trainer: Trainer) -> bool:
    """Is rank 0's save the whole checkpoint? Rank 0 reports it when every rank's random numbers are durable. A subclass of a
    strategy may save shards."""
    return type(trainer.strategy) in (DDPStrategy, SingleDeviceStrategy)


def _keep_shield(trainer: Trainer) -> None:
    """Takes SIGTERM back from Lightning, whose handler ends the rank at its next batch, without a save. Lightning sees a handler
    of libpch as the default, and would restore that default at its end. So it forgets the handlers that it sees as defaults.
    """
    shield, connector = _shield(), getattr(trainer, "_signal_connector", None)
    handlers = getattr(signal.getsignal(signal.SIGTERM), "signal_handlers", None)
    if shield and shield[1] >> (signal.SIGTERM - 1) & 1 and handlers and \
            all(getattr(handler, "__self__", None) is connector for handler in handlers):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # for Python, which does not see the shield
        _take_sigterm()
    found = getattr(connector, "_original_handlers", {})
    for number in list(found):
        if found[number] == signal.SIG_DFL == signal.getsignal(number):
            del found[number]


class ResumableLoader:
    """A loader whose position the Trainer's checkpoints keep. The batches and their order are those of `batches` in
    pch.integrations.torch.

    The Trainer adds a DistributedSampler only to a plain DataLoader, so this class does it: with several ranks each
    rank gets its own part of the data. A sampler whose order cannot be divided is refused with a ValueError.

    Three kinds of loaders stay as they are: a loader with a DistributedSampler; a loader of an IterableDataset, which
    shards itself; and, with `sharded`, a loader that gives each rank its own part by itself.
    """

    def __init__(self, loader: "DataLoader[Any]", seed: int = 0, *, sharded: bool = False) -> None:
        self._given, self._seed, self._sharded, self._taken = loader, seed, sharded, 0
        self._world, self._own = 1, loader

    @property
    def _loader(self) -> "DataLoader[Any]":
        """Made on demand: a program may ask for the length before the Trainer has started the ranks."""
        rank, world = _place()
        if world != self._world and not self._sharded:
            self._own = _shared_out(self._given, rank, world, self._seed)
        self._world = world
        return self._own

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        """The rest of the epoch."""
        for batch in batches(self._loader, self._taken, self._seed):
            self._taken += 1
            yield batch
            if self._taken % len(self) == 0:
                return

    def state_dict(self) -> Dict[str, int]:
        return {"taken": self._taken}

    def load_state_dict(self, state: Dict[str, int]) -> None:
        self._taken = state["taken"]
