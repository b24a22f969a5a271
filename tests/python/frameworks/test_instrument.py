# SPDX-License-Identifier: Apache-2.0
"""`pchrun --instrument` on programs of the real frameworks that know nothing of pchrun. Their weights are compared with
those of an undisturbed run without `--instrument`, because the option must not change the training."""

import os
import re
import signal

import pytest

from conftest_frameworks import LONG, PATIENCE, PREEMPTED, STEPS, finish, interrupt, torchrun, weights_differ

HELD = """
import os
from told import hold
"""


def preempt_and_resume(train, world, code, *, n, **env):
    """Preempts and resumes a training under any command that starts the n ranks. Returns (the preempted program, the
    step of its save)."""
    more = {"n": None, "folder": "preempted", "NOTICE": "1", **env}
    one = train(code, "--instrument", **more)
    world.events.wait("training", count=n, deadline=PATIENCE)
    one.job.process.terminate()
    one.agreed()
    code_, outcome, step = finish(one)
    assert (code_, outcome) == (PREEMPTED, "preempted") and step > 5, one.job.err
    again = train(code, "--instrument", **more)
    assert finish(again)[:2] == (0, "completed"), again.job.err
    assert again.report["steps"]["resumed"] == step
    assert f"goes on at step {step}, from " in again.job.err
    assert "pch_done" not in again.job.err, "it has trained to its end"
    return one, step


TORCH = """
import time, torch
import torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler("cpu")
for step in range(5):
    optimizer.zero_grad()
    scaler.scale(model(torch.randn(8, 4)).square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
if dist.get_rank() == 1:
    time.sleep(1000)
dist.barrier()
"""


def test_the_hang_of_a_plain_loop_below_torchrun(train, world):
    one = train(TORCH, "--instrument", "--watchdog-train", "6s", "--watchdog-start", "100s", "--procs-per-node", "2",
                n=None, wrap=torchrun(world), folder="checkpoints")
    assert finish(one) == (PREEMPTED, "hang", None)
    assert re.search(r"rank \d \(.*\) is behind: it has stood at step 5 for .*, as another rank does", one.report["why"])
    ranks = sorted((rank["rank"], rank["counts_only"]) for rank in one.report["ranks"])
    assert ranks == [(0, True), (1, True)]
    assert one.job.err.count("pch: counts the steps of PyTorch's optimizers") == 1, "neither the launcher nor rank 1 says it"


TRAINER = HELD + """
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
class Held(TrainerCallback):
    def on_step_begin(self, args, state, control, **_):
        hold(state.global_step)
torch.manual_seed(1)
data = [{"input_ids": text, "labels": text} for text in torch.randint(64, (256, 16))]
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2))
folder = os.environ["CHECKPOINTS"]
arguments = TrainingArguments(folder, max_steps=int(os.environ["STEPS"]), per_device_train_batch_size=8,
                              save_strategy="no", report_to="none", use_cpu=True)
trainer = Trainer(model, arguments, train_dataset=data, callbacks=[Held()])
trainer.train()
assert len(trainer.callback_handler.callbacks) == 3, trainer.callback_handler.callback_list
torch.save(model.state_dict(), f"{folder}/final.rank-{arguments.process_index}.pt")
"""


def test_the_trainer(train, world):
    """Preempted and started again, the training ends with the weights of an undisturbed run without `--instrument`."""
    one, step = interrupt(train, world, TRAINER, n=1, extra=("--instrument",))
    assert [path.name for path in one.checkpoints.glob("checkpoint-*")] == [f"checkpoint-{step}"]
    assert one.job.err.count("pch: Trainer.train takes part") == 1


SYNC_FAILS_ONCE = """
import pch.integrations._accelerated as accelerated
sync, failed = accelerated.sync_file, []
def fail_once(path):
    if os.environ["RANK"] == "1" and not failed:
        failed.append(True)
        raise OSError("Input/output error")
    sync(path)
accelerated.sync_file = fail_once
"""


