# SPDX-License-Identifier: Apache-2.0
"""promises: checks from outside what must be true after each attempt and at the end of a run: exit codes,
reports, records, checkpoints, and the weights of the training. A broken promise raises Broken.
"""

import json
import re
import struct

import harness
import trail
from plan import KILLS, KINDS, LOSSES, NODE_LOST, NOT_STARTED, STEPS

KILLED = -9
DIED_OF_SIGTERM = 143  # as pchrun reports it
NO_PROGRESS = 43
VICTIM = 1  # the exit code of charlm when another rank has gone
CHECKPOINT_MAGIC = 0x314D4C5241484301
# contrib/examples/charlm.h: magic, digest, text, world, step, three times the weights, rank, rng
CHECKPOINT_BYTES = 8 * 5 + 3 * 4 * (8 * 96 * 64 + 64 * 96) + 8 * 2


class Broken(Exception):
    """A promise was not kept."""


def check(condition, text):
    if not condition:
        raise Broken(text)


# --- exit codes ----------------------------------------------------------------------------------

def may_end_with(plan, attempt, records):
    """The exit codes that the faults of the attempt allow."""
    harmful = plan.harmful(attempt.fired)
    codes = {0} | {code for fault in harmful for code in KINDS[fault.kind].codes}
    if plan.is_charlm and harmful:
        codes.add(VICTIM)
    if harmful and not attempt.is_started():
        codes.add(NOT_STARTED)  # the others wait in vain for a node that leaves before it has joined
    uncounted = any(fault.kind == "full_disk" for fault in attempt.fired)  # a record that could not be written
    again = attempt.generations() if plan.wait_s else 0
    if records.attempts_without_commit + uncounted + again >= 3:
        codes.add(NO_PROGRESS)
    return codes


def check_codes(plan, attempt, records):
    killed = {fault.node for fault in attempt.fired if fault.kind in KILLS}
    allowed = may_end_with(plan, attempt, records)
    for node, code in attempt.codes.items():
        if node in attempt.hurt:
            fine = code in allowed | {NODE_LOST} or (code == KILLED and node in killed)
        else:
            fine = code in allowed
        check(fine, f"node {node} has ended with {code}; its faults allow {sorted(allowed)}")
    codes = {attempt.codes[node] for node in attempt.unhurt()}
    check(len(codes) <= 1 or not attempt.has_chief(), f"the nodes end differently: {attempt.codes}; hurt: {attempt.hurt}")


def check_former(plan, attempt, records):
    """The supervisors that did not keep the place of their node: lost ones, twins, late ones."""
    allowed = may_end_with(plan, attempt, records) | {NODE_LOST, NOT_STARTED}
    killed = {attempt.targets[fault].host for fault in attempt.fired if fault.kind in KILLS}
    for one in attempt.supervisors:
        check(one.code in allowed or one is attempt.holder(one.node) or (one.code == KILLED and one.host in killed),
              f"a supervisor of node {one.node}, pid {one.job.pid}, has ended with {one.code}")


def check_replaced(plan, attempt, before):
    """If one node is lost, the job completes as soon as another supervisor has its place. Without one all nodes end with
    42, unless they had already trained to the end."""
    harmful = plan.harmful(attempt.fired)
    if len(harmful) != 1 or not attempt.is_started() or before.attempts_without_commit:
        return
    fault, lost = harmful[0], attempt.targets[harmful[0]]
    is_lost = fault.kind in (*KILLS, "notice") or (fault.kind in LOSSES and fault.lasts > 1.3 * plan.timeout_s)
    if fault.node == 0 or not is_lost:
        return
    rescue = attempt.rescued.get(lost)
    codes = {code for node, code in attempt.codes.items() if node != fault.node}
    if not rescue:
        check(codes <= {0, NODE_LOST}, f"node {fault.node} was not replaced; the nodes end with {attempt.codes}")
    elif rescue.delay < plan.wait_s / 4 and (rescue.moves or fault.kind in (*KILLS, "notice")):
        check(codes == {0}, f"node {fault.node} was started again; the nodes end with {attempt.codes}")


def check_outlasted(plan, old, records):
    """Nodes that ended after the next attempt had begun: they saw its takeover, or did not hear of it."""
    allowed = may_end_with(plan, old, records) | {NODE_LOST, NOT_STARTED}
    check(set(old.codes.values()) <= allowed | {KILLED},
          f"attempt {old.number} has ended with {old.codes}; its faults allow {sorted(allowed)}")


