# SPDX-License-Identifier: Apache-2.0
"""pchrun on a terminal, also where it is not alone there: scripts, pipelines, several commands.

The keyboard is real: what is typed goes through the line discipline of a pseudo-terminal, and the
shells are real shells with job control.
"""

import json
import os
import signal
import sys
import time

import pytest

from harness import (PROMPT, children_of, interactive_shell, is_alive, is_pending, marked, shell_command, shell_runs,
                     stat_fields, state_of, wait_until)
from nodes import Nodes

CTRL_C, CTRL_Z, CTRL_BACKSLASH = "\x03", "\x1a", "\x1c"
SHELLS = {"bash": ["bash", "--norc", "--noprofile", "-i"], "dash": ["dash", "-i"]}


@pytest.fixture(params=SHELLS)
def shell(request, world):
    """An interactive shell that waits at its prompt."""
    yield from interactive_shell(world, *SHELLS[request.param])


def living_children(shell):
    """dash reaps its jobs only when it comes to its prompt."""
    return [pid for pid in children_of(shell.job.pid) if is_alive(pid)]


def last_code(shell):
    return int(shell.ask("echo code=$?=\n", r"code=(\d+)=")[1])


def go_on(shell, actor, command="fg"):
    shell.type(f"{command}\n")
    wait_until(lambda: state_of(actor) != "T", "its going on")


def greet(world, pty):
    """The program reads the line that is typed."""
    pty.type("hello\n")
    assert world.events.wait("line")["text"] == "hello"


# --- what the program has of the terminal ---------------------------------------------------------

def test_the_program_is_on_the_terminal(world, terminal):
    """Progress bars look at isatty; a pipe in between takes them away."""
    path = world.root / "picture"
    pty = terminal("--", world.mirror, path)
    assert pty.finish() == 0
    seen = json.loads(path.read_text())
    assert [seen["fds"][str(n)]["target"] for n in range(3)] == [pty.slave_name] * 3
    assert all(seen["fds"][str(n)]["tty"] for n in range(3))
    assert seen["tty"] != 0


def test_the_program_is_in_the_foreground(world, terminal):
    """A program in another group would be stopped by its first read (SIGTTIN), and Ctrl-C would not reach it."""
    pty = world.act("say ready read exit 3", start=terminal)
    greet(world, pty)
    assert pty.finish() == 3


def test_the_terminal_is_handed_back(world):
    """A script that reads from the terminal behind us: if the foreground still belongs to the
    program that has ended, its read is stopped or fails."""
    script = shell_command(world, "exit 3") + '; code=$?; read line; echo "got $line $code"'
    pty = world.terminal("sh", "-c", script)
    wait_until(lambda: not [p for p in marked(world.mark) if p != pty.job.pid], "pchrun's end")
    pty.ask("hello\n", "got hello 3")
    assert pty.finish() == 0


def test_a_script_in_front_of_a_reading_program(world):
    """`sh -c 'pchrun -- program'` on a terminal: the program may read."""
    pty = world.terminal("sh", "-c", shell_command(world, "say ready read exit 3") + "; exit $?")
    world.events.wait("ready")
    greet(world, pty)
    assert pty.finish() == 3


def test_in_the_background_the_foreground_is_not_taken(world, shell):
    """A wrapper that calls tcsetpgrp without looking takes the terminal from under its user's
    hands (tini.c says so itself)."""
    actor = shell_runs(world, shell, "record USR1 say ready until USR1", " &")
    assert shell.foreground() == int(stat_fields(shell.job.pid)[2])
    shell.type("echo still-$((40 + 2))\n")
    shell.expect("still-42")
    os.kill(actor, signal.SIGUSR1)
    wait_until(lambda: not living_children(shell), "the end of the job")


def test_a_background_program_that_reads_is_stopped(world, shell):
    """As without pchrun: SIGTTIN stops it, the shell says so, and fg gives it the terminal."""
    actor = shell_runs(world, shell, "say ready read exit 3", " &")
    wait_until(lambda: "Stopped" in shell.ask("jobs\n", f"(?s).*?{PROMPT}")[0], "the shell to say that it has stopped")
    assert state_of(actor) == "T"
    go_on(shell, actor)
    greet(world, shell)
    shell.expect(PROMPT)
    assert last_code(shell) == 3


