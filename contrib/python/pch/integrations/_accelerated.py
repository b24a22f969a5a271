# SPDX-License-Identifier: Apache-2.0
"""The saves of accelerate, and of the Trainer on it, with several ranks."""

import os
from typing import Any

from ._files import sync_file

# Every rank of these has all of the model and of the optimizer. The others have shards (FSDP, DeepSpeed), or are unknown.
_WHOLE = ("NO", "MULTI_CPU", "MULTI_GPU", "MULTI_HPU", "MULTI_MLU", "MULTI_MUSA", "MULTI_NPU", "MULTI_SDAA", "MULTI_XPU")


def is_whole(state: Any, saves_on_each_node: bool) -> bool:
    """With this AcceleratorState: is rank 0's save the whole checkpoint, but for the random numbers of the other ranks?"""
    kind = str(getattr(state.distributed_type, "value", state.distributed_type))
    return kind in _WHOLE and not getattr(state, "parallelism_config", None) and not saves_on_each_node


def sync_own(path: str, name: str) -> None:
    """Makes this rank's file of random numbers durable. Called before all ranks wait for each other: so rank 0 reports its
    save only when the random numbers of every rank are on disk."""
    own = os.path.join(path, name)
    if os.path.exists(own):
        sync_file(own)
