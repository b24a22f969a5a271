# SPDX-License-Identifier: Apache-2.0
"""pch.integrations.transformers with the real Transformers. test_pages.py has the programs of the pages, also with
accelerate."""

from conftest_frameworks import PATIENCE

REFUSALS = """
from types import SimpleNamespace
from told import attempt
from pch.integrations.transformers import PreemptionCallback
from transformers import TrainerControl, TrainerState
job = SimpleNamespace(supervised=True, needs="all", resume_step=0, should_exit=False, step=lambda finished: finished == 8)
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
