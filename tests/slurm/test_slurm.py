# SPDX-License-Identifier: Apache-2.0
"""Runs the unchanged batch scripts of contrib/slurm under a real Slurm: run.sh, cluster.py.

Each job trains the example, is disturbed, and is requeued by Slurm until it completes. It must have printed
each step exactly once, and its weights must be those of an undisturbed training. Slurm looks at time limits
every 30 seconds only. So all stories run at the same time, and the tests check how they have ended.

Environment: TESTED, the folders with pchrun and pchrun-watch; CHARLM, the example.
"""

import concurrent.futures
import os
import re
import subprocess
from pathlib import Path

import pytest

from cluster import Cluster, processes, wait_until

SCRIPTS = Path(__file__).parents[2] / "contrib/slurm"
CHARLM = os.environ["CHARLM"]
STEPS = 300
SLOW_MS = 60  # a step, slow enough that the job is disturbed before its end
SLOWER_MS = 250  # a step, slow enough that Slurm looks at the job's time before its end

TRAIN = ('mkdir -p "./$SLURM_ARRAY_TASK_ID"; exec "$0" --dir "./$SLURM_ARRAY_TASK_ID" --root "${MASTER_ADDR:-127.0.0.1}" --port "${MASTER_PORT:-14300}" '
         f'--steps {STEPS} --log-every 1 --step-time "$(cat pace)"')


@pytest.fixture(scope="module")
def cluster(request, tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("slurm"), os.environ["TESTED"])
    made.start()
    yield made
    if request.session.testsfailed:  # jobs may still run; the namespace ends them and the daemons
        return
    made.stop()
    left = processes(f"SLURM_CONF={made.conf}")
    assert not left, f"processes are left: {left}"


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """A function: the digest after an undisturbed training of `ranks` ranks."""
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
    """A job that trains the example slowly, until quicken() is called."""

    def __init__(self, cluster, script, name, *options, pace_ms=SLOW_MS, **env):
        # The notice ends the job at once: other tests show how it uses the time that is left.
        env = {"PCHRUN_SAVE_TRAIN_ON": "false", **env}
        self.job = cluster.submit(SCRIPTS / script, "sh", "-c", TRAIN, CHARLM, name=name, options=options,
                                  env=env, files={"pace": str(pace_ms)})

    def wait_step(self, step=3):
        """Waits until the present run has finished this step."""
        self.job.wait_log(rf"^step {step} ")

    def last_step(self):
        return int(re.findall(r"^step (\d+) ", self.job.log, re.M)[-1])

    def requeued(self):
        """Waits until the job has been requeued, lets it train to its end, and returns itself."""
        self.job.wait_requeued()
        self.go_on()
        return self

    def disturbed(self, *scancel):
        """The job is signalled by scancel when it trains, and requeued."""
        self.wait_step()
        self.job.cluster.run("scancel", *scancel, self.job.number)
        return self.requeued()

    def go_on(self, quick=True):
        """Waits until the job has been requeued, and starts it again at once."""
        if quick:
            (self.job.folder / "pace").write_text("0")
        self.job.run_again()


def nodes(first, last):
    return [f"--nodelist=n[{first}-{last}]", f"--nodes={last - first + 1}"]


BY_SIGNALS = {"PCHRUN_NOTICES": "none"}
BY_HOOK = {"PCHRUN_EXIT_PREEMPTED": 45, "PCHRUN_EXIT_HOOK": SCRIPTS / "requeue.sh"}


# --- the stories: each returns its Training, which has ended -------------------------------------

def four_by_two(cluster, name):
    training = Training(cluster, "nodes.sbatch", name, *nodes(1, 4), PCHRUN_PROCS_COUNT=2)
    for run in (1, 2, 3):
        training.job.wait_log(rf"^step {20 * run} ")
        cluster.run("scancel", "--signal=TERM", training.job.number)
        training.job.wait_requeued(run)
        training.go_on(quick=run == 3)
    return training


def tasks(cluster, name):
    return Training(cluster, "tasks.sbatch", name, *nodes(1, 4), "--ntasks-per-node=2").disturbed("--signal=TERM")


