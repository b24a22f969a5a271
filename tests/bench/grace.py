# SPDX-License-Identifier: Apache-2.0
"""grace: measures how much of a notice's grace is kept by the last commit, for many lengths of steps, saves and graces.

The commands of these jobs are bench-grace, which sleeps. All jobs run at the same time. Each is preempted twice, with
one state directory. In its first attempt nothing is known. In the second one the record has the time of a save and of
the processes' end. A notice's first save comes at once, and its last one as late as is safe. possible() says how late
that could be, and judge() why it was earlier.
"""

import concurrent.futures
import contextlib
import json
import os
import re
import signal
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from measure import Figure, Unmeasured, free_port, running

TARGET = 0.9
UNKNOWN_END = 2  # seconds that pchrun plans for an end that was not measured (src/core/chief/chief_plan.c)


@dataclass
class Case:
    """Seconds. A step and a save take up to `more` longer, by chance; a save after the first takes `later` longer."""
    grace: float
    step: float
    save: float
    tries: str = ""
    step_more: float = 0
    save_more: float = 0
    later: float = 0
    end: float = 0
    warm: float = 4  # from the first step to the notice
    slower: float = 0  # the second node's step and save take this many times as long; 0: there is one node
    options: list = field(default_factory=list)

    @property
    def usual_step(self):
        return (self.step + self.step_more / 2) * max(1, self.slower)

    @property
    def name(self):
        lengths = f"grace {self.grace} s, step {self.step} s, save {self.save} s"
        return f"{self.tries}: {lengths}" if self.tries else lengths


USUAL = [Case(grace, step, save, save_more=save / 2)
         for grace, steps, saves in [(10, (0.02, 0.2, 1), (0.5, 1)), (20, (0.02, 0.2, 2), (0.5, 2)),
                                     (30, (0.02, 0.2, 1, 2), (1, 4)), (60, (0.2, 2), (2, 4, 8))]
         for step in steps for save in saves]
HARD = [
    Case(10, 0.2, 6, "no second save fits"),
    Case(10, 0.2, 4, "two saves hardly fit"),
    Case(25, 0.2, 10, "two saves hardly fit"),
    Case(20, 0.2, 9, "two saves fit, without a spare second"),
    Case(12, 1, 0.5, "a step of a twelfth"),
    Case(20, 2, 4, "long steps and saves", save_more=1),
    Case(20, 0.2, 1, "later saves 2.5 times as long", later=1.5),
    Case(30, 0.2, 2, "later saves 3 times as long", later=4),
    Case(20, 0.2, 1, "saves up to 3 times as long, by chance", save_more=2),
    Case(20, 0.2, 1, "steps up to 5 times as long, by chance", step_more=0.8),
    Case(20, 0.2, 1, "two nodes, one half as fast", slower=2),
    Case(15, 0.1, 3, "the notice comes in a save", options=["--checkpoint-every", "3s"]),
    Case(10, 0.2, 1, "the notice comes after the first step", warm=0.05),
    Case(3, 0.05, 0.3, "very short"),
    Case(4, 0.1, 0.5, "very short"),
    Case(5, 0.2, 1, "very short"),
    Case(60, 0.001, 2, "tiny steps", save_more=1),
    Case(20, 0.2, 1, "the process takes 3 s to end", end=3),
]
CASES = USUAL + HARD


@dataclass
class Outcome:
    """How an attempt used its grace, in seconds: when the last save began that was committed, and when the first one
    ended, both after the notice; the slowest save; the processes' end; from the last commit to the deadline."""
    begun: float
    first_ended: float
    slowest: float
    end: float
    spare: float
    commits: int
    knew_end: bool
    saves: list  # the times of all saves after the notice, the last one perhaps cut short


# --- what is possible ---


def possible(case, seen):
    """When the last save could begin, in seconds after the notice: the grace without a save that is a quarter longer than
    the slowest one of the attempt, without the processes' end, without a step, at whose end a save begins, and without
    half a second, or a sixteenth of a short grace, for the agreement."""
    return case.grace - 1.25 * seen.slowest - seen.end - case.usual_step - min(0.5, case.grace / 16)


def reasons(case, seen):
    """The rules by which a share is smaller: what pchrun keeps free besides, in seconds, and why."""
    if not seen.knew_end:
        kept = min(UNKNOWN_END, case.grace / 4) * 8 / 7
        yield kept - seen.end, f"time to end not known: {kept:.1f} s kept free"
    if not seen.knew_end and len(seen.saves) == 2:
        kept = min(seen.saves[0], case.grace / 10)
        yield max(0, kept - seen.slowest / 4), f"one save measured: {kept:.1f} s kept free"


def judge(case, seen):
    """The share of the possible, and why it is below the target: "" if it is not, None if no rule explains it. The
    rules are tried in order, and those that are not needed do not count."""
    could, names = possible(case, seen), []
    share = seen.begun / could
    for kept, name in reasons(case, seen):
        if seen.begun < TARGET * could:
            could -= kept
            names.append(name)
    if seen.begun < TARGET * could:
        if len(seen.saves) > 1 or seen.first_ended < could:
            return share, None
        names.append(f"no second save fits: the first ends at {seen.first_ended:.1f} s")
    return share, ", ".join(names)


# --- the jobs ---


