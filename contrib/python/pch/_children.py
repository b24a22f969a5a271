# SPDX-License-Identifier: Apache-2.0
"""_children: keeps what an attached process starts by multiprocessing alive through a signal that a scheduler sends to
every process of the job: without its data loaders the training ends before it has saved.

A fork has libpch's handler from its parent. What is spawned, and what a fork server forks, is given it with the first
thing that it reads from its parent; the fork server itself, by a module that it loads first. PyTorch's loaders then
put handlers of their own over it, and are covered once more. All of it is in place as soon as attach() has returned;
a fork server that ran before is not covered. What cannot be done is left: the children are as they would have been.
"""

import multiprocessing
import multiprocessing.process
import multiprocessing.spawn
import os
import sys
from typing import Any, Callable, Dict, Tuple

from . import _pch

# For the fork server, which is told nothing else: the supervisor and the signals.
_SHIELD = "PCH_SHIELD"
# A child that cannot import the package is no helper, but is started all the same.
_HELP = """
try:
    from pch import _children
except ImportError:
    pass
else:
    _children.help_owner({}, {}, {})
"""

_prepare = multiprocessing.spawn.get_preparation_data
_run = multiprocessing.process.BaseProcess.run


def cover() -> None:
    """In an attached process, as often as it attaches."""
    shield = _pch._shield()
    if shield is None:
        return
    _cover_loaders()
    multiprocessing.spawn.get_preparation_data = _prepare_and_tell
    os.environ[_SHIELD] = "{} {}".format(*shield)
    _preload("pch._forkserver")


class _Told:
    """What a child is told. As soon as it has read this, it is a helper."""

    def __init__(self, supervisor: int, signals: int) -> None:
        self._code = _HELP.format(os.getpid(), supervisor, signals)

    def __reduce__(self) -> Tuple[Callable[..., Any], Tuple[str, Dict[str, Any]]]:
        return exec, (self._code, {})


def _prepare_and_tell(name: str) -> Dict[str, Any]:
    data: Dict[str, Any] = _prepare(name)
    shield = _pch._shield()
    if shield is not None:
        data["pch"] = _Told(*shield)
    return data


def _preload(module: str) -> None:
    """In the fork server, before all else that it is to load."""
    from multiprocessing import forkserver

    server: Any = getattr(forkserver, "_forkserver", None)
    modules = getattr(server, "_preload_modules", None)
    if isinstance(modules, list) and module not in modules:
        multiprocessing.set_forkserver_preload([module, *modules])


def help_owner(owner: int, supervisor: int, signals: int) -> None:
    """In a child: it helps that process."""
    _pch._help(owner, supervisor, signals)
    _cover_loaders()


def help_parent() -> None:
    """In the fork server."""
    shield = os.environ.get(_SHIELD, "").split()
    if len(shield) == 2:
        help_owner(os.getppid(), int(shield[0]), int(shield[1]))


def _cover_loaders() -> None:
    multiprocessing.process.BaseProcess.run = _cover_and_run  # type: ignore[method-assign]


def _cover_and_run(self: multiprocessing.process.BaseProcess) -> None:
    """PyTorch's loaders put their handlers in place within run(); the module that does it has been imported then."""
    handling: Any = sys.modules.get("torch.utils.data._utils.signal_handling")
    put: Any = getattr(handling, "_set_worker_signal_handlers", None)

    def put_and_cover() -> None:
        put()
        _pch._cover_signals()
    if put is not None:
        handling._set_worker_signal_handlers = put_and_cover
    _run(self)
