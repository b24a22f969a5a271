# SPDX-License-Identifier: Apache-2.0
"""A rank stands still for ever, and the process group of the others gives up its wait, with the real PyTorch over gloo.
That is a hang of the rank that stands still, in every way to take part. An exception of the program stays a failure."""

import os
import re
from pathlib import Path

import pytest

from conftest_frameworks import PATIENCE, PREEMPTED, accelerate, deepspeed, finish, torchrun, variables
from pages import torch_aborts

# Rank 1 stands still at step 3 in the first generation, or fails; the others wait for it, TIMEOUT seconds long. The start
# may take longer.
BEGIN = """
import datetime, os, time, torch
import torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
dist.barrier()
dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=float(os.environ["TIMEOUT"])))
def stand(step):
    if step == 3 and dist.get_rank() == 1 and os.environ["PCH_GENERATION"] == "0":
        if "FAILS" in os.environ:
            raise ValueError("no such step")
        time.sleep(1000)
"""
DDP = BEGIN + """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
def train(step):
    stand(step)
    optimizer.zero_grad()
    model(torch.ones(8, 4)).square().mean().backward()
    optimizer.step()
"""
WITH_PCH = DDP + """
import pch
with pch.attach() as job:
    for step in job.steps(6):
        train(step)
"""
WITHOUT = DDP + """
for step in range(6):
    train(step)
"""
TRAINER = BEGIN + """
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
class Stand(TrainerCallback):
    def on_step_begin(self, args, state, control, **_):
        stand(state.global_step)
model = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_positions=8, n_embd=8, n_layer=1, n_head=1))
data = [{"input_ids": torch.arange(8), "labels": torch.arange(8)} for _ in range(64)]
args = TrainingArguments(os.environ["CHECKPOINTS"], max_steps=6, per_device_train_batch_size=2, use_cpu=True,
                         report_to=[], save_strategy="no", disable_tqdm=True)
Trainer(model, args, train_dataset=data, callbacks=[Stand()]).train()
"""
# Lightning starts rank 1 itself, unless a launcher has started both ranks. Only then is there a group of processes.
LIGHTNING = BEGIN[:BEGIN.index("dist.init")] + BEGIN[BEGIN.index("def stand"):] + """
import lightning
from torch.utils.data import DataLoader
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
    def on_train_start(self):
        dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=float(os.environ["TIMEOUT"])))
    def training_step(self, batch, number):
        stand(self.global_step)
        return self.net(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
lightning.Trainer(max_steps=6, accelerator="cpu", devices=2, strategy="ddp", barebones=True).fit(
    Model(), DataLoader(torch.ones(64, 4), batch_size=4))
"""


def itself(_):
    """The program starts its ranks."""
    return ()


def assert_hang(one, step=3):
    """Rank 1 is named and was examined while it lived, and rank 0 says that it gave up."""
    assert finish(one)[:2] == (PREEMPTED, "hang"), one.job.err
    report = one.report
    assert re.match(rf"rank 1 \(process \d+ on node 0, .*?\) is behind: it has stood at step {step} for \S+, phase \w+; "
                    r"node 0: rank 0, process \d+ (ended with exit code|ended with signal 6|exited with) ", report["why"])
    assert re.search("Timed out waiting|timeout caused pair closure", report["first_cause"]["text"])
    assert report["first_cause"]["rank"] == 0
    kept = Path(report["evidence"]).read_text()
    assert re.search(r"^rank 1, process \d+ \(.*\): state S in \w*nanosleep", kept, re.M), kept


@pytest.mark.parametrize("code, options, launcher", [
    (WITH_PCH, (), None), (WITHOUT, ("--instrument",), None), (WITH_PCH, (), torchrun),
    (WITHOUT, ("--instrument",), torchrun), (TRAINER, ("--instrument",), None),
    (WITH_PCH, (), accelerate), (WITH_PCH, (), deepspeed), (LIGHTNING, ("--instrument",), itself),
    (LIGHTNING, ("--instrument",), torchrun)],
    ids=["pch", "instrument", "pch below torchrun", "instrument below torchrun", "Trainer", "below accelerate launch",
         "below deepspeed", "Lightning", "Lightning below torchrun"])
def test_it_is_a_hang_of_the_rank_that_stands_still(train, world, code, options, launcher):
    one = train(code, *options, n=None if launcher else 2, wrap=launcher(world) if launcher else (),
                folder="checkpoints", TIMEOUT="4", **variables(launcher))
    assert_hang(one)


def test_the_ranks_are_examined_before(train):
    """pchrun knows the time-out of the process group."""
    one = train(WITH_PCH, n=2, folder="checkpoints", TIMEOUT="6")
    assert_hang(one)
    seen = one.job.err.index("no rank makes progress: ")
    assert seen < one.job.err.index("the evidence is in ") < one.job.err.index("a rank gave up its wait")


def test_it_is_restarted_in_place(train):
    """Torch's threads may abort a process that ends with its group, so a program that completes ends the group itself."""
    def start():
        return train(WITH_PCH + "dist.destroy_process_group()\n", "--restart-max", "1", n=2, folder="checkpoints", TIMEOUT="4")
    one = start()
    if torch_aborts(one.job, PATIENCE):
        one = start()
    assert finish(one)[:2] == (0, "completed"), one.job.err
    assert re.search(r"restart: rank 1 \(.*\) is behind: .*; restarting in place", one.job.err)


@pytest.mark.parametrize("code, options", [(WITH_PCH, ()), (WITHOUT, ("--instrument",))], ids=["pch", "instrument"])
def test_an_exception_is_a_failure(train, code, options):
    def start():
        return train(code, *options, n=2, folder="checkpoints", TIMEOUT="60", FAILS="1")
    one = start()
    if torch_aborts(one.job, PATIENCE):
        one = start()
    assert finish(one)[:2] == (1, "failed"), one.job.err
    assert one.report["first_cause"]["rank"] == 1
    assert "ValueError: no such step" in one.report["why"]


# As NCCL's watchdog ends a process: by an abort, and a text on standard error above the list of its functions.
ABORT = WITHOUT.replace("        time.sleep(1000)\n", """        time.sleep(1)
        frame = "frame #1: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout(std::optional<long>) + 0x1d2 (0x7f3b6e71a8d2)\\n"
        what = "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE) ran for "
        os.write(2, (what + "600005 milliseconds before timing out.\\n" + 30 * frame).encode())
        os.abort()
""")


def test_an_abort_says_so_on_standard_error(train, world):
    """The process has not attached, so pchrun knows nothing but its output."""
    one = train(ABORT, "--logs-dir", world.root / "output", n=2, folder="checkpoints", TIMEOUT="60")
    assert finish(one)[:2] == (PREEMPTED, "hang"), one.job.err
    assert "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2" in one.report["first_cause"]["text"]
    failed = train(ABORT, n=2, folder="checkpoints", TIMEOUT="60")
    assert finish(failed)[:2] == (134, "failed"), failed.job.err
