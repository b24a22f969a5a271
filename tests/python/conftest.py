# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of contrib/python: those of tests/behave, and Python programs under pchrun.

Environment, beside that of tests/behave: PCH_PYTHON, the interpreter of the programs, which can import
pch (by PCH_PACKAGE, a folder for its path, if that is set); PCH_PRELOAD, what is to be preloaded for it (a
sanitizer's runtime).
"""

import importlib.util
import json
import os
import re
import signal
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BEHAVE = HERE.parent / "behave"
sys.path.insert(0, str(BEHAVE))
_spec = importlib.util.spec_from_file_location("behave_conftest", BEHAVE / "conftest.py")
_behave = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_behave)
pytest_configure, pytest_runtest_makereport = _behave.pytest_configure, _behave.pytest_runtest_makereport
world = _behave.world

from harness import DEADLINE, Late, wait_until  # noqa: E402


class Program:
    """Python code that a test runs, alone or as the ranks of a pchrun. The program imports functions
    from `told` (say, wait_for), by which it and the test communicate."""

    def __init__(self, world, code):
        self.world = world
        number = len(list(world.root.glob("program*.py")))
        self.path = world.file(f"program{number}.py", textwrap.dedent(code))
        self.checkpoints = world.root / "checkpoints"
        self.checkpoints.mkdir(exist_ok=True)
        self.report_path = world.root / f"report{number}.json"
        package = [os.environ["PCH_PACKAGE"]] if os.environ.get("PCH_PACKAGE") else []
        self.env = {"PYTHONPATH": os.pathsep.join([*package, str(HERE)]), "PYTHONDONTWRITEBYTECODE": "1",
                    "TF_CPP_MIN_LOG_LEVEL": "2",  # TensorFlow is silent
                    "CHECKPOINTS": str(self.checkpoints), "HOLD": str(world.root)}
        self.job = None

    def command(self, *arguments):
        """The interpreter preloads the sanitizer's runtime. Its parent, pchrun or a launcher, must not."""
        preload = os.environ.get("PCH_PRELOAD")
        prefix = ["env", f"LD_PRELOAD={preload}"] if preload else []
        return [*prefix, os.environ["PCH_PYTHON"], self.path, *arguments]

    def alone(self, *arguments, patience=DEADLINE, **env):
        """Runs the program without a pchrun: (exit code, standard output, standard error)."""
        job = self.world.start(*self.command(*arguments), env=self.variables(env))
        return job.finish(patience), job.out, job.err

    def variables(self, env):
        """LeakSanitizer would report the memory that the interpreter keeps until it ends."""
        options = self.world.env["ASAN_OPTIONS"]
        return {**self.env, "ASAN_OPTIONS": f"{options}:detect_leaks=0", **env}

    def start(self, *options, n=1, wrap=(), ready=None, patience=DEADLINE, **env):
        """Starts pchrun with `n` ranks of this program, each below the command `wrap`. If `n` is None, `wrap` is a
        launcher, which starts the ranks. With `ready`, returns when all ranks have said that word."""
        self.job = self.world.launch("--checkpoint-dir", self.checkpoints, "--report", self.report_path,
                                     *([] if n is None else ["-n", n]), *options, "--", *wrap, *self.command(),
                                     env=self.variables(env))
        if ready:
            self.world.events.wait(ready, count=n or 1, deadline=patience)
        return self

    def agreed(self, name="on"):
        """Waits until no rank can miss the step of the save any more, and lets the ranks go on. Earlier, the last
        steps might be over too soon."""
        self.said(r"every rank saves step \d+")
        self.world.go_on(name)

    def agree(self, name="on"):
        """Gives a notice, then does as agreed()."""
        self.job.send(signal.SIGTERM)
        self.agreed(name)

    def complete(self, name):
        """Lets the ranks go on, to a success; returns the committed step or None."""
        self.world.go_on(name)
        code, outcome, step = self.result()
        assert (code, outcome) == (0, "completed"), self.job.err
        return step

    @property
    def report(self):
        return json.loads(self.report_path.read_text())

    def said(self, pattern):
        """Waits until pchrun or a rank has written the pattern, and returns the match."""
        try:
            return wait_until(lambda: re.search(pattern, self.job.err, re.M), pattern)
        except Late as late:
            raise Late(f"{late}; it said: {self.job.err}") from None

    def result(self):
        """(exit code, outcome, committed step or None)"""
        code = self.job.finish()
        report = self.report
        return code, report["outcome"], report["commit"] and report["commit"]["step"]


@pytest.fixture
def short_tmp():
    """A folder for temporary files whose path is short: the fork server of multiprocessing binds a Unix socket there.
    Nothing is left in it."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder
        assert not os.listdir(folder)


@pytest.fixture
def program(world):
    """A function that makes a Program of code."""
    return lambda code: Program(world, code)
