# SPDX-License-Identifier: Apache-2.0
"""The real torchrun, accelerate, DeepSpeed and mpirun, below pchrun. Their workers attach as grandchildren of pchrun.
The exit code of a launcher does not hide how its workers ended.
"""

import re
import shutil

import pytest

from conftest_frameworks import (LONG, PATIENCE, PREEMPTED, accelerate, deepspeed, held, interrupt, mpirun, torchrun,
                                 variables)

MPIRUN = pytest.param(mpirun, marks=pytest.mark.skipif(not shutil.which("mpirun"), reason="needs openmpi-bin"))


@pytest.fixture(scope="module")
def kept():
    """{"alone": the folder of an undisturbed run}, which one test makes for the others."""
    return {}


@pytest.mark.parametrize("launcher", [torchrun, deepspeed, MPIRUN])  # accelerate: test_pages.py
def test_a_training_below_it(train, world, launcher, kept):
    """torchrun gets the notice's SIGTERM, too. It sends its workers SIGTERM, and waits as long as a save may take."""
    kind = "SIGTERM to all" if launcher is torchrun else "SIGTERM"
    one, _ = interrupt(train, world, held(), n=2, kind=kind, wrap=lambda: launcher(world),
                       alone=kept.get("alone"),
                       **variables(launcher))
    kept.setdefault("alone", one.world.root / "alone")
    assert sorted(rank["rank"] for rank in one.report["ranks"]) == [0, 1]


PATIENT = """
import os
from torch.distributed.launcher.api import DefaultLogsSpecs, LaunchConfig
print(LaunchConfig(1, 1, 1, logs_specs=DefaultLogsSpecs(log_dir=os.environ["CHECKPOINTS"])).shutdown_timeout)
"""


def test_torchrun_is_told_how_long_a_save_may_take(program):
    one = program(PATIENT).start("--grace", "100s", "--stop-exit-wait", "10s")
    assert one.job.finish(PATIENCE) == 0, one.job.err
    assert one.job.out == "111\n"


# Rank 1 dies, and rank 0 waits for it, as in a collective.
DIES = """
import os, sys, pch
from told import wait_for
with pch.attach() as job:
    for step in job.steps(9):
        if step == 3 and job.rank == 1:
            {how}
        if step == 4:
            wait_for("what never comes")
"""


@pytest.mark.parametrize("launcher", [torchrun, pytest.param(accelerate, marks=LONG), deepspeed, MPIRUN])
def test_a_worker_that_dies(program, world, launcher):
    """The worker is the cause, with its own exit code where pchrun can know that code, and the job has failed. The
    launcher ends the other worker by SIGTERM, but this is no notice."""
    def start(how):
        env = {name: value() if callable(value) else value for name, value in variables(launcher).items()}
        return program(DIES.format(how=how)).start(n=None, wrap=launcher(world), **env)
    exits, aborts = start("sys.exit(7)"), start("os.abort()")
    for one, code in (exits, 7), (aborts, None):
        got = one.job.finish(PATIENCE)
        cause = one.report["first_cause"]
        assert got == cause["code"] and got not in (0, PREEMPTED), one.job.err
        assert (one.report["outcome"], cause["rank"], one.report["notice"]) == ("failed", 1, None), one.job.err
        assert code in (got, None)
        how = "exited with 7 at step 3" if code else "ended at step 3 without pch_done or pch_close .*"
        assert re.fullmatch(rf"process {cause['pid']} {how}, and its command, process \d+, with \d+", cause["text"])
