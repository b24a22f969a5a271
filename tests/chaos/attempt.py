# SPDX-License-Identifier: Apache-2.0
"""attempt: one start of the job on all its nodes, with the faults of the plan.

It owns the processes that it starts. run() returns when all supervisors have ended, or raises Late. end()
leaves no process in either case. Where the job outlives the loss of a node, that node has several supervisors
in turn: scheduler.py starts them.
"""

import heapq
import itertools
import json
import os
import random
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import harness
import lab as laboratory
from harness import Late
from plan import CUTS, KINDS, LOSSES, STEPS, Fault
from scheduler import Scheduler

HOST_MARK = "CHAOS_HOST"
TICK_S = 0.004
# Processes of a killed supervisor end at their next step, or the kernel kills them.
ORPHANS_S = 5.0


@dataclass(eq=False)
class Supervisor:
    """One pchrun. code: its exit code, or None."""
    node: int
    host: int
    job: harness.Job
    report: Path
    code: int | None = None


class Attempt:
    """fired: the faults that found a target. codes: the exit code of each node that has ended."""

    def __init__(self, place, plan, number, before=()):
        """before: the attempts that still have supervisors."""
        self.place, self.plan, self.number, self.before = place, plan, number, before
        self.faults = plan.attempts[number - 1]
        self.folder = place.folder / f"attempt{number}"
        self.folder.mkdir()
        self.trail = self.folder / "trail"
        self.rng = random.Random(f"{plan.seed}.{number}")
        self.supervisors, self.fired = [], []
        self.targets = {}  # by fault: the supervisor of its node, or None before the start
        self.scheduler = Scheduler(self, plan.rescues[number - 1])
        self.rescued = {}  # by given up supervisor: the rescue
        self.off = set()  # the hosts without power
        self.woken = {}  # by pid: when a frozen process went on, in nanoseconds
        self.is_awaited = False
        self.stopped = {}  # by fault: the processes that it has stopped
        self.begin = time.monotonic()
        self.deadline = self.begin + plan.deadline_s(self.faults)
        self.events, self.count = [], itertools.count()  # a heap of (when, number, action)
        # New ports: nodes that linger from an older attempt may still hold theirs.
        self.port, self.charlm_port = place.port + 10 * number, place.charlm_port + 10 * number
        if place.relay:
            place.relay.there = (laboratory.address(0), self.port)

    def note(self, text):
        self.place.note(f"{time.monotonic() - self.begin:7.3f} {text}")

    def _at(self, seconds, act):
        heapq.heappush(self.events, (self.begin + seconds, next(self.count), act))

    def after(self, seconds, act):
        """Acts so many seconds from now."""
        self._at(time.monotonic() - self.begin + seconds, act)

    # --- start and end ---

    def run(self):
        """Runs the attempt to its end. The exit codes are in codes."""
        for node in range(self.plan.nnodes):
            self._at(self.rng.uniform(0, 0.1), lambda node=node: self.start(node, node))
        for old in self.before:
            self._at(self.rng.uniform(0, 0.6), old.resume_all)
        for fault in self.faults:
            self._add_events_of(fault)
        self._at(max([0.6, *(fault.at + fault.lasts for fault in self.faults)]), self._calm)
        self._wait()
        self.off.clear()
        self._calm()
        if self.plan.wait_s:
            self._find_pauses()
        for old in self.before:
            old.outlast(self.deadline)
        if not self.lingering():
            self._no_process_left()
        else:
            self.note(f"nodes {self.lingering()} linger, and are not waited for")

    def _calm(self):
        self.place.heal(self.off)
        if not self.lingering():
            self.resume_all()

    def _find_pauses(self):
        """A pchrun whose lease ends while it cannot run has to leave, and node 0 then has lost it. So a pause that no
        fault has made counts as a fault."""
        is_frozen = {self.targets[fault] for fault in self.fired if fault.kind == "freeze_node"}
        for one in self.supervisors:
            pauses = [int(ms) for ms in re.findall(r"time: pchrun did not run for (\d+)ms", one.job.err)]
            if pauses and one not in is_frozen:
                self.note(f"paused: node {one.node}, pid {one.job.pid}: {max(pauses)} ms")
                fault = Fault("paused", 0.0, one.node, one.job.pid, max(pauses) / 1000, 0)
                self.targets[fault] = one
                self.fired.append(fault)

    def was_paused(self):
        return any(fault.kind == "paused" for fault in self.fired)

    def outlast(self, until):
        """Waits for the lingering nodes."""
        self.resume_all()
        self.is_awaited = True
        self.deadline = until
        self._wait()

    def lingering(self):
        """The nodes that still run while the next attempt begins. None before the training has started:
        this node 0 may wait for its nodes longer than the next node 0 waits for the lock."""
        if self.is_awaited or self.number == len(self.plan.attempts):
            return set()
        nodes = self.plan.lingering(self.fired)
        nodes = nodes and nodes - set(self.codes)
        return nodes if nodes and self.is_started() else set()

    def _wait(self):
        """Lets all events happen until all supervisors have ended, without the lingering ones."""
        while not self._is_over():
            if self.events and self.events[0][0] <= time.monotonic():
                heapq.heappop(self.events)[2]()
            elif time.monotonic() > self.deadline:
                alive = [one.node for one in self.supervisors if one.code is None]
                raise Late(f"attempt {self.number} has not ended within {self.deadline - self.begin:.1f} s: "
                           f"supervisors of the nodes {alive} live")
            else:
                time.sleep(TICK_S)
        if not self.is_awaited:
            self.events.clear()

    def _is_over(self):
        for one in self.supervisors:
            if one.code is None and one.job.process.poll() is not None:
                self._see_end(one)
        alive = {one.node for one in self.supervisors if one.code is None}
        started = {one.node for one in self.supervisors}
        return len(started) == self.plan.nnodes and (not alive or alive <= self.lingering())

    def _see_end(self, supervisor):
        supervisor.code = supervisor.job.process.returncode
        self.note(f"node {supervisor.node} (pid {supervisor.job.pid}) has ended with {supervisor.code}")
        if supervisor.code != 0:
            self.scheduler.give_up(supervisor)

    def _no_process_left(self):
        harness.wait_until(lambda: not harness.marked(self.place.mark), "no process to be left", ORPHANS_S, TICK_S)

    def end(self):
        """Kills and reaps all processes that a failed attempt has left."""
        for pid in harness.marked(self.place.mark):
            harness.kill_quietly(pid)
        for supervisor in self.supervisors:
            supervisor.job.process.wait(10)
        harness.reap_adopted()

    def start(self, node, host):
        """Starts a supervisor of this node. Returns it."""
        plan, place, number = self.plan, self.place, len(self.supervisors)
        entry = f"{laboratory.HUB}:{place.relay_port}" if plan.has_proxy else \
            f"{laboratory.address(0)}:{self.port}"
        entries = [entry] + [f"{laboratory.address(n)}:{self.port}" for n in range(1, plan.nnodes)]
        disk = place.disk_of(node)
        report = self.folder / f"report.{node}.{number}.json"
        argv = [place.pchrun, "--cluster-nodes", ",".join(entries), "--node-rank", str(node),
                "--cluster-bind", f"{laboratory.address(0)}:{self.port}", *plan.options(),
                *(["--cluster-key-file", place.key] if plan.has_key else ["--cluster-insecure"]),
                "--checkpoint-dir", disk, "--report", report, "--", *self._command(disk)]
        out, err = (self.folder / f"{name}.{node}.{number}" for name in ("out", "err"))
        with place.lab.inside(place.lab.hosts[host]), out.open("wb") as o, err.open("wb") as e:
            process = subprocess.Popen([str(word) for word in argv], env=place.env_of(node, host, self.trail),
                                       stdout=o, stderr=e, stdin=subprocess.DEVNULL, cwd=self.folder,
                                       process_group=0)
        self.supervisors.append(Supervisor(node, host, harness.Job(process, out, err, place.mark), report))
        self.deadline = max(self.deadline, time.monotonic() + plan.calm_s)
        return self.supervisors[-1]

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

    def _add_events_of(self, fault):
        """The fault's beginning and, if it lasts, its end."""
        def begin():
            self.targets[fault] = self._newest(fault.node)
            has_fired = FAULTS[fault.kind](self, fault) is not False
            self.note(f"{fault.kind} node {fault.node}" + ("" if has_fired else ": there is no target"))
            if has_fired:
                self.fired.append(fault)
            if has_fired and fault.kind in LOSSES and self.plan.harmful([fault]) and self.targets[fault]:
                self.scheduler.give_up(self.targets[fault])

        def end():
            if fault in self.fired:
                self.note(f"{fault.kind} is over")
                ENDS[fault.kind](self, fault)
        self._at(fault.at, begin)
        if fault.lasts:
            self._at(fault.at + fault.lasts, end)

    def _newest(self, node):
        """The supervisor of the node that was started last, if possible one that lives."""
        own = [one for one in self.supervisors if one.node == node]
        return max(own, key=lambda one: (one.job.process.poll() is None, own.index(one)), default=None)

    def _host(self, fault):
        return self.targets[fault].host if self.targets[fault] else fault.node

    def _supervisor(self, fault):
        """The pid of the node's supervisor, if it lives."""
        target = self.targets[fault]
        return target.job.pid if target and target.job.process.poll() is None else None

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

    def _of_host(self, fault):
        needle = f"{HOST_MARK}={self._host(fault)}".encode()
        return [pid for pid in harness.marked(self.place.mark)
                if needle in harness.read_proc(pid, "environ").split(b"\0")]

    def _stop(self, fault, pids):
        self.stopped[fault] = [pid for pid in pids if self._send(pid, signal.SIGSTOP)]
        return bool(self.stopped[fault])

    def _resume(self, fault):
        """A pchrun that goes on first continues its ranks, and may have killed them before we do."""
        for pid in self.stopped.pop(fault, []):
            if fault.kind == "freeze_node":
                self.woken[pid] = time.monotonic_ns()
            self._send(pid, signal.SIGCONT)

    def resume_all(self):
        for fault in list(self.stopped):
            self._resume(fault)

    def _power_off(self, fault):
        """The host sends nothing any more, not even a FIN. In the next attempt it has power again."""
        if not self._supervisor(fault):
            return False
        self.place.cut(self._host(fault))
        self.off.add(self._host(fault))
        for pid in self._of_host(fault):
            harness.kill_quietly(pid)
        return True

    def _tell(self, node, number):
        """Sends pchrun a signal, once it takes it. An earlier signal would end any program."""
        supervisor = self._newest(node)
        return bool(supervisor and harness.takes(supervisor.job.pid, number) and
                    self._send(supervisor.job.pid, number))

    def _notice_to_all(self):
        return any([self._tell(node, signal.SIGTERM) for node in range(self.plan.nnodes)])

    # --- output and reports ---

    def holder(self, node):
        """The supervisor that has the place of the node: that which node 0 has taken last, else the last to join."""
        own = [one for one in self.supervisors if one.node == node]
        if len(own) < 2:
            return own[0] if own else None
        pids = re.findall(rf"node {node} \(\S+\) is replaced by \S+, pid (\d+)", self.holder(0).job.err)
        taken = [one for one in own if pids and one.job.pid == int(pids[-1])]
        return (taken or [one for one in own if f"joined as node {node} of" in one.job.err] or own)[-1]

    @property
    def codes(self):
        holders = [self.holder(node) for node in range(self.plan.nnodes)]
        return {one.node: one.code for one in holders if one and one.code is not None}

    def has_node_0_ended(self):
        return any(one.node == 0 and one.job.process.poll() is not None for one in self.supervisors)

    def report(self, node):
        """The report of the node's supervisor, or {}."""
        path = self.holder(node).report
        return json.loads(path.read_text()) if path.exists() else {}

    def is_started(self):
        """Have all nodes joined, so that the training was started?"""
        return bool(self.found(r"all \d+ nodes are there after .*: starting$"))

    def generations(self):
        """How often node 0 has started the ranks again in place."""
        return len(re.findall(r"generation \d+ begins", self.holder(0).job.err))

    def has_chief(self):
        """Is node 0 there, so that all nodes end alike? Without it each node decides for itself."""
        return self.is_started() and 0 not in self.hurt

    @property
    def hurt(self):
        """As the plan says. But a replacement is not hurt by what its forerunners suffered."""
        return self.plan.hurt([fault for fault in self.fired if fault.node == 0 or KINDS[fault.kind].everywhere
                               or self.targets[fault] in (None, self.holder(fault.node))])

    def unhurt(self):
        return [node for node in range(self.plan.nnodes) if node not in self.hurt]

    def found(self, pattern):
        """All matches in the output of the nodes."""
        return [match for supervisor in self.supervisors
                for match in re.findall(pattern, supervisor.job.out + supervisor.job.err, re.M)]


