# SPDX-License-Identifier: Apache-2.0
"""pchrun --drill: a notice for practice, its whole way, and the report on it."""

import os
import re
import signal

import pytest

from harness import CHARLM, commands_of, wait_until
from nodes import Nodes, committed, start_training


def drill(world, grace, *options, steps=100000, save=100, train_on="true"):
    folder = world.root / "checkpoints"
    return world.start(world.pchrun, "--drill", grace, "--checkpoint-dir", folder, *options, "--",
                       CHARLM, "--steps", steps, "--step-time", "20", "--save-time", save, "--dir",
                       folder, env={"PCHRUN_SAVE_TRAIN_ON": train_on})


def said(job):
    return [line.split(" drill: ")[1].strip() for line in job.err.splitlines() if " drill: " in line]


@pytest.mark.timing
def test_a_drill_that_fits(world):
    """Two saves, the timeline, and 0; the report says the same, and the next start resumes. The training between the
    two saves, and what is left after them, are counted from the same timeline. A grace is enough if it has room for what
    was measured, half as much again, and a second."""
    report = world.root / "report.json"
    job = drill(world, "12s", "--report", report, "--restart-max", "3", save=1000)
    assert job.finish() == 0, job.err
    lines = said(job)
    assert lines[0] == "the notice comes when the training has made 3 steps"
    assert lines[1] == "the job ends afterwards: nothing is restarted in place (restart.*)"
    assert lines[2] == "the training is warm: the notice comes now"
    assert lines[3] == "after the notice:"
    seconds = [float(re.match(r"([\d.]+) s  ", line)[1]) for line in [*lines[4:8], lines[9]]]
    assert seconds == sorted(seconds)
    assert re.fullmatch(r"agreed to save step \d+", lines[4].split("  ")[1])
    first, last = (float(re.fullmatch(r"step \d+ is committed, ([\d.]+) s later", lines[n].split("  ")[1])[1]) for n in (5, 7))
    assert first >= 1 and last >= 1, "a save takes a second"
    assert first == pytest.approx(seconds[1] - seconds[0], abs=0.1)
    assert last == pytest.approx(seconds[3] - seconds[2], abs=0.1)
    assert re.fullmatch(r"agreed to save step \d+, \d+ steps after the one before", lines[6].split("  ")[1])
    used = re.fullmatch(r"of the 12 s that the notice left, the job trained for ([\d.]+) s", lines[8])
    assert float(used[1]) == pytest.approx(seconds[2] - first, abs=0.1)
    assert seconds[2] - seconds[1] > 1, "the training went on after the first save"
    assert lines[9].endswith("  every process has ended")
    assert lines[10].startswith("import: ") and lines[11].startswith("a notice in these is saved in time: step (up to ")
    fits = re.fullmatch(r"the save fits into 12 s, with ([\d.]+) s to spare; a grace of ([\d.]+) s is enough to save once and "
                        r"to end", lines[12])
    assert float(fits[1]) == pytest.approx(12 - seconds[3], abs=0.1)
    slower = max(seconds[1], last)
    assert float(fits[2]) == pytest.approx(1.5 * (slower + seconds[4] - seconds[3]) + 1, abs=0.3)
    assert re.fullmatch(r"after the last save the processes took .* s to end, and had .* s until the deadline", lines[13])
    assert re.search(r"end: preempted, exit code 0: saved and committed at step", job.err)
    assert '"exit_code": 0' in report.read_text() and '"source": "drill"' in report.read_text()


@pytest.mark.timing
@pytest.mark.parametrize("pause, text", [
    (800, r"after the last save the processes took (0\.[89]\d*|1\.[0-4]\d*) s to end, and had [12]\.\d+ s until the deadline"),
    (4500, r"the processes take more than \d\.?\d* s to end, and had \d\.?\d* s after the last save, so pchrun killed them; "
           "the next attempt leaves them more time: if it kills them, too, raise the grace"),
], ids=["in-time", "killed"])
def test_a_drill_is_about_the_save(world, pause, text):
    """The save is on disk, so a real preemption would lose nothing, also if the processes take long to end."""
    client = world.client(f"open\ntrain 0 100000 20 {world.root} 100\npause {pause}\n")
    job = world.start(world.pchrun, "--drill", "5s", "--save-train-on", "--checkpoint-dir", world.root / "run", "--",
                      *client, code=0)
    assert re.match(r"the save fits into 5 s, with \d\.?\d* s to spare; ", said(job)[-2]), job.err
    assert re.fullmatch(text, said(job)[-1]), job.err
    assert ("SIGKILL" in job.err) == (pause > 4000)


