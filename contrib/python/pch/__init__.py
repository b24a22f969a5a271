# SPDX-License-Identifier: Apache-2.0
"""The training process's side of pchrun, for Python.

    with pch.attach() as job:
        step = load(job.resume_path)             # None: step 0
        for step in job.steps(total):
            train_one_step()
            if job.should_save:
                save(path)
                job.saved(path)

When the job is about to be preempted, every rank is told to save at one and the same step, and the
loop ends with pch.Exit, a SystemExit, once that save is committed everywhere. Without pchrun nothing
is ever asked, so the program needs no second path: `python train.py` works the same.

A loop of another shape uses job.step(), or a Saver. An exception that nobody catches is reported to
pchrun as the cause of the failure. Calls of the training loop belong to one thread; data loaders may
be forked at any time. What libpch(3) says holds here, too.
"""

from ._pch import Exit, Job, Steps, __version__
from ._attach import attach
from ._saver import Saver

__all__ = ["Exit", "Job", "Saver", "Steps", "attach", "__version__"]
