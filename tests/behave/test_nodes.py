# SPDX-License-Identifier: Apache-2.0
"""Several nodes over TCP: the join, the common end, and what the network and the hosts do to it."""

import os
import re
import signal
import socket
import time

import pytest

from harness import APART, DEADLINE, OWN_ERROR, PREEMPTED, SLACK, children_of, is_alive, needs_disk, wait_until
from nodes import (LOST_S, LOST_SOON, SAVING, Nodes, committed, far, free_port, nodes, preempt, saved_steps,  # noqa: F401
                   start_training)

KILL, TERM, STOP, CONT = signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGCONT
NODE_LOST = 42
HOST = socket.gethostname()
DEBUG = ["--log-level", "debug"]
# A node is lost after LOST_S without a connection or a message; then its processes are ended.
LOST_WITHIN = LOST_S + 6 + SLACK


# --- the join ------------------------------------------------------------------------------------

@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)], ids=str)
def test_nodes_join_in_any_order(world, nodes, order):
    """Schedulers start nodes in any order. No node starts before all are there."""
    three = nodes(3, *DEBUG)
    for rank in order[:2]:
        three.start(rank, f"say n{rank}")
    if 0 in order[:2]:
        three.say(0, "2 of 3")
    assert not world.events.all()
    three.start(order[2], f"say n{order[2]}")
    assert three.finish() == 0
    assert {e["what"] for e in world.events.all()} == {"n0", "n1", "n2"}
    assert three.agreed()["outcome"] == "completed"


def test_node_0_comes_seconds_after_the_others(world, nodes):
    """As with a container image that is pulled slowly. The other nodes log once what they wait for."""
    three = nodes(3)
    for rank in (1, 2):
        three.start(rank, "say started")
    for rank in (1, 2):
        three.say(rank, f"waiting for node 0, for 10m at most: cannot connect to 127.0.0.1:{three.port}: "
                        "Connection refused")
    assert not world.events.all()
    three.start(0, "say started")
    assert three.finish() == 0
    assert three.jobs[1].err.count("waiting for node 0") == 1
    assert len(world.events.all("started")) == 3


def test_every_node_knows_its_place(world, nodes):
    """Ranks count through the nodes, in their order."""
    two = nodes(2, "-n", "2")
    show = 'echo "$PCH_NODE_RANK/$PCH_NNODES $LOCAL_RANK $RANK/$WORLD_SIZE"'
    two.launch_all("sh", "-c", show)
    assert two.finish() == 0
    assert sorted(two.jobs[0].out.splitlines()) == ["0/2 0 0/4", "0/2 1 1/4"]
    assert sorted(two.jobs[1].out.splitlines()) == ["1/2 0 2/4", "1/2 1 3/4"]


@pytest.mark.parametrize("missing, said", [
    (1, "1 of 3 nodes did not join within 1s: node 1 (127.0.0.2:"),
    (0, "could not join the job: cannot connect to 127.0.0.1:")])
def test_a_node_that_never_comes_is_named(world, nodes, missing, said):
    """A job that waits for ever for a broken host costs all the others."""
    three = nodes(3, "--cluster-join-timeout", "1s")
    for rank in {0, 1, 2} - {missing}:
        three.start(rank, "say started")
    assert three.finish() == OWN_ERROR
    for job in three.jobs.values():
        assert said in job.err
    assert missing == 0 or three.agreed()["outcome"] == "not_started"
    assert not world.events.all("started")


def test_something_else_listens_where_node_0_should(nodes):
    """The listener accepts the connection and sends nothing: this is not a node 0 that has fallen silent."""
    two = nodes(2, "--cluster-join-timeout", "300ms")
    with socket.create_server(("127.0.0.1", two.port)):
        job = two.launch(1, "true")
        assert job.finish() == OWN_ERROR
    assert "nothing there accepted this node within" in job.err and "no message" not in job.err


