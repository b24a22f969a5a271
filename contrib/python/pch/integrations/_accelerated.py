# SPDX-License-Identifier: Apache-2.0
"""The saves of accelerate, and of the Trainer on it, with several ranks."""

import os
from typing import Any, Callable, List, Optional

from ._files import sync_file

# Every rank of these has all of the model and of the optimizer. The others have shards (FSDP, DeepSpeed), or are unknown.
_WHOLE = ("NO", "MULTI_CPU", "MULTI_GPU", "MULTI_HPU", "MULTI_MLU", "MULTI_MUSA", "MULTI_NPU", "MULTI_SDAA", "MULTI_XPU")


def is_whole(state: Any, saves_on_each_node: bool) -> bool:
    """With this AcceleratorState: is rank 0's save the whole checkpoint, but for the random numbers of the other ranks?"""
    kind = str(getattr(state.distributed_type, "value", state.distributed_type))
    return kind in _WHOLE and not getattr(state, "parallelism_config", None) and not saves_on_each_node


def together(write: Callable[[], None]) -> None:
    """Calls write() on every rank, and waits for all of them. If it fails on one rank, it fails on all. So no rank trains on
    while others wait for it, and rank 0 does not report a save that lacks the part of another rank."""
    from accelerate.state import PartialState
    from accelerate.utils import DistributedType, gather_object

    failure: Optional[Exception] = None
    try:
        write()
    except Exception as error:
        failure = error
    failures: List[str] = []
    if PartialState().distributed_type == DistributedType.XLA:  # for which accelerate cannot gather texts
        PartialState().wait_for_everyone()
    else:
        failures = gather_object([f"{type(failure).__name__}: {failure}" if failure else ""])
    if failure:
        raise failure
    for rank, text in enumerate(failures):
        if text:
            raise RuntimeError(f"rank {rank} could not save: {text}")


def sync_own(path: str, name: str) -> None:
    """Makes this rank's file of random numbers durable. Called within together(): so rank 0 reports its save only when the
    random numbers of every rank are on disk."""
    own = os.path.join(path, name)
    if os.path.exists(own):
        sync_file(own)
