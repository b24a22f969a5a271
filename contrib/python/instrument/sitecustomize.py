# SPDX-License-Identifier: Apache-2.0
"""What `pchrun --instrument` has every Python of the job run at its start (site finds it by PYTHONPATH).

It waits for the program to import a framework that pch._instrument knows, and then has that do the rest; a Python that
imports none is as without it, but for some microseconds at its start. It imports nothing by itself but what has been
imported already. Any version of Python may meet it, and whatever fails here is told, and does no harm.
"""

import os
import sys

# When the program has imported these.
MODULES = ("torch.optim", "torch._dynamo", "transformers.trainer", "lightning.pytorch.trainer", "keras")

_SAID = "PCH_INSTRUMENT_SAID"  # in the environment: what fails here fails in every process below as well


def _say(text):
    if not os.environ.get(_SAID):
        os.environ[_SAID] = "1"
        sys.stderr.write("pch: %s\n" % text)


def _hook(name):
    """The program has imported it."""
    try:
        from pch import _instrument
    except ImportError as error:
        _say("--instrument does nothing: %s cannot import the package pch (%s); install it there, by "
             "`pip install` of pchrun's contrib/python" % (sys.executable, error))
        return
    _instrument.hook(name)


class _Loader(object):
    """Loads a module as its own loader does, then has it hooked. It is never seen by the module."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        if name == "_loader":  # while it is being copied
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
    """Of the modules that are wanted, finds what the others find. One of those may ask all others itself, as another
    pchrun's, below which this one runs: then it is not answered."""

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
    """The sitecustomize that would have been found without this one; what it raises is site's affair, as it was."""
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
