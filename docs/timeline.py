#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""timeline: runs a small job that is preempted twice and crashes once, and draws what its journal says.

usage: docs/timeline.py run [BUILD]     run the job with the programs of the folder BUILD [build], in a minute;
                                        write docs/timeline.jsonl and docs/timeline.svg
       docs/timeline.py draw [JOURNAL]  draw docs/timeline.svg from JOURNAL [docs/timeline.jsonl]
       docs/timeline.py --help          show this text

Prints the caption of the picture. docs/timeline.jsonl has the lines of both nodes' journals that the picture
needs, in the order of time; pchctl(1) says what they mean. A failure is one line on standard error, exit status 1.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent
KINDS = {"started", "attached", "notice", "round", "committed", "failed", "exit", "dropped"}


class Fault(Exception):
    """The fault, in a line for the user."""


# --- the job ---

NODES = ["127.0.0.1", "127.0.0.2"]
RANKS = 2  # of a node
GRACE = "7s"
EVERY = 80
STEPS = 660
STEP_MS, SAVE_MS = 60, 250
PAUSE_S = 2.6  # until the scheduler starts the job again
DEADLINE_S = 60


def free_port(address):
    with socket.socket() as sock:
        sock.bind((address, 0))
        return str(sock.getsockname()[1])


class Job:
    """The nodes of one start, and the journals of all starts."""

    def __init__(self, build, folder):
        self.pchrun, self.charlm = (Path(build).resolve() / name for name in ("src/pchrun", "contrib/examples/charlm"))
        for program in (self.pchrun, self.charlm):
            if not os.access(program, os.X_OK):
                raise Fault(f"{program} is not there: first build it, or name the folder of the build")
        self.folder = folder
        self.nodes = []
        subprocess.run([self.pchrun, "--make-key", folder / "key"], check=True, stdout=subprocess.DEVNULL)

    def start(self):
        env = {name: value for name, value in os.environ.items() if not name.startswith("PCH")}
        port, own_port = free_port(NODES[0]), free_port(NODES[0])
        train = [self.charlm, "--dir", self.folder / "ckpt", "--port", own_port, "--steps", str(STEPS),
                 "--step-time", str(STEP_MS), "--save-time", str(SAVE_MS)]
        for rank in range(len(NODES)):
            options = ["--cluster-nodes", ",".join(NODES), "--cluster-port", port, "--cluster-key-file",
                       self.folder / "key", "--node-rank", str(rank), "--checkpoint-dir", self.folder / "ckpt",
                       "--checkpoint-every", str(EVERY), "--restart-max", "3", "--grace", GRACE, "-n", str(RANKS)]
            with open(self.folder / f"node-{rank}.log", "a", encoding="utf-8") as log:
                self.nodes.append(subprocess.Popen([self.pchrun, *options, "--", *train], env=env, stdout=log,
                                                   stderr=log, stdin=subprocess.DEVNULL, start_new_session=True))

    def lines(self):
        found = sorted((self.folder / "ckpt/.pchrun").glob("events.*.jsonl"))
        return [line for path in found for line in path.read_text().splitlines()]

    def wait(self, what, is_there):
        """Until a line of a journal fits, and returns it."""
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            for event in map(json.loads, self.lines()):
                if is_there(event):
                    return event
            if any(node.poll() is not None for node in self.nodes):
                break
            time.sleep(0.05)
        logs = "".join(path.read_text() for path in sorted(self.folder.glob("node-*.log")))
        raise Fault(f"the job has not come to this: {what}\n{logs[-2000:]}")

    def wait_committed(self, attempt, count):
        """Until node 0 has committed so many steps in this attempt."""
        steps = set()

        def is_last(event):
            if (event["event"], event["node"], event["attempt"]) == ("committed", 0, attempt):
                steps.add(event["step"])
            return len(steps) >= count

        self.wait(f"commit {count} of attempt {attempt}", is_last)

    def pid_of(self, attempt, rank):
        self.wait(f"rank {rank} attaches", lambda event: event["event"] == "attached" and event["attempt"] == attempt
                  and event["rank"] == rank)
        report, end = self.folder / f"ckpt/.pchrun/report.{rank // RANKS}.json", time.monotonic() + DEADLINE_S
        while time.monotonic() < end:  # pchrun writes it a moment later
            told = json.loads(report.read_text())
            for shown in told["ranks"]:
                if (told["attempt"], shown["rank"], shown["attached"]) == (attempt, rank, True):
                    return shown["pid"]
            time.sleep(0.05)
        raise Fault(f"{report} does not name the process of rank {rank}")

    def ends(self, code):
        codes = [node.wait(timeout=DEADLINE_S) for node in self.nodes]
        self.nodes = []
        if codes != [code] * len(NODES):
            raise Fault(f"the nodes have ended with {codes}, not all with {code}")

    def kill(self):
        """Ends what still runs. The ranks of a pchrun that is killed end by themselves."""
        for node in self.nodes:
            node.kill()
            node.wait()


