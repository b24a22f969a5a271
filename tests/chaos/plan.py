# SPDX-License-Identifier: Apache-2.0
"""plan: makes a run from its seed alone: the job, and the faults of each attempt.

An attempt is one start of the job by its scheduler. The times of faults count from that start. A seed fixes
the schedule and not the outcome, because processes run at their own speed. The last attempt has no faults.

Some jobs outlive the loss of a node (cluster.replace_wait). Their plan says when the scheduler starts it again.
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
    "cut": Kind(5, lasts=True, hurts=True, codes=LOST),
    "mute": Kind(2, lasts=True, hurts=True, codes=LOST),  # its packets are lost, and it hears all others
    "deaf": Kind(2, lasts=True, hurts=True, codes=LOST),  # the other way round
    "loss": Kind(4, lasts=True, hurts=True, codes=LOST, everywhere=True),
    "reset": Kind(4, proxy=True),
    "stall": Kind(4, lasts=True, hurts=True, codes=LOST, proxy=True, everywhere=True),
    "half_open": Kind(2, hurts=True, codes=LOST, proxy=True, everywhere=True),
    "delay": Kind(3, lasts=True, proxy=True),
    "split": Kind(3, lasts=True, proxy=True),
    # the machine
    "full_disk": Kind(5, lasts=True, codes=(NOT_STARTED, 1)),
    "clock": Kind(6),
    # not planned: a busy machine did not let a pchrun run
    "paused": Kind(0, lasts=True, hurts=True, codes=LOST),
}
KILLS = ("kill_supervisor", "power_off")  # of nodes
PEACE_MAX = 3  # tries of the last attempt, if pauses end it
# After these the scheduler gives the node up. A notice is another case: its pchrun ends, and the scheduler sees that.
CUTS = ("cut", "mute", "deaf")
LOSSES = (*KILLS, "freeze_node", *CUTS)
# Not in a job that waits for a replacement: a pchrun that alone is stopped cannot kill its ranks, see pchrun(1).
UNFENCED = ("stop_supervisor", )
NOTICES = ("notice", "notice_to_all", "term_proc")
RESCUES = 4  # in an attempt; no node is started again after them


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


@dataclass(frozen=True)
class Rescue:
    """How the scheduler starts a lost node again. Times count in seconds."""
    delay: float | None  # None: never
    moves: bool  # to another host
    twin: float | None  # then one more supervisor of the node starts, on a host of its own

    def __str__(self):
        if self.delay is None:
            return "never"
        twin = "" if self.twin is None else f", a twin after {self.twin:.2f} s"
        return f"after {self.delay:.2f} s{', elsewhere' * self.moves}{twin}"


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
    wait_s: float  # cluster.replace_wait
    replaces: int  # cluster.replace_max
    attempts: list = field(default_factory=list)  # of lists of Fault
    rescues: list = field(default_factory=list)  # of each attempt: a list of Rescue

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
                *(["--cluster-replace-wait", f"{self.wait_s:g}s", "--cluster-replace-max", str(self.replaces)]
                  if self.wait_s else []),
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
        If node 0 is cut off, these are all nodes. A job that waits lets the nodes with a notice go."""
        hurt = set()
        for fault in self.harmful(faults):
            kind = KINDS[fault.kind]
            if kind.hurts:
                is_mute = fault.kind not in KILLS and fault.node == 0
                hurt |= set(range(self.nnodes)) if kind.everywhere or is_mute else {fault.node}
            elif self.wait_s and fault.kind in NOTICES:
                hurt |= (set(range(self.nnodes)) if kind.everywhere else {fault.node}) - {0}
        return hurt

    def add_peace(self):
        """One more attempt without faults."""
        self.attempts.append([])
        self.rescues.append([])

    def lingering(self, faults):
        """The nodes for which an impatient scheduler does not wait."""
        return {fault.node for fault in self.harmful(faults)
                if self.is_impatient and fault.kind in ("stop_supervisor", "freeze_node", *CUTS)}

    def deadline_s(self, faults):
        """The seconds after which an attempt with these faults must have ended, with any exit code."""
        calm = max([JOIN_S + LOCK_S * self.is_impatient, *(fault.at + fault.lasts for fault in faults)])
        return calm + self.calm_s

    @property
    def calm_s(self):
        """An attempt may take as long after the last fault, and the last start of a node."""
        once = 2 * self.train_s + LADDER_S + self.timeout_s
        again = once + self.wait_s if self.wait_s else 0  # the last loss is found, and waited for
        return again + (1 + self.restarts) * once + GRACE_S + SLACK_S

    def __str__(self):
        program = "charlm" if self.is_charlm else "pchclient"
        lines = [f"seed {self.seed}: {program}, {self.nnodes} nodes of {self.per_node}, "
                 f"{self.pace_ms}+{self.skew_ms} ms a step, saves every {self.save_every}, "
                 f"timeout {self.timeout_s:g} s, restarts {self.restarts}"
                 + f", every {self.every}" * bool(self.every) + ", logs" * self.keeps_logs
                 + ", impatient" * self.is_impatient
                 + (f", replace_wait {self.wait_s:g} s, replace_max {self.replaces}" if self.wait_s else "")
                 + ", train_on" * self.trains_on + ", shared" * self.is_shared
                 + ", TLS" * self.has_key + ", proxy" * self.has_proxy]
        for number, (faults, rescues) in enumerate(zip(self.attempts, self.rescues), 1):
            lines += [f"  attempt {number}: {'; '.join(map(str, faults)) or 'in peace'}"]
            lines += [f"    lost nodes start again: {'; '.join(map(str, rescues))}"] if rescues else []
        return "\n".join(lines)


