#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench: measures what pchrun costs, beside its peers.

Every time is shown as a ratio. One run measures both sides in turn, in random order. It shows the median of
the pairs' ratios, with the quartiles in brackets. So the figures of a busy machine mean something, too.
Nothing here is a test: a slow figure is no failure.
"""

import argparse
import contextlib
import json
import os
import random
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ddp
import dying
import failures
import frameworks
import grace
import painted
import replaced
import several
import wasted
import watched
from measure import (JOB, Bench, Figure, Unmeasured, chief_options, free_port, key_options, paired, running, spread_of,
                     told_options)

ROOT = Path(__file__).resolve().parents[2]
PEERS = ["tini", "dumb-init", "catatonit", "openmpi-bin"]
BUILD = ["gcc", "libc6-dev", "meson", "ninja-build", "pkg-config", "libevent-dev", "libjansson-dev",
         "libncurses-dev", "libssl-dev", "python3-dev"]


# --- the figures ---


def launch(bench, what, command, wrappers):
    """The time of the command in each wrapper, round by round."""
    arguments = []
    for wrapper in wrappers:
        arguments += [",", *wrapper, *command]
    rounds = bench.lines([bench.helper("launch"), what, str(max(20, bench.rounds)), *arguments])
    return list(zip(*rounds))


def launch_figures(bench, what, command, peers, name, target):
    """pchrun beside each peer: as it is by default, with its sockets in memory, and without its control group."""
    with tempfile.TemporaryDirectory(prefix="bench.", dir="/dev/shm") as memory:
        ours_in_memory = [bench.pchrun, "--run-dir", memory]
        wrappers = [[bench.pchrun, "--"], [*ours_in_memory, "--"], [*ours_in_memory, "--stop-cgroup", "off", "--"],
                    *peers.values()]
        ours, in_memory, without_group, *theirs = launch(bench, what, command, wrappers)
    for (peer, times), wanted in zip(zip(peers, theirs), [target] + [""] * len(peers)):
        yield paired(name, list(zip(ours, times)), peer, wanted)
    yield paired(f"{name}, `run_dir` in memory", list(zip(in_memory, theirs[0])), "tini", target)
    yield paired(f"{name}, and no control group", list(zip(without_group, theirs[0])), "tini", target)


def reapers():
    return {"tini": ["tini", "-s", "--"], "dumb-init": ["dumb-init"], "catatonit": ["catatonit"]}


def start(bench):
    """start → main() of the command, one node"""
    yield from launch_figures(bench, "main", [bench.helper("stamp")], reapers(), "start → `main()`", "≤ 1.4")


def run(bench):
    """the whole run around /bin/true, one node"""
    peers = {**reapers(), "timeout": ["timeout", "60"]}
    yield from launch_figures(bench, "run", ["/bin/true"], peers, "run of `/bin/true`", "")


def libs(bench):
    """the libraries that pchrun is linked with"""
    done = subprocess.run(["ldd", bench.pchrun], text=True, capture_output=True, check=True)
    loaded = sorted(re.findall(r"^\s*(\S+)\.so\S* => ", done.stdout, re.MULTILINE))
    yield Figure("libraries loaded", ", ".join(loaded) or "none", target="no libssl, no libcurl")


def step(bench):
    """pch_step() beside a bare store and load"""
    calls = 2_000_000
    rounds = bench.lines([bench.pchrun, "--", bench.helper("step"), str(max(20, bench.rounds // 10))])
    yield paired("`pch_step`", [line[:2] for line in rounds], "store, load", "≤ 1.3", per=calls)
    for what, at in (("a wait marked in each step", 2), ("a wait for data marked in each step", 3)):
        marked = statistics.median(line[at] - line[0] for line in rounds) / calls
        yield Figure(what, f"{marked:.0f} ns", target="< 1000 ns more a step")


def logs(bench):
    """what a command prints, kept in a file and passed on"""
    size = 1 << 26
    with tempfile.TemporaryDirectory(prefix="bench.", dir="/dev/shm") as memory:
        keep = f"'{bench.pchrun}' --logs-dir '{memory}' --logs-max-size {size}B --logs-keep 0 --"
        sides = [f'exec {keep} "$@" >/dev/null', f'"$@" | tee \'{memory}/tee\' >/dev/null']
        arguments = []
        for side in sides:
            arguments += [",", "sh", "-c", side, "sh", "head", "-c", str(size), "/dev/zero"]
        rounds = bench.lines([bench.helper("launch"), "run", str(max(20, bench.rounds // 10)), *arguments])
    yield paired("64 MiB printed, kept in memory", rounds, "tee", "")


# --- several nodes ---


def swarm_round(bench, size, sides):
    """The times of each side, nanoseconds for the join and for the agreement, and the number of its orders."""
    took = {}
    for side in random.sample(sides, len(sides)):
        port = free_port()
        with tempfile.TemporaryDirectory(prefix="bench.") as folder:
            keyed = key_options(bench, folder) if side.endswith("TLS") else []
            told = told_options(folder) if side == "line" else []
            options = chief_options(size, port, folder, *keyed, *told)
            server = [bench.pchrun, *options]
            if side.startswith("bare"):
                server = [bench.helper("exchange"), str(port), str(size - 1)]
                server += [f"{folder}/key", JOB] if keyed else []
            with running(server, stdout=subprocess.DEVNULL):
                how = f"tell:{folder}/fifo" if told else "agree"
                took[side] = bench.lines([bench.helper("swarm"), how, str(port), *options])[0]
    return took


def swarm_rounds(bench, size):
    """Measures all sides in each round. The results serve all figures of this size."""
    if size not in bench.kept:
        sides = ["plain", "TLS", "bare", "bare TLS"]
        rounds = max(20, bench.rounds // (4 if size < 1000 else 20))
        bench.kept[size] = [swarm_round(bench, size, sides) for _ in range(rounds)]
    return bench.kept[size]


def swarm_pairs(bench, size, ours, theirs, column):
    rounds = swarm_rounds(bench, size)
    if len({took[2] for sides in rounds for took in sides.values()}) > 1:
        raise Unmeasured("pchrun and the exchange have sent different numbers of orders")
    return [(sides[ours][column], sides[theirs][column]) for sides in rounds]


def agreement(bench):
    """a notice at one node → every node knows the decision, beside a bare exchange, plain and with TLS"""
    for ours, theirs, peer, target in (("plain", "bare", "bare epoll", "≤ 1.2"),
                                       ("TLS", "bare", "bare epoll", "≤ 1.6"),
                                       ("TLS", "bare TLS", "bare TLS", "")):
        for size in (8, 64, 1024):
            name = f"agreement, {size} nodes" + (", TLS" if ours == "TLS" else "")
            yield paired(name, swarm_pairs(bench, size, ours, theirs, 1), peer, target)
    for size in (8, 64, 1024):  # the cost of TLS alone, which pchrun cannot avoid
        yield paired(f"bare exchange, {size} nodes, TLS", swarm_pairs(bench, size, "bare TLS", "bare", 1),
                     "bare epoll", "")


def line(bench):
    """a notice source's line → every node knows the decision, beside an agreement alone"""
    for size in (8, 64):
        rounds = [swarm_round(bench, size, ["line", "plain"]) for _ in range(max(20, bench.rounds // 4))]
        pairs = [(sides["line"][1], sides["plain"][1]) for sides in rounds]
        yield paired(f"source's line → decision, {size} nodes", pairs, "agreement", "≤ 2")


def join(bench):
    """the join of 1,023 nodes to node 0, beside a bare accept loop, and beside one of TLS handshakes"""
    yield paired("join, 1024 nodes", swarm_pairs(bench, 1024, "plain", "bare", 0), "bare accept", "≤ 1.5")
    yield paired("join, 1024 nodes, TLS", swarm_pairs(bench, 1024, "TLS", "bare TLS", 0), "bare TLS", "≤ 1.5")


# --- at rest ---


def status_of(process, field):
    text = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return int(re.search(rf"^{field}:\s+(\d+)", text, re.MULTILINE).group(1))


@contextlib.contextmanager
def at_rest(bench, has_key):
    """A pchrun on one node, both nodes of a job of two, and node 0 of a job of 1,024."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench."))

        def begin(*command, **more):
            return stack.enter_context(running(command, cwd=folder, **more))

        port, crowd_port = free_port(), free_port()
        keyed = key_options(bench, folder) if has_key else []
        pair = ["--log-level", "error", "--nnodes", "2", "--cluster-chief", "127.0.0.1", "--cluster-port", str(port),
                "--run-dir", folder, *keyed]
        options = chief_options(1024, crowd_port, folder, *keyed)
        processes = {
            "single": begin(bench.pchrun, "--run-dir", folder, "--", "sleep", "1000"),
            "chief of 2": begin(bench.pchrun, *pair, "--node-rank", "0", "--", "sleep", "1000"),
            "member": begin(bench.pchrun, *pair, "--node-rank", "1", "--", "sleep", "1000"),
            "chief of 1024": begin(bench.pchrun, *options),
            "tini": begin("tini", "-s", "--", "sleep", "1000", end=signal.SIGTERM),
        }
        swarm = begin(bench.helper("swarm"), "idle", str(crowd_port), *options, stdout=subprocess.PIPE)
        if not swarm.stdout.readline():
            raise Unmeasured("the nodes have not come together")
        time.sleep(2)
        yield processes


def at_rest_once(bench, has_key=False):
    """For each: resident kB, those of them that belong to no file, and wake-ups per second."""
    kept = "rest with TLS" if has_key else "rest"
    if kept not in bench.kept:
        window = 20
        with at_rest(bench, has_key) as processes:
            before = {name: status_of(process, "voluntary_ctxt_switches") for name, process in processes.items()}
            time.sleep(window)
            bench.kept[kept] = {
                name: (status_of(process, "VmRSS"), status_of(process, "RssAnon"),
                       (status_of(process, "voluntary_ctxt_switches") - before[name]) / window)
                for name, process in processes.items()}
    return bench.kept[kept]


def memory(bench):
    """resident memory of an idle pchrun, with the pages of libraries that it shares with other programs"""
    for name, has_key, target in (("single", False, "≤ 3 MB"), ("member", False, ""),
                                  ("member", True, "≤ 6.5 MB"), ("chief of 1024", False, ""),
                                  ("chief of 1024", True, "≤ 28 MB")):
        rest = at_rest_once(bench, has_key)
        resident, anonymous = (size / 1000 for size in rest[name][:2])
        yield Figure(f"resident, idle: {name}" + (", TLS" if has_key else ""),
                     f"{resident:.2f} MB", f"tini {rest['tini'][0] / 1000:.2f} MB" if name == "single" else "",
                     f"{anonymous:.2f} its own", target)


def wakeups(bench):
    """wake-ups per second of an idle pchrun"""
    rest = at_rest_once(bench)
    per_beat = "≤ 2 + 1 a heartbeat"
    for name, heard, target in (("single", 0, "0"), ("member", 0, "≤ 3"), ("chief of 2", 1, per_beat),
                                ("chief of 1024", 1023, per_beat)):
        yield Figure(f"wake-ups per second, idle: {name}", f"{rest[name][2]:.1f}",
                     f"tini {rest['tini'][2]:.1f}" if name == "single" else f"{heard} heard" if heard else "",
                     target=target)


# --- a preemption ---


def begin_training(bench, folder):
    """The quickstart's job on four nodes."""
    nodes = [f"127.0.0.{1 + node}" for node in range(4)]
    port, charlm_port = free_port(), free_port()
    env = {**os.environ, "LD_PRELOAD": bench.helper("pace") + ".so", "PACE": f"{folder}/pace"}
    jobs = []
    for node in range(4):
        command = [bench.pchrun, "--log-level", "error", "--cluster-nodes", ",".join(nodes),
                   "--cluster-port", str(port), "--node-rank", str(node), "--checkpoint-dir", f"{folder}/run", "--",
                   str(bench.build / "contrib/examples/charlm"), "--dir", f"{folder}/run",
                   "--port", str(charlm_port), "--steps", "100000", "--step-time", "10", "--log-every", "10"]
        with open(f"{folder}/{node}.out", "w", encoding="utf-8") as output:
            jobs.append(subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=output,
                                         stderr=subprocess.DEVNULL))
    return jobs


def wait_for_step(path, step, patience=60):
    for _ in range(patience * 20):
        if f"step {step} " in path.read_text(encoding="utf-8"):
            return
        time.sleep(0.05)
    raise Unmeasured(f"the training has not reached step {step}")


def preempt(bench, folder):
    """Preempts the job at one node: (ns held, steps lost) of each rank."""
    jobs = begin_training(bench, folder)
    try:
        wait_for_step(Path(folder, "0.out"), 50)
        time.sleep(random.uniform(0, 0.1))
        random.choice(jobs).terminate()
        codes = [job.wait(60) for job in jobs]
    finally:
        for job in jobs:
            job.kill()
            job.wait()
    reports = [json.loads(path.read_text()) for path in Path(folder, "run/.pchrun").glob("report.*.json")]
    paces = [list(map(int, path.read_text().split())) for path in Path(folder).glob("pace.*")]
    if codes != [42] * 4 or len(reports) != 4 or len(paces) != 4:
        raise Unmeasured(f"the job was not preempted as expected: exit codes {codes}")
    beyond = max(report["steps"]["lost"] for report in reports)
    return [(waited, waited / step_time + after + beyond) for waited, step_time, after in paces]


def preemptions(bench):
    """The preemption is run once for both figures."""
    if "preempt" not in bench.kept:
        ranks = []
        for _ in range(max(20, bench.rounds // 20)):
            with tempfile.TemporaryDirectory(prefix="bench.") as folder:
                ranks += preempt(bench, folder)
        bench.kept["preempt"] = ranks
    return bench.kept["preempt"]


def held(bench):
    """how long an agreement holds a rank, with steps of 10 ms"""
    yield Figure("rank held by an agreement", *spread_of([rank[0] for rank in preemptions(bench)]), "≤ 1 ms")


def lost(bench):
    """training lost by a preemption of the quickstart's job, beyond the save itself"""
    steps = [rank[1] for rank in preemptions(bench)]
    yield Figure("training lost beyond the save", f"{statistics.median(steps):.2f} steps", "",
                 f"most {max(steps):.2f}", "≤ 2 steps on every rank")


FIGURES = {figure.__name__: figure for figure in
           (start, run, libs, memory, wakeups, step, logs, agreement, line, join, held, lost, *failures.FIGURES,
            *several.FIGURES, *grace.FIGURES, *dying.FIGURES, *frameworks.FIGURES, *ddp.FIGURES, *wasted.FIGURES,
            *watched.FIGURES, *painted.FIGURES, *replaced.FIGURES)}


# --- the table ---


def show(figures, markdown):
    head = Figure("figure", "pchrun", "beside", "ratio", "target")
    rows = [[f.name, f.ours, f.peer, f.ratio, f.target] for f in [head, *figures]]
    if not markdown:
        rows = [[cell.replace("`", "") for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths)]
        print("| " + " | ".join(cells) + " |" if markdown else "  ".join(cells).rstrip())
        if number == 0 and markdown:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def measure(bench, names):
    figures = []
    for name in names:
        print(f"bench: {name}: {FIGURES[name].__doc__}", file=sys.stderr)
        try:
            figures += FIGURES[name](bench)
        except Unmeasured as why:
            figures.append(Figure(name, f"not measured: {why}"))
    return figures


# --- what it needs ---


def is_installed(package):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", package], text=True,
                          capture_output=True, check=False)
    return done.stdout == "installed"


def install(packages):
    missing = [package for package in packages if not is_installed(package)]
    if not missing:
        return
    if os.geteuid() != 0:
        sys.exit(f"bench: not root; first run: apt-get install {' '.join(missing)}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
        subprocess.run(["apt-get", "-q", *command], env=env, stdout=sys.stderr, check=True)


def make(folder):
    """A release build: optimised as in distributions, without sanitizers and tests."""
    for command in (["meson", "setup", folder, str(ROOT), "-Doptimization=2", "-Ddebug=false", "-Dtests=disabled"],
                    ["ninja", "-C", folder, "bench"]):
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            sys.exit(f"{done.stdout[-4000:]}\nbench: the build has failed: {' '.join(command)}")


def arguments():
    names = "\n".join(f"  {name:11} {figure.__doc__}" for name, figure in FIGURES.items())
    parser = argparse.ArgumentParser(
        formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__,
        epilog=f"figures (all, if none is named):\n{names}\n\n"
               f"It needs these Debian packages, and installs those that are missing (this needs root):\n"
               f"  {' '.join(BUILD + PEERS)}")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="what to measure")
    parser.add_argument("--build", type=Path, metavar="DIR",
                        help="measure this build (ninja -C DIR bench) instead of making a release build")
    parser.add_argument("--peers", type=Path, metavar="DIR",
                        default=Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pchrun-bench",
                        help="folder of the peers from pip (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=400, metavar="N",
                        help="pairs of a figure of milliseconds; slower ones take fewer, at least 20 (default 400)")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown, as in RESULTS.md")
    parser.add_argument("--no-install", action="store_true", help="install nothing")
    args = parser.parse_args()
    unknown = [name for name in args.figures if name not in FIGURES]
    if unknown:
        parser.error(f"there is no figure '{unknown[0]}'; there are {', '.join(FIGURES)}")
    if args.rounds < 1:
        parser.error("--rounds: at least 1")
    return args


def main():
    args = arguments()
    # The distribution's tools before others.
    os.environ["PCHRUN_SAVE_TRAIN_ON"] = "false"  # one agreement in each job, then the next job
    os.environ["PATH"] = "/usr/bin:/bin:/usr/sbin:/sbin:" + os.environ.get("PATH", "")
    if not args.no_install and shutil.which("dpkg-query"):
        install(PEERS + ([] if args.build else BUILD))
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files[1], files[1]))  # for node 0 of 10,000
    with tempfile.TemporaryDirectory(prefix="pchrun-bench.") as folder:
        if not args.build:
            make(folder)
        bench = Bench((args.build or Path(folder)).resolve(), args.rounds, Path(folder, "installed"))
        bench.peers = args.peers.resolve()
        show(measure(bench, args.figures or FIGURES), args.markdown)


if __name__ == "__main__":
    main()