def test_a_drill_that_does_not_fit(world):
    job = drill(world, "4s", save=60000)
    assert job.finish() == 1, job.err
    assert said(job)[4].startswith("step ") and said(job)[4].endswith("was not committed")
    assert said(job)[-1].startswith("the save does not fit into 4 s: a real preemption would lose the training")
    assert "end: preempted_unsaved, exit code 1: " in job.err


@pytest.mark.parametrize("options, knows", [
    ([], False), (["--preset", "kubernetes"], False), (["--grace", "8s"], True),
    (["--signals", "USR1=preempt:8s"], True), (["--notices", "command:{source}"], True),
], ids=["nothing", "kubernetes", "grace", "signals", "source"])
def test_a_drill_is_as_a_real_preemption_would_be(world, options, knows):
    """Where nothing tells how much time a real notice leaves, a real one would end the job at once."""
    source = world.file("source", "#!/bin/sh\nexec sleep 1000\n", 0o755)
    job = drill(world, "8s", *[word.format(source=source) for word in options], train_on="auto")
    assert job.finish() == 0, job.err
    assert ("the deadline is known" in job.err, "the deadline is a guess" in job.err) == (knows, not knows), job.err
    assert len([line for line in said(job) if "agreed to save step" in line]) == (2 if knows else 1), job.err


def test_a_command_that_ends_before_the_drill(world):
    job = world.start(world.pchrun, "--drill", "30s", "--", "sh", "-c", "exit 7", code=7)
    assert said(job)[-1] == "the job has ended before the training was warm: no drill"


def test_a_job_that_is_done_within_the_drill(world):
    """Its exit code 0 does not mean that a save fits."""
    job = drill(world, "12s", steps=40)
    assert job.finish() == 0, job.err
    assert said(job)[-1] == ("the job has ended before it had to leave: no result; give --drill less time, or "
                             "train longer")


@pytest.mark.parametrize("grace, why", [
    ("0s", "--drill: 0s: from 1s"), ("8d", "--drill: "), ("soon", "--drill: ")])
def test_a_grace_that_is_none(world, grace, why):
    job = world.start(world.pchrun, "--drill", grace, "--", "true", code=125)
    assert why.split(":")[0] in job.err and grace in job.err


def test_a_command_that_never_attaches(world):
    """pchrun cannot know whether the command saves: it says so, and no more."""
    job = world.start(world.pchrun, "--drill", "5s", "--", "sleep", "1000",
                      env=world.shim("clock", SHIM_HASTE="50"), code=1)
    assert said(job)[1] == "no process has attached within a minute: the notice comes now"
    waited = re.fullmatch(r"import: no rank had attached ([\d.]+) s after the start of the commands, when the notice "
                          "came; until one does, a notice saves nothing", said(job)[-2])
    assert waited and float(waited[1]) >= 60, job.err
    assert said(job)[-1] == "unknown whether a save fits into 5 s: the ranks agreed on none"


def test_a_command_that_is_asked_by_a_signal(world):
    """It need not attach, so the drill does not miss that."""
    job = world.start(world.pchrun, "--drill", "5s", "--save-mode", "signal", "--", "sleep", "1000",
                      env=world.shim("clock", SHIM_HASTE="50"), code=1)
    assert not [line for line in said(job) if "import" in line], job.err


def phases(job):
    """The lines about phases: behind the timeline, before the verdict."""
    lines = said(job)
    first = next(n for n, line in enumerate(lines) if line.endswith("every process has ended")) + 1
    return lines[first:next(n for n, line in enumerate(lines) if re.match("the save (does not fit|fits) into ", line))]


def seconds_in(pattern, line):
    match = re.fullmatch(pattern, line)
    assert match, f"{line!r} is not {pattern!r}"
    return [float(number) for number in match.groups()]


