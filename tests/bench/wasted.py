# SPDX-License-Identifier: Apache-2.0
"""wasted: measures what the same six interruptions cost one training, in four ways to run it.

Eight workers train 1,600 steps. Four preemptions and two crashes of a worker come when the training first reaches a
step; the steps are drawn once, and are the same for all ways. After a preemption the job waits in a queue. All ways run
at the same time, since their workers sleep in steps and saves. Rank 0 prints a line a step, so each way has the same
witness: Truth. The ledger of pchrun is compared with it.
"""

import concurrent.futures
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, fields
from pathlib import Path

from measure import Figure, Unmeasured, free_port

PICTURE = Path(__file__).resolve().parents[2] / "docs/wasted.svg"
WORKERS, STEPS, EVERY = 8, 1600, 200
PREEMPTIONS, CRASHES = 4, 2
SEED = 2026
PREEMPTED = 42


@dataclass
class Lengths:
    """Seconds: of a step, of a save, from the end of a preempted job to its next start, and from a notice to the kill."""
    step: float = 0.5
    save: float = 2
    queue: float = 60
    grace: float = 30


@dataclass
class Way:
    name: str
    saves: bool = False  # of itself, every EVERY steps
    options: list = None  # of pchrun; None: a bare launcher


def ways_of(lengths):
    periodic = ["--checkpoint-every", f"{EVERY * lengths.step:g}s"]
    return [Way("nothing but restarts"),
            Way(f"a save every {EVERY} steps", saves=True),
            Way("pchrun, and the same saves", options=periodic),
            Way("pchrun, checkpoint.every auto", options=["--checkpoint-every", "auto"])]


