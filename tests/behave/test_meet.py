# SPDX-License-Identifier: Apache-2.0
"""Where the ranks of -n meet: MASTER_ADDR, MASTER_PORT, and other variables that torchrun would set."""

import os
import socket

import pytest

from harness import needs_namespace
from nodes import Nodes

SHOW = 'echo "$RANK $GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_ADDR $MASTER_PORT"'
# As torch.distributed begins: rank 0 listens, the others connect and send their ranks.
MEET = """
import os, socket, sys, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    with socket.create_server(("", where[1])) as server:
        seen = []
        for _ in range(world - 1):
            conn = server.accept()[0]
            seen.append(int(conn.makefile().readline()))
            conn.close()
    print("met", sorted(seen), flush=True)
else:
    until = time.monotonic() + 60
    while True:
        try:
            with socket.create_connection(where, 15) as conn:
                conn.sendall(b"%d\\n" % rank)
            break
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
"""


def lines(job):
    return sorted(job.out.splitlines())


def test_ranks_of_one_node(world):
    job = world.launch("-n", 2, "--", "sh", "-c", SHOW, code=0)
    first, second = lines(job)
    port = first.split()[-1]
    assert first == f"0 0/1 127.0.0.1 {port}" and second == f"1 0/1 127.0.0.1 {port}"
    # The port is free again.
    with socket.create_server(("", int(port))):
        pass


@pytest.mark.parametrize("port", ["70000", "29500x", "0"])
def test_a_port_of_the_user_s_that_is_none(world, port):
    """The user's value stays, and the log says so. A port of pchrun's choice would not be the one that these commands
    use."""
    job = world.launch("-n", 1, "--", "sh", "-c", SHOW, env={"MASTER_PORT": port}, code=0)
    assert lines(job) == [f"0 0/1  {port}"]
    assert f"MASTER_PORT is '{port}', which is not a port" in job.err


def test_all_nodes_are_told_the_same(world):
    """Node 0 has found the port; the others learn it with the start."""
    two = Nodes(world, 2, ["-n", "2"])
    for rank in (1, 0):
        two.jobs[rank] = two.launch(rank, "sh", "-c", SHOW)
    assert two.finish() == 0
    port = lines(two.jobs[0])[0].split()[-1]
    assert lines(two.jobs[0]) == [f"{r} 0/2 127.0.0.1 {port}" for r in (0, 1)]
    assert lines(two.jobs[1]) == [f"{r} 1/2 127.0.0.1 {port}" for r in (2, 3)]


def test_they_meet(world):
    two = Nodes(world, 2, ["-n", "2"])
    program = world.file("meet.py", MEET)
    two.launch_all("/usr/bin/python3", program)
    assert two.finish() == 0
    assert two.jobs[0].out == "met [1, 2, 3]\n"


def test_each_generation_has_a_port_of_its_own(world):
    """The last one's connections may not be over yet (TIME_WAIT, a process that hangs)."""
    show = 'echo "$PCH_GENERATION $MASTER_PORT"; [ $PCH_GENERATION = 2 ] || '
    two = Nodes(world, 2, ["-n", "1", "--restart-max", "2", "--restart-backoff", "0s"])
    # Node 0 alone fails, so that nothing ends its command before it has told.
    for rank, then in ((0, "exit 3"), (1, "exec sleep 60")):
        two.jobs[rank] = two.launch(rank, "sh", "-c", show + then)
    assert two.finish() == 0
    told = [dict(line.split() for line in two.jobs[rank].out.splitlines()) for rank in (0, 1)]
    assert set(told[0]) == {"0", "1", "2"} and "2" in told[1]
    for generation in told[1]:
        assert told[0][generation] == told[1][generation]
    assert len(set(told[0].values())) == 3


