# SPDX-License-Identifier: Apache-2.0
"""PyTorch: checkpoints of a plain training loop, alone, with DistributedDataParallel or sharded, that resume exactly.

    checkpoint = Checkpoint(job, model=model, optimizer=optimizer)
    checkpoint.load()
    for epoch in checkpoint.epochs(20, loader):
        for batch in checkpoint.epoch(loader, epoch):
            train(batch)

A resumed run ends with the same weights as an uninterrupted run, bit by bit. That holds if the program's own operations
are deterministic (see also Checkpoint.load).
"""

import contextlib
import copy
import itertools
import os
import random
import warnings
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Union

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load as load_shards
from torch.distributed.checkpoint.state_dict_saver import save as save_shards
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

from .._pch import Job
from ._files import checkpoint_folder
from ._needs import check_needs
from ._waits import loading, mark_waits

__all__ = ["Checkpoint", "ShardedCheckpoint", "batches", "mark_waits"]

_SHARED = "shared.pt"
_OVER = "over"  # an empty file: the loop over the epochs has ended


class _Epochs:
    """The loop over epochs of a checkpoint with save()."""

    _job: Job
    _is_in_epochs = False  # the program's loop is over epochs()
    _has_warned = False  # of such a program, or of one that has not the other loop

    def save(self, step: int) -> str:
        raise NotImplementedError

    def epochs(self, count: int, loader: "DataLoader[Any]") -> Iterator[int]:
        """The epochs of `count` that are not over, in which epoch() gives the batches of `loader`.

        An epoch is over when the code behind its batches has run, as a scheduler's step or an evaluation. So a job that
        resumes right behind the last batch of an epoch begins with that epoch, of which no batch remains.

        Behind the last epoch the job saves once more, and notes that it is over. So a start of the completed job does
        nothing again.
        """
        job, of_epoch = self._job, max(len(loader), 1)
        first = job.finished // of_epoch
        if job.finished and job.finished % of_epoch == 0 and not self._is_over():
            first -= 1
            self._warn_of_no_batch(first)
        for number in range(first, count):
            self._is_in_epochs = True
            yield number
            if job.finished < (number + 1) * of_epoch:
                self._warn_of_loops(f"epoch {number}, counted from 0, has counted {max(job.finished - number * of_epoch, 0)} of "
                                    f"its {of_epoch} steps. Take its batches from checkpoint.epoch(loader, epoch), to the last "
                                    "one: a loop over the loader itself counts no step, so pchrun cannot ask for a save")
        self._is_in_epochs = False
        if job.supervised and job.finished == count * of_epoch and not self._is_over():
            self._end()

    def _end(self) -> None:
        job = self._job
        if job.resume_step == job.finished and job.resume_path:  # saved with the last batch: only the note is missing
            _note_over(job.resume_path)
        else:
            path = self.save(job.finished)
            _note_over(path)
            job.saved(path)

    def _is_over(self) -> bool:
        """The checkpoint that the job resumes from was saved behind the last epoch."""
        path = self._job.resume_path
        return path is not None and os.path.exists(os.path.join(path, _OVER))

    def _warn_of_no_batch(self, epoch: int) -> None:
        if _place()[0] == 0:
            warnings.warn(f"the job resumes behind the last batch of epoch {epoch}, counted from 0: the code behind its batches "
                          "runs, and no batch. A variable that only a batch sets, such as a loss, is not there: give it a "
                          "value before the loop", RuntimeWarning, stacklevel=3)

    def _warn_of_loops(self, what: str) -> None:
        """Once: a program that trains without pchrun loses nothing by its loops. Called from epoch() or epochs()."""
        if self._job.supervised and not self._has_warned and _place()[0] == 0:
            self._has_warned = True
            warnings.warn(what, RuntimeWarning, stacklevel=3)

    def epoch(self, loader: "DataLoader[Any]", number: int, seed: int = 0) -> Iterator[Any]:
        """The batches of that epoch, counted from 0, that the job has not yet trained. Each is one step of the job.

        For a loop over epochs() in which every step has one batch, and every epoch the same loader. Calls save() at the
        agreed steps. A sampler with set_epoch gets the epoch. See batches() for the random numbers, and for how a
        resume within an epoch loads.
        """
        count = len(loader)
        trained = max(self._job.finished - number * count, 0)
        if trained >= count and not self._is_in_epochs:
            self._warn_of_loops(f"epoch {number}, counted from 0, is over, and no batch of it remains, but the code behind its "
                                "batches runs again: the loop is not over checkpoint.epochs(). Write "
                                "`for epoch in checkpoint.epochs(N, loader)`")
        if trained < count:
            rest = itertools.islice(_epoch(loader, number, seed), trained, None)
            for _, batch in zip(self._job.steps((number + 1) * count, save=self.save), rest):
                yield batch


