#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench: what pchrun costs, beside its peers.

Every figure that is a time is a ratio: in one run the two sides are measured in turn, in random order,
and what is shown is the median of the ratios of the pairs, with the quartiles in brackets. So the
figures of a busy machine mean something, too. Nothing here is a test: it measures, and never fails for
being slow.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS = ["tini", "dumb-init", "catatonit"]
BUILD = ["gcc", "libc6-dev", "meson", "ninja-build", "pkg-config", "libevent-dev", "libjansson-dev"]


class Unmeasured(Exception):
    """A figure cannot be had here; the text says why."""


@dataclass
class Figure:
    """A line of the table."""
    name: str
    ours: str
    peer: str = ""
    ratio: str = ""
    target: str = ""


class Bench:
    """Where what is measured lies, and how often."""

    def __init__(self, build, rounds):
        self.build, self.rounds = build, rounds
        self.pchrun = str(build / "src/pchrun")

    def helper(self, name):
        return str(self.build / "tests/bench" / f"bench-{name}")

    def lines(self, command, **more):
        """The numbers that a measuring program prints, line by line."""
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, check=False, **more)
        if done.returncode != 0:
            raise Unmeasured(f"{command[0]} has ended with {done.returncode}")
        return [[int(number) for number in line.split()] for line in done.stdout.splitlines()]


# --- showing numbers ---


def duration(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.2f} ns"


def spread(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} [{low:.2f}–{high:.2f}]"


def paired(name, pairs, peer, target, per=1):
    """From pairs of times, ours and the peer's; each is of `per` operations."""
    ours, theirs = (statistics.median(side) / per for side in zip(*pairs))
    return Figure(name, duration(ours), f"{peer} {duration(theirs)}", spread([a / b for a, b in pairs]), target)


# --- the figures ---


def launch(bench, what, command, wrappers):
    """Each wrapper's times around the command, round by round."""
    arguments = []
    for wrapper in wrappers:
        arguments += [",", *wrapper, *command]
    rounds = bench.lines([bench.helper("launch"), what, str(bench.rounds), *arguments])
    return list(zip(*rounds))


def launch_figures(bench, what, command, peers, name, target):
    """pchrun beside each peer, its sockets where it puts them by default and in memory."""
    with tempfile.TemporaryDirectory(prefix="bench.", dir="/dev/shm") as memory:
        wrappers = [[bench.pchrun, "--"], [bench.pchrun, "--run-dir", memory, "--"], *peers.values()]
        ours, in_memory, *theirs = launch(bench, what, command, wrappers)
    for (peer, times), wanted in zip(zip(peers, theirs), [target] + [""] * len(peers)):
        yield paired(name, list(zip(ours, times)), peer, wanted)
    yield paired(f"{name}, `run_dir` in memory", list(zip(in_memory, theirs[0])), "tini", target)


def reapers():
    return {"tini": ["tini", "-s", "--"], "dumb-init": ["dumb-init"], "catatonit": ["catatonit"]}


def start(bench):
    """start → main() of the command, one node"""
    yield from launch_figures(bench, "main", [bench.helper("stamp")], reapers(), "start → `main()`", "≤ 1.05")


def run(bench):
    """the whole run around /bin/true, one node"""
    peers = {**reapers(), "timeout": ["timeout", "60"]}
    yield from launch_figures(bench, "run", ["/bin/true"], peers, "run of `/bin/true`", "≤ 1.05")


def libs(bench):
    """the libraries that pchrun is linked with"""
    done = subprocess.run(["ldd", bench.pchrun], text=True, capture_output=True, check=True)
    loaded = sorted(re.findall(r"^\s*(\S+)\.so\S* => ", done.stdout, re.MULTILINE))
    yield Figure("libraries loaded", ", ".join(loaded), target="no libssl, no libcurl")


def step(bench):
    """pch_step() beside a bare store and load"""
    calls = 2_000_000
    rounds = bench.lines([bench.pchrun, "--", bench.helper("step"), str(max(20, bench.rounds // 10))])
    yield paired("`pch_step`", rounds, "store, load", "≤ 1.3", per=calls)


FIGURES = {figure.__name__: figure for figure in (start, run, libs, step)}


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
    """A release build: optimised as distributions do it, no sanitizers, no tests."""
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
    parser.add_argument("figures", nargs="*", metavar="FIGURE", choices=[*FIGURES, []], help="what to measure")
    parser.add_argument("--build", type=Path, metavar="DIR",
                        help="measure this build (ninja -C DIR bench), instead of making one for release")
    parser.add_argument("--rounds", type=int, default=400, metavar="N",
                        help="pairs of the figures that take milliseconds; the others scale (default 400)")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown, as in NEWS.md")
    parser.add_argument("--no-install", action="store_true", help="install nothing")
    return parser.parse_args()


def main():
    args = arguments()
    # The distribution's tools before others.
    os.environ["PATH"] = "/usr/bin:/bin:/usr/sbin:/sbin:" + os.environ.get("PATH", "")
    if not args.no_install and shutil.which("dpkg-query"):
        install(PEERS + ([] if args.build else BUILD))
    with tempfile.TemporaryDirectory(prefix="pchrun-bench.") as folder:
        if not args.build:
            make(folder)
        bench = Bench((args.build or Path(folder)).resolve(), args.rounds)
        show(measure(bench, args.figures or FIGURES), args.markdown)


if __name__ == "__main__":
    main()
