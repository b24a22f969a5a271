# SPDX-License-Identifier: Apache-2.0
"""The program that runs after a preemption (exit.hook): when, where, for how long, and that it can
do the job no harm."""

import json
import os
import signal
from pathlib import Path

import pytest

from harness import PREEMPTED, children_of, commands_of, is_alive, marked, wait_until
from nodes import Nodes

TERM = signal.SIGTERM
PLACES = "PCH_JOB PCH_NODE_RANK PCH_NNODES PCH_ATTEMPT PCH_OUTCOME PCH_EXIT_CODE".split()


@pytest.fixture
def hook(world):
    """hook(script): a hook of this text; it notes its environment first."""
    return lambda script="": world.file(
        "hook", f"#!/bin/sh\nenv >'{world.root}'/told.$PCH_NODE_RANK\n{script}", 0o755)


@pytest.fixture
def hanging(world, hook):
    """A hook that ignores SIGTERM and does not end."""
    return hook(f"exec '{world.actor}' ignore TERM say hanging pause\n")


def is_settled(world, jobs):
    """Do the reports tell of the running hook, and is no file being written? Then each pchrun only waits."""
    hooks = [json.loads(path.read_text())["exit_hook"] for path in world.root.glob("report*.json")]
    return (sum(hook is not None and hook["state"] == "running" for hook in hooks) == len(jobs)
            and all(children_of(job.pid) == commands_of(job.pid) for job in jobs))


@pytest.fixture
def leap(world):
    """leap(pchrun, ...): an hour passes at once for them. So their hooks have all the time that they need until then."""
    ahead = world.root / "ahead"
    world.env |= world.shim("clock", SHIM_AHEAD=ahead)
    del world.env["PCHRUN_STOP_CGROUP"]  # this shim concerns no start

    def act(*jobs):
        wait_until(lambda: is_settled(world, jobs), "the reports of the hooks")
        ahead.write_text("3600")
        for job in jobs:
            os.kill(job.pid, signal.SIGCHLD)  # wakes it up
    return act


def told(world, node=0):
    """The environment that the hook had; None: it did not run."""
    path = world.root / f"told.{node}"
    if not path.exists():
        return None
    return dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)


def preempted(world, *options):
    """A preemption of a program without libpch; returns the job, which may still run."""
    job = world.act("say ready pause", options=["--report", world.root / "report.json", *options])
    os.kill(job.pid, TERM)
    return job


def report(world):
    return json.loads((world.root / "report.json").read_text())["exit_hook"]


def test_it_runs_after_the_commit(world, training, hook):
    """As with TensorFlow's exit_fn: the checkpoint is complete, and its path is known."""
    job = training("--exit-hook", hook(f"cp '{world.root}/checkpoints/.pchrun/commit.json' "
                                       f"'{world.root}/seen.json'\nexit 0\n"), "--job", "run7", n=2, train=3)
    step = job.preempt()
    assert job.result() == (PREEMPTED, "preempted", step)
    env = told(world)
    assert [env[name] for name in PLACES] == ["run7", "0", "1", "1", "preempted", "42"]
    assert env["PCH_COMMIT_STEP"] == str(step) and env["PCH_COMMIT_PATH"] == job.path(step, 0)
    assert not [name for name in env if name.startswith("PCHRUN_")]
    assert "PCH_SOCKET" not in env and "PCH_RANK" not in env
    seen = json.loads((world.root / "seen.json").read_text())
    assert seen["commits"][-1]["step"] == step
    told_of = job.report()["exit_hook"]
    assert told_of["state"] == "over" and told_of["code"] == 0 and told_of["signal"] is None
    assert told_of["text"] == "exit code 0" and told_of["took_ms"] >= 0