def run(job):
    """A user who watches would see it so: a notice, a crash, another notice, the end."""
    job.start()
    job.wait_committed(1, 2)
    time.sleep(0.6)
    job.nodes[1].send_signal(signal.SIGTERM)
    job.ends(42)
    time.sleep(PAUSE_S)
    job.start()
    victim = job.pid_of(2, len(NODES) * RANKS - 1)
    job.wait_committed(2, 1)
    time.sleep(4.4)
    os.kill(victim, signal.SIGSEGV)
    job.wait("a restart in place", lambda event: event["event"] == "attached" and event["generation"] == 1)
    time.sleep(3)
    job.nodes[0].send_signal(signal.SIGTERM)
    job.ends(42)
    time.sleep(PAUSE_S)
    job.start()
    job.ends(0)


def record(build, journal):
    with tempfile.TemporaryDirectory(prefix="pchrun-timeline.") as folder:
        job = Job(build, Path(folder))
        try:
            run(job)
        finally:
            job.kill()
        kept = [line for line in job.lines() if json.loads(line)["event"] in KINDS]
        kept.sort(key=lambda line: json.loads(line)["ts"])
        journal.write_text("\n".join(kept) + "\n")


# --- what the journal says ---

NEEDED = {"started": ["resume_step"], "attached": ["rank"], "notice": ["source", "of_node", "left_ms"],
          "round": ["phase", "step"], "committed": ["step"], "failed": ["of_node", "rank", "code", "last_step", "text"],
          "exit": ["exit_code", "last_step", "outcome"], "dropped": ["count"]}


def read(path):
    """The events of the journal, each with its time `t` in seconds."""
    events = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as fault:
        raise Fault(f"cannot read the journal {path}: {fault}") from None
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
            if event["event"] == "dropped":
                raise Fault(f"{path}:{number}: the journal lacks {event['count']} events, so no picture is true")
            if event["event"] in KINDS:
                [event[name] for name in ["node", "attempt", "generation", *NEEDED[event["event"]]]]
                event["t"] = datetime.fromisoformat(event["ts"]).timestamp()
                events.append(SimpleNamespace(**event))
        except (ValueError, TypeError, KeyError) as fault:
            raise Fault(f"{path}:{number}: this is not a line of a journal ({type(fault).__name__}: {fault})") from None
    events.sort(key=lambda event: event.t)
    return events


def life_of(events):
    """One generation: when its ranks trained, what it committed, how it ended."""
    def of(kind):
        return [event for event in events if event.event == kind]

    failed = of("failed")
    exits = of("exit")
    notice = of("notice")
    commits = {event.step: event for event in reversed(of("committed"))}
    life = SimpleNamespace(
        attempt=events[0].attempt, ranks=[(event.node, event.rank, event.t) for event in of("attached")],
        resumed=of("started")[0].resume_step, commits=sorted(commits.values(), key=lambda event: event.step),
        notice=notice[0] if notice else None, failed=failed[0] if failed else None, exits=exits,
        begin=of("started")[0].t, end=min(event.t for event in failed or exits),
        last=max(event.last_step for event in failed or exits))
    if life.notice:
        life.deadline = life.notice.t + life.notice.left_ms / 1000
        rounds = {event.step: event.t for event in reversed(of("round")) if event.phase == "decided"}
        saves = [(rounds[event.step], event.t) for event in life.commits
                 if event.t > life.notice.t and event.step in rounds]
        if not saves:
            raise Fault(f"attempt {life.attempt} has a notice, but no save before its deadline")
        life.trained = saves[-1][0] - life.notice.t - sum(end - begin for begin, end in saves[:-1])
    return life