class Checkpoint(_Epochs):
    """Saves parts that are equal on all ranks in `folder`, which all ranks must see. Each step has its own folder there.

    folder: by default checkpoint.dir of pchrun; without pchrun the folder `checkpoints` in the working directory.
    A part has state_dict() and load_state_dict(): a model, an optimizer, a scheduler, a loss scaler. Rank 0 writes the
    parts; of a DistributedDataParallel it writes the model inside. Every rank writes the state of its random numbers
    (Python's, torch's, and the current CUDA device's). Nothing is ever removed from the folder.

    Rank 0's save is the whole checkpoint, so attach(needs="rank0") fits. If another rank then ends before it has saved,
    the step can be committed. In the next run that rank's random numbers begin anew.
    """

    _is_whole = True  # rank 0 writes all that a resume needs

    def __init__(self, job: Job, folder: Optional[Union[str, "os.PathLike[str]"]] = None, *, weights_only: bool = True,
                 **parts: Any) -> None:
        """weights_only: as in torch.load. With False a part may hold any object, and loading may execute its code."""
        bad = [name for name, part in parts.items() if not hasattr(part, "load_state_dict")]
        if bad:
            raise TypeError(f"these have no load_state_dict: {', '.join(bad)}")
        self._job, self._folder, self._weights_only = job, checkpoint_folder(folder), weights_only
        self._parts = {name: part.module if isinstance(part, DistributedDataParallel) else part
                       for name, part in parts.items()}
        mark_waits(job, *parts.values())

    def save(self, step: int) -> str:
        """Saves that step durably; returns the path for Job.saved. Give this function to Job.steps or to a Saver."""
        rank, world = _place()
        check_needs(self._job, self._is_whole, rank == 0)
        path = os.path.join(self._folder, f"step-{step}")
        os.makedirs(path, exist_ok=True)
        self._save_shards(path)
        if rank == 0:
            self._warn_of_scheduler()
            parts = {name: part.state_dict() for name, part in self._parts.items()}
            _write(path, _SHARED, {"step": step, "world_size": world, "parts": parts})
        _write(path, _of_rank(rank), {"step": step, "random": _random_state()})
        _sync(self._folder)
        return path

    def load(self, rehearse: Optional[Callable[[], object]] = None) -> int:
        """Loads the checkpoint that the job resumes from; returns its step. At the first start loads nothing, and returns 0.

        DistributedDataParallel reorders the gradients after its first backward pass. Then sums over more than two ranks
        round in another way. To get the same bits there, give `rehearse`: one forward and backward pass, with any input.
        All ranks call it before they load; at the first start it is not called.
        """
        job, path = self._job, self._job.resume_path
        rank, world = _place()
        check_needs(job, self._is_whole, rank == 0)
        if path is None and job.resume_step == 0:
            return 0
        if path is None:
            raise RuntimeError(f"the job resumes at step {job.resume_step}, but saved() got no path for that step")
        shared = self._read(path, _SHARED)
        if shared["step"] != job.resume_step:
            raise RuntimeError(f"{path} holds step {shared['step']}; the job resumes at step {job.resume_step}")
        if shared["parts"].keys() != self._parts.keys():
            raise RuntimeError(f"{path} holds {', '.join(sorted(shared['parts']))}; "
                               f"this program loads {', '.join(sorted(self._parts))}")
        if rehearse:
            rehearse()
        self._load_shards(path)
        for name, part in self._parts.items():
            part.load_state_dict(shared["parts"][name])
            if isinstance(part, torch.nn.Module):
                part.zero_grad()
        if world != shared["world_size"]:
            _warn_of_random(f"{path} is of {shared['world_size']} ranks, not {world}")
        elif not os.path.exists(os.path.join(path, _of_rank(rank))):
            _warn_of_random(f"{path} has no {_of_rank(rank)}, since that rank ended before it had saved")
        else:
            _set_random_state(self._read(path, _of_rank(rank))["random"])
        return job.resume_step

    def _warn_of_scheduler(self) -> None:
        """A scheduler wraps the step() of its optimizer. Without its state it begins anew after a resume."""
        parts = [*self._parts.values(), getattr(self, "_optimizer", None)]
        is_used = any(hasattr(getattr(part, "step", None), "_wrapped_by_lr_sched") for part in parts)
        if is_used and not any(hasattr(part, "get_last_lr") for part in parts):
            warnings.warn("a learning rate scheduler changes an optimizer of this checkpoint, and is not in it: after a resume "
                          "the learning rates are wrong. Give it to the checkpoint, too, as in scheduler=scheduler",
                          RuntimeWarning, stacklevel=3)

    def _save_shards(self, path: str) -> None:
        """Saves the state of which each rank has a part."""

    def _load_shards(self, path: str) -> None:
        """Loads the state of which each rank has a part."""

    def _read(self, path: str, name: str) -> Mapping[str, Any]:
        state: Mapping[str, Any] = torch.load(os.path.join(path, name), map_location="cpu",
                                              weights_only=self._weights_only)
        return state


