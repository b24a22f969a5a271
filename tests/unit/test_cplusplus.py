# SPDX-License-Identifier: Apache-2.0
"""test_cplusplus: pch.h and libpch from C++: two compilers, the oldest and the newest language that users
have, every warning. The program (cplusplus.cc) trains under pchrun, saves, and resumes.

PCHRUN, LIBPCH_SO and LIBPCH_A are the built ones.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "unit" / "cplusplus.cc"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wold-style-cast", "-Wshadow", "-Werror"]
DEADLINE_S = 60


@pytest.fixture(params=[(compiler, standard) for compiler in ("g++", "clang++-14") for standard in ("c++11", "c++20")],
                ids="-".join)
def build(request, tmp_path):
    compiler, standard = request.param
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")

    def compile_with(*libraries):
        subprocess.run([compiler, f"-std={standard}", *WARNINGS, f"-I{ROOT}/include", "-o", tmp_path / "train",
                        PROGRAM, *libraries], check=True, timeout=DEADLINE_S)
        return tmp_path / "train"

    return compile_with


def run(*command):
    env = {key: value for key, value in os.environ.items() if not key.startswith("PCH_")}
    done = subprocess.run(command, env=env, text=True, capture_output=True, check=False, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def shared():
    library = Path(os.environ["LIBPCH_SO"])
    return str(library), f"-Wl,-rpath,{library.parent}"


def static():
    return os.environ["LIBPCH_A"], "-pthread"


@pytest.mark.parametrize("libraries", [shared, static])
def test_a_program_trains_saves_and_resumes(build, libraries, tmp_path):
    program = build(*libraries())
    assert run(program, "3") == ["supervised 0", "resume 0 -", "step 1", "step 2", "step 3"]
    under = [os.environ["PCHRUN"], "--checkpoint-dir", tmp_path, "--run-dir", tmp_path, "--", program]
    assert run(*under, "3") == ["supervised 1", "resume 0 -", "step 1", "step 2", "step 3"]
    assert run(*under, "5") == ["supervised 1", "resume 3 at://the-end", "step 4", "step 5"]
