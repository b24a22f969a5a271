# SPDX-License-Identifier: Apache-2.0
"""The files that pip installs into an environment from a wheel with the programs. The tests call them by
name, like a user in the activated environment. tests/ci/wheel.sh runs these tests in an environment whose
path has a space. It also runs the package's other tests, with the pchrun of that environment.
"""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from harness import DEADLINE
from nodes import Nodes
from test_job import BEGIN, LOOPS, PREEMPTED, undisturbed

ENVIRONMENT = Path(os.environ["PCH_PYTHON"]).parents[1]
PROGRAMS = ("pchrun", "pchctl", "pchrun-watch", "pchrun-web")
TRAINING = BEGIN + LOOPS["steps with a save function"]


@pytest.fixture(autouse=True)
def activated(world):
    world.env["PATH"] = f"{ENVIRONMENT}/bin:{world.env['PATH']}"
    world.pchrun = "pchrun"


def run(world, *command, **more):
    """The standard output of a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, env=world.env, check=False, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_its_programs_are_of_one_version(world, program):
    version = run(world, "python", "-c", "import pch; print(pch.__version__)")
    assert run(world, program, "--version") == f"{program} {version}"
    assert run(world, program, "--help").startswith(f"Usage: {program} ")
    assert (ENVIRONMENT / f"share/man/man1/{program}.1").is_file()
    complete = ENVIRONMENT / "share/bash-completion/completions" / program
    assert program in run(world, "bash", "-c", '. "$0" && complete -p "$1"', complete, program)


def test_one_node(program, world):
    """Installs and runs as the package's page begins."""
    one = program(TRAINING)
    world.env |= one.variables({})
    start = ["--checkpoint-dir", one.checkpoints, "--", "python", one.path]
    one.job = world.launch(*start)
    world.events.wait("training")
    told = json.loads(run(world, "pchctl", "--run-dir", world.tmp, "status", "--json"))
    assert [(rank["step"], rank["attached"]) for rank in told["ranks"]] == [(5, True)]
    one.agree()
    assert one.job.finish() == PREEMPTED
    assert world.launch(*start).finish() == 0
    [first, again], [end] = world.events.all("begin"), world.events.all("end")
    assert first["step"] == 0 and again["step"] > 5 and end["state"] == undisturbed()


def test_what_python_runs_first(world):
    """The file lies beside the programs, not beside the package."""
    show = 'import os; print(os.environ["PYTHONPATH"])'
    job = world.launch("--instrument", "--", "python", "-c", show)
    assert (job.finish(), job.out) == (0, f"{ENVIRONMENT / 'share/pchrun/python'}\n")


def test_two_nodes_with_a_key_and_a_watcher(program, world):
    """pchrun finds pchrun-watch beside itself, and OpenSSL in the system."""
    one, key, notice = program(TRAINING), world.root / "key", world.root / "notice"
    world.env |= one.variables({})
    assert world.launch("--make-key", key).finish() == 0
    two = Nodes(world, 2)
    two.options = ["-v", "--cluster-key-file", key, "--checkpoint-dir", one.checkpoints, "--notices", f"file:{notice}"]

    def start():
        two.jobs = {rank: two.launch(rank, "python", one.path) for rank in range(2)}
    start()
    world.events.wait("training", count=2)
    here = ENVIRONMENT / "bin/pchrun"
    assert [os.readlink(f"/proc/{job.pid}/exe") for job in two.jobs.values()] == [str(here)] * 2
    notice.write_text("")
    two.say(0, "every rank saves step")
    world.go_on("on")
    assert two.finish() == PREEMPTED and two.agreed()["outcome"] == "preempted"
    assert all("tls: OpenSSL 3" in job.err for job in two.jobs.values())
    notice.unlink()
    start()
    assert two.finish() == 0
    assert [end["state"] for end in world.events.all("end")] == [undisturbed()] * 2


def test_libpch_for_programs_in_c(world):
    """A program that is linked with libpch needs no file of the environment when it runs."""
    source, binary = world.root / "train.c", world.root / "train"
    source.write_text("""
        #include <pch.h>
        int main(void)
        {
            pch_t *job = pch_open(NULL);
            if (!pch_supervised(job) || pch_step(job, 1) != PCH_CONTINUE)
                return 9;
            pch_done(job);
            return 0;
        }
        """)
    world.env["PKG_CONFIG_PATH"] = str(ENVIRONMENT / "lib/pkgconfig")
    flags = shlex.split(run(world, "pkg-config", "--cflags", "--libs", "pch"))
    run(world, "cc", "-o", binary, source, *flags)
    assert "libpch" not in run(world, "readelf", "-d", binary)
    assert world.start(binary).finish() == 9
    assert world.launch("--", binary).finish() == 0
