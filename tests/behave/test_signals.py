# SPDX-License-Identifier: Apache-2.0
"""Signals to pchrun."""

import contextlib
import json
import os
import signal
import time

import pytest

from harness import (APART, DEADLINE, PREEMPTED, SLACK, children_of, commands_of, descendants_of, is_alive, leaks_unseen,
                     read_proc, signal_set, stat_fields, state_of, wait_until)
from nodes import free_port

TERM, INT, USR1 = signal.SIGTERM, signal.SIGINT, signal.SIGUSR1


@pytest.fixture
def recorder(world):
    """A pchrun whose program writes down every signal, and ends with 5 after SIGUSR2."""
    return lambda *options: world.act("record all say ready until USR2 exit 5", options=options)


# --- a signal to all processes ---------------------------------------------------------------------

@pytest.mark.parametrize("shell", [False, True], ids=["command", "shell"])
def test_the_commands_die_of_the_notice_before_it_comes(world, shell):
    """KempnerForge#177: Slurm signals every process of a job, and pchrun last. A command that is still importing dies
    of it, and that was a failure with 143."""
    above = ["sh", "-c", '"$0" "$@"; exit $?'] if shell else []
    job = world.launch("-n", "2", "--", *above, world.actor, "say", "ready", "pause")
    world.events.wait("ready", count=2)
    for pid in reversed(descendants_of(job.pid)):
        with contextlib.suppress(ProcessLookupError):  # a shell ends when its command has
            os.kill(pid, TERM)
    wait_until(lambda: not commands_of(job.pid), "the commands have ended")
    job.end_by(TERM, PREEMPTED)
    assert "perhaps a notice to all processes" in job.err


def test_a_command_that_alone_is_signalled_has_failed(world):
    """No notice follows. The failure counts from the death of the command, not from the end of the wait."""
    report = world.root / "report.json"
    job = world.launch("--report", report, "-n", "2", "--", world.actor, "say", "ready", "pause")
    world.events.wait("ready", count=2)
    os.kill(children_of(job.pid)[0], TERM)
    assert job.finish() == 128 + TERM
    cause = json.loads(report.read_text())["first_cause"]
    assert cause["signal"] == TERM, cause


# --- before the fork ------------------------------------------------------------------------------

def test_signals_are_blocked(recorder):
    """dumb-init#104 lost a SIGCHLD that came before its handler."""
    job = recorder()
    blocked = signal_set(job.pid, "SigBlk")
    assert {TERM, INT, USR1, signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD} <= blocked
    job.end_by(signal.SIGUSR2, 5)


def test_a_notice_before_the_fork_is_kept(world):
    """A scheduler may change its mind at once: SIGTERM comes while the job is being set up."""
    job = world.act("exit 0", env=world.gates("before-fork"))
    world.reached("before-fork")
    os.kill(job.pid, TERM)
    world.go("before-fork")
    assert job.finish() == PREEMPTED


@pytest.mark.parametrize("gate", ["child-after-fork", "child-before-setpgid", "before-exec"])
def test_a_signal_to_the_child_before_exec_reaches_the_program(world, gate):
    """With evsignal a signal that hit the forked child before its exec ran the parent's callback: the two share a
    socket pair. The signal must wait for the new program."""
    job = world.act("say started pause", env=world.gates(gate))
    world.reached(gate)
    os.kill(job.child(), TERM)
    world.go(gate)
    assert job.finish() == 128 + TERM  # the program's own end, and no notice to pchrun