@pytest.mark.parametrize("option,value,words", [
    ("--exit-preempted", "99", ["exit.preempted=99", "exit.preempted=42"]),
    ("--job", "other", ['job "other"', 'node 0 to "pchrun"']),
    ("--cluster-heartbeat-interval", "300ms", ["cluster.heartbeat_interval=300ms",
                                               "cluster.heartbeat_interval=200ms"]),
    ("-n", "2", ["procs.count=2", "procs.count=1"]),
], ids=["setting", "job", "time", "count"])
def test_a_node_that_is_set_up_differently_is_refused(nodes, option, value, words):
    """Both sides name both values, and the right node may still come."""
    two = nodes(2)
    two.start(0)
    stranger = two.launch(1, "true", options=[option, value])
    assert stranger.finish() == OWN_ERROR
    words += [f"node 1 ({HOST}, pid {stranger.pid}, 127.0.0."]
    for word in words:
        assert word in stranger.err and word in two.jobs[0].err
    assert "refused: node 1" in two.jobs[0].err and "still waits" in two.jobs[0].err
    two.start(1)
    assert two.finish() == 0


@pytest.mark.parametrize("options, own, other", [
    ([], 3, "nodes 1-2 do not"), ([], 2, "node 1 does not"), ([], 1, ""), (["--no-checkpoint-shared"], 3, ""),
], ids=["all", "one", "none", "as said"])
def test_a_checkpoint_directory_that_is_not_shared(world, nodes, options, own, other):
    """Each saved, and none found the other's checkpoint: the next start failed at each attempt."""
    needs_disk(world.root)
    job = nodes(3, *options)
    folders = [world.root / f"disk{rank % own}" for rank in range(3)]
    for rank in range(3):
        job.start(rank, "hold", "end", options=["-v", "--checkpoint-dir", folders[rank]])
    for rank in range(1, 3 if not options else 0):
        is_same = folders[rank] == folders[0]
        job.say(rank, f"the state directory {folders[rank]}/.pchrun is {'' if is_same else 'not '}that of node 0")
    if other:
        job.say(0, f"{other} have node 0's checkpoint directory, {folders[0]}, but another one")
    world.let_end(job)
    assert [job.jobs[rank].err.count("but another one") for rank in range(3)] == [bool(other), 0, 0]


def test_each_node_may_have_its_own_number_of_ranks(nodes):
    """The nodes differ in the processes that attach. A command with "-n 1" and one without see the same world."""
    two = nodes(2)
    two.start(0, options="-n 1 --procs-per-node 0")
    two.start(1, options="--procs-per-node 0")
    assert two.finish() == 0


def test_a_job_of_another_size_is_refused(nodes):
    two = nodes(2)
    two.start(0)
    stranger = nodes(3, port=two.port).launch(1, "true")
    assert stranger.finish() == OWN_ERROR
    assert "3 nodes" in stranger.err and "node 0 says 2" in stranger.err
    two.start(1)
    assert two.finish() == 0


@pytest.mark.parametrize("when", ["joining", "running"])
def test_two_nodes_with_one_rank(world, nodes, when):
    """A copied command line, or the rest of another job. The node that is there and answers stays; the second
    one is refused. The log names both, and the job goes on."""
    three = nodes(3, *DEBUG)
    for rank in (0, 1) if when == "joining" else (0, 1, 2):
        three.start(rank, f"say n{rank} hold end")
    three.say(0, "2 of 3" if when == "joining" else "all 3 nodes are there")
    if when == "running":
        three.pid(1)
    twin = three.launch(1, "true")
    assert twin.finish() == OWN_ERROR
    for said in (twin.err, three.jobs[0].err):
        assert "two nodes with rank 1: " in said and "own --node-rank" in said
        for pid in (three.jobs[1].pid, twin.pid):
            assert re.search(f"{HOST}, pid {pid}, 127.0.0.[0-9]+:[0-9]+[;,]", said)
    if when == "joining":
        three.start(2)
    world.let_end(three)


@pytest.mark.parametrize("where", ["directory", "port"])
def test_two_nodes_with_rank_0(world, nodes, where):
    """A rank that was forgotten: both learn of each other at once, not when the job has waited for a node
    that never comes."""
    two = nodes(2, "--checkpoint-lock-wait", "2s")
    state = ["--state-dir", world.root / "state"]
    two.start(0, options=state)
    two.say(0, "join: waiting for node 1 (127.0.0.2:")
    twin = two.launch(0, "true", options=state if where == "directory" else ["--report", "none"])
    who = f"{HOST}, pid {twin.pid}, 127.0.0."
    two.say(0, f"refused: {who}")
    assert f"which is this one; is its --node-rank right?" in two.jobs[0].err
    assert twin.finish() == OWN_ERROR
    assert "this is node 0, but another node 0 runs at 127.0.0.1" in twin.err and who in twin.err
    assert 'is its --node-rank right?". Unless' in twin.err
    assert ("still holds the state directory" if where == "directory" else "the port is in use") in twin.err
    holder = f"(process {two.jobs[0].pid} on {HOST}), node 0 as this one is, still holds the state directory"
    assert twin.err.count(holder) == (2 if where == "directory" else 0), "as the wait begins and ends"
    two.start(1, options=state)
    assert two.finish() == 0


