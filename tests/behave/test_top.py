# SPDX-License-Identifier: Apache-2.0
"""pchctl top: a real job on the screen of a terminal, as a person sees it. tests/unit/test_view.c has what the screen
shows of an answer; here are the terminal, the keys, the signals, and a supervisor that stops or ends."""

import os
import re
import signal
import termios

import pytest

from harness import DEADLINE, PROMPT, Late, children_of, interactive_shell, is_alive, state_of, wait_until
from pchctl import PCHCTL, ctl  # noqa: F401

pyte = pytest.importorskip("pyte", reason="Debian's python3-pyte, which reads a terminal's screen")

END = "\x1b[4~"
# Its description has no sequence that pyte does not know.
TERM = "linux"


class Screen:
    """The screen of a terminal."""

    def __init__(self, terminal, rows=24, columns=80):
        self.terminal = terminal
        self.fed = 0
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.Stream(self.screen)

    def size(self, rows, columns):
        """Another size of the window."""
        self.lines()
        self.screen.resize(rows, columns)
        self.terminal.resize(rows, columns)

    def lines(self):
        while self.terminal._read(0):
            pass
        self.stream.feed(self.terminal.text[self.fed:])
        self.fed = len(self.terminal.text)
        return [line.rstrip() for line in self.screen.display]

    def expect(self, *patterns):
        """Waits until the lines match all of these."""
        def found():
            text = "\n".join(self.lines())
            return all(re.search(pattern, text, re.M) for pattern in patterns)
        try:
            wait_until(found, patterns, pause=0.02)
        except Late as late:
            raise Late(f"{late}; on the screen there is:\n" + "\n".join(self.lines())) from None

    def rows(self):
        """The numbers of the ranks in the table, from the top."""
        return [int(row[1]) for row in map(re.compile(r"[ !~] +(\d+) ").match, self.lines()) if row]


@pytest.fixture
def top(world):
    """top(*options) starts a pchctl top of this test's job; returns its terminal and its screen."""
    def start(*options, rows=24, columns=80, **env):
        terminal = world.terminal(PCHCTL, "--run-dir", world.tmp, "top", *options, env={"TERM": TERM, **env},
                                  size=(rows, columns))
        return terminal, Screen(terminal, rows, columns)
    return start


def modes(terminal):
    return termios.tcgetattr(terminal.master)


def leave(terminal, screen, key="q", code=0):
    """Leaves pchctl; the terminal has its modes, its cursor and a screen for the shell again."""
    terminal.type(key)
    assert terminal.finish() == code
    assert_restored(terminal, screen)


def assert_restored(terminal, screen):
    screen.lines()
    assert modes(terminal)[3] & (termios.ICANON | termios.ECHO) == termios.ICANON | termios.ECHO
    assert not screen.screen.cursor.hidden


# --- the job -------------------------------------------------------------------------------------

def test_a_rank_that_stops_rises_to_the_top(training, top):
    run = training("--job", "run7", n=3, train=4)
    terminal, screen = top("--interval", "100ms")
    screen.expect(r"^ job run7, attempt 1, 3 ranks +live$", r"^training at step 4\b", r"^ranks +3 training$",
                  r"^   RANK +PHASE +STEP +BEHIND +AGE", r"^ q quit")
    assert screen.rows() == [0, 1, 2]
    run.clients[0].train(6)
    run.clients[2].train(6)
    screen.expect(r"^training at step 6\b", r"^waiting   rank 1\b.* step 4\b", r"^! +1 training +4 +2 ")
    assert screen.rows() == [1, 0, 2]
    run.clients[1].train(7)
    screen.expect(r"^training at step 7\b", r"^ +1 training +7 +0 ")
    assert screen.rows()[2] == 1
    terminal.type("/3")  # no rank has it
    screen.expect(r"^Ranks: 0 with \"3\" \(all: 3\)", r"^ show only: 3_")
    leave(terminal, screen, "\x1bq")
    run.complete()


