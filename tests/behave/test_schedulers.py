# SPDX-License-Identifier: Apache-2.0
"""contrib's files for schedulers, run as far as possible without them. pchrun takes every command and setting
in them. The scripts that start one pchrun per host do so, with stand-ins for the programs that start a process
on another host. tests/slurm has Slurm itself; tests/house/test_contrib.py checks the files."""

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from checkup import shown
from harness import CHARLM, marked, wait_until
from nodes import PORTS, free_port

CONTRIB = Path(__file__).resolve().parents[2] / "contrib"
FOLDERS = ["slurm", "kubernetes", "systemd", "lsf", "htcondor", "pbs", "sge", "aws-batch", "skypilot", "docker"]
STEPS = 40

# The variables of the second of four nodes in each system.
AROUND = {
    "job.yaml": {},
    "indexed-job.yaml": {"JOB_COMPLETION_INDEX": "1", "PCHRUN_CLUSTER_CHIEF": "train-0.train"},
    "jobset.yaml": {"JOB_COMPLETION_INDEX": "1", "JOBSET_NAME": "train", "REPLICATED_JOB_NAME": "node"},
    "pytorchjob.yaml": {"PET_NNODES": "4", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "train-master-0"},
    "trainjob.yaml": {"PET_NNODES": "4", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "train-node-0-0.train"},
    "job.json": {},
    "multi-node.json": {"AWS_BATCH_JOB_NUM_NODES": "4", "AWS_BATCH_JOB_NODE_INDEX": "1",
                        "AWS_BATCH_JOB_MAIN_NODE_INDEX": "0",
                        "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": "10.0.0.7"},
}
ALONE = {"job.yaml", "job.json"}


def commands(node):
    """Every list in a document that is a command of pchrun."""
    if isinstance(node, list) and "pchrun" in node:
        yield node[node.index("pchrun"):]
    elif isinstance(node, (list, dict)):
        for inner in node.values() if isinstance(node, dict) else node:
            yield from commands(inner)


def manifests():
    for path in (*sorted((CONTRIB / "kubernetes").glob("*.yaml")), *sorted((CONTRIB / "aws-batch").glob("*.json"))):
        yield path.name, [command for document in yaml.safe_load_all(path.read_text())
                          for command in commands(document)]


def test_every_manifest_is_known_here():
    assert {name for name, _ in manifests()} == set(AROUND)


@pytest.mark.parametrize("name, found", manifests())
def test_pchrun_takes_the_commands_of_manifests(world, name, found):
    assert found
    for command in found:
        end = command.index("--")
        assert command[end + 1:] == ["./train"]
        got = shown(world, *command[1:end], env=AROUND[name])
        assert (got["cluster"]["nnodes"], got["cluster"]["node_rank"]) == ((1, 0) if name in ALONE else (4, 1))
        assert got["checkpoint"]["dir"] == "/ckpt/train" and got["procs"]["count"] == 8
        assert got["exit"]["preempted"] == (143 if name == "pytorchjob.yaml" else 42)


def test_the_grace_fits_the_pod():
    """Five seconds less than Kubernetes leaves."""
    for path in sorted((CONTRIB / "kubernetes").glob("*.yaml")):
        text = path.read_text()
        leaves = [int(n) for n in re.findall(r"terminationGracePeriodSeconds: (\d+)", text)]
        assert leaves and [int(n) for n in re.findall(r"--grace, (\d+)s", text)] == [n - 5 for n in leaves]


def test_pchrun_takes_the_unit(world):
    unit = (CONTRIB / "systemd/train.service").read_text()
    env = dict(re.findall(r"^Environment=(\w+)=(.*)", unit, re.M))
    command = shlex.split(re.search(r"^ExecStart=(.*)", unit, re.M)[1])
    got = shown(world, *command[1:command.index("--")], env=env)
    assert got["procs"]["count"] == 8 and got["grace"] == "85s" and "TimeoutStopSec=90" in unit
    several = env | dict(re.findall(r"^#Environment=(PCHRUN_\w+)=(.*)", unit, re.M))
    got = shown(world, "--node-rank", "1", env=several)
    assert got["cluster"]["nodes"] == ["n0", "n1", "n2", "n3"] and got["cluster"]["key_file"]


