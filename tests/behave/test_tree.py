# SPDX-License-Identifier: Apache-2.0
"""The processes under pchrun.
"""

import os
import signal
import time

import pytest

from harness import (SLACK, children_of, is_alive, kill_quietly, marked,
                     stat_fields, state_of, wait_until)

TERM, KILL = signal.SIGTERM, signal.SIGKILL
# A pchrun that does not see a killed process end would wait for an hour.
QUICK = ["--stop-term-wait", "500ms", "--stop-kill-wait", "1h"]


# --- the process group, with its windows held open ------------------------------------------------

GATES = ["child-after-fork", "child-before-setpgid", "child-after-setpgid", "before-exec", "parent-after-fork",
         "parent-before-setpgid", "parent-after-setpgid"]


@pytest.mark.parametrize("gate", GATES)
def test_a_notice_in_the_window_is_not_lost(world, gate):
    """Between fork and setpgid there is no group yet: kill(-pgid) fails with ESRCH. tini -g, catatonit -g and dumb-init
    lost the SIGTERM of a preemption there. The child may have long passed its exec when the parent calls setpgid,
    which then fails with EACCES; that is no error."""
    job = world.act("record TERM say started until TERM exit 3", options="--grace 10m", env=world.gates(gate))
    world.reached(gate)
    os.kill(job.pid, TERM)
    world.go(gate)
    assert job.finish() == 42


@pytest.mark.parametrize("gate", ["parent-after-fork", "parent-before-setpgid"])
def test_a_child_may_end_before_its_parent_goes_on(world, gate):
    """The child has execed, run and ended before the parent's next instruction: setpgid gives ESRCH or EACCES, SIGCHLD
    came early, and its code must still be seen."""
    job = world.act("say done exit 9", env=world.gates(gate), ready="done")
    world.reached(gate)
    world.go(gate)
    assert job.finish() == 9


def test_an_exec_that_hangs_does_not_hold_us(world):
    """exec from a dead NFS server blocks in the kernel. A supervisor that reads the exec pipe without a
    deadline misses the scheduler's notice."""
    job = world.act("exit 0", options=["--grace", "1s", *QUICK], env=world.gates("before-exec"))
    world.reached("before-exec")
    job.end_by(TERM, 42)


# --- the death of pchrun --------------------------------------------------------------------------

@pytest.mark.killed
def test_the_program_dies_with_us(world):
    """pchrun is killed by the OOM killer or a careless kill -9: in four of four wrappers the
    child lived on and kept the accelerators."""
    job = world.act("ignore TERM say ready pause")
    job.kill()
    wait_until(lambda: not is_alive(job.actor), "the program's death")


@pytest.mark.killed
@pytest.mark.parametrize("gate, kernel", [
    ("child-after-fork", None), ("child-after-fork", []), ("child-after-fork", ["--eperm"]),
    ("before-pdeathsig", None), ("before-pdeathsig", []), ("after-pdeathsig", None)])
def test_a_death_before_the_death_signal_is_set_is_noticed(world, gate, kernel):
    """The classic race: the parent dies first, the signal is asked for too late and never comes. Comparing getppid()
    with 1 does not help where a subreaper adopts the child, as here. Once the signal is set, the kernel delivers it."""
    above = [] if kernel is None else [world.oldkernel, *kernel]
    job = world.act("say started pause", above=above, env=world.gates(gate))
    world.reached(gate)
    child = job.child()
    job.kill()
    if gate != "after-pdeathsig":
        world.go(gate)
    wait_until(lambda: not is_alive(child), "the child's end")
    wait_until(lambda: not marked(world.mark), "the end of all that pchrun had forked")
    assert not world.events.all("started")


def test_the_main_thread_forks(world):
    """PDEATHSIG fires when the thread that forked ends, not the process: a program started from a
    helper thread was killed for no visible reason."""
    trace = world.root / "trace"
    job = world.act("exit 0", env=world.shim("trace", SHIM_TRACE=trace), code=0)
    forks = [line.split() for line in trace.read_text().splitlines() if line.startswith("fork")]
    assert forks and {tid for _, tid, _ in forks} == {str(job.pid)}