def preempted(cluster, name):
    training = Training(cluster, "nodes.sbatch", name, *nodes(7, 8), **BY_SIGNALS)
    training.wait_step()
    better = cluster.submit("--wrap=sleep 1", name="better",
                            options=["--partition=high", "--exclusive", *nodes(7, 8)])
    training.job.wait_requeued()
    assert better.wait_end() == ("COMPLETED", "0:0")
    training.go_on()
    return training


def cancelled(cluster, name, **env):
    training = Training(cluster, "nodes.sbatch", name, *nodes(1, 2), **env)
    training.wait_step()
    cluster.run("scancel", training.job.number)
    return training


def other_signal(cluster, name):
    """Sends USR2 as --signal=USR2 would. Before that, the login node looks at the job."""
    training = Training(cluster, "nodes.sbatch", name, *nodes(3, 4), **BY_SIGNALS)
    training.wait_step()
    training.status = cluster.run("srun", "--overlap", f"--jobid={training.job.number}", "--nodes=1", "--ntasks=1",
                                  "pchctl", "--node", "0", "--job", name, "status")
    return training.disturbed("--signal=USR2")


def hook(cluster, name):
    return Training(cluster, "nodes.sbatch", name, *nodes(1, 2), **BY_HOOK).disturbed("--signal=TERM")


def array(cluster, name):
    """Two tasks. The task with the array's own job number is disturbed; the hook requeues it."""
    training = Training(cluster, "nodes.sbatch", name, "--array=1-2", *nodes(3, 3), **BY_HOOK)
    whole = training.job
    training.other, training.job = whole.task(1), whole.task(2)
    assert training.job.own == str(whole.number)
    return training.disturbed("--signal=TERM")


def unhealthy(cluster, name):
    """The first host that checks itself is broken for good. The user excludes hosts, too."""
    check = cluster.root / "check"
    check.write_text("""#!/bin/sh
(set -C; echo $SLURMD_NODENAME >broken) 2>&-
[ "$(cat broken)" = $SLURMD_NODENAME ] || exit 0
echo '{"healthy": false, "component": "gpu3", "text": "Xid 79"}'
exit 1
""")
    check.chmod(0o755)
    training = Training(cluster, "nodes.sbatch", name, "--nodes=2", "--exclude=n[1-3,7-10]",
                        PCHRUN_HEALTH_CHECK=check, PCHRUN_EXIT_HOOK=SCRIPTS / "requeue.sh")
    return training.requeued()


def replaced(cluster, name):
    """Two nodes train, and a third stands by. The machine of node 1 dies."""
    training = Training(cluster, "replace.sbatch", name, "--nodelist=n[6,9-10]", "--nodes=3",
                        PCHRUN_CHECKPOINT_EVERY="1s", PCHRUN_CLUSTER_HEARTBEAT_TIMEOUT="8s", PCHRUN_STOP_KILL_WAIT="2s")
    training.wait_step(20)
    (training.job.folder / "pace").write_text("0")
    cluster.lose("n9")
    training.job.wait_log("generation 1 begins")
    return training


def cancelled_hook(cluster, name):
    return cancelled(cluster, name, **BY_HOOK)


def end_of_time(cluster, name):
    training = Training(cluster, "nodes.sbatch", name, *nodes(1, 1), "--time=5")
    training.job.wait_requeued()
    training.job.update("TimeLimit=60")
    training.go_on()
    return training


def signal(cluster, name, script="nodes.sbatch", where=(5, 6)):
    training = Training(cluster, script, name, *nodes(*where), "--time=2", pace_ms=SLOWER_MS, **BY_SIGNALS)
    training.job.wait_requeued()
    training.job.update("TimeLimit=60")
    training.go_on()
    return training


def batch_signal(cluster, name):
    return signal(cluster, name, "batch.sbatch", (5, 5))


def limit(cluster, name, script="nodes.sbatch", where=(5, 6)):
    training = Training(cluster, script, name, *nodes(*where), pace_ms=SLOWER_MS, PCHRUN_SIGNALS="USR1=ignore",
                        **BY_SIGNALS)
    training.wait_step()
    training.job.update("EndTime=now+1")
    return training.requeued()


def batch_limit(cluster, name):
    return limit(cluster, name, "batch.sbatch", (6, 6))


# The stories that wait longest come first.
STORIES = [limit, batch_limit, signal, batch_signal, four_by_two, tasks, preempted, cancelled, hook, cancelled_hook,
           unhealthy, array, other_signal, end_of_time, replaced]


