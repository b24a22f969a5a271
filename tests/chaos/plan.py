# SPDX-License-Identifier: Apache-2.0
"""plan: makes a run from its seed alone: the job, and the faults of each attempt.

An attempt is one start of the job by its scheduler. The times of faults count from that start. A seed fixes
the schedule and not the outcome, because processes run at their own speed. The last attempt has no faults.
"""

import random
from dataclasses import dataclass, field

NNODES, PER_NODE = [2, 2, 2, 3, 3, 4], [1, 1, 2]
WORLDS = {nnodes * per_node for nnodes in NNODES for per_node in PER_NODE}
STEPS = 40
JOIN_S = 3.0  # cluster.join_timeout
LOCK_S = 6.0  # checkpoint.lock_wait
GRACE_S = 2.0
LADDER_S = 0.5 + 0.3 + 1.0  # stop.exit_wait, stop.term_wait, stop.kill_wait
LADDER = ["--stop-exit-wait", "500ms", "--stop-term-wait", "300ms", "--stop-kill-wait", "1s"]
# Time for everything else on a machine that is busy with other runs. It is less than the 15 s after which a node
# without the options of a plan would find another one lost; the simulator checks shorter times.
SLACK_S = 10.0
# A pause shorter than this part of the heartbeat's timeout must do no harm. A longer one may, even if it is
# shorter than the timeout, because TCP waits longer before each new try.
HARMLESS = 0.25


@dataclass(frozen=True)
class Kind:
    """weight: how often it is chosen. lasts: the fault ends by itself after a while. hurts: its node may end
    differently from the others. codes: the exit codes that a job may have because of it."""
    weight: int
    lasts: bool = False
    hurts: bool = False
    codes: tuple = ()
    proxy: bool = False  # acts on the connections to node 0
    everywhere: bool = False  # acts on all nodes at once


NOT_STARTED, NODE_LOST, PREEMPTED = 125, 42, 42
LOST = (NODE_LOST, NOT_STARTED)
KINDS = {
    # processes of the training
    "kill_proc": Kind(8, codes=(137,)),
    "segv_proc": Kind(4, codes=(139,)),
    "term_proc": Kind(3, codes=(PREEMPTED, 143)),
    "stop_proc": Kind(3, lasts=True),
    # supervisors and nodes
    "kill_supervisor": Kind(6, hurts=True, codes=LOST),
    "power_off": Kind(5, hurts=True, codes=LOST),
    "stop_supervisor": Kind(5, lasts=True, hurts=True, codes=LOST),
    "freeze_node": Kind(4, lasts=True, hurts=True, codes=LOST),
    "interrupt": Kind(2, codes=(130, NOT_STARTED)),
    # notices
    "notice": Kind(10, codes=(PREEMPTED,)),
    "notice_to_all": Kind(4, codes=(PREEMPTED,), everywhere=True),
    "checkpoint": Kind(6),
    # the network
    "cut": Kind(7, lasts=True, hurts=True, codes=LOST),
    "loss": Kind(4, lasts=True, hurts=True, codes=LOST, everywhere=True),
    "reset": Kind(4, proxy=True),
    "stall": Kind(4, lasts=True, hurts=True, codes=LOST, proxy=True, everywhere=True),
    "half_open": Kind(2, hurts=True, codes=LOST, proxy=True, everywhere=True),
    "delay": Kind(3, lasts=True, proxy=True),
    "split": Kind(3, lasts=True, proxy=True),
    # the machine
    "full_disk": Kind(5, lasts=True, codes=(NOT_STARTED, 1)),
    "clock": Kind(6),
}
KILLS = ("kill_supervisor", "power_off")  # of nodes


@dataclass(frozen=True)
class Fault:
    kind: str
    at: float  # seconds from the start of the attempt
    node: int
    local: int  # the number of a process of the node
    lasts: float  # seconds, 0: an instant
    amount: int  # of "clock": the error in seconds; of "loss": percent

    def __str__(self):
        where = "" if KINDS[self.kind].everywhere else f" node {self.node}"
        where += f".{self.local}" if self.kind.endswith("_proc") else ""
        amount = f" by {self.amount}" if self.kind in ("clock", "loss") else ""
        return f"{self.at:.3f} s: {self.kind}{where}{amount}" + (
            f" for {self.lasts:.2f} s" if self.lasts else "")


