# SPDX-License-Identifier: Apache-2.0
"""dying: measures how soon pchrun acts on the death of an attached process, beside the kernel's report of it.

The kernel reports it when the memory is freed: then a pidfd is readable. The command is bench-large.
"""

import contextlib
import os
import random
import select
import signal
import subprocess
import tempfile
import time

from failures import Ranks
from measure import PATIENCE, Unmeasured, duration, paired, running

SIZES = (1, 256, 2048)  # MiB
ROUNDS = {1: 40, 256: 20, 2048: 9}


def available():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable")) // 1024


def readable_at(fd):
    if not select.select([fd], [], [], PATIENCE)[0]:
        raise Unmeasured(f"a process that was killed has not ended within {PATIENCE} s")
    return time.monotonic_ns()


def one_death(bench, size):
    """From SIGKILL of rank 0 until rank 1 gets SIGTERM, and until the pidfd is readable."""
    with tempfile.TemporaryDirectory(prefix="bench.") as folder, contextlib.closing(Ranks(folder)) as ranks:
        command = [bench.pchrun, "--log-level", "error", "--run-dir", folder, "--stop-exit-wait", "0s", "-n", "2", "--",
                   bench.helper("large"), ranks.path, str(size)]
        with running(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            victim = ranks.wait_for("up", 2)[0].pid
            pidfd = os.pidfd_open(victim)
            try:
                time.sleep(random.uniform(0.01, 0.02))  # until all processes are at rest
                begin = time.monotonic_ns()
                os.kill(victim, signal.SIGKILL)
                told = readable_at(pidfd)
                return ranks.wait_for("term", 1)[1].at - begin, told - begin
            finally:
                os.close(pidfd)


def dying(bench):
    """death of an attached process of 2 GiB → the ladder of the other rank has begun"""
    for size in SIZES:
        if available() < 3 * size:
            raise Unmeasured(f"there is no room for a process of {size} MiB")
        pairs = [one_death(bench, size) for _ in range(ROUNDS[size])]
        yield paired(f"process of {size} MiB dead → the other rank stops", pairs, "pidfd", f"≤ {duration(500e3)}")


FIGURES = (dying,)
