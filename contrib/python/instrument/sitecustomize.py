# SPDX-License-Identifier: Apache-2.0
"""With `pchrun --instrument` every Python of the job runs this at its start (site finds it by PYTHONPATH).

It waits until the program imports a framework that pch._instrument knows, and then calls that module. A Python that
imports no such framework loses some microseconds at its start, and no more. This file imports only modules that Python has
imported already. Any version of Python may run it. A failure here is reported, and does no harm.
"""

import os
import sys

# The modules to wait for.
MODULES = ("torch.optim", "torch._dynamo", "transformers.trainer", "lightning.pytorch.trainer", "keras")

_SAID = "PCH_INSTRUMENT_SAID"  # in the environment: a failure repeats in every child, and is reported once


def _say(text):
    if not os.environ.get(_SAID):
        os.environ[_SAID] = "1"
        sys.stderr.write("pch: %s\n" % text)


def _hook(name):
    """The program has imported this module."""
    try:
        from pch import _instrument
    except ImportError as error:
        _say("--instrument does nothing: %s cannot import the package pch (%s); install it there, by "
             "`pip install pchrun`" % (sys.executable, error))
        return
    _instrument.hook(name)


class _Loader(object):
    """Loads a module by the module's own loader, then hooks the module, which sees only its own loader."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        if name == "_loader":  # while this object is being copied
            raise AttributeError(name)
        return getattr(self._loader, name)

    def exec_module(self, module):
        loader = self._loader
        module.__spec__.loader = module.__loader__ = loader
        loader.exec_module(module)
        try:
            _hook(module.__name__)
        except Exception as error:
            _say("--instrument does nothing for %s: %s: %s" % (module.__name__, type(error).__name__, error))


class _Finder(object):
    """Finds the MODULES, by asking the other finders. One of these may ask all others itself, such as the finder of an outer
    pchrun. While that goes on, this finder does not answer."""

    def __init__(self):
        self._asking = set()

    def find_spec(self, name, path=None, target=None):
        if name not in MODULES or name in self._asking:
            return None
        self._asking.add(name)
        try:
            return self._ask_others(name, path, target)
        finally:
            self._asking.discard(name)

    def _ask_others(self, name, path, target):
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


def _run_hidden():
    """Runs the sitecustomize that this file hides. site handles its exceptions, as without this file."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", ours)


if os.environ.get("PCH_INSTRUMENT") and os.environ.get("PCH_SOCKET") and sys.version_info >= (3, 10):
    sys.meta_path.insert(0, _Finder())
_run_hidden()
