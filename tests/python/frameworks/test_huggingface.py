# SPDX-License-Identifier: Apache-2.0
"""pch.integrations.transformers and .accelerate with the real frameworks, on CPU, over gloo: the manual's programs."""

import os
from pathlib import Path

from conftest_frameworks import example, interrupt

# The ranks tell of step 5, and wait there for the notice.
HELD = """
from transformers import TrainerCallback
class Held(TrainerCallback):
    def on_step_begin(self, args, state, control, **_):
        if state.global_step == 5 and "NOTICE" in os.environ:
            from told import say, wait_for
            say("training")
            wait_for("on")
"""
OURS = "callbacks=[PreemptionCallback(job)]"
BEFORE = "        inputs, wanted = next(following)\n"
TOLD = """        if step == 5 and "NOTICE" in os.environ:
            from told import say, wait_for
            say("training")
            wait_for("on")
"""


def test_the_trainer(train, world):
    """Preempted, and started again, it ends with the weights of a run that nobody disturbed."""
    code = example("train_trainer.py")
    assert code.count(OURS) == 1
    code = code.replace(OURS, "callbacks=[PreemptionCallback(job), Held()]").replace("\nSTEPS", f"{HELD}\nSTEPS", 1)
    one, step = interrupt(train, world, code, n=2)
    assert [path.name for path in one.checkpoints.glob("checkpoint-*")] == [f"checkpoint-{step}"]
    saved = set(os.listdir(one.checkpoints / f"checkpoint-{step}"))
    assert saved >= {"trainer_state.json", "optimizer.pt", "scheduler.pt", "rng_state_0.pth", "rng_state_1.pth"}


def test_a_plain_loop_with_accelerate(train, world):
    """The same, below accelerate's launcher."""
    code = example("train_accelerate.py")
    assert code.count(BEFORE) == 1
    launcher = Path(os.environ["PCH_PYTHON"]).with_name("accelerate")
    wrap = [launcher, "launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no",
            "--dynamo_backend", "no", "--main_process_port", "0",
            "--log_dir", world.root / "logs", "--no_python"]
    one, step = interrupt(train, world, code.replace(BEFORE, TOLD + BEFORE), n=2, wrap=wrap,
                          ACCELERATE_USE_CPU="true")
    assert set(os.listdir(one.checkpoints / f"step-{step}")) == {
        "model.safetensors", "optimizer.bin", "scheduler.bin", "random_states_0.pkl", "random_states_1.pkl"}