def test_no_generation_has_the_port_of_an_earlier_one(world):
    """Here the kernel has four ports to give, and gives only two of them while these are free. A process that an earlier
    generation has left may still connect to its port."""
    needs_namespace("--net")
    four = 'echo 40000 40003 >/proc/sys/net/ipv4/ip_local_port_range && exec "$@"'
    program = 'echo $MASTER_PORT; [ $PCH_GENERATION = 3 ] || exit 3'
    job = world.launch("-n", 1, "--restart-max", 3, "--restart-start-max", 9, "--restart-backoff", "0s", "--", "sh", "-c",
                       program, above=["unshare", "--net", "sh", "-c", four, "sh"], code=0)
    assert lines(job) == ["40000", "40001", "40002", "40003"]


@pytest.mark.parametrize("options, shows, env, expected", [
    (["-n", 1], "$MASTER_ADDR $MASTER_PORT", {"MASTER_PORT": "12345"}, "127.0.0.1 12345\n"),
    (["-n", 1], "$MASTER_ADDR $MASTER_PORT", {"MASTER_ADDR": "elsewhere", "MASTER_PORT": "12345"},
     "elsewhere 12345\n"),
    (["-n", 2], "$CUDA_VISIBLE_DEVICES", {"CUDA_VISIBLE_DEVICES": "2,3"}, "2,3\n2,3\n"),
    # The program is a launcher, or alone, and would take these variables for those of another job.
    ([], "${MASTER_PORT-none} ${GROUP_RANK-none} ${RANK-none}", {}, "none none none\n"),
    # torchrun kills its workers 30 s after its SIGTERM, even if they still save.
    ([], "$TORCH_ELASTIC_SHUTDOWN_TIMEOUT", {}, "36\n"),
    (["--grace", "5s"], "$TORCH_ELASTIC_SHUTDOWN_TIMEOUT", {}, "30\n"),
    (["--signals", "USR1=preempt:4m"], "$TORCH_ELASTIC_SHUTDOWN_TIMEOUT", {}, "251\n"),
    ([], "$TORCH_ELASTIC_SHUTDOWN_TIMEOUT", {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "7"}, "7\n"),
], ids=["port", "both", "devices", "no -n", "torchrun", "short grace", "long grace", "users"])
def test_what_a_command_is_told(world, options, shows, env, expected):
    """The user's own value stays; nothing is set without -n, but the time that torchrun waits: as long as the grace."""
    job = world.launch(*options, "--", "sh", "-c", f'echo "{shows}"', env=env, code=0)
    assert job.out == expected


def test_a_port_that_is_set_on_node_0_is_told_to_all(world):
    two = Nodes(world, 2, ["-n", "1"])
    for rank, env in ((0, {"MASTER_PORT": "12345"}), (1, {})):
        two.jobs[rank] = two.launch(rank, "sh", "-c", "echo $MASTER_PORT", env=env)
    assert two.finish() == 0
    assert two.jobs[0].out == two.jobs[1].out == "12345\n"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_each_has_its_share_of_the_processors(world):
    """The shares hold all processors, and none twice. Without the option each command has all."""
    show = "import os; print(*sorted(os.sched_getaffinity(0)))"
    job = world.launch("-n", 2, "--procs-cpus", "spread", "--", "/usr/bin/python3", "-c", show, code=0)
    shares = [set(map(int, line.split())) for line in job.out.splitlines()]
    assert len(shares) == 2 and not shares[0] & shares[1] and shares[0] | shares[1] == os.sched_getaffinity(0)
    job = world.launch("-n", 2, "--", "/usr/bin/python3", "-c", show, code=0)
    assert {frozenset(map(int, line.split())) for line in job.out.splitlines()} == {frozenset(os.sched_getaffinity(0))}


def test_more_commands_than_processors(world):
    count = len(os.sched_getaffinity(0)) + 1
    job = world.launch("-n", count, "--procs-cpus", "spread", "--", world.actor, "say", "ran")
    assert job.finish() == 0 and len(world.events.all("ran")) == count
    assert f"procs.cpus: there are {count - 1} processors for {count} commands; each command may use all" in job.err