def test_the_end_of_a_job_stays_on_the_screen(training, top):
    run = training("--job", "run7", n=2, train=4)
    terminal, screen = top()
    screen.expect(r"^training at step 4")
    terminal.type("e")
    screen.expect(r"^Events of this node: \d+, newest first$", r"^\d\d:\d\d:\d\d started +commands 2")
    run.complete()
    screen.expect(r"^ job run7.* ended$", r"^ended: completed, exit code 0: ", r"^\d\d:\d\d:\d\d exit  ")
    assert is_alive(terminal.job.pid)
    terminal.type("n")
    screen.expect(r"^Nodes: 1, furthest behind first$")
    leave(terminal, screen)
    assert "ended: completed, exit code 0: " in terminal.text.rpartition("\x1b")[2]


def test_a_failure_is_shown_with_its_cause(training, top):
    run = training("--job", "run7", n=2, train=4)
    terminal, screen = top()
    screen.expect(r"^training at step 4")
    run.kill(1)
    assert run.result()[1] == "failed"
    screen.expect(r"^ended: failed, exit code 137: ", r"^cause +node 0.*, rank 1: ")
    leave(terminal, screen)


@pytest.mark.killed
def test_a_pchrun_that_is_killed(training, top):
    run = training(n=1, train=2)
    terminal, screen = top("--interval", "50ms")
    screen.expect(r"^training at step 2")
    run.job.kill()
    screen.expect(r"^ended: pchrun is gone, and did not say how \(was it killed\?\)", r" ended$")
    leave(terminal, screen)
    run.close()


def test_a_pchrun_that_does_not_answer(training, top):
    """Keys are served meanwhile, and the age of the picture is told."""
    run = training(n=2, train=2)
    terminal, screen = top("--interval", "100ms")
    screen.expect(r"^training at step 2", r"live$")
    os.kill(run.job.pid, signal.SIGSTOP)
    wait_until(lambda: state_of(run.job.pid) == "T", "the stop")
    terminal.type("?")
    screen.expect(r"^space +keep this picture")
    terminal.type("?")
    screen.expect(r"no contact$", r"^no contact for \d+ s, this picture is \d+ s old: pchrun does not answer")
    os.kill(run.job.pid, signal.SIGCONT)
    screen.expect(r"live$", r"^training at step 2")
    leave(terminal, screen)
    run.complete()


def test_a_pause_keeps_the_picture(training, top):
    run = training(n=2, train=2)
    terminal, screen = top("--interval", "50ms")
    screen.expect(r"^training at step 2")
    terminal.type(" ")
    screen.expect(r"paused$")
    run.train(9)
    terminal.type("s")
    screen.expect(r"^Ranks: 2, by rank$")
    assert not [line for line in screen.lines() if "step 9" in line]
    terminal.type(" ")
    screen.expect(r"^training at step 9", r"live$")
    leave(terminal, screen)
    run.complete()


# --- the terminal --------------------------------------------------------------------------------

def test_another_size_of_the_window(training, top):
    run = training(n=40, train=1)
    terminal, screen = top()
    screen.expect(r"^Ranks: 1-\d\d of 40", r"STEPS/S")
    screen.size(10, 40)
    screen.expect(r"^Ranks: 1-4 of 40", r"^   RANK PHASE +STEP +AGE$")
    assert all(len(line) <= 40 for line in screen.lines())
    terminal.type(END)
    screen.expect(r"^ +39 training +1 ")
    screen.size(60, 200)
    screen.expect(r"^Ranks: 40, ", r"SAVED +PID$", r"^ +0 training +1 ", r"^ +39 training +1 ")
    screen.size(1, 1)
    screen.size(24, 80)
    screen.expect(r"^Ranks: 1-\d\d of 40")
    leave(terminal, screen)
    run.complete()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_gives_the_terminal_back(training, top, number):
    run = training(n=1, train=1)
    terminal, screen = top()
    screen.expect(r"^training at step 1")
    assert not modes(terminal)[3] & termios.ECHO and screen.screen.cursor.hidden
    os.kill(terminal.job.pid, number)
    assert terminal.finish() == -number
    assert_restored(terminal, screen)
    run.complete()


