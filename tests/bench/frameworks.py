# SPDX-License-Identifier: Apache-2.0
"""frameworks: what the package for Python costs (contrib/python), beside what its users have else.

What runs in the training process is tests/bench/pystep_program.py.
"""

import os
from pathlib import Path

from measure import Unmeasured, paired

PYTHON = "/usr/bin/python3"
PROGRAM = Path(__file__).with_name("pystep_program.py")
CALLS = 200_000
SIDES = [("`job.step()`", "≤ 0.7, ≤ 12 ns"), ("`for step in job.steps()`", ""), ("the same, with `job.should_save`", "")]


def pystep(bench):
    """a step of a Python program, by a call and by a loop, beside an empty method call"""
    package = bench.build / "contrib/python"
    if not (package / "pch").is_dir():
        raise Unmeasured("the build has no package for Python; it needs python3-dev")
    command = [bench.pchrun, "--log-level", "error", "--", PYTHON, PROGRAM, str(CALLS), str(max(20, bench.rounds // 10))]
    rounds = bench.lines(command, env={**os.environ, "PYTHONPATH": str(package)})
    for side, (name, target) in enumerate(SIDES):
        yield paired(f"Python, {name}", [(took[side], took[-1]) for took in rounds], "empty method call", target,
                     per=CALLS)


FIGURES = (pystep,)