@pytest.fixture(scope="module")
def end_of(cluster):
    """A function that waits for a story's end and returns its Training and how it has ended."""
    def tell(story):
        training = story(cluster, story.__name__)
        return training, training.job.wait_end()
    with concurrent.futures.ThreadPoolExecutor(len(STORIES)) as pool:
        told = {story: pool.submit(tell, story) for story in STORIES}
        yield lambda story: told[story].result()


# --- the tests -----------------------------------------------------------------------------------

def check_learnt(end, digest):
    """The job has completed, and has printed every step once."""
    training, state = end
    assert state == ("COMPLETED", "0:0"), training.job.log
    check_told(training.job.log, digest)


def check_told(log, digest):
    steps = [int(step) for step in re.findall(r"^step (\d+) ", log, re.M)]
    assert steps == list(range(1, STEPS + 1)), log
    assert digest_of(log) == digest


# For each story: the number of ranks, a text of the log, and how often the log has it.
COMPLETED = {
    # Four nodes with two ranks each. The notice of one node ends all nodes. Every task ends with 42, and srun and the
    # batch script pass that on.
    four_by_two: (8, r"^pchrun\[0\] .* ending: preempted: saved and committed", 3),
    # Slurm starts two ranks on a node. Each rank has a pchrun, and these form a job of eight nodes.
    tasks: (8, "all 8 nodes are there", None),
    # A job of a partition with more priority takes the nodes. The tasks get SIGTERM at once and leave long before
    # GraceTime is over; the batch script gets no signal.
    preempted: (2, "", None),
    # The scripts make USR2 a notice as well. Otherwise it would end the ranks before they save.
    other_signal: (2, "notice: SIGUSR2, 55 s left", None),
    # The cluster does not requeue on exit code 42, so requeue.sh does.
    hook: (2, "exit code 45", None),
    # requeue.sh excludes the host that a health check has found broken, and the job trains elsewhere.
    unhealthy: (2, r"end: unhealthy, exit code 45: node \d: n\d is not healthy: gpu3: Xid 79", 1),
    # No signal comes. pchrun-watch learns from squeue that less than ten minutes are left.
    end_of_time: (1, "the job's time ends at", None),
    # The scripts ask for --signal=USR1@120 to the tasks, or with B: to the batch process.
    signal: (2, "notice: SIGUSR1", None),
    batch_signal: (1, "notice: SIGUSR1", None),
    # At the time limit Slurm sends SIGTERM, to a task twice within some ms, and kills 30 seconds later. A job that
    # ends with 42 meanwhile is requeued.
    limit: (2, "notice: SIGTERM", None),
    batch_limit: (1, "notice: SIGTERM", None),
}


@pytest.mark.parametrize("story", COMPLETED, ids=lambda story: story.__name__)
def test_requeued_until_it_completes(end_of, learnt, story):
    ranks, told, times = COMPLETED[story]
    end = end_of(story)
    check_learnt(end, learnt(ranks))
    found = len(re.findall(told, end[0].job.log, re.M))
    assert found == times if times else found

def test_seen_from_the_login_node(end_of):
    """srun starts pchctl on the job's first node, which is node 0."""
    status = end_of(other_signal)[0].status
    assert status.startswith("job other_signal: ") and "\nattempt   1, generation 0, node 0 of 2\n" in status, status
    assert "\n1     n4 " in status, status


@pytest.mark.parametrize("story", [cancelled, cancelled_hook], ids=lambda story: story.__name__)
def test_cancelled(end_of, story):
    """scancel looks like a preemption: the job saves. Neither Slurm nor the hook requeues a job that a user has
    cancelled."""
    training, (state, _) = end_of(story)
    assert state == "CANCELLED"
    assert training.job.show()["Restarts"] == "0"
    assert story is cancelled_hook or training.last_step() == int(training.job.wait_log(r"commit: step (\d+)"))

def test_a_lost_node_is_replaced(end_of, learnt):
    """The job keeps its other nodes, and the spare takes the place."""
    training, state = end_of(replaced)
    assert state == ("COMPLETED", "0:0"), training.job.log
    assert set(re.findall(r"generation (\d+) begins", training.job.log)) == {"1"}  # each node says so
    assert training.job.show()["Restarts"] == "0"
    assert digest_of(training.job.log) == learnt(2)


