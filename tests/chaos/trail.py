# SPDX-License-Identifier: Apache-2.0
"""trail: when each rank has trained, as the ranks themselves wrote it down (tests/helpers/shim_trail.c)."""

import collections
from dataclasses import dataclass

# A machine that wakes runs its old ranks until its pchrun kills them.
WAKING_NS = 2 * 10**9


@dataclass
class Process:
    """One process of a rank. first and last: when it opened the job, and its last step, in nanoseconds."""
    rank: int
    generation: int
    pid: int
    resumed: int
    first: int
    last: int

    def __str__(self):
        return (f"pid {self.pid} (generation {self.generation}) from {self.first / 1e9:.3f} s "
                f"to {self.last / 1e9:.3f} s")


def read(path):
    """The processes in the order of their beginnings."""
    processes = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        rank, generation, pid, at, word, step = line.split()
        key = rank, generation, pid
        if word == "open":
            processes[key] = Process(int(rank), int(generation), int(pid), int(step), int(at), int(at))
        else:
            processes[key].last = max(processes[key].last, int(at))
    return sorted(processes.values(), key=lambda process: process.first)


def overlaps(processes, woken):
    """Yields each pair of processes of one rank that trained at once. woken: by pid, when the process last woke with
    its machine, in nanoseconds."""
    latest = {}
    for process in processes:
        before = latest.get(process.rank)
        if before and before.last >= process.first and not (
                before.pid in woken and before.last <= woken[before.pid] + WAKING_NS):
            yield before, process
        if not before or process.last > before.last:
            latest[process.rank] = process


def resumed(processes):
    """By generation: the steps at which its ranks resumed."""
    steps = collections.defaultdict(set)
    for process in processes:
        steps[process.generation].add(process.resumed)
    return dict(sorted(steps.items()))