def test_a_save_of_the_trainer_that_fails_on_one_rank(train, world):
    """The rank trained on while the others waited for it in the save. So they hung."""
    one = train(TRAINER.replace("\ntorch.manual_seed", f"{SYNC_FAILS_ONCE}torch.manual_seed"), "--instrument",
                "--checkpoint-every", "4", n=2, folder="failed", STEPS="16",
                MASTER_ADDR="127.0.0.1", ACCELERATE_USE_CPU="true")
    assert finish(one)[:2] == (0, "completed"), one.job.err
    assert "pch: --instrument: a save has failed: OSError: Input/output error" in one.job.err, one.job.err
    assert "only counted" not in one.job.err
    assert "step 4 is not saved, so it is not committed" in one.job.err, "nor without one rank's random numbers"
    assert re.search(r"step \d+ is durable on every rank", one.job.err), one.job.err


@LONG
def test_a_trainer_that_cannot_take_part_is_counted(train, world):
    """The Trainer trains as if nothing had been tried."""
    code = TRAINER.replace('save_strategy="no"', 'save_strategy="no", save_only_model=True')
    one = train(code, "--instrument", "-v", n=1, folder="checkpoints", STEPS="8")
    assert finish(one) == (0, "completed", None)
    assert re.search("pch: --instrument: Trainer.train is only counted from here on: ValueError: with save_only_model",
                     one.job.err), one.job.err
    assert "takes part" not in one.job.err
    assert one.report["ranks"][0]["counts_only"] or one.job.err.count("counts its steps") == 1


LIGHTNING = HELD + """
import lightning, torch
from torch.utils.data import DataLoader, TensorDataset
class Regression(lightning.LightningModule):
    def __init__(self, lr=0.01):
        super().__init__()
        self.lr = lr
        self.net = torch.nn.Linear(16, 1)
    def training_step(self, batch, number):
        hold(self.global_step)
        inputs, wanted = batch
        return torch.nn.functional.mse_loss(self.net(inputs), wanted)
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr)
if __name__ == "__main__":
    lightning.seed_everything(1)
    data = DataLoader(TensorDataset(torch.randn(512, 16), torch.randn(512, 1)), batch_size=8)
    trainer = lightning.Trainer(max_steps=int(os.environ["STEPS"]), max_epochs=-1, accelerator="cpu", devices=DEVICES,
                                strategy="STRATEGY", logger=False, enable_checkpointing=False,
                                enable_progress_bar=False)
    model = Regression()
    TUNE
    trainer.fit(model, data)
    assert trainer.global_step == (0 if "_" in "STRATEGY" else int(os.environ["STEPS"]))
    assert "pch" not in str(trainer.callbacks)
"""


def lightning(strategy, devices, tune=""):
    return LIGHTNING.replace("STRATEGY", strategy).replace("DEVICES", devices).replace("TUNE", tune)


def test_lightning_says_whose_saves_are_needed(train, world):
    code = "import pch, told\n" + lightning("ddp", "2").replace(
        "hold(self.global_step)", "told.say('needs', needs=pch.attach().needs)")
    one = train(code, "--instrument", n=2, folder="checkpoints", STEPS="3")
    assert finish(one)[:2] == (0, "completed"), one.job.err
    assert [event["needs"] for event in world.events.all("needs")] == ["rank0"] * 6


@pytest.mark.parametrize("strategy", ["ddp", "ddp_fork", pytest.param("ddp_spawn", marks=LONG)])
def test_lightning_that_starts_its_ranks(train, world, strategy):
    """The ranks are known only in the middle of fit. A spawned rank gets the pickled Trainer, and Lightning leaves a
    temporary folder then. A forked rank once ended without a report, so the job failed with 125."""
    one, step = preempt_and_resume(train, world, lightning(strategy, "2"), n=2, STEPS=str(STEPS),
                                   TMPDIR=str(world.root))
    assert set(os.listdir(one.checkpoints / f"step-{step}")) == {"lightning.ckpt", "rank-0.pt", "rank-1.pt"}


def test_a_scheduler_that_signals_the_ranks_of_lightning(train, world):
    """Lightning takes SIGTERM when the training begins. Its handler ends the ranks at their next batch, without a save."""
    one = train(lightning("ddp", "2"), "--instrument", n=2, folder="signalled", NOTICE="1", STEPS=str(STEPS))
    world.events.wait("training", count=2, deadline=PATIENCE)
    for event in world.events.all("training"):
        os.kill(event["pid"], signal.SIGTERM)
    world.go_on("on")
    code, outcome, step = finish(one)
    assert (code, outcome) == (PREEMPTED, "preempted") and step > 5, one.job.err


