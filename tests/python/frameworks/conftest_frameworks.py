# SPDX-License-Identifier: Apache-2.0
"""Common parts of the tests of pch.integrations. The interpreter PCH_PYTHON has the frameworks.

A framework takes seconds to start in each rank, so there are few tests, and each does much.
"""

import os
import re
import signal
import zipfile
from pathlib import Path

import pytest

from harness import commands_of, wait_until

HERE = Path(__file__).resolve().parent
README = HERE.parents[2] / "contrib/python/README.md"
# For a test that differs in only one thing from a test that always runs.
LONG = pytest.mark.skipif("TEST_LONG_MINUTES" not in os.environ, reason="with --long")
PATIENCE = 120
PREEMPTED = 42
STEPS = 60


def example(name):
    """The program of that name as it stands in the manual."""
    return re.search(rf"^```python\n(# {name}\n.*?)^```", README.read_text(), re.S | re.M)[1]


def held(name, before="        inputs, wanted = next(following)\n", step="step"):
    """The manual's program of that name, in which the ranks tell of step 5 before that line, and wait there for the
    notice. step: what counts the steps there."""
    code = example(name)
    assert code.count(before) == 1
    indent = before[:-len(before.lstrip())]
    return code.replace(before, f"{indent}import told\n{indent}told.hold({step})\n{before}")


@pytest.fixture
def train(program):
    """A function that starts a training of `n` ranks with a folder for its checkpoints, and returns it."""
    def start(code, *options, n, folder, **env):
        one = program(code)
        one.checkpoints = one.world.root / folder
        one.checkpoints.mkdir(exist_ok=True)
        return one.start(*options, n=n, CHECKPOINTS=str(one.checkpoints), OMP_NUM_THREADS="1",
                         TORCHINDUCTOR_CACHE_DIR=str(one.world.root / "inductor"), **env)
    return start


def finish(one):
    """As Program.result, for a slow program."""
    one.job.finish(PATIENCE)
    return one.result()


def weights_differ(*folders):
    """The names of the parts that differ in any byte between the folders' files of weights.

    The files of torch and numpy are zip archives, and a part is a member.
    """
    files = [sorted(folder.glob("final.rank-*")) for folder in folders]
    assert files[0] and len({len(paths) for paths in files}) == 1
    differ = []
    for paths in zip(*files):
        parts = [parts_of(path) for path in paths]
        assert parts[0] and all(other.keys() == parts[0].keys() for other in parts)
        differ += [f"{paths[0].name}: {name}" for name in parts[0] if any(p[name] != parts[0][name] for p in parts)]
    return differ


def parts_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def notices(world, kind):
    """(options of pchrun, function that gives the notice)"""
    if kind == "SIGTERM":
        return [], lambda one: one.job.send(signal.SIGTERM)
    if kind == "SIGTERM to all":  # as from a scheduler that signals all its processes
        return [], lambda one: [os.kill(pid, signal.SIGTERM) for pid in [one.job.pid, *commands_of(one.job.pid)]]
    file = world.root / "notice"
    return ["--notices", f"file:{file}"], lambda one: file.write_text("maintenance")


def interrupt(train, world, code, *, n, kind="SIGTERM", wrap=None, alone=None, extra=(), **env):
    """Trains twice: once undisturbed, once preempted and started again. Both runs must end with the same weights.

    With NOTICE set, the code reports step 5 and waits there. wrap: a launcher, which starts the n ranks of the
    preempted run. extra: options of pchrun for the preempted run. A function in `env`, or as `wrap`, is called for each
    start. The undisturbed run goes on at the same time, because a start is slow and mostly waits. alone: the folder of
    an earlier undisturbed run; no other is then made.

    Returns (the preempted program, the step of its save).
    """
    def now(value):
        return value() if callable(value) else value

    def more():
        return {"STEPS": str(STEPS), **{name: now(value) for name, value in env.items()}}

    def launched(*options, **more):
        return train(code, *options, n=None if wrap else n, wrap=now(wrap) or (), folder="preempted", **more)
    options, give_notice = notices(world, kind)
    options = [*options, *extra]
    undisturbed = None if alone else train(code, n=n, folder="alone", **more())
    one = launched(*options, NOTICE="1", **more())
    wait_until(lambda: len(world.events.all("training")) == n or one.job.process.poll() is not None, "step 5", PATIENCE)
    assert len(world.events.all("training")) == n, one.job.err + one.job.out
    give_notice(one)
    one.agreed()
    code_, outcome, step = finish(one)
    assert (code_, outcome) == (PREEMPTED, "preempted") and 5 < step < STEPS
    assert not list(one.checkpoints.glob("final.*"))
    if kind == "file":
        (world.root / "notice").unlink()
    again = launched(*options, **more())
    if undisturbed:
        assert finish(undisturbed)[:2] == (0, "completed"), undisturbed.job.err
        alone = undisturbed.checkpoints
    assert finish(again)[:2] == (0, "completed"), again.job.err
    assert again.report["steps"]["resumed"] == step
    assert len(list(again.checkpoints.glob("final.rank-*"))) == n
    assert weights_differ(alone, again.checkpoints) == []
    return one, step