@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT"])
def test_what_was_inherited_ignored_is_not_forwarded(world, name):
    """Linux queues blocked signals even when they are ignored, so a signalfd sees the SIGHUP that
    nohup wanted away, and a wrapper forwards it to a program that has set up its own handler."""
    number = signal.Signals[f"SIG{name}"]
    job = world.act("record all say ready until USR1 exit 5", preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
    assert number in signal_set(job.pid, "SigIgn") and number not in signal_set(job.pid, "SigBlk")
    os.kill(job.pid, number)
    job.end_by(USR1, 5)
    assert world.events.signals() == ["USR1"]


def test_standard_error_without_a_reader_does_no_harm(world):
    """The reader of our log dies: the first line written then kills a supervisor that has SIGPIPE
    at its default, and with it the job. The program still gets the default action."""
    read_end, write_end = os.pipe()
    job = world.act("record all say ready until USR1 exit 5", options="-v", stderr=write_end)
    os.close(write_end)
    assert signal.SIGPIPE not in signal_set(job.actor, "SigIgn")
    os.close(read_end)
    job.send(signal.SIGUSR2)  # worth a line of log
    world.events.wait("signal", name="USR2")
    job.end_by(USR1, 5)


# --- forwarding -----------------------------------------------------------------------------------

FORWARDED = ["HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "VTALRM", "PROF", "XCPU", "XFSZ", "POLL",
             "PWR", "STKFLT", "WINCH"]
FAULTS = ["ABRT", "TRAP", "SYS", "SEGV", "BUS", "FPE", "ILL"]
OF_SANITIZERS = FAULTS[3:]  # sanitizers have handlers for these before main()


@pytest.fixture
def number(world, name):
    """The signal number of the test's parameter."""
    if name in OF_SANITIZERS and world.has_sanitizer():
        pytest.skip("a sanitizer takes it")
    return signal.Signals[f"SIG{name}"]


@pytest.mark.parametrize("name", FORWARDED + FAULTS)
def test_signals_are_forwarded(world, name, number):
    """A signal of a user or a scheduler is for the program, and comes once. A SIGABRT was to show where the
    program hangs; a supervisor that died of it took the job and its save with it."""
    job = world.act(f"record {name if name in FAULTS else 'all'} say ready until {name} spin 20 exit 5")
    job.end_by(number, 5)
    assert [e["number"] for e in world.events.all("signal")] == [number]


def test_real_time_signals_are_forwarded(world):
    """Some programs save on a real-time signal. The two that libc keeps for itself are left alone."""
    world.act("record all say ready until RTMIN+3 exit 5").end_by(signal.SIGRTMIN + 3, 5)


@pytest.mark.parametrize("options,name", [(["-g"], "USR1"), ([], "USR1"),
                                          (["-g", "--save-mode", "forward"], "TERM"),
                                          (["-g", "--procs-new-session"], "USR1")],
                         ids=["group", "alone", "notice", "session"])
def test_the_whole_group_is_signalled_on_request(world, options, name):
    """tini -g, and dumb-init by default, do the same, because a shell does not pass signals on."""
    job = world.act(f"fork {{ record {name} say below until {name} }} record {name} say ready until {name} reap exit 5",
                    options=options)
    pids = {world.events.wait("below")["pid"], job.actor}
    job.send(signal.Signals[f"SIG{name}"])
    if not options:
        command = world.events.wait("signal")["pid"]
        (below,) = pids - {command}
        assert stat_fields(below)[2] == str(command)
        os.kill(below, USR1)
    assert job.finish() == (PREEMPTED if name == "TERM" else 5)
    told = world.events.all("signal")
    assert {event["pid"] for event in told} == pids and len(told) == 2
    assert {event["from"] for event in told} == ({job.pid} if options else {job.pid, os.getpid()})


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_was_sent_ends_with_its_code(world, name, number):
    """The code tells of the program's death, not of ours, and nothing is started again."""
    job = world.launch("--restart-max", "3", "--restart-backoff", "10ms", "--", "sleep", "1000")
    (pid,) = wait_until(lambda: [p for p in children_of(job.pid) if b"sleep" in read_proc(p, "comm")],
                        "the command")
    job.end_by(number, 128 + number)
    assert not is_alive(pid) and "restarting" not in job.err


def test_a_fault_that_is_sent_while_nodes_are_missing_ends_the_wait(world):
    """Nothing has been started that could be handed the signal: it ends the wait."""
    job = world.launch("--cluster-nodes", f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}", "--node-rank", "0", "--",
                       world.actor, "say", "started")
    wait_until(lambda: signal.SIGABRT in signal_set(job.pid, "SigBlk"), "pchrun")
    job.end_by(signal.SIGABRT, 128 + signal.SIGABRT)
    assert not world.events.all("started")


