# SPDX-License-Identifier: Apache-2.0
"""failures: measures how soon all nodes learn of a failure, and how soon the lost processes run again.

The commands of these jobs are bench-rank. It writes to a FIFO when its main() begins and when it gets SIGTERM.
Nothing here polls: the reader waits for each line, and the line has the time at which it was written.
"""

import contextlib
import os
import random
import select
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass

from measure import (PATIENCE, Figure, Unmeasured, chief_options, free_port, paired, running, spread_of,
                     torchrun_of)

NODES = 8


# --- jobs of several nodes ---


@dataclass
class Word:
    """A line of a command."""
    what: str
    node: int
    pid: int
    at: int


class Ranks:
    """The lines of all commands of a job, in the order in which they come."""

    def __init__(self, folder):
        self.path = f"{folder}/ranks"
        os.mkfifo(self.path)
        self.fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)  # also for writing, so that the reader never sees an end
        self.text = ""

    def close(self):
        os.close(self.fd)

    def next(self, patience=PATIENCE):
        while "\n" not in self.text:
            if not select.select([self.fd], [], [], patience)[0]:
                raise Unmeasured(f"the commands have written nothing for {patience} s")
            self.text += os.read(self.fd, 65536).decode("ascii")
        line, self.text = self.text.split("\n", 1)
        what, *numbers = line.split()
        return Word(what, *map(int, numbers))

    def wait_for(self, what, count, but=None):
        """Waits for this line of `count` nodes; skips other lines, and those of the node `but`."""
        found = {}
        while len(found) < count:
            word = self.next()
            if word.what == what and word.node != but:
                found[word.node] = word
        return found


def eight_nodes(bench, ranks, folder, *more):
    """The command lines of NODES supervisors on one machine."""
    port = free_port()
    common = ["--log-level", "error", "--nnodes", str(NODES), "--cluster-chief", "127.0.0.1", "--cluster-port", str(port),
              "--procs-per-node", "0", "--run-dir", folder, *more]
    return [[bench.pchrun, *common, "--node-rank", str(node), "--", bench.helper("rank"), ranks.path]
            for node in range(NODES)]


@contextlib.contextmanager
def job(bench, *more):
    """NODES running supervisors: their processes, and the lines of their commands. All commands have begun."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench."))
        ranks = stack.enter_context(contextlib.closing(Ranks(folder)))
        nodes = [stack.enter_context(running(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
                 for command in eight_nodes(bench, ranks, folder, *more)]
        yield nodes, ranks, ranks.wait_for("up", NODES)


def from_to(number, send, ranks, node):
    """Nanoseconds from the signal until the last of the other nodes begins to stop its command. The signal comes at a
    random instant after the nodes' messages of the start."""
    time.sleep(random.uniform(0.2, 0.5))
    begin = time.monotonic_ns()
    os.kill(number, send)
    return max(word.at for word in ranks.wait_for("term", NODES - 1, but=node).values()) - begin


# --- the figures ---


def death_of_eight(bench):
    with job(bench) as (_, ranks, commands):
        node = random.randrange(NODES)
        return from_to(commands[node].pid, signal.SIGKILL, ranks, node)


def swarm_pair(bench, size):
    """pchrun as node 0, with a command that is killed, and a bare exchange that gets a message of a death."""
    took = {}
    for side in random.sample(["ours", "bare"], 2):
        port = free_port()
        with tempfile.TemporaryDirectory(prefix="bench.") as folder:
            with contextlib.closing(Ranks(folder)) as ranks:
                options = chief_options(size, port, folder)
                options[options.index("--") + 1:] = [bench.helper("rank"), ranks.path]
                server = [bench.pchrun, *options]
                if side == "bare":
                    server = [bench.helper("exchange"), str(port), str(size - 1)]
                with running(server, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
                    how = f"kill:{ranks.path}" if side == "ours" else "fail"
                    took[side] = bench.lines([bench.helper("swarm"), how, str(port), *options])[0][1]
    return took["ours"], took["bare"]


def death(bench):
    """death of a process → the last of the other nodes begins to stop its own"""
    times = [death_of_eight(bench) for _ in range(max(20, bench.rounds // 10))]
    yield Figure(f"process dead → all {NODES} nodes stop", *spread_of(times), "≤ 5 ms")
    for size, rounds, target in ((1024, 20, "≤ 50 ms"), (10000, 7, "≤ 500 ms")):
        pairs = [swarm_pair(bench, size) for _ in range(rounds)]
        yield paired(f"process dead → {size} nodes told", pairs, "bare epoll", target)


def killed(bench):
    """SIGKILL of a supervisor → the last of the other nodes begins to stop its processes"""
    for name, of in (("a node's pchrun", range(1, NODES)), ("node 0's pchrun", [0])):
        times = []
        for _ in range(max(20, bench.rounds // 20)):
            with job(bench) as (nodes, ranks, _):
                node = random.choice(of)
                times.append(from_to(nodes[node].pid, signal.SIGKILL, ranks, node))
        yield Figure(f"{name} killed → all nodes stop", *spread_of(times), "≤ 5 ms")


def silent(bench):
    """SIGSTOP of a supervisor → the last of the other nodes begins to stop its processes, with a timeout of 1 s"""
    timing = ["--cluster-heartbeat-interval", "250ms", "--cluster-heartbeat-timeout", "1s"]
    for name, of in (("a node's pchrun", range(1, NODES)), ("node 0's pchrun", [0])):
        times = []
        for _ in range(max(8, bench.rounds // 40)):
            with job(bench, *timing) as (nodes, ranks, _):
                node = random.choice(of)
                times.append(from_to(nodes[node].pid, signal.SIGSTOP, ranks, node))
        yield Figure(f"{name} silent → all nodes stop", *spread_of(times), "≤ 1.2 s")


# --- another generation, beside torchrun ---


def change(ranks, commands):
    """Kills one command: nanoseconds until the last command of the next generation has reached main()."""
    begin = time.monotonic_ns()
    os.kill(random.choice(list(commands.values())).pid, signal.SIGKILL)
    after = ranks.wait_for("up", NODES)
    return max(word.at for word in after.values()) - begin, after


@contextlib.contextmanager
def torchrun_job(bench, restarts):
    """As job(), with torchrun's agents."""
    torchrun, port = torchrun_of(bench), free_port()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench."))
        ranks = stack.enter_context(contextlib.closing(Ranks(folder)))
        for node in range(NODES):
            command = [torchrun, "--nnodes", str(NODES), "--node-rank", str(node), "--nproc-per-node", "1", "--max-restarts",
                       str(restarts), "--rdzv-backend", "c10d", "--rdzv-id", "bench", "--rdzv-endpoint",
                       f"127.0.0.1:{port}", "--no-python", bench.helper("rank"), ranks.path]
            stack.enter_context(running(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        yield ranks, ranks.wait_for("up", NODES)


def generation(bench):
    """a process dies → all processes of the next generation have reached main(), beside torchrun --max-restarts"""
    changes = max(20, bench.rounds // 20)
    options = ["--restart-max", str(changes), "--restart-window", "0", "--restart-start-max", str(changes),
               "--restart-backoff", "0", "--restart-no-progress-after", "0"]
    pairs = []
    with torchrun_job(bench, changes) as (their_ranks, theirs), job(bench, *options) as (_, our_ranks, ours):
        for _ in range(changes):
            took, ours = change(our_ranks, ours)
            their_time, theirs = change(their_ranks, theirs)
            pairs.append((took, their_time))
    yield paired(f"another generation, {NODES} nodes", pairs, "torchrun", "≤ 300 ms")


FIGURES = (death, killed, silent, generation)
