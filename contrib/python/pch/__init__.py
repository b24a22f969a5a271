# SPDX-License-Identifier: Apache-2.0
"""The training process's side of pchrun, for Python.

    with pch.attach() as job:
        step = load(job.resume_path)             # None: step 0
        for step in job.steps(total):
            train_one_step()
            if job.should_save:
                save(path)
                job.saved(path)

When the job is about to be preempted, pchrun asks every rank to save the same step. Once that save is
committed on all ranks, the loop ends with pch.Exit, a SystemExit. Without pchrun the job never asks for
anything: `python train.py` works the same.

A loop of another shape uses job.step() or a Saver. An uncaught exception is reported to pchrun as the
cause of the failure. One thread makes the calls of the training loop. Data loaders may be forked at any
time. libpch(3) describes the calls in full.
"""

from ._pch import Exit, Job, Loading, Steps, __version__
from ._attach import attach
from ._saver import Saver

__all__ = ["Exit", "Job", "Loading", "Saver", "Steps", "attach", "__version__"]
