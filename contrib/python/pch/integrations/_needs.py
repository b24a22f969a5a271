# SPDX-License-Identifier: Apache-2.0
"""Refuses an attach(needs=...) by which pchrun could commit a part of a checkpoint."""

from .._pch import Job


def check_needs(job: Job, is_whole: bool, is_first: bool) -> None:
    """is_whole: the save of the framework's rank 0 is the whole checkpoint. is_first: this process is that rank."""
    if job.needs == "all":
        return
    given = f"attach(needs={job.needs!r})"
    if not is_whole:
        raise ValueError(f"{given} would lose the other ranks' parts of a checkpoint, since here every rank saves a part "
                         "that a resume needs: leave needs out")
    if job.needs == "any":
        raise ValueError(f"{given} would lose the checkpoint, since here rank 0 alone writes it: give needs='rank0'")
    if job.supervised and is_first != (job.rank == 0):
        raise ValueError(f"{given} would lose the checkpoint, since another rank than pchrun's rank 0 writes it: give "
                         "attach() the rank that the process has in the framework, or leave needs out")
