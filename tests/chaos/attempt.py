# SPDX-License-Identifier: Apache-2.0
"""attempt: one start of the job on all its nodes, with the faults of the plan.

It owns the processes that it starts. run() returns when all supervisors have ended, or raises Late. end()
leaves no process in either case.
"""

import json
import os
import random
import re
import signal
import subprocess
import time

import harness
import lab as laboratory
from harness import Late
from plan import STEPS

NODE_MARK = "CHAOS_NODE"
TICK_S = 0.004
# Processes of a killed supervisor end at their next step, or the kernel kills them.
ORPHANS_S = 5.0


class Attempt:
    """fired: the faults that found a target. codes: the exit code of each node that has ended."""

    def __init__(self, place, plan, number, before=()):
        """before: the attempts that still have supervisors."""
        self.place, self.plan, self.number, self.before = place, plan, number, before
        self.faults = plan.attempts[number - 1]
        self.folder = place.folder / f"attempt{number}"
        self.folder.mkdir()
        self.rng = random.Random(f"{plan.seed}.{number}")
        self.jobs, self.fired, self.codes = {}, [], {}
        self.is_awaited = False
        self.stopped = {}  # by fault: the processes that it has stopped
        self.begin = time.monotonic()
        # New ports: nodes that linger from an older attempt may still hold theirs.
        self.port, self.charlm_port = place.port + 10 * number, place.charlm_port + 10 * number
        if place.relay:
            place.relay.there = (laboratory.address(0), self.port)

    def note(self, text):
        self.place.note(f"{time.monotonic() - self.begin:7.3f} {text}")

    # --- start and end ---

    def run(self):
        """Runs the attempt to its end. The exit codes are in codes."""
        starts = [(self.rng.uniform(0, 0.1), lambda node=node: self._start(node))
                  for node in range(self.plan.nnodes)]
        events = starts + [(self.rng.uniform(0, 0.6), old.resume_all) for old in self.before]
        events += [event for fault in self.faults for event in self._events_of(fault)]
        end = self.begin + self.plan.deadline_s(self.faults)
        for at, act in sorted(events, key=lambda event: event[0]):
            if not self._wait(self.begin + at):
                break
            act()
        self.place.heal()
        if not self.lingering():
            self.resume_all()
        if self._wait(end):
            raise Late(f"the attempt has not ended within {end - self.begin:.1f} s")
        for old in self.before:
            old.outlast(end)
        if not self.lingering():
            self._no_process_left()
        else:
            self.note(f"nodes {self.lingering()} linger, and are not waited for")

    def outlast(self, until):
        """Waits for the lingering nodes."""
        self.resume_all()
        self.is_awaited = True
        if self._wait(until):
            raise Late(f"nodes of attempt {self.number} do not end: {self.lingering()}")

    def lingering(self):
        """The nodes that still run while the next attempt begins. None before the training has started:
        this node 0 may wait for its nodes longer than the next node 0 waits for the lock."""
        if self.is_awaited or self.number == len(self.plan.attempts):
            return set()
        nodes = self.plan.lingering(self.fired) - set(self.codes)
        return nodes if nodes and self.is_started() else set()

    def _wait(self, until):
        """Waits until this instant and returns True, or False as soon as all supervisors have ended."""
        while True:
            for node, job in self.jobs.items():
                if node not in self.codes and job.process.poll() is not None:
                    self.codes[node] = job.process.returncode
                    self.note(f"node {node} has ended with {self.codes[node]}")
            if self.codes and len(self.codes) + len(self.lingering()) == self.plan.nnodes:
                return False
            left = until - time.monotonic()
            if left <= 0:
                return True
            time.sleep(min(left, TICK_S))

    def _no_process_left(self):
        harness.wait_until(lambda: not harness.marked(self.place.mark), "no process to be left", ORPHANS_S, TICK_S)

    def end(self):
        """Kills and reaps all processes that a failed attempt has left."""
        for pid in harness.marked(self.place.mark):
            harness.kill_quietly(pid)
        for job in self.jobs.values():
            job.process.wait(10)
        harness.reap_adopted()

    def _start(self, node):
        plan, place = self.plan, self.place
        entry = f"{laboratory.HUB}:{place.relay_port}" if plan.has_proxy else \
            f"{laboratory.address(0)}:{self.port}"
        entries = [entry] + [f"{laboratory.address(n)}:{self.port}" for n in range(1, plan.nnodes)]
        disk = place.disk_of(node)
        argv = [place.pchrun, "--cluster-nodes", ",".join(entries), "--node-rank", str(node),
                "--cluster-bind", f"{laboratory.address(0)}:{self.port}", *plan.options(),
                *(["--cluster-key-file", place.key] if plan.has_key else ["--cluster-insecure"]),
                "--checkpoint-dir", disk, "--report", self.folder / "report.{node_rank}.json",
                "--", *self._command(disk)]
        out, err = (self.folder / f"{name}.{node}" for name in ("out", "err"))
        with place.lab.inside(place.lab.nodes[node]), out.open("wb") as o, err.open("wb") as e:
            process = subprocess.Popen([str(word) for word in argv], env=place.env_of(node), stdout=o,
                                       stderr=e, stdin=subprocess.DEVNULL, cwd=self.folder,
                                       process_group=0)
        self.jobs[node] = harness.Job(process, out, err, place.mark)

    def _command(self, disk):
        plan, place = self.plan, self.place
        if plan.is_charlm:
            return [place.charlm, "--dir", disk, "--steps", STEPS, "--save-every", plan.save_every,
                    "--step-time", plan.pace_ms, "--skew", plan.skew_ms, "--log-every", 1,
                    "--join-timeout", 10, "--root", laboratory.address(0), "--port", self.charlm_port]
        script = f"open last={STEPS}\nspree {STEPS} {plan.pace_ms} {plan.save_every} at://shelf\n"
        path = self.folder / "script"
        path.write_text(script)
        return ["sh", "-c", f"exec {place.pchclient} <{path}"]

    # --- faults ---

    def _events_of(self, fault):
        """(when, action) of the fault's beginning and, if it lasts, of its end."""
        def begin():
            has_fired = FAULTS[fault.kind](self, fault) is not False
            self.note(f"{fault.kind} node {fault.node}" + ("" if has_fired else ": there is no target"))
            if has_fired:
                self.fired.append(fault)

        def end():
            if fault in self.fired:
                self.note(f"{fault.kind} is over")
                ENDS[fault.kind](self, fault)
        return [(fault.at, begin)] + ([(fault.at + fault.lasts, end)] if fault.lasts else [])

    def _supervisor(self, fault):
        """The pid of the node's supervisor, if it lives."""
        job = self.jobs.get(fault.node)
        return job.pid if job and job.process.poll() is None else None

    def _proc(self, fault):
        """The pid of one of the node's training processes. Forks of pchrun and pchrun-logs do not count."""
        pid = self._supervisor(fault)
        own = os.path.basename(self.place.pchrun)
        commands = sorted(child for child in (harness.commands_of(pid) if pid else [])
                          if not harness.status_of(child).get("Name", own).startswith(own))
        return commands[fault.local % len(commands)] if commands else None

    def _send(self, pid, number):
        if not pid:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def _of_node(self, node):
        needle = f"{NODE_MARK}={node}".encode()
        return [pid for pid in harness.marked(self.place.mark)
                if needle in harness.read_proc(pid, "environ").split(b"\0")]

    def _stop(self, fault, pids):
        self.stopped[fault] = [pid for pid in pids if self._send(pid, signal.SIGSTOP)]
        return bool(self.stopped[fault])

    def _resume(self, fault):
        for pid in self.stopped.pop(fault, []):
            self._send(pid, signal.SIGCONT)

    def resume_all(self):
        for fault in list(self.stopped):
            self._resume(fault)

    def _power_off(self, fault):
        """The node sends nothing any more, not even a FIN. The next attempt finds it mended."""
        if not self._supervisor(fault):
            return False
        self.place.cut(fault.node)
        for pid in self._of_node(fault.node):
            harness.kill_quietly(pid)
        return True

    def _tell(self, node, number):
        """Sends pchrun a signal, once it takes it. An earlier signal would end any program."""
        job = self.jobs.get(node)
        return bool(job and harness.takes(job.pid, number) and self._send(job.pid, number))

    def _notice_to_all(self):
        return any([self._tell(node, signal.SIGTERM) for node in self.jobs])

    # --- output and reports ---

    def report(self, node):
        """The report of the node's supervisor, or {}."""
        path = self.folder / f"report.{node}.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def is_started(self):
        """Have all nodes joined, so that the training was started?"""
        return bool(self.found(r"all \d+ nodes are there after .*: starting$"))

    def has_chief(self):
        """Is node 0 there, so that all nodes end alike? Without it each node decides for itself."""
        return self.is_started() and 0 not in self.hurt

    @property
    def hurt(self):
        return self.plan.hurt(self.fired)

    def unhurt(self):
        return [node for node in range(self.plan.nnodes) if node not in self.hurt]

    def found(self, pattern):
        """All matches in the output of the nodes."""
        return [match for job in self.jobs.values()
                for match in re.findall(pattern, job.out + job.err, re.M)]