def test_a_pager_behind_us_keeps_the_terminal(world, shell):
    """`pchrun -- program | less`: both are one job of the shell, and less reads the terminal."""
    shell_runs(world, shell, "say ready pause", " | sh -c 'read line </dev/tty; echo got=$line; exec sleep 1000'")
    shell.ask("hello\n", "got=hello")
    shell.ask(CTRL_C, PROMPT)
    wait_until(lambda: not living_children(shell), "the end of the job")


def test_ctrl_c_works_with_standard_input_elsewhere(world):
    """`pchrun … </dev/null` on a terminal: Ctrl-C still ends it."""
    pty = world.terminal("sh", "-c", shell_command(world, "say ready pause") + " </dev/null; exit $?")
    world.events.wait("ready")
    pty.type(CTRL_C)
    pty.finish()
    assert not [pid for pid in marked(world.mark)]


# --- keys -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("key,name,code", [(CTRL_C, "INT", 130), (CTRL_BACKSLASH, "QUIT", 131)],
                         ids=["Ctrl-C", "Ctrl-backslash"])
@pytest.mark.parametrize("how", ["leader", "script", "shell"])
def test_one_key_is_one_signal(world, key, name, code, how):
    """dumb-init -c delivered Ctrl-C twice, and so did uv, berglas and poethepoet: once by the
    kernel to the whole group, once forwarded. Programs take the second for "at once"."""
    verbs = f"record all say ready until {name} spin 100 say asked until USR1 exit 5"
    line = shell_command(world, verbs)
    if how == "leader":
        pty = world.terminal(world.pchrun, "--", world.actor, *world.words(verbs))
    elif how == "script":
        pty = world.terminal("sh", "-c", f'trap "" {name}; env --default-signal={name} {line}')
    else:
        pty = world.terminal(*SHELLS["bash"], env={"PS1": PROMPT})
        pty.expect(PROMPT)
        pty.type(line + "\n")
    actor = world.events.wait("ready")["pid"]
    pty.type(key)
    world.events.wait("asked")
    assert not is_pending(actor, getattr(signal, f"SIG{name}"))
    os.kill(actor, signal.SIGUSR1)
    if how == "shell":
        pty.expect(PROMPT)
        assert last_code(pty) == 5
        pty.type("exit 5\n")
    assert pty.finish() == 5
    assert world.events.signals() == [name, "USR1"]


# Rank 0 dies of KeyboardInterrupt, and rank 1 exits with 1, as torchrun does. Each takes a while, in which the next
# Ctrl-C comes.
PYTHON = """
import os, sys, time
print("ready", flush=True)
try:
    time.sleep(1000)
finally:
    time.sleep(0.15)
    if os.environ["PCH_RANK"] == "1":
        sys.exit(1)
"""


@pytest.mark.parametrize("count", [1, 2, 5])
def test_ctrl_c_is_an_interruption(world, count):
    """It ended as failed with 1 or 130, by chance, and the cause changed."""
    pty = world.terminal(world.pchrun, "-n", "2", "--", sys.executable, "-c", PYTHON)
    wait_until(lambda: pty._read(0.02) and pty.text.count("ready") == 2, "both ranks")
    for _ in range(count):
        pty.type(CTRL_C)
        end = time.monotonic() + 0.1
        while time.monotonic() < end and pty.job.process.poll() is None:
            pty._read(0.02)
    assert pty.finish() == 130
    assert " end: interrupted, exit code 130: interrupted on node 0 by SIGINT\r\n" in pty.text
    assert " ending: interrupted: " in pty.text and "the cause has changed" not in pty.text


def test_ctrl_c_on_one_node(world):
    """Only node 1 has the terminal. Node 0's rank misses the other one, and fails at once."""
    os.mkfifo(world.root / "line")
    script = (f"exec sh -c 'echo ready; exec sleep 1000' >{world.root}/line", f"cat {world.root}/line; exit 1")
    two = Nodes(world, 2, ["-n", "1"])
    two.jobs[0] = two.launch(0, "sh", "-c", script[1])
    two.jobs[1] = two.launch(1, "sh", "-c", script[0])
    wait_until(lambda: "ready" in two.jobs[0].out, "both ranks")
    os.kill(two.jobs[1].pid, signal.SIGINT)
    assert two.finish() == 130
    assert two.agreed("outcome", "why") == {"outcome": "interrupted", "why": "interrupted on node 1 by SIGINT"}
    for job in two.jobs.values():
        assert "the cause has changed" not in job.err