def test_ctrl_c_leaves(training, top):
    run = training(n=1, train=1)
    terminal, screen = top()
    screen.expect(r"^training at step 1")
    leave(terminal, screen, "\x03", -signal.SIGINT)
    run.complete()


def test_a_terminal_that_hangs_up(training, top):
    run = training(n=1, train=1)
    terminal, screen = top()
    screen.expect(r"^training at step 1")
    terminal.close()
    assert terminal.job.finish() == -signal.SIGHUP
    run.complete()


@pytest.mark.parametrize("by_key", [True, False], ids=["Ctrl-Z", "SIGSTOP"])
def test_stopped_and_continued_in_a_shell(world, training, by_key):
    """The shell has a usable terminal meanwhile, and fg draws all again. SIGSTOP cannot be caught: the shell then sets
    the terminal's modes, and pchctl has to set its own again."""
    run = training("--job", "run7", n=1, train=1)
    for shell in interactive_shell(world, "bash", "--norc", "--noprofile", "-i"):
        shell.type(f"export TERM={TERM}; {PCHCTL} --run-dir {world.tmp} top\n")
        screen = Screen(shell, columns=200)
        screen.expect(r"^training at step 1")
        if by_key:
            shell.type("\x1a")
        else:
            os.kill(children_of(shell.job.pid)[0], signal.SIGSTOP)
        shell.expect(PROMPT)
        shell.ask("stty -a | tr ';' '\\n'; echo still-$((40 + 2))\n", r" icanon .* echo [\s\S]*still-42")
        shell.type("clear; fg\n")
        screen.expect(r"^ job run7.* live$", r"^training at step 1", r"^ q quit")
        assert "still-42" not in "\n".join(screen.lines())
        shell.type("n")
        screen.expect(r"^Nodes: 1, ")
        shell.type("q")
        shell.ask("stty -a; echo code=$?=\n", r" icanon [\s\S]*code=0=")
    run.complete()


def test_the_shell_gets_its_screen_back(training, top):
    """A terminal with a second screen shows what was there before."""
    run = training(n=1, train=1)
    terminal, _ = top(TERM="xterm-256color")
    terminal.expect(r"\x1b\[\?1049h[\s\S]*training at step 1")
    terminal.type("q")
    assert terminal.finish() == 0
    terminal.expect(r"\x1b\[\?1049l")
    assert "\x1b[?1049h" not in terminal.text[terminal.seen:]
    run.complete()


@pytest.mark.parametrize("env, colours", [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "vt100"}, False)])
def test_colours_only_where_they_are_wanted(training, top, env, colours):
    run = training(n=2, train=1)
    run.clients[0].train(3)
    terminal, screen = top("--interval", "100ms", **{"TERM": "linux", **env})
    screen.expect(r"^! +1 training ")
    assert (re.search(r"\x1b\[[0-9;]*31[;m]", terminal.text) is not None) == colours
    leave(terminal, screen)
    run.clients[1].train(3)
    run.complete()


@pytest.mark.parametrize("env, said", [
    ({"TERM": "dumb"}, "the terminal TERM=dumb cannot show a screen"),
    ({"TERM": "no-such-terminal"}, "top does not know the terminal TERM=no-such-terminal"),
    ({"TERM": ""}, "TERM is not set")])
def test_a_terminal_that_cannot_show_it(world, env, said):
    terminal = world.terminal(PCHCTL, "top", env=env)
    assert terminal.finish() == 2
    assert said in terminal.text and "use pchctl status --watch" in terminal.text


def test_no_terminal(ctl):
    done = ctl("top")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("pchctl: top needs a terminal as standard input and output; "
                           "use pchctl status --watch, which needs no screen\n")


def test_no_job(world):
    terminal = world.terminal(PCHCTL, "--run-dir", world.tmp, "top", env={"TERM": TERM})
    assert terminal.finish(DEADLINE) == 2
    assert re.search(r"no pchrun( of this user)? was found in ", terminal.text)
    assert "\x1b" not in terminal.text