@pytest.mark.parametrize("codes", [(42, 125, 137, 0), (42, 44), (43,), (1,)], ids=str)
def test_a_loop_on_a_plain_host(world, codes):
    """The loop in systemd's page starts pchrun again for the codes of a lost node alone, with options that pchrun takes."""
    [loop] = re.findall(r"^```sh\n(until .*?)^```", (CONTRIB / "systemd/README.md").read_text(), re.S | re.M)
    key = world.root / "train.key"
    world.launch("--make-key", key, code=0)
    line = re.search(r"^until (.*?); do$", loop, re.S | re.M)[1]
    command = shlex.split(line.replace("\\\n", "").replace("train.key", str(key)))
    got = shown(world, *command[1:command.index("--")])
    assert got["cluster"]["replace_wait"] == "15m" and got["cluster"]["node_rank"] == 2
    given = world.file("codes", "".join(f"{code}\n" for code in codes))
    one = "pchrun() { read -r code <&3; return $code; }\n"
    job = world.start("sh", "-c", f"exec 3<{given}\n{one}{loop.replace('sleep 5', 'echo again')}")
    assert job.finish() == 0, job.err
    assert job.out == "again\n" * (len(codes) - 1)


def test_pchrun_takes_what_htcondor_gives_it(world):
    submit = (CONTRIB / "htcondor/train.sub").read_text()
    command = shlex.split(re.search(r'^arguments *= "(.*)"', submit, re.M)[1])
    got = shown(world, *command[:command.index("--")])
    assert got["grace"] == "115s" and "job_max_vacate_time   = 120" in submit


def test_pchrun_takes_what_skypilot_runs(world):
    """The task's own script, with its key where this test wants it."""
    task = yaml.safe_load((CONTRIB / "skypilot/train.yaml").read_text())
    script = task["run"].replace("/dev/shm/train.key", f"{world.root}/train.key")
    script = script.replace("exec pchrun", "exec pchrun --print-config")
    job = world.start("bash", "-eu", "-c", script, env={
        **task["envs"], "TRAIN_KEY": "pchrun-key-1:0123", "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2",
        "SKYPILOT_NODE_RANK": "1", "SKYPILOT_NUM_GPUS_PER_NODE": "8", "PATH": f"{Path(world.pchrun).parent}:/bin"})
    assert job.finish() == 0, job.err
    got = json.loads(job.out)
    assert got["cluster"]["nodes"] == ["10.0.0.1", "10.0.0.2"] and got["cluster"]["node_rank"] == 1
    assert (world.root / "train.key").read_text() == "pchrun-key-1:0123\n"
    assert (world.root / "train.key").stat().st_mode & 0o777 == 0o600


def test_a_key_of_the_environment_becomes_a_file(world):
    """with-key.sh: pchrun takes the file that it makes, and the command does not see the variable."""
    made = world.launch("--make-key", world.root / "made", code=0)
    key = (world.root / "made").read_text().strip()
    file = world.root / "train.key"
    job = world.start(CONTRIB / "aws-batch/with-key.sh", world.pchrun, "--cluster-key-file", file,
                      "--cluster-nodes", f"127.0.0.1:{free_port()}", "--", "sh", "-c", "echo ${TRAIN_KEY-none}",
                      env={"TRAIN_KEY": key, "TRAIN_KEY_FILE": str(file)})
    assert job.finish() == 0, job.err
    assert job.out == "none\n" and file.stat().st_mode & 0o777 == 0o600


def test_pages_name_what_there_is(world):
    """Every PCHRUN_ variable in contrib is a setting; every flag that a page names for pchrun is a flag of pchrun."""
    schema = subprocess.run([world.pchrun, "--print-schema"], capture_output=True, text=True, check=True).stdout

    def keys(node, prefix=""):
        for name, value in node.get("properties", {}).items():
            yield prefix + name
            yield from keys(value, f"{prefix}{name}.")

    known = {"PCHRUN_" + key.replace(".", "_").upper() for key in keys(json.loads(schema))}
    used = {name for folder in FOLDERS for path in (CONTRIB / folder).iterdir()
            for name in re.findall(r"\bPCHRUN_[A-Z_]*[A-Z]\b", path.read_text())}
    assert used and used <= known, used - known
    helped = "".join(subprocess.run([program, "--help", "all"], capture_output=True, text=True, check=True).stdout
                     for program in (world.pchrun, os.environ["PCHCTL"]))
    flags = set(re.findall(r"--(?:\[no-\])?([a-z][a-z-]+)", helped))
    others = {"nodes", "gpus-per-node", "cpus-per-task", "job-name", "signal", "open-mode", "no-requeue", "now",
              "kill-on-bad-exit", "from-file", "cli-input-json", "name", "secret-string", "stop-timeout",
              "entrypoint", "restart", "network", "secret", "its", "ignore-signal", "array", "batch", "full",
              "jobid", "no-kill", "ntasks", "overlap", "preserve-status", "from", "target", "force",
              "overwrite"}
    for folder in FOLDERS:
        named = set(re.findall(r"(?<![\w-])--([a-z][a-z-]+)", (CONTRIB / folder / "README.md").read_text()))
        assert named - others <= flags, (folder, named - others - flags)


