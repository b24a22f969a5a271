# SPDX-License-Identifier: Apache-2.0
"""What is common to the tests of pch.integrations; the interpreter PCH_PYTHON has the frameworks.

A start of PyTorch takes seconds of each rank, so there are few, and each does much.
"""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
README = HERE.parents[2] / "contrib/python/README.md"
PATIENCE = 120


def example(name):
    """The program of that name as it stands in the manual."""
    return re.search(rf"^```python\n(# {name}\n.*?)^```", README.read_text(), re.S | re.M)[1]


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
    """As Program.result, of something slow."""
    one.job.finish(PATIENCE)
    return one.result()
