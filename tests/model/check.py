#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the models of the agreement, the lease, a replacement and the spares (*.pml) with spin.

There are three kinds of run. A proof must find no error in any interleaving. A mutant leaves out
one rule, and the property that needs the rule must catch it. A witness asserts that something
cannot happen, and must be refuted: so no proof holds only because nothing happens. With --long
there are larger proofs instead, and samples: worlds too large for a proof. A sample keeps one bit a
state and ends after some minutes, so it finds errors and proves nothing. Each run has a directory
of its own below a temporary one, which is removed. A signal ends all runs. Exit status: 0 all as
expected, 1 some not, 77 spin is not installed (meson's code for a skipped test).
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

MODELS = Path(__file__).resolve().parent
SKIPPED = 77

# The property that an assertion of a model belongs to, by a piece of its expanded text.
PROPERTIES = [
    ("wrong commit", "durable["),
    ("abort after a save", "aborted&"),
    ("record goes back", ">record"),
    ("step out of reach", "<save_step"),
    ("ballot does not rise", "highest>=save_step"),
    ("left at different steps", "left_at["),
    ("a process is held", "ended[0]&&"),
    ("not at one step", "step[0]<=begun["),
    ("witness", "witness"),
    ("saves twice", "begun["),
    ("two incarnations train", "new_run&&old_run"),
    ("node 0 waits for a spare that cannot come", "is_hopeless["),
    ("a spare stands by, and the place waits", "was_late["),
    ("a call without need", "<=vacant["),
    ("called to two places", "!(place["),
    ("a node is told to stand by", "answered["),
    ("ranks outlive the fence", "trains["),
    ("two incarnations have the place", "has_place["),
    ("wrong commit", "has_saved["),
    ("a wait without an end", "waited<="),
    ("a wait without an end", "called["),
    ("a wait without an end", "(waited<"),
    ("a wait without an end", "age["),
    ("a wait without an end", "waits["),
    ("a filled place waits", "is_owed["),
]


@dataclasses.dataclass(frozen=True)
class Run:
    name: str
    flags: str
    expect: str = ""  # the property that is violated; "": none
    live: bool = False  # check the ltl formula, under weak fairness
    cycles: bool = False  # check that nothing repeats itself
    long: bool = False
    sampled: bool = False  # one bit a state, for some minutes: no proof, even if it ends earlier
    model: str = "agreement"


def lease(name, flags="", expect=""):
    return Run(name, flags, expect, model="lease")


def replace(name, flags="", expect=""):
    return Run(name, flags, expect, model="replace")


def spare(name, flags="", expect=""):
    return Run(name, flags, expect, model="spare")


def sampled(model, name, flags):
    return Run(name, flags, long=True, sampled=True, model=model)


PROOFS = [
    Run("two nodes", "LAST=2"),
    Run("two nodes, one break, one round", "LAST=2 ROUNDS=1 BREAKS=1"),
    Run("two nodes, one break, calm", "LAST=2 BREAKS=1 CALM"),
    Run("two nodes, three steps", "LAST=3"),
    Run("one node", "ONE_NODE LAST=3"),
    Run("one node, one break", "ONE_NODE LAST=2 BREAKS=1"),
    Run("one node, two breaks, calm", "ONE_NODE LAST=2 BREAKS=2 CALM"),
    Run("one node, two in flight", "ONE_NODE LAST=3 DEPTH=2"),
    Run("one node, faults", "ONE_NODE LAST=2 FAULTS"),
    Run("one node, faults, calm", "ONE_NODE LAST=3 FAULTS CALM"),
    Run("one node, loss", "ONE_NODE LAST=2 LOSS"),
    Run("two nodes, loss, calm, one round", "LAST=2 ROUNDS=1 LOSS CALM"),
    Run("two nodes, collectives", "LAST=3 LOCKSTEP COLLSAVE"),
    Run("two nodes, asynchronous", "LAST=2 ASYNC"),
    Run("one node, asynchronous", "ONE_NODE LAST=3 ASYNC"),
    Run("liveness: two nodes", "LAST=2 CALM", live=True),
    Run("liveness: one node, with aborts", "ONE_NODE LAST=2", live=True),
    Run("liveness: one node, one break", "ONE_NODE LAST=2 BREAKS=1 CALM", live=True),
    Run("liveness: two nodes, one break, one round", "LAST=2 ROUNDS=1 BREAKS=1 CALM", live=True),
    Run("every run comes to a rest: two nodes", "LAST=2 CALM", cycles=True),
    Run("every run comes to a rest: one node, one break", "ONE_NODE LAST=2 BREAKS=1 CALM",
        cycles=True),
    Run("two nodes, one break", "LAST=2 BREAKS=1", long=True),
    Run("two nodes, asynchronous, collectives", "LAST=3 ASYNC LOCKSTEP", long=True),
    Run("every run comes to a rest: one node, one break, aborts", "ONE_NODE LAST=2 BREAKS=1",
        cycles=True, long=True),
    Run("two nodes, two in flight", "LAST=2 DEPTH=2", long=True),
    Run("two nodes, faults", "LAST=2 FAULTS", long=True),
    Run("two nodes, loss, one round", "LAST=2 ROUNDS=1 LOSS", long=True),
    Run("two nodes, loss, calm", "LAST=2 LOSS CALM", long=True),
    Run("three processes, one round", "THREE LAST=2 ROUNDS=1", long=True),
    Run("one node, two breaks", "ONE_NODE LAST=2 BREAKS=2", long=True),
    Run("one node, loss, three steps", "ONE_NODE LAST=3 LOSS", long=True),
    Run("liveness: two nodes, one break", "LAST=2 BREAKS=1 CALM", live=True, long=True),
    lease("a node, node 0, and a clock that loses a tick"),
    replace("a restart, and a replacement"),
    replace("a machine sleeps and wakes", "RESTARTS=0 SUSPENDS"),
    spare("two spares", "COMERS=0"),
    spare("a spare, and a new supervisor of the node", "SPARES=1"),
    spare("a node and a spare, before the first start", "COMERS=0 SPARES=1 BEFORE=1 LEAVE=2"),
    Run("two spares, before the first start, one loss", "COMERS=0 BEFORE=1 LOSSES=1", long=True,
        model="spare"),
    Run("a spare, and a new supervisor, before the first start, one loss", "SPARES=1 BEFORE=1 LOSSES=1",
        long=True, model="spare"),
]
SAMPLES = [
    sampled("replace", "two messages in flight", "DEPTH=2"),
    sampled("replace", "three incarnations", "INCARNATIONS=3"),
    sampled("spare", "two spares, one break, two calls of each", "COMERS=0 BREAKS=1 TURNS=2"),
    sampled("spare", "two spares, a new supervisor, a spare that is refused", "BREAKS=1 MISSES"),
]

ONE_STEP, HELD, WRONG = "not at one step", "a process is held", "wrong commit"
BOTH = "two incarnations train"
OUTLIVE, ENDLESS = "ranks outlive the fence", "a wait without an end"
IN_VAIN, STANDS = "node 0 waits for a spare that cannot come", "a spare stands by, and the place waits"
MUTANTS = [
    Run("ACK at <=", "ACK_LE", ONE_STEP),
    Run("steps read before the gate is stored", "READ_FIRST", ONE_STEP),
    Run("no wait at a tentative gate", "NO_WAIT", ONE_STEP),
    Run("no re-proposal after a NACK", "DECIDE_ON_NACK", ONE_STEP),
    Run("a margin above the furthest process", "FAR_STEP", "step out of reach"),
    Run("a vote of an older ballot is counted", "STALE_VOTE", "ballot does not rise"),
    Run("a vote of an older round is counted", "OLD_ACKS", ONE_STEP),
    Run("counts of an older round are counted", "STALE_COUNTS", WRONG),
    Run("commit before all have saved", "SOME_SAVED", WRONG),
    Run("a process that ended counts as saved", "ENDED_COUNTS", WRONG),
    Run("gate not lifted after a round", "NEVER_LIFTS", HELD),
    Run("gate lifted at the first saver", "LIFT_AT_FIRST", ONE_STEP),
    Run("abort after the decision has left", "ABORT_LATE ANY_STEP", "abort after a save"),
    Run("a node's own timer lifts a tentative gate", "NODE_LIFTS", ONE_STEP),
    Run("FAILED lifts the gate at once", "FAIL_LIFTS", ONE_STEP),
    Run("FAILED leaves a tentative gate tentative", "FAIL_KEEPS", HELD),
    Run("a process forgets its served tag", "NO_TAG", "saves twice"),
    Run("SAVED of a closed round is not answered", "STALE_SILENT", HELD),
    Run("next round before all have served", "NEXT_EARLY", ONE_STEP),
    Run("next round before all have closed", "NEXT_UNHEARD ANY_STEP", ONE_STEP),
    Run("next round before the record is through", "LATE_RECORD", "record goes back"),
    Run("an old order is accepted", "BREAKS=1 ORDER_SEQ_IGNORED", HELD),
    Run("an old status is accepted", "BREAKS=1 STATUS_SEQ_IGNORED", HELD),
    Run("nothing is sent again after a break", "BREAKS=1 NO_RESEND CALM", HELD),
    Run("a durable that names no save", "ASYNC LOCKSTEP UNTAGGED", WRONG),
    Run("a rank in its last save trains on", "ASYNC LOCKSTEP LAST=3 EXIT_LATER",
        "left at different steps"),
    lease("a late answer renews the lease from its arrival", "FROM_ARRIVAL", BOTH),
    lease("node 0 answers a node that it has given up", "ANSWERS_GIVEN_UP", BOTH),
    lease("the lease never ends", "NEVER_ENDS", BOTH),
    lease("an order to start that is older than the lease is obeyed", "LATE_START", BOTH),
    lease("node 0 counts from an older answer than its last", "FROM_OLDER_ANSWER", BOTH),
    lease("no time for killing", "NO_KILL_TIME", BOTH),
    lease("no margin for the clocks", "NO_MARGIN", BOTH),
    lease("goodbye before the ranks have ended", "GOODBYE_FIRST", BOTH),
    replace("no fence", "RESTARTS=0 ROUNDS=0 NO_FENCE", OUTLIVE),
    replace("no margin in the fence", "RESTARTS=0 ROUNDS=0 FENCE_EARLY", OUTLIVE),
    replace("the fence counts from what node 0 heard last", "RESTARTS=0 ROUNDS=0 FENCE_FROM_HEARD",
            "a filled place waits"),
    replace("a lost node is answered", "RESTARTS=0 ANSWERS_LOST", OUTLIVE),
    replace("the replacement's goodbye opens the fence of the old one",
            "RESTARTS=0 ROUNDS=0 GOODBYE_OF_ANOTHER", OUTLIVE),
    replace("a late goodbye counts for the replacement", "RESTARTS=0 ROUNDS=0 INCARNATION_IGNORED",
            OUTLIVE),
    replace("a goodbye of an older generation opens the fence", "ROUNDS=0 KEEPS_GOODBYE", OUTLIVE),
    replace("the old incarnation is admitted again", "RESTARTS=0 ROUNDS=0 OLD_ADMITTED",
            "two incarnations have the place"),
    replace("a save of another generation counts", "DEPTH=2 GENERATION_IGNORED", WRONG),
    replace("a commit counts over two rosters", "RESTARTS=0 TWO_ROSTERS", WRONG),
    replace("the wait has no deadline", "RESTARTS=0 ROUNDS=0 NO_DEADLINE", ENDLESS),
    replace("a caller waits as long as it is not answered", "RESTARTS=0 ROUNDS=0 CALLER_WAITS",
            ENDLESS),
    replace("a second loss moves the deadline of the wait", "RESTARTS=0 ROUNDS=0 UNTIL_MOVES",
            ENDLESS),
    spare("no fence", "COMERS=0 NO_FENCE", OUTLIVE),
    spare("the replacement ends the fence of the old one", "COMERS=0 FENCE_OF_LAST", OUTLIVE),
    spare("a filled place is given again", "COMERS=0 GIVEN_TWICE", "two incarnations have the place"),
    spare("a supervisor that knows the attempt stands by", "COMERS=0 FORMER_IS_NEW",
          "a node is told to stand by"),
    spare("a call has no deadline", "COMERS=0 NO_CALL_END", ENDLESS),
    spare("a caller waits as long as it is not answered", "COMERS=0 CALLER_WAITS", ENDLESS),
    spare("a second loss moves the deadline of the wait", "COMERS=0 UNTIL_MOVES", ENDLESS),
    spare("only one spare is called", "COMERS=0 ONE_CALL", STANDS),
    spare("a spare that another one beat counts as late", "SPARES=1 VAIN_IS_LATE", STANDS),
    spare("two spares are called to one place", "COMERS=0 CALLS_TWO", "a call without need"),
    spare("the call of a filled place goes on", "COMERS=0 CALL_OF_TAKEN", "a call without need"),
    spare("a spare is called to two places", "PLACES=2 COMERS=0 CALLS_THE_CALLED",
          "called to two places"),
    spare("the call of a lost spare goes on", "COMERS=0 BREAKS=1 LOST_IS_AWAITED", IN_VAIN),
    spare("the call of a refused spare goes on", "COMERS=0 MISSES REFUSED_IS_AWAITED", IN_VAIN),
    spare("no spare is called before the first start", "COMERS=0 SPARES=1 BEFORE=1 NOT_BEFORE", STANDS),
    spare("a supervisor that was replaced before the first start joins again",
          "COMERS=0 SPARES=1 BEFORE=1 FORMER_JOINS", "a node is told to stand by"),
    spare("a second loss moves the deadline of the first start", "COMERS=0 SPARES=1 BEFORE=1 JOIN_MOVES",
          ENDLESS),
]
WITNESSES = [
    Run("both rounds commit", "CALM WITNESS=1", "witness"),
    Run("a third ballot", "WITNESS=2", "witness"),
    Run("FAILED comes to a node that has not seen DECIDED", "WITNESS=3", "witness"),
    Run("SAVED comes after the round is closed", "WITNESS=4", "witness"),
    Run("an old order comes after a newer one", "BREAKS=1 WITNESS=5", "witness"),
    Run("a node is lost after its ranks have saved, and the round commits",
        "LOSS CALM WITNESS=6", "witness"),
    lease("an answer comes when the lease is over", "WITNESS=1", "witness"),
    lease("an answer comes too late to renew the lease", "WITNESS=2", "witness"),
    lease("new ranks start without a goodbye", "WITNESS=3", "witness"),
    lease("a goodbye starts new ranks earlier", "WITNESS=4", "witness"),
    lease("the order to start takes a while", "WITNESS=5", "witness"),
    lease("the order to start comes when new ranks run", "WITNESS=6", "witness"),
    replace("the replacement's generation commits", "RESTARTS=0 WITNESS=1", "witness"),
    replace("the next generation begins without a goodbye", "RESTARTS=0 WITNESS=2", "witness"),
    replace("the old incarnation trains, and is refused", "RESTARTS=0 WITNESS=3", "witness"),
    replace("a save of another generation arrives late", "DEPTH=2 WITNESS=4", "witness"),
    replace("the wait ends at its deadline", "RESTARTS=0 WITNESS=5", "witness"),
    replace("a goodbye opens the fence at once", "RESTARTS=0 WITNESS=6", "witness"),
    replace("the replacement is lost in the wait", "RESTARTS=0 WITNESS=7", "witness"),
    replace("a third generation begins", "WITNESS=8", "witness"),
    replace("a third incarnation takes the place in one wait",
            "RESTARTS=0 ROUNDS=0 INCARNATIONS=3 WITNESS=9", "witness"),
    spare("a called spare takes the place, and its ranks may start", "COMERS=0 WITNESS=1", "witness"),
    spare("the first spare is late, and the second one takes the place", "COMERS=0 WITNESS=2",
          "witness"),
    spare("a new supervisor is faster than the called spare", "SPARES=1 WITNESS=3", "witness"),
    spare("a spare that was beaten takes the place later", "SPARES=1 TURNS=2 WITNESS=4", "witness"),
    spare("a new supervisor stands by, is called, and takes the place", "SPARES=1 WITNESS=5",
          "witness"),
    spare("a spare is refused, and the next one takes the place", "COMERS=0 MISSES WITNESS=6",
          "witness"),
    spare("the replacement is lost, and the next spare takes the place", "COMERS=0 WITNESS=7",
          "witness"),
    spare("the wait ends, though a spare stands by that was late", "COMERS=0 WITNESS=8", "witness"),
    spare("two spares take two places", "PLACES=2 COMERS=0 WITNESS=9", "witness"),
    spare("an old HELLO of a spare gets the place", "COMERS=0 BREAKS=1 TURNS=2 WITNESS=10", "witness"),
    spare("a spare is called before the first start, and the job starts",
          "COMERS=0 SPARES=1 BEFORE=1 WITNESS=11", "witness"),
    spare("a place is filled at the deadline, and its supervisor has more time",
          "COMERS=0 SPARES=1 LEAVE=2 WITNESS=12", "witness"),
]
# For mutants and witnesses of the agreement, where they do not say otherwise.
SMALL = "LAST=2 ONE_NODE"


def small(run):
    if run.model != "agreement":
        return run
    flags = run.flags.split()
    named = {flag.split("=")[0] for flag in flags}
    flags += [flag for flag in SMALL.split() if flag.split("=")[0] not in named]
    return dataclasses.replace(run, flags=" ".join(flags))


@dataclasses.dataclass
class Result:
    run: Run
    error: str = ""  # why the result is not as expected
    states: int = 0
    seconds: float = 0.0
    found: str = ""


class Ended(Exception):
    """All runs are to end."""


class Tool:
    """Runs commands in one directory, each in a process group that ends with this program. The limit
    is of the processor's time, which other programs do not use up."""

    lock = threading.Lock()
    running = set()
    is_over = False

    def __init__(self, folder, limit):
        self.folder, self.limit = folder, limit

    def __call__(self, *argv):
        with Tool.lock:
            if Tool.is_over:
                raise Ended
            child = subprocess.Popen(argv, cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     start_new_session=True,
                                     env={**os.environ, "TMPDIR": str(self.folder)})
            Tool.running.add(child)
        resource.prlimit(child.pid, resource.RLIMIT_CPU, (self.limit, self.limit + 1))
        output, _ = child.communicate()
        with Tool.lock:
            Tool.running.remove(child)
        return child.returncode, output

    @staticmethod
    def end_all():
        with Tool.lock:
            Tool.is_over = True
            for child in Tool.running:
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.killpg(child.pid, signal.SIGKILL)


def pan_build(run):
    flags = ["cc", "-w", "-DBITSTATE" if run.sampled else "-DCOLLAPSE", "-DVECTORSZ=2048",
             "-DMEMLIM=8000"]
    flags += ["-O0"] if run.expect else ["-O2"]
    if run.live:
        flags += ["-DNFAIR=3"]
    elif run.cycles:
        flags += ["-DNP", "-DNOFAIR"]
    else:
        flags += ["-DSAFETY", "-DNOFAIR"]
    if "LOSS" in run.flags.split():
        flags += ["-DNOREDUCE"]  # spin's reduction does not allow for `provided`
    return flags + ["-o", "pan", "pan.c"]


def pan_arguments(run, minutes):
    mode = ["-a", "-f"] if run.live else ["-l"] if run.cycles else []
    if run.model in ("agreement", "lease"):
        # At rest a process may have ended or still wait; the model's own assertion judges this.
        mode.append("-E")
    if run.sampled:
        mode += ["-w34", f"-Q{minutes}"]  # 2 GB of bits
    return ["./pan", "-m500000", *mode]


def violated(output, is_sampled):
    """The property that pan found violated; "" if none; "?" if its output makes no sense."""
    errors = re.search(r"errors: (\d+)", output)
    if not errors or "search depth too small" in output or "out of memory" in output:
        return "?"
    if errors.group(1) == "0":
        return "?" if not is_sampled and "Search not completed" in output else ""
    if "invalid end state" in output.split("Warning:")[0]:
        return "ends while it waits"
    if "acceptance cycle" in output:
        return "never settles"
    if "non-progress cycle" in output:
        return "goes on for ever"
    text = re.search(r"assertion violated (.*) \(at depth", output)
    for name, piece in PROPERTIES:
        if text and piece in text.group(1):
            return name
    return "?"


def check(run, scratch, limit, minutes):
    result = Result(run)
    folder = Path(tempfile.mkdtemp(dir=scratch))
    tool = Tool(folder, limit)
    flags = ["-D" + flag for flag in run.flags.split()] + (["-DLIVENESS"] if run.live else [])
    started = time.monotonic()
    try:
        for argv in (["spin", *flags, "-a", str(MODELS / f"{run.model}.pml")], pan_build(run),
                     pan_arguments(run, minutes)):
            code, output = tool(*argv)
            if code == -signal.SIGXCPU:
                result.error = f"not finished within {limit} s of the processor: {' '.join(argv)}"
                return result
            if code != 0 or re.search(r"\bError\b", output):
                result.error = f"{' '.join(argv)}: exit {code}\n{output[-2000:]}"
                return result
    finally:
        result.seconds = time.monotonic() - started
        shutil.rmtree(folder)
    states = re.search(r"(\d+(?:\.\d+e\+\d+)?) states, stored", output)
    result.states = int(float(states.group(1))) if states else 0
    result.found = violated(output, run.sampled)
    if result.found != run.expect:
        result.error = (f"expected {run.expect or 'no error'}, found {result.found or 'no error'}; "
                        f"see it: spin {' '.join(flags)} -a {run.model}.pml\n{output[-2000:]}")
    return result


def parse(argv):
    parser = argparse.ArgumentParser(
        description="Check the models of the agreement, the lease, the replacement of a node and the "
                    "spares with spin: proofs, mutants that must be caught, witnesses of what must be "
                    "possible. Prints a line per run.",
        epilog="Exit status: 0 as expected, 1 not, 77 spin or a C compiler is missing.")
    parser.add_argument("--long", action="store_true",
                        help="the larger proofs instead, about 15 minutes and 6 GB of memory, and "
                             "the samples")
    parser.add_argument("--only", metavar="TEXT", default="",
                        help="only the runs with TEXT in their name or flags")
    parser.add_argument("--model", choices=("agreement", "lease", "replace", "spare"),
                        help="only this model")
    parser.add_argument("--list", action="store_true",
                        help="print the runs and their flags, run nothing")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="runs side by side (default: 2)")
    parser.add_argument("--minutes", type=int, default=10,
                        help="with --long: for all samples together (default: 10)")
    parser.add_argument("--limit", type=int, metavar="SECONDS", default=0,
                        help="the processor's time for each step of a run (default: 150; with --long "
                             "1800)")
    return parser.parse_args(argv)