@pytest.mark.killed
def test_a_node_is_started_anew(nodes):
    """A node's supervisor was killed, and its scheduler starts it again at once, while the other nodes still end.
    The job cannot go on with or without it: all nodes are to be started again. The new supervisor must not report
    anything else."""
    three = nodes(3, "--stop-term-wait", "10s")
    three.start_all("pause", n2="ignore TERM pause")
    three.jobs[1].kill()
    three.start(1, "say anew")
    three.say(0, "says that it is this node, too")
    os.kill(three.pid(2), KILL)
    assert three.finish() == NODE_LOST
    agreed = three.agreed("outcome", "exit_code", "why")
    assert agreed["outcome"] == "node_lost"
    # A connection that was reset, and not closed, tells only that another supervisor has come.
    assert re.fullmatch(rf"node 1 \({re.escape(HOST)}\) is lost: its supervisor (has ended without reporting it|"
                        r"ended during the job, and another was started, pid \d+ at [\d.:]+)", agreed["why"])
    for job in three.jobs.values():
        assert agreed["why"] in job.err
    assert not three.world.events.all("anew")


@pytest.mark.killed
def test_a_node_that_is_started_anew_waits_for_the_next_attempt(nodes):
    """The other nodes have gone because of that node's end, and are started again, too."""
    three = nodes(3)
    three.start_all("pause")
    three.jobs[1].kill()
    assert three.finish(0, 2) == NODE_LOST
    for rank in (1, 0, 2):
        three.start(rank)
    assert three.finish() == 0


def test_node_0_is_preempted_before_the_others_come(nodes):
    """The others would try to join until they fail, and the scheduler would not start them again. They are about to
    join, before the notice or behind it."""
    three = nodes(3, "--grace", "20s")
    for rank in (1, 2):
        three.start(rank, "exit 0")
        three.say(rank, "join: waiting for node 0")
    three.start(0, "exit 0")
    three.say(0, "join: waiting for")
    three.jobs[0].send(signal.SIGTERM)
    assert three.finish() == PREEMPTED
    assert three.agreed("outcome", "why") == {
        "outcome": "preempted", "why": "the notice came before the start: nothing was started"}


@pytest.mark.parametrize("rank, grace", [(0, "1s"), (0, "60s"), (1, "60s")])
def test_no_node_waits_for_a_missing_one_until_the_deadline(nodes, rank, grace):
    """docker stop kills after 10 seconds, and the exit code was lost: pchrun waited for 23 s, with nothing to save."""
    two = nodes(2, "--grace", grace)
    two.start(rank, "exit 0")
    two.say(rank, "join: waiting for")
    begin = time.monotonic()
    two.jobs[rank].send(signal.SIGTERM)
    two.say(rank, " end: ")
    assert time.monotonic() - begin < 2 + SLACK
    assert two.finish() == PREEMPTED
    told = f"node 1 (127.0.0.2:{two.port}) is missing; node 0 tells it of the notice if it joins within"
    assert (told in two.jobs[rank].err) == (rank == 0)


@pytest.mark.killed
def test_a_node_is_started_anew_before_the_start(nodes):
    """Nothing is lost yet: the new supervisor takes the place."""
    three = nodes(3, *DEBUG)
    three.start(0)
    three.start(1)
    three.say(0, "2 of 3")
    three.jobs[1].kill()
    three.start(1)
    three.start(2)
    assert three.finish() == 0


def test_who_is_missing_is_said_again(world, nodes):
    """Ten minutes of silence are no way to find out which of a thousand hosts hangs."""
    five = nodes(5, "--cluster-join-timeout", "1h", "--grace", "1s")
    hasty = world.shim("clock", SHIM_HASTE="5")  # the first line that has node 2 comes after 10 s, or after 30 s
    for rank in (2, 0):
        five.jobs[rank] = five.launch(rank, world.actor, env=hasty)
    port = five.port
    five.say(0, f"still waiting for nodes 1 (127.0.0.2:{port}), 3 (127.0.0.4:{port}), 4 (127.0.0.5:{port}) of 5, ")
    five.say(0, "so far (cluster.join_timeout in 59m")
    five.jobs[0].send(TERM)
    assert five.finish() == PREEMPTED