def record_of(path):
    try:
        return json.loads((path / "run/.pchrun/commit.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


def command_of(bench, path, case, seed, node, port):
    times = 1 if node == 0 else case.slower
    lengths = [case.step * times, case.step_more, case.save * times, case.save_more, case.later, case.end]
    command = [bench.pchrun, "-v", "--grace", f"{case.grace}s", "--checkpoint-dir", str(path / "run"), *case.options]
    if case.slower:
        command += ["--nnodes", "2", "--node-rank", str(node), "--cluster-chief", "127.0.0.1", "--cluster-port", str(port)]
    command += ["--run-dir", str(path), "--", bench.helper("grace"), str(seed)]
    return command + [str(round(length * 1000)) for length in lengths] + ([str(path / "barrier")] if case.slower else [])


def wait_for_steps(outs):
    until = time.monotonic() + 30
    while not all(out.stat().st_size for out in outs):
        if time.monotonic() > until:
            raise Unmeasured("the training has not begun")
        time.sleep(0.01)


def preempt(bench, path, case, seed, attempt):
    """Runs and preempts one attempt."""
    env = {**os.environ, "PCHRUN_SAVE_TRAIN_ON": "true"}
    outs, errs = ([path / f"{what}.{attempt}.{node}" for node in range(2 if case.slower else 1)]
                  for what in ("out", "err"))
    port, known = free_port(), record_of(path)
    (path / "barrier").unlink(missing_ok=True)
    with contextlib.ExitStack() as stack:
        jobs = []
        for node, (out, err) in enumerate(zip(outs, errs)):
            files = [stack.enter_context(open(name, "w", encoding="utf-8")) for name in (out, err)]
            command = command_of(bench, path, case, seed + 100 * attempt, node, port)
            jobs.append(stack.enter_context(running(command, env=env, stdout=files[0], stderr=files[1])))
        wait_for_steps(outs)
        time.sleep(case.warm)
        notice_at = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        jobs[0].send_signal(signal.SIGTERM)
        for process in jobs:
            process.wait(case.grace + 30)
        ended_at = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return read(outs, errs[0], case.grace, (notice_at, ended_at), known.get("end_ns", 0) > 0)


def read(outs, err, grace, times, knew_end):
    """The outcome of an attempt with these outputs of its ranks, from the notice to the end. A save lasts until the last
    rank has made it."""
    notice_at, ended_at = times
    said = err.read_text(encoding="utf-8")
    lines = [line.split() for out in outs for line in out.read_text(encoding="utf-8").splitlines()]
    lines = [(what, int(step), int(begun), int(ended)) for what, step, begun, ended in lines]
    commits = [int(step) for step in re.findall(r"commit: step (\d+) is durable", said)]
    begun, ended = {}, {}
    for what, step, since, until in lines:
        if what == "saving":
            begun[step] = min(since, begun.get(step, since))
        elif what == "saved":
            ended[step] = max(until, ended.get(step, until))
    if not commits:
        raise Unmeasured(f"nothing was committed: {said[-400:]}")
    last, deadline = commits[-1], notice_at + grace * 1e9
    ends = {step: ended.get(step, deadline) for step in begun}
    took = {step: (ends[step] - begun[step]) / 1e9 for step in begun}
    saves = [step for step in sorted(begun) if ends[step] > notice_at]
    return Outcome((begun[last] - notice_at) / 1e9, (ends[saves[0]] - notice_at) / 1e9, max(took.values()),
                   (ended_at - ended[last]) / 1e9, (deadline - ended[last]) / 1e9,
                   sum(ended[step] > notice_at for step in commits), knew_end, [took[step] for step in saves])


def attempts(bench, folder, case, seed):
    path = Path(folder, str(seed))
    path.mkdir()
    time.sleep(seed * 0.1)  # their starts and ends are not all at the same time
    return [preempt(bench, path, case, seed, attempt) for attempt in (1, 2)]


def outcomes(bench):
    """Runs all cases at the same time, because most of them sleep most of the time."""
    with (tempfile.TemporaryDirectory(prefix="bench.") as folder,
          concurrent.futures.ThreadPoolExecutor(len(CASES)) as pool):
        return list(pool.map(lambda seed: attempts(bench, folder, CASES[seed], seed), range(len(CASES))))


def shown(case, seen):
    return (f"{seen.begun:.1f} s of {possible(case, seen):.1f} s, {seen.spare:.1f} s spare, "
            f"{seen.commits} commit{'s' if seen.commits > 1 else ''}")


def grace_used(bench):
    """how much of a grace is kept by the last commit, in the first attempt of a job and in the second one"""
    unexplained = [0, 0]
    for case, pair in zip(CASES, outcomes(bench)):
        judged = [judge(case, seen) for seen in pair]
        for attempt, (_, why) in enumerate(judged):
            unexplained[attempt] += why is None
        notes = [f"{which}: {'NOT EXPLAINED' if why is None else why}"
                 for which, (_, why) in zip(("first", "second"), judged) if why != ""]
        yield Figure(case.name, *(shown(case, seen) for seen in pair), ", ".join(f"{share:.2f}" for share, _ in judged),
                     "; ".join([f"≥ {TARGET}", *notes]))
    yield Figure(f"below {TARGET}, and no rule says why", *(f"{number} of {len(CASES)}" for number in unexplained),
                 target="0")


FIGURES = [grace_used]
