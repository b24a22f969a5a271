# SPDX-License-Identifier: Apache-2.0
"""pchrun on a terminal: CHECKLIST.md lines 9, 10, 19, 26-28.

The keyboard is real: what is typed goes through the line discipline of a pseudo-terminal, and the
shells are real shells with job control.
"""

import json
import os
import signal

import pytest

from harness import (PROMPT, children_of, interactive_shell, is_alive, is_pending, marked,
                     shell_command, state_of, stat_fields, wait_until)

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
    shell.type("echo code=$?=\n")
    return int(shell.expect(r"code=(\d+)=")[1])


def go_on(shell, actor, command="fg"):
    shell.type(f"{command}\n")
    wait_until(lambda: state_of(actor) != "T", "its going on")


def greet(world, pty):
    """The program reads the line that is typed."""
    pty.type("hello\n")
    assert world.events.wait("line")["text"] == "hello"


# --- lines 9, 10 and 19: what the program has of the terminal -------------------------------------

def test_line_19_the_program_is_on_the_terminal(world, terminal):
    """Progress bars look at isatty; a pipe in between takes them away."""
    path = world.root / "picture"
    pty = terminal("--", world.mirror, path)
    assert pty.finish() == 0
    seen = json.loads(path.read_text())
    assert [seen["fds"][str(n)]["target"] for n in range(3)] == [pty.slave_name] * 3
    assert all(seen["fds"][str(n)]["tty"] for n in range(3))
    assert seen["tty"] != 0


def test_line_10_the_program_is_in_the_foreground(world, terminal):
    """In a group of its own it would be stopped by its first read (SIGTTIN), and Ctrl-C would not
    reach it."""
    pty = terminal("--", world.actor, "say", "ready", "read", "exit", "3")
    world.events.wait("ready")
    greet(world, pty)
    assert pty.finish() == 3


def test_line_10_the_terminal_is_handed_back(world):
    """A script that reads from the terminal behind us: if the foreground still belongs to the
    program that has ended, its read is stopped or fails."""
    script = shell_command(world, "exit", "3") + '; code=$?; read line; echo "got $line $code"'
    pty = world.terminal("sh", "-c", script)
    wait_until(lambda: not [p for p in marked(world.mark) if p != pty.job.pid], "pchrun's end")
    pty.ask("hello\n", "got hello 3")
    assert pty.finish() == 0


def test_line_10_a_script_in_front_of_a_reading_program(world):
    """`sh -c 'pchrun -- program'` on a terminal: the program may read."""
    line = shell_command(world, "say", "ready", "read", "exit", "3")
    pty = world.terminal("sh", "-c", line + "; exit $?")
    world.events.wait("ready")
    greet(world, pty)
    assert pty.finish() == 3


def test_line_10_in_the_background_the_foreground_is_not_taken(world, shell):
    """A wrapper that calls tcsetpgrp without looking takes the terminal from under its user's
    hands (tini.c says so itself)."""
    shell.type(shell_command(world, "record", "USR1", "say", "ready", "until", "USR1") + " &\n")
    actor = world.events.wait("ready")["pid"]
    assert shell.foreground() == int(stat_fields(shell.job.pid)[2])
    shell.type("echo still-$((40 + 2))\n")
    shell.expect("still-42")
    os.kill(actor, signal.SIGUSR1)
    wait_until(lambda: not living_children(shell), "the end of the job")


def test_line_10_a_background_program_that_reads_is_stopped(world, shell):
    """As without pchrun: SIGTTIN stops it, the shell says so, and fg gives it the terminal."""
    shell.type(shell_command(world, "say", "ready", "read", "exit", "3") + " &\n")
    actor = world.events.wait("ready")["pid"]
    wait_until(lambda: state_of(actor) == "T", "the stop")
    go_on(shell, actor)
    greet(world, shell)
    shell.expect(PROMPT)
    assert last_code(shell) == 3


def test_line_10_a_pager_behind_us_keeps_the_terminal(world, shell):
    """`pchrun -- program | less`: both are one job of the shell, and less reads the terminal."""
    line = shell_command(world, "say", "ready", "pause")
    shell.type(line + " | sh -c 'read line </dev/tty; echo got=$line; exec sleep 1000'\n")
    world.events.wait("ready")
    shell.ask("hello\n", "got=hello")
    shell.ask(CTRL_C, PROMPT)
    wait_until(lambda: not living_children(shell), "the end of the job")


def test_line_10_standard_input_elsewhere(world):
    """`pchrun … </dev/null` on a terminal: Ctrl-C still ends it."""
    line = shell_command(world, "say", "ready", "pause")
    pty = world.terminal("sh", "-c", line + " </dev/null; exit $?")
    world.events.wait("ready")
    pty.type(CTRL_C)
    pty.finish()
    assert not [pid for pid in marked(world.mark)]


# --- lines 26 and 27: keys ------------------------------------------------------------------------

@pytest.mark.parametrize("key,name,code", [(CTRL_C, "INT", 130), (CTRL_BACKSLASH, "QUIT", 131)],
                         ids=["Ctrl-C", "Ctrl-backslash"])
