# SPDX-License-Identifier: Apache-2.0
"""Progress without code: the steps that a program prints (watchdog.log), and lines that are failures
(watchdog.log_failure)."""

import json
import os
import re
import signal
import sys
import time

import pytest

from harness import children_of, wait_until
from nodes import nodes  # noqa: F401
from pchctl import ctl  # noqa: F401

STEPS = ("--watchdog-log", "step ([0-9]+)")
SOON = ("--watchdog-diagnose-wait", "1s")
SAY = "import os, sys, time\ndef say(text): print(text, end='', flush=True)\n"


class Printer:
    """A pchrun over programs in Python that print. `hold` in them waits for go_on()."""

    def __init__(self, world, ctl):
        self.world, self.ctl, self.job = world, ctl, None
        self.held = f"while not os.path.exists('{world.hold('on')}'): time.sleep(0.01)\n"

    def start(self, program, *options, **more):
        program = SAY + program.replace("hold\n", self.held)
        self.job = self.world.launch("--logs-dir", self.world.root / "logs", "--report",
                                     self.world.root / "report.json", *options, "--", sys.executable, "-c", program,
                                     **more)
        return self.job

    def go_on(self):
        self.world.go_on("on")

    def ranks(self):
        """Empty until pchrun answers."""
        asked = self.ctl("--json", "status")
        return json.loads(asked.stdout)["ranks"] if asked.returncode == 0 else []

    def at_step(self, step, rank=0):
        def look():
            there = [one for one in self.ranks() if one["rank"] == rank and one["step"] == step and one["attached"]]
            return there[0] if there else None
        return wait_until(look, f"step {step}")

    def report(self):
        return json.loads((self.world.root / "report.json").read_text())


@pytest.fixture
def printer(world, ctl):
    return Printer(world, ctl)


# --- hangs ----------------------------------------------------------------------------------------


def test_a_shell_loop_that_hangs(world):
    """The limit of a start ends with the first line. The hang names the process and its last step."""
    job = world.launch("--logs-dir", world.root / "logs", *STEPS, "--watchdog-train", "1s", *SOON, "--", "sh", "-c",
                       "for i in 1 2 3; do echo step $i of 9; done; exec sleep 1000", code=42)
    assert re.search(r"end: hang, exit code 42: rank 0 \(process \d+ on node 0, .*\) is behind: it has stood at step 3 "
                     r"for 1(\.\d+)?s, phase train$", job.err_lines[-1])
    assert re.search(r"steps: process \d+ has printed its first step, \d \(watchdog.log\)$", job.err, re.M)
    assert job.out == "step 1 of 9\nstep 2 of 9\nstep 3 of 9\n"


def test_the_same_number_is_no_progress(printer):
    """Other lines, and the same step again, do not show that the program goes on."""
    printer.start("say('step 5\\n')\nwhile True: say('step 5\\nother\\n'); time.sleep(0.1)\n", *STEPS,
                  "--watchdog-train", "1s", *SOON, code=42)
    assert "has stood at step 5 for 1" in printer.job.err_lines[-1]


def test_no_line_ever(printer):
    """Without a line the limit of the start holds."""
    printer.start("say('hello\\n'); time.sleep(1000)", *STEPS, "--watchdog-start", "1s", *SOON, code=42)
    assert re.search(r"end: hang, .*: its commands have printed no step \(watchdog.log\) for 1(\.\d+)?s$",
                     printer.job.err_lines[-1])


def test_one_rank_prints_for_all(printer):
    """The ranks that print no step are not absent: the hang of the rank that prints is found within its limit."""
    printer.start("if os.environ['RANK'] == '1': say('step 7\\n')\ntime.sleep(1000)\n", *STEPS, "-n", "3",
                  "--watchdog-train", "1s", *SOON, code=42)
    assert re.search(r"end: hang, exit code 42: rank 1 \(.*\) is behind: it has stood at step 7 for 1",
                     printer.job.err_lines[-1])


def test_one_node_prints_for_all(world, nodes):
    """The node that prints no step neither hides the hang nor is named."""
    two = nodes(2, *STEPS, "--watchdog-train", "1s", *SOON, "--logs-dir", world.root / "logs")
    two.launch_all("sh", "-c", "echo hello; test $PCH_NODE_RANK = 0 || echo step 7; exec sleep 1000")
    assert two.finish() == 42
    assert re.search(r"end: hang, exit code 42: rank 1 \(process \d+ on node 1, .*\) is behind: it has stood at step 7 ",
                     two.jobs[0].err_lines[-1])