# --- reaping --------------------------------------------------------------------------------------

def test_many_ends_at_once_are_all_reaped(world):
    """Five deaths gave two SIGCHLD: a supervisor that waits once per signal leaves zombies, and never sees the
    last child."""
    job = world.act("hold all exit 0", options="-n 32")
    wait_until(lambda: len(children_of(job.pid)) == 32, "all children")
    world.let_end(job, name="all")


def orphans(count):
    return "daemon { exit 9 } " * count


def test_orphans_are_reaped(world):
    """A data loader that leaves its workers behind fills the process table of the process that adopts them."""
    job = world.act("record USR1", orphans(40), "say ready until USR1")
    wait_until(lambda: children_of(job.pid) == [job.actor], "all orphans to be reaped")
    os.kill(job.actor, signal.SIGUSR1)
    assert job.finish() == 0


def test_orphans_come_to_us(world):
    """Without PR_SET_CHILD_SUBREAPER a daemon of the job would go to init and be out of reach."""
    job = world.act("daemon { say adopted pause } hold end exit 4", options=QUICK, ready="adopted")
    wait_until(lambda: job.actor in children_of(job.pid), "the adoption")  # the parent may end only now
    world.let_end(job, 4)


@pytest.mark.parametrize("code", ["0", "6"])
def test_only_the_programs_own_status_counts(world, code):
    """A daemon that fails after the program has succeeded does not make it a failure, nor the other
    way round."""
    assert world.act(orphans(5), "spin 50 exit", code).finish() == int(code)


def test_children_from_before_our_exec_are_not_the_jobs(world):
    """`sh -c 'x & exec pchrun …'`: pchrun has a child that it never started. Its end is reaped and
    means nothing."""
    world.start("sh", "-c", '"$0" spin 30 exit 9 & exec "$@"', world.actor, world.pchrun,
                "--", world.actor, "spin", "150", "exit", "7", code=7)


# --- what the program leaves behind ---------------------------------------------------------------

LEFTOVERS = {
    "child": "fork { say left pause }",
    "own group": "fork { setpgid say left pause }",
    "own session": "fork { setsid say left pause }",
    "daemon": "daemon { say left pause }",
    "stopped daemon": "daemon { say left stop pause }",
    "daemon that ignores TERM": "daemon { ignore TERM say left pause }",
    "stopped daemon that ignores TERM": "daemon { ignore TERM say left stop pause }",
    "daemon of a daemon": "daemon { daemon { say left pause } pause }",
}


@pytest.mark.parametrize("verbs", LEFTOVERS.values(), ids=LEFTOVERS.keys())
def test_leftovers_are_swept(world, verbs):
    """A program that ends leaves workers that hold the accelerators; the next attempt then finds no
    memory. A setsid grandchild escapes every sweep by group (dumb-init#191)."""
    job = world.act(verbs, "hold end exit 6", options=QUICK, ready="left")
    if " stop " in verbs:
        wait_until(lambda: state_of(job.actor) == "T", "the stop")
    world.let_end(job, 6)
    assert not marked(world.mark)


@pytest.mark.parametrize("options", [[], ["--eperm"]], ids=["old kernel", "EPERM"])
def test_leftovers_are_swept_on_an_old_kernel(world, options):
    """Without pidfd_open and pidfd_send_signal (Linux before 5.3, or a container that forbids
    them) the sweep does its work all the same."""
    job = world.act(LEFTOVERS["daemon"], LEFTOVERS["own session"], "hold end exit 6", options=[*QUICK, "--stop-cgroup", "off"],
                    above=[world.oldkernel, *options])
    world.events.wait("left", count=2)
    world.let_end(job, 6)
    assert not marked(world.mark)


def test_leftovers_that_go_on_forking_are_swept(world):
    """A process that forks and ends again and again has another pid at each look."""
    job = world.act("daemon { say left " * 12, "pause", "} spin 3 " * 11, "} hold end exit 6", options=QUICK)
    world.events.wait("left", count=12)
    world.let_end(job, 6)