class ShardedCheckpoint(Checkpoint):
    """A Checkpoint of a model of which every rank has a shard (fully_shard, FSDP, DTensor), and of its optimizer.

    torch.distributed.checkpoint writes the shards, each rank its own. It can also load them into another number of
    ranks. All ranks save and load together, at the agreed step. The other parts are as in Checkpoint. Every rank's save is
    needed, so attach(needs=...) other than "all" is refused.
    """

    _is_whole = False

    def __init__(self, job: Job, folder: Optional[Union[str, "os.PathLike[str]"]] = None, *, model: torch.nn.Module,
                 optimizer: torch.optim.Optimizer, weights_only: bool = True, **parts: Any) -> None:
        super().__init__(job, folder, weights_only=weights_only, **parts)
        self._model, self._optimizer = model, optimizer

    def _save_shards(self, path: str) -> None:
        save_shards(self._shards(), storage_writer=FileSystemWriter(path, sync_files=True))

    def _load_shards(self, path: str) -> None:
        shards = self._shards()
        load_shards(shards, storage_reader=FileSystemReader(path))
        set_state_dict(self._model, self._optimizer, model_state_dict=shards["model"],
                       optim_state_dict=shards["optimizer"])

    def _shards(self) -> Dict[str, Any]:
        model, optimizer = get_state_dict(self._model, self._optimizer)
        return {"model": model, "optimizer": optimizer}


def batches(loader: "DataLoader[Any]", step: int, seed: int = 0) -> Iterator[Any]:
    """The batches of the loader, epoch after epoch without end, beginning with the batch of `step`.

    With several ranks the loader needs a DistributedSampler, as in any loop of PyTorch: without one each rank trains on
    all of the data. A sampler (DistributedSampler) or a loader (accelerate's) with set_epoch gets the epoch.

    The time in which a batch is waited for is marked, as by job.loading(), once mark_waits() or a Checkpoint has been called.
    The loader draws its random numbers from a stream of its own: the order, the workers' seeds, augmentations that use
    torch's. The stream depends on the seed, the epoch and the rank. A torch.Generator of the loader or a sampler has a
    stream, too, by the seed, the epoch and the generator's own seed, which must be the same at each start. A generator that
    accelerate keeps equal on all ranks goes by the seed and the epoch. To resume within an epoch, the batches before `step`
    are loaded again and dropped. If loading is slow, give Checkpoint a loader that keeps its position instead (torchdata's
    StatefulDataLoader).
    """
    count = len(loader)
    if count == 0:
        raise ValueError("the loader has no batch")
    epoch, skipped = divmod(step, count)
    while True:
        yield from itertools.islice(_epoch(loader, epoch, seed), skipped, None)
        epoch, skipped = epoch + 1, 0


def _epoch(loader: "DataLoader[Any]", epoch: int, seed: int) -> Iterator[Any]:
    """The batches of one epoch, by streams of random numbers of its own."""
    for told in (loader, *_samplers(loader)):
        if hasattr(told, "set_epoch"):
            told.set_epoch(epoch)
    streams = _streams(loader, epoch, seed)
    iterator = None
    for _ in range(len(loader)):
        with _drawing(streams), loading():
            iterator = _start(loader) if iterator is None else iterator
            batch = next(iterator)
        yield batch


def _start(loader: "DataLoader[Any]") -> Iterator[Any]:
    """Workers that persist draw their seed only at their start. Drawn in each epoch, it changes no order after a resume."""
    if getattr(loader, "persistent_workers", False) and getattr(loader, "_iterator", None) is not None:
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
    return iter(loader)


