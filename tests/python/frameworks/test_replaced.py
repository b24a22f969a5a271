# SPDX-License-Identifier: Apache-2.0
"""A node is lost while a framework trains on three nodes, each with a network namespace of its own. Another host takes its
place, and the training ends with the weights of an undisturbed run, bit by bit.

The programs are those of docs/python, with fewer steps. Every rank writes down when it trains (told.py), so that the tests
see whether two incarnations of a rank trained at once.
"""

import fcntl
import os
import signal
import sys
from pathlib import Path

import pytest

from conftest_frameworks import PATIENCE, parts_of
from harness import Events, commands_of, descendants_of, is_alive, kill_quietly, wait_until
from nodes import Nodes
from pages import Page

sys.path.append(str(Path(__file__).resolve().parents[2] / "chaos"))
from lab import HOSTS, Network, address, why_not  # noqa: E402

NODES, LOST, SPARE = 3, 1, 3
PREEMPTED = NODE_LOST = 42
# A busy machine must not lose a node by itself.
OPTIONS = ["-n", "1", "--cluster-insecure", "--checkpoint-every", "8", "--cluster-heartbeat-timeout", "12s",
           "--cluster-replace-wait", "120s"]
# The programs of the pages get fewer steps, and a call of told.trains() in each step.
LOOP = ("        optimizer.zero_grad()\n", "        told.trains(job.finished)\n        optimizer.zero_grad()\n")
# With three ranks these two keep the order in which DistributedDataParallel sums the gradients, as their pages say.
REHEARSED = ("checkpoint.load()\n",
             "checkpoint.load(rehearse=lambda: model(torch.zeros(8, 16, device=device)).sum().backward())\n")
SAME_ORDER = ('"ddp"', '"ddp_find_unused_parameters_true"')
CHANGES = {
    "ddp": [("EPOCHS = 20\n", "EPOCHS = 2\n"), LOOP, REHEARSED],
    "fsdp": [("EPOCHS = 10\n", "EPOCHS = 2\n"), LOOP],
    "trainer": [("max_steps=200", "max_steps=40"),
                ("callbacks=[PreemptionCallback(job)]", "callbacks=[Told(job)]"),
                ("job = pch.attach()\n", "class Told(PreemptionCallback):\n"
                 "    def on_step_begin(self, args, state, control, **_):\n"
                 "        told.trains(state.global_step)\n"
                 "job = pch.attach()\n")],
    "lightning": [("max_epochs=12", "max_epochs=2"), SAME_ORDER,
                  ("        inputs, wanted = batch\n", "        told.trains(self.global_step)\n        inputs, wanted = batch\n")],
    "jax": [("job.steps(600,", "job.steps(40,"), ("(32, 17)", "(33, 17)"),
            ("    state = train(state, batch(step))\n", "    told.trains(step)\n    state = train(state, batch(step))\n")],
}


def program_of(name):
    code = Page(name).program
    for before, after in CHANGES[name]:
        assert code.count(before) == 1, before
        code = code.replace(before, after)
    return f"import told\ntold.begin()\n{code}"


class Cluster(Nodes):
    """A job on three hosts, whose ranks share one folder. A fourth host is there for a replacement, or stands by as a
    spare."""

    def __init__(self, world, network, page, folder, spares=0, **env):
        super().__init__(world, NODES, [*OPTIONS, "--cluster-spares", spares, "--checkpoint-dir", folder / "run7"])
        self.network, self.folder, self.events = network, folder, Events(folder / "events")
        self.entries = ",".join(f"node{host}:{self.port}" for host in range(NODES + spares))
        self.command = [os.environ["PCH_PYTHON"], folder / Page(page).file]
        folder.mkdir()
        (folder / Page(page).file).write_text(program_of(page))
        self.hosts = world.file("hosts", "127.0.0.1 localhost\n" + "".join(
            f"{address(host)} node{host}\n" for host in range(HOSTS)))
        told = str(Path(__file__).resolve().parents[1])
        package = [os.environ["PCH_PACKAGE"]] if os.environ.get("PCH_PACKAGE") else []
        self.env = {"PYTHONPATH": os.pathsep.join([*package, told]), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
                    "ACTOR_LOG": str(self.events.path), "HOLD": str(world.root), "ACCELERATE_USE_CPU": "true",
                    "TORCHINDUCTOR_CACHE_DIR": str(world.root / "inductor"), **env}
        for node in range(NODES + spares):
            self.start_on(node, node)

    def start_on(self, host, rank):
        """Starts the pchrun of a node on a host, which has a name of its own."""
        named = f'mount --bind {self.hosts} /etc/hosts && hostname node{host} && exec "$@"'
        with self.network.inside(self.network.hosts[host]):
            self.jobs[rank] = self.launch(rank, *self.command, above=["unshare", "--uts", "--mount", "sh", "-c", named, "sh"],
                                          env=self.env, cwd=self.folder)

    def take_place(self):
        """Another host takes the place of the lost node. A spare does so by itself."""
        if SPARE in self.jobs:
            self.jobs[LOST] = self.jobs.pop(SPARE)
        else:
            self.start_on(SPARE, LOST)

    def await_commit(self):
        """Waits until all ranks train, and a step is committed."""
        first = self.jobs[0]
        wait_until(lambda: "is durable on every rank" in first.err or first.process.poll() is not None, "a commit", PATIENCE)
        assert first.process.poll() is None, self.said()

    def said(self):
        return "".join(job.err + job.out for job in self.jobs.values())