def test_one_line_says_that_all_have_joined(nodes):
    """A thousand nodes need no thousand lines."""
    three = nodes(3)
    three.start_all()
    assert three.finish() == 0
    said = [line for line in three.jobs[0].err_lines if " join: " in line]
    assert len(said) == 2 and "waiting for nodes 1 (127.0.0.2:" in said[0]
    assert re.search(r"all 3 nodes are there after [0-9]+m?s: starting$", said[1])


def test_the_node_rank_is_found(world):
    """Only one entry is this machine: no machine has an address of 203.0.113.0/24."""
    job = world.launch("--cluster-nodes", "203.0.113.1,127.0.0.1", "--cluster-insecure",
                       "--cluster-port", free_port(), "--cluster-join-timeout", "1s", "--", "true", code=OWN_ERROR)
    assert re.search(r"pchrun\[1\].*could not join the job", job.err)


def test_the_node_rank_cannot_be_found(world, nodes):
    """On loopback every entry is this machine."""
    job = world.launch("--cluster-nodes", "127.0.0.1,127.0.0.2", "--", "true", code=OWN_ERROR)
    assert len(job.err_lines) == 1
    for word in ("127.0.0.1 (127.0.0.1), 127.0.0.2 (127.0.0.2)", "give --node-rank"):
        assert word in job.err


def test_the_port_is_in_use(nodes):
    """One line names the process that has the port, and the remedy."""
    two = nodes(2)
    with socket.create_server(("127.0.0.1", two.port)):
        assert two.start(0).finish() == OWN_ERROR
    line, = two.jobs[0].err_lines
    for word in (f"127.0.0.1:{two.port}", "in use", f"pid {os.getpid()}", "cluster.port"):
        assert word in line


@pytest.mark.parametrize("rank", [0, 1])
def test_a_notice_before_the_join(world, nodes, rank):
    """No command was started, so there is nothing to save. The nodes leave as preempted when no time is left to
    tell the missing nodes."""
    three = nodes(3, "--grace", "2s")
    for each in (0, 1):
        three.start(each, "say started")
    three.say(1, "joined as node 1 of 3")
    three.jobs[rank].send(TERM)
    assert three.finish() == PREEMPTED
    assert three.agreed()["outcome"] == "preempted"
    assert not world.events.all("started")


# --- the common end ------------------------------------------------------------------------------

def test_who_is_done_waits_for_the_others(world, nodes):
    """The first node to finish leaves with the last, and all with the same code."""
    four = nodes(4)
    four.start_all("hold end", n2="exit 0")
    wait_until(lambda: not children_of(four.jobs[2].pid), "the end of node 2's actor")
    first = four.pid(2)
    wait_until(lambda: not is_alive(first), "its end")
    assert all(job.process.poll() is None for job in four.jobs.values())
    world.let_end(four)
    assert four.agreed()["why"] == "every process has ended with success"


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("end, code, how", [
    ("exit 7", 7, "exit code 7"), ("die SEGV", 139, "signal 11"), ("exit 42", 42, "exit code 42"),
], ids=["7", "SEGV", "42"])
def test_a_failure_ends_all_with_its_code(world, nodes, rank, end, code, how):
    """Whichever node's exit code the scheduler looks at, it has the code of the cause."""
    three = nodes(3)
    three.start_all("pause", **{f"n{rank}": f"hold fail {end}"})
    world.let_end(three, code, name="fail")
    agreed = three.agreed()
    assert agreed["outcome"] == "failed"
    assert agreed["why"].startswith(f"node {rank}: process {three.pid(rank)} ended with {how}")
    for job in three.jobs.values():
        assert agreed["why"] in job.err


def test_a_command_that_is_not_there_ends_all(world, nodes):
    """One host lacks the program."""
    three = nodes(3)
    for rank in (0, 2):
        three.start(rank, "pause")
    three.jobs[1] = three.launch(1, world.root / "none")
    assert three.finish() == 127
    assert "none" in three.agreed()["why"]