# Each fault of plan.KINDS as a function. It returns False if the fault has no target.
FAULTS = {
    "kill_proc": lambda a, fault: a._send(a._proc(fault), signal.SIGKILL),
    "segv_proc": lambda a, fault: a._send(a._proc(fault), signal.SIGSEGV),
    "term_proc": lambda a, fault: a._send(a._proc(fault), signal.SIGTERM),
    "stop_proc": lambda a, fault: a._stop(fault, [a._proc(fault)]),
    "stop_supervisor": lambda a, fault: a._stop(fault, [a._supervisor(fault)]),
    "freeze_node": lambda a, fault: a._stop(fault, a._of_host(fault)),
    "kill_supervisor": lambda a, fault: a._send(a._supervisor(fault), signal.SIGKILL),
    "power_off": lambda a, fault: a._power_off(fault),
    "interrupt": lambda a, fault: a._tell(fault.node, signal.SIGINT),
    "notice": lambda a, fault: a._tell(fault.node, signal.SIGTERM),
    "notice_to_all": lambda a, fault: a._notice_to_all(),
    "checkpoint": lambda a, fault: a._tell(fault.node, signal.SIGUSR2),
    "cut": lambda a, fault: a.place.cut(a._host(fault)),
    "mute": lambda a, fault: a.place.cut(a._host(fault), laboratory.FROM),
    "deaf": lambda a, fault: a.place.cut(a._host(fault), laboratory.TO),
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
    **dict.fromkeys(CUTS, lambda a, fault: a.place.mend(a._host(fault))),
    "loss": lambda a, fault: a.place.lose(0),
    "stall": lambda a, fault: setattr(a.place.relay, "is_stalled", False),
    "delay": lambda a, fault: setattr(a.place.relay, "delay_s", 0.0),
    "split": lambda a, fault: setattr(a.place.relay, "splits", False),
    "full_disk": lambda a, fault: a.place.free(fault.node),
}
