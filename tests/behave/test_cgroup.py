# SPDX-License-Identifier: Apache-2.0
"""The control group of the commands: made where that is ours to do, the end of all that is in it,
and removed; by its owner, or by a later one where that was killed."""

import os
import signal
from pathlib import Path

import pytest

from harness import group_of, is_alive, marked, our_group, wait_until

QUICK = ["--stop-term-wait", "300ms", "--stop-kill-wait", "5s"]
KILL = signal.SIGKILL


@pytest.fixture
def folder():
    """The tests' own, so that others' pchruns do not come into it: live_apart() has made it."""
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


def is_in_own(pid, folder):
    return group_of(pid).startswith(f"{group_of('self').rstrip('/')}/pchrun.")


def test_all_that_is_below_the_commands_is_in_it(world, folder):
    """A daemon in a session of its own, too; pchrun itself is not."""
    job = world.act("daemon", "{", "say", "left", "pause", "}", "say", "ready", "hold",
                    world.hold("end"), "exit", "6", options=QUICK)
    left, actor = world.events.wait("left")["pid"], world.events.wait("ready")["pid"]
    assert is_in_own(left, folder) and is_in_own(actor, folder)
    assert group_of(job.pid) == group_of("self") and len(groups_in(folder)) == 1
    world.go_on("end")
    assert job.finish() == 6
    assert groups_in(folder) == []


# Each goes on in a child of its own, in a new session, and ends.
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
    """Never the same process for longer than a moment, in sessions of their own, and deaf to SIGTERM:
    whoever looks for them finds that they have just gone."""
    job = world.launch(*QUICK, "--grace", "1s", "--", "/usr/bin/python3", "-c", HOPS)
    wait_until(lambda: "hopping" in job.out, "the forks")
    job.send(signal.SIGTERM)
    assert job.finish() == 42
    assert not marked(world.mark) and groups_in(folder) == []
    assert "left behind" not in job.err


def test_all_that_is_in_it_is_killed(world, folder):
    """Also what cannot be found by its parents: a service has started it for the job (podman
    --cgroup-parent)."""
    other = world.start(world.actor, "say", "other", "pause")
    world.events.wait("other")
    job = world.act("ignore", "TERM", "say", "ready", "pause", options=[*QUICK, "--grace", "1s"])
    world.events.wait("ready")
    (own,) = groups_in(folder)
    (folder / own / "cgroup.procs").write_text(str(other.pid))
    job.send(signal.SIGTERM)
    assert job.finish() == 42
    assert other.finish() == -KILL


def test_not_where_it_is_not_wanted(world, folder):
    """stop.cgroup=off; and where what is left is to be left."""
    for options in (["--stop-cgroup", "off"], ["--stop-leftovers", "leave"]):
        job = world.act("say", "ready", "hold", world.hold("end"), options=options)
        pid = world.events.wait("ready", count=len(world.jobs))["pid"]
        assert groups_in(folder) == []
        world.go_on("end")
        assert job.finish() == 0 and pid


def test_not_where_it_cannot_be_had(world, folder):
    """Read-only, as in most containers: nothing is said of it, and the tree is swept all the same."""
    script = (f'mount --bind "{folder}" "{folder}" && mount -o remount,bind,ro "{folder}" && '
              'exec "$@"')
    job = world.start("unshare", "--mount", "sh", "-c", script, "sh", world.pchrun, *QUICK, "--",
                      world.actor, "daemon", "{", "ignore", "TERM", "say", "left", "pause", "}",
                      "hold", world.hold("end"), "exit", "6")
    left = world.events.wait("left")["pid"]
    assert group_of(left) == group_of("self")
    world.go_on("end")
    assert job.finish() == 6
    assert not is_alive(left) and "group" not in job.err


def test_an_older_kernel(world, folder):
    """Without clone3 a command goes there by itself."""
    job = world.start(world.helpers / "oldkernel", world.pchrun, *QUICK, "--", world.actor,
                      "daemon", "{", "ignore", "TERM", "say", "left", "pause", "}", "hold",
                      world.hold("end"), "exit", "6")
    left = world.events.wait("left")["pid"]
    assert is_in_own(left, folder)
    world.go_on("end")
    assert job.finish() == 6
    assert not is_alive(left) and groups_in(folder) == []


@pytest.mark.killed
def test_what_a_killed_pchrun_has_left_is_ended(world, folder):
    """By the next one that looks, and its group removed by a later one; not what belongs to one that lives."""
    living = world.act("daemon", "{", "say", "below", "pause", "}", "say", "living", "hold", world.hold("end"))
    below = world.events.wait("below")["pid"]
    world.events.wait("living")
    (own,) = groups_in(folder)
    dead = [world.act("daemon", "{", "say", name, "pause", "}", "pause") for name in ("a", "b")]
    left = [world.events.wait(name)["pid"] for name in ("a", "b")]
    groups = [Path(group_of(pid)).name for pid in left]
    for job in dead:
        os.kill(job.pid, KILL)
        job.finish()
    later = [world.act("say", "later", "hold", world.hold("end"))]
    wait_until(lambda: not is_alive(left[0]) and not is_alive(left[1]), "the end of what was left")
    said = "killed what a pchrun that is dead has left running, in the control group"
    wait_until(lambda: all(f"{said} {group}\n" in living.err + later[0].err for group in groups), "that to be said")
    assert (living.err + later[0].err).count(said) == 2
    later.append(world.act("say", "later", "hold", world.hold("end")))
    wait_until(lambda: not {*groups} & {*groups_in(folder)}, "the next sweep")
    assert said not in later[1].err and own in groups_in(folder) and is_alive(below)
    world.go_on("end")
    assert [job.finish() for job in (living, *later)] == [0, 0, 0]
