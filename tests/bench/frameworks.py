# SPDX-License-Identifier: Apache-2.0
"""frameworks: measures what the package for Python (contrib/python) costs, beside what its users have otherwise.

The training processes run tests/bench/pystep_program.py and tfstep_program.py.
"""

import os
from pathlib import Path

from measure import Unmeasured, environment, paired

PYTHON = "/usr/bin/python3"
HERE = Path(__file__).parent
CALLS = 200_000
TENSORFLOW = "tensorflow-cpu==2.21.0"
SIDES = [("`job.step()`", "≤ 0.7, ≤ 12 ns"), ("`for step in job.steps()`", ""), ("the same, with `job.should_save`", "")]


def pystep(bench):
    """a step of a Python program, by a call and by a loop, beside an empty method call"""
    rounds = rounds_of(bench, PYTHON, "pystep_program.py", CALLS)
    for side, (name, target) in enumerate(SIDES):
        yield paired(f"Python, {name}", [(took[side], took[-1]) for took in rounds], "empty method call", target,
                     per=CALLS)


def tfstep(bench):
    """a step of a Python program, beside what TensorFlow's PreemptionCheckpointHandler does in each"""
    python = environment(bench, TENSORFLOW, [TENSORFLOW]) / "bin/python"
    calls = CALLS // 10
    rounds = rounds_of(bench, python, "tfstep_program.py", calls)
    for side, (name, target) in enumerate([("`job.step()`", "≤ 1/35 = 0.0286"), ("its stand-in of pch", "")]):
        yield paired(f"Python, {name}", [(took[side], took[-1]) for took in rounds], "TensorFlow's handler", target,
                     per=calls)


def rounds_of(bench, python, program, calls):
    """The output of the program as a rank."""
    command = [bench.pchrun, "--log-level", "error", "--", python, HERE / program, str(calls),
               str(max(20, bench.rounds // 10))]
    return bench.lines(command, env={**os.environ, "PYTHONPATH": str(package_of(bench))})


def package_of(bench):
    package = bench.build / "contrib/python"
    if not (package / "pch").is_dir():
        raise Unmeasured("the build has no package for Python; it needs python3-dev")
    return package


FIGURES = (pystep, tfstep)