@pytest.mark.parametrize("name", ["CHLD", "URG", "PIPE"])
def test_signals_that_are_never_forwarded(recorder, world, name):
    """SIGCHLD and SIGPIPE are the wrapper's own business, and SIGURG is noise of Go programs."""
    job = recorder()
    os.kill(job.pid, signal.Signals[f"SIG{name}"])
    job.send(USR1)
    world.events.wait("signal", name="USR1")
    job.end_by(signal.SIGUSR2, 5)
    assert world.events.signals() == ["USR1", "USR2"]


@pytest.mark.parametrize("number,code", [(INT, 128 + 2), (signal.SIGQUIT, 128 + 3),
                                         (signal.SIGHUP, 128 + 1), (USR1, 128 + 10)],
                         ids=["INT", "QUIT", "HUP", "USR1"])
def test_the_programs_own_code_is_kept(world, number, code):
    """Ctrl-C by hand is not a preemption: the user wants the program's own exit code."""
    world.act("say ready pause").end_by(number, code)


@pytest.mark.parametrize("rule,seen,code", [("ignore", [], 5), ("forward", ["TERM"], 5),
                                            ("preempt", ["TERM"], PREEMPTED)])
def test_the_users_rule_wins(world, rule, seen, code):
    """The user may change the table of signals: signals.TERM in the file."""
    config = world.file("config.json", '{"signals": {"TERM": "%s"}}' % rule)
    job = world.act("record all say ready until USR2 exit 5", options=["-c", config])
    job.send(TERM)
    if seen:
        world.events.wait("signal", name="TERM")
    job.end_by(signal.SIGUSR2, code)
    assert world.events.signals() == seen + ["USR2"]


def test_what_the_program_sends_us_is_not_sent_back(world):
    """A program that signals its process group or its parent would otherwise signal itself for
    ever. sudo looks at the sender for this reason."""
    job = world.act("record all kill USR1 parent say sent until USR2 exit 5", ready="sent")
    wait_until(lambda: USR1 not in signal_set(job.pid, "ShdPnd"), "USR1 to be taken")
    job.end_by(signal.SIGUSR2, 5)
    assert world.events.signals() == ["USR2"]


@pytest.mark.parametrize("number", [INT, signal.SIGHUP, TERM], ids=["INT", "HUP", "TERM"])
def test_equal_signals_within_a_second_are_one(recorder, world, number):
    """A scheduler that signals the process group and its leader sends twice within milliseconds;
    siginfo tells the sender, not whether a whole group was meant. dumb-init -c delivered both."""
    job = recorder("--grace", "30s")
    name = signal.Signals(number).name[3:]
    job.send(number)
    world.events.wait("signal", name=name)
    job.send(number)
    job.send(signal.SIGUSR2)
    job.finish()
    assert world.events.signals() == [name, "USR2"]


def test_different_signals_are_not_collapsed(recorder, world):
    """Only equal signals count as one."""
    job = recorder()
    for number in (USR1, signal.SIGHUP, signal.SIGALRM, signal.SIGUSR2):
        job.send(number)
        world.events.wait("signal", number=int(number))
    assert job.finish() == 5
    assert world.events.signals() == ["USR1", "HUP", "ALRM", "USR2"]


# --- the notice and the ladder --------------------------------------------------------------------

@pytest.mark.parametrize("end", ["exit 0", "exit 9", "exit 137", "die KILL", "die TERM", "die SEGV"])
def test_a_notice_holds_whatever_the_program_ends_with(world, end):
    """SIGTERM is a notice. Programs end after it with 0, 1, 143 or a crash in their handlers; the
    scheduler is to start the job again in every case."""
    job = world.act("record TERM say ready until TERM", end)
    job.end_by(TERM, PREEMPTED)


def test_the_code_of_a_preemption_is_the_users(world):
    """143 on some clouds, 99 under Grid Engine."""
    job = world.act("say ready pause", options="--exit-preempted 99 --exit-preempted-unsaved 99")
    job.end_by(TERM, 99)


def test_a_program_that_ignores_the_notice_is_killed_at_the_deadline(world):
    """The grace is the scheduler's, and it ends with SIGKILL for everybody, us included."""
    job = world.act("ignore TERM say ready pause", options="--grace 1s")
    start = time.monotonic()
    job.end_by(TERM, PREEMPTED)
    assert 0.3 < time.monotonic() - start < 1 + SLACK
    assert not is_alive(job.actor)


