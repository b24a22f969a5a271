# SPDX-License-Identifier: Apache-2.0
"""mark_waits of pch.integrations.torch: marks where PyTorch waits for other ranks, and batches() for data.

Ranks wait in Work.wait, which every collective of torch.distributed ends in, FSDP's too. DistributedDataParallel waits in
C++: when it sends the buffers of the model before a forward pass, and at the end of a backward pass.
"""

import contextlib
import functools
from typing import Any, Callable, ContextManager, Optional

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.weak import WeakIdKeyDictionary

from .._pch import Job

_Wrapped = Callable[..., Any]

_job: Optional[Job] = None
_marked = WeakIdKeyDictionary()  # the parameters that have the hook


def mark_waits(job: Job, *models: object) -> None:
    """Marks the waits of this process in PyTorch's collectives, so that pchrun can name a rank that slows the others down.

    Call it before the model is wrapped in DistributedDataParallel, or give it the wrapped models. Checkpoint and the
    callbacks of pch.integrations call it by themselves. Without a pchrun it does nothing. It changes no result.

    The times are those of the process. On CPU (gloo) a rank's own part of a step is all but its collectives. With CUDA the
    process only queues work for the device: see the manual.
    """
    global _job
    if not job.supervised:
        return
    is_first, _job = _job is None, job
    if not dist.is_available() or not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
        return  # PyTorch before 2.1 has no such hook
    if is_first:
        _wrap(dist.Work, "wait", _waiting)
        _wrap(DistributedDataParallel, "_sync_buffers", _waiting)
        _wrap(DistributedDataParallel, "__init__", _marking)
    for model in models:
        if isinstance(model, DistributedDataParallel):
            _mark(model)


def loading() -> ContextManager[None]:
    """Around the wait for a batch of a loader."""
    return _job.loading() if _job else contextlib.nullcontext()


def _begin() -> None:
    if _job:
        _job.wait_begin()


def _end() -> None:
    if _job:
        _job.wait_end()


def _wrap(owner: type, name: str, wrap: Callable[[_Wrapped], _Wrapped]) -> None:
    """A version of PyTorch that has no such method is not marked there."""
    original = getattr(owner, name, None)
    if original:
        setattr(owner, name, functools.wraps(original)(wrap(original)))


def _waiting(original: _Wrapped) -> _Wrapped:
    def waiting(*args: Any, **kwargs: Any) -> Any:
        _begin()
        try:
            return original(*args, **kwargs)
        finally:
            _end()

    return waiting


def _marking(original: _Wrapped) -> _Wrapped:
    def marking(self: DistributedDataParallel, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        _mark(self)

    return marking


def _mark(model: DistributedDataParallel) -> None:
    """Every backward pass gives each parameter a gradient, unless the model says that it may not use some."""
    parameters = [parameter for parameter in model.module.parameters() if parameter.requires_grad]
    if not (model.find_unused_parameters or model.static_graph):
        del parameters[1:]
    for parameter in parameters:
        if parameter not in _marked:
            _marked[parameter] = parameter.register_post_accumulate_grad_hook(_on_gradient)


def _on_gradient(_: torch.Tensor) -> None:
    """The model's own callback, which waits, is queued after the last gradient, so after this one."""
    if not torch.compiler.is_compiling():
        _queue(_on_last_gradient)


def _on_last_gradient() -> None:
    """The gradients are computed, and the model is about to wait for those of other ranks."""
    _begin()
    _queue(_end)


def _queue(call: Callable[[], None]) -> None:
    torch.autograd.Variable._execution_engine.queue_callback(call)