def interruptions():
    """{step: "preemption" or "crash"}, at least a twentieth of the training apart."""
    draw = random.Random(SEED)
    while True:
        steps = sorted(draw.sample(range(STEPS // 20, STEPS - STEPS // 20), PREEMPTIONS + CRASHES))
        if all(b - a >= STEPS // 20 for a, b in zip(steps, steps[1:])):
            kinds = ["preemption"] * PREEMPTIONS + ["crash"] * CRASHES
            draw.shuffle(kinds)
            return dict(zip(steps, kinds))


# --- what happened ---


@dataclass
class Truth:
    """The lines of rank 0, each with its time."""
    begin: float
    lives: list = field(default_factory=list)  # of each start of the workers: [(step, when it was trained)]
    ends: list = field(default_factory=list)  # why each life but the last one ended
    saves: set = field(default_factory=set)  # the steps that rank 0 has saved
    end: float = 0

    def lost(self):
        """[(why, steps that the next life trained again)]"""
        found = []
        for why, life, after in zip(self.ends, self.lives, self.lives[1:]):
            found.append((why, max(0, (life[-1][0] if life else 0) - (after[0][0] - 1))))
        return found

    def trained(self):
        return sum(len(life) for life in self.lives)

    def times(self, save_s):
        """Seconds of the steps that were kept, and of those that were trained again. The first step of a life belongs to
        its start. A save is no training."""
        kept, again, above = 0, 0, STEPS + 1
        for life in reversed(self.lives):
            for (_, since), (step, at) in zip(life, life[1:]):
                took = at - since - (save_s if step in self.saves else 0)
                kept += took if step < above else 0
                again += took if step >= above else 0
            above = min([above, *(step for step, _ in life)])
        return kept, again


# --- one way ---


class Job:
    """The workers of one way, from the first start to the last step."""

    def __init__(self, bench, way, lengths, folder):
        self.bench, self.way, self.lengths = bench, way, lengths
        self.folder = Path(folder, re.sub(r"\W+", "-", way.name))
        self.folder.mkdir()
        self.plan = interruptions()
        self.truth = Truth(time.monotonic())
        self.log = open(self.folder / "log", "w", encoding="utf-8")
        self.workers = []

    def program(self):
        charlm = self.bench.build / "contrib/examples/charlm"
        if not charlm.exists():
            raise Unmeasured(f"{charlm} is not built")
        words = [charlm, "--steps", STEPS, "--log-every", 1, "--dir", self.folder / "run", "--port", free_port(),
                 "--step-time", round(self.lengths.step * 1000), "--save-time", round(self.lengths.save * 1000)]
        return [str(word) for word in words]

    def saved_step(self):
        """The newest step that every worker has saved."""
        steps = [path.name.split(".")[0] for path in Path(self.folder, "run").glob("step-*.rank-*-of-*") if
                 path.suffix != ".tmp"]
        return max((int(step[5:]) for step in set(steps) if steps.count(step) == WORKERS), default=0)

    def start(self):
        self.truth.lives.append([])
        if self.way.options is not None:
            command = [self.bench.pchrun, "-n", str(WORKERS), "--checkpoint-dir", str(self.folder / "run"), "--run-dir",
                       str(self.folder), "--grace", f"{self.lengths.grace:g}s", "--restart-max", "3", *self.way.options, "--", *self.program()]
            env = {**os.environ, "PCHRUN_SAVE_TRAIN_ON": "true"}  # as it is by default
            return [subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log,
                                     text=True)]
        command = self.program()
        if self.way.saves:
            command += ["--save-every", str(EVERY), "--resume", str(self.saved_step())]
        return [subprocess.Popen(command, env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(WORKERS)}, text=True,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL if rank else subprocess.PIPE,
                                 stderr=self.log) for rank in range(WORKERS)]

    def commands(self):
        """The processes that train."""
        if self.way.options is None:
            return [worker.pid for worker in self.workers]
        of = self.workers[0].pid
        children = Path(f"/proc/{of}/task/{of}/children").read_text(encoding="ascii").split()
        return [int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8") == "charlm\n"]

    def interrupt(self, why):
        self.truth.ends.append(why)
        if why == "crash":
            os.kill(random.choice(self.commands()), signal.SIGKILL)
        for worker in self.workers:
            if why == "preemption":
                worker.send_signal(signal.SIGTERM)

    def read(self, why=None):
        """Reads rank 0's lines up to its end, and interrupts it when its time has come. Returns why it was interrupted
        last."""
        for line in self.workers[0].stdout:
            found = re.match(r"step (\d+) loss", line)
            if re.match(r"charlm: \d+ ranks", line) and self.truth.lives[-1]:
                self.truth.lives.append([])  # the next generation, in place
            if found:
                step = int(found[1])
                self.truth.lives[-1].append((step, time.monotonic()))
                if step in self.plan:
                    why = self.plan.pop(step)
                    self.interrupt(why)
        return why

    def wait(self, why):
        codes = [worker.wait(60) for worker in self.workers]
        wanted = PREEMPTED if self.way.options is not None else -signal.SIGTERM
        done = all(code == 0 for code in codes)
        if not done and (why is None or (why == "preemption" and wanted not in codes)):
            raise Unmeasured(f"{self.way.name}: ended with {codes}: see {self.folder}")
        return done

    def run(self):
        try:
            while True:
                self.workers = self.start()
                why = self.read()
                if self.wait(why):
                    break
                time.sleep(self.lengths.queue if why == "preemption" else 0)
        finally:
            for worker in self.workers:
                if worker.poll() is None:
                    worker.kill()
                    worker.wait()
            self.log.close()
        self.truth.end = time.monotonic()
        said = Path(self.log.name).read_text(encoding="utf-8")
        self.truth.saves = {int(step) for step in re.findall(r"^charlm\[0\]: saved step (\d+)$", said, re.M)}
        return self

    def ledger(self):
        """The goodput of pchrun's own ledger; None: there is none."""
        if self.way.options is None:
            return None
        pchctl = self.bench.build / "src/pchctl"
        done = subprocess.run([pchctl, "goodput", "--json", self.folder / "run"], text=True, stdout=subprocess.PIPE,
                              check=True)
        return json.loads(done.stdout)


# --- the figure ---


def lasting(seconds):
    return f"{seconds / 60:.0f} min" if seconds >= 600 else f"{seconds:.0f} s"


@dataclass
class Row:
    way: Way
    wall: float
    kept: float
    again: float  # the time of the steps that were trained again
    steps: int  # so many
    by: dict  # the same, by what interrupted the training
    ledger: dict  # of pchrun

    @property
    def text(self):
        return f"{self.steps:,} steps again, {lasting(self.wall)}, goodput {100 * self.kept / self.wall:.1f} %"


def row_of(job):
    truth = job.truth
    kept, again = truth.times(job.lengths.save)
    by = {kind: sum(steps for why, steps in truth.lost() if why == kind) for kind in ("preemption", "crash")}
    return Row(job.way, truth.end - truth.begin, kept, again, truth.trained() - STEPS, by, job.ledger())


STYLE = """
svg { font: 15px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; --paper: #ffffff; --ink: #1f2328;
      --kept: #4a86cf; --again: #cf222e; --ground: #f3d3d5; --rest: #d1d9e0 }
@media (prefers-color-scheme: dark) { svg { --paper: #0d1117; --ink: #e6edf3; --kept: #3a71b8; --again: #f85149;
      --ground: #3c1618; --rest: #30363d } }
text { fill: var(--ink) } .strong { font-weight: 600 } .paper { fill: var(--paper) } .kept { fill: var(--kept) }
.again { fill: url(#hatch) } .rest { fill: var(--rest) } .ground { fill: var(--ground) }
.stripe { stroke: var(--again); stroke-width: 3 }
""".strip()
HATCH = ('<pattern id="hatch" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect '
         'class="ground" width="8" height="8"/><path class="stripe" d="M2 0V8"/></pattern>')
WIDTH, LEFT, BAR, ROW = 760, 16, 24, 66


def bars(row, y, scale):
    x = LEFT
    for kind, length in (("kept", row.kept), ("again", row.again), ("rest", row.wall - row.kept - row.again)):
        yield f'<rect class="{kind}" x="{x:.1f}" y="{y + 8}" width="{length * scale:.1f}" height="{BAR}"/>'
        x += length * scale


def draw(rows):
    """The picture: a bar of the time for each way."""
    scale = (WIDTH - 2 * LEFT) / max(row.wall for row in rows)
    height = 70 + ROW * len(rows)
    words = (f"{WORKERS} workers train {STEPS:,} steps through {PREEMPTIONS} preemptions and {CRASHES} crashes. "
             + " ".join(f"{row.way.name}: {row.text}." for row in rows))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
             f"<title>{words}</title>", f"<style>{STYLE}</style>", f"<defs>{HATCH}</defs>",
             f'<rect class="paper" width="{WIDTH}" height="{height}" rx="10"/>']
    x = LEFT
    for kind, name in (("kept", "training"), ("again", "steps trained again"), ("rest", "queue, starts, saves")):
        parts += [f'<rect class="{kind}" x="{x}" y="18" width="14" height="14"/>', f'<text x="{x + 20}" y="30">{name}</text>']
        x += 60 + 8 * len(name)
    for number, row in enumerate(rows):
        y = 66 + ROW * number
        parts.append(f'<text x="{LEFT}" y="{y}"><tspan class="strong">{row.way.name}</tspan>: {row.text}</text>')
        parts += bars(row, y, scale)
    return "\n".join([*parts, "</svg>", ""])


def wasted(bench):
    """what six interruptions of a training cost in four ways to run it; a step takes 0.5 s, and all an hour"""
    part = bench.rounds / 400
    lengths = Lengths(*(each.default * part for each in fields(Lengths)))
    ways = ways_of(lengths)
    with (tempfile.TemporaryDirectory(prefix="bench.") as folder,
          concurrent.futures.ThreadPoolExecutor(len(ways)) as pool):
        rows = [row_of(job) for job in pool.map(lambda way: Job(bench, way, lengths, folder).run(), ways)]
    for row in rows:
        lost = ", ".join(f"{steps} by {kind}" for kind, steps in row.by.items())
        told = f"{100 * row.ledger['goodput']:.1f} %, {row.ledger['lost_steps']} steps" if row.ledger else ""
        yield Figure(row.way.name, row.text, told, lost)
    PICTURE.write_text(draw(rows), encoding="utf-8")
    print(f"bench: the picture is {PICTURE}", file=sys.stderr)


FIGURES = (wasted,)
