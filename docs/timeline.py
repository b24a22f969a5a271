#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""timeline: runs a small job that is preempted twice and crashes once, and lets pchctl draw its timeline.

usage: docs/timeline.py run [BUILD]     run the job with the programs of the folder BUILD [build], in a minute;
                                        keep its state in docs/timeline, and draw docs/timeline.svg from it
       docs/timeline.py draw [BUILD]    draw docs/timeline.svg anew from the kept state
       docs/timeline.py --help          show this text

The state is node 0's ledger, and what its journal says of notices, failures and ends; pchctl(1) says what they mean. A
failure is one line on standard error, exit status 1.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATE, PICTURE = HERE / "timeline", HERE / "timeline.svg"
KINDS = {"notice", "failed", "exit"}


class Fault(Exception):
    """The fault, in a line for the user."""


def program(build, name):
    path = Path(build).resolve() / name
    if not os.access(path, os.X_OK):
        raise Fault(f"{path} is not there: first build it, or name the folder of the build")
    return path


# --- the job ---

NODES = ["127.0.0.1", "127.0.0.2"]
RANKS = 2  # of a node
GRACE = "7s"
EVERY = 80
STEPS = 660
STEP_MS, SAVE_MS = 60, 250
PAUSE_S = 1.6  # until the scheduler starts the job again
DEADLINE_S = 60


def free_port(address):
    with socket.socket() as sock:
        sock.bind((address, 0))
        return str(sock.getsockname()[1])


class Job:
    """The nodes of one start, and the journals of all starts."""

    def __init__(self, build, folder):
        self.pchrun, self.charlm = (program(build, name) for name in ("src/pchrun", "contrib/examples/charlm"))
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
                       self.folder / "key", "--node-rank", str(rank), "--job", "charlm", "--checkpoint-dir",
                       self.folder / "ckpt", "--checkpoint-every", str(EVERY), "--restart-max", "3", "--grace", GRACE,
                       "-n", str(RANKS)]
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
    time.sleep(2.4)
    os.kill(victim, signal.SIGSEGV)
    job.wait("a restart in place", lambda event: event["event"] == "attached" and event["generation"] == 1)
    time.sleep(3)
    job.nodes[0].send_signal(signal.SIGTERM)
    job.ends(42)
    time.sleep(PAUSE_S)
    job.start()
    job.ends(0)


def keep(state):
    """Copies what the picture needs. pchrun has ended, so nothing changes meanwhile."""
    STATE.mkdir(exist_ok=True)
    (STATE / "ledger").write_bytes((state / "ledger").read_bytes())
    lines = (state / "events.0.jsonl").read_text().splitlines(keepends=True)
    (STATE / "events.0.jsonl").write_text("".join(line for line in lines if json.loads(line)["event"] in KINDS))


def record(build):
    with tempfile.TemporaryDirectory(prefix="pchrun-timeline.") as folder:
        job = Job(build, Path(folder))
        try:
            run(job)
        finally:
            job.kill()
        keep(job.folder / "ckpt/.pchrun")


def draw(build):
    done = subprocess.run([program(build, "src/pchctl"), "timeline", STATE, "-o", PICTURE], check=False, text=True,
                          capture_output=True)
    if done.returncode:
        raise Fault(done.stderr.strip())


def main(words):
    if words and words[0] in ("run", "draw") and len(words) <= 2:
        build = words[1] if len(words) > 1 else "build"
        if words[0] == "run":
            record(build)
        draw(build)
        return 0
    print(__doc__.strip(), file=sys.stdout if words == ["--help"] else sys.stderr)
    return 0 if words == ["--help"] else 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Fault as fault:
        sys.exit(f"timeline: {fault}")
