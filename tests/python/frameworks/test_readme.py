# SPDX-License-Identifier: Apache-2.0
"""README's difference: both of its programs train, by the commands that README prints, in an empty folder. The new one is
preempted and resumes, and its drill says the lines that README shows."""

import re

from conftest_frameworks import PATIENCE
from nodes import free_port
from pages import ROOT, ctl, trial  # noqa: F401

from documents import block, both_sides  # from tests/house, which pages.py puts on the path


class Readme:
    """As a Page of docs/python."""

    def __init__(self):
        self.text, self.file = (ROOT / "README.md").read_text(), "train.py"
        self.known, self.program = both_sides(block(self.text, "diff"))

    def command(self, options):
        return re.search(rf"^ {{4}}(?:\$ )?(pchrun {options}.* -- python {self.file})$", self.text, re.M)[1]


def test_the_program(trial):  # noqa: F811
    """Preempted, it ends with 42, and goes on at the step that it has saved. Completed, it has no step left."""
    page = Readme()
    command = page.command("--checkpoint-dir")
    one = trial(page, "preempted").start(command, page.program)
    step = one.preempt(PATIENCE)
    one.start(command, page.program).complete(PATIENCE)
    assert f"resumes at step {step}" in one.job.err
    last = re.findall(r"step (\d+) is durable", one.job.err)[-1]
    one.start(command, page.program).complete(PATIENCE)
    assert f"completed this job at step {last}; attempt 3 resumes at step {last} of" in one.job.err


def test_the_program_before(trial):  # noqa: F811
    page = Readme()
    trial(page, "before").start(page.command("--checkpoint-dir"), page.known).complete(PATIENCE)


def test_two_nodes_on_one_machine(trial):  # noqa: F811
    """The commands of two terminals. One node is preempted, and both end with 42."""
    page = Readme()
    nodes = [trial(page, f"terminal{rank}") for rank in range(2)]
    nodes[1].folder.rmdir()
    nodes[1].folder = nodes[0].folder
    port = {"PCHRUN_CLUSTER_PORT": str(free_port())}  # other tests run beside this one
    for rank, one in enumerate(nodes):
        one.start(page.command(f"--cluster-nodes .* --node-rank {rank}"), page.program, port)
    assert nodes[0].preempt(PATIENCE) > 0
    assert nodes[1].job.finish(PATIENCE) == 42, nodes[1].job.err


def test_the_drill(trial):  # noqa: F811
    """It prints the lines that README shows, with other figures."""
    page = Readme()
    command = page.command("--drill")
    shown = page.text.partition(command)[2].partition("\n\n")[0].splitlines()[1:]
    one = trial(page, "drill").start(command, page.program).complete(PATIENCE)
    said = {without_figures(line.partition(" ")[2].partition(" ")[2]) for line in one.job.err.splitlines()}
    assert shown and {without_figures(line) for line in shown} <= said


def without_figures(line):
    return " ".join(re.sub(r"[\d.]+", "N", line).split())
