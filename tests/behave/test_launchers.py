# SPDX-License-Identifier: Apache-2.0
"""Launchers that people use. pchrun runs before them, and their workers attach as its grandchildren. Or pchrun runs
below them, and their variables tell it of the nodes."""

import json
import os
import re
import shlex
import shutil
import signal
import sys
from pathlib import Path

import pytest

from harness import (CHARLM, PREEMPTED, commands_of, descendants_of, marked, shell_command, stat_fields, status_of,
                     wait_until)
from nodes import FAST, free_port

LAUNCHER = Path(__file__).with_name("launcher.py")  # as torchrun: ends with 1 if a worker did not end with 0
TERM = signal.SIGTERM
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
MPIRUN = ["mpirun", "--oversubscribe", "--mca", "plm_rsh_agent", "false"]

# The example asks pchrun first for its rank. Below a launcher that sets the rank, the example must ask the
# launcher. LEAVE is the exit code of a worker that had to leave.
AS_LAUNCHED = """
unset PCH_RANK PCH_WORLD_SIZE
[ -z "$OMPI_COMM_WORLD_RANK" ] || export RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE \
    LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK LOCAL_WORLD_SIZE=$OMPI_COMM_WORLD_LOCAL_SIZE
"$0" "$@" && exit ${LEAVE-0}
"""

needs_mpirun = pytest.mark.skipif(not shutil.which("mpirun"), reason="needs openmpi-bin")


def train(world, above, env=None):
    """The example below a launcher; each rank tells its steps."""
    report = world.root / "report.json"
    job = world.launch("--report", report, "--checkpoint-dir", world.root / "ckpt", "--", *above,
                       "sh", "-c", AS_LAUNCHED, CHARLM, "--steps", 100000, "--step-time", 20, "--log-every", 1, "--dir",
                       world.root / "ckpt", "--port", free_port(), env=env)
    job.report = lambda: json.loads(report.read_text())
    wait_until(lambda: "\nstep 3 " in job.out or job.process.poll() is not None, "step 3")
    assert "\nstep 3 " in job.out, job.out + job.err
    return job


def preempted(job, ranks):
    """One save step on every rank, committed; whatever the launcher's exit code."""
    assert job.finish() == PREEMPTED, job.out + job.err
    report = job.report()
    assert report["outcome"] == "preempted" and report["commit"]["step"] == report["round"]["save_step"] > 0
    assert sorted(rank["rank"] for rank in report["ranks"]) == list(range(ranks))


@needs_mpirun
def test_before_mpirun(world):
    """The ranks know their numbers by Open MPI's variables. mpirun hears nothing of the notice."""
    job = train(world, [*MPIRUN, "-n", 3], env=ROOT)
    job.send(TERM)
    preempted(job, 3)


def test_before_a_launcher_of_torchruns_kind(world):
    """A worker that leaves with 42 makes the launcher end with 1, which is not the job's outcome."""
    job = train(world, [sys.executable, LAUNCHER, 2, 30], env={"LEAVE": "42"})
    job.send(TERM)
    preempted(job, 2)


@pytest.mark.parametrize("code", [42, 7])
def test_a_workers_own_exit_code(world, code):
    """TensorFlow's handler ends a worker with 42. A job that must not start again ends with another code. The launcher
    turns all of them into 1."""
    program = f"printf 'open\\nstep 1\\nexit {code}\\n' | \"$0\""
    job = world.launch("--", sys.executable, LAUNCHER, 2, 30, "sh", "-c", program, world.pchclient)
    assert job.finish() == code, job.err
    said = rf"failed, exit code {code}: node 0: rank [01], process \d+ exited with {code} at step 1, and its command, "
    assert re.search(said + r"process \d+, with 1(;.*)?$", job.err, re.M), job.err