@pytest.mark.memcheck
@pytest.mark.parametrize("rank", [0, 1])
def test_a_notice_on_one_node_is_all_nodes_notice(nodes, rank):
    """The program does not attach: it gets the signal, on every node."""
    three = nodes(3)
    three.start_all("record TERM until TERM exit 0")
    three.jobs[rank].send(TERM)
    assert three.finish() == PREEMPTED
    assert three.agreed()["outcome"] == "preempted_unknown"
    assert three.report(2)["notice"]["node_rank"] == rank
    assert len(three.world.events.signals()) == 3


# --- agreed saves --------------------------------------------------------------------------------

@pytest.mark.memcheck
def test_all_ranks_save_one_step(world, nodes):
    """Promise 1: whatever their skew, all ranks save at the same step, and resume from it together."""
    three = nodes(3)
    first = start_training(world, three)
    last = preempt(three, 1)
    assert first < last and saved_steps(three) == {first: 6, last: 6}
    assert three.agreed()["outcome"] == "preempted"
    again = nodes(3, *SAVING, "--checkpoint-dir", world.root)
    again.launch_all("sh", "-c", 'echo "$PCH_ATTEMPT $PCH_RESUME_STEP"')
    assert again.finish() == 0
    assert [job.out for job in again.jobs.values()] == [f"2 {last}\n" * 2] * 3


def test_a_rank_that_cannot_save_holds_nobody_for_ever(world, nodes):
    """One process is stuck: all leave by the end of the grace, and nothing half-saved counts."""
    three = nodes(3)
    first = start_training(world, three, "--grace", "3s")
    os.kill(children_of(three.jobs[2].pid)[0], STOP)
    three.jobs[1].send(TERM)
    assert three.finish() == PREEMPTED
    assert three.agreed()["outcome"] == "preempted_unsaved"
    assert three.report(0)["commit"]["step"] == first


# --- hosts that are lost -------------------------------------------------------------------------

def expect_lost(three, rank, began):
    """The other nodes knew of the loss within seconds, and ended."""
    assert three.finish() == NODE_LOST
    assert time.monotonic() - began < LOST_WITHIN
    for job in three.jobs.values():
        assert f"node {rank} " in job.err and "lost" in job.err


@pytest.mark.killed
@pytest.mark.parametrize("rank", [0, 2])
def test_a_supervisor_is_killed(nodes, rank):
    """The processes of a supervisor die with it."""
    three = nodes(3, *LOST_SOON)
    three.start_all("pause")
    began = time.monotonic()
    three.jobs.pop(rank).kill()
    orphan = three.pid(rank)
    wait_until(lambda: not is_alive(orphan), "the end of its process")
    expect_lost(three, rank, began)
    assert three.agreed("outcome", "exit_code") == {"outcome": "node_lost", "exit_code": NODE_LOST}


@pytest.mark.parametrize("rank", [0, 2])
def test_a_supervisor_hangs(nodes, rank):
    """A host that swaps itself to death. When the host works again, its supervisor ends, too."""
    three = nodes(3, *LOST_SOON)
    three.start_all("pause")
    hung = three.jobs.pop(rank)
    began = time.monotonic()
    os.kill(hung.pid, STOP)
    expect_lost(three, rank, began)
    assert time.monotonic() - began >= LOST_S
    hung.end_by(CONT, NODE_LOST)
    assert "pchrun did not run for" in hung.err


# --- the network ---------------------------------------------------------------------------------

@pytest.mark.memcheck
def test_a_cut_connection_is_made_again(world, far):
    """As with a switch that restarts three times: the job goes on."""
    two, proxy = far
    two.start_all("hold end")
    for count in (1, 2, 3):
        proxy.cut()
        # Node 0 may see the new connection before the old one's end, and logs nothing then.
        two.say(1, "back as node 1 of 2", count=count)
    world.let_end(two)
    joined = two.jobs[1].err.partition("joined as node 1")[2]  # the proxy was there before node 0
    assert joined.count("no connection to node 0") == 3


def test_a_failure_gets_through_after_a_cut(world, far):
    """A message that was lost with the connection is sent again."""
    two, proxy = far
    two.start_all("pause", n1="hold fail exit 9")
    proxy.cut()
    world.let_end(two, 9, name="fail")


