# SPDX-License-Identifier: Apache-2.0
"""health.net: before the ranks start, the nodes measure the network between each two of them. The bad pair is named,
and nothing of the measurement is left when the ranks start."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness import needs_namespace, wait_until
from nodes import nodes  # noqa: F401

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "chaos"))
import lab  # noqa: E402

RATE = r"[0-9.]+ [GMk]bit/s"
RUNS = "touch runs.$PCH_NODE_RANK; until [ -e over ]; do sleep 0.05; done"


def seconds(said):
    """When a line of the log was written."""
    hours, minutes, rest = re.search(r"(\d\d):(\d\d):(\d\d\.\d+)", said).groups()
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


def line_of(job, text):
    return next(line for line in job.err.splitlines() if text in line)


def finish_all(job):
    for rank in job.jobs:
        assert job.jobs[rank].finish() == 0, job.jobs[rank].err


def tcp_sockets(pid):
    """How many TCP sockets a process has."""
    inodes = {line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]}
    links = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(fd))
    return sum(f"socket:[{inode}]" in links for inode in inodes)


def test_all_pairs_are_measured_and_nothing_is_left(world, nodes):
    """When the ranks run, node 0 listens and has two connections, and each other node has one."""
    three = nodes(3, "--health-net")
    three.launch_all("sh", "-c", RUNS)
    for rank in range(3):
        wait_until((world.cwd / f"runs.{rank}").exists, f"the command of node {rank}")
    assert [tcp_sockets(three.jobs[rank].pid) for rank in range(3)] == [3, 1, 1]
    (world.cwd / "over").touch()
    finish_all(three)
    assert re.search(rf"network: 3 pairs, median {RATE}; slowest node \d \(\S+\) to node \d \(\S+\), {RATE}\n",
                     three.jobs[0].err)
    report = json.loads((world.root / "report.0.json").read_text())["network"]
    assert report["pairs"] == 3 and report["not_connected"] == report["unknown"] == 0
    assert report["median_bytes_per_s"] >= report["slowest_bytes_per_s"] > 0
    assert report["slowest_node"] in range(3)
    assert json.loads((world.root / "report.1.json").read_text())["network"] is None


def test_one_node_has_nothing_to_measure(world):
    job = world.launch("--health-net", "--", "true", code=0)
    assert "network" not in job.err


def test_a_restart_in_place_measures_again(world, nodes):
    two = nodes(2, "--health-net", "--restart-max", "1")
    two.launch_all("sh", "-c", "test $PCH_GENERATION = 1")
    finish_all(two)
    assert two.jobs[0].err.count("network: 2 pairs, median") == 2


@pytest.fixture
def network():
    """Hosts in namespaces."""
    needs_namespace("--net")
    if lab.why_not():
        pytest.skip(lab.why_not())
    network = lab.Network()
    yield network
    network.close()


def launch_on_hosts(world, network, count, *command):
    """Starts the nodes of a job, each on a host of its own."""
    jobs = []
    entries = ",".join(f"{lab.address(host)}:14242" for host in range(count))
    for rank in range(count):
        enter = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{network.hosts[rank]}"]
        jobs.append(world.launch("--cluster-nodes", entries, "--node-rank", rank, "--cluster-insecure", "--health-net",
                                 "--", *command, above=enter))
    return jobs


def finish(jobs):
    for job in jobs:
        assert job.finish() == 0, job.err


def test_a_node_that_reaches_node_0_by_loopback(world, network):
    """Node 2 is on the host of node 0. Node 1, on another host, reaches it there."""
    jobs = []
    for rank, host, chief in (0, 0, lab.address(0)), (1, 1, lab.address(0)), (2, 0, "127.0.0.1"):
        enter = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{network.hosts[host]}"]
        jobs.append(world.launch("--cluster-nnodes", 3, "--cluster-chief", f"{chief}:14242", "--cluster-bind",
                                 "0.0.0.0:14242", "--node-rank", rank, "--cluster-insecure", "--health-net", "--", "true",
                                 above=enter))
    finish(jobs)
    assert re.search(rf"network: 3 pairs, median {RATE}; slowest node \d \(\S+\) to node \d \(\S+\), {RATE}\n",
                     jobs[0].err), jobs[0].err


def slow_down(network, host):
    """The packets of this host pass through a slow cable."""
    with network.inside(network.hosts[host]):
        subprocess.run("tc qdisc add dev eth0 root tbf rate 20mbit burst 64kb latency 50ms", shell=True, check=True)


def filter_pair(network, rule):
    """The bridge applies the rule to what node 1 sends to node 2; these two talk only in the measurement."""
    with network.inside(network.hub):
        subprocess.run(["nft", "-f", "-"], text=True, check=True, input=(
            "add table bridge t; add chain bridge t c { type filter hook forward priority 0; };"
            f'add rule bridge t c iifname "v1" oifname "v2" {rule}'))


def test_a_pair_without_a_way_is_named(world, network):
    filter_pair(network, "meta protocol ip drop")
    jobs = launch_on_hosts(world, network, 4, "true")
    finish(jobs)
    host = socket.gethostname()
    assert re.search(rf"network: 4 pairs, median {RATE}; slowest node \d \({host}\) to node \d \({host}\), {RATE}; "
                     "1 not connected\n", jobs[0].err), jobs[0].err
    assert re.search(rf"network: node 1 \({host}\) cannot reach node 2 \({host}\) at 10.77.0.3:\d+: "
                     "Connection timed out\n", jobs[0].err)
    assert "both pairs" not in jobs[0].err
    took = seconds(line_of(jobs[0], "starting")) - seconds(line_of(jobs[0], "measuring"))
    assert took < 8.5


def test_a_slow_host_is_named(world, network):
    """Its cable is slow both ways, so both of its pairs are."""
    with network.inside(network.hub):
        subprocess.run("tc qdisc add dev v2 root tbf rate 20mbit burst 64kb latency 50ms", shell=True, check=True)
    slow_down(network, 2)
    jobs = launch_on_hosts(world, network, 5, "true")
    finish(jobs)
    host = socket.gethostname()
    assert re.search(rf"network: node 1 \({host}\) to node 2 \({host}\): 1\d\.\d Mbit/s, less than half of the median\n",
                     jobs[0].err), jobs[0].err
    assert re.search(rf"network: node 2 \({host}\) to node 3 \({host}\): 1\d\.\d Mbit/s, less than half of the median\n",
                     jobs[0].err)
    assert f"network: both pairs of node 2 ({host}) are bad: look first at that node\n" in jobs[0].err


def port_of(pid):
    """The port on which this node listens for the measurement; it listens on no other."""
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return next((int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A"), None)


def test_strangers_change_nothing(world, network):
    """Two pairs take seconds. Meanwhile strangers connect to a node that receives: they say nothing, or a wrong token."""
    slow_down(network, 0)
    filter_pair(network, "meta protocol ip drop")
    jobs = launch_on_hosts(world, network, 3, "true")
    wait_until(lambda: "measuring" in jobs[0].err, "the measurement")
    port = wait_until(lambda: port_of(jobs[1].pid), "node 1 to listen")
    with network.inside(network.hub):
        strangers = [socket.create_connection((lab.address(1), port)) for _ in range(20)]
    for stranger in strangers[15:]:
        stranger.sendall(bytes(16))
        stranger.settimeout(20)
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""
    finish(jobs)
    assert re.search(rf"network: 3 pairs, median {RATE}; slowest node 0 .*, 1\d\.\d Mbit/s; 1 not connected\n",
                     jobs[0].err)
    for stranger in strangers:
        stranger.close()