def test_ctrl_c_ends_the_program_with_its_own_code(world, shell):
    """130 for the shell, and the prompt is back."""
    shell_runs(world, shell, "say ready pause")
    shell.ask(CTRL_C, PROMPT)
    assert last_code(shell) == 130


def test_ctrl_c_reaches_several_programs(world, terminal):
    """Each of -n programs sees Ctrl-C once, though only one group can be in the foreground."""
    pty = world.act("record all say ready until INT spin 100 exit 0", options="-n 3", start=terminal)
    pty.type(CTRL_C)
    pty.finish()
    assert {pid: world.events.signals(pid) for pid in pty.actors} == {pid: ["INT"] for pid in pty.actors}


def test_a_new_window_size_reaches_the_program_once(world, terminal):
    """The kernel signals the foreground group; with a forwarded signal the program would redraw twice."""
    pty = world.act("record all say ready until WINCH spin 50 say asked until USR1", start=terminal)
    pty.resize(50, 90)
    world.events.wait("asked")
    assert not is_pending(pty.actor, signal.SIGWINCH)
    os.kill(pty.actor, signal.SIGUSR1)
    assert pty.finish() == 0
    assert world.events.signals() == ["WINCH", "USR1"]


def test_the_end_of_the_terminal_is_a_hangup(world, terminal):
    """The window is closed: the program gets SIGHUP, and ends unless it has asked not to."""
    pty = world.act("say ready pause", start=terminal)
    pty.close()
    assert pty.job.finish() == 128 + signal.SIGHUP


# --- stopping and going on ------------------------------------------------------------------------

def start_and_stop(world, shell, verbs, options=()):
    actor = shell_runs(world, shell, f"say ready {verbs}", options=options)
    shell.ask(CTRL_Z, PROMPT)
    assert state_of(actor) == "T"
    return actor


def test_ctrl_z_gives_the_shell_its_prompt(world, shell):
    """tini left its user without a prompt: the program was stopped, the wrapper ran on. catatonit
    blocked SIGTSTP in the program for ever. fg must bring both back."""
    actor = start_and_stop(world, shell, "read exit 3")
    shell.ask("jobs\n", "Stopped")
    go_on(shell, actor)
    greet(world, shell)
    shell.expect(PROMPT)
    assert last_code(shell) == 3


def test_ctrl_z_works_again_and_again(world, shell):
    """The second stop must work as the first."""
    actor = start_and_stop(world, shell, "read exit 3")
    for _ in range(3):
        go_on(shell, actor)
        wait_until(lambda: shell.foreground() == int(stat_fields(actor)[2]), "the foreground")
        shell.ask(CTRL_Z, PROMPT)
        assert state_of(actor) == "T"
    go_on(shell, actor)
    shell.ask("hello\n", PROMPT)
    assert last_code(shell) == 3


def test_bg_lets_the_program_go_on(world, shell):
    """In the background the program trains on, and the shell keeps the terminal."""
    actor = start_and_stop(world, shell, "record USR1 until USR1 say done exit 0")
    go_on(shell, actor, "bg")
    assert shell.foreground() == int(stat_fields(shell.job.pid)[2])
    os.kill(actor, signal.SIGUSR1)
    world.events.wait("done")
    wait_until(lambda: not living_children(shell), "the end of the job")


def test_a_stopped_job_can_be_ended(world, shell):
    """`kill %1` of a stopped job: the notice takes effect in spite of the stop."""
    actor = start_and_stop(world, shell, "pause", options="--grace 20s")
    shell.type("kill %1\n")
    shell.type("bg\n")
    wait_until(lambda: not is_alive(actor), "the program's end")
    wait_until(lambda: not living_children(shell), "pchrun's end")


def test_a_program_that_stops_itself_stops_us(world, shell):
    """vi, more and su stop themselves with SIGSTOP or SIGTSTP; the shell must get its prompt."""
    shell.ask(shell_command(world, "stop say on exit 4") + "\n", PROMPT)
    shell.type("fg\n")
    world.events.wait("on")
    shell.expect(PROMPT)
    assert last_code(shell) == 4