START = (r"import: ([\d.]+) s from the start of the commands until every rank had attached; "
         r"first step: ([\d.]+) s more; a notice in these ([\d.]+) s saves nothing")
ADVICE = r"; shorten it, or leave it when pch_notice \(in Python: job\.notice\) has a text"


@pytest.mark.parametrize("grace", [3, 60])
def test_the_phases_of_a_drill(world, grace):
    """The program is slow to attach and to finish its first step. Its evaluation before the notice takes longer than 3 s,
    though the save is in time. A grace is enough only if a notice at the start of that evaluation leaves time to save."""
    client = world.client(f"pause 1000\nopen\npause 1500\ntrain 0 2 20\nphase 2\npause 4000\n"
                          f"train 2 100000 20 {world.root} 100\n")
    job = world.start(world.pchrun, "--drill", f"{grace}s", "--checkpoint-dir", world.root / "run", "--", *client, code=0)
    start, *others = phases(job)
    imported, stepped, both = seconds_in(START, start)
    assert imported >= 0.9 and stepped >= 1.4 and both == pytest.approx(imported + stepped, abs=0.1)
    if grace == 60:
        step, took = seconds_in(r"a notice in these is saved in time: step \(up to ([\d.]+) s\), evaluation \(up to ([\d.]+) s\)",
                                *others)
        assert took >= 3.9
    else:
        took, needs = seconds_in(r"evaluation: up to ([\d.]+) s; a notice at its start needs ([\d.]+) s with the save, and has 3 s"
                                 + ADVICE, others[0])
        assert took >= 3.9 and needs >= took + 0.1
    enough, = seconds_in(r"the save fits into .*; a grace of ([\d.]+) s is enough to save once and to end", said(job)[-2])
    assert enough >= 1.5 * took + 1
    assert not [line for line in said(job) if "not seen" in line]


def test_a_notice_in_an_evaluation(world):
    """No rank comes to the save step in time. The drill names the phase that has kept it. All steps that make the training
    warm come between two looks of the drill."""
    client = world.client(f"open\ntrain 0 1 20\npause 1000\ntrain 1 5 0\nphase 2\npause 60000\ntrain 5 100000 20 {world.root}\n")
    job = world.start(world.pchrun, "--drill", "6s", "--checkpoint-dir", world.root / "run", "--stop-exit-wait", "100ms",
                      "--", *client, code=1)
    took, = seconds_in(r"evaluation: ([\d.]+) s, and not over when the time was up" + ADVICE, phases(job)[1])
    assert 3 <= took <= 7
    assert said(job)[-1].startswith("the save does not fit into 6 s")


def test_a_phase_that_was_not_seen(world):
    """The program announces its compilation, so it may announce an evaluation, too."""
    client = world.client(f"open\nphase 3\npause 1000\ntrain 0 100000 20 {world.root} 100\n")
    job = world.start(world.pchrun, "--drill", "5s", "--checkpoint-dir", world.root / "run", "--", *client, code=0)
    assert phases(job)[-1] == "an evaluation was not seen in this drill"


@pytest.fixture
def nodes(world):
    """drilled(grace, *options) is a job of two nodes whose training has begun."""
    def drilled(grace, *options, save_ms=0):
        job = Nodes(world, 2, ["--drill", grace, *options])
        start_training(world, job, save_ms=save_ms)
        return job
    return drilled


def test_several_nodes(nodes):
    """One node reports on the drill, and all nodes end alike."""
    job = nodes("60s")
    assert job.finish() == 0
    job.agreed()
    assert re.search(r"drill: the save fits into 60 s", job.jobs[0].err)
    assert not re.search(r"drill: it fits", job.jobs[1].err)


def test_nodes_that_do_not_fit(world):
    job = Nodes(world, 2, ["--drill", "1s"])
    job.launch_all(CHARLM, "--steps", "100000", "--step-time", "20", "--save-time", "3000",
                   "--dir", world.root / "checkpoints", options=["--checkpoint-dir", world.root / "checkpoints"])
    assert job.finish() == 1
    job.agreed()


