# SPDX-License-Identifier: Apache-2.0
"""pch.integrations.lightning with the real Lightning, on CPU, over gloo: the program of the manual."""

import os

from conftest_frameworks import example, interrupt

# The ranks tell of step 5, and wait there for the notice.
TOLD = """        if self.global_step == 5 and "NOTICE" in os.environ:
            from told import say, wait_for
            say("training")
            wait_for("on")
"""
BEFORE = "        inputs, wanted = batch\n"


def test_the_manual_s_program(train, world):
    """Preempted, and started again, it ends with the weights of a run that nobody disturbed."""
    code = example("train_lightning.py")
    assert code.count(BEFORE) == 1
    one, step = interrupt(train, world, code.replace(BEFORE, TOLD + BEFORE), n=2)
    assert set(os.listdir(one.checkpoints / f"step-{step}")) == {"lightning.ckpt", "rank-0.pt", "rank-1.pt"}
