# SPDX-License-Identifier: Apache-2.0
"""Discovery: real pchruns among the variables that schedulers and launchers set."""

import re

import pytest

from checkup import shown
from harness import PROMPT
from nodes import FAST, free_port

PORTS = 20000  # the job's id modulo 8192 is added
AUTO = ["--cluster-discovery", "auto"]


def slurm(task, tasks=2, hosts="127.0.0.[1-2]", job=4711):
    """The variables that srun gives to one of its tasks; by default two hosts with one task each."""
    count = 2 if "[" in hosts else 1
    return {"SLURM_JOB_ID": str(job), "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": hosts,
            "SLURM_STEP_NUM_NODES": str(count), "SLURM_STEP_NUM_TASKS": str(tasks),
            "SLURM_PROCID": str(task), "SLURM_NODEID": str(task * count // tasks),
            "SLURM_JOB_NODELIST": hosts, "SLURM_LOCALID": "0"}


def job_of_own():
    """The id of a job whose port is free."""
    while True:
        port = free_port()
        if port < PORTS + 8192:
            return port - PORTS


def test_two_tasks_of_srun_are_one_job(world):
    """Users type this under srun, with no option for nodes: the tasks join, and each has its rank."""
    show = 'echo "$PCH_NODE_RANK/$PCH_NNODES $RANK/$WORLD_SIZE"'
    job = job_of_own()
    two = [world.launch(*FAST, "-n", 2, "--", "sh", "-c", show, env=slurm(task, job=job))
           for task in (1, 0)]
    assert [one.finish() for one in two] == [0, 0]
    assert sorted(two[1].out.splitlines()) == ["0/2 0/4", "0/2 1/4"]
    assert sorted(two[0].out.splitlines()) == ["1/2 2/4", "1/2 3/4"]
    assert re.search(rf"waiting for 1 other node, for \S+ at most, at 127\.0\.0\.1, port {PORTS + job}\n", two[1].err)
    assert "nodes: slurm: SLURM_STEP_NUM_TASKS is 2, SLURM_PROCID is 0 (if each pchrun is a job of its own: " in two[1].err


def test_tasks_on_one_host_meet_on_its_loopback(world):
    """srun -N1 -n2: no name is looked up, and no key is needed."""
    job = job_of_own()
    two = [world.launch(*AUTO, *FAST, "--", world.actor, "say", f"n{task}",
                        env=slurm(task, hosts="nowhere7", job=job)) for task in (0, 1)]
    assert [one.finish() for one in two] == [0, 0]
    assert {e["what"] for e in world.events.all()} == {"n0", "n1"}


def test_print_config_says_what_was_found_and_by_what(world):
    got = shown(world, *AUTO, env=slurm(1))
    assert got["$cluster"] == {"found": "slurm", "nnodes": 2, "node_rank": 1, "chief": "127.0.0.1",
                               "why": "slurm by SLURM_STEP_NODELIST"}
    assert got["cluster"]["chief"] == "127.0.0.1" and got["cluster"]["port"] == 24711
    assert got["cluster"]["nnodes"] == 2 and got["cluster"]["node_rank"] == 1
    sources = got["$sources"]
    assert sources["cluster.chief"] == "discovery slurm: the first host of SLURM_STEP_NODELIST is 127.0.0.1"
    assert sources["cluster.nnodes"] == "discovery slurm: SLURM_STEP_NUM_TASKS is 2"
    assert sources["cluster.node_rank"] == "discovery slurm: SLURM_PROCID is 1"
    assert sources["cluster.port"] == "discovery slurm: SLURM_JOB_ID is 4711, SLURM_STEP_ID is 0"


def test_a_shell_of_srun_pty_is_one_process(world):
    """srun -n 8 --pty bash: the shell has the variables of task 0, and the other tasks have ended. A
    command of its script counts as typed, too. A task without the shell is a node as usual."""
    tasks = {**slurm(0), "SLURM_PTY_PORT": "33897", "PS1": PROMPT, "HISTFILE": ""}
    shell = world.terminal("bash", "--norc", "--noprofile", "-i", env=tasks)
    shell.expect(PROMPT)
    for command in (f"{world.pchrun} -- sh -c 'echo nodes=$PCH_NNODES='",
                    f"sh -c \"{world.pchrun} -- sh -c 'echo nodes=\\$PCH_NNODES='\""):
        shell.type(f"{command}\n")
        shell.expect("typed in a shell of srun --pty, so this pchrun trains alone, although SLURM_STEP_NUM_TASKS is 2")
        assert shell.expect(r"nodes=(\d+)=")[1] == "1"
    shell.type("exit 0\n")
    assert shell.finish() == 0
    task = world.terminal(world.pchrun, *AUTO, "--print-config", env=tasks)
    task.expect('"nnodes": 2')
    assert task.finish() == 0


def test_nothing_is_looked_at_if_told_so(world):
    """Two tasks that start together need not be one job. --print-config shows what auto would find."""
    none = ["--cluster-discovery", "none"]
    got = shown(world, *none, env=slurm(1))
    assert got["cluster"]["nnodes"] == 1 and got["cluster"]["chief"] is None
    assert got["$cluster"]["found"] is None and got["$cluster"]["auto"]["node_rank"] == 1
    # Half of the variables are set; no option asks for them.
    got = shown(world, *none, env={"RANK": "3"})
    assert "RANK is set (3), but WORLD_SIZE is not" in got["$cluster"]["auto"]["why"]
    job = world.launch("-q", *none, "--", "sh", "-c", "echo $PCH_NNODES", env=slurm(1))
    assert job.finish() == 0 and job.out == "1\n" and not job.err


def test_below_another_pchrun_its_variables_are_not_taken(world):
    """The inner pchrun would bind the outer one's port, or join the job as a node that is already there."""
    job = job_of_own()
    inner = f"exec {world.pchrun} --run-dir {world.root} -- sh -c 'echo $PCH_NODE_RANK/$PCH_NNODES'"
    two = [world.launch(*FAST, "--", "sh", "-c", inner, env=slurm(task, job=job)) for task in (0, 1)]
    assert [one.finish() for one in two] == [0, 0], two[0].err + two[1].err
    assert [one.out for one in two] == ["0/1\n", "0/1\n"]
    assert "PCH_SOCKET is set" in shown(world, env={**slurm(1), "PCH_SOCKET": "/x"})["$cluster"]["why"]
    assert shown(world, *AUTO, env={**slurm(1), "PCH_SOCKET": "/x"})["cluster"]["nnodes"] == 2


def test_a_socket_that_is_left_over_is_told(world):
    """sbatch passes on the variables of the job that calls it. Unnoticed, each node of the new job would run alone."""
    gone = {"PCH_SOCKET": f"{world.root}/gone"}
    job = world.launch("-q", "--", "sh", "-c", "echo $PCH_NNODES", env={**slurm(1), **gone})
    assert job.finish() == 0 and job.out == "1\n"
    assert len(job.err_lines) == 1 and "If PCH_SOCKET is left over" in job.err
    for env in (gone, {**slurm(0, tasks=1, hosts="n7"), **gone}, {**slurm(1), "PCH_SOCKET": str(world.root)}):
        assert "warning" not in shown(world, env=env)["$cluster"]


def test_a_rank_by_address_is_not_replaced_unasked(world):
    """The list's order need not be that of Slurm's tasks."""
    nodes = ["--cluster-nodes", "127.0.0.3,127.0.0.4"]
    got = shown(world, *nodes, env=slurm(1))
    assert got["cluster"]["node_rank"] is None and got["$cluster"]["why"].startswith("the nodes are given")
    assert shown(world, *AUTO, *nodes, env=slurm(1))["cluster"]["node_rank"] == 1


def test_a_pod_that_may_have_others_is_warned(world):
    """An indexed Job may be many jobs of one node, so without the option there is no error, but one warning."""
    pod = {"JOB_COMPLETION_INDEX": "2"}
    job = world.launch("-q", "--", "sh", "-c", "echo $PCH_NNODES", env=pod)
    assert job.finish() == 0 and job.out == "1\n"
    assert len(job.err_lines) == 1 and "JOB_COMPLETION_INDEX is 2" in job.err and "set cluster.nnodes" in job.err
    assert "set cluster.nnodes" in shown(world, env=pod)["$cluster"]["warning"]
    for options in (["--cluster-discovery", "none"], ["--nnodes", 1], ["--log-level", "error"]):
        assert not world.launch("-q", *options, "--", "true", env=pod, code=0).err


def test_a_variable_of_a_common_name_ends_nothing(world):
    """RANK=16 may be the setting of an adapter. No option names nodes, so the job runs with a warning."""
    job = world.launch("-q", "--", "sh", "-c", "echo $PCH_NNODES", env={"RANK": "16"})
    assert job.finish() == 0 and job.out == "1\n"
    assert len(job.err_lines) == 1, job.err
    assert "nodes: torchrun: RANK is set (16), but WORLD_SIZE is not, so this source is ignored" in job.err
    # The complete variables still count, and pchrun reports both sets.
    chief = ["--cluster-chief", f"127.0.0.1:{free_port()}"]
    assert shown(world, *chief, env={**slurm(1), "RANK": "16"})["cluster"]["nnodes"] == 2


def test_on_one_node_nothing_changes(world):
    """The same batch script on one host, or a shell: no network, no key, no other program."""
    for env in ({}, slurm(0, tasks=1, hosts="n7"), {"TF_CONFIG": "{}"},
                {"RANK": "0", "WORLD_SIZE": "1"}, {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost"}):
        for options in (AUTO, []):
            job = world.launch("-q", *options, "--", "sh", "-c", "echo $PCH_NODE_RANK/$PCH_NNODES", env=env)
            assert job.finish() == 0 and job.out == "0/1\n", job.err
            assert not job.err


def test_what_the_user_says_wins(world):
    """Each of these settings wins alone; discovery fills in the others."""
    got = shown(world, *AUTO, "--cluster-port", 15000, "--cluster-chief", "127.0.0.9", env=slurm(1))
    assert (got["cluster"]["port"], got["cluster"]["chief"]) == (15000, "127.0.0.9")
    assert (got["cluster"]["nnodes"], got["cluster"]["node_rank"]) == (2, 1)
    got = shown(world, *AUTO, "--cluster-nodes", "127.0.0.3,127.0.0.4", env=slurm(1))
    assert got["cluster"]["nodes"] == ["127.0.0.3", "127.0.0.4"]
    assert got["cluster"]["node_rank"] == 1 and got["cluster"]["chief"] is None
    # All settings are given: incomplete variables do not matter.
    got = shown(world, *AUTO, "--cluster-nodes", "127.0.0.3,127.0.0.4", "--node-rank", 0, env={"RANK": "1"})
    assert got["$cluster"]["why"].startswith("the nodes and this node's rank are given")
    got = shown(world, *AUTO, "--nnodes", 1, env={"RANK": "1"})
    assert got["cluster"]["nnodes"] == 1


@pytest.mark.parametrize("args,env,words", [
    (AUTO, {"RANK": "3"}, ["torchrun", "RANK is set (3), but WORLD_SIZE is not", "set cluster.chief"]),
    ([], {k: v for k, v in slurm(1).items() if k != "SLURM_STEP_NODELIST"},
     ["SLURM_STEP_NUM_TASKS is set (2), but SLURM_STEP_NODELIST is not"]),
    ([], {**slurm(1), "RANK": "3", "WORLD_SIZE": "8", "MASTER_ADDR": "x"},
     ["slurm (SLURM_STEP_NUM_TASKS is 2), torchrun (WORLD_SIZE is 8)", "set cluster.discovery to the right one"]),
    (["--cluster-discovery", "slurm"], {"SLURM_JOB_ID": "1"},
     ["cluster.discovery is slurm, but none of its variables is set (SLURM_STEP_NODELIST, SLURM_STEP_NUM_TASKS)"]),
    (AUTO, {"JOB_COMPLETION_INDEX": "2"},
     ["kubernetes: JOB_COMPLETION_INDEX is 2, but nothing says how many nodes there are; set cluster.nnodes"]),
    ([], {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
     ["cluster.nnodes is 2 (discovery mpi: OMPI_COMM_WORLD_SIZE is 2)", "set cluster.nodes or cluster.chief",
      "--cluster-discovery none"]),
    ([], slurm(1, hosts="n[1-2]"),
     ["n1 is not a loopback address", "discovery slurm", "pchrun --make-key run.key; pchrun --cluster-key-file run.key",
      "if each pchrun is a job of its own, --cluster-discovery none"]),
    ([*AUTO, "--cluster-nodes", "127.0.0.1,127.0.0.2,127.0.0.3"], slurm(1),
     ["the job has 3 nodes (flag --cluster-nodes), but SLURM_STEP_NUM_TASKS is 2; set cluster.node_rank"]),
    (["--cluster-discovery", "slrum"], {}, ["--cluster-discovery", "slrum"]),
], ids=["half", "half-slurm", "differ", "absent", "no-count", "no-chief", "no-key", "other-count", "no-such"])
def test_refusals_say_what_to_set(world, args, env, words):
    world.refused(*words, options=args, env=env)
