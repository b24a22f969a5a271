# SPDX-License-Identifier: Apache-2.0
"""Programs that do not attach: asked to save by a signal (save.mode), also behind a launcher that
would turn SIGTERM into a kill; data-loader workers must live through the save."""

import json
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from harness import PREEMPTED, SLACK

pytestmark = pytest.mark.memcheck

LAUNCHER = Path(__file__).with_name("launcher.py")
TERM, USR1 = signal.SIGTERM, signal.SIGUSR1

# A rank with a data loader below it, which has RANK in its environment, too. Like other loaders, this one ends with
# its rank.
LOADER = ["fork", "{", "record", "all", "say", "loader", "until", "TERM", "}"]


def saver(world, last="USR1"):
    """A rank that saves at the signal, as long as the test wants, and ends."""
    return ["record", "all", *LOADER, "say", "ready", "until", last, "hold", world.hold("save"),
            "say", "saved", "kill", "TERM", "group", "exit", "0"]


def start(world, *options, launcher=False, n=2, patience=0, verbs=None):
    verbs = verbs or saver(world)
    report = world.root / "report.json"
    above = [sys.executable, LAUNCHER, n, patience] if launcher else []
    count = [] if launcher else ["-n", n]
    job = world.launch("--report", report, *count, *options, "--", *above, world.actor, *verbs)
    world.events.wait("ready", count=n)
    world.events.wait("loader", count=n)
    job.ranks = {event["pid"] for event in world.events.all("ready")}
    job.report = lambda: json.loads(report.read_text())
    return job


@pytest.mark.parametrize("launcher", [False, True], ids=["children", "behind a launcher"])
def test_ranks_are_asked_by_signal(world, launcher):
    """The signal goes to the ranks' pids: the launcher and the data loaders do not get it, and no rank is
    killed early."""
    job = start(world, "--save-mode", "signal", "--save-signal", "USR1", "--grace", "20s",
                launcher=launcher)
    job.send(TERM)
    world.events.wait("signal", name="USR1", count=2)
    world.go_on("save")
    world.events.wait("saved", count=2)
    assert job.finish() == PREEMPTED
    asked = world.events.all("signal", name="USR1")
    assert len(asked) == 2 and {event["pid"] for event in asked} == job.ranks
    assert not [e for e in world.events.all("signal") if e["pid"] in job.ranks and e not in asked]
    assert job.report()["outcome"] == "preempted_unknown"
    assert "cannot know whether it saved" in job.report()["why"]


@pytest.mark.parametrize("mode, asked, code, is_told", [
    ("signal", "USR1", 3, True), ("forward", "TERM", 3, True), ("signal", "USR1", 0, False),
    ("attach", "TERM", 3, False),  # this rank is only told to end
])
def test_a_program_that_fails_when_it_is_asked_is_told_of(world, mode, asked, code, is_told):
    """A program has no other way to report that its save has failed. The outcome stays the same."""
    job = world.act(f"record all say ready until {asked} exit {code}",
                    options=["--save-mode", mode, "--grace", "20s", "--no-save-train-on"])
    job.end_by(TERM, PREEMPTED)
    said = re.findall(r"save: process \d+ ended with exit code 3 when it was asked to save: the save may have failed$",
                      job.err, re.M)
    assert len(said) == is_told, job.err


@pytest.mark.parametrize("mode, asked", [("forward", "TERM"), ("attach", "TERM"), ("signal", "USR1")])
@pytest.mark.parametrize("count", [[], ["-n", "1"]], ids=["no rank", "a rank"])
def test_a_program_below_a_shell_may_save(world, mode, asked, count):
    """conda#10351: the shell dies of the signal. The program below it was left over, and killed stop.term_wait later,
    or got SIGTERM right after it was asked to save."""
    job = world.launch(*count, "--save-mode", mode, "--save-signal", "USR1", "--stop-term-wait", "100ms", "--grace", "60s",
                       "--", "sh", "-c", '"$0" "$@"; exit $?', world.actor, "record", "all", "say", "ready", "until",
                       asked, "say", "asked", "hold", world.hold("save"), "say", "saved", "exit", "0")
    world.events.wait("ready")
    job.send(TERM)
    world.events.wait("asked")
    world.go_on("save")
    world.events.wait("saved")
    assert job.finish() == PREEMPTED
    assert [event["name"] for event in world.events.all("signal")] == [asked]
    why = "before it had attached" if mode == "attach" else "the signal that asked it to save"
    assert f"has died of SIG{asked}, {why}\n" in job.err


def test_the_signal_of_the_notice_is_not_that_of_the_save(world):
    """Slurm's --signal=USR1@60 as the notice, and the program's own signal to save on."""
    job = start(world, "--save-mode", "signal", "--save-signal", "USR2", "--signals",
                "USR1=preempt:20s", launcher=True, verbs=saver(world, "USR2"))
    job.send(USR1)
    world.events.wait("signal", name="USR2", count=2)
    world.let_end(job, PREEMPTED, name="save")
    assert [e["name"] for e in world.events.all("signal") if e["pid"] in job.ranks] == ["USR2"] * 2
    assert job.report()["notice"]["source"] == "SIGUSR1"


def test_a_rank_that_does_not_save_in_time(world):
    """Near the deadline pchrun stops the rank, and still reports the outcome."""
    job = start(world, "--save-mode", "signal", "--grace", "2s", launcher=True, patience=0.1)
    begin = time.monotonic()
    job.end_by(TERM, PREEMPTED)
    assert time.monotonic() - begin < 2 + SLACK
    assert not world.events.all("saved")
    assert len(world.events.all("signal", name="USR1")) == 2


@pytest.mark.parametrize("mode", ["attach", "forward"])
def test_the_notice_is_forwarded(world, mode):
    """The commands get the signal as it came. A launcher then handles it in its own way."""
    job = start(world, "--save-mode", mode, "--signals", "USR1=preempt:20s", verbs=saver(world))
    job.send(USR1)
    world.events.wait("signal", name="USR1", count=2)
    world.let_end(job, PREEMPTED, name="save")
    assert {event["pid"] for event in world.events.all("signal", name="USR1")} == job.ranks
    assert job.report()["outcome"] == "preempted_unknown"


def test_a_term_forwarded_to_a_launcher(world):
    """The launcher hands SIGTERM on, and its own patience limits the save. So there is save.mode."""
    job = start(world, "--save-mode", "forward", "--grace", "3s", launcher=True, patience=0.1,
                verbs=saver(world, "TERM"))
    job.end_by(TERM, PREEMPTED)
    assert not world.events.all("saved")


def test_a_rank_that_fails_after_it_was_asked(world):
    """A notice once given holds, whatever the program's status."""
    job = start(world, "--save-mode", "signal", "--grace", "20s",
                verbs=["record", "all", *LOADER, "say", "ready", "until", "USR1", "kill", "TERM",
                       "group", "exit", "1"])
    job.end_by(TERM, PREEMPTED)
    assert job.report()["outcome"] == "preempted_unknown"