def test_a_session_leader_does_not_stop(world, terminal):
    """No other process could continue it."""
    pty = world.act("say ready stop pause", options="--grace 20s", start=terminal)
    wait_until(lambda: state_of(pty.actor) == "T", "the stop")
    os.kill(pty.job.pid, signal.SIGTERM)
    assert pty.finish(10) == 42
    assert state_of(pty.actor) == ""


# --- job control where pchrun is not alone: the terminal is lent on demand ------------------------

@pytest.fixture
def bash(world):
    yield from interactive_shell(world, *SHELLS["bash"])


def stop_and_go_on(bash, pids):
    bash.ask(CTRL_Z, PROMPT)
    wait_until(lambda: all(state_of(pid) == "T" for pid in pids), "the stop")
    bash.type("fg\n")
    wait_until(lambda: all(state_of(pid) != "T" for pid in pids), "the going on")


def test_a_script_in_front_stops_with_the_job(world, bash):
    """`sh -c 'pchrun …'`: the script has the foreground and is stopped by the key itself; the program
    is stopped by us, and one Ctrl-C afterwards is one signal."""
    bash.type(f'sh -c "{shell_command(world, "record INT say ready until INT exit 3")}; exit \\$?"\n')
    actor = world.events.wait("ready")["pid"]
    for _ in range(2):
        stop_and_go_on(bash, [actor])
    bash.ask(CTRL_C, PROMPT)
    assert world.events.signals() == ["INT"]


def test_several_programs_stop_together(world, bash):
    """No program can have the foreground for all."""
    shell_runs(world, bash, "record INT say ready until INT exit 0", options="-n 3")
    world.events.wait("ready", count=3)
    pids = [event["pid"] for event in world.events.all("ready")]
    for _ in range(3):
        stop_and_go_on(bash, pids)
    bash.ask(CTRL_C, PROMPT)
    assert world.events.signals() == ["INT"] * 3


def test_the_reader_of_a_pipeline_keeps_the_terminal(world, bash):
    """`pchrun … | less`: a supervisor that takes the foreground for its program stops the pager."""
    # The pager reads the terminal after the program has started: a reader from before is not stopped.
    program = f"echo up; exec {world.actor} say ready pause"
    bash.type(f"{world.pchrun} -- sh -c '{program}' | "
               "(read up; echo then-$up; read line </dev/tty; echo got=$line=)\n")
    bash.expect("then-up")
    world.events.wait("ready")
    bash.ask("hello\n", "got=hello=")
    bash.ask(CTRL_C, PROMPT)


def test_a_pipeline_stops_as_a_whole(world, bash):
    """The program has borrowed the terminal, so Ctrl-Z reaches it alone: the rest of the pipeline has
    to be stopped by us, or the shell gives no prompt."""
    actor = shell_runs(world, bash, "say ready read exit 0", " | cat")
    wait_until(lambda: bash.foreground() == int(stat_fields(actor)[2]), "the loan")
    stop_and_go_on(bash, [actor])
    bash.type("hello\n")
    assert world.events.wait("line")["text"] == "hello"
    bash.expect(PROMPT)


def test_a_key_can_be_a_notice(world, bash):
    """signals.INT is "preempt": then Ctrl-C must come to pchrun, and the program gets the signal once."""
    shell_runs(world, bash, "record all say ready until INT exit 0", options="--signals INT=preempt")
    bash.ask(CTRL_C, PROMPT)
    bash.ask("echo code=$?=\n", "code=42=")
    assert world.events.signals() == ["INT"]


def test_a_stop_by_hand_does_not_stop_the_supervisor(world, bash):
    """A user stops a background program to look at it, and continues it later. A supervisor that stopped with
    it would not be continued, and would miss the notice meanwhile."""
    actor = shell_runs(world, bash, "say ready pause", " &")
    pchrun = int(stat_fields(actor)[1])
    os.kill(actor, signal.SIGSTOP)
    wait_until(lambda: state_of(actor) == "T", "the stop")
    os.kill(pchrun, signal.SIGTERM)
    wait_until(lambda: not is_alive(actor) and not is_alive(pchrun), "the end")