def check_restarted(plan, attempt):
    """If one process dies, the job restarts in place and completes."""
    harmful = plan.harmful(attempt.fired)
    if plan.restarts and [fault.kind for fault in harmful] in (["kill_proc"], ["segv_proc"]):
        check(set(attempt.codes.values()) == {0}, f"not restarted in place: {attempt.codes}")


def check_saved(plan, attempt):
    """A notice with enough time loses no work, unless another fault comes with it. A rank dies of a SIGTERM that comes
    before its handler is there. If a notice follows within a second, nothing can be saved."""
    harmful = {fault.kind for fault in plan.harmful(attempt.fired)}
    if harmful and harmful <= {"notice", "notice_to_all", "term_proc"} and not any(
            fault.kind == "stop_proc" for fault in attempt.fired):
        for node in range(plan.nnodes):
            report = attempt.report(node)
            has_died = "term_proc" in harmful and (report.get("first_cause") or {}).get("code") == DIED_OF_SIGTERM
            is_saved = report.get("outcome") != "preempted_unsaved"
            check(is_saved or has_died, f"node {node} reports that it has not saved")


def check_reports(attempt):
    """Reports are whole, agree with each other, and have the node's exit code."""
    views = []
    for node in attempt.unhurt():
        report = attempt.report(node)
        if not report and not attempt.is_started():
            continue  # the node has ended before it knew the path of its report
        check(report.get("state") == "done" and report["exit_code"] == attempt.codes[node],
              f"node {node} has ended with {attempt.codes[node]}, and its report says {report}")
        views.append({key: report[key] for key in ("outcome", "exit_code", "attempt", "generation",
                                                   "nnodes", "job")})
    check(all(view == views[0] for view in views) or not attempt.has_chief(), f"the reports differ: {views}")
    for node in attempt.hurt:
        attempt.report(node)  # if there is one, it must be whole


def check_round(plan, attempt):
    """All nodes of a preempted job report the same commit."""
    reports = [attempt.report(node) for node in range(plan.nnodes)]
    if attempt.hurt or reports[0].get("outcome") != "preempted":
        return
    reports = [report for report in reports if report]  # a node without one has ended before it knew the path
    steps = {report["commit"] and report["commit"]["step"] for report in reports}
    check(len(steps) == 1, f"the job was preempted, and its nodes report different commits: {steps}")


# --- records and checkpoints ---------------------------------------------------------------------

class Records:
    """The state directories after an attempt."""

    def __init__(self, place, plan):
        self.place, self.plan = place, plan
        self.disks = place.disks
        states = [disk / ".pchrun" for disk in place.disks]
        self.commit = self._read(states[0] / "commit.json")
        self.ranks = {node: self._read(states[node % len(states)] / f"ranks.{node}.json")
                      for node in range(plan.nnodes)}
        self.steps = [commit["step"] for commit in self.commit.get("commits", [])]
        self.last = self.steps[-1] if self.steps else 0
        self.attempts_without_commit = self.commit.get("attempts_without_commit", 0)

    def _read(self, path):
        if not path.exists():
            return {}
        try:
            return json.loads(path.read_text())
        except ValueError as why:
            raise Broken(f"{path} is damaged: {why}: {path.read_bytes()[:200]!r}") from None

    def check(self, before):
        """before: the records after the last attempt."""
        check(all(a < b for a, b in zip(self.steps, self.steps[1:])), f"the commits do not rise: {self.steps}")
        check(self.last >= before.last, f"the last commit was {before.last}, and now is {self.last}")
        check(self.commit.get("attempt", 0) >= before.commit.get("attempt", 0), "attempts go back")
        if self.last:
            self._check_last()

    def _check_last(self):
        """Every rank has reported its path of the last commit; charlm's files are there and whole."""
        paths = {rank["rank"]: (self.disks[number % len(self.disks)], rank["path"])
                 for number, node in self.ranks.items() for save in node.get("saves", []) if save["step"] == self.last
                 for rank in save["ranks"]}
        check(set(paths) == set(range(self.plan.world)),
              f"step {self.last} is committed, but only the ranks {sorted(paths)} have a path")
        for rank, (disk, path) in paths.items():
            if self.plan.is_charlm:
                self._check_whole(rank, disk / path)

    def _check_whole(self, rank, path):
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as why:
            raise Broken(f"step {self.last} is committed; the checkpoint of rank {rank}: {why}") from None
        magic, _, _, world, step = struct.unpack("QQQqq", data[:40])
        told = (magic, len(data), world, step)
        check(told == (CHECKPOINT_MAGIC, CHECKPOINT_BYTES, self.plan.world, self.last),
              f"{path} is not the checkpoint of step {self.last}: {told}")


