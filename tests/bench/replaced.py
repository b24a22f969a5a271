# SPDX-License-Identifier: Apache-2.0
"""replaced: measures how soon a job goes on when another machine takes the place of a lost node.

The jobs of four nodes train with replaced_program.py, beside torchrun's agents with `--max-restarts`. The replacement
starts as soon as the lost supervisor has ended. Of jobs with many nodes node 0 is real, and bench-swarm plays the rest.
"""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from failures import Ranks
from frameworks import HERE
from measure import (JOB, Figure, Unmeasured, chief_options, duration, free_port, paired, running, spread_of,
                     torch_python, torchrun_of)

NODES = 4
LOST = NODES - 1
PROGRAM = HERE / "replaced_program.py"
# Otherwise the ranks meet below a name with the number of their agent's restarts, which a new agent does not share.
VARIABLES = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


@dataclass
class Loss:
    """Nanoseconds from the end of the lost supervisor."""
    until: dict  # until the last rank of the next generation has written this line
    fence: int  # the wait for the fence, once the place was taken


def of_pchrun(bench, folder, port, node, *more):
    """The wait for a replacement is as long as needed. The rest is as it is by default."""
    return [bench.pchrun, "--log-level", "error", "--nnodes", str(NODES), "--node-rank", str(node), "--cluster-chief",
            "127.0.0.1", "--cluster-port", str(port), "--run-dir", folder, "--checkpoint-dir", f"{folder}/run",
            "--cluster-replace-wait", "10m", "-n", "1", *(more or ["--", torch_python(bench), PROGRAM])]


def of_pchrun_alone(bench, folder, port, node):
    """Its program does nothing. The fence is shorter, but no other node is lost on a busy machine."""
    return of_pchrun(bench, folder, port, node, "--cluster-heartbeat-timeout", "8s", "--stop-kill-wait", "1s", "--",
                     bench.helper("rank"))


def of_torchrun(bench, _, port, node):
    """Node 0 has the store: otherwise any agent of this machine may have it."""
    return [torchrun_of(bench), "--nnodes", str(NODES), "--nproc-per-node", "1", "--max-restarts", "3",
            "--rdzv-backend", "c10d", "--rdzv-id", JOB, "--rdzv-endpoint", f"127.0.0.1:{port}",
            "--rdzv-conf", f"is_host={int(node == 0)}", PROGRAM]


