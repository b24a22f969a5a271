# SPDX-License-Identifier: Apache-2.0
"""pch.integrations.transformers with the real Transformers. test_pages.py has the programs of the pages, also with
accelerate."""

import pytest

from conftest_frameworks import PATIENCE

REFUSALS = """
from types import SimpleNamespace
from told import attempt
from pch.integrations.transformers import PreemptionCallback
from transformers import TrainerControl, TrainerState
job = SimpleNamespace(supervised=True, needs="all", resume_step=0, should_exit=False, step=lambda finished: finished == 8)
callback = PreemptionCallback(job)
def begin(save_only_model=False):
    args = SimpleNamespace(save_only_model=save_only_model, save_total_limit=None)
    attempt(lambda: callback.on_train_begin(args, TrainerState(), TrainerControl()))
begin()
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
        "None",
        "ValueError: with save_only_model a checkpoint has no",
        "RuntimeError: the Trainer begins at step 0, but the ",
        "True False False", "False False True", "Exit: "]


ACCUMULATION = """
import pch, torch
from types import SimpleNamespace
from told import attempt
from accelerate import Accelerator
from pch.integrations.accelerate import Checkpoint
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
model, loader = accelerator.prepare(torch.nn.Linear(1, 1), torch.utils.data.DataLoader(torch.ones(8, 1), batch_size=2))
job = pch.attach()
checkpoint = Checkpoint(job, accelerator)
print(len(list(checkpoint.epoch(loader, 0))))
checkpoint._job = SimpleNamespace(supervised=True, finished=0)
attempt(lambda: next(checkpoint.epoch(loader, 0)))
"""


def test_no_save_within_an_accumulation_of_gradients(program):
    """A checkpoint has no gradients, so the first step after such a resume would be one batch's. Without pchrun nothing is
    saved, and nothing is refused."""
    code, out, err = program(ACCUMULATION).alone(patience=PATIENCE)
    assert code == 0, err
    assert out.splitlines() == ["4", "ValueError: with gradient_accumulation_steps=4 a checkpoint may come between two steps of "
                                     "the optimizer, and it has no gradients: leave it at 1, and divide each batch in the loop"]


RANDOM_NUMBERS = """
import accelerate.utils, os, pch.integrations._accelerated as accelerated, pch.integrations.transformers as ours
from types import SimpleNamespace
from accelerate.utils import DistributedType
from pch.integrations.accelerate import Checkpoint
from told import attempt
from transformers import TrainerControl, TrainerState
kinds = [kind for kind in DistributedType if not accelerated.is_whole(SimpleNamespace(distributed_type=kind), False)]
print(*sorted(kind.name for kind in kinds))
accelerated.sync_file = lambda path: print("durable:", os.path.basename(path))
accelerate.utils.gather_object = lambda texts: print("all have written:", texts) or [*texts, failure]
folder = os.environ["CHECKPOINTS"]
os.mkdir(f"{folder}/checkpoint-8")
open(f"{folder}/checkpoint-8/rng_state_1.pth", "w").close()
job = SimpleNamespace(needs="rank0", supervised=False, should_exit=False,
                      saved=lambda path: print("saved:", os.path.basename(path)))
state = TrainerState(global_step=8, is_local_process_zero=False)
def save():
    ours.PreemptionCallback(job).on_save(SimpleNamespace(output_dir=folder, process_index=1), state, TrainerControl())
failure = ""
save()
failure = "OSError: No space left on device"
attempt(save)
def fail(path):
    raise OSError("Input/output error")
accelerated.sync_file = fail
attempt(save)
accelerator = SimpleNamespace(
    project_configuration=SimpleNamespace(automatic_checkpoint_naming=False, save_on_each_node=False),
    state=SimpleNamespace(distributed_type=DistributedType.MULTI_CPU), process_index=1, save_state=fail)
attempt(lambda: Checkpoint(job, accelerator, folder).save(8))
"""


def test_rank_0_reports_a_save_with_the_random_numbers_of_all(program):
    """They are on disk before the ranks have waited for each other. Else a commit of rank 0's save could lose some. If a
    rank fails, it waits with the others, and all fail. With `--instrument` it would train on, and all would hang."""
    code, out, err = program(RANDOM_NUMBERS).alone(patience=PATIENCE)
    assert code == 0, err
    assert out.splitlines() == ["DEEPSPEED FSDP MEGATRON_LM MULTI_NEURON XLA",
                                "durable: rng_state_1.pth", "all have written: ['']", "saved: checkpoint-8",
                                "durable: rng_state_1.pth", "all have written: ['']",
                                "RuntimeError: rank 1 could not save: OSError: No space left on device",
                                *["all have written: ['OSError: Input/output error']", "OSError: Input/output error"] * 2]


ROTATION = """
import os, pch, sys, torch
import pch.integrations.transformers as ours
from types import SimpleNamespace
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
folder, limit, best, lost = os.environ["CHECKPOINTS"], int(sys.argv[1]), sys.argv[2] == "best", int(sys.argv[3])
committed, given_up = 0, int(sys.argv[4])
def there():
    return sorted(int(name.partition("-")[2]) for name in os.listdir(folder) if name.startswith("checkpoint-"))