def test_a_notice_during_an_outage(world, far):
    """The message is sent when the connection is back. Nothing depends on the connection that it was meant for."""
    two, proxy = far
    first = start_training(world, two)
    proxy.refuse()
    two.say(0, "the connection is closed")
    two.jobs[1].send(TERM)
    two.say(1, "notice: SIGTERM")
    proxy.restore()
    assert two.finish() == PREEMPTED
    last = committed(two, 2)
    assert saved_steps(two) == {first: 4, last: 4}
    assert two.agreed()["outcome"] == "preempted"


@pytest.mark.parametrize("way,theirs,ours", [
    ("stall", "node 0 is lost: no message from it for 2s", "no message from it for 2s"),
    ("refuse", "node 0 is lost: ", "its connection is closed, and it did not connect again"),
])
def test_a_partition(far, way, theirs, ours):
    """A network that delivers nothing, and says so or not: both sides end by themselves."""
    two, proxy = far
    two.options += LOST_SOON
    two.start_all("pause")
    started = time.monotonic()
    getattr(proxy, way)()
    assert two.finish() == NODE_LOST
    assert time.monotonic() - started < LOST_WITHIN
    assert theirs in two.jobs[1].err and ours in two.jobs[0].err
    assert two.agreed("outcome") == {"outcome": "node_lost"}


GARBAGE = {"nothing": b"", "text": b"GET / HTTP/1.1\r\nHost: n0\r\n\r\n", "zeros": bytes(100000),
           "ones": b"\xff" * 100000, "tls": bytes.fromhex("16030100510100004d0303") + b"x" * 70}


@pytest.mark.memcheck
def test_garbage_on_the_port(world, nodes):
    """A port scan, a health check: closed and logged, and nothing else happens."""
    two = nodes(2)
    two.start_all("hold end")
    scanners = []
    for data in GARBAGE.values():
        scanners.append(socket.create_connection(("127.0.0.1", two.port), 5))
        try:
            scanners[-1].sendall(data)
        except OSError:
            assert len(data) > 1000  # the connection was closed before all was sent
    for name, scanner in zip(GARBAGE, scanners):
        scanner.settimeout(DEADLINE)
        try:
            # A TLS client gets the answer that there is no key here.
            assert name == "nothing" or (b"no key" in scanner.recv(300)) == (name == "tls")
            assert name == "nothing" or scanner.recv(1) == b""
        except ConnectionResetError:
            assert name != "tls"
    two.say(0, "closed a connection")
    assert two.jobs[1].process.poll() is None
    world.let_end(two)
    scanners[0].close()
    for scanner in scanners[1:]:
        scanner.close()


def test_a_notice_while_the_state_directory_is_waited_for(world):
    """Node 0 has the notice while it waits for an older pchrun's end. It has started nothing, and tells the
    others, which would otherwise wait until they fail."""
    options = ["--checkpoint-dir", world.root]
    old = world.launch(*options, "--", world.actor, "say", "old", "wait")
    world.events.wait("old")
    job = Nodes(world, 3, options)
    for rank in (1, 2, 0):
        job.start(rank, "say started")
    job.say(0, "still holds the state directory")
    job.jobs[0].send(signal.SIGTERM)
    assert job.finish() == 42
    assert not world.events.all("started")
    assert "SIGTERM came while pchrun waited for the state directory; nothing is started" in job.jobs[0].err
    assert "42: the notice came before the start: nothing was started" in job.jobs[1].err
    old.send(signal.SIGINT)
    old.finish()


def test_a_notice_while_node_0_of_the_same_job_holds_the_state_directory(world, nodes):
    """The older node 0 also has the port, so that the new one cannot tell the others. The port was named as the
    reason of the preemption."""
    two = nodes(2, "--state-dir", world.root / "state")
    two.start(0)
    two.say(0, "join: waiting for node 1")
    twin = two.launch(0, "true", options=["--report", "none"])
    wait_until(lambda: "waiting for its end" in twin.err, "it to wait")
    twin.end_by(signal.SIGTERM, PREEMPTED)
    why = "SIGTERM came while pchrun waited for the state directory"
    assert twin.err_lines[-1].endswith(f" end: preempted, exit code 42: {why}; nothing was started")
    assert "the other nodes cannot be told: " in twin.err and "the port is in use" in twin.err
    two.start(1)
    assert two.finish() == 0
