# SPDX-License-Identifier: Apache-2.0
"""The main case with a real training on several nodes. One node gets a notice; all nodes save the same step and
end with 42. The restarted job ends with the weights of an undisturbed run."""

import os
import re
import shutil
import signal

import pytest

from harness import CHARLM, is_blocked, marked, undisturbed_digest, wait_until
from nodes import Nodes, free_port
from training import Training

PREEMPTED = NODE_LOST = 42
TERM, KILL, STOP, CONT = signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT
WORLD = 4
STEPS = 40
TRAINING = ["--steps", STEPS, "--log-every", "1"]


@pytest.fixture(scope="module")
def digest(tmp_path_factory):
    """The weights of the same training without pchrun."""
    return undisturbed_digest(WORLD, *TRAINING, "--dir", tmp_path_factory.mktemp("plain"), "--port", free_port())


class Attempt:
    """One start of the job on all its nodes. Each rank sleeps `pace` ms in a step, and rank r
    `skew` * r more; local: every node has a checkpoint directory of its own; more: options of pchrun; spares: how
    many pchruns stand by; own: {node: options of its pchrun alone}; missing: nodes that are not started."""

    def __init__(self, world, nnodes=WORLD, options=(), pace=2, skew=1, local=False, more=(), spares=0, own=None,
                 missing=()):
        self.nodes = Nodes(world, nnodes + spares, ["-n", WORLD // nnodes, "--cluster-spares", spares, *more])
        self.words = [CHARLM, *TRAINING, "--port", free_port(), "--step-time", pace, "--skew", skew, *options]
        self.local, self.own = local, own or {}
        for node in range(nnodes + spares):
            if node not in missing:
                self.start(node)
        self.log = self.nodes.jobs[0]
        self.spares = [self.nodes.jobs.pop(node) for node in range(nnodes, nnodes + spares)]

    def directory(self, node):
        return self.nodes.world.root / (f"checkpoints{node}" if self.local else "checkpoints")

    def start(self, node):
        """Starts the pchrun of a node, or another one for a node whose pchrun has ended."""
        own = ["--checkpoint-dir", self.directory(node), *(["--checkpoint-shared=false"] if self.local else []),
               *self.own.get(node, [])]
        self.nodes.jobs[node] = self.nodes.launch(node, *self.words, "--dir", self.directory(node), options=own)

    def wait_step(self, step):
        """Waits until rank 0 has finished the step."""
        wait_until(lambda: f"\nstep {step} " in self.log.out or self.log.process.poll() is not None,
                   f"step {step}")
        assert f"\nstep {step} " in self.log.out, self.said()

    def stand_by(self):
        """The spares, when each of them stands by."""
        for spare in self.spares:
            wait_until(lambda spare=spare: ": stands by at node 0 (" in spare.err, "the spares")
        return self.spares

    def said(self):
        return "".join(job.out + job.err for job in self.nodes.jobs.values())

    def notice(self, *victims):
        for victim in victims:
            os.kill(self.nodes.jobs[victim].pid, TERM)

    def preempted(self):
        """Every node ends with 42, and all tell of one save step; returns it."""
        assert self.nodes.finish() == PREEMPTED, self.said()
        assert self.nodes.agreed()["outcome"] == "preempted"
        reports = [self.nodes.report(node) for node in self.nodes.jobs]
        steps = {(r["round"]["save_step"], r["commit"]["step"]) for r in reports}
        assert len(steps) == 1, steps
        (save_step, commit), = steps
        assert save_step == commit
        assert {r["steps"]["last"] for r in reports} == {save_step}
        assert all(rank["saved_step"] == save_step for r in reports for rank in r["ranks"])
        assert sum(len(r["ranks"]) for r in reports) == WORLD
        saved = re.findall(r"^charlm\[(\d)\]: saved step (\d+)$", self.said(), re.M)
        assert sorted(saved) == [(str(rank), str(save_step)) for rank in range(WORLD)]
        return save_step

    def completed(self, resumed):
        """Every node ends with 0; returns the digest."""
        assert self.nodes.finish() == 0, self.said()
        assert self.nodes.agreed()["outcome"] == "completed"
        assert f"from step {resumed} to {STEPS}\n" in self.log.out
        assert all(self.nodes.report(node)["steps"]["resumed"] == resumed
                   for node in self.nodes.jobs)
        return re.search("^digest (.*)$", self.log.out, re.M)[1]


@pytest.fixture
def attempt(world):
    return lambda *args, **more: Attempt(world, *args, **more)


def preempt_and_resume(attempt, digest, at, victims, **more):
    """Two attempts: the first leaves after step `at`, the second trains to the end."""
    first = attempt(**more)
    first.wait_step(at)
    first.notice(*victims)
    step = first.preempted()
    assert at < step < STEPS
    more.update(pace=0, skew=0)
    assert attempt(**more).completed(step) == digest


# --- ten runs -------------------------------------------------------------------------------------

@pytest.mark.parametrize("run", range(10))
def test_preempted_and_resumed(attempt, digest, run):
    """Four nodes of unequal speeds, and two nodes with two ranks; another node and step each time."""
    nnodes = 2 if run % 3 == 2 else 4
    preempt_and_resume(attempt, digest, at=1 + 2 * run, victims=[run % nnodes], nnodes=nnodes,
                       skew=run % 4)


# --- in other ways --------------------------------------------------------------------------------

def test_undisturbed(attempt, digest):
    """pchrun changes nothing."""
    assert attempt(pace=0, skew=0).completed(0) == digest


def test_all_nodes_are_told_at_once(attempt, digest):
    """As a scheduler does: all nodes get the signal, and it counts as one notice."""
    preempt_and_resume(attempt, digest, at=7, victims=range(WORLD))


@pytest.mark.parametrize("nnodes, victim", [(4, 1), (2, 0)])
def test_directories_of_the_nodes_own(attempt, digest, nnodes, victim, world):
    """Local disks: each node keeps what its ranks saved, and finds it again."""
    preempt_and_resume(attempt, digest, at=6, victims=[victim], nnodes=nnodes, local=True)
    for node in range(nnodes):
        ranks = {path.name.split("rank-")[1] for path in
                 (world.root / f"checkpoints{node}").glob("step-*")}
        mine = range(node * WORLD // nnodes, (node + 1) * WORLD // nnodes)
        assert ranks == {f"{rank}-of-{WORLD}" for rank in mine}


def test_preempted_again_and_again(attempt, digest):
    """Each attempt brings the training a little further."""
    resumed = 0
    for victim in (2, 0, 3):
        job = attempt()
        job.wait_step(resumed + 2)
        job.notice(victim)
        step = job.preempted()
        assert step > resumed
        resumed = step
    assert attempt(pace=0, skew=0).completed(resumed) == digest


def preempted_beside_own_saves(attempt, step):
    """A notice when the program's own save of that step is committed; returns the attempt and the last commit."""
    job = attempt(options=["--save-every", "4"])
    job.nodes.say(0, f"commit: step {step} is durable on every rank")
    job.notice(1)
    assert job.nodes.finish() == PREEMPTED
    assert job.nodes.agreed("outcome")["outcome"] == "preempted"
    last, = {job.nodes.report(node)["commit"]["step"] for node in range(WORLD)}
    assert last > step
    return last


def test_own_saves_and_a_notice(attempt, digest):
    """The program's periodic saves are committed; the notice's comes on top."""
    step = preempted_beside_own_saves(attempt, 8)
    assert attempt(pace=0, skew=0).completed(step) == digest


def test_a_checkpoint_of_another_step(attempt, digest, world):
    """An older checkpoint was copied over the committed one: the training does not start from there."""
    step = preempted_beside_own_saves(attempt, 4)
    folder = world.root / "checkpoints"
    shutil.copy(folder / f"step-00000004.rank-2-of-{WORLD}",
                folder / f"step-{step:08}.rank-2-of-{WORLD}")
    again = attempt(pace=0, skew=0)
    assert again.nodes.finish() == 1, again.said()
    assert again.nodes.agreed("outcome")["outcome"] == "failed"
    assert f"is of step 4, and the job resumes at step {step}\n" in again.said()


# --- lost nodes -----------------------------------------------------------------------------------

@pytest.mark.killed
@pytest.mark.parametrize("victim", [0, 2])
def test_a_node_is_killed(attempt, digest, victim, world):
    """No notice at all: the others end with 42, and the next start has the last commit."""
    job = attempt(options=["--save-every", "4"])
    job.nodes.say(0, "commit: step 8 is durable on every rank")
    job.nodes.jobs[victim].kill()
    others = [node for node in range(WORLD) if node != victim]
    assert job.nodes.finish(*others) == NODE_LOST, job.said()
    assert {job.nodes.report(node)["outcome"] for node in others} == {"node_lost"}
    assert not marked(world.mark)
    step = max(int(n) for n in re.findall(r"commit: step (\d+) is durable", job.said()))
    again = attempt(pace=0, skew=0)
    assert again.nodes.finish() == 0, again.said()
    resumed = again.nodes.report(0)["steps"]["resumed"]
    assert resumed in (step, step + 4), "the last commit that was told, or one that came after it"
    assert again.completed(resumed) == digest


# --- at the gate, step by step --------------------------------------------------------------------

@pytest.fixture
def pair(world):
    """Two nodes with a rank each, which the test leads; a node that stands still meanwhile is not lost."""
    nodes = Nodes(world, 2, ["--cluster-heartbeat-timeout", "60s", "-v"])
    jobs = start_pair(world, nodes)
    for job in jobs:
        job.open()
    for job in jobs:
        job.train(3)
    yield jobs
    for job in jobs:
        job.close()


def start_pair(world, nodes, *dirs):
    """A rank on each of two nodes, which may have directories of their own."""
    own = [["--checkpoint-dir", path] for path in dirs] or [[], []]
    return [Training(world, "--cluster-nodes", nodes.entries, "--node-rank", node, *own[node], *nodes.options,
                     first=node) for node in range(2)]


def saved(pair, step, then):
    """The ranks of both nodes save, and all are answered when both have."""
    for job in pair:
        job.clients[0].tell(f"saved {step} {job.path(step, job.clients[0].rank)}")
    for job in pair:
        job.clients[0].expect(f"saved {step} {then}")


def results(pair):
    """The results of the job, when the ranks come to their end."""
    for job in pair:
        job.clients[0].end_input()
    return [job.result() for job in pair]


def hold_at_the_gate(pair):
    """Node 1 cannot answer; the rank of node 0 stands at the proposed step. The commit of their own save shows
    that the chief knows both ranks. Without that, the chief would propose nothing."""
    saved(pair, 3, "continue")
    os.kill(pair[1].job.pid, STOP)
    pair[0].notice()
    step = int(pair[0].said(r"round: 1: proposing to save at step (\d+)")[1])
    pair[0].settle()  # the log says this a moment before the gate is there
    client, = pair[0].clients
    client.train(step - 1)
    client.tell(f"step {step}")
    wait_until(lambda: is_blocked(pair[0].pid(0)), "rank 0 to wait")
    assert client.is_silent()
    return step


def save_both(pair, step):
    saved(pair, step, "exit")
    assert results(pair) == [(PREEMPTED, "preempted", step)] * 2


def test_a_rank_waits_at_the_gate(pair):
    """No rank passes a step while the nodes agree on it. When all have agreed, all save it."""
    step = hold_at_the_gate(pair)
    os.kill(pair[1].job.pid, CONT)
    assert pair[0].agreed() == step
    pair[0].clients[0].expect(f"step {step} save")
    pair[1].reach(step)
    save_both(pair, step)


def test_saved_in_the_background(pair):
    """The step after the save waits for the commit, and all leave at the same step."""
    pair[0].notice()
    step = pair[0].agreed()
    (first,), (second,) = (job.clients for job in pair)
    for job in pair:
        job.reach(step)
    first.ask(f"aside durable {step} {pair[0].path(step, 0)}", f"durable {step}")
    first.tell(f"step {step + 1}")
    wait_until(lambda: is_blocked(pair[0].pid(0)), "rank 0 to wait")
    assert first.is_silent()
    second.ask(f"aside durable {step} {pair[1].path(step, 1)}", f"durable {step}")
    second.tell(f"step {step + 1}")
    for job in pair:
        job.clients[0].expect(f"step {step + 1} exit")
    assert results(pair) == [(PREEMPTED, "preempted", step)] * 2


def test_another_rank_is_further(pair):
    """A rank has passed the proposed step, so the nodes agree on a later one. The rank that waited goes on."""
    step = hold_at_the_gate(pair)
    pair[1].train(step + 4)
    os.kill(pair[1].job.pid, CONT)
    final = pair[0].agreed()
    assert final > step + 4
    first, = pair[0].clients
    first.expect(f"step {step} continue")
    first.step = step
    for job in pair:
        job.reach(final)
    save_both(pair, final)


def test_a_rank_dies_at_the_gate(pair):
    """The round is called off, their own save stays the last commit, and no node waits for ever."""
    hold_at_the_gate(pair)
    pair[0].kill(0)
    os.kill(pair[1].job.pid, CONT)
    for job in pair:
        assert job.ended() == (PREEMPTED, "preempted_unsaved", 3)
        assert "ended with signal 9" in job.report()["why"]


def test_one_node_has_lost_its_records(world):
    """Local disks, and node 0 has a new one. All ranks begin where node 0 does, and node 0 says so. The other
    node was node 0 before, so it knows of a commit."""
    for fresh, resume in ((False, 0), (False, 3), (True, 0)):
        nodes = Nodes(world, 2, ["--checkpoint-shared=false"])
        dirs = [world.root / name for name in (("new", "old") if fresh else ("old", "other"))]
        jobs = start_pair(world, nodes, *dirs)
        for job in jobs:
            job.open(resume)
            job.train(3)
        if resume == 0:
            saved(jobs, 3, "continue")
        for job in jobs:
            job.done()
        assert [result[:2] for result in results(jobs)] == [(0, "completed")] * 2
    jobs[0].said("node 1 knows of a commit at step 3, node 0 only of step 0")


def test_an_own_save_that_fails_on_another_node(pair):
    """A rank that has saved does not wait for a commit that is impossible; the next save can be committed."""
    (first,), (second,) = (job.clients for job in pair)
    first.tell(f"saved 3 {pair[0].path(3, 0)}")
    second.ask("failed 3 the shelf is full", "failed 3")
    first.expect("saved 3 continue")
    for job in pair:
        job.train(6)
    saved(pair, 6, "continue")
    for job in pair:
        job.done()
    assert results(pair) == [(0, "completed", 6)] * 2