def weights_in(folder):
    found = {path.name: parts_of(path) for path in folder.glob("model*")}
    assert found
    return found


@pytest.fixture(scope="module")
def network():
    if why_not():
        pytest.skip(why_not())
    network = Network()
    yield network
    network.close()


@pytest.fixture
def undisturbed(world, network, tmp_path_factory):
    """undisturbed(page): the weights of a run without a loss. The first test of the page makes it, also for tests in other
    processes."""
    def weights(page):
        shared = tmp_path_factory.getbasetemp()
        shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
        kept = shared / f"undisturbed-{page}"
        with (shared / f"{page}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                job = Cluster(world, network, page, world.root / "undisturbed")
                assert job.finish(deadline=PATIENCE) == 0, job.said()
                job.folder.rename(kept)
        return weights_in(kept)
    return weights


def killed(job):
    """The machine fails: all processes of the node end at once."""
    lost = job.jobs.pop(LOST)
    for pid in (lost.pid, *descendants_of(lost.pid)):
        kill_quietly(pid)
    assert lost.finish() == -signal.SIGKILL
    job.say(0, "node 1 (node1) is lost: the job waits up to ")
    job.take_place()


def cut_off(job):
    """The node loses its link, and gets it back when the next generation trains. By then its pchrun has killed its ranks.
    Here the fourth host is a spare."""
    lost = job.jobs.pop(LOST)
    ranks = [pid for command in commands_of(lost.pid) for pid in (command, *descendants_of(command))]
    job.network.link(LOST, "down")
    try:
        job.say(0, "node 1 (node1) is lost: the job waits up to ")
        job.take_place()
        job.say(0, "generation 1 begins")
        assert ranks and not [pid for pid in ranks if is_alive(pid)]
        job.events.wait("trains", generation=1, deadline=PATIENCE)
    finally:
        job.network.link(LOST, "up")
    assert lost.finish() == NODE_LOST, lost.err


def reclaimed(job):
    """The node has a notice: only it leaves, when all ranks have saved."""
    lost = job.jobs.pop(LOST)
    lost.send(signal.SIGTERM)
    job.say(0, ", then leaves")
    job.world.go_on("on")
    assert lost.finish() == PREEMPTED, lost.err
    job.say(0, "node 1 (node1) is lost: the job waits up to ")
    job.take_place()


@pytest.mark.killed
@pytest.mark.parametrize("loss", [killed, cut_off, reclaimed])
@pytest.mark.parametrize("page", CHANGES)
def test_the_training_goes_on(world, network, undisturbed, page, loss):
    wanted = undisturbed(page)
    job = Cluster(world, network, page, world.root / "shared", spares=int(loss is cut_off), LOST="1")
    job.await_commit()
    loss(job)
    assert job.finish(deadline=PATIENCE) == 0, job.said()
    assert job.agreed("generation", "outcome") == {"generation": 1, "outcome": "completed"}
    expect_apart(job.events)
    expect_resumed(job, loss)
    assert weights_in(job.folder) == wanted


def expect_apart(events):
    """The ranks of each generation meet at a port of its own, and train only after all of the generation before."""
    begins, trains = events.all("begins"), events.all("trains")
    assert sorted((each["generation"], each["rank"], each["host"]) for each in begins) == [
        *((0, rank, f"node{rank}") for rank in range(NODES)), (1, 0, "node0"), (1, 1, f"node{SPARE}"), (1, 2, "node2")]
    assert not [each for each in begins if each["older"]], begins
    meets = [{each["meets"] for each in begins if each["generation"] == n} for n in (0, 1)]
    assert [len(places) for places in meets] == [1, 1] and meets[0] != meets[1]
    assert all(place.startswith("node0:") for place in meets[0] | meets[1])
    assert max(each["at"] for each in trains if each["generation"] == 0) < \
        min(each["at"] for each in begins if each["generation"] == 1)


def expect_resumed(job, loss):
    """The job resumes at a commit. After a notice it is the step that all ranks had trained to."""
    (resumed,) = {job.report(node)["steps"]["resumed"] for node in range(NODES)}
    trained = max(each["step"] for each in job.events.all("trains", generation=0)) + 1
    first = min(each["step"] for each in job.events.all("trains", generation=1))
    assert first == resumed and (resumed == trained if loss is reclaimed else 8 <= resumed <= trained)
