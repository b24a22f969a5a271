# SPDX-License-Identifier: Apache-2.0
"""pch.integrations.transformers and .accelerate with the real frameworks, on CPU, over gloo: the manual's programs."""

import os

from conftest_frameworks import example, held, interrupt
from test_launchers import accelerate

# The ranks tell of step 5, and wait there for the notice.
HELD = """
from told import hold
from transformers import TrainerCallback
class Held(TrainerCallback):
    def on_step_begin(self, args, state, control, **_):
        hold(state.global_step)
"""
OURS = "callbacks=[PreemptionCallback(job)]"


def test_the_trainer(train, world):
    """Preempted and started again, the training ends with the weights of an undisturbed run."""
    code = example("train_trainer.py")
    assert code.count(OURS) == 1
    code = code.replace(OURS, "callbacks=[PreemptionCallback(job), Held()]").replace("\nSTEPS", f"{HELD}\nSTEPS", 1)
    one, step = interrupt(train, world, code, n=2)
    assert [path.name for path in one.checkpoints.glob("checkpoint-*")] == [f"checkpoint-{step}"]
    saved = set(os.listdir(one.checkpoints / f"checkpoint-{step}"))
    assert saved >= {"trainer_state.json", "optimizer.pt", "scheduler.pt", "rng_state_0.pth", "rng_state_1.pth"}


def test_a_plain_loop_with_accelerate(train, world):
    """Below accelerate's launcher, too, the training ends with the weights of an undisturbed run."""
    one, step = interrupt(train, world, held("train_accelerate.py"), n=2, wrap=accelerate(world),
                          ACCELERATE_USE_CPU="true")
    assert set(os.listdir(one.checkpoints / f"step-{step}")) == {
        "model.safetensors", "optimizer.bin", "scheduler.bin", "random_states_0.pkl", "random_states_1.pkl"}


REFUSALS = """
from types import SimpleNamespace
from told import attempt
from pch.integrations.transformers import PreemptionCallback
from transformers import TrainerControl, TrainerState
job = SimpleNamespace(supervised=True, resume_step=0, should_exit=False, step=lambda finished: finished == 8)
callback = PreemptionCallback(job)
def begin(save_only_model=False, save_total_limit=None):
    args = SimpleNamespace(save_only_model=save_only_model, save_total_limit=save_total_limit)
    attempt(lambda: callback.on_train_begin(args, TrainerState(), TrainerControl()))
begin()
begin(save_total_limit=2)
begin(save_total_limit=1)
begin(save_only_model=True)
job.resume_step = 7
begin()

# An evaluation does not delay the save; to leave without one, nothing is saved, and the epoch ends with the training.
def step(number, **control):
    control = callback.on_step_end(None, TrainerState(global_step=number), TrainerControl(**control))
    print(control.should_save, control.should_evaluate, control.should_training_stop)
step(8, should_evaluate=True)
job.should_exit = True
step(9, should_save=True, should_evaluate=True)
attempt(lambda: callback.on_epoch_end(None, TrainerState(), TrainerControl()))
"""


def test_what_the_callback_refuses(program):
    one = program(REFUSALS)
    job = one.world.start(*one.command(), env=one.variables({}), code=0)
    assert [line[:52] for line in job.out.splitlines()] == [
        "None", "None",
        "ValueError: with save_total_limit=1 the Trainer remo",
        "ValueError: with save_only_model a checkpoint has no",
        "RuntimeError: the Trainer begins at step 0, but the ",
        "True False False", "False False True", "Exit: "]