# As torch.multiprocessing.spawn: no variable tells a rank its number. When one rank has failed, the launcher ends the
# others, waits for their end, and says why that rank has failed.
SPAWNER = """
import subprocess, sys

def start(rank):
    worker = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    worker.stdin.write(f"open rank={rank} local_rank={rank} world=2 local_world=2\\nstep 1\\n")
    print(worker.stdout.readline(), worker.stdout.readline(), flush=True)
    return worker

workers = [start(rank) for rank in range(2)]
workers[1].stdin.write("exit 3\\n")
code = workers[1].wait()
workers[0].terminate()
print("rank 0 has ended with", workers[0].wait(), flush=True)
sys.exit(f"rank 1 has failed with {code}")
"""


@pytest.mark.parametrize("env", [{}, {"RANK": "0"}], ids=["nameless", "launcher is called rank 0"])
def test_a_launcher_that_ends_the_others_is_not_ended(world, env):
    """Only the launcher knows why its worker died. So the launcher does not get the signals for the other ranks."""
    job = world.launch("--cluster-discovery", "none", "--", sys.executable, "-c", SPAWNER, world.pchclient, env=env)
    assert job.finish() == 3, job.err
    assert job.out.endswith(f"rank 0 has ended with {-TERM}\n")
    assert "\nrank 1 has failed with 3\n" in job.err
    assert re.search(r"end: failed, exit code 3: node 0: rank 1, process \d+ exited with 3 at step 1, and its command, "
                     r"process \d+, with 1$", job.err, re.M), job.err


def test_a_scheduler_that_tells_the_launcher_too(world):
    """As Slurm does with all of a step: the launcher hands the signal to workers that save already. It has
    the patience that pchrun tells it, as torchrun has."""
    patient = 'exec "$0" "$1" 2 "$TORCH_ELASTIC_SHUTDOWN_TIMEOUT" "${@:2}"'
    job = train(world, ["bash", "-c", patient, sys.executable, LAUNCHER])
    (launcher,) = commands_of(job.pid)
    job.send(TERM)
    os.kill(launcher, TERM)
    preempted(job, 2)


def below_a_shell(world):
    """The job, and all below it: the shell around its program first."""
    job = train(world, ["sh", "-c", '"$@"; exit 3', "shell", "env", "RANK=0", "WORLD_SIZE=1"])
    return job, [pid for shell in commands_of(job.pid) for pid in (shell, *descendants_of(shell))]


def test_a_scheduler_that_tells_the_shell_too(world):
    """The shells die of the signal, and the rank still saves."""
    job, below = below_a_shell(world)
    for pid in (*below, job.pid):
        os.kill(pid, TERM)
    preempted(job, 1)


def test_a_shell_that_is_killed_alone(world):
    """A shell that is killed alone is no notice: the job has failed, and its rank is ended."""
    job, below = below_a_shell(world)
    os.kill(below[0], TERM)
    assert job.finish() == 128 + TERM, job.err
    assert "ended with signal 15" in job.err


@needs_mpirun
def test_below_mpirun(world):
    """One pchrun for each of mpirun's processes. Size and ranks are Open MPI's. All are on this machine, so they meet
    on loopback, at a port that no other mpirun's processes use."""
    show = "echo $PCH_NODE_RANK/$PCH_NNODES $OMPI_COMM_WORLD_RANK"
    job = world.start(*MPIRUN, "-n", 3, world.pchrun, *FAST, "--", "sh", "-c", show,
                      env=ROOT)
    assert job.finish() == 0, job.err
    assert sorted(job.out.splitlines()) == ["0/3 0", "1/3 1", "2/3 2"]
    assert re.search(r"waiting for 2 other nodes, for \S+ at most, at 127\.0\.0\.1, port 2[0-8]\d\d\d\n", job.err)


def test_below_a_launcher_of_torchruns_kind(world):
    port = free_port()
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    show = "echo $PCH_NODE_RANK/$PCH_NNODES"
    job = world.start(sys.executable, LAUNCHER, 2, 30, world.pchrun, *FAST, "--",
                      "sh", "-c", show, env=env)
    assert job.finish() == 0, job.err
    assert sorted(job.out.splitlines()) == ["0/2", "1/2"]
    assert f"port {20000 + port % 8192}\n" in job.err


