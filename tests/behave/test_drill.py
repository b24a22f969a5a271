# SPDX-License-Identifier: Apache-2.0
"""pchrun --drill: a notice that nobody gave, the whole way, and what is said of it."""

import os
import re

import pytest

CHARLM = os.environ["CHARLM"]


def drill(world, grace, *options, steps=100000, save=100):
    folder = world.root / "checkpoints"
    return world.start(world.pchrun, "--drill", grace, "--checkpoint-dir", folder, *options, "--",
                       CHARLM, "--steps", steps, "--step-time", "20", "--save-time", save, "--dir",
                       folder, env={"PCHRUN_SAVE_TRAIN_ON": "true"})


def said(job):
    return [line.split(" drill: ")[1].strip() for line in job.err.splitlines() if " drill: " in line]


def test_a_drill_that_fits(world):
    """Two saves, the timeline, and 0; the report says the same, and the next start resumes."""
    report = world.root / "report.json"
    job = drill(world, "3s", "--report", report)
    assert job.finish() == 0, job.err
    lines = said(job)
    assert lines[0] == "the notice comes when the training has made 3 steps"
    assert lines[1] == "the training is warm: the notice comes now"
    assert re.fullmatch(r"0\.0\d\d s  agreed to save step \d+", lines[2])
    assert re.fullmatch(r"0\.\d+ s  step \d+ is committed, 0\.\d+ s later", lines[3])
    assert re.fullmatch(r"[12]\.\d+ s  agreed to save step \d+, \d+ steps after the one before", lines[4])
    assert re.fullmatch(r"[12]\.\d+ s  step \d+ is committed, 0\.\d+ s later", lines[5])
    assert re.fullmatch(r"[12]\.\d+ s  every process has ended", lines[6])
    assert re.fullmatch(r"it fits into 3 s, with 0\.\d+ s to spare; one save and the end need .* s", lines[7])
    assert re.search(r"end: preempted, exit code 0: saved and committed at step", job.err)
    assert '"exit_code": 0' in report.read_text() and '"source": "drill"' in report.read_text()


def test_a_drill_that_does_not_fit(world):
    job = drill(world, "1s", save=2000)
    assert job.finish() == 1, job.err
    assert said(job)[3].startswith("step ") and said(job)[3].endswith("was not committed")
    assert said(job)[-1].startswith("it does not fit into 1 s: on the day, what was trained")
    assert "end: preempted_unsaved, exit code 1: " in job.err


def test_a_command_that_ends_before_the_drill(world):
    job = world.start(world.pchrun, "--drill", "30s", "--", "sh", "-c", "exit 7")
    assert job.finish() == 7
    assert said(job)[-1] == "the job has ended before the training was warm: no drill"


@pytest.mark.parametrize("grace, why", [
    ("0s", "--drill: 0s: from 1s"), ("8d", "--drill: "), ("soon", "--drill: ")])
def test_a_grace_that_is_none(world, grace, why):
    job = world.start(world.pchrun, "--drill", grace, "--", "true")
    assert job.finish() == 125
    assert why.split(":")[0] in job.err and grace in job.err
