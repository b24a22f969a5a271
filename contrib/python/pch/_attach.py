# SPDX-License-Identifier: Apache-2.0
"""attach: how a process finds its job, and how its last exception gets to pchrun."""

import os
import sys
import threading
import traceback
from types import TracebackType
from typing import Any, Callable, Optional, Type

from . import _pch

_Hook = Callable[[Type[BaseException], BaseException, Optional[TracebackType]], object]


# Has the program attached by itself, ever? And who wants to know before it does; False: it is not the program.
has_program_attached = False
before_attach: Optional[Callable[[], bool]] = None


def attach(*, rank: int = -1, local_rank: int = -1, world_size: int = -1, local_world_size: int = -1,
           first_step: int = 0, stride: int = 1, last_step: int = 0, shield: bool = True, saves: bool = True,
           required: bool = False) -> _pch.Job:
    """Attaches this process to the pchrun that has started it; returns the job.

    Without a pchrun the job never asks for anything; with `required` that is a RuntimeError. A pchrun
    that cannot be reached, or refuses the process, is told of on standard error. Attached already, it
    returns the same job and looks at no argument. A fork may attach as a rank of its own.

    rank and the like: -1 takes them from the environment (PCH_RANK, RANK, ...). first_step: the steps
    that are finished, 0: resume_step. stride: steps per turn of the loop. last_step: the training ends
    after it, 0: unknown. shield: a SIGTERM is handed to pchrun, which takes it for a notice, instead of
    ending the process, unless the program has a handler of its own. saves: with False the job only hears of the
    steps, for its watchdog; it asks for nothing, and takes the process for one that has not attached.
    """
    global has_program_attached
    if not before_attach or before_attach():
        has_program_attached = True
    job = attach_as(rank=rank, local_rank=local_rank, world_size=world_size, local_world_size=local_world_size,
                    first_step=first_step, stride=stride, last_step=last_step, shield=shield, saves=saves)
    if required and not job.supervised:
        job.close()
        socket = os.environ.get("PCH_SOCKET")
        raise RuntimeError(f"cannot attach to pchrun at {socket}; standard error says why" if socket else
                           "no pchrun has started this process (PCH_SOCKET is not set): run it as "
                           "`pchrun -- python ...`")
    return job


def attach_as(**options: Any) -> _pch.Job:
    """The same for what is not the program: with these options."""
    job = _pch.attach(**options)
    if job.supervised:
        from . import _children  # brings multiprocessing, which not every program needs

        _watch_exceptions(job)
        _children.cover()
    return job


def _watch_exceptions(job: _pch.Job) -> None:
    if not isinstance(sys.excepthook, _Report):
        sys.excepthook = _Report(job, sys.excepthook)
        threading.excepthook = _without_exit(threading.excepthook)


def _without_exit(previous: Callable[[threading.ExceptHookArgs], object]) -> Callable[[threading.ExceptHookArgs], None]:
    """A threading.excepthook. Python itself says nothing of a SystemExit that ends a thread, but prints a subclass."""

    def hook(args: threading.ExceptHookArgs) -> None:
        if not issubclass(args.exc_type, _pch.Exit):
            previous(args)

    return hook


class _Report:
    """A sys.excepthook that tells pchrun, then does what the one before it does."""

    def __init__(self, job: _pch.Job, previous: _Hook) -> None:
        self._job, self._previous = job, previous

    def __call__(self, kind: Type[BaseException], value: BaseException, trace: Optional[TracebackType]) -> None:
        # First pchrun: to print may fail, or take its time. Of a job that is closed, and in a fork, nothing is told.
        try:
            self._job.error(_describe(kind, value, trace))
        finally:
            self._previous(kind, value, trace)


def _describe(kind: Type[BaseException], value: BaseException, trace: Optional[TracebackType]) -> str:
    """ "ValueError: no such step (train.py:12, in save)" """
    text = "".join(traceback.format_exception_only(kind, value)).strip()
    while trace and trace.tb_next:
        trace = trace.tb_next
    if not trace:
        return text
    # Not by traceback's own functions: they read the source, and a module that they import for that, since Python 3.13,
    # evaluates text, whereupon Python forgets that it is to end by SIGINT after a KeyboardInterrupt.
    code = trace.tb_frame.f_code
    return f"{text} ({os.path.basename(code.co_filename)}:{trace.tb_lineno}, in {code.co_name})"