def lose(bench, command, send, last="step"):
    """Loses the last node by this signal to its supervisor, and replaces it. Each rank's last line is `last`."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench."))
        ranks = stack.enter_context(contextlib.closing(Ranks(folder)))
        port = free_port()

        def start(node):
            env = {**os.environ, **VARIABLES, "NODE": str(node)}
            return stack.enter_context(running([*command(bench, folder, port, node), ranks.path], signal.SIGTERM,
                                               env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

        nodes = [start(node) for node in range(NODES)]
        rank = ranks.wait_for(last, NODES)[LOST].pid
        time.sleep(1)
        nodes[LOST].send_signal(send)
        if send == signal.SIGKILL:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rank, signal.SIGKILL)  # nothing of a lost machine goes on
        nodes[LOST].wait()
        at = time.monotonic_ns()
        start(LOST)
        found = {last: {}}
        while len(found[last]) < NODES:
            word = ranks.next()
            found.setdefault(word.what, {})[word.node] = word.at
        return Loss({what: max(times.values()) - at for what, times in found.items()},
                    fence_of(Path(folder, "run/.pchrun")))


def fence_of(state):
    """How long the next generation waited for the fence, once the place was taken."""
    events = [json.loads(line) for path in state.glob("events.0.jsonl") for line in path.read_text().splitlines()]
    return sum(max(0, event["starts_after_ms"]) * 1_000_000 for event in events
               if event["event"] == "waits_for" and not event["of_nodes"])


def replaced(bench):
    """a node is lost and replaced → the first step of all ranks, beside torchrun --max-restarts, 4 nodes"""
    for how, send in (("killed", signal.SIGKILL), ("leaves for a notice", signal.SIGTERM)):
        alone = [lose(bench, of_pchrun_alone, send, "up") for _ in range(max(10, bench.rounds // 40))]
        pairs = [(lose(bench, of_pchrun, send), lose(bench, of_torchrun, send))
                 for _ in range(max(3, bench.rounds // 100))]
        steps = [(ours.until["step"], theirs.until["step"]) for ours, theirs in pairs]
        begins = [(ours.until["begin"] - ours.fence, theirs.until["begin"]) for ours, theirs in pairs]
        fence = statistics.median(ours.fence for ours, _ in pairs)
        yield paired(f"a node of {NODES} {how} → first step", steps, "torchrun", "")
        yield Figure("of that, the fence", duration(fence) if fence else "none")
        yield paired("first step, without the fence",
                     [(ours.until["step"] - ours.fence, theirs) for (ours, _), (_, theirs) in zip(pairs, steps)],
                     "torchrun", "≤ 0.2")
        yield paired("the processes begin, without the fence", begins, "torchrun", "≤ 0.2")
        yield Figure("the same, of a program that does nothing",
                     *spread_of([one.until["up"] - one.fence for one in alone]), "< 1 s")


# --- many nodes ---


def run_of(bench, size, how):
    """Node 0 with bench-swarm, which measures `how`: its process and the lines of bench-swarm."""
    stack = contextlib.ExitStack()
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench."))
    port = free_port()
    options = chief_options(size, port, folder, "--job", JOB, "--cluster-replace-wait", "2h", "--checkpoint-dir",
                            folder)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    node_0 = stack.enter_context(running([bench.pchrun, *options], **quiet))
    swarm = stack.enter_context(running([bench.helper("swarm"), how, str(port), *options], stdout=subprocess.PIPE,
                                        text=True))
    return stack, node_0, swarm.stdout


def numbers(lines):
    line = lines.readline()
    if not line:
        raise Unmeasured("the nodes have not come together")
    return list(map(int, line.split()))


def crowd(bench):
    """one of 1,024 nodes is replaced → the order of the next generation is at all nodes, beside the join of all"""
    rounds = []
    for _ in range(max(5, bench.rounds // 40)):
        stack, _, lines = run_of(bench, 1024, "replace")
        with stack:
            rounds.append(numbers(lines))
    pairs = [(took, join) for join, took, _ in rounds]
    yield paired("a node of 1024 replaced → all told to start", pairs, "their join", "")
    orders = statistics.median(orders for *_, orders in rounds)
    yield Figure("the same, orders of node 0", f"{orders:.0f}", "", f"{orders / 1023:.2f} a node")


SECONDS = 10
TICK = 1 / os.sysconf("SC_CLK_TCK")


def processor_of(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK


def resident_of(process):
    return int(Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def star_once(bench, size):
    """The join, one round, node 0's processor for both; heartbeats answered in a second, node 0's processor for each,
    and its memory."""
    stack, node_0, lines = run_of(bench, size, "agree")
    with stack:
        join, took, _ = numbers(lines)
    stack, node_0, lines = run_of(bench, size, "idle")
    with stack:
        numbers(lines)
        joined = processor_of(node_0)
        first, at = numbers(lines)[0], time.monotonic()
        before = processor_of(node_0)
        for _ in range(SECONDS):
            last = numbers(lines)[0]
        beats = last - first
        return (join, took, joined, beats / (time.monotonic() - at), (processor_of(node_0) - before) / beats,
                resident_of(node_0))


def star(bench):
    """node 0 of 1,024, 4,096 and 16,384 nodes: the join, one round, and its work and memory while all train"""
    first = None
    for size in (1024, 4096, 16384):
        join, took, joined, rate, each, memory = star_once(bench, size)
        first = first or (join, took, joined, each, memory)
        ratios = [now / then for now, then in zip((join, took, joined, each, memory), first)]
        name = f"node 0 of {size}"
        yield Figure(f"{name}: join", duration(join), "", f"{ratios[0]:.1f}")
        yield Figure(f"{name}: its processor for the join", f"{joined:.2f} s", "", f"{ratios[2]:.1f}")
        yield Figure(f"{name}: a round", duration(took), "", f"{ratios[1]:.1f}")
        yield Figure(f"{name}: its processor for a heartbeat", duration(each * 1e9), f"{rate:.0f} a second",
                     f"{ratios[3]:.1f}")
        yield Figure(f"{name}: resident", f"{memory / 1e6:.1f} MB", "", f"{ratios[4]:.1f}")


FIGURES = (replaced, crowd, star)