@pytest.mark.parametrize("times, between", [(5, 0), (2, APART)], ids=["duplicates", "the second"])
def test_a_notice_that_comes_again_does_not_cut_a_running_save(world, times, between):
    """Slurm sends SIGTERM twice within 20 ms. That is one notice, and no order to stop at once. Over a second later
    it means "save now": a program that saves is left alone."""
    job = world.act("record TERM say ready until TERM hold save say saved", options="--grace 30s --stop-term-wait 1s")
    for _ in range(times):
        job.send(TERM)
        world.events.wait("signal", name="TERM")
        time.sleep(between)
    assert is_alive(job.actor)
    world.let_end(job, PREEMPTED, name="save")
    assert world.events.all("saved")


def test_the_third_notice_begins_the_ladder(world):
    """A third SIGTERM ends the wait, also with a grace of minutes."""
    job = world.act("ignore TERM say ready pause", options="--grace 10m --stop-term-wait 1s --stop-exit-wait 1s")
    for _ in range(2):
        job.send(TERM)
        time.sleep(APART)
    assert is_alive(job.actor)
    job.end_by(TERM, PREEMPTED, 8)
    assert not is_alive(job.actor)


@pytest.mark.parametrize("verbs, grace, deadline", [("", "30s", 10), ("ignore TERM", "1s", 8)],
                         ids=["hears it", "ignores it"])
def test_a_stopped_program_ends_for_a_notice(world, verbs, grace, deadline):
    """SIGTERM to a stopped process does nothing until SIGCONT: a job stopped by a debugger or by hand sat there until
    the scheduler's SIGKILL. SIGKILL works on a stopped process; the ladder must get there."""
    job = world.act(verbs, "say ready stop pause", options=["--grace", grace], process_group=None,
                    start_new_session=True)
    wait_until(lambda: state_of(job.actor) == "T", "the stop")
    job.end_by(TERM, PREEMPTED, deadline)


def our_own_stop(job):
    os.kill(job.pid, signal.SIGSTOP)
    wait_until(lambda: state_of(job.pid) == "T", "our own stop")


def test_after_our_own_stop_the_job_goes_on(world):
    """A suspended machine, or a SIGSTOP to the wrapper: when it wakes, deadlines seem to have
    passed, and a healthy job was killed for it."""
    job = world.act("record USR1 say ready until USR1 exit 5")
    our_own_stop(job)
    time.sleep(APART)
    os.kill(job.pid, signal.SIGCONT)
    wait_until(lambda: state_of(job.pid) in "SR", "our going on")
    assert is_alive(job.actor)
    job.end_by(USR1, 5)


def test_a_notice_given_during_our_stop_is_kept(world):
    """Signals that come while we are stopped wait for us."""
    job = world.act("record TERM say ready until TERM say saved", options="--grace 30s")
    our_own_stop(job)
    os.kill(job.pid, TERM)
    job.end_by(signal.SIGCONT, PREEMPTED)
    assert world.events.all("saved")


def test_every_signal_during_the_ladder_is_harmless(world):
    """A storm of signals while the job is being stopped must not start a second ladder, kill
    pchrun, or change the outcome. (LeakSanitizer stops its process at the end to look at it, and
    waits for ever if a SIGCONT comes between.)"""
    job = world.act("ignore TERM ignore INT ignore HUP say ready pause", options="--grace 1s", env=leaks_unseen(world))
    os.kill(job.pid, TERM)
    storm = [INT, TERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGCONT, signal.SIGWINCH]
    end = time.monotonic() + DEADLINE
    while job.process.poll() is None and time.monotonic() < end:
        for number in storm:
            if job.process.poll() is None:
                os.kill(job.pid, number)
        time.sleep(0.005)  # the storm's own rhythm
    assert job.finish() == PREEMPTED


def test_children_are_waited_for(world):
    """The notice is not the end: a save that takes its time is not cut while there is grace."""
    job = world.act("record TERM say ready until TERM spin 700 say saved",
                    options="--grace 30s --stop-exit-wait 100ms --stop-term-wait 100ms")
    assert children_of(job.pid)
    job.end_by(TERM, PREEMPTED)
    assert world.events.all("saved")
