# SPDX-License-Identifier: Apache-2.0
"""pchctl status with several nodes: node 0 asks the others for their ranks when pchctl asks it."""

import json
import os
import re
import signal
import time

from harness import PREEMPTED, SLACK, wait_until
from nodes import Nodes, start_training
from pchctl import ctl  # noqa: F401

# A node that stops for some seconds must not be lost.
PATIENT = ["--cluster-heartbeat-timeout", "30s"]


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
    assert re.search(r"^RANK +NODE +PID +PHASE", text, re.M)
    assert re.findall(r"^(\d) +(\d) +\d+ +train +\d+ +[\d.e+]+ ", text, re.M) == [
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
    began = time.monotonic()
    both = [ctl.start("status", "--run-dir", chief, "--json") for _ in range(2)]
    for one in both:
        assert one.finish() == 0
    assert 2 <= time.monotonic() - began < 2 + SLACK
    for told in (json.loads(one.out) for one in both):
        assert by_node(told) == [(0, 0), (0, 1), (1, 2), (1, 3)]
        assert [n["ranks_unknown_why"] for n in told["nodes"]] == [None, None, "no answer for 2 s"]
        assert not told["nodes"][2]["ranks_known"] and told["nodes"][2]["highest_step"] > 0
    text = ctl("status", "--run-dir", chief).stdout
    assert text.endswith("\nnode 2: no answer for 2 s\n")
    job.jobs[2].send(signal.SIGCONT)
    assert len(ctl.status("--node", 0)["ranks"]) == 6
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
