#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""chaos: whole jobs of pchrun under faults, at random instants, from a seed.

A run is a job of 2 to 4 nodes in network namespaces, with a real training. plan.py chooses the faults of
its attempts; the last attempt has none. Half of the jobs wait for the replacement of a lost node, which
scheduler.py starts. After each attempt promises.py checks records, reports and checkpoints, and that no two
processes of a rank have trained at once. In the end the weights must be those of an undisturbed training. The
files of a failed run are kept (--keep), and its seed can be run again (--trace SEED).
"""

import argparse
import collections
import concurrent.futures
import ctypes
import itertools
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "behave"))
import harness  # noqa: E402
import lab as laboratory  # noqa: E402
import plan as planning  # noqa: E402
import promises  # noqa: E402
from attempt import Attempt  # noqa: E402
from place import Place, Programs  # noqa: E402

PR_SET_PDEATHSIG = 1
lab = None  # the lab of this worker process


def make_lab(root):
    """Runs first in each worker."""
    global lab
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    harness.become_subreaper()
    harness.start_from_defaults()
    lab = laboratory.Lab(root)


def evidence(place, attempt):
    """The processes that still live, what each waits for, and the nodes' last lines."""
    lines = []
    for pid in harness.marked(place.mark):
        wait = harness.read_proc(pid, "wchan").decode(errors="replace")
        lines.append(f"{harness.describe(pid)} wchan={wait} "
                     f"syscall={harness.read_proc(pid, 'syscall').decode(errors='replace').strip()}")
    for one in attempt.supervisors:
        lines += [f"  node {one.node}, pid {one.job.pid}: {line}" for line in one.job.err_lines[-12:]]
    return lines


def disturb(place, digests, counts):
    """Runs the attempts up to the first that completes. Raises Broken or harness.Late. Counts faults and exit codes, and
    "too busy" if the machine has ended the last attempt again and again."""
    plan, attempts = place.plan, []
    last = len(plan.attempts) + planning.PEACE_MAX - 1
    records = promises.Records(place, plan)
    try:
        while len(attempts) < len(plan.attempts):
            number = len(attempts) + 1
            place.note(f"attempt {number}")
            attempts.append(Attempt(place, plan, number, [a for a in attempts if a.lingering()]))
            attempts[-1].run()
            place.note(f"the attempt has ended with {attempts[-1].codes}")
            counts.update(fault.kind for fault in attempts[-1].fired)
            counts.update(f"exit {code}" for code in attempts[-1].codes.values())
            counts["linger"] += bool(attempts[-1].lingering())
            counts["rescue"] += len(attempts[-1].rescued)
            counts["replaced"] += len(attempts[-1].found(r"is replaced by"))
            records = promises.check_attempt(place, attempts[-1], records)
            promises.check_nothing_left(place, attempts)
            if promises.is_complete(attempts[-1]):
                promises.check_learnt(plan, attempts[-1], digests[plan.world])
                return
            if number == len(plan.attempts) and attempts[-1].was_paused():
                if number == last:
                    counts["too busy"] += 1
                    return
                plan.add_peace()
        raise promises.Broken("without faults, the last attempt does not complete")
    except (promises.Broken, harness.Late) as why:
        place.note(f"BROKEN: {why}")
        for line in evidence(place, attempts[-1]):
            place.note(line)
        raise
    finally:
        for attempt in attempts:
            attempt.end()


def run(seed, digests, keep, is_traced):
    """Returns (seed, None or the broken promise, seconds, counts of faults and exit codes)."""
    begin, counts = time.monotonic(), collections.Counter()
    place = Place(lab, planning.make(seed), Programs())
    why = None
    try:
        disturb(place, digests, counts)
    except (promises.Broken, harness.Late) as broken:
        why = str(broken)
    except Exception:  # a fault of these tests, or a file of the wrong form
        why = traceback.format_exc()
    finally:
        place.heal()
        if why or is_traced:
            place.keep(keep / f"seed-{seed}")
        place.close()
    return seed, why, time.monotonic() - begin, counts


