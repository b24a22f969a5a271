# SPDX-License-Identifier: Apache-2.0
"""The batch scripts of contrib/slurm, as they are, under a real Slurm: run.sh, cluster.py.

Each job trains the example. Of each it is told which step it has finished, once: so when it has been
started again as often as need be, every step from the first to the last must have been told exactly
once, and what it has learnt must be what an undisturbed training learns.

Environment: TESTED, the folders with pchrun and pchrun-watch; CHARLM, the example.
"""

import concurrent.futures
import os
import re
import subprocess
from pathlib import Path

import pytest

from cluster import Cluster, processes

SCRIPTS = Path(__file__).parents[2] / "contrib/slurm"
CHARLM = os.environ["CHARLM"]
STEPS = 300
SLOW_MS = 60  # a step: a job does not end before it is disturbed
SLOWER_MS = 250  # nor before Slurm looks at its time

TRAIN = ('exec "$0" --dir . --root "${MASTER_ADDR:-127.0.0.1}" --port "${MASTER_PORT:-14300}" '
         f'--steps {STEPS} --log-every 1 --step-time "$(cat pace)"')


@pytest.fixture(scope="module")
def cluster(request, tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("slurm"), os.environ["TESTED"])
    made.start()
    yield made
    if request.session.testsfailed:  # with its jobs, and the namespace ends them
        return
    made.stop()
    left = processes(f"SLURM_CONF={made.conf}")
    assert not left, f"processes are left: {left}"


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """What so many ranks learn if nobody disturbs them."""
    known = {}

    def digest(ranks):
        if ranks not in known:
            folder = tmp_path_factory.mktemp(f"alone{ranks}")
            pchrun = os.environ["TESTED"].split(":")[0] + "/pchrun"
            done = subprocess.run([pchrun, "--preset", "none", "-n", str(ranks), "--", CHARLM, "--dir", folder,
                                   "--steps", str(STEPS)], capture_output=True, text=True, timeout=60, check=True)
            known[ranks] = digest_of(done.stdout)
        return known[ranks]
    return digest


def digest_of(text):
    return re.findall(r"^digest (.*)", text, re.M)[-1]


class Training:
    """A job that trains the example, slowly until it is told to be quick."""

    def __init__(self, cluster, script, name, *options, pace_ms=SLOW_MS, **env):
        # The notice ends the job at once: what it does with the time that is left, other tests show.
        env = {"PCHRUN_SAVE_TRAIN_ON": "false", **env}
        self.job = cluster.submit(SCRIPTS / script, "sh", "-c", TRAIN, CHARLM, name=name, options=options,
                                  env=env, files={"pace": str(pace_ms)})

    def wait_step(self, step=3):
        """Until it has finished that one; in its present run."""
        self.job.wait_log(rf"^step {step} ")

    def last_step(self):
        return int(re.findall(r"^step (\d+) ", self.job.log, re.M)[-1])

    def go_on(self, quick=True):
        """It has been put back, and is to run again now."""
        if quick:
            (self.job.folder / "pace").write_text("0")
        self.job.run_again()

    def check_learnt(self, digest):
        """It has ended, and has done and told every step once."""
        assert self.job.wait_end() == ("COMPLETED", "0:0"), self.job.log
        steps = [int(step) for step in re.findall(r"^step (\d+) ", self.job.log, re.M)]
        assert steps == list(range(1, STEPS + 1)), self.job.log
        assert digest_of(self.job.log) == digest


def nodes(first, last):
    return [f"--nodelist=n[{first}-{last}]", f"--nodes={last - first + 1}"]


BY_SIGNALS = {"PCHRUN_NOTICES": "none", "pace_ms": SLOWER_MS}


def signalled_ahead(cluster, name, script, *options):
    training = Training(cluster, script, name, *options, "--time=2", **BY_SIGNALS)
    training.job.wait_requeued()
    training.job.update("TimeLimit=60")
    training.go_on()
    training.job.wait_end()
    return training


def over_its_limit(cluster, name, script, *options):
    training = Training(cluster, script, name, *options, PCHRUN_SIGNALS="USR1=ignore", **BY_SIGNALS)
    training.wait_step()
    training.job.update("EndTime=now+1")
    training.job.wait_requeued()
    training.go_on()
    training.job.wait_end()
    return training


