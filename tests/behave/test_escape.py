# SPDX-License-Identifier: Apache-2.0
"""Processes that get away from their parents: as daemons, below a reaper of their own, or from a
pchrun that has died."""

import os
import re
import signal

import pytest

from harness import PREEMPTED, children_of, is_alive, marked, read_proc, wait_until
from training import CLIENT

KILLED = 128 + signal.SIGKILL
QUICK = ["--grace", "1s", "--stop-term-wait", "300ms"]

# The command waits; the rank is in a session of its own.
DAEMON = f"setsid sh -c 'exec {CLIENT}' \"$0\" \"$1\" & exec sleep 1000"


def test_a_rank_that_has_become_a_daemon(training, world):
    """The daemon is a rank like any other: it saves with all ranks, and no process of it is left."""
    job = training(*QUICK, n=2, start=DAEMON, train=3)
    pids = [job.pid(rank) for rank in range(2)]
    assert {os.getsid(pid) for pid in pids} == set(pids)
    step = job.preempt()
    assert job.result() == (PREEMPTED, "preempted", step)
    assert not any(is_alive(pid) for pid in pids)


REAPER = """
import ctypes, os, signal, sys, time
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        if os.fork():
            os._exit(0)
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(1, b"away ")
        time.sleep(1000)
time.sleep(1000)
"""


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, PREEMPTED), (signal.SIGKILL, KILLED)])
def test_below_a_reaper_of_its_own(world, number, code):
    """A launcher, or a container's init, that adopts the orphans before we do; it ends before them,
    or with them."""
    job = world.launch(*QUICK, "--stop-cgroup", "off", "--", "/usr/bin/python3", "-c", REAPER)
    wait_until(lambda: job.out.count("away") == 3, "the daemons")
    reaper = job.child()
    wait_until(lambda: len(children_of(reaper)) == 3, "their adoption")
    os.kill(job.pid if number == signal.SIGTERM else reaper, number)
    assert job.finish() == code
    assert not marked(world.mark)


@pytest.mark.killed
def test_who_comes_back_to_a_dead_socket(training, world):
    """A launcher starts its worker again when pchrun is gone: the worker must not train as if there
    had never been a pchrun."""
    job = training(n=1, start=f"{CLIENT}; exit $?", train=3)
    job.job.kill()
    client = job.clients[0]
    client.ask("close", "close .*")
    client.ask("open", "open supervised=0 .*")
    client.ask("step 4", "step 4 exit")
    job.close()
    wait_until(lambda: not marked(world.mark), "the end of all")


@pytest.fixture
def job_dir(world):
    """The options of a job that has no control group."""
    return ["--stop-cgroup", "off", "--state-dir", str(world.root / "state")]


def killed(world, options, **more):
    """The pid of a process that a killed pchrun has left."""
    job = world.act("daemon { ignore TERM say left pause } say ready pause", options=options, **more)
    left = world.events.wait("left", len(world.events.all("ready")))["pid"]
    job.kill()
    wait_until(lambda: not is_alive(job.actor), "the command to end with its pchrun")
    assert is_alive(left)
    return left


def has_ended(pid):
    """A command that fails while the process lives."""
    return ["sh", "-c", f"! grep -s '^State:.[^ZX]' /proc/{pid}/status"]


def told(job):
    return re.findall("a dead pchrun had left behind: (.*)", job.err)


@pytest.mark.killed
def test_what_a_killed_pchrun_has_left_ends_before_the_next_start(world, job_dir):
    """Without a control group a worker lived on, and held the memory of a GPU that the next attempt needs."""
    left = killed(world, job_dir)
    other = world.launch("--stop-cgroup", "off", "--state-dir", world.root / "other", "--", "true")
    assert other.finish() == 0 and is_alive(left) and not told(other), "another job has killed it"
    job = world.launch(*job_dir, "--", *has_ended(left))
    assert job.finish() == 0, "it lives when the command starts"
    (line,) = told(job)
    assert re.fullmatch(rf"{left} \(actor\); they ended in \d+ ms", line)
    job = world.launch(*job_dir, "--", "true")
    assert job.finish() == 0 and not told(job)


@pytest.mark.killed
@pytest.mark.parametrize("option", ["--health-check=%s", "--notices=command:%s"])
def test_what_other_programs_of_a_killed_pchrun_have_left(world, job_dir, option):
    """Only the commands carried the mark by which the next start finds them."""
    program = world.file("program")
    program.write_text(f"#!/bin/sh\nexec '{world.actor}' daemon {{ say left pause }} say ready pause\n")
    program.chmod(0o755)
    job = world.launch(*job_dir, option % program, "--", "sleep", "1000")
    left = world.events.wait("left")["pid"]
    program = world.events.wait("ready")["pid"]
    job.kill()
    wait_until(lambda: not is_alive(program), "the program to end with its pchrun")
    assert is_alive(left)
    job = world.launch(*job_dir, "--", *has_ended(left))
    assert job.finish() == 0 and f"{left} (actor)" in told(job)[0]


@pytest.mark.killed
def test_the_processes_of_a_living_pchrun_of_the_job_stay(world, job_dir):
    """As those of another node on this host, which has the same state directory. It has a pchrun below it, too."""
    shim = world.shim("nolocks", SHIM_NO_LOCKS=world.root / "state")
    left = killed(world, job_dir, env=shim)
    inner = [world.pchrun, *job_dir[2:], "--run-dir", world.root, "--", world.actor, "say", "inner", "hold",
             world.hold("end")]
    living = world.launch(*job_dir, "--", *inner, env=shim)
    below = world.events.wait("inner")["pid"]
    assert not is_alive(left) and told(living)
    job = world.launch(*job_dir, "--", "true", env=shim)
    assert job.finish() == 0 and not told(job), job.err
    assert is_alive(below) and living.process.poll() is None
    world.let_end(living)


@pytest.mark.killed
def test_the_processes_around_a_start_stay(world, job_dir):
    """A user starts the job again in a shell that the killed pchrun has left."""
    left = killed(world, job_dir)
    (mark,) = re.findall(rb"PCH_SUPERVISOR=([^\0]+)", read_proc(left, "environ"))
    words = " ".join(str(word) for word in [world.pchrun, *job_dir, "--", "true"])
    shell = world.start("sh", "-c", f"env -u PCH_SUPERVISOR {words}; echo $?", env={"PCH_SUPERVISOR": mark.decode()})
    assert shell.finish() == 0 and shell.out == "0\n" and not is_alive(left)


@pytest.mark.killed
def test_with_leftovers_leave_they_stay(world, job_dir):
    """The killed pchrun would have left them, too."""
    left = killed(world, [*job_dir, "--stop-leftovers", "leave"])
    job = world.launch(*job_dir, "--", "true")
    assert job.finish() == 0 and is_alive(left) and not told(job)
    os.kill(left, signal.SIGKILL)
    wait_until(lambda: not is_alive(left), "its end")
