# SPDX-License-Identifier: Apache-2.0
"""Common parts of the tests of pch.integrations. The interpreter PCH_PYTHON has the frameworks.

A framework takes seconds to start in each rank, so there are few tests, and each does much.
"""

import os
import signal
import zipfile
from pathlib import Path

import pytest

from harness import commands_of, wait_until
from nodes import free_port
from pages import Page

# For a test that differs in only one thing from a test that always runs.
LONG = pytest.mark.skipif("TEST_LONG_MINUTES" not in os.environ, reason="with --long")
PATIENCE = 240
PREEMPTED = 42
STEPS = 60
BIN = Path(os.environ["PCH_PYTHON"]).parent

# Sets PyTorch's variables from those of Open MPI, which have other names.
AS_TORCH = """export RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK
exec "$0" "$@"
"""


def torchrun(world):
    return [BIN / "torchrun", "--standalone", "--nproc-per-node", "2", "--log-dir", world.root / "logs", "--no-python"]


def accelerate(world):
    return [BIN / "accelerate", "launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
            "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0", "--log_dir",
            world.root / "logs", "--no_python"]


def deepspeed(world):
    return [BIN / "deepspeed", "--num_gpus", "2", "--master_port", str(free_port()), "--no_python", "--no_local_rank"]


def mpirun(world):
    return ["mpirun", "--oversubscribe", "--mca", "plm_rsh_agent", "false", "-n", "2", "sh", "-c", AS_TORCH]


def variables(launcher):
    """The environment variables that the launcher needs."""
    if launcher is deepspeed:
        return {"PATH": f"{BIN}:/usr/bin:/bin", "DS_ACCELERATOR": "cpu"}
    if launcher is mpirun:
        return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": lambda: str(free_port())}
    return {"ACCELERATE_USE_CPU": "true"} if launcher is accelerate else {}


def held():
    """The program of docs/python/ddp.md with fewer steps. The ranks tell of step 5, and wait there for the notice. In the
    end each leaves its weights beside the checkpoints."""
    code = Page("ddp").program
    for line, more in (("EPOCHS = 20\n", "EPOCHS = 2\n"),
                       ("        optimizer.zero_grad()\n", "        import told\n        told.hold(job.finished)\n"
                                                          "        optimizer.zero_grad()\n"),
                       ("if dist.get_rank() == 0:\n", "if True:\n"),
                       ('"model.pt"', 'f"{os.environ[\'PCH_CHECKPOINT_DIR\']}/final.rank-{dist.get_rank()}.pt"')):
        assert code.count(line) == 1
        code = code.replace(line, more)
    return code


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