def test_without_a_commit(world, hook):
    """pchrun knows nothing of a program without libpch. It makes up no path, and passes on no inherited one."""
    job = preempted(world, "--exit-hook", hook())
    assert job.finish() == PREEMPTED
    env = told(world)
    assert env["PCH_OUTCOME"] == "preempted_unknown" and env["PCH_COMMIT_STEP"] == "0"
    assert "PCH_COMMIT_PATH" not in env


@pytest.mark.parametrize("verbs, code", [("exit 0", 0), ("exit 7", 7)], ids=["completed", "failed"])
def test_not_without_a_preemption(world, hook, verbs, code):
    world.act(verbs, options=["--report", world.root / "report.json", "--exit-hook", hook()], code=code)
    assert told(world) is None and report(world) is None


def test_if_a_node_is_not_healthy(world, hook):
    """Each node learns which one it is, so that one of them can take its host off the job."""
    check = world.file("check", "#!/bin/sh\necho '{\"healthy\": false}'\nexit 1\n", 0o755)
    two = Nodes(world, 2, ["--exit-hook", hook()])
    two.start(0)
    two.start(1, options=["--health-check", check])
    assert [two.jobs[node].finish() for node in (0, 1)] == [PREEMPTED, 45]
    for node, code in ((0, "42"), (1, "45")):
        env = told(world, node)
        assert (env["PCH_OUTCOME"], env["PCH_EXIT_CODE"], env["PCH_CAUSE_NODE"]) == ("unhealthy", code, "1")


def test_on_each_node(world, hook):
    """Each node has a disk and a cache of its own to save."""
    two = Nodes(world, 2, ["--exit-hook", hook()])
    two.start_all("pause")
    os.kill(two.jobs[1].pid, TERM)
    assert two.finish() == PREEMPTED
    for node in (0, 1):
        env = told(world, node)
        assert env["PCH_NODE_RANK"] == str(node) and env["PCH_NNODES"] == "2" and "PCH_CAUSE_NODE" not in env


def test_the_deadline_of_another_nodes_notice(world, hanging, leap):
    """A node that was given no notice itself has the same time, no more and no less."""
    three = Nodes(world, 3, ["--grace", "10m", "--exit-hook-wait", "1h", "--exit-hook", hanging])
    three.start_all("pause")
    os.kill(three.jobs[1].pid, TERM)
    world.events.wait("hanging", count=3)
    leap(*three.jobs.values())
    assert three.finish() == PREEMPTED
    for job in three.jobs.values():
        assert "killed, since the grace is over" in job.err


def test_signals_that_come_meanwhile(world, hook):
    """Slurm sends SIGTERM again at the end of its grace; the hook is shielded, and ends in time."""
    job = preempted(world, "--exit-hook", hook(f"exec '{world.actor}' say hooked until USR1\n"))
    hooked = world.events.wait("hooked")["pid"]
    for number in (TERM, TERM, signal.SIGINT, signal.SIGUSR2):
        job.send(number)
    assert is_alive(hooked) and job.process.poll() is None
    os.kill(hooked, signal.SIGUSR1)
    assert job.finish() == PREEMPTED


@pytest.mark.parametrize("script,code,number,text", [
    ("exit 3", 3, None, "exit code 3"), ("kill -SEGV $$", 139, 11, "signal 11"),
], ids=["code", "signal"])
def test_its_failure_is_told_and_changes_nothing(world, hook, script, code, number, text):
    """The checkpoint is there: the scheduler must start the job again, hook or not."""
    job = preempted(world, "--exit-hook", hook(script))
    assert job.finish() == PREEMPTED
    assert f"hook'" in job.err and text in job.err
    assert report(world)["code"] == code and report(world)["signal"] == number


