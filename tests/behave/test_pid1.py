# SPDX-License-Identifier: Apache-2.0
"""pchrun as PID 1 of a container."""

import os
import signal

import pytest

from harness import (PREEMPTED, WITHOUT_PROC, children_of, entering, expect_left, is_alive, leave_behind, leaks_unseen,
                     needs_namespace, skip_if_it_needs_proc, state_of, wait_until)

TERM = signal.SIGTERM


@pytest.mark.parametrize("code", [0, 7, 42, 125, 255])
def test_the_exit_code_is_that_of_the_program(world, namespace, code):
    """A container's code is that of its PID 1."""
    assert world.act(f"exit {code}", start=namespace).finish() == code


@pytest.mark.parametrize("where", ["inside", "outside"])
@pytest.mark.parametrize("number,code", [(TERM, 42), (signal.SIGINT, 130), (signal.SIGHUP, 129),
                                         (signal.SIGUSR1, 138)], ids=["TERM", "INT", "HUP", "USR1"])
def test_signals_to_pid_1_reach_the_program(world, namespace, number, code, where):
    """The kernel drops signals with the default action that PID 1 gets from inside, so a wrapper must handle each of
    them. From outside siginfo shows pid 0, which must not be taken for the keyboard."""
    box = world.act("say ready pause", start=namespace)
    if where == "inside":
        box.kill_from_inside(number)
    else:
        os.kill(box.pid, number)
    assert box.finish() == code


def test_orphans_are_reaped(world, namespace):
    """PID 1 adopts every orphan of the container. If it reaps only its own child, the process table fills."""
    box = world.act("record USR1", "daemon { exit 9 } " * 20, "say ready until USR1 exit 3", start=namespace)
    wait_until(lambda: len(children_of(box.pid)) == 1, "all orphans to be reaped")
    os.kill(children_of(box.pid)[0], signal.SIGUSR1)
    assert box.finish() == 3


@pytest.mark.parametrize("who", ["program", "stranger"])
def test_leftovers_are_asked_first(world, namespace, who):
    """When PID 1 ends, the kernel kills the rest of the namespace. Before that, these processes get SIGTERM and their
    time."""
    box = world.act("daemon { record TERM say left until TERM spin 50 say cleaned } hold end", start=namespace,
                    ready="left")
    if who == "stranger":  # a process that came by nsenter, not below pchrun
        guest = world.start(*entering(box.pid, "--pid", "--mount"), world.actor, "say", "guest", "pause")
        world.events.wait("guest")
    world.let_end(box)
    assert world.events.all("cleaned")
    if who == "stranger":
        guest.finish()


def test_a_crash_of_the_program_is_128_plus_its_signal(world, namespace):
    """The exit code is 128 plus the number of the signal."""
    assert world.act("die SEGV", start=namespace).finish() == 128 + signal.SIGSEGV


@pytest.mark.parametrize("name", ["SEGV", "TERM", "KILL"])
def test_pid_1_cannot_die_of_a_signal(world, namespace, name):
    """exit.reraise in a container: SEGV and even KILL to itself were ignored, the wrapper ran on
    and ended with another code. It must fall back to 128 + n."""
    box = world.act(f"die {name}", options="--exit-reraise", start=namespace)
    assert box.finish() == 128 + getattr(signal, f"SIG{name}")


def test_pid_1_does_not_stop(world, namespace):
    """A stopped program must not stop the container's PID 1, because no process would continue it."""
    box = world.act("say ready stop pause", options="--grace 20s", start=namespace)
    actor = children_of(box.pid)[0]
    wait_until(lambda: state_of(actor) == "T", "the stop")
    assert state_of(box.pid) != "T"
    os.kill(box.pid, TERM)
    assert box.finish() == 42
    assert not is_alive(actor)


def test_the_parent_is_in_another_pid_namespace(world):
    """`unshare --pid pchrun …` without --fork: the program is PID 1 of a new namespace and sees 0
    for its parent. A check of the parent that takes this for an orphan kills every job."""
    needs_namespace("--pid")
    # The search for leaks wants to fork, which is impossible once that namespace's PID 1 is gone.
    world.act("exit 6", above=["unshare", "--pid"], env=leaks_unseen(world), code=6)


def test_kill_of_everybody_is_never_meant(world, namespace):
    """In a container kill(-1) from PID 1 takes everybody. A neighbour in another namespace and the
    program's own end are left alone: the code says that it ended by itself."""
    assert world.act("fork { pause } spin 50 exit 9", start=namespace).finish() == 9


@pytest.mark.parametrize("deaf", [False, True], ids=["asked", "killed"])
@pytest.mark.parametrize("within", [WITHOUT_PROC, []], ids=["none", "another's"])
def test_without_a_proc_of_its_own(world, within, deaf):
    """A minimal container, or unshare without --mount-proc. A pchrun that did not find the rest of the job
    neither asked nor killed it, and its end took fifteen seconds."""
    if within:
        skip_if_it_needs_proc(world)
    apart = ["--mount", "--pid", "--fork", "--kill-child"]
    needs_namespace(*apart)
    job = leave_behind(world, deaf, "--stop-cgroup", "off", above=["unshare", *apart, *within], env=leaks_unseen(world))
    expect_left(world, job, deaf)


def test_the_save_signal_with_anothers_proc(world):
    """/proc has the numbers of another namespace. pchrun took the ranks there for its own, and asked none of its own."""
    apart = ["--pid", "--fork", "--kill-child"]
    needs_namespace(*apart)
    other = world.start(world.actor, "pause", env={"RANK": "0"})
    job = world.act("record USR1 say ready until USR1 exit 0", above=["unshare", *apart], env=leaks_unseen(world),
                    options="--stop-cgroup off --save-mode signal --save-signal USR1")
    os.kill(children_of(job.pid)[0], TERM)
    world.events.wait("signal", name="USR1")
    assert job.finish() == PREEMPTED
    other.kill()