@pytest.mark.killed
def test_a_node_that_is_lost_in_the_drill(nodes):
    """The save was not too slow, and node 0 does not say that it was."""
    job = nodes("60s")
    job.say(0, "the notice comes now")
    job.jobs.pop(1).kill()
    assert job.jobs[0].finish() == 1
    assert re.fullmatch(r"unknown whether a save fits into 60 s: node 1 \(.+\) was lost after the notice; try again",
                        said(job.jobs[0])[-1]), said(job.jobs[0])


def test_a_notice_before_the_drill(world):
    """The notice is a real one, and all nodes say so."""
    job = Nodes(world, 2, ["--drill", "20s"])
    job.start_all("wait")
    job.jobs[1].send(signal.SIGTERM)
    assert job.finish() == 42
    assert said(job.jobs[0])[-1] == "a real notice from SIGTERM ended the job, so this was no drill"


@pytest.mark.timing
@pytest.mark.parametrize("node", [0, 1])
def test_a_notice_in_the_drill(nodes, node):
    """A real notice leaves less time, so the job acts on it, and is to be started again."""
    job = nodes("60s", "--grace", "3s", "--save-train-on")
    job.say(0, "the training goes on for")
    job.jobs[node].send(signal.SIGTERM)
    assert job.finish() == 42
    job.agreed()
    assert said(job.jobs[0])[-1] == "a real notice from SIGTERM ended the job, so this was no drill"


def test_node_0_without_ranks(world):
    """The steps of the other nodes count."""
    job = Nodes(world, 2, ["--drill", "60s", "--checkpoint-dir", world.root, "--stop-exit-wait", "500ms"])
    job.start(0, "wait", options="--procs-per-node 0")
    job.jobs[1] = job.launch(1, *world.client("open rank=0 world=1 local_world=1\ntrain 0 1000000 20 at://ckpt\n"),
                             options="--procs-per-node 1")
    assert job.finish() == 0
    job.agreed()
    assert said(job.jobs[0])[1] == "the training is warm: the notice comes now"


@pytest.mark.timing
def test_many_saves_in_the_drill(nodes):
    """The last save counts. Each save takes two seconds, so the last one begins three seconds before its time is
    up, and may be late."""
    job = nodes("15s", "--save-train-on", save_ms=2000)
    job.say(0, "the training goes on for")
    before = job.jobs[0].err.count("is durable on every rank")  # one save may serve the drill and the notice
    for count in range(1, 3):
        job.jobs[0].send(signal.SIGUSR2)
        committed(job, before + count)
    assert job.finish() == 0
    last = int(re.search(r"saved and committed at step (\d+)", job.jobs[0].err_lines[-1]).group(1))
    assert re.search(rf"step {last} is committed", " ".join(said(job.jobs[0]))), job.jobs[0].err


def test_who_fails_in_the_drill(training):
    """The drill does not report that the agreement took too long. No save can be agreed on before rank 1 has
    attached."""
    job = training("--drill", "60s", n=2)
    first, second = job.clients
    first.open()
    wait_until(lambda: first.train(first.step + 1) or "the notice comes now" in job.job.err, "the drill's notice")
    second.tell("exit 7")
    assert job.finish() == 1
    assert re.fullmatch(r"unknown whether a save fits into 60 s: rank 1 failed after the notice \(node 0: process \d+ .*"
                        r"ended with exit code 7.*\); mend that, and try again", said(job.job)[-1]), said(job.job)[-1]
    assert "ended with exit code 7" in job.job.err_lines[-1]


def test_a_rank_that_fails_in_the_save_of_a_drill(world):
    """The save was not too slow, so a longer grace does not help."""
    job = drill(world, "60s", "-n", "2", save=60000, train_on="false")
    wait_until(lambda: "every rank saves step" in job.err, "the save")
    os.kill(commands_of(job.pid)[1], signal.SIGKILL)
    assert job.finish() == 1, job.err
    assert re.search(r"was not committed$", said(job)[4])
    assert re.fullmatch(r"unknown whether a save fits into 60 s: rank 1 failed after the notice \(node 0: .*SIGKILL.*\); "
                        r"mend that, and try again", said(job)[-1]), said(job)[-1]
