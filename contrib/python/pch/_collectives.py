# SPDX-License-Identifier: Apache-2.0
"""_collectives: tells pchrun after which time PyTorch's process group gives up the wait for another rank. Before that time
is over the watchdog looks for a hang. Otherwise the process group would end ranks that have done nothing wrong.

A program may make its process group before it attaches, or later. So look() is called when the process attaches, when a loop
over steps() begins, at the first step, and at the first step after each save. It imports nothing.
"""

import sys
from typing import Any, Iterator

from ._pch import Job

_told = 0.0  # the seconds that pchrun knows; 0: none


def look(job: Job, is_new: bool = False) -> None:
    """is_new: the process has just attached, so pchrun knows nothing."""
    global _told
    _told = 0.0 if is_new else _told
    dist: Any = sys.modules.get("torch.distributed")
    try:
        seconds = min(_timeouts(dist), default=0.0)
    except Exception:  # another version of PyTorch, or an import that is still under way
        return
    if seconds != _told:
        job.collective_timeout(seconds)
        _told = seconds


def _timeouts(dist: Any) -> Iterator[float]:
    """Of each backend of the default process group, in seconds."""
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return
    group = dist.distributed_c10d._get_default_group()
    for device in group._device_types:
        try:
            backend = group._get_backend(device)
            yield getattr(backend, "wrapped_pg", backend).options._timeout.total_seconds()
        except RuntimeError:  # none for this device
            pass