def lives_of(events):
    parts = {}
    for event in events:
        parts.setdefault((event.attempt, event.generation), []).append(event)
    lives = []
    for key, part in sorted(parts.items()):
        kinds = {event.event for event in part}
        if not {"started", "attached"} <= kinds or not {"exit", "failed"} & kinds:
            raise Fault(f"the journal of attempt {key[0]}, generation {key[1]} lacks its start or its end")
        lives.append(life_of(part))
    if not lives:
        raise Fault("the journal is empty")
    for life, after in zip(lives, [*lives[1:], None]):
        life.after = after
        life.lost = life.last - after.resumed if after else 0
    return lives


def caption(lives):
    nodes = len({node for node, *_ in lives[0].ranks})
    words = [f"{nodes} nodes with {len(lives[0].ranks) // nodes} ranks each train {lives[-1].last} steps in "
             f"{lives[-1].end - lives[0].begin:.0f} s."]
    for life in lives:
        if life.notice:
            notice = life.notice
            words.append(f"At {notice.t - lives[0].begin:.0f} s node {notice.of_node} gets {notice.source}, with "
                         f"{notice.left_ms / 1000:.0f} s left: the job trains on for {life.trained:.1f} s, saves step "
                         f"{life.commits[-1].step} on every rank, and exits with {life.exits[0].exit_code}; "
                         f"{life.lost} steps are lost.")
        elif life.failed:
            words.append(f"At {life.failed.t - lives[0].begin:.0f} s rank {life.failed.rank} crashes "
                         f"({life.failed.text.split(' ended with ')[-1]}): {life.lost} steps are trained twice.")
    return " ".join(words)


# --- the picture ---

WIDTH, LEFT, RIGHT = 1000, 104, 944
LANES_TOP, LANE, LANE_GAP, NODE_GAP = 164, 34, 4, 18
PILL = 36
LETTER = 15  # the width of a letter, at most

STYLE = """
svg { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 22px;
      --paper: #ffffff; --ink: #1f2328; --muted: #59636e; --train: #4a86cf; --grace: #bf8700; --lost: #c9d1d9;
      --bad: #cf222e; --good: #1a7f37; --tint: #fff3cf; --edge: #d1d9e0 }
@media (prefers-color-scheme: dark) { svg {
      --paper: #0d1117; --ink: #e6edf3; --muted: #9198a1; --train: #3a71b8; --grace: #9e6a03; --lost: #30363d;
      --bad: #f85149; --good: #2ea043; --tint: #2b2210; --edge: #30363d } }
text { fill: var(--ink) } .muted { fill: var(--muted) } .on { fill: #ffffff } .strong { font-weight: 600 }
.paper { fill: var(--paper); stroke: var(--edge) } .train { fill: var(--train) } .grace { fill: var(--grace) }
.lost { fill: url(#hatch) } .tint { fill: var(--tint) } .exit { fill: #59636e } .good { fill: var(--good) }
.bad { fill: var(--bad) } .kept { fill: var(--good) } .save { stroke: var(--ink); stroke-width: 4 }
.deadline { stroke: var(--grace); stroke-width: 3; stroke-dasharray: 6 5 }
.axis { stroke: var(--edge); stroke-width: 2 }
.arrow { stroke: var(--bad); stroke-width: 3 } .cross { stroke: #ffffff; stroke-width: 3.5 }
.stripe { stroke: var(--bad); stroke-width: 4 } .ground { fill: var(--lost) }
""".strip()
HATCH = ('<pattern id="hatch" width="10" height="10" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
         '<rect class="ground" width="10" height="10"/><path class="stripe" d="M2 0V10"/></pattern>')