def saved(path):
    global committed
    print("saving:", *there(), "committed:", committed)
    if not path.endswith(f"-{lost}"):
        committed = int(path.rpartition("-")[2])
def ask():
    if committed == given_up:
        raise OSError("no answer")
    return committed
ours.committed_step = ask
job = SimpleNamespace(supervised=True, needs="all", resume_step=0, should_exit=False, step=lambda finished: False, saved=saved,
                      phase=lambda name: None, wait_begin=lambda: None, wait_end=lambda: None,
                      collective_timeout=lambda seconds: None)
os.mkdir(f"{folder}/checkpoint-9")  # of an attempt that was lost before its commit
open(f"{folder}/checkpoint-8", "w").close()
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2))
data = [{"input_ids": text, "labels": text} for text in torch.randint(64, (16, 16))]
arguments = TrainingArguments(folder, max_steps=5, save_strategy="steps", save_steps=1, eval_strategy="steps", eval_steps=1,
                              learning_rate=0.0, load_best_model_at_end=best, metric_for_best_model="loss" if best else None,
                              save_total_limit=limit, report_to="none", use_cpu=True)
Trainer(model, arguments, train_dataset=data, eval_dataset=data, callbacks=[ours.PreemptionCallback(job)]).train()
print("end:", *there(), "limit:", arguments.save_total_limit)
"""


def rotated(program, *how):
    one = program(ROTATION)
    command = one.command(*map(str, how))
    job = one.world.start(*command, env=one.variables({"TORCHINDUCTOR_CACHE_DIR": str(one.checkpoints / "inductor")}))
    assert job.finish(PATIENCE) == 0, job.err
    return [line for line in job.out.splitlines() if line.startswith(("saving:", "end:"))]


def test_the_committed_checkpoint_outlives_the_next_save(program):
    """The Trainer removes checkpoints within a save. Here the first one is the best, and the fourth is not committed."""
    assert rotated(program, 2, "best", 4, -1) == [
        "saving: 1 8 9 committed: 0", "saving: 1 2 8 9 committed: 1", "saving: 1 2 3 8 committed: 2",
        "saving: 1 3 4 8 committed: 3", "saving: 1 3 4 5 8 committed: 3", "end: 1 5 8 limit: 2"]


def test_one_checkpoint_is_enough(program):
    """With a limit of 1, also. A pchrun that does not answer costs no checkpoint."""
    assert rotated(program, 1, "last", 2, 3) == [
        "saving: 1 8 9 committed: 0", "saving: 1 2 8 committed: 1", "saving: 1 2 3 8 committed: 1",
        "saving: 1 2 3 4 8 committed: 3", "saving: 4 5 8 committed: 4", "end: 5 8 limit: 1"]


LEAVES = """
import os, sys, pch, torch
import pch.integrations.transformers as ours
from types import SimpleNamespace
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
strategy, asked = sys.argv[1], int(sys.argv[2])
def saved(path):
    print("saved:", os.path.basename(path))
    job.should_exit = True
job = SimpleNamespace(supervised=True, needs="all", resume_step=0, should_exit=False, step=lambda finished: finished == asked,
                      saved=saved, phase=lambda name: None, wait_begin=lambda: None, wait_end=lambda: None,
                      collective_timeout=lambda seconds: None)
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2))
data = [{"input_ids": text, "labels": text} for text in torch.randint(64, (32, 16))]
arguments = TrainingArguments(os.environ["CHECKPOINTS"], num_train_epochs=2, per_device_train_batch_size=8, report_to="none",
                              save_strategy=strategy, use_cpu=True)
try:
    Trainer(model, arguments, train_dataset=data, callbacks=[ours.PreemptionCallback(job)]).train()
except pch.Exit:
    print("left")
"""


@pytest.mark.parametrize("strategy, asked, step", [("epoch", -1, 4), ("no", 3, 3), ("no", 8, 8)],
                         ids=["epoch", "agreed", "last"])
def test_a_job_that_ends_during_a_save(program, strategy, asked, step):
    """A save at the end of an epoch is the Trainer's last call of the callback: train() must not return there as if the
    training had come to its end."""
    one = program(LEAVES)
    env = one.variables({"TORCHINDUCTOR_CACHE_DIR": str(one.checkpoints / "inductor")})
    job = one.world.start(*one.command(strategy, str(asked)), env=env)
    assert job.finish(PATIENCE) == 0, job.err
    assert [line for line in job.out.splitlines() if line.startswith(("saved", "left"))] == [f"saved: checkpoint-{step}", "left"]
