# SPDX-License-Identifier: Apache-2.0
"""attach: connects the process to its job, and reports an uncaught exception to pchrun."""

import functools
import os
import sys
import threading
import traceback
from types import FrameType, TracebackType
from typing import Any, Callable, Iterator, Literal, Optional, Type

from . import _collectives, _pch, _torchrun

_Hook = Callable[[Type[BaseException], BaseException, Optional[TracebackType]], object]


_LIBRARIES = (os.path.dirname(__file__) + "/", os.path.dirname(os.__file__) + "/")
_TYPED = ("<string>", "<stdin>", "<ipython-input-")  # the names of code that is in no file, but the program's own

# Has the program ever called attach()? before_attach is called first; False: the call is not the program's own.
has_program_attached = False
before_attach: Optional[Callable[[], bool]] = None


def attach(*, rank: int = -1, local_rank: int = -1, world_size: int = -1, local_world_size: int = -1,
           first_step: int = 0, stride: int = 1, last_step: int = 0, shield: bool = True, saves: bool = True,
           needs: Literal["all", "rank0", "any"] = "all", required: bool = False) -> _pch.Job:
    """Attaches this process to the pchrun that started it; returns the job.

    Without pchrun the job never asks for anything; with `required` attach() raises a RuntimeError. If pchrun
    cannot be reached, or refuses the process, standard error says why. An attached process gets the same job
    again, and the arguments are ignored. A fork may attach as a rank of its own.

    rank, local_rank, world_size, local_world_size: -1 takes the value from the environment (PCH_RANK, RANK, ...).
    first_step: the number of finished steps; 0 means resume_step.
    stride: the steps that one iteration of the loop makes.
    last_step: the training ends after this step, and `pchctl status` shows it; 0 means unknown.
    shield: a SIGTERM does not end the process: pchrun takes it for a notice. A handler of the program stays as it is.
    saves: with False the watchdog counts the steps of this process. It is asked for no save, and the job treats it as
    a process that is not attached.
    needs: whose saves make a whole checkpoint. With "rank0" it is rank 0's alone, with "any" each rank's own. Then a step
    can be committed although another rank has ended before it saved. All ranks give the same. "all" is right if each
    rank writes a part that a resume needs: a shard, or its position in the data.
    """
    global has_program_attached
    if not before_attach or before_attach():
        has_program_attached = True
    job = attach_as(rank=rank, local_rank=local_rank, world_size=world_size, local_world_size=local_world_size,
                    first_step=first_step, stride=stride, last_step=last_step, shield=shield, saves=saves, needs=needs)
    if required and not job.supervised:
        job.close()
        socket = os.environ.get("PCH_SOCKET")
        raise RuntimeError(f"cannot attach to pchrun at {socket}; standard error says why" if socket else
                           "no pchrun has started this process (PCH_SOCKET is not set): run it as "
                           "`pchrun -- python ...`")
    return job


def attach_as(**options: Any) -> _pch.Job:
    """attach() for callers other than the program, with these options."""
    job = _pch.attach(**options)
    if job.supervised:
        from . import _children  # imports multiprocessing, which not every program needs

        _collectives.look(job, is_new=True)
        _pch._look_by(functools.partial(_collectives.look, job))
        _watch_exceptions(job)
        _torchrun.warn()
        _children.cover()
    return job


def _watch_exceptions(job: _pch.Job) -> None:
    if not isinstance(sys.excepthook, _Report):
        sys.excepthook = _Report(job, sys.excepthook)
        threading.excepthook = _without_exit(threading.excepthook)


def _without_exit(previous: Callable[[threading.ExceptHookArgs], object]) -> Callable[[threading.ExceptHookArgs], None]:
    """A threading.excepthook. Python prints nothing when a SystemExit ends a thread, but does print a subclass of it."""

    def hook(args: threading.ExceptHookArgs) -> None:
        if not issubclass(args.exc_type, _pch.Exit):
            previous(args)

    return hook


class _Report:
    """A sys.excepthook that reports to pchrun, then calls the previous hook."""

    def __init__(self, job: _pch.Job, previous: _Hook) -> None:
        self._job, self._previous = job, previous

    def __call__(self, kind: Type[BaseException], value: BaseException, trace: Optional[TracebackType]) -> None:
        # Report first: printing may fail or block. A closed job, and a fork, report nothing.
        try:
            text = "".join(traceback.format_exception_only(kind, value)).strip()
            self._job.error(text + _place_in(trace))
        finally:
            self._previous(kind, value, trace)


def place_of(exception: BaseException) -> str:
    """_pch calls this for an exception that the program reports."""
    return _place_in(exception.__traceback__)


def _place_in(trace: Optional[TracebackType]) -> str:
    """ " (train.py:12, in save)": the last line that is the program's own, if there is one. Without a traceback ""."""
    if not trace:
        return ""
    lines = [(frame, frame.f_lineno) for frame in _callers(trace.tb_frame)][::-1]
    entry: Optional[TracebackType] = trace
    while entry:
        lines.append((entry.tb_frame, entry.tb_lineno))
        entry = entry.tb_next
    frame, line = next((place for place in reversed(lines) if not _is_of_library(place[0])), lines[-1])
    # For this text, traceback's own functions would read the source and import a module. Since Python 3.13 that module
    # makes Python forget to end by SIGINT after a KeyboardInterrupt.
    return f" ({os.path.basename(frame.f_code.co_filename)}:{line}, in {frame.f_code.co_name})"


def _callers(frame: FrameType) -> Iterator[FrameType]:
    """The functions that called this one. A package that catches an error has only its own lines in the traceback."""
    caller = frame.f_back
    while caller:
        yield caller
        caller = caller.f_back


def _is_of_library(frame: FrameType) -> bool:
    """The line is of this package, of Python, of an installed package, or of code that a package has made."""
    path = frame.f_code.co_filename
    is_made = path.startswith("<") and not path.startswith(_TYPED)
    return is_made or path.startswith(_LIBRARIES) or "/site-packages/" in path or "/dist-packages/" in path