def test_one_that_hangs_is_killed_with_its_group(world, hook, leap):
    """An upload that never ends must not cost the exit code that starts the job again."""
    job = preempted(world, "--exit-hook-wait", "10m", "--grace", "1h", "--exit-hook",
                    hook(f"'{world.actor}' ignore TERM say below pause &\n"
                         f"exec '{world.actor}' ignore TERM say hanging pause\n"))
    hanging = world.events.wait("hanging")["pid"]
    below = world.events.wait("below")["pid"]
    leap(job)
    assert job.finish() == PREEMPTED
    assert not is_alive(hanging)
    wait_until(lambda: not is_alive(below), "the hook's group to die")  # pchrun reaps the hook alone
    assert "killed, since exit.hook_wait is over" in job.err
    assert report(world)["signal"] == 9 and report(world)["took_ms"] >= 3600_000


def test_never_beyond_the_deadline(world, hanging, leap):
    """The machine goes away at the deadline, whatever exit.hook_wait says."""
    job = preempted(world, "--grace", "10m", "--exit-hook-wait", "1h", "--exit-hook", hanging)
    world.events.wait("hanging")
    leap(job)
    assert job.finish() == PREEMPTED
    assert "killed, since the grace is over" in job.err


def test_no_time_is_left_for_it(world, hook):
    """A platform that gives no grace at all, or a save that took all of it."""
    job = preempted(world, "--grace", "0", "--exit-hook", hook())
    assert job.finish() == PREEMPTED
    assert told(world) is None
    assert report(world)["text"] == "not run, since the grace is over"
    assert report(world)["code"] is None


@pytest.mark.parametrize("apart, then, options", [
    ("", "", ""), ("setsid", "", ""), ("setsid", "pause", "--exit-hook-wait 10m --grace 1h")],
    ids=["in its group", "in a session", "in a session, killed"])
def test_what_it_leaves_behind_is_killed(world, hook, leap, apart, then, options):
    """Promise 6: nothing is left of a node whose pchrun has ended. A process that leaves the hook's group still
    belongs to the node."""
    script = (f"{apart} '{world.actor}' say below pause &\n"
              f"while ! grep -q below '{world.events.path}'; do sleep 0.01; done\n"
              + (f"exec '{world.actor}' pause\n" if then else ""))
    job = preempted(world, *options.split(), "--exit-hook", hook(script))
    below = world.events.wait("below")["pid"]
    if then:
        leap(job)
    assert job.finish() == PREEMPTED
    wait_until(lambda: not is_alive(below), "what the hook left to end")
    assert then or report(world)["code"] == 0


def test_its_folder_and_streams(world, hook):
    """Folder and streams are the same, however early the end comes: pchrun keeps nothing that it inherited."""
    job = preempted(world, "--exit-hook", hook('echo "$(pwd; readlink /proc/$$/fd/[01])" >&2\n'
                                               "echo lost\n"))
    assert job.finish() == PREEMPTED
    assert "\n/\n/dev/null\n/dev/null\n" in job.err and not job.out


def test_arguments_come_from_the_file(world, hook):
    """A path in the file is relative to the file; a bare name is searched in PATH."""
    hook('echo "$0 got $*" >&2\n')
    path = world.file("config.json", '{"exit": {"hook": ["./hook", "a b", ""], "hook_wait": "5s"}}')
    job = preempted(world, "-c", path)
    assert job.finish() == PREEMPTED
    assert "/hook got a b \n" in job.err
    path.write_text('{"exit": {"hook": ["sh", "-c", "echo bare >&2"]}}')
    job = preempted(world, "-c", path)
    assert job.finish() == PREEMPTED
    assert "\nbare\n" in job.err


@pytest.mark.parametrize("make,words", [
    (lambda world: "/no/such/hook", ["/no/such/hook", "No such file"]),
    (lambda world: world.file("hook", "#!/bin/sh\n"), ["hook", "Permission denied", "chmod +x"]),
    (lambda world: world.root, ["Is a directory"]),
    (lambda world: "no-such-hook", ["no-such-hook", "PATH"]),
], ids=["missing", "not executable", "a folder", "not in PATH"])
def test_one_that_cannot_run_is_an_error_at_the_start(world, make, words):
    """Not on the day of the preemption."""
    world.refused("exit.hook", *words, options=["--exit-hook", make(world)])


