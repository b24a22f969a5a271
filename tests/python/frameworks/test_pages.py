# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/python whose programs need a framework, each command as printed, in an empty folder: to the end;
then preempted and started again, with the same weights in the end, bit by bit."""

import os

import pytest

from conftest_frameworks import PATIENCE, parts_of
from pages import Page, ctl, trial  # noqa: F401

TORCH = {"shared.pt", "rank-0.pt", "rank-1.pt"}
SAVED = {  # the folder of a save, and the files in it that the page speaks of
    "ddp": ("step-{}", TORCH),
    "fsdp": ("step-{}", {*TORCH, ".metadata", "__0_0.distcp", "__1_0.distcp"}),
    "trainer": ("checkpoint-{}", {"trainer_state.json", "optimizer.pt", "scheduler.pt", "rng_state_0.pth", "rng_state_1.pth"}),
    "lightning": ("step-{}", {"lightning.ckpt", "rank-0.pt", "rank-1.pt"}),
    "accelerate": ("step-{}", {"model.safetensors", "optimizer.bin", "scheduler.bin", "random_states_0.pkl",
                               "random_states_1.pkl"}),
    "jax": ("step-{}", set()),
    "tensorflow": (".", {"checkpoint", "ckpt-1.index"}),
    "keras": (".", {"checkpoint"}),
}


def weights(one):
    return {name: parts_of(one.folder / name) for name in one.results()}


@pytest.mark.parametrize("name", SAVED)
def test_the_program(trial, name):  # noqa: F811
    """Every command that does without --instrument: they have the same result."""
    page, (place, files) = Page(name), SAVED[name]
    commands = [command for command in page.commands if "--instrument" not in command]
    whole = weights(trial(page, "whole").start(commands[0], page.program).complete(PATIENCE))
    assert whole
    for number, command in enumerate(commands):
        one = trial(page, f"preempted-{number}")
        step = one.start(command, page.program).preempt(PATIENCE)
        assert not one.results(), "it has not come to its end"
        assert {file.format(step) for file in files} <= set(os.listdir(one.folder / "run7" / place.format(step)))
        assert weights(one.start(command, page.program).complete(PATIENCE)) == whole
        assert f"at step {step}" in one.job.err


def test_accelerate_as_it_is_by_default(trial):  # noqa: F811
    """There accelerate gives the ranks a common random generator, which no checkpoint has. Epochs are short, so that the
    notice comes in a later one than the first."""
    page = Page("accelerate")
    program = page.program
    for was, is_ in (("Accelerator(dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True, data_seed=1))",
                      "Accelerator()"), ("512", "32"), ("EPOCHS = 15", "EPOCHS = 300")):
        assert was in program
        program = program.replace(was, is_)
    whole = weights(trial(page, "whole").start(page.commands[0], program).complete(PATIENCE))
    one = trial(page, "preempted")
    assert one.start(page.commands[0], program).preempt(PATIENCE) > 2
    assert weights(one.start(page.commands[0], program).complete(PATIENCE)) == whole


@pytest.mark.parametrize("command", [0, 1], ids=["instrument", "callback"])
def test_the_trainer_keeps_to_its_limit(trial, command):  # noqa: F811
    """A checkpoint is removed as soon as the next one is committed on all ranks."""
    page = Page("trainer")
    assert ("--instrument" in page.commands[command]) == (command == 0)
    program, was = (page.program, page.known())[command == 0], 'save_strategy="no"'
    assert was in program
    program = program.replace(was, 'save_strategy="steps", save_steps=20, save_total_limit=1')
    one = trial(page, "limited").start(page.commands[command], program).complete(PATIENCE)
    places = [one.folder / name for name in ("run7", "checkpoints") if (one.folder / name).is_dir()]
    assert [path.name for place in places for path in place.glob("checkpoint-*")] == ["checkpoint-200"]


@pytest.mark.parametrize("name", SAVED)
def test_the_known_program(trial, name):  # noqa: F811
    """The program before the change trains, too. If the page has a command for it, it is preempted and started again."""
    page = Page(name)
    one, known = trial(page, "known"), page.known()
    as_it_is = [command for command in page.commands if "--instrument" in command]
    if as_it_is:
        one.start(as_it_is[0], known).preempt(PATIENCE)
        assert not one.results()
    one.start((as_it_is or page.commands)[0], known).complete(PATIENCE)
    assert one.results()
    assert not as_it_is or "goes on at step" in one.job.err