def check_told(attempt, records):
    """A step that a node calls committed is on disk."""
    told = [int(step) for step in attempt.found(r"commit: step (\d+) is durable")]
    told += [report["commit"]["step"] for report in map(attempt.report, range(attempt.plan.nnodes))
             if report.get("commit")]
    check(max(told, default=0) <= records.last,
          f"step {max(told, default=0)} was reported as committed, but the record ends at {records.last}")


def check_resumed(plan, attempt, before):
    """All ranks of a generation begin at the last committed step."""
    pattern = r"^charlm: .* from step (\d+) to" if plan.is_charlm else r"^open .* resume=(\d+) "
    resumed = [int(step) for step in attempt.found(pattern)]
    if attempt.before:  # a lingering attempt may have committed a step before this one took over
        check(plan.restarts or len(set(resumed)) <= 1, f"ranks resume at {resumed}")
    elif plan.restarts == 0 and not plan.wait_s:
        check(set(resumed) <= {before.last},
              f"the last commit is {before.last}, but ranks resume at {resumed}")
    check(all(step >= before.last for step in resumed), f"{resumed} lies before {before.last}")


# --- the ranks -----------------------------------------------------------------------------------

def check_trail(plan, attempt, before):
    """No two processes of a rank train at once. All ranks of a generation resume at one step, and no commit that was
    made before is lost."""
    processes = trail.read(attempt.trail)
    for first, second in trail.overlaps(processes, attempt.woken):
        raise Broken(f"rank {first.rank} has trained twice at once: {first}; {second}")
    expected, last = {0: before.last}, before.last
    for step, generation in re.findall(r"commit: step (\d+) is durable|generation (\d+) begins",
                                       attempt.holder(0).job.err):
        last = int(step or last)
        if generation:
            expected[int(generation)] = last
    for generation, steps in trail.resumed(processes).items():
        check(len(steps) == 1, f"ranks of generation {generation} resume at {sorted(steps)}")
        check(min(steps) >= expected.get(generation, 0),
              f"step {expected[generation]} is committed, but generation {generation} resumes at {steps}")


# --- the end -------------------------------------------------------------------------------------

def is_complete(attempt):
    return list(attempt.codes.values()) == [0] * attempt.plan.nnodes


def check_learnt(plan, attempt, digest):
    """The completed job has the result of an undisturbed one."""
    if plan.is_charlm:
        found = attempt.found(r"^digest (.*)$")
        check(set(found) == {digest}, f"the weights are {found}; those of an undisturbed training are {digest}")
    else:
        found = attempt.found(r"^spree (\d+) (\w+)$")
        count = found.count((str(STEPS), "continue"))  # some ranks may have ended in an earlier generation
        check(count >= plan.world, f"too few ranks have ended: {found}")


def check_nothing_left(place, attempts):
    """TMPDIR is empty after supervisors that were not killed."""
    if any(attempt.lingering() or KILLED in [one.code for one in attempt.supervisors] for attempt in attempts):
        return
    files = sorted(str(path.relative_to(place.tmp)) for path in place.tmp.rglob("*"))
    check(not files, f"left in TMPDIR: {files}")


def check_sanitizers(place, attempt):
    reports = harness.checker_reports(place.sanitizer)
    reports += [one.job.err for one in attempt.supervisors if "runtime error:" in one.job.err]
    check(not reports, "\n".join(reports))


def check_attempt(place, attempt, before):
    """Checks all promises but those of the last attempt. Returns the new records."""
    plan = place.plan
    records = Records(place, plan)
    check_sanitizers(place, attempt)
    records.check(before)
    check_told(attempt, records)
    check_codes(plan, attempt, records)
    check_reports(attempt)
    check_round(plan, attempt)
    check_restarted(plan, attempt)
    check_saved(plan, attempt)
    check_resumed(plan, attempt, before)
    if plan.wait_s:
        check_former(plan, attempt, records)
        check_replaced(plan, attempt, before)
        check_trail(plan, attempt, before)
    for old in attempt.before:
        check_outlasted(plan, old, records)
    return records