FAILS_ONCE = """
from lightning.pytorch.plugins.io import TorchCheckpointIO
import pch.integrations.lightning as ours
failed = []
def fail_once(call):
    def wrapped(*args, **kwargs):
        if os.environ["RANK"] == os.environ["FAILS"] and not failed:
            failed.append(True)
            raise OSError("No space left on device")
        return call(*args, **kwargs)
    return wrapped
WHERE
if __name__ ==""".strip()


@pytest.mark.parametrize("rank, where", [
    (0, "TorchCheckpointIO.save_checkpoint = fail_once(TorchCheckpointIO.save_checkpoint)"),
    (1, "ours._write = fail_once(ours._write)"),
    (1, "os.makedirs = fail_once(os.makedirs)")], ids=["checkpoint", "numbers", "folder"])
def test_a_save_of_lightning_that_fails_on_one_rank(train, world, rank, where):
    """The rank trained on while the others waited for it in the save. So they hung."""
    code = lightning("ddp", "2").replace("if __name__ ==", FAILS_ONCE.replace("WHERE", where))
    one = train(code, "--instrument", "--checkpoint-every", "4", n=2, folder="failed", STEPS="40", FAILS=str(rank))
    assert finish(one)[:2] == (0, "completed"), one.job.err
    assert "pch: --instrument: a save has failed: OSError: No space left on device" in one.job.err, one.job.err
    assert "only counted" not in one.job.err
    assert "step 4 is not saved, so it is not committed" in one.job.err, "nor without one rank's random numbers"
    assert re.search(r"step \d+ is durable on every rank", one.job.err), one.job.err


@LONG
def test_the_fit_behind_a_tuner_takes_part(train, world):
    """A Tuner calls fit as well, for some steps that it takes back."""
    tune = "from lightning.pytorch.tuner import Tuner; Tuner(trainer).lr_find(model, data, num_training=10)"
    one = train(lightning("auto", "1", tune), "--instrument", n=1, folder="tuned", STEPS="20")
    assert finish(one)[:2] == (0, "completed"), one.job.err
    assert one.job.err.count("pch: Trainer.fit takes part") == 1, one.job.err
    assert [rank["counts_only"] for rank in one.report["ranks"]] == [False], one.report


KERAS = HELD + """
import keras
import tensorflow as tf
keras.utils.set_random_seed(1)
rows = tf.random.stateless_normal((128, 17), (1, 2))
data = tf.data.Dataset.from_tensor_slices((rows[:, :16], rows[:, 16:])).batch(16)
model = keras.Sequential([keras.layers.Input((16,)), keras.layers.Dense(64, activation="relu"),
                          keras.layers.Dropout(0.1), keras.layers.Dense(1)])
model.compile("adam", "mse")
tell = keras.callbacks.LambdaCallback(
    on_train_batch_begin=lambda batch, logs: hold(int(model.optimizer.iterations)))
model.fit(data, epochs=int(os.environ["EPOCHS"]), verbose=0, callbacks=[tell])
import numpy as np
np.savez(f"{os.environ['CHECKPOINTS']}/final.rank-0.npz", *model.get_weights())
"""


def test_keras(train, world):
    one, step = preempt_and_resume(train, world, KERAS, n=1, EPOCHS="8")
    assert list((one.checkpoints / "rank-0").glob("ckpt-*.index")), step
    assert one.job.err.count("pch: Model.fit takes part") == 1


DECAYED = KERAS.replace("callbacks=[tell])", "callbacks=[keras.callbacks.LearningRateScheduler(lambda epoch, rate: "
                        "rate * 0.5), tell])")


