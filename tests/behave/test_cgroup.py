# SPDX-License-Identifier: Apache-2.0
"""The control group of the commands: made where pchrun may do so, used to end all processes in it, and removed
by its owner. After a kill, a later pchrun removes it."""

import signal
from pathlib import Path

import pytest

from harness import (WITHOUT_PROC, expect_left, group_of, is_alive, leave_behind, marked, needs_namespace, our_group,
                     skip_if_it_needs_proc, wait_until)

QUICK = ["--stop-term-wait", "300ms", "--stop-kill-wait", "5s"]
KILL = signal.SIGKILL


@pytest.fixture
def folder():
    """The control group of the tests, without the pchruns of others; live_apart() has made it."""
    ours = our_group()
    if not ours or not ours.name.startswith("tests."):
        pytest.skip("no control group of version 2 is ours to divide")
    if not (ours / "cgroup.kill").exists():
        pytest.skip("the kernel has no cgroup.kill")
    yield ours
    for left in ours.glob("pchrun.*"):
        left.rmdir()


def groups_in(folder):
    return sorted(path.name for path in folder.glob("pchrun.*"))


def is_in_own(pid):
    return group_of(pid).startswith(f"{group_of('self').rstrip('/')}/pchrun.")


def start_other(world):
    """A process that pchrun has not started."""
    other = world.start(world.actor, "say", "other", "hold", world.hold("end"))
    world.events.wait("other")
    return other

def test_all_that_is_below_the_commands_is_in_it(world, folder):
    """The group also has a daemon in a session of its own. pchrun itself is outside."""
    job = world.act("daemon { say left pause } say ready hold end exit 6", options=QUICK)
    assert is_in_own(world.events.wait("left")["pid"]) and is_in_own(job.actor)
    assert group_of(job.pid) == group_of("self") and len(groups_in(folder)) == 1
    world.let_end(job, 6)
    assert groups_in(folder) == []


# Each process continues in a child, in a new session, and ends.
HOPS = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end = time.monotonic() + 20
for chain in range(8):
    if os.fork() == 0:
        os.setsid()
        while time.monotonic() < end:
            if os.fork():
                os._exit(0)
        os._exit(0)
print("hopping", flush=True)
time.sleep(30)
"""


def test_who_forks_without_end_does_not_escape(world, folder):
    """The processes live for a moment only, in sessions of their own, and ignore SIGTERM. A search always comes too
    late."""
    job = world.launch(*QUICK, "--grace", "1s", "--", "/usr/bin/python3", "-c", HOPS)
    wait_until(lambda: "hopping" in job.out, "the forks")
    job.end_by(signal.SIGTERM, 42)
    assert not marked(world.mark) and groups_in(folder) == []
    assert "left behind" not in job.err


def test_all_that_is_in_it_is_killed(world, folder):
    """Also a process that pchrun cannot find by its parents: a service has started it for the job (podman
    --cgroup-parent)."""
    other = start_other(world)
    job = world.act("ignore TERM say ready pause", options=[*QUICK, "--grace", "1s"])
    (own,) = groups_in(folder)
    (folder / own / "cgroup.procs").write_text(str(other.pid))
    job.end_by(signal.SIGTERM, 42)
    assert other.finish() == -KILL


@pytest.mark.parametrize("options", ["--stop-cgroup off", "--stop-leftovers leave"])
def test_not_where_it_is_not_wanted(world, folder, options):
    """With stop.cgroup=off, or with leftovers that are to be left."""
    job = world.act("say ready hold end", options=options)
    assert groups_in(folder) == []
    world.let_end(job)


DEAF = "daemon { ignore TERM say left pause } hold end exit 6"


def test_not_where_it_cannot_be_had(world, folder):
    """The groups are read-only, as in most containers: pchrun logs nothing about it, and sweeps the tree."""
    needs_namespace("--mount")
    script = f'mount --bind "{folder}" "{folder}" && mount -o remount,bind,ro "{folder}" && exec "$@"'
    job = world.act(DEAF, options=QUICK, above=["unshare", "--mount", "sh", "-c", script, "sh"], ready="left")
    assert group_of(job.actor) == group_of("self")
    world.let_end(job, 6)
    assert not is_alive(job.actor) and "group" not in job.err


@pytest.mark.parametrize("deaf", [False, True], ids=["asked", "killed"])
def test_without_proc(world, folder, deaf):
    """As in a bare chroot: the group shows which processes are left, and pchrun finds its own group by its members."""
    skip_if_it_needs_proc(world)
    needs_namespace("--mount")
    job = leave_behind(world, deaf, above=["unshare", "--mount", *WITHOUT_PROC])
    assert is_in_own(job.actor)
    expect_left(world, job, deaf)
    assert not is_alive(job.actor) and groups_in(folder) == []


@pytest.mark.parametrize("options", [[], ["--eperm"]], ids=["old kernel", "EPERM"])
def test_an_older_kernel(world, folder, options):
    """Without clone3 a command enters the group by itself."""
    job = world.act(DEAF, options=QUICK, above=[world.oldkernel, *options], ready="left")
    assert is_in_own(job.actor)
    world.let_end(job, 6)
    assert not is_alive(job.actor) and groups_in(folder) == []


# A process that takes the port, in a session of its own, and says so.
HOLDER = """
import os, socket, sys, time
if os.fork():
    time.sleep(1000)