# Each fault of plan.KINDS as a function. It returns False if the fault has no target.
FAULTS = {
    "kill_proc": lambda a, fault: a._send(a._proc(fault), signal.SIGKILL),
    "segv_proc": lambda a, fault: a._send(a._proc(fault), signal.SIGSEGV),
    "term_proc": lambda a, fault: a._send(a._proc(fault), signal.SIGTERM),
    "stop_proc": lambda a, fault: a._stop(fault, [a._proc(fault)]),
    "stop_supervisor": lambda a, fault: a._stop(fault, [a._supervisor(fault)]),
    "freeze_node": lambda a, fault: a._stop(fault, a._of_node(fault.node)),
    "kill_supervisor": lambda a, fault: a._send(a._supervisor(fault), signal.SIGKILL),
    "power_off": lambda a, fault: a._power_off(fault),
    "interrupt": lambda a, fault: a._tell(fault.node, signal.SIGINT),
    "notice": lambda a, fault: a._tell(fault.node, signal.SIGTERM),
    "notice_to_all": lambda a, fault: a._notice_to_all(),
    "checkpoint": lambda a, fault: a._tell(fault.node, signal.SIGUSR2),
    "cut": lambda a, fault: a.place.cut(fault.node),
    "loss": lambda a, fault: a.place.lose(fault.amount),
    "reset": lambda a, fault: a.place.relay.cut(is_reset=True),
    "stall": lambda a, fault: a.place.relay.stall(),
    "half_open": lambda a, fault: a.place.relay.half_open(),
    "delay": lambda a, fault: setattr(a.place.relay, "delay_s", 0.05),
    "split": lambda a, fault: setattr(a.place.relay, "splits", True),
    "full_disk": lambda a, fault: a.place.fill(fault.node),
    "clock": lambda a, fault: a.place.set_clock(fault.node, fault.amount),
}
# The functions that end the faults that last.
ENDS = {
    **dict.fromkeys(["stop_proc", "stop_supervisor", "freeze_node"], Attempt._resume),
    "cut": lambda a, fault: a.place.mend(fault.node),
    "loss": lambda a, fault: a.place.lose(0),
    "stall": lambda a, fault: setattr(a.place.relay, "is_stalled", False),
    "delay": lambda a, fault: setattr(a.place.relay, "delay_s", 0.0),
    "split": lambda a, fault: setattr(a.place.relay, "splits", False),
    "full_disk": lambda a, fault: a.place.free(fault.node),
}
