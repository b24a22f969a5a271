# SPDX-License-Identifier: Apache-2.0
"""_children: keeps multiprocessing's children of an attached process alive when a scheduler signals every process of the
job. Without its data loaders the training would end before it has saved.

A fork inherits libpch's handler. A spawned child, and a child of a fork server, installs the handler when it reads the
first data from its parent. The fork server installs it in a module that it preloads. PyTorch's loaders put their own
handlers over it, so this module installs it once more above theirs. All of this is ready when attach() returns; a fork
server that was started earlier is not covered. If a part fails, the children run as without pch.

In the same way the children show pchrun their stacks, as their owner does (ext/stacks.h).
"""

import multiprocessing
import multiprocessing.process
import multiprocessing.reduction
import multiprocessing.spawn
import os
import sys
from typing import Any, Callable, Dict, Tuple

from . import _pch

# The supervisor and the signals. Only the environment reaches the fork server.
_SHIELD = "PCH_SHIELD"
# A child that cannot import the package runs without the handler.
_HELP = """
try:
    from pch import _children
except ImportError:
    pass
else:
    _children.help_owner({}, {}, {})
"""
_SHOW = """
shown = fd.detach()
try:
    from pch import _pch
except ImportError:
    import os
    os.close(shown)
else:
    _pch._show_stacks(shown, {})
"""

_prepare = multiprocessing.spawn.get_preparation_data
_run = multiprocessing.process.BaseProcess.run


def cover() -> None:
    """Called in an attached process, each time it attaches."""
    multiprocessing.spawn.get_preparation_data = _prepare_and_tell
    shield = _pch._shield()
    if shield is None:
        return
    _cover_loaders()
    os.environ[_SHIELD] = "{} {}".format(*shield)
    _preload("pch._forkserver")


class _Told:
    """The data for a child. Reading it makes the child a helper."""

    def __init__(self, supervisor: int, signals: int) -> None:
        self._code = _HELP.format(os.getpid(), supervisor, signals)

    def __reduce__(self) -> Tuple[Callable[..., Any], Tuple[str, Dict[str, Any]]]:
        return exec, (self._code, {})


class _Shown:
    """The data by which a child shows its stacks. multiprocessing passes the descriptor."""

    def __init__(self, fd: int, signal: int) -> None:
        self._fd, self._code = fd, _SHOW.format(signal)

    def __reduce__(self) -> Tuple[Callable[..., Any], Tuple[str, Dict[str, Any]]]:
        return exec, (self._code, {"fd": multiprocessing.reduction.DupFd(self._fd)})


def _prepare_and_tell(name: str) -> Dict[str, Any]:
    data: Dict[str, Any] = _prepare(name)
    shield = _pch._shield()
    if shield is not None:
        data["pch"] = _Told(*shield)
    stacks = _pch._stacks()
    if stacks is not None:
        data["pch_stacks"] = _Shown(*stacks)
    return data


def _preload(module: str) -> None:
    """Has the fork server load the module before all others."""
    from multiprocessing import forkserver

    server: Any = getattr(forkserver, "_forkserver", None)
    modules = getattr(server, "_preload_modules", None)
    if isinstance(modules, list) and module not in modules:
        multiprocessing.set_forkserver_preload([module, *modules])


def help_owner(owner: int, supervisor: int, signals: int) -> None:
    """Called in a child: makes the child a helper of the process `owner`."""
    _pch._help(owner, supervisor, signals)
    _cover_loaders()


def help_parent() -> None:
    """Called in the fork server: makes the server a helper of its parent."""
    shield = os.environ.get(_SHIELD, "").split()
    if len(shield) == 2:
        help_owner(os.getppid(), int(shield[0]), int(shield[1]))


def _cover_loaders() -> None:
    multiprocessing.process.BaseProcess.run = _cover_and_run  # type: ignore[method-assign]


def _cover_and_run(self: multiprocessing.process.BaseProcess) -> None:
    """PyTorch's loaders install their handlers within run(); the module that does so is imported by then."""
    handling: Any = sys.modules.get("torch.utils.data._utils.signal_handling")
    put: Any = getattr(handling, "_set_worker_signal_handlers", None)

    def put_and_cover() -> None:
        put()
        _pch._cover_signals()
    if put is not None:
        handling._set_worker_signal_handlers = put_and_cover
    _run(self)