class Picture:
    """The elements of the drawing, from back to front."""

    def __init__(self, lives):
        self.lives = lives
        self.begin = lives[0].begin
        self.scale = (RIGHT - LEFT) / (lives[-1].end - self.begin)
        self.ranks = sorted((node, rank) for node, rank, _ in lives[0].ranks)
        self.tops, y = {}, LANES_TOP
        for i, (node, rank) in enumerate(self.ranks):
            if i and self.ranks[i - 1][0] != node:
                y += NODE_GAP - LANE_GAP
            self.tops[rank] = y
            y += LANE + LANE_GAP
        self.bottom = y - LANE_GAP
        self.height = self.bottom + 166
        self.parts = []

    def x(self, t):
        return LEFT + (t - self.begin) * self.scale

    def add(self, part):
        self.parts.append(part)

    def rect(self, kind, x0, x1, y, height, radius=0):
        self.add(f'<rect class="{kind}" x="{x0:.1f}" y="{y:.1f}" width="{max(x1 - x0, 1):.1f}" height="{height:.1f}"'
                 f'{f" rx={chr(34)}{radius}{chr(34)}" if radius else ""}/>')

    def path(self, kind, way):
        self.add(f'<path class="{kind}" d="{way}"/>')

    def line(self, kind, x, y0, y1):
        self.path(kind, f"M{x:.1f} {y0:.1f}V{y1:.1f}")

    def text(self, x, y, words, kind="", anchor="start"):
        self.add(f'<text x="{x:.1f}" y="{y:.1f}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""} '
                 f'text-anchor="{anchor}">{escape(str(words))}</text>')

    def node_lanes(self, node):
        tops = [self.tops[rank] for of, rank in self.ranks if of == node]
        return min(tops), max(tops) + LANE

    def draw_ground(self):
        self.add(f'<rect class="paper" x="1" y="1" width="{WIDTH - 2}" height="{self.height - 2}" rx="10"/>')
        for life in self.lives:
            if life.notice:
                self.rect("tint", self.x(life.notice.t), self.x(life.deadline), LANES_TOP - 12,
                          self.bottom - LANES_TOP + 24)
        base = self.height - 40
        self.path("axis", f"M{LEFT} {base}H{RIGHT}")
        for second in range(0, int(self.lives[-1].end - self.begin) + 1, 10):
            x = self.x(self.begin + second)
            self.line("axis", x, base, base + 7)
            self.text(x, base + 29, f"{second} s", "muted", "middle")

    def draw_bars(self, life):
        commits = [event for event in life.commits if event.t <= life.end]
        kept = commits[-1].t if commits else life.begin
        for node, rank, t in life.ranks:
            y, turn = self.tops[rank], life.notice.t if life.notice else life.end
            self.rect("train", self.x(t), self.x(min(turn, kept) if life.failed else turn), y, LANE)
            if life.failed:
                self.rect("lost", self.x(kept), self.x(life.end), y, LANE)
            elif life.notice:
                self.rect("grace", self.x(turn), self.x(life.commits[-1].t), y, LANE)
            if life is self.lives[0]:
                self.text(self.x(t) + 10, y + 25, f"rank {rank}", "on")
        for event in commits:
            self.line("save", self.x(event.t), LANES_TOP - 4, self.bottom + 12)

    def draw_notice(self, life):
        x, (top, end) = self.x(life.notice.t), self.node_lanes(life.notice.of_node)
        self.line("deadline", self.x(life.deadline), LANES_TOP - 12, self.bottom + 12)
        self.line("arrow", x, 70, (top + end) / 2)
        self.add(f'<circle class="bad" cx="{x:.1f}" cy="{(top + end) / 2:.1f}" r="9"/>')
        self.text(x + 8, 86, life.notice.source, "bad strong")
        self.text(x + 8, 113, f"to node {life.notice.of_node}")
        self.text(x + 8, 140, f"{life.notice.left_ms / 1000:.0f} s left")
        last = self.x(life.commits[-1].t)
        self.text((last + self.x(life.deadline)) / 2, self.bottom + 70, f"{life.lost} steps lost", "kept", "middle")

    def draw_crash(self, life):
        x, top = self.x(life.failed.t), self.tops[life.failed.rank]
        number = life.failed.code - 128
        cause = signal.Signals(number).name if number in set(signal.Signals) else f"exit code {life.failed.code}"
        self.line("arrow", x, 70, top + LANE / 2)
        self.add(f'<circle class="bad" cx="{x:.1f}" cy="{top + LANE / 2:.1f}" r="13"/>')
        self.path("cross", f"M{x - 5:.1f} {top + LANE / 2 - 5:.1f}l10 10m0 -10l-10 10")
        self.text(x - 8, 86, "crash", "bad strong", "end")
        self.text(x - 8, 113, f"rank {life.failed.rank}", "", "end")
        self.text(x - 8, 140, cause, "", "end")
        resumed = f", again from step {life.after.resumed}" if life.after else ""
        self.text(x, self.bottom + 101, f"{life.lost} steps lost{resumed}", "bad", "middle")

    def draw_steps(self):
        """The steps below the saves. The last of each attempt and those at a crash come first, others if they fit."""
        y, labels = self.bottom + 36, []
        for life in self.lives:
            end, after = self.x(life.end), life.after
            if life.failed:
                labels += [(0, end + 8, life.last, "bad")]
                labels += [(0, self.x(event.t), event.step, "") for event in life.commits[-1:]]
            else:
                labels += [(0, (end + self.x(after.begin)) / 2 if after else end, life.commits[-1].step, "")]
            labels += [(1, self.x(event.t), event.step, "") for event in life.commits[:-1]]
        taken = []
        for _, x, step, kind in sorted(labels):
            half = len(str(step)) * LETTER / 2
            if all(x + half < left or right < x - half for left, right in taken):
                taken.append((x - half, x + half))
                self.text(x, y, step, kind, "middle")

    def draw_exit(self, life):
        code = life.exits[0].exit_code
        end = self.x(life.end)
        x = (end + self.x(life.after.begin)) / 2 if life.after else end + PILL / 2 + 6
        for node in sorted({node for node, _ in self.ranks}):
            top, bottom = self.node_lanes(node)
            self.rect("exit" if code else "good", x - PILL / 2, x + PILL / 2, (top + bottom) / 2 - 17, 34, 8)
            self.text(x, (top + bottom) / 2 + 8, code, "on strong", "middle")

    def draw_heads(self):
        begins = {}
        for life in self.lives:
            x = self.x(begins.setdefault(life.attempt, life.begin))
            if life.exits:
                self.text(x, 38, f"start {life.attempt}: exit {life.exits[0].exit_code}", "muted")

    def draw(self):
        self.draw_ground()
        for node in sorted({node for node, _ in self.ranks}):
            top, end = self.node_lanes(node)
            self.text(14, (top + end) / 2 + 8, f"node {node}")
        self.text(14, self.bottom + 36, "saved step")
        for life in self.lives:
            self.draw_bars(life)
        for life in self.lives:
            if life.notice:
                self.draw_notice(life)
            if life.failed:
                self.draw_crash(life)
            else:
                self.draw_exit(life)
        self.draw_heads()
        self.draw_steps()
        body = "\n".join(self.parts)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" role="img">\n'
                f"<title>{escape(caption(self.lives))}</title>\n<style>\n{STYLE}\n</style>\n<defs>{HATCH}</defs>\n"
                f"{body}\n</svg>\n")


def draw(journal, picture):
    lives = lives_of(read(journal))
    picture.write_text(Picture(lives).draw(), encoding="utf-8")
    print(caption(lives))


def main(words):
    if words and words[0] == "run" and len(words) <= 2:
        record(*(words[1:] or ["build"]), HERE / "timeline.jsonl")
        words = ["draw"]
    if words and words[0] == "draw" and len(words) <= 2:
        draw(Path(*(words[1:] or [HERE / "timeline.jsonl"])), HERE / "timeline.svg")
        return 0
    print(__doc__.strip(), file=sys.stdout if words == ["--help"] else sys.stderr)
    return 0 if words == ["--help"] else 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Fault as fault:
        sys.exit(f"timeline: {fault}")