# --- one pchrun per host -------------------------------------------------------------------------

# A process on another host has neither the environment nor the ignored signals of this host's processes.
STAND_IN = """#!/bin/sh
shift {skip}
exec env -i --default-signal PATH="$PATH" TMPDIR="$TMPDIR" BEHAVE_MARK="$BEHAVE_MARK" ASAN_OPTIONS="$ASAN_OPTIONS" "$@"
"""


class Place:
    """Two hosts, 127.0.0.1 and .2, under a scheduler of which only the variables exist."""

    def __init__(self, world, script, starter, skip, **env):
        self.world, self.script = world, script
        self.folder = world.root / "bin"
        self.folder.mkdir()
        self.program(starter, STAND_IN.format(skip=skip))
        self.number = free_port() - PORTS.start
        self.hosts = world.file("hosts", "127.0.0.1\n127.0.0.1\n127.0.0.2\n")
        built = Path(world.pchrun).parent
        self.env = {"PATH": f"{self.folder}:{built}:/usr/bin:/bin", **env}
        self.train = [CHARLM, "--dir", str(world.root / "steps"), "--port", str(free_port()), "--steps", str(STEPS),
                      "--log-every", "1"]

    def program(self, name, text):
        self.world.file(f"bin/{name}", text, 0o755)

    def run(self, step_ms, *arguments):
        train = [*self.train, "--step-time", str(step_ms)]
        arguments = [word for argument in arguments for word in (train if argument is self.train else [argument])]
        return self.world.start("bash", CONTRIB / self.script, *arguments, env=self.env | {"TRAIN": " ".join(train)})

    def finish(self, job):
        """The script's exit code, when the other host's pchrun has ended, too; it is no child of the script's."""
        code = job.finish()
        wait_until(lambda: not marked(self.world.mark), "the other host's pchrun to end")
        return code

    def preempted(self, number, code, *arguments, everybody=False):
        """A run in whose middle the script's process, or every process, gets this signal."""
        job = self.run(100, *arguments)
        wait_until(lambda: "step 3 " in job.out, "the training to make steps")
        for pid in marked(self.world.mark) if everybody else [job.pid]:
            os.kill(pid, number)
        assert self.finish(job) == code, job.err
        assert "committed at step" in job.err
        return job

    def completes(self, first, *arguments):
        """The next run goes on where the first has ended, and gets to the end."""
        job = self.run(0, *arguments)
        assert self.finish(job) == 0, job.err
        steps = [int(n) for n in re.findall(r"^step (\d+) ", first.out + job.out, re.M)]
        assert steps == list(range(1, STEPS + 1))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR2, signal.SIGTERM])
def test_lsf(world, number):
    """Each signal reaches the training, too, on every host, and does it no harm."""
    place = Place(world, "lsf/train.lsf", "blaunch", 1, LSB_JOBNAME="train", CKPT=f"{world.root}/ckpt")
    place.env |= {"LSB_JOBID": str(place.number), "LSB_DJOB_HOSTFILE": str(place.hosts)}
    first = place.preempted(number, 42, everybody=True)
    place.completes(first)


def test_grid_engine(world):
    """Grid Engine wants the code 99; its signals reach all processes of the job."""
    place = Place(world, "sge/train.sge", "qrsh", 4, JOB_NAME="train", CKPT=f"{world.root}/ckpt")
    place.env |= {"JOB_ID": str(place.number), "PE_HOSTFILE": str(place.hosts)}
    first = place.preempted(signal.SIGUSR2, 99, place.train, everybody=True)
    place.completes(first, place.train)


def test_pbs(world):
    """PBS requeues nothing: the job submits itself, once."""
    place = Place(world, "pbs/train.pbs", "pbs_tmrsh", 1, PBS_JOBNAME="train", CKPT=f"{world.root}/ckpt",
                  PBS_O_WORKDIR=str(CONTRIB / "pbs"))
    place.env |= {"PBS_JOBID": f"{place.number}.server", "PBS_NODEFILE": str(place.hosts)}
    place.program("qsub", f'#!/bin/sh\necho "$@" >>{world.root}/submitted\n')
    first = place.preempted(signal.SIGTERM, 42)
    assert (world.root / "submitted").read_text() == (
        f"-N train -W depend=afterany:{place.number}.server {CONTRIB}/pbs/train.pbs\n")
    place.completes(first)
    assert (world.root / "submitted").read_text().count("\n") == 1