os.setsid()
listener = socket.create_server(("127.0.0.1", 0))
with open(sys.argv[1] + ".new", "w") as file:
    file.write(f"{os.getpid()} {listener.getsockname()[1]}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(1000)
"""
TAKER = "import socket, sys; [socket.create_server(('127.0.0.1', int(p))) for p in sys.argv[1:]]"


def leave_holders(world, n):
    """Pchruns that are killed, each leaving a process with a port: (their pids, the processes, the ports)."""
    dead, left, ports = [], [], []
    for i in range(n):
        path = world.root / f"holder{i}"
        dead.append(world.launch("--", "/usr/bin/python3", "-c", HOLDER, path))
        wait_until(path.exists, "a port to be held")
        pid, port = path.read_text().split()
        left.append(int(pid))
        ports.append(port)
        assert is_in_own(int(pid))
    members = [our_group() / Path(group_of(pid)).name / "cgroup.procs" for pid in left]
    for job in dead:
        job.kill()
    # The kernel kills each command when its pchrun is gone, a moment later.
    wait_until(lambda: [file.read_text().split() for file in members] == [[str(pid)] for pid in left],
               "the commands to end with their pchruns")
    return [job.pid for job in dead], left, ports


def swept(job):
    """The lines in which a start names the processes that it has killed."""
    return [line for line in job.err.splitlines() if "a dead pchrun had left behind" in line]


@pytest.mark.killed
def test_what_a_killed_pchrun_has_left_has_ended_when_the_next_one_starts(world, folder):
    """New ranks found ports and the device's memory in use for a tenth of a second. The processes of a command
    that ended sooner were never swept. The processes below a living pchrun stay."""
    living = world.act("daemon { say below pause } say living hold end", ready="living")
    below = world.events.wait("below")["pid"]
    kept = groups_in(folder)
    dead, left, ports = leave_holders(world, 2)
    job = world.launch("--", "/usr/bin/python3", "-c", TAKER, *ports)
    assert job.finish() == 0, "a port is still taken"
    assert not any(is_alive(pid) for pid in left) and groups_in(folder) == kept and is_alive(below)
    (line,) = swept(job)
    assert all(f"1 process of pchrun {pid}" in line for pid in dead) and "they ended in " in line
    job = world.launch("--", "true")
    assert job.finish() == 0 and not swept(job)
    world.let_end(living)
    assert not swept(living)


@pytest.mark.killed
def test_all_that_start_at_once_wait_for_it(world, folder):
    """As the supervisors of two nodes on one host start: the second one to sweep waits, too."""
    _, left, ports = leave_holders(world, 1)
    check = f"! grep -s '^State:.[^ZX]' {' '.join(f'/proc/{pid}/status' for pid in left)}"
    jobs = [world.launch("--", "sh", "-c", check) for _ in range(6)]
    assert [job.finish() for job in jobs] == [0] * 6
    assert groups_in(folder) == []


@pytest.mark.killed
def test_groups_that_the_job_has_made_below_go_as_well(world, folder):
    """Empty groups once kept the job's group for ever, and each start logged that it had killed their processes."""
    _, left, _ = leave_holders(world, 1)
    below = folder / Path(group_of(left[0])).name / "below"
    (below / "deep").mkdir(parents=True)
    (below / "empty").mkdir()
    (below / "deep/cgroup.procs").write_text(str(left[0]))
    job = world.launch("--", "true")
    assert job.finish() == 0 and len(swept(job)) == 1
    assert not is_alive(left[0]) and groups_in(folder) == []
    job = world.act("say ready hold end")
    (folder / groups_in(folder)[0] / "below").mkdir()
    world.let_end(job)
    assert groups_in(folder) == []


def test_another_group_that_begins_with_our_name_is_left_alone(world, folder):
    """Such as the group of a service: systemd has a group "pchrun.service" for a unit of that name."""
    service = folder / "pchrun.service"
    service.mkdir()
    other = start_other(world)
    (service / "cgroup.procs").write_text(str(other.pid))
    job = world.launch("--", "true")
    assert job.finish() == 0 and not swept(job)
    assert is_alive(other.pid) and groups_in(folder) == [service.name]
    world.let_end(other)