def _streams(loader: "DataLoader[Any]", epoch: int, seed: int) -> Dict[torch.Generator, torch.Tensor]:
    """The generators that the loader draws from, and the state of each at the beginning of the epoch."""
    common = getattr(loader, "synchronized_generator", None)  # accelerate's: equal on all ranks, and begun by chance
    streams: Dict[torch.Generator, torch.Tensor] = {}
    for part in (loader, *_samplers(loader)):
        own = getattr(part, "generator", None)
        if isinstance(own, torch.Generator):
            streams[own] = _begin(own.device, seed, epoch, *(() if own is common else (own.initial_seed(),)))
    streams[torch.default_generator] = _begin(torch.device("cpu"), seed, epoch, _place()[0])
    return streams


def _begin(device: torch.device, *of: int) -> torch.Tensor:
    """The state of a generator that begins by these numbers."""
    return torch.Generator(device).manual_seed(hash(of) & (2**63 - 1)).get_state()


@contextlib.contextmanager
def _drawing(streams: Dict[torch.Generator, torch.Tensor]) -> Iterator[None]:
    """Within, the generators go on with these streams. Behind it they are again as the program has left them."""
    own = {generator: generator.get_state() for generator in streams}
    try:
        for generator, state in streams.items():
            generator.set_state(state)
        yield
        streams.update({generator: generator.get_state() for generator in streams})
    finally:
        for generator, state in own.items():
            generator.set_state(state)


def _samplers(loader: "DataLoader[Any]") -> Iterator[Any]:
    """All objects of a loader that may decide which data it loads."""
    for sampler in (getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)):
        while sampler is not None:
            yield sampler
            # accelerate's BatchSamplerShard has only a batch_sampler
            sampler = getattr(sampler, "batch_sampler", getattr(sampler, "sampler", None))


def _shared_out(loader: "DataLoader[Any]", rank: int, world: int, seed: int) -> "DataLoader[Any]":
    """The same loader, limited to that rank's part of the data."""
    dataset: Any = loader.dataset
    if isinstance(dataset, IterableDataset) or \
            any(isinstance(sampler, DistributedSampler) for sampler in _samplers(loader)):
        return loader
    order, is_random = loader.sampler, isinstance(loader.sampler, RandomSampler)
    is_own = loader.batch_size is None and loader.batch_sampler is not None  # the program's own batches
    takes_all = type(order) is SequentialSampler or (type(order) is RandomSampler and not order.replacement and
                                                     len(order) == len(dataset))
    if is_own or not takes_all:
        name = type(loader.batch_sampler if is_own else order).__name__
        raise ValueError(f"{name} cannot be shared out to {world} ranks, and all of them would train on the same data: "
                         "give the loader a DistributedSampler; if it gives each rank its own part by itself, say "
                         "sharded=True")
    sampler: Any = DistributedSampler(dataset, world, rank, is_random, seed)
    twin = copy.copy(loader)
    # Set in __dict__, because a DataLoader refuses an assignment to its samplers.
    twin.__dict__["sampler"] = sampler
    if loader.batch_sampler is not None:
        twin.__dict__["batch_sampler"] = BatchSampler(sampler, loader.batch_size or 1, loader.drop_last)
    return twin


def _place() -> "tuple[int, int]":
    """(rank, world size) of the process group; they may differ from pchrun's."""
    if not dist.is_available() or not dist.is_initialized():
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


def _note_over(path: str) -> None:
    if _place()[0] == 0:
        with open(os.path.join(path, _OVER), "w", encoding="ascii") as file:
            os.fsync(file.fileno())
        _sync(path)


def _of_rank(rank: int) -> str:
    return f"rank-{rank}.pt"


def _random_state() -> Dict[str, Any]:
    state = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def _warn_of_random(why: str) -> None:
    """For Checkpoint.load."""
    warnings.warn(f"{why}: random numbers begin anew, and the run cannot be the same as without the interruption",
                  RuntimeWarning, stacklevel=3)


def _set_random_state(state: Mapping[str, Any]) -> None:
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


def _write(folder: str, name: str, state: Mapping[str, Any]) -> None:
    """Writes the file durably: after a failure of the machine it is whole or absent."""
    path = os.path.join(folder, name)
    with open(f"{path}.new", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}.new", path)
    _sync(folder)


def _sync(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