def digest_of(world):
    """The digest of charlm's weights after an undisturbed training."""
    with tempfile.TemporaryDirectory() as folder:
        return harness.undisturbed_digest(world, "--steps", planning.STEPS, "--dir", folder, "--port",
                                          29000 + os.getpid() % 3000)


def seeds_of(options, begin):
    """Yields options.runs seeds, or as many as options.long minutes allow."""
    seeds = (seed for seed in itertools.count(options.seed) if planning.make(seed).wait_s or not options.replace)
    for number, seed in enumerate(seeds):
        if number >= options.runs if not options.long else time.monotonic() - begin >= 60 * options.long:
            return
        yield seed


def run_all(options, digests, root):
    """Yields each run's result. Takes a new seed only when a worker is free."""
    begin = time.monotonic()
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(options.jobs, context, make_lab, (root,)) as pool:
        running, seeds = set(), seeds_of(options, begin)
        while True:
            while len(running) < options.jobs and (seed := next(seeds, None)) is not None:
                running.add(pool.submit(run, seed, digests, options.keep, options.trace is not None))
            if not running:
                return
            done, running = concurrent.futures.wait(running,
                                                    return_when=concurrent.futures.FIRST_COMPLETED)
            for one in done:
                yield one.result()


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] + " Reads PCHRUN_BIN, "
                                     "PCHRUN_HELPERS and CHARLM, like the tests of behave.")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first (default 1)")
    parser.add_argument("--runs", type=int, default=160, metavar="N", help="the number of runs (default 160)")
    parser.add_argument("--long", type=float, metavar="MIN", help="run for this many minutes instead")
    parser.add_argument("--replace", action="store_true", help="only jobs that wait for a replacement")
    parser.add_argument("--trace", type=int, metavar="SEED", help="run this seed and show what happens")
    parser.add_argument("--plan", type=int, metavar="SEED", help="show the plan of the seed and run nothing")
    parser.add_argument("--jobs", type=int, default=3 * (os.cpu_count() or 1), metavar="N",
                        help="runs at a time (default: 3 for each processor)")
    parser.add_argument("--keep", type=Path, metavar="DIR", default=Path(tempfile.gettempdir()) /
                        "pchrun-chaos", help="where failed runs are kept (default %(default)s)")
    options = parser.parse_args()
    if options.trace is not None:
        options.seed, options.runs, options.jobs, options.long = options.trace, 1, 1, None
        options.replace = False
    return options


def report_all(options, root):
    """Runs all seeds, and prints the failures and the sum."""
    begin, passed, failed, skipped = time.monotonic(), 0, [], 0
    digests = {world: digest_of(world) for world in planning.WORLDS}
    counts = collections.Counter()
    for seed, why, seconds, counted in run_all(options, digests, root):
        counts += counted
        if why:
            failed.append(seed)
            print(f"FAILED after {seconds:.1f} s: {why}\n{planning.make(seed)}\n"
                  f"  kept in {options.keep}/seed-{seed}; again: chaos.py --trace {seed}", flush=True)
        elif counted["too busy"]:
            skipped += 1
        else:
            passed += 1
        if options.trace is not None:
            print((options.keep / f"seed-{seed}" / "journal").read_text())
    print(", ".join(f"{name}: {count}" for name, count in sorted(counts.items())))
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped in {time.monotonic() - begin:.1f}s")
    return 1 if failed else 0


def main():
    options = parse()
    if options.plan is not None:
        print(planning.make(options.plan))
        return 0
    why_not = laboratory.why_not()
    if why_not:
        print(f"skipped: {why_not}\n0 passed, 0 failed, {options.runs} skipped in 0.0s")
        return 77
    with tempfile.TemporaryDirectory(prefix="chaos-") as root:
        return report_all(options, Path(root))


if __name__ == "__main__":
    sys.exit(main())