@pytest.mark.parametrize("how", ["leader", "script", "shell"])
def test_line_26_one_key_is_one_signal(world, key, name, code, how):
    """dumb-init -c delivered Ctrl-C twice, and so did uv, berglas and poethepoet: once by the
    kernel to the whole group, once forwarded. Programs take the second for "at once"."""
    verbs = ["record", "all", "say", "ready", "until", name, "spin", "100", "say", "asked",
             "until", "USR1", "exit", "5"]
    line = shell_command(world, *verbs)
    if how == "leader":
        pty = world.terminal(world.pchrun, "--", world.actor, *verbs)
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


def test_line_26_ctrl_c_ends_the_program_with_its_own_code(world, shell):
    """130 for the shell, and the prompt is back."""
    shell.type(shell_command(world, "say", "ready", "pause") + "\n")
    world.events.wait("ready")
    shell.ask(CTRL_C, PROMPT)
    assert last_code(shell) == 130


def test_line_26_ctrl_c_with_several_programs(world, terminal):
    """Each of -n programs sees it once, though only one group can be in the foreground."""
    pty = terminal("-n", "3", "--", world.actor, "record", "all", "say", "ready", "until", "INT",
                   "spin", "100", "exit", "0")
    world.events.wait("ready", count=3)
    pty.type(CTRL_C)
    pty.finish()
    pids = {e["pid"] for e in world.events.all("ready")}
    assert {pid: world.events.signals(pid) for pid in pids} == {pid: ["INT"] for pid in pids}


def test_line_27_a_new_window_size_reaches_the_program_once(world, terminal):
    """The kernel tells the foreground group; forwarding it as well makes two redraws."""
    pty = terminal("--", world.actor, "record", "all", "say", "ready", "until", "WINCH", "spin",
                   "50", "say", "asked", "until", "USR1")
    actor = world.events.wait("ready")["pid"]
    pty.resize(50, 90)
    world.events.wait("asked")
    assert not is_pending(actor, signal.SIGWINCH)
    os.kill(actor, signal.SIGUSR1)
    assert pty.finish() == 0
    assert world.events.signals() == ["WINCH", "USR1"]


def test_line_27_the_end_of_the_terminal_is_a_hangup(world, terminal):
    """The window is closed: the program gets SIGHUP, and ends unless it has asked not to."""
    pty = terminal("--", world.actor, "say", "ready", "pause")
    world.events.wait("ready")
    pty.close()
    assert pty.job.finish() == 128 + signal.SIGHUP


# --- line 28: stopping and going on ---------------------------------------------------------------

def start_and_stop(world, shell, *verbs, options=()):
    shell.type(shell_command(world, "say", "ready", *verbs, options=options) + "\n")
    actor = world.events.wait("ready")["pid"]
    shell.ask(CTRL_Z, PROMPT)
    assert state_of(actor) == "T"
    return actor


def test_line_28_ctrl_z_gives_the_shell_its_prompt(world, shell):
    """tini left its user without a prompt: the program was stopped, the wrapper ran on. catatonit
    blocked SIGTSTP in the program for ever. fg must bring both back."""
    actor = start_and_stop(world, shell, "read", "exit", "3")
    shell.ask("jobs\n", "Stopped")
    go_on(shell, actor)
    greet(world, shell)
    shell.expect(PROMPT)
    assert last_code(shell) == 3


def test_line_28_ctrl_z_again_and_again(world, shell):
    """The second stop must work as the first."""
    actor = start_and_stop(world, shell, "read", "exit", "3")
    for _ in range(3):
        go_on(shell, actor)
        wait_until(lambda: shell.foreground() == int(stat_fields(actor)[2]), "the foreground")
        shell.ask(CTRL_Z, PROMPT)
        assert state_of(actor) == "T"
    go_on(shell, actor)
    shell.ask("hello\n", PROMPT)
    assert last_code(shell) == 3


def test_line_28_bg_lets_the_program_go_on(world, shell):
    """In the background it trains on, and the shell keeps the terminal."""
    actor = start_and_stop(world, shell, "record", "USR1", "until", "USR1", "say", "done", "exit",
                           "0")
    go_on(shell, actor, "bg")
    assert shell.foreground() == int(stat_fields(shell.job.pid)[2])
    os.kill(actor, signal.SIGUSR1)
    world.events.wait("done")
    wait_until(lambda: not living_children(shell), "the end of the job")


def test_line_28_a_stopped_job_can_be_ended(world, shell):
    """`kill %1` of a stopped job: the notice is heard in spite of the stop (line 30)."""
    actor = start_and_stop(world, shell, "pause", options=["--grace", "20s"])
    shell.type("kill %1\n")
    shell.type("bg\n")
    wait_until(lambda: not is_alive(actor), "the program's end")
    wait_until(lambda: not living_children(shell), "pchrun's end")


def test_line_28_a_program_that_stops_itself_stops_us(world, shell):
    """vi, more and su stop themselves with SIGSTOP or SIGTSTP; the shell must get its prompt."""
    shell.ask(shell_command(world, "stop", "say", "on", "exit", "4") + "\n", PROMPT)
    shell.type("fg\n")
    world.events.wait("on")
    shell.expect(PROMPT)
    assert last_code(shell) == 4


def test_line_28_a_session_leader_does_not_stop(world, terminal):
    """No other process could continue it."""
    pty = terminal("--grace", "20s", "--", world.actor, "say", "ready", "stop", "pause")
    actor = world.events.wait("ready")["pid"]
    wait_until(lambda: state_of(actor) == "T", "the stop")
    os.kill(pty.job.pid, signal.SIGTERM)
    assert pty.finish(10) == 42
    assert state_of(actor) == ""
