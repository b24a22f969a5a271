# SPDX-License-Identifier: Apache-2.0
"""Job control where pchrun is not alone: scripts, pipelines, several commands (CHECKLIST.md 10, 26,
28). The terminal is then lent on demand, and the keyboard's signals pass through pchrun."""

import os
import signal

import pytest

from harness import (PROMPT, interactive_shell, is_alive, shell_command, stat_fields, state_of,
                     wait_until)

CTRL_C, CTRL_Z = "\x03", "\x1a"


@pytest.fixture
def shell(world):
    """An interactive shell that waits at its prompt."""
    yield from interactive_shell(world, "bash", "--norc", "--noprofile", "-i")


def stop_and_go_on(shell, pids):
    shell.ask(CTRL_Z, PROMPT)
    wait_until(lambda: all(state_of(pid) == "T" for pid in pids), "the stop")
    shell.type("fg\n")
    wait_until(lambda: all(state_of(pid) != "T" for pid in pids), "the going on")


def test_line_28_a_script_in_front(world, shell):
    """`sh -c 'pchrun …'`: the script has the foreground and is stopped by the key itself; the program
    is stopped by us, and one Ctrl-C afterwards is one signal."""
    line = shell_command(world, "record", "INT", "say", "ready", "until", "INT", "exit", "3")
    shell.type(f'sh -c "{line}; exit \\$?"\n')
    actor = world.events.wait("ready")["pid"]
    for _ in range(2):
        stop_and_go_on(shell, [actor])
    shell.ask(CTRL_C, PROMPT)
    assert world.events.signals() == ["INT"]


def test_line_28_several_programs_stop_together(world, shell):
    """None of them can have the foreground for all."""
    shell.type(shell_command(world, "record", "INT", "say", "ready", "until", "INT", "exit", "0",
                       options=["-n", "3"]) + "\n")
    world.events.wait("ready", count=3)
    pids = [event["pid"] for event in world.events.all("ready")]
    for _ in range(3):
        stop_and_go_on(shell, pids)
    shell.ask(CTRL_C, PROMPT)
    assert world.events.signals() == ["INT"] * 3


def test_line_10_the_reader_of_a_pipeline_keeps_the_terminal(world, shell):
    """`pchrun … | less`: a supervisor that takes the foreground for its program stops the pager."""
    # The pager reads the terminal after the program has started: a reader from before is not stopped.
    program = f"echo up; exec {world.actor} say ready pause"
    shell.type(f"{world.pchrun} -- sh -c '{program}' | "
               "(read up; echo then-$up; read line </dev/tty; echo got=$line=)\n")
    shell.expect("then-up")
    world.events.wait("ready")
    shell.ask("hello\n", "got=hello=")
    shell.ask(CTRL_C, PROMPT)


def test_line_28_a_pipeline_stops_as_a_whole(world, shell):
    """The program has borrowed the terminal, so Ctrl-Z reaches it alone: the rest of the pipeline has
    to be stopped by us, or the shell gives no prompt."""
    shell.type(shell_command(world, "say", "ready", "read", "exit", "0") + " | cat\n")
    actor = world.events.wait("ready")["pid"]
    wait_until(lambda: shell.foreground() == int(stat_fields(actor)[2]), "the loan")
    stop_and_go_on(shell, [actor])
    shell.type("hello\n")
    assert world.events.wait("line")["text"] == "hello"
    shell.expect(PROMPT)


def test_line_27_a_key_can_be_a_notice(world, shell):
    """signals.INT is "preempt": then Ctrl-C must come to pchrun, and the program gets the signal once."""
    shell.type(shell_command(world, "record", "all", "say", "ready", "until", "INT", "exit", "0",
                       options=["--signals", "INT=preempt"]) + "\n")
    world.events.wait("ready")
    shell.ask(CTRL_C, PROMPT)
    shell.type("echo code=$?=\n")
    assert shell.expect(r"code=(\d+)=")[1] == "42"
    assert world.events.signals() == ["INT"]


def test_line_28_a_stop_by_hand_does_not_stop_the_supervisor(world, shell):
    """A user stops a background program to look at it, and continues it later. A supervisor that stopped with
    it would not be continued, and would miss the notice meanwhile."""
    shell.type(shell_command(world, "say", "ready", "pause") + " &\n")
    actor = world.events.wait("ready")["pid"]
    pchrun = int(stat_fields(actor)[1])
    os.kill(actor, signal.SIGSTOP)
    wait_until(lambda: state_of(actor) == "T", "the stop")
    os.kill(pchrun, signal.SIGTERM)
    wait_until(lambda: not is_alive(actor) and not is_alive(pchrun), "the end")
