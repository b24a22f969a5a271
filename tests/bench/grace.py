# SPDX-License-Identifier: Apache-2.0
"""grace: measures how much of a notice's grace is trained and saved, for many lengths of steps, saves and graces.

The commands of these jobs are bench-grace, which sleeps. All jobs run at the same time. A job is preempted when it has
trained for a while. No save has been measured then, so the first save comes at once. The possible time is the grace
without half a second, and without a save a quarter longer than the slowest one of the job.
"""

import contextlib
import os
import re
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from measure import Figure, Unmeasured, running

# Seconds: a step, a save (which may take half as long again), the grace.
CASES = [(step, save, grace)
         for grace, steps, saves in [(10, (0.02, 0.2, 1), (0.5, 1)), (20, (0.02, 0.2, 2), (0.5, 2)),
                                     (30, (0.02, 0.2, 1, 2), (1, 4)), (60, (0.2, 2), (2, 4, 8))]
         for step in steps for save in saves]
WARM = 4  # seconds of training before the notice


@dataclass
class Outcome:
    """How a grace was used, in seconds: trained and kept by the last commit; until the last save began; the slowest
    save; from the last save to the deadline."""
    trained: float
    begun: float
    slowest: float
    spare: float
    commits: int


@contextlib.contextmanager
def job(bench, folder, case, seed):
    step, save, grace = case
    path = Path(folder, str(seed))
    path.mkdir()
    env = {**os.environ, "PCHRUN_SAVE_TRAIN_ON": "true"}
    command = [bench.pchrun, "-v", "--grace", f"{grace}s", "--checkpoint-dir", str(path / "run"), "--run-dir", str(path),
               "--", bench.helper("grace"), str(int(step * 1000)), str(int(save * 1000)), str(seed)]
    with (open(path / "out", "w", encoding="utf-8") as out, open(path / "err", "w", encoding="utf-8") as err,
          running(command, env=env, stdout=out, stderr=err) as process):
        yield process


def read(path, notice_at, grace):
    """The outcome of the job whose output is in this folder."""
    lines = [line.split() for line in (path / "out").read_text(encoding="utf-8").splitlines()]
    said = (path / "err").read_text(encoding="utf-8")
    commits = [int(step) for step in re.findall(r"commit: step (\d+) is durable", said)]
    saves = {int(step): (int(begun), int(ended)) for what, step, begun, ended in lines if what == "saved"}
    if not commits:
        raise Unmeasured(f"nothing was committed: {said[-400:]}")
    steps = [(int(begun), int(ended)) for what, step, begun, ended in lines
             if what == "step" and int(step) <= commits[-1] and int(ended) > notice_at]
    trained = sum(ended - max(begun, notice_at) for begun, ended in steps)
    begun, ended = saves[commits[-1]]
    slowest = max(ended - begun for begun, ended in saves.values())
    return Outcome(trained / 1e9, (begun - notice_at) / 1e9, slowest / 1e9, (notice_at - ended) / 1e9 + grace,
                   len(commits))


def outcomes(bench):
    """Runs all cases at the same time, because most of them sleep most of the time."""
    with tempfile.TemporaryDirectory(prefix="bench.") as folder:
        with contextlib.ExitStack() as stack:
            jobs = [stack.enter_context(job(bench, folder, case, seed)) for seed, case in enumerate(CASES)]
            time.sleep(WARM)
            notices = []
            for process in jobs:
                notices.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC))
                process.send_signal(signal.SIGTERM)
            for process, (_, _, grace) in zip(jobs, CASES):
                process.wait(grace + 30)
        return [read(Path(folder, str(seed)), notices[seed], case[2]) for seed, case in enumerate(CASES)]


def grace_used(bench):
    """how much of a grace is trained and kept, for steps of 0.02 to 2 s, saves of 0.5 to 8 s, graces of 10 to 60 s"""
    for (step, save, grace), seen in zip(CASES, outcomes(bench)):
        possible = grace - 1.25 * seen.slowest - 0.5
        yield Figure(f"grace {grace} s, step {step} s, save {save} s", f"last save begins at {seen.begun:.1f} s",
                     f"possible {possible:.1f} s", f"{seen.begun / possible:.2f}, trained {seen.trained:.1f} s",
                     f"≥ 0.9; {seen.spare:.1f} s before the deadline (≥ 0.3), {seen.commits} commits")


FIGURES = [grace_used]