def test_tasks_of_an_array(end_of, learnt):
    """Each task is a training of its own: one is requeued while the other one goes on."""
    end = end_of(array)
    check_learnt(end, learnt(1))
    other = end[0].other
    assert other.wait_end() == ("COMPLETED", "0:0"), other.log
    check_told(other.log, learnt(1))
    assert (end[0].job.show()["Restarts"], other.show()["Restarts"]) == ("1", "0")
    assert "holds the state directory" not in other.log + end[0].job.log


def test_each_task_of_an_array_learns_of_its_end(cluster):
    job = cluster.submit("--wrap=echo own $SLURM_JOB_ID; pchrun-watch slurm --check; "
                         "pchrun-watch slurm --lead 2h | head -n 1", name="ends",
                         options=["--array=0-2", "--output=%a.log"])
    logs = [job.folder / f"{task}.log" for task in range(3)]
    texts = wait_until(lambda: all(log.exists() and "}" in log.read_text() for log in logs)
                       and [log.read_text() for log in logs], "a notice for each task")
    own = [re.match(r"own (\d+)\n", text)[1] for text in texts]
    assert str(job.number) in own and len(set(own)) == 3
    for text, number in zip(texts, own):
        assert f'"type":"terminate","id":"slurm-{number}-' in text.replace(" ", ""), text
        assert "\nok: it answers\n" in text  # also while the end is too far away for a notice


def test_short_limit_of_a_command_that_does_not_attach(cluster):
    """squeue reports the job's end from the first second. The command ends long before that."""
    job = cluster.submit(SCRIPTS / "nodes.sbatch", "sh", "-c", "while ! [ -e told ]; do sleep 0.1; done", name="plain",
                         options=["--time=9", *nodes(7, 8)], env={"PCHRUN_PROCS_COUNT": 1})
    for node in range(2):
        job.wait_log(rf"^pchrun.{node}. .* the job's time ends at")
    (job.folder / "told").touch()
    assert job.wait_end() == ("COMPLETED", "0:0"), job.log
    assert job.show()["Restarts"] == "0"


SURROUNDINGS = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --output=%x-%j.log --signal=USR1@120
export PCHRUN_SIGNALS=USR1=preempt:115s PCHRUN_NOTICES=none
pchrun --make-key key
srun --label pchrun -- true
srun pchrun --cluster-key-file key -- sh -c 'echo is node $PCH_NODE_RANK of $PCH_NNODES'
srun -N1 -n1 pchrun --doctor -- true | sed 's/^/task: /'
pchrun --doctor -- true | sed 's/^/script: /'
exec srun --label pchrun --cluster-key-file key --doctor -- true
"""


def test_who_has_configured_nothing(cluster):
    """Two tasks of srun without a key are refused with a hint; with a key they form one job. The doctor reports
    Slurm's settings."""
    script = cluster.root / "surroundings.sh"
    script.write_text(SURROUNDINGS)
    job = cluster.submit(script, name="surroundings")
    job.wait_end()
    assert len(re.findall(r"^[01]: .* n\d is not a loopback address, .* pchrun --make-key run.key", job.log, re.M)) == 2
    assert sorted(re.findall(r"^is node (.*)", job.log, re.M)) == ["0 of 2", "1 of 2"]
    assert re.search(r"^task: ok +KillWait +Slurm kills 30 s after SIGTERM .*; a preemption tells this task 60 s earlier",
                     job.log, re.M)
    assert re.search(r"^task: unknown +notices +the batch script has --signal=USR1@120, 120 s before the end; whether sbatch",
                     job.log, re.M)
    assert re.search(r"^task: ok +requeue +Slurm puts back a batch job that ends with 42", job.log, re.M)
    assert re.search(r"^task: warn +batch script +the shell of the batch script \(process \d+\) waits for srun;", job.log, re.M)
    assert re.search(r"^script: warn +batch script +the shell of the batch script \(process \d+\) has started this;", job.log,
                     re.M)
    assert re.search(r"^0: ok +batch script +no shell of the batch script waits for srun$", job.log, re.M)
    assert re.search(r"^script: ok +KillWait .* tells tasks of srun 60 s earlier \(GraceTime\), but not this$", job.log, re.M)
    assert re.search(r"^script: bad +notices .* it goes to tasks of srun alone, not to this process; whether sbatch was given",
                     job.log, re.M)