def test_the_node_that_prints_for_all_ends_first(world, nodes):
    """The other node printed no step within the limit of the start, and only has to end. That is no hang."""
    two = nodes(2, *STEPS, "--watchdog-start", "1s", *SOON, "--logs-dir", world.root / "logs")
    ended = world.root / "ended"
    two.launch_all("sh", "-c", f"""
        if [ $PCH_NODE_RANK = 1 ]; then
            for i in 1 2 3 4 5 6; do echo step $i; sleep 0.3; done
            exec touch {ended}
        fi
        until [ -e {ended} ]; do sleep 0.1; done
        sleep 1""")
    assert two.finish() == 0
    assert "watchdog" not in two.jobs[0].err


# --- status and output ---------------------------------------------------------------------------


def test_a_log_line_for_the_first_command(printer):
    """That the pattern fits. The log has no line for each rank."""
    printer.start("say('step 3\\n')\nhold\n", *STEPS, "-n", "4")
    for rank in range(4):
        printer.at_step(3, rank)
    printer.go_on()
    assert printer.job.finish() == 0
    assert printer.job.err.count(" has printed its first step, 3 (watchdog.log)") == 1


def test_what_status_shows(printer):
    """A progress bar on standard error, and numbers that go back. A line without an end does not count yet."""
    program = ("say('begin\\n')\nprint('\\rstep 9/9', end='\\r', file=sys.stderr, flush=True)\n"
               "hold\nsay('step 4'); time.sleep(0.2); say('2\\n'); time.sleep(1000)\n")
    printer.start(program, *STEPS)
    rank = printer.at_step(9)
    assert rank["counts_only"] and rank["phase"] == "train" and rank["pid"] in children_of(printer.job.pid)
    assert re.search(r"^0 +\d+ +training +9 .* counts only$", printer.ctl("status").stdout, re.M)
    printer.go_on()
    printer.at_step(42)
    printer.job.end_by(signal.SIGTERM, 42)
    assert "no program has attached by pch_open() (in Python: pch.attach), so none could be asked to save" in \
        printer.job.err
    assert printer.report()["outcome"] == "preempted_unknown"


def test_the_table_of_nodes(world, nodes, ctl):
    """Node 0 knows the printed steps of another node only when it asks for its ranks. A command that has printed no step
    has no part in the range of its node."""
    two = nodes(2, *STEPS, "-n", "2", "--logs-dir", world.root / "logs")
    two.launch_all("sh", "-c", "test $PCH_LOCAL_RANK = 1 || echo step $((PCH_NODE_RANK + 4)); exec sleep 1000")

    def told():
        asked = ctl("--json", "--node", 0, "status")
        return json.loads(asked.stdout)["nodes"] if asked.returncode == 0 else []

    def steps():
        return [(node["lowest_step"], node["highest_step"]) for node in told()]

    wait_until(lambda: steps() == [(4, 4), (5, 5)], "the steps of both nodes")
    assert all(node["step_age"] is not None and node["ranks_attached"] == 0 for node in told())
    assert re.findall(r"^([01]) .* running +0/2 +([45]) ", ctl("--node", 0, "status").stdout, re.M) == [
        ("0", "4"), ("1", "5")]
    two.jobs[0].send(signal.SIGINT)
    assert two.finish() == 128 + signal.SIGINT


def test_bytes_stay_the_same(world, printer):
    """Nothing is changed in what is passed on and kept."""
    data = bytes(range(256)) * 300 + b"step 1\r\nstep 2\rstep 3" + b"x" * 9000 + b"\nend"
    (world.root / "data").write_bytes(data)
    printer.start(f"sys.stdout.buffer.write(open('{world.root}/data', 'rb').read())\n", *STEPS, code=0)
    assert printer.job.out_path.read_bytes() == data
    assert (world.root / "logs/attempt.1/gen.0/node.0.stdout").read_bytes() == data


def test_the_next_generation_counts_anew(printer):
    program = ("n = os.environ['PCH_GENERATION']\nsay(f'step {10 + int(n)}\\n')\n"
               "if n == '0': sys.exit(1)\nhold\n")
    printer.start(program, *STEPS, "--restart-max", "1")
    printer.at_step(11)
    assert len(printer.ranks()) == 1
    printer.go_on()
    assert printer.job.finish() == 0


