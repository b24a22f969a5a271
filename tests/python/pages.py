# SPDX-License-Identifier: Apache-2.0
"""pages: what docs/python prints. Each page has a difference, the program that it leads to, and commands. Here each
command is run as it is printed, in an empty folder."""

import json
import os
import re
import shlex
import signal
import sys
from pathlib import Path

import pytest

from harness import Late, wait_until
from pchctl import ctl  # noqa: F401: a fixture

sys.path.append(str(Path(__file__).resolve().parents[1] / "house"))
from documents import ROOT, both_sides  # noqa: E402

PAGES = ROOT / "docs/python"
PREEMPTED = 42


class Page:
    """The parts of one page."""

    def __init__(self, name):
        self.name, self.text = name, (PAGES / f"{name}.md").read_text()
        (self.hunks,) = re.findall(r"^```diff\n(.*?)^```", self.text, re.S | re.M)
        (self.program,) = re.findall(r"^```python\n(.*?)^```", self.text, re.S | re.M)
        self.file = re.match(r"# (\w+\.py)\n", self.program)[1]
        self.commands = re.findall(rf"^ {{4}}(.*\bpchrun .*\b{self.file})$", self.text, re.M)

    def known(self):
        """The program before the change: the hunks taken back, each at the first place that it fits behind the last."""
        program, place = self.program, 0
        for hunk in self.hunks.split("@@\n"):
            before, after = both_sides(hunk)
            place = program.index(after, place)
            program = program[:place] + before + program[place + len(after):]
            place += len(before)
        return program


def torch_aborts(job, patience):
    """On a busy machine torch rarely aborts a process that ends, since a thread of its own is left; so ask again."""
    return job.finish(patience) == 128 + signal.SIGABRT and "terminate called without an active exception" in job.err


class Trial:
    """A folder in which a user types a page's command."""

    def __init__(self, world, ctl, page, name):
        self.world, self.ctl, self.page, self.job = world, ctl, page, None
        self.started = ()
        self.folder = world.root / name
        self.folder.mkdir()
        self.folder.with_name("programs-tmp").mkdir(exist_ok=True)
        self.path = f"{_programs(world)}:{Path(os.environ['PCH_PYTHON']).parent}:/usr/bin:/bin"

    def start(self, command, program, more=()):
        """Starts the command, with more variables; the folder gets the program."""
        self.started = command, program, more
        (self.folder / self.page.file).write_text(program)
        options = self.world.env["ASAN_OPTIONS"]
        env = {"PATH": self.path, "PYTHONDONTWRITEBYTECODE": "1", "TF_CPP_MIN_LOG_LEVEL": "2", "OMP_NUM_THREADS": "1",
               "TORCHINDUCTOR_CACHE_DIR": str(self.world.root / "inductor"), "ACCELERATE_USE_CPU": "true",
               "ASAN_OPTIONS": f"{options}:detect_leaks=0",
               # A launcher leaves its logs among the temporary files; pchctl looks where pchrun has its socket.
               "TMPDIR": str(self.folder.with_name("programs-tmp")), "PCHRUN_RUN_DIR": str(self.world.tmp),
               "PCHRUN_SAVE_TRAIN_ON": "auto"}  # as for a user: the other tests set it
        if os.environ.get("PCH_PACKAGE"):
            env["PYTHONPATH"] = os.environ["PCH_PACKAGE"]
        self.job = self.world.start("env", *shlex.split(command), cwd=self.folder, env={**env, **dict(more)})
        return self

    def preempt(self, patience):
        """Gives pchrun a SIGTERM once all ranks have finished three steps; returns the step of the commit."""
        wait_until(self._has_stepped, "three steps of every rank", patience, pause=0.02)
        self.job.send(signal.SIGTERM)
        assert self.job.finish(patience) == PREEMPTED, self.job.err
        return int(re.findall(r"committed at step (\d+)", self.job.err)[-1])

    def complete(self, patience):
        if torch_aborts(self.job, patience):
            self.start(*self.started)
        assert self.job.finish(patience) == 0, self.job.err
        return self

    def _has_stepped(self):
        if self.job.process.poll() is not None:
            raise Late(f"it has ended too early: {self.job.err}")
        asked = self.ctl("status", "--json")
        ranks = json.loads(asked.stdout)["ranks"] if asked.returncode == 0 else []
        return bool(ranks) and all(rank["step"] >= 3 for rank in ranks)

    def results(self):
        """The names of the files that the training has left at its end, beside the checkpoints."""
        return sorted(path.name for path in self.folder.glob("model*"))


def _programs(world):
    """A folder with the commands of the pages: this build's pchrun, and the Python to test."""
    folder = world.root / "bin"
    if not folder.exists():
        folder.mkdir()
        (folder / "pchrun").symlink_to(world.pchrun)
        preload = f"env LD_PRELOAD={os.environ['PCH_PRELOAD']} " if os.environ.get("PCH_PRELOAD") else ""
        world.file("bin/python", f"#!/bin/sh\nexec {preload}'{os.environ['PCH_PYTHON']}' \"$@\"\n", 0o755)
    return folder


@pytest.fixture
def trial(world, ctl):  # noqa: F811
    """A function that makes a Trial of a page, in a new folder of this name."""
    return lambda page, name: Trial(world, ctl, page, name)