@pytest.fixture(scope="module")
def early(cluster):
    """Slurm looks every 30 seconds whose time comes to its end. Those who wait for that wait together,
    and while the other tests run: {name: future of the Training that has ended}."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        yield {
            "signal": pool.submit(signalled_ahead, cluster, "signal", "nodes.sbatch", *nodes(5, 6)),
            "batch-signal": pool.submit(signalled_ahead, cluster, "batch-signal", "batch.sbatch", *nodes(5, 5)),
            "limit": pool.submit(over_its_limit, cluster, "limit", "nodes.sbatch", *nodes(5, 6)),
            "batch-limit": pool.submit(over_its_limit, cluster, "batch-limit", "batch.sbatch", *nodes(6, 6)),
        }


def test_requeued_on_42_until_it_completes(cluster, early, learnt):
    """Four nodes with two ranks each. Any node's notice ends all, with 42 from every task, which srun and
    the batch script hand on."""
    training = Training(cluster, "nodes.sbatch", "four-by-two", *nodes(1, 4), PCHRUN_PROCS_COUNT=2)
    for run in (1, 2, 3):
        training.job.wait_log(rf"^step {20 * run} ")
        cluster.run("scancel", "--signal=TERM", training.job.number)
        training.job.wait_requeued(run)
        training.go_on(quick=run == 3)
    training.check_learnt(learnt(8))
    assert len(re.findall(r"^pchrun\[0\] .* ending: preempted: saved and committed", training.job.log, re.M)) == 3


def test_a_pchrun_for_every_task(cluster, learnt):
    """Slurm starts the ranks, two on a node; each has a pchrun, which are eight nodes to each other."""
    training = Training(cluster, "tasks.sbatch", "tasks", *nodes(1, 4), "--ntasks-per-node=2")
    training.wait_step()
    cluster.run("scancel", "--signal=TERM", training.job.number)
    training.job.wait_requeued()
    training.go_on()
    training.check_learnt(learnt(8))


def test_preempted_within_the_grace_time(cluster, learnt):
    """A job of a better partition wants the nodes. The tasks are told at once, and leave long before
    GraceTime is over; the batch script is not told."""
    training = Training(cluster, "nodes.sbatch", "preempted", *nodes(3, 4), PCHRUN_NOTICES="none")
    training.wait_step()
    better = cluster.submit("--wrap=sleep 1", name="better", options=["--partition=high", "--exclusive", *nodes(3, 4)])
    training.job.wait_requeued()
    assert better.wait_end() == ("COMPLETED", "0:0")
    training.go_on()
    training.check_learnt(learnt(2))


def test_cancelled(cluster):
    """scancel is no preemption, but who can tell: all is saved, and Slurm does not put it back."""
    training = Training(cluster, "nodes.sbatch", "cancelled", *nodes(1, 2))
    training.wait_step()
    cluster.run("scancel", training.job.number)
    assert training.job.wait_end()[0] == "CANCELLED"
    assert training.job.show()["Restarts"] == "0"
    assert training.last_step() == int(training.job.wait_log(r"commit: step (\d+)"))


def test_requeued_by_its_hook(cluster, learnt):
    """A cluster that does not know the code: requeue.sh asks Slurm."""
    training = Training(cluster, "nodes.sbatch", "hook", *nodes(1, 2), PCHRUN_EXIT_PREEMPTED=45,
                        PCHRUN_EXIT_HOOK=SCRIPTS / "requeue.sh")
    training.wait_step()
    cluster.run("scancel", "--signal=TERM", training.job.number)
    training.job.wait_requeued()
    training.go_on()
    training.check_learnt(learnt(2))


def test_the_end_of_its_time_is_asked_for(cluster, learnt):
    """Without a signal: pchrun-watch learns from squeue that less than ten minutes are left."""
    training = Training(cluster, "nodes.sbatch", "end-of-time", *nodes(1, 1), "--time=5")
    training.job.wait_log("the job's time is over at")
    training.job.wait_requeued()
    training.job.update("TimeLimit=60")
    training.go_on()
    training.check_learnt(learnt(1))


@pytest.mark.parametrize("name, ranks", [("signal", 2), ("batch-signal", 1)])
def test_signalled_ahead_of_the_end(early, learnt, name, ranks):
    """--signal=USR1@120, as the scripts ask for it: to the tasks, or with B: to the batch process."""
    training = early[name].result()
    assert "notice: SIGUSR1" in training.job.log
    training.check_learnt(learnt(ranks))


@pytest.mark.parametrize("name, ranks", [("limit", 2), ("batch-limit", 1)])
def test_over_its_time_limit(early, learnt, name, ranks):
    """Slurm sends SIGTERM, to a task twice within some ms, and kills 30 seconds later. A job that ends with
    42 meanwhile is put back, although its time was over."""
    training = early[name].result()
    assert "notice: SIGTERM" in training.job.log
    training.check_learnt(learnt(ranks))
