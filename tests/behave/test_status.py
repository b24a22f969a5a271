# SPDX-License-Identifier: Apache-2.0
"""pchctl status with several nodes: node 0 asks the others for their ranks when pchctl asks it."""

import json
import os
import re
import shlex
import signal
import time

import pytest

from harness import PREEMPTED, SLACK, wait_until
from nodes import Nodes, start_training
from pchctl import ctl, waited_for  # noqa: F401

# A node that stops must not be lost, and on a busy machine it stops for a while.
PATIENT = ["--cluster-heartbeat-timeout", "10m"]


def trained(world, nodes=3):
    job = Nodes(world, nodes, ["--job", "run7", *PATIENT])
    start_training(world, job)
    return job


def leave(job):
    job.jobs[1].send(signal.SIGTERM)
    assert job.finish() == PREEMPTED


def run_dir(world, ctl, node):  # noqa: F811
    """The directory of this node's pchrun. To find it, pchctl would have to ask all pchruns on this
    machine."""
    found = [path.parent for path in world.tmp.glob("pchrun.*/ctl")]
    return next(path for path in found
                if ctl.status("--run-dir", path)["report"]["node_rank"] == node)


def by_node(told):
    return [(rank["node_rank"], rank["rank"]) for rank in told["ranks"]]


def test_every_rank_of_every_node(world, ctl):  # noqa: F811
    job = trained(world)
    told = ctl.status("--node", 0)
    assert told["ranks_of"] == "job"
    assert by_node(told) == [(0, 0), (0, 1), (1, 2), (1, 3), (2, 4), (2, 5)]
    for rank in told["ranks"]:
        assert rank["attached"] and not rank["done"] and rank["phase"] == "train", rank
        assert rank["local_rank"] == rank["rank"] % 2 and rank["saved_step"] > 0, rank
        assert rank["step"] >= rank["saved_step"] and rank["steps_per_second"] > 0, rank
        assert 0 <= rank["step_age"] < 5 and not rank["step_age_is_least"], rank
        os.kill(rank["pid"], 0)
    assert len({rank["pid"] for rank in told["ranks"]}) == 6
    assert [(n["ranks_known"], n["ranks_unknown_why"]) for n in told["nodes"]] == 3 * [(True, None)]
    text = ctl("status", "--node", 0).stdout
    assert re.search(r"^RANK +NODE +PID +STATE", text, re.M)
    assert re.findall(r"^(\d) +(\d) +\d+ +training +\d+ +[\d.e+]+ ", text, re.M) == [
        (str(rank), str(rank // 2)) for rank in range(6)]
    watch = ctl.start("status", "--node", 0, "--watch", "--json", "--interval", "50ms")
    wait_until(lambda: watch.out.count("\n") >= 3, "three looks")
    leave(job)
    watch.finish()
    looks = [json.loads(line) for line in watch.out.splitlines()[:3]]
    assert all(by_node(look) == by_node(told) for look in looks)
    assert looks[2]["ranks"][5]["step"] >= looks[0]["ranks"][5]["step"] > 0


def test_another_node_tells_of_itself_and_who_knows_more(world, ctl):  # noqa: F811
    job = trained(world, nodes=2)
    told = ctl.status("--node", 1)
    assert told["ranks_of"] == "node" and by_node(told) == [(1, 2), (1, 3)] and told["nodes"] == []
    chief = job.entries.split(",")[0]
    assert told["chief"] == chief
    assert ctl("status", "--node", 1).stdout.endswith(
        f"\nonly the ranks of this node; pchctl on node 0, which is {chief}, shows all\n")
    leave(job)


def test_a_node_that_does_not_answer(world, ctl):  # noqa: F811
    """node 0 waits briefly for this node, then shows the others. Further requests meanwhile get the
    same."""
    job = trained(world)
    chief = run_dir(world, ctl, 0)
    job.jobs[2].send(signal.SIGSTOP)

    def only_node_2_is_late():
        """On a busy machine node 1 or pchctl may be late, too."""
        began = time.monotonic()
        both = [ctl.start("status", "--run-dir", chief, "--json") for _ in range(2)]
        for one in both:
            assert one.finish() == 0
        took = time.monotonic() - began
        assert took >= 2
        told = [json.loads(one.out) for one in both]
        return took < 2 + SLACK and all(one["nodes"][1]["ranks_known"] for one in told) and told
    for told in wait_until(only_node_2_is_late, "an answer without node 2 alone"):
        assert by_node(told) == [(0, 0), (0, 1), (1, 2), (1, 3)]
        assert [n["ranks_unknown_why"] for n in told["nodes"]] == [None, None, "no answer for 2 s"]
        assert not told["nodes"][2]["ranks_known"] and told["nodes"][2]["highest_step"] > 0
    assert ctl("status", "--run-dir", chief).stdout.endswith("\nnode 2: no answer for 2 s\n")
    host = told["nodes"][2]["host"]
    line = re.compile(rf"node 2 \({re.escape(host)}\): no message from it for [\d.]+ s")
    # A rank may be behind for a moment. A node is not blamed for time in which node 0 did not run.
    wait_until(lambda: any(line.fullmatch(one) for one in waited_for(ctl, "--run-dir", chief)[:1]), "node 2 as the first")
    job.jobs[2].send(signal.SIGCONT)
    wait_until(lambda: len(ctl.status("--run-dir", chief)["ranks"]) == 6, "the ranks of node 2")
    wait_until(lambda: not waited_for(ctl, "--run-dir", chief), "node 2 to be heard")
    leave(job)


def test_who_is_not_there_is_not_waited_for(world, ctl):  # noqa: F811
    job = Nodes(world, 2)
    job.start(0, "wait")
    job.say(0, "waiting for node 1 (127.0.0.2:")
    wait_until(lambda: list(world.tmp.glob("pchrun.*/ctl")), "the socket of pchctl")
    told = ctl.status()
    assert [n["ranks_unknown_why"] for n in told["nodes"]] == [None, "it has no connection to node 0"]
    assert ctl("stop").returncode == 0
    job.jobs[0].finish()


# --- what the job waits for ------------------------------------------------------------------------

def test_the_rank_that_is_waited_for(training, ctl):  # noqa: F811
    """A user who wonders why the job stands finds the rank, its host, since when, and at which step. While all go on
    there is no such line."""
    run = training(n=3, train=5)
    host = ctl.status()["host"]
    assert waited_for(ctl) == []
    for rank in (0, 2):
        run.clients[rank].train(7)
    lines = wait_until(lambda: waited_for(ctl), "the line")
    assert len(lines) == 1
    assert re.fullmatch(rf"rank 1 on {re.escape(host)}: at step 5 for [\d.]+ s, all others at 7", lines[0])
    run.clients[1].train(7)
    assert waited_for(ctl) == []
    run.clients[1].ask("phase 2", "phase 2")
    for rank in (0, 2):
        run.clients[rank].train(8)
    assert wait_until(lambda: waited_for(ctl), "the line")[0].endswith(", all others at 8, evaluating")
    run.clients[1].ask("phase 1", "phase 1")
    run.clients[1].train(8)
    run.complete()


def test_the_ranks_that_have_not_saved(training, ctl):  # noqa: F811
    run = training(n=3, train=3)
    host = ctl.status()["host"]
    ctl("checkpoint", "--wait", 0)
    step = run.agreed()
    assert waited_for(ctl) == []
    run.clients[0].reach(step)
    run.clients[0].tell(f"saved {step} {run.path(step, 0)}")
    wait_until(lambda: ctl.status()["ranks"][0]["saved_step"] == step, "the save of rank 0")
    assert waited_for(ctl) == [f"rank {rank} on {host}: it has not saved step {step}; it is at step 3, training" for rank in (1, 2)]
    assert ctl("status").stdout.startswith(f"job cwd: saving step {step}: 1 of 3 ranks have saved\n")
    for rank in (1, 2):
        run.clients[rank].reach(step)
        run.clients[rank].tell(f"saved {step} {run.path(step, rank)}")
    for client in run.clients:
        client.expect(f"saved {step} continue")
    assert waited_for(ctl) == []
    run.complete(step)


def test_the_step_at_which_the_training_ends(training, ctl):  # noqa: F811
    """A user sees how much is left, if the program declares its last step."""
    run = training()
    run.clients[0].open("last=40")
    run.train(3)
    assert ctl("status").stdout.startswith("job cwd: training at step 3 of 40, ")
    assert json.loads(ctl("status", "--json").stdout)["report"]["steps"]["final"] == 40
    run.complete()
    run = training(train=3)
    assert ctl("status").stdout.startswith("job cwd: training at step 3, ")
    run.complete()


# --- the first lines of a start -------------------------------------------------------------------

def first_lines(job):
    return [line.split(" start: ", 1)[1] for line in job.err_lines if " start: " in line]


def type_it(line, ctl):  # noqa: F811
    """Types the command that the line names, and returns what pchctl knows of the job."""
    words = shlex.split(line.rsplit(": pchctl ", 1)[1])
    done = ctl(*words, "--json", everywhere=True)
    assert (done.returncode, done.stderr) == (0, ""), done
    return json.loads(done.stdout)


@pytest.mark.parametrize("name, typed, more, others", [
    ("run7", "run7", (), ""), ("my run's; 7", r"'my run'\''s; 7'", ("--instrument",), ", or Trainer, Lightning or Keras")])
def test_a_start_of_one_rank(training, ctl, name, typed, more, others):  # noqa: F811
    """A user sees which job this is, where it begins, how it saves, and what to type: nothing of each rank."""
    job = training("--job", name, "--grace", "60s", *more, train=1)
    job.said("start: the only rank has attached")
    job_line, saves, attached = first_lines(job.job)
    assert job_line == f"job {name}, 1 node, 1 rank: attempt 1 begins at step 0"
    assert re.fullmatch(r"on a notice every rank that attaches saves one step, within 60 s; a program that never attaches \(in "
                        rf"Python: pch\.attach{others}\) saves nothing; "
                        rf"status: pchctl --job {re.escape(typed)} \S+ \S+ status", saves)
    assert re.fullmatch(r"the only rank has attached after \S+ m?s", attached)
    assert type_it(saves, ctl)["report"]["job"] == name
    job.clients[0].ask("done", "done.*")
    job.result()


def test_a_start_of_many_ranks_on_two_nodes(world, ctl):  # noqa: F811
    logs = world.root / "logs"
    job = Nodes(world, 2, ["--job", "run7", "-n", "8", "--checkpoint-dir", world.root, "--checkpoint-every", "10m", "--logs-dir",
                           logs, "--grace", "2s"])  # the ranks do not end by themselves
    for rank in range(2):
        job.jobs[rank] = job.launch(rank, *world.client("open\n", stays=True))
    job.say(0, "start: all 16 ranks on 2 nodes have attached after ")
    job_line, saves, _ = first_lines(job.jobs[0])
    assert job_line == "job run7, 2 nodes, 16 ranks: attempt 1 begins at step 0"
    assert re.fullmatch(
        r"on a notice every rank that attaches saves one step, within 2 s; without one, every 10 min; a program that never "
        r"attaches \(in Python: pch\.attach\) saves nothing; "
        rf"output in {logs}; status on \S+: pchctl --job run7 --node 0 \S+ \S+ status", saves)
    assert type_it(saves, ctl)["report"]["node_rank"] == 0
    assert not first_lines(job.jobs[1]) and " is process " not in job.jobs[0].err + job.jobs[1].err
    job.jobs[0].send(signal.SIGTERM)
    assert job.finish() == PREEMPTED


def test_a_start_without_a_directory(world, ctl):  # noqa: F811
    """It says what a preemption will cost, and which flag prevents that."""
    job = world.launch("--job", "run7", "--grace", "2s", "--", *world.client("open\n", stays=True))
    wait_until(lambda: "start: the only rank" in job.err, "the rank to attach")
    job_line, saves, _ = first_lines(job)
    assert job_line.startswith("job run7, 1 node") and job_line.endswith(": begins at step 0")
    assert saves.startswith("no checkpoint.dir is set, so no save is recorded: after a preemption the next start begins at step 0; "
                            "--checkpoint-dir DIRECTORY prevents that; a program that never attaches (in Python: pch.attach) saves "
                            "nothing; status: pchctl ")
    assert type_it(saves, ctl)["report"]["job"] == "run7"
    job.send(signal.SIGTERM)
    job.finish()


def named(job):
    return re.match(r"job (.*), 1 node", first_lines(job)[0])[1]


def test_a_job_without_a_name(world, training):
    """A user wonders where the name comes from, and how to change it."""
    job = training("--preset", "none", train=1)
    assert named(job.job) == f"cwd (the name of {os.path.realpath(world.cwd)}; --job sets another)"
    job.complete()
    job = training(train=1, env={"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "large"})
    assert named(job.job) == "large (SLURM_JOB_NAME is large; --job sets another)"
    job.complete()


@pytest.mark.parametrize("quiet, lines", [((), 1), (("-q",), 0)], ids=["", "quiet"])
def test_the_end_of_a_single_node(world, quiet, lines):
    """The last line of a completed job says its state, its code and its last commit."""
    directory = world.root / "ckpt"
    commands = f"open\nstep 1\nsaved 1 {world.file('saved', '')}\ndone\n"
    for end in ("step 1 is committed", "step 1 is committed", "nothing is committed"):
        client = world.client(commands if "nothing" not in end else "done\n")
        options = ["--checkpoint-dir", directory if "nothing" not in end else world.root / "other"]
        job = world.launch(*quiet, *options, "--", *client)
        assert job.finish() == 0
        assert [line.split(" end: ")[1] for line in job.err_lines if " end: " in line] == (
            [f"completed, exit code 0: every process has ended with success; {end}"] * lines)


def test_a_program_that_never_attaches(world):
    """The first lines come before the program's own. A user has thought that a preemption costs nothing."""
    job = world.launch("--", "sh", "-c", "echo said >&2")
    assert job.finish() == 0
    *start, said, end = job.err_lines
    job_line, saves = first_lines(job)
    assert len(start) == 2 and job_line.endswith(", 1 node: begins at step 0") and said == "said"
    assert "the next start begins at step 0; --checkpoint-dir DIRECTORY prevents that; a program that never attaches" in saves
    assert end.endswith(" end: completed, exit code 0: every process has ended with success")


def test_a_quiet_start_of_a_program_that_never_attaches(world):
    """pchrun adds no line to what the program prints."""
    job = world.launch("-q", "--", "sh", "-c", "echo said >&2")
    assert job.finish() == 0
    assert job.err == "said\n"