def main(argv):
    options = parse(argv)
    groups = [("proof", PROOFS), ("mutant", [small(run) for run in MUTANTS]),
              ("witness", [small(run) for run in WITNESSES]), ("sample", SAMPLES)]
    runs = [(kind, run) for kind, group in groups for run in group
            if options.long == run.long and options.only in f"{run.name} {run.flags}"
            and options.model in (None, run.model)]
    if options.list:
        for kind, run in runs:
            print(f"{run.model} {kind:8} {run.name}: {run.flags}{' LIVENESS' if run.live else ''}")
        return 0
    if not runs:
        print(f"check.py: no run has '{options.only}' in its name or flags; see --list",
              file=sys.stderr)
        return 1
    for program in ("spin", "cc"):
        if not shutil.which(program):
            print(f"SKIP: {program} is not installed (Debian: apt install spin gcc)")
            return SKIPPED
    return run_all(runs, options)


def run_all(runs, options):
    samples = sum(run.sampled for _, run in runs)
    minutes = max(1, options.minutes * options.jobs // samples) if samples else 0
    limit = options.limit or (1800 if options.long else 150)
    limit = max(limit, 60 * minutes + 300) if samples else limit
    failed = 0
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="pchrun-model.") as scratch, \
            concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        jobs = {pool.submit(check, run, scratch, limit, minutes): kind for kind, run in runs}
        try:
            for job in concurrent.futures.as_completed(jobs):
                failed += not told(jobs[job], job.result())
        finally:
            Tool.end_all()
            pool.shutdown(cancel_futures=True)
    print(f"{len(runs) - failed} passed, {failed} failed")
    return 1 if failed else 0


def told(kind, result):
    """Prints the result; returns whether it is as expected."""
    word = "not ok" if result.error else "ok"
    found = f", caught: {result.found}" if result.found and not result.error else ""
    print(f"{word} {result.run.model} {kind}: {result.run.name} "
          f"({result.states:,} states, {result.seconds:.1f} s{found})", flush=True)
    if result.error:
        print("    " + result.error.replace("\n", "\n    "), flush=True)
    return not result.error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
