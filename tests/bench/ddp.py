# SPDX-License-Identifier: Apache-2.0
"""ddp: measures what pchrun, and a preemption, cost a real training with PyTorch's DistributedDataParallel.

The training is tests/bench/ddp_program.py.
"""

import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from frameworks import HERE, package_of
from measure import TORCH, Figure, Unmeasured, duration, environment, paired, running, spread_of, told_options

LIGHTNING = "lightning==2.6.6"
RANKS = 4
CALLS = 100_000
PATIENCE = 120
BETWEEN = 12  # save times: after a notice that is over, pchrun acts on a new one only after this time

# --- one job ---


def command(bench, ranks, options, *arguments):
    python = environment(bench, LIGHTNING, [TORCH, LIGHTNING]) / "bin/python"
    return [bench.pchrun, "--log-level", "error", "-n", str(ranks), *options, "--", python, HERE / "ddp_program.py",
            *map(str, arguments)]


def variables(bench):
    return {**os.environ, "PYTHONPATH": str(package_of(bench)), "OMP_NUM_THREADS": "1"}


# --- a step ---


def ddpstep(bench):
    """a step of four ranks of a DDP training, beside the checks of Lightning and Megatron for a SIGTERM"""
    rounds = bench.lines(command(bench, RANKS, [], "step", CALLS, max(20, bench.rounds // 10)), env=variables(bench))
    for side, peer, target in ((1, "Lightning's broadcast", "< 1 µs"), (2, "an all-gather as Megatron's", "")):
        yield paired(f"DDP, {RANKS} ranks, `job.step()`", [(took[0], took[side]) for took in rounds], peer, target,
                     per=CALLS)


def ddpwaits(bench):
    """what the marks of a rank's waits add to a step of DistributedDataParallel"""
    calls = CALLS // 100
    rounds = bench.lines(command(bench, 1, [], "waits", calls, max(20, bench.rounds // 2)), env=variables(bench))
    adds = [(marked - plain) / calls for marked, plain in rounds]
    yield Figure("DDP, what the marks of the waits add to a step", *spread_of(adds), "< 1 µs")


# --- a notice ---


def lines_of(folder, number):
    """Waits until all ranks have written this line, and returns each rank's line."""
    end = time.monotonic() + PATIENCE
    while True:
        texts = [path.read_text(encoding="ascii") for path in Path(folder).glob("rank-*")]
        if len(texts) == RANKS and all(text.count("\n") > number for text in texts):
            return [list(map(int, text.splitlines()[number].split())) for text in texts]
        if time.monotonic() > end:
            raise Unmeasured(f"the ranks have not saved within {PATIENCE} s")
        time.sleep(0.005)


def ddpnotice(bench):
    """a notice -> every rank of a DDP training saves, four ranks: time, and steps until then"""
    times, steps, lengths, save = [], [], [], 0
    with tempfile.TemporaryDirectory(prefix="bench.") as folder:
        options = [*told_options(folder), "--checkpoint-dir", f"{folder}/run", "--save-train-on"]
        with running(command(bench, RANKS, options, "notice", folder), env=variables(bench)):
            lines_of(folder, 0)
            with open(f"{folder}/fifo", "w", encoding="ascii", buffering=1) as source:
                for number in range(1, max(20, bench.rounds // 10) + 1):
                    time.sleep(save * BETWEEN / 1e9 + random.uniform(0.1, 0.3))
                    begin = time.monotonic_ns()
                    source.write(json.dumps({"type": "terminate", "id": str(number), "deadline_seconds": 3600}) + "\n")
                    ranks = lines_of(folder, number)
                    for saves_at, _, *ends in ranks:
                        times.append(saves_at - begin)
                        steps.append(sum(end > begin for end in ends))
                        lengths += [after - before for before, after in zip(ends, ends[1:])]
                    took = max(rank[1] for rank in ranks) - min(rank[0] for rank in ranks)
                    save = max(took, (save + took) // 2)  # as pchrun estimates it
                    source.write(json.dumps({"type": "cancel", "id": str(number)}) + "\n")
    yield Figure(f"notice → a DDP rank saves, {RANKS} ranks", *spread_of(times))
    yield Figure("the same, steps that end in between", f"{statistics.median(steps):g} steps",
                 f"step {duration(statistics.median(lengths))}", f"most {max(steps)}", "≤ 2 steps on every rank")


# --- a whole training ---

FIVE = 5
STEPS = 600
WORKERS = 2


class Attempt:
    """One start of the training: the lines of rank 0, and their times."""

    def __init__(self, bench, folder):
        self.folder = folder
        self.began = time.monotonic_ns()
        self.process = subprocess.Popen(
            command(bench, WORKERS, ["--checkpoint-dir", folder], "train", folder, STEPS), text=True,
            env=variables(bench), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.at, self.steps, self.digest = {}, [], None

    def read(self, until=None):
        """Reads up to the end of this step, or to the end of the attempt."""
        for line in self.process.stdout:
            what, *more, at = line.split()
            self.at[what] = int(at)
            if what == "step":
                self.steps.append(int(more[0]))
                if self.steps[-1] == until:
                    return
            elif what == "end":
                self.digest = more[0]

    def end(self):
        """Reads the rest, and returns the exit code."""
        self.read()
        code = self.process.wait()
        self.ended = time.monotonic_ns()
        report = json.loads(Path(self.folder, ".pchrun/report.0.json").read_text(encoding="utf-8"))
        self.lost = report["steps"]["lost"]
        return code

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def whole(bench, preemptions):
    """The attempts of a training with this many preemptions, at random instants."""
    attempts = []
    cuts = sorted(random.sample(range(STEPS // 20, STEPS - STEPS // 20), preemptions))
    with tempfile.TemporaryDirectory(prefix="bench.") as folder, contextlib.ExitStack() as stack:
        for cut in [*cuts, None]:
            attempt = Attempt(bench, folder)
            stack.callback(attempt.close)
            attempts.append(attempt)
            attempt.read(cut)
            if cut:
                time.sleep(random.uniform(0, 0.05))
                attempt.process.send_signal(signal.SIGTERM)
            code = attempt.end()
            if code != (42 if cut else 0):
                raise Unmeasured(f"an attempt has ended with {code}")
    return attempts


def ddprun(bench):
    """a DDP training that is preempted five times, beside one that is not, and its saves and starts"""
    pairs, saves, starts, lost, same = [], [], [], 0, True
    for _ in range(max(3, bench.rounds // 100)):
        took = {n: whole(bench, n) for n in random.sample([0, FIVE], 2)}
        (undisturbed,), attempts = took[0], took[FIVE]
        save = [one.at["saved"] - one.at["save"] for one in attempts[:-1]]
        start = [after.at["begin"] - before.at["saved"] for before, after in zip(attempts, attempts[1:])]
        steps = [step for one in attempts for step in one.steps]
        pairs.append((attempts[-1].ended - attempts[0].began,
                      undisturbed.ended - undisturbed.began + sum(save) + sum(start)))
        lost += sum(one.lost for one in attempts) + abs(len(steps) - STEPS)
        same = same and attempts[-1].digest == undisturbed.digest
        saves, starts = saves + save, starts + start
    yield paired(f"DDP training, preempted {FIVE} times", pairs, "undisturbed, saves and starts", "≤ 1.03")
    yield Figure("of that, a save, and leaving and starting again", duration(statistics.median(saves)),
                 duration(statistics.median(starts)))
    yield Figure("of that, steps lost", str(lost), "", f"weights {'the same' if same else 'differ'}", "0, the same")


FIGURES = (ddpstep, ddpwaits, ddpnotice, ddprun)