def test_keras_schedules_the_learning_rate_once_in_a_resumed_epoch(train, world):
    """The saved rate is already that of the epoch, and Keras begins the epoch anew."""
    one, step = preempt_and_resume(train, world, DECAYED, n=1, EPOCHS="4")
    assert step % 8, "in the middle of an epoch"
    whole = train(DECAYED, n=1, folder="whole", EPOCHS="4")
    assert finish(whole)[1] == "completed", whole.job.err
    assert weights_differ(whole.checkpoints, one.checkpoints) == []


@LONG
def test_keras_with_a_list_of_callbacks_of_its_own(train, world):
    """The list is the program's, and has the same callbacks afterwards."""
    code = KERAS.replace("callbacks=[tell])", "callbacks=own)").replace(
        "model.fit(", "own = keras.callbacks.CallbackList([tell], add_history=True, model=model, epochs=1, steps=8)\n"
        "has = list(own.callbacks)\nmodel.fit(")
    one = train(code + "assert own.callbacks == has\n", "--instrument", n=1, folder="own", EPOCHS="1")
    assert finish(one)[:2] == (0, "completed"), one.job.err
    assert one.job.err.count("pch: Model.fit takes part") == 1, one.job.err
    assert [rank["counts_only"] for rank in one.report["ranks"]] == [False]


SEQUENTIAL = KERAS.replace("keras.layers.Input((16,)), ", "")
SUBCLASS = KERAS[:KERAS.index("model =")] + """class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.last = (keras.layers.Dense(64, activation="relu"), keras.layers.Dropout(0.1),
                                            keras.layers.Dense(1))

    def call(self, inputs, training=False):
        return self.last(self.drop(self.first(inputs), training=training))


model = Net()
""" + KERAS[KERAS.index("model.compile"):]


@pytest.mark.parametrize("code", [SEQUENTIAL, SUBCLASS], ids=["sequential", "subclass"])
def test_keras_builds_a_model_that_names_no_shape(train, world, code):
    """Once, its optimizer was made without a variable, and the program failed in its first batch."""
    one, step = preempt_and_resume(train, world, code, n=1, EPOCHS="8")
    assert list((one.checkpoints / "rank-0").glob("ckpt-*.index")), step
    whole = train(code, n=1, folder="whole", EPOCHS="8")
    assert finish(whole)[1] == "completed", whole.job.err
    assert weights_differ(whole.checkpoints, one.checkpoints) == []


WITHOUT_SHAPE = SEQUENTIAL.replace("model.fit(data", "model.fit(Batches()").replace(
    "tell =", """class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 8

    def __getitem__(self, number):
        return rows[number * 16:number * 16 + 16, :16], rows[number * 16:number * 16 + 16, 16:]


tell =""")
BUILT_IN_VAIN = SUBCLASS.replace("model = Net()", "model = Net()\nmodel.build((None, 16))")


@pytest.mark.parametrize("code", [WITHOUT_SHAPE, BUILT_IN_VAIN], ids=["no-shape", "build"])
def test_keras_counts_a_model_without_variables(train, world, code):
    """The training goes on as without the option."""
    one = train(code, "--instrument", n=1, folder="counted", EPOCHS="1")
    assert finish(one)[:2] == (0, "completed"), one.job.err
    assert "the model has no variables before its first batch: let it begin with keras.Input(shape)" in one.job.err
    assert "pch: counts the batches of Model.fit" in one.job.err
    assert "takes part" not in one.job.err


FIRST_SAVE_FAILS = """
import tensorflow as tf
save, failed = tf.train.CheckpointManager.save, []
def fail_once(self, *args, **kwargs):
    if not failed:
        failed.append(True)
        raise OSError("No space left on device")
    return save(self, *args, **kwargs)
tf.train.CheckpointManager.save = fail_once
"""


def test_keras_saves_again_after_a_save_that_failed(train, world):
    """The callback has reported the failed save by then. Once, the fit was only counted from there on."""
    one = train(FIRST_SAVE_FAILS + KERAS, "--instrument", "--checkpoint-every", "4", n=1, folder="failed", EPOCHS="2")
    assert finish(one)[:2] == (0, "completed"), one.job.err
    assert "pch: --instrument: a save has failed: OSError: No space left on device" in one.job.err
    assert "only counted" not in one.job.err
    assert re.search(r"step \d+ is durable on every rank", one.job.err), one.job.err
