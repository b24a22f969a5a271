# SPDX-License-Identifier: Apache-2.0
"""measure: the parts that the figures share: the measured programs, the lines of the table, and jobs of several
nodes."""

import contextlib
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

JOB = "bench"
PATIENCE = 600  # seconds: where the machine is busy, eight torchruns take minutes to start
TORCH = "torch==2.13.0"
# The packages that torch.distributed.run imports.
TORCH_NEEDS = ["typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "filelock", "numpy", "setuptools"]


class Unmeasured(Exception):
    """A figure cannot be measured here; the text says why."""


@dataclass
class Figure:
    """A line of the table."""
    name: str
    ours: str
    peer: str = ""
    ratio: str = ""
    target: str = ""


class Bench:
    """The folders of the measured programs, and the number of rounds."""

    def __init__(self, build, rounds, folder):
        self.build, self.rounds = build, rounds
        self.peers = None  # the folder of the peers that pip installs
        self.kept = {}  # the results that several figures share
        self.pchrun = str(folder / "pchrun")
        self.install(folder)

    def install(self, folder):
        """Copies the program, as an installation does. A linker writes a file in pieces, so its pages are scattered in
        memory, and the program's start takes a tenth longer."""
        folder.mkdir()
        shutil.copy(self.build / "src/pchrun", folder / "pchrun")

    def helper(self, name):
        return str(self.build / "tests/bench" / f"bench-{name}")

    def lines(self, command, **more):
        """The numbers in the output of a measuring program, line by line."""
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, check=False, **more)
        if done.returncode != 0:
            raise Unmeasured(f"{command[0]} has ended with {done.returncode}")
        return [[int(number) for number in line.split()] for line in done.stdout.splitlines()]


def environment(bench, name, *installs):
    """A virtual environment with the results of these steps of pip. It is made if it is missing."""
    home = bench.peers / name.replace("==", "-")
    if (home / "complete").exists():
        return home
    print(f"bench: installing {name} in {home}", file=sys.stderr)
    pip = [str(home / "bin/python"), "-m", "pip", "-q", "install"]
    for command in ([sys.executable, "-m", "venv", "--clear", str(home)], *([*pip, *install] for install in installs)):
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            raise Unmeasured(f"{name} cannot be installed: {' '.join(command)}: {done.stdout.strip()[-300:]}")
    (home / "complete").touch()
    return home


def torchrun_of(bench):
    """torchrun in an environment of its own."""
    return str(environment(bench, TORCH, ["--no-deps", TORCH], TORCH_NEEDS) / "bin/torchrun")


def torch_python(bench):
    """The Python that torchrun starts."""
    return str(Path(torchrun_of(bench)).with_name("python"))


# --- showing numbers ---


def duration(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= 0.9995 * size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.2f} ns"


def spread(values):
    low, middle, high = statistics.quantiles(values, n=4)
    form = ".2f" if middle >= 0.1 else ".4f" if middle >= 0.001 else ".1e"
    return f"{middle:{form}} [{low:{form}}–{high:{form}}]"


def spread_of(times):
    """The cells of a line that shows one side's times."""
    low, middle, high = statistics.quantiles(times, n=4)
    return duration(middle), f"[{duration(low)}–{duration(high)}]", f"longest {duration(max(times))}"


def paired(name, pairs, peer, target, per=1):
    """A line from pairs of times, pchrun's and the peer's; each time is that of `per` operations."""
    ours, theirs = (statistics.median(side) / per for side in zip(*pairs))
    return Figure(name, duration(ours), f"{peer} {duration(theirs)}", spread([a / b for a, b in pairs]), target)


# --- several nodes ---


def free_port():
    """A port below those that pchrun refuses as the default of another program, and below those of connections."""
    while True:
        port = random.randrange(14000, 28000)
        with contextlib.suppress(OSError), socket.socket() as sock:
            sock.bind(("127.0.0.1", port))
            return port


def key_options(bench, folder):
    """Options with a new key, so that the nodes speak TLS."""
    key = Path(folder, "key")
    subprocess.run([bench.pchrun, "--make-key", str(key)], stdout=subprocess.DEVNULL, check=True)
    return ["--job", JOB, "--cluster-key-file", str(key)]


def told_options(folder):
    """Options with a notice source that reads a FIFO."""
    fifo, source = Path(folder, "fifo"), Path(folder, "source")
    os.mkfifo(fifo)
    source.write_text(f"#!/bin/sh\nexec cat {fifo}\n", encoding="ascii")
    source.chmod(0o755)
    return ["--notices", f"command:{source}"]


def chief_options(size, port, run_dir, *more):
    """Node 0 of a job of `size` nodes. No process attaches to it, so that only the nodes are measured. bench-swarm
    sends no heartbeats while it measures. On a busy machine this takes longer than the usual timeout."""
    return ["--log-level", "error", "--nnodes", str(size), "--node-rank", "0", "--cluster-chief", "127.0.0.1",
            "--cluster-port", str(port), "--cluster-heartbeat-timeout", "1h", "--procs-per-node", "0", "--run-dir", run_dir,
            *more, "--", "sleep", "1000"]


@contextlib.contextmanager
def running(command, end=signal.SIGKILL, **more):
    """Ends the process with the signal. The processes of a killed pchrun die with it (PR_SET_PDEATHSIG)."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, **more) as process:
        try:
            yield process
        finally:
            process.send_signal(end)