# --- failures -------------------------------------------------------------------------------------


def test_a_line_that_is_a_failure(printer):
    """The command is ended, and its line is the reason."""
    printer.start("say('step 1, loss: 3.1\\nstep 2, loss: nan\\n'); time.sleep(1000)", "--watchdog-log-failure",
                  "loss: (nan|inf)", code=1)
    assert re.search(r"end: failed, exit code 1: .*process \d+ printed a line that watchdog.log_failure matches: "
                     r"step 2, loss: nan$", printer.job.err_lines[-1])


def test_a_failure_in_the_last_line(printer):
    """The program has ended with success right after it."""
    printer.start("say('loss: nan\\n')", "--watchdog-log-failure", "nan", code=1)
    assert printer.report()["outcome"] == "failed"


@pytest.mark.parametrize("to", ["stdout", "stderr"])
def test_a_failure_in_a_line_without_an_end(printer, to):
    """A program that dies in its progress bar does not end its line."""
    printer.start(f"sys.{to}.write('step 3, loss: nan'); sys.{to}.flush()", "--watchdog-log-failure", "nan", code=1)
    assert re.search(r"watchdog.log_failure matches: step 3, loss: nan$", printer.job.err_lines[-1])


def test_many_lines_without_an_end(world):
    """All ranks end at once in their progress bars, and each leaves a process that keeps its standard error open. pchrun
    does not wait for the rest of each line in turn: for that long it would send no heartbeats."""
    ranks, gate, logs = 60, world.root / "gate", world.root / "logs"
    os.mkfifo(gate)
    held = os.open(gate, os.O_RDWR)
    job = world.launch("--logs-dir", logs, *STEPS, "-n", str(ranks), "--", "sh", "-c",
                       f"exec 3<{gate}; sleep 1000 & printf 'step 1' >&2; read line <&3; exit 0")
    wait_until(lambda: sum(path.stat().st_size > 0 for path in logs.glob("*/*/*.stderr")) == ranks, "a line of each")
    began = time.monotonic()
    os.close(held)
    assert job.finish() == 0
    assert time.monotonic() - began < ranks * 0.1 / 2  # a wait of 100 ms for each takes twice as long


def test_a_failure_restarts_in_place(printer):
    printer.start("say('loss: nan\\n' if os.environ['PCH_GENERATION'] == '0' else 'loss: 1\\n')\n"
                  "time.sleep(1000 if os.environ['PCH_GENERATION'] == '0' else 0)\n",
                  "--watchdog-log-failure", "nan", "--restart-max", "1", code=0)
    assert re.search(r"restart: .*watchdog.log_failure matches: loss: nan; restarting in place", printer.job.err)


# --- programs that attach -------------------------------------------------------------------------


def test_a_program_that_attaches_counts_itself(world, training, ctl):
    """Its lines count no more, and pchrun says so once."""
    job = training("--logs-dir", world.root / "logs", *STEPS, n=2, train=3)
    assert [(rank["step"], rank["counts_only"]) for rank in ctl.status()["ranks"]] == [(3, False), (3, False)]
    job.complete()
    assert job.job.err.count("has attached, so its steps count, and not those that commands print") == 1


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize("options, said", [
    (STEPS, "watchdog.log (flag --watchdog-log) needs logs.dir"),
    (("--watchdog-log-failure", "x"), "watchdog.log_failure (flag --watchdog-log-failure) needs logs.dir"),
    (("--logs-dir", "l", "--watchdog-log", "step ([0-9]+"),
     "watchdog.log (flag --watchdog-log) is no extended regular expression: Unmatched ( or \\("),
    (("--logs-dir", "l", "--watchdog-log", "step [0-9]+"),
     "watchdog.log (flag --watchdog-log) has no group for the step: put ( ) around its digits"),
    (("--logs-dir", "l", "--watchdog-log-failure", "["),
     "watchdog.log_failure (flag --watchdog-log-failure) is no extended regular expression:"),
    (("--logs-dir", "l", "--watchdog-log-failure", r"\\(a*)\1"),
     r"watchdog.log_failure (flag --watchdog-log-failure) has a back-reference such as \1")],
    ids=["no logs", "no logs either", "bad", "no group", "bad failure", "back-reference"])
def test_options_that_cannot_work(world, options, said):
    assert said in world.launch(*options, "--", "true", code=125).err