def test_one_that_is_gone_meanwhile(world, hook):
    """The hook was there at the start, and is missing now. The checkpoint counts more."""
    path = hook()
    job = world.act("say ready pause", options=["--report", world.root / "report.json", "--exit-hook", path])
    path.unlink()
    job.end_by(TERM, PREEMPTED)
    assert "cannot execute" in job.err and "cannot execute" in report(world)["text"]
    assert report(world)["code"] is None


@pytest.mark.killed
def test_it_dies_with_pchrun(world, hanging):
    """When pchrun is killed, its hook ends with it."""
    job = preempted(world, "--exit-hook", hanging)
    below = world.events.wait("hanging")["pid"]
    job.kill()
    wait_until(lambda: not is_alive(below), "the hook to die with pchrun")
    wait_until(lambda: not marked(world.mark), "who was writing the report to end")


# --- the hook for Slurm ---

REQUEUE = Path(__file__).parents[2] / "contrib/slurm/requeue.sh"
# Slurm knows the hosts n1 to n9, and refuses a list with another name.
SCONTROL = """#!/bin/sh
echo "$*" >>'{0}/asked'
case $* in *show*) echo "JobId=7 JobState=COMPLETING Reason=Preempted ExcNodeList={1} NodeList=n5" ;; esac
! echo "$*" | grep -q 'ExcNodeList=.*[^n1-9,]'
"""


@pytest.mark.parametrize("outcome, rank, struck, before, after", [
    ("preempted", 0, "", "(null)", []),
    ("preempted", 0, "n7", "(null)", ["n7"]),
    ("preempted", 0, "n7,n8", "n2,n7", ["n2,n7,n8"]),
    ("unhealthy", 1, "", "(null)", ["n5"]),
    ("unhealthy", 1, "n5,n7", "n2", ["n2,n5", "n2,n5,n7"]),
    ("unhealthy", 1, "pod-0,n7", "(null)", ["pod-0", "n7", "n7,n5"]),
    ("unhealthy", 0, "n7", "(null)", None),
    ("no_progress", 1, "n7", "(null)", None),
])
def test_slurm_avoids_the_hosts_that_were_not_healthy(world, outcome, rank, struck, before, after):
    """One node requeues the job, and adds to the list that the job has."""
    world.file("scontrol", SCONTROL.format(world.root, before), 0o755)
    world.start("sh", REQUEUE, code=0, env={
        "PATH": f"{world.root}:/usr/bin:/bin", "PCH_OUTCOME": outcome, "PCH_NODE_RANK": str(rank),
        "PCH_CAUSE_NODE": "1", "PCH_UNHEALTHY_HOSTS": struck, "SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n5"})
    asked = (world.root / "asked").read_text().splitlines() if (world.root / "asked").exists() else []
    assert asked == ([] if after is None else [
        "-o show job 7", "requeue 7", *(f"update JobId=7 ExcNodeList={hosts}" for hosts in after)])


@pytest.mark.parametrize("array, named", [("7", "7_2"), ("5", "7")])
def test_slurm_requeues_one_task_of_an_array(world, array, named):
    """The number of the array, which is also that of one task, means all tasks. A job that a task of another array has
    submitted has that task's variables, too: it is requeued itself."""
    world.file("scontrol", SCONTROL.format(world.root, "(null)"), 0o755)
    world.start("sh", REQUEUE, code=0, env={
        "PATH": f"{world.root}:/usr/bin:/bin", "PCH_OUTCOME": "preempted", "PCH_NODE_RANK": "0", "SLURM_JOB_ID": "7",
        "SLURM_ARRAY_JOB_ID": array, "SLURM_ARRAY_TASK_ID": "2"})
    assert (world.root / "asked").read_text().splitlines() == [f"-o show job {named}", f"requeue {named}"]