def make_fault(rng, plan, last):
    """last: the fault made before this one, or None; some faults follow another closely."""
    names = [name for name in KINDS if (plan.has_proxy or not KINDS[name].proxy)
             and not (plan.wait_s and name in UNFENCED)]
    is_loss = {name: plan.wait_s and name in (*LOSSES, "notice") for name in names}
    name, = rng.choices(names, [KINDS[name].weight * (3 if is_loss[name] else 1) for name in names])
    lasts = 0.0
    if KINDS[name].lasts:
        timeout = plan.timeout_s
        lasts = rng.choice([rng.uniform(0.01, HARMLESS * timeout), rng.uniform(0.01, 2 * timeout),
                            rng.uniform(1.3 * timeout, 2.2 * timeout)])
        if is_loss[name]:  # it may come back long after its replacement has begun
            lasts = rng.choice([lasts, rng.uniform(1.3 * timeout, 2 * timeout + plan.wait_s)])
    amount = {"clock": rng.choice([1, 60, 3600, 10**7]) * rng.choice([-1, 1]),
              "loss": rng.choice([5, 20, 50])}.get(name, 0)
    at = rng.uniform(0, 0.25 + 1.1 * plan.train_s)
    if last and rng.random() < 0.4:
        at = last.at + rng.choice([last.lasts, rng.expovariate(1 / 0.03)])
    elif last and plan.wait_s:  # in the wait, in the restart, or to the replacement
        at = last.at + rng.uniform(0, plan.timeout_s + plan.wait_s)
    node = rng.randrange(plan.nnodes)
    if is_loss[name] and rng.random() < 0.8:
        node = rng.randrange(1, plan.nnodes)
    return Fault(name, at, node, rng.randrange(plan.per_node), lasts, amount)


def make_rescue(rng, plan):
    delay = rng.choice([rng.uniform(0, 1), rng.uniform(0, 1), rng.uniform(0, 1.1 * plan.wait_s), None])
    twin = rng.choice([None, None, rng.uniform(0, 0.1), rng.uniform(0, 4)])
    return Rescue(delay, rng.random() < 0.5, twin)


def make(seed):
    rng = random.Random(seed)
    plan = Plan(seed=seed, nnodes=rng.choice(NNODES), per_node=rng.choice(PER_NODE),
                is_charlm=rng.random() < 0.7, is_shared=rng.random() < 0.7,
                has_key=rng.random() < 0.3, has_proxy=rng.random() < 0.4,
                save_every=rng.choice([4, 7, 10, 25, 1000]), pace_ms=rng.choice([3, 8, 12]),
                skew_ms=rng.choice([0, 0, 1]), timeout_s=rng.choice([1.0, 1.0, 1.5]),
                restarts=rng.choice([0, 0, 1, 3]), trains_on=rng.random() < 0.3,
                every=rng.choice(["", "", "3", "100ms"]), is_impatient=rng.random() < 0.4,
                keeps_logs=rng.random() < 0.3, wait_s=rng.choice([0, 0, 4, 6]), replaces=rng.choice([1, 10, 10]))
    if plan.wait_s:
        plan.is_impatient = False
        # More faults come while the ranks train. A cut off rank of pchclient trains on until its pchrun kills it.
        plan.pace_ms *= 2 if plan.is_charlm else 8
    for _ in range(rng.choices([1, 2, 3], [6, 3, 1])[0]):
        count, = rng.choices([1, 2, 3, 5], [10, 6, 3, 1])
        faults = []
        for _ in range(count):
            faults.append(make_fault(rng, plan, faults[-1] if faults else None))
        plan.attempts.append(sorted(faults, key=lambda fault: fault.at))
        plan.rescues.append([make_rescue(rng, plan) for _ in range(RESCUES if plan.wait_s else 0)])
    plan.add_peace()
    return plan