def test_a_program_that_starts_its_ranks_itself(world):
    """As Lightning without a launcher: LOCAL_RANK and WORLD_SIZE, but no RANK. Each process was taken as rank 0."""
    report = world.root / "report.json"
    ranks = [shlex.join(map(str, world.client("open\nstep 1\ndone\nclose\n"))) for _ in range(2)]
    start = f"export WORLD_SIZE=2 NODE_RANK=0; LOCAL_RANK=1 {ranks[1]} & LOCAL_RANK=0 {ranks[0]} && wait $!"
    job = world.start(world.pchrun, "--report", report, "--", "sh", "-c", start)
    assert job.finish() == 0, job.err
    assert sorted(rank["rank"] for rank in json.loads(report.read_text())["ranks"]) == [0, 1], job.err


IN_SLURM = {"PCHRUN_PRESET": "slurm", "SLURM_JOB_ID": "7", "PCHRUN_NOTICES": "none"}
SHELL_WARNING = "has started this: it dies of a SIGTERM without passing it on"
PIPE_WARNING = "standard output goes to tee (process "


@pytest.mark.parametrize("script, shell, pipe", [
    ("{} -- true; exit $?", True, False),
    ("{{ read -r _ <go; exec {} -- true; }} | tee log; exit 0", True, True),
    ("exec {} -- true", False, False),
    ("trap : TERM; {} -- true; exit $?", False, False),  # the script knows of the signal
], ids=["shell", "tee", "exec", "trap"])
def test_what_stands_between_a_scheduler_and_pchrun(world, script, shell, pipe):
    """On a platform that starts jobs again, the shell's code counts, or that of tee. The doctor sees both, too.
    Elsewhere, and at a terminal, scripts and pipelines are normal. The shell starts both sides of a pipe at once, so tee
    is there before pchrun begins."""
    def run(env, options=""):
        job = world.start("setsid", "-w", "bash", "-c", script.format(f"{world.pchrun} {options}"), env=env)
        if pipe:
            wait_until(lambda: "tee" in [status_of(pid).get("Name") for pid in marked(world.mark)], "tee")
            os.write(go, b"\n")
        job.finish()
        return job
    os.mkfifo(world.cwd / "go")
    go = os.open(world.cwd / "go", os.O_RDWR)
    job = run(IN_SLURM)
    assert (SHELL_WARNING in job.err, PIPE_WARNING in job.err) == (shell, pipe), job.err
    assert not run({}, "-q").err
    run({}, "--doctor")
    log = world.cwd / "log"
    if pipe:
        assert "warn     pipeline       standard output goes to tee (process " in log.read_text()
    os.close(go)


LAST_LINE = re.compile(r" end: preempted_unknown, exit code 42: [^\n]*\n\Z")


@pytest.mark.parametrize("options", [(), ("--logs-dir", "logs")], ids=["direct", "kept"])
def test_a_pipeline_has_the_whole_log(world, options):
    """The exit code is that of tee, but tee gets all that is written: the output and pchrun's last line."""
    line = shell_command(world, "record TERM say ready until TERM write 1 goodbye", options=options)
    job = world.start("bash", "-c", f"{line} 2>&1 | tee log; exit $?")
    actor = world.events.wait("ready")["pid"]
    os.kill(int(stat_fields(actor)[1]), signal.SIGTERM)
    assert job.finish() == 0
    log = (world.cwd / "log").read_text()
    assert "goodbye" in log and LAST_LINE.search(log), log


@pytest.mark.parametrize("options, code", [([], 124), (["--preserve-status"], 42)], ids=["plain", "preserved"])
def test_timeout_loses_the_code_but_not_the_log(world, options, code):
    """timeout sends its SIGTERM when its own SIGALRM comes."""
    job = world.act("record TERM say ready until TERM write 1 goodbye", above=["timeout", *options, "600"])
    job.end_by(signal.SIGALRM, code)
    assert job.out == "goodbye" and LAST_LINE.search(job.err)


def test_a_shell_at_a_terminal_is_normal(world):
    shell = world.terminal("bash", "-c", f"{world.pchrun} -- echo trained; exit 0", env=IN_SLURM)
    shell.expect("trained")
    assert shell.finish() == 0 and SHELL_WARNING not in shell.text
