# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/python: their parts fit each other, and the page of the plain loop does what it prints.
frameworks/test_pages.py runs the others."""

import re

import pytest

from harness import DEADLINE
from pages import PAGES, ROOT, Page, ctl, trial  # noqa: F401

NAMES = sorted(path.stem for path in PAGES.glob("*.md"))


@pytest.mark.parametrize("name", NAMES)
def test_the_difference_leads_to_the_program(name):
    """The difference, taken back, leaves a program without pchrun. Only the new lines name pch."""
    page = Page(name)
    known = page.known()
    for code in (known, page.program):
        compile(code, page.file, "exec")
    used = re.sub(r'.*"PCH_CHECKPOINT_DIR".*', "", known)
    assert not re.search(r"\bpch\b|\bjob\b", used) and re.search(r"^import pch$", page.program, re.M)
    added = re.findall(r"^\+.*\S", page.hunks.replace("+\n", ""), re.M)
    assert len(added) <= 10, "a difference that a reader takes in at once"
    assert page.commands and all("--checkpoint-dir" in command for command in page.commands)


def test_the_overview_names_every_page():
    text = (ROOT / "contrib/python/README.md").read_text()
    table = re.search(r"^\| you have \|.*?\n\n", text, re.S | re.M)[0]
    assert sorted(re.findall(r"docs/python/(\w+)\.md", table)) == NAMES


def test_the_plain_loop(trial):  # noqa: F811
    """As printed, in an empty folder: to the end, then preempted and started again, with the same result."""
    page = Page("loop")
    (command,) = page.commands
    whole = trial(page, "whole").start(command, page.program).complete(DEADLINE).job.out.split("\n")
    one = trial(page, "preempted")
    step = one.start(command, page.program).preempt(DEADLINE)
    assert sorted(path.name for path in (one.folder / "run7").glob("step-*")) == [f"step-{step}.rank-{r}" for r in (0, 1)]
    again = one.start(command, page.program).complete(DEADLINE).job.out.split("\n")
    assert again.count(f"resumes at step {step}") == 2
    assert [line for line in again if "step" not in line] == [line for line in whole if "step" not in line]
