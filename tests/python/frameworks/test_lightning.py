# SPDX-License-Identifier: Apache-2.0
"""pch.integrations.lightning with the real Lightning, on CPU, over gloo. test_pages.py has the
program of the page."""

from conftest_frameworks import PATIENCE, finish

SHARED_OUT = """
import os, lightning, pch, torch
from pch.integrations.lightning import PreemptionCallback, ResumableLoader
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, WeightedRandomSampler
from told import say

class Model(lightning.LightningModule):
    def __init__(self, loader):
        super().__init__()
        self.net, self.loader, self.seen = torch.nn.Linear(1, 1), loader, []
    def train_dataloader(self):
        return self.loader
    def training_step(self, batch, number):
        self.seen += [[int(index) for index in batch[0]]]
        return self.net(batch[0]).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-9)

data = TensorDataset(torch.arange(64.0).unsqueeze(1))
def train(name, loader):
    model = Model(loader)
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", strategy="ddp", devices=2, logger=False, barebones=True)
    try:
        trainer.fit(model)
        say(name, batches=model.seen)
    except ValueError as error:
        say(name, error=str(error))
with pch.attach() as job:
    early = ResumableLoader(DataLoader(data, batch_size=4, shuffle=True))
    assert len(early) == 16, "all of the data, as long as no rank is known"
    train("shuffled", early)
    train("in order", ResumableLoader(DataLoader(data, batch_size=4)))
    train("its own", ResumableLoader(DataLoader(data, batch_size=4, sampler=DistributedSampler(data, 2, job.rank))))
    weighted = WeightedRandomSampler(torch.ones(64), 64)
    train("weighted", ResumableLoader(DataLoader(data, batch_size=4, sampler=weighted)))
    train("sharded", ResumableLoader(DataLoader(data, batch_size=4, sampler=weighted), sharded=True))
"""


def test_each_rank_has_its_own_part_of_the_data(train, world):
    """The Trainer puts a sampler into a DataLoader only; both ranks once trained on all data."""
    one = train(SHARED_OUT, n=2, folder="shared")
    assert finish(one)[:2] == (0, "completed"), one.job.err
    for name in ("shuffled", "in order", "its own"):
        epochs = []
        ranks = [event["batches"] for event in world.events.all(name)]
        assert [len(batches) for batches in ranks] == [16, 16], name
        for half in (slice(0, 8), slice(8, 16)):
            first, second = (sum(batches[half], []) for batches in ranks)
            assert not set(first) & set(second) and set(first) | set(second) == set(range(64)), name
            epochs.append(ranks[0][half])
        assert (epochs[0] == epochs[1]) == (name == "in order"), "another order in each epoch"
    refused = [event["error"] for event in world.events.all("weighted")]
    assert len(refused) == 2 and all("WeightedRandomSampler cannot be shared out to 2 ranks" in text for text in refused)
    assert [len(event["batches"]) for event in world.events.all("sharded")] == [32, 32]


SHIELDED = """
import lightning, os, pch, signal, torch
from pch.integrations.lightning import PreemptionCallback
from torch.utils.data import DataLoader

class Model(lightning.LightningModule):
    def __init__(self, step):
        super().__init__()
        self.net, self.step = torch.nn.Linear(1, 1), step
    def training_step(self, batch, number):
        self.step()
        return self.net(batch).square().mean()
    def validation_step(self, batch, number):
        pass
    test_step = predict_step = validation_step
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-9)

def caught():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1], 16) for line in file if line.startswith("SigCgt:"))

def own(number, frame):
    print("the program's handler")

data = DataLoader(torch.ones(8, 1), batch_size=4)
with pch.attach() as job:
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False, barebones=True,
                                callbacks=[PreemptionCallback(job)])
    trainer.predict(Model(None), data, return_predictions=False)  # opens what PyTorch opens
    for name, call in (("fit", lambda: trainer.fit(Model(lambda: None), data, data)),
                       ("error", lambda: trainer.fit(Model(lambda: 1 // 0), data)),
                       ("validate", lambda: trainer.validate(Model(None), data, verbose=False)),
                       ("test", lambda: trainer.test(Model(None), data, verbose=False)),
                       ("predict", lambda: trainer.predict(Model(None), data, return_predictions=False))):
        before = caught()
        assert before >> signal.SIGTERM - 1 & 1, f"no shield before {name}"
        trainer.fit_loop.epoch_progress.reset()
        try:
            call()
        except ZeroDivisionError:
            print("an error")
        print(name, hex(before ^ caught()))
    signal.signal(signal.SIGTERM, own)
    trainer.fit_loop.epoch_progress.reset()
    try:
        trainer.fit(Model(lambda: os.kill(os.getpid(), signal.SIGTERM)), data)
    except SystemExit:
        print("Lightning ends")
    print(signal.getsignal(signal.SIGTERM) is own)
"""


def test_the_shield_is_there_behind_lightning(program):
    """Lightning restores the handlers that Python knows, and takes those of libpch for the default. A handler that the
    program has installed stays, and so does what Lightning makes of it."""
    one = program(SHIELDED)
    one.start(TORCHINDUCTOR_CACHE_DIR=str(one.checkpoints / "inductor"))
    code, outcome, _ = finish(one)
    assert code == 0, one.job.err
    lines = [line for line in one.job.out.splitlines() if not line.startswith("`Trainer")]
    assert lines == ["fit 0x0", "an error", "error 0x0", "validate 0x0", "test 0x0", "predict 0x0",
                     "the program's handler", "Lightning ends", "True"]


STRATEGIES = """
from types import SimpleNamespace
from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy, ModelParallelStrategy, SingleDeviceStrategy
from pch.integrations.lightning import PreemptionCallback, rank0_saves_all
from told import attempt
class Own(DDPStrategy): pass
job = SimpleNamespace(needs="rank0", rank=0, supervised=True, resume_step=0, resume_path=None)
for strategy in SingleDeviceStrategy("cpu"), DDPStrategy(), FSDPStrategy(), ModelParallelStrategy(), Own():
    trainer = SimpleNamespace(strategy=strategy, global_rank=0, global_step=0)
    print(type(strategy).__name__, rank0_saves_all(trainer))
    attempt(lambda: PreemptionCallback(job).on_train_start(trainer, None))
"""


def test_a_strategy_of_shards_needs_every_save(program, world):
    code, out, err = program(STRATEGIES).alone(patience=PATIENCE, TORCHINDUCTOR_CACHE_DIR=str(world.root / "inductor"))
    assert code == 0, err
    refused = "ValueError: attach(needs='rank0') would lose the other ranks' parts"
    assert [line[:len(refused)] for line in out.splitlines()] == [
        "SingleDeviceStrategy True", "None", "DDPStrategy True", "None", "FSDPStrategy False", refused,
        "ModelParallelStrategy False", refused, "Own False", refused]
