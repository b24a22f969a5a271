# SPDX-License-Identifier: Apache-2.0
"""several: measures what several processes on one node cost, beside other launchers."""

import os
import signal
import statistics
import subprocess
import time

from measure import PATIENCE, Figure, Unmeasured, paired, running, torchrun_of

COUNT = 8


def launchers(bench):
    mpirun = ["mpirun", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--oversubscribe", "-n", str(COUNT)]
    return {"ours": [bench.pchrun, "-n", str(COUNT), "--"], "mpirun": mpirun,
            "torchrun": [torchrun_of(bench), "--nproc-per-node", str(COUNT), "--no-python"]}


def several(bench):
    """the whole run around eight times true, and the launcher's memory meanwhile, beside torchrun and mpirun"""
    found = launchers(bench)
    for peer, rounds, target in (("mpirun", max(20, bench.rounds // 10), "≤ 0.2"), ("torchrun", 5, "≤ 0.01")):
        sides = [",", *found["ours"], "true", ",", *found[peer], "true"]
        pairs = bench.lines([bench.helper("launch"), "run", str(rounds), *sides], stderr=subprocess.DEVNULL)
        yield paired(f"run of {COUNT} × `true`", pairs, peer, target)
    ours, theirs = (resident(found[side]) for side in ("ours", "torchrun"))
    yield Figure(f"resident, {COUNT} processes", f"{ours / 1000:.2f} MB", f"torchrun {theirs / 1000:.0f} MB",
                 f"{ours / theirs:.4f}", "≤ 0.02")


def resident(launcher):
    """kB of the launcher alone, when all its processes run."""
    with running([*launcher, "sleep", "1000"], signal.SIGTERM, stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + PATIENCE
        while len(sleepers(process.pid)) < COUNT:
            if process.poll() is not None or time.monotonic() > end:
                raise Unmeasured(f"{launcher[0]} has not started {COUNT} processes")
            time.sleep(0.05)
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            return statistics.fmean(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def sleepers(pid):
    """The children that have begun their command."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        names = [name_of(child) for child in children.read().split()]
    return [name for name in names if name == "sleep"]


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as comm:
            return comm.read().strip()
    except OSError:
        return None


FIGURES = (several,)