@dataclass
class Plan:
    seed: int
    nnodes: int
    per_node: int
    is_charlm: bool  # else pchclient, whose ranks do not wait for each other
    is_shared: bool  # one checkpoint directory for all nodes
    has_key: bool  # TLS
    has_proxy: bool
    save_every: int
    pace_ms: int
    skew_ms: int
    timeout_s: float  # cluster.heartbeat_timeout
    restarts: int  # restart.max
    trains_on: bool
    every: str  # checkpoint.every, or ""
    is_impatient: bool  # the scheduler does not wait for nodes that hang
    keeps_logs: bool  # what the commands print goes through pchrun
    attempts: list = field(default_factory=list)  # of lists of Fault

    @property
    def world(self):
        return self.nnodes * self.per_node

    @property
    def train_s(self):
        return STEPS * (self.pace_ms + self.skew_ms * self.world) / 1000

    def options(self):
        """The options that all nodes share: all but addresses and folders."""
        return ["-n", str(self.per_node), "--preset", "none", "--grace", f"{GRACE_S:g}s",
                "--signals", "TERM=preempt,USR2=checkpoint", *LADDER,
                "--cluster-join-timeout", f"{JOIN_S + LOCK_S * self.is_impatient:g}s",
                "--checkpoint-lock-wait", f"{LOCK_S:g}s",
                "--cluster-heartbeat-interval", f"{self.timeout_s * 100:.0f}ms",
                "--cluster-heartbeat-timeout", f"{self.timeout_s:g}s",
                f"--save-train-on={str(self.trains_on).lower()}",
                f"--checkpoint-shared={str(self.is_shared).lower()}",
                *(["--checkpoint-every", self.every] if self.every else []),
                *(["--logs-dir", "logs", "--logs-max-size", "2K"] if self.keeps_logs else []),
                *(["--restart-max", str(self.restarts), "--restart-backoff", "20ms",
                   "--restart-startup", "0"] if self.restarts else [])]

    def harmful(self, faults):
        """The faults that may change how the job ends."""
        # A reset makes a short loss harmful: if the first packet of a new connection is lost, TCP sends the
        # second one a second later.
        is_reset = any(fault.kind == "reset" for fault in faults)

        def is_harmful(fault):
            kind = KINDS[fault.kind]
            is_long = not kind.lasts or fault.lasts > HARMLESS * self.timeout_s
            return bool(kind.codes) and (not kind.hurts or is_long or is_reset)
        return [fault for fault in faults if is_harmful(fault)]

    def hurt(self, faults):
        """The nodes that may end differently from the others: they were killed, or node 0 could not reach them.
        If node 0 is cut off, these are all nodes."""
        hurt = set()
        for fault in self.harmful(faults):
            kind = KINDS[fault.kind]
            if kind.hurts:
                is_mute = fault.kind not in KILLS and fault.node == 0
                hurt |= set(range(self.nnodes)) if kind.everywhere or is_mute else {fault.node}
        return hurt

    def lingering(self, faults):
        """The nodes for which an impatient scheduler does not wait."""
        return {fault.node for fault in self.harmful(faults)
                if self.is_impatient and fault.kind in ("stop_supervisor", "freeze_node", "cut")}

    def deadline_s(self, faults):
        """The seconds after which an attempt with these faults must have ended, with any exit code."""
        calm = max([JOIN_S + LOCK_S * self.is_impatient, *(fault.at + fault.lasts for fault in faults)])
        once = 2 * self.train_s + LADDER_S + self.timeout_s
        return calm + (1 + self.restarts) * once + GRACE_S + SLACK_S

    def __str__(self):
        program = "charlm" if self.is_charlm else "pchclient"
        lines = [f"seed {self.seed}: {program}, {self.nnodes} nodes of {self.per_node}, "
                 f"{self.pace_ms}+{self.skew_ms} ms a step, saves every {self.save_every}, "
                 f"timeout {self.timeout_s:g} s, restarts {self.restarts}"
                 + f", every {self.every}" * bool(self.every) + ", logs" * self.keeps_logs
                 + ", impatient" * self.is_impatient
                 + ", train_on" * self.trains_on + ", shared" * self.is_shared
                 + ", TLS" * self.has_key + ", proxy" * self.has_proxy]
        for number, faults in enumerate(self.attempts, 1):
            lines += [f"  attempt {number}: {'; '.join(map(str, faults)) or 'in peace'}"]
        return "\n".join(lines)


def make_fault(rng, plan, last):
    """last: the fault made before this one, or None; some faults follow another closely."""
    names = [name for name in KINDS if plan.has_proxy or not KINDS[name].proxy]
    name, = rng.choices(names, [KINDS[name].weight for name in names])
    lasts = 0.0
    if KINDS[name].lasts:
        timeout = plan.timeout_s
        lasts = rng.choice([rng.uniform(0.01, HARMLESS * timeout), rng.uniform(0.01, 2 * timeout),
                            rng.uniform(1.3 * timeout, 2.2 * timeout)])
    amount = {"clock": rng.choice([1, 60, 3600, 10**7]) * rng.choice([-1, 1]),
              "loss": rng.choice([5, 20, 50])}.get(name, 0)
    at = rng.uniform(0, 0.25 + 1.1 * plan.train_s)
    if last and rng.random() < 0.4:
        at = last.at + rng.choice([last.lasts, rng.expovariate(1 / 0.03)])
    return Fault(name, at, rng.randrange(plan.nnodes),
                 rng.randrange(plan.per_node), lasts, amount)


def make(seed):
    rng = random.Random(seed)
    plan = Plan(seed=seed, nnodes=rng.choice(NNODES), per_node=rng.choice(PER_NODE),
                is_charlm=rng.random() < 0.7, is_shared=rng.random() < 0.7,
                has_key=rng.random() < 0.3, has_proxy=rng.random() < 0.4,
                save_every=rng.choice([4, 7, 10, 25, 1000]), pace_ms=rng.choice([3, 8, 12]),
                skew_ms=rng.choice([0, 0, 1]), timeout_s=rng.choice([1.0, 1.0, 1.5]),
                restarts=rng.choice([0, 0, 1, 3]), trains_on=rng.random() < 0.3,
                every=rng.choice(["", "", "3", "100ms"]), is_impatient=rng.random() < 0.4,
                keeps_logs=rng.random() < 0.3)
    for _ in range(rng.choices([1, 2, 3], [6, 3, 1])[0]):
        count, = rng.choices([1, 2, 3, 5], [10, 6, 3, 1])
        faults = []
        for _ in range(count):
            faults.append(make_fault(rng, plan, faults[-1] if faults else None))
        plan.attempts.append(sorted(faults, key=lambda fault: fault.at))
    plan.attempts.append([])
    return plan