def test_leftovers_get_term_first(world):
    """A worker wants to remove its shared memory before it goes: TERM, a bounded wait, then KILL.
    dumb-init sends TERM and leaves at once."""
    job = world.act("daemon { record TERM say left until TERM spin 100 say cleaned } hold end exit 0", ready="left")
    world.let_end(job)
    assert world.events.all("cleaned")


@pytest.mark.parametrize("code", [0, 6])
def test_leftovers_may_be_left(world, code):
    """Some programs start services on purpose: --stop-leftovers leave."""
    job = world.act("daemon { record TERM say left wait } hold end exit", str(code), options="--stop-leftovers leave",
                    ready="left")
    world.let_end(job, code)
    assert is_alive(job.actor) and not world.events.all("signal")
    kill_quietly(job.actor)
    wait_until(lambda: not is_alive(job.actor), "its end")


def test_the_code_is_recorded_before_the_sweep(world):
    """First the exit status, then the sweep, then the report: what the sweep sees must not change
    the code."""
    world.let_end(world.act("daemon { record TERM say left until TERM exit 1 } hold end exit 0", ready="left"))


def test_a_notice_during_the_sweep_does_not_rewrite_the_end(world):
    """The program has trained to its end; the SIGTERM that comes while leftovers are swept is too
    late to make it a preemption."""
    job = world.act("daemon { record TERM say left wait } hold end exit 0", options="--stop-term-wait 1s --grace 10m",
                    ready="left")
    world.go_on("end")
    world.events.wait("signal", name="TERM")  # the sweep has begun
    job.end_by(TERM, 0)


def test_the_deadline_takes_the_whole_tree(world):
    """At the end of the grace every process of the job is killed, in whatever session it hides."""
    job = world.act("ignore TERM daemon { say left pause } fork { setsid say left pause } pause",
                    options=["--grace", "1s", *QUICK])
    world.events.wait("left", count=2)
    job.end_by(TERM, 42)


# --- whom we signal -------------------------------------------------------------------------------

SCENES = {
    "end": ("exit 3", None),
    "notice": ("say ready pause", TERM),
    "ladder": ("ignore TERM say ready pause", TERM),
    "sweep": ("daemon { ignore TERM say ready pause } hold end", None),
    "interrupt": ("say ready pause", signal.SIGINT),
}


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("scene", SCENES)
def test_nobody_is_signalled_after_the_reaping(world, scene, count):
    """After a leader is reaped, its number may belong to another process: ponyc#5765, elle#1045. The sweep
    comes before the reaping, or uses a pidfd. A stored -1 becomes kill(-1), which hits every process."""
    verbs, number = SCENES[scene]
    trace = world.root / "trace"
    job = world.act(verbs, options=["-n", count, "--grace", "1s", *QUICK], env=world.shim("trace", SHIM_TRACE=trace))
    world.go_on("end")
    if number:
        os.kill(job.pid, number)
    job.finish()
    reaped = set()
    for line in trace.read_text().splitlines():
        what, *numbers = line.split()
        if what == "reap":
            reaped.add(int(numbers[0]))
        if what == "kill":
            assert int(numbers[0]) not in (-1, 0, 1), line
            assert abs(int(numbers[0])) not in reaped, line
    assert len(reaped) >= count


def test_nothing_of_others_is_swept(world):
    """A blanket kill by name or session takes the neighbours along (TensorRT-LLM#16404)."""
    other = world.start(world.actor, "say", "neighbour", "pause")
    world.events.wait("neighbour")
    world.let_end(world.act("daemon { say left pause } hold end", options=QUICK, ready="left"))
    assert is_alive(other.pid)
    other.kill()

def test_every_program_has_a_group(world):
    """With -n each command has a group of its own, so that one can be stopped alone."""
    job = world.act("say ready pause", options="-n 3")
    assert {int(stat_fields(pid)[2]) for pid in job.actors} == set(job.actors)
    start = time.monotonic()
    for pid in job.actors:
        kill_quietly(pid)  # pchrun ends the others when it sees the first one die
    assert job.finish() == 128 + KILL
    assert time.monotonic() - start < SLACK
