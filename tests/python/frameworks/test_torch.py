# SPDX-License-Identifier: Apache-2.0
"""pch.integrations.torch with the real PyTorch, on CPU, over gloo. test_pages.py has the programs of the pages."""

import os
import re
import signal

import pytest

from conftest_frameworks import PATIENCE, PREEMPTED, finish, held, interrupt
from harness import descendants_of, is_alive, wait_until
from nodes import Nodes
from pages import Page


def test_four_ranks(train, world):
    """As two ranks in test_pages.py, with the rehearsal that docs/python/ddp.md has for more ranks; by another notice."""
    (rehearsed,) = re.findall(r"^ {4}(checkpoint\.load\(rehearse=.*)", Page("ddp").text, re.M)
    code = held()
    assert code.count("checkpoint.load()") == 1
    one, step = interrupt(train, world, code.replace("checkpoint.load()", rehearsed), n=4, kind="file")
    assert set(os.listdir(one.checkpoints / f"step-{step}")) == {"shared.pt", *(f"rank-{rank}.pt" for rank in range(4))}


PARTS = """
import os, pch, random, sys, torch, warnings
from pch.integrations.torch import Checkpoint, ShardedCheckpoint, batches
from told import attempt
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
job = pch.attach()
attempt(lambda: Checkpoint(job, "x", step=3))
model = torch.nn.Linear(2, 1)
checkpoint = Checkpoint(job, os.environ["CHECKPOINTS"], model=model)
print(checkpoint.load())

# As a job that resumes: at the last save, then at another step than that of the save, and with other parts.
path = checkpoint.save(7)
torch_first, python_first = torch.rand(1).item(), random.random()
weight = model.weight.detach().clone()
class Resumed:
    resume_step, resume_path, supervised, needs, rank = 7, path, False, "rank0", None
with torch.no_grad():
    model.weight += 1
again = Checkpoint(Resumed(), "x", model=model)
print(again.load(), torch.equal(model.weight, weight), torch.rand(1).item() == torch_first, random.random() == python_first)
warnings.simplefilter("error")  # as of a rank that ended before it had saved
os.rename(path + "/rank-0.pt", path + "/away")
attempt(again.load)
os.rename(path + "/away", path + "/rank-0.pt")

# Declarations that would lose a part of the checkpoint, at a load and at a save.
sharded = ShardedCheckpoint(Resumed(), "x", model=model, optimizer=None)  # refused before
attempt(sharded.load)
attempt(lambda: sharded.save(9))
Resumed.needs = "any"
attempt(again.load)
Resumed.needs, Resumed.supervised, Resumed.rank = "rank0", True, 1
attempt(lambda: again.save(9))
Resumed.supervised = False
print(os.path.exists("x"))
Resumed.resume_step = 8
attempt(again.load)
Resumed.resume_step = 7
attempt(Checkpoint(Resumed(), "x", model=model, other=model).load)
Resumed.resume_path = None
attempt(again.load)

# The same batches from the middle as from the beginning. The program's random numbers stay as they are.
class Drawn(TensorDataset):
    def __getitem__(self, i):
        return super().__getitem__(i)[0] + torch.rand(1)
loader = DataLoader(Drawn(torch.arange(10.0)), batch_size=3, shuffle=True)
before = torch.get_rng_state()
whole = batches(loader, 0)
whole = [next(whole) for _ in range(11)]
print(torch.equal(before, torch.get_rng_state()))
rest = batches(loader, 6)
print(all(torch.equal(next(rest), wanted) for wanted in whole[6:]), len({float(b.sum()) for b in whole}))
attempt(lambda: next(batches(DataLoader([]), 0)))
class Stream(IterableDataset):
    def __len__(self):
        return 4
    def __iter__(self):
        return iter(range(4))
streamed = batches(DataLoader(Stream(), batch_size=2), 1)
print([next(streamed).tolist() for _ in range(3)])
"""


def test_what_it_is_made_of(program):
    one = program(PARTS)
    path = f"{one.checkpoints}/step-7"
    job = one.world.start(*one.command(), env=one.variables({}), code=0)
    assert job.out.splitlines() == [
        "TypeError: these have no load_state_dict: step", "0",
        "7 True True True",
        f"RuntimeWarning: {path} has no rank-0.pt, since that rank ended before it had saved: random numbers begin anew, "
        "and the run cannot be the same as without the interruption",
        *["ValueError: attach(needs='rank0') would lose the other ranks' parts of a checkpoint, since here every rank saves "
          "a part that a resume needs: leave needs out"] * 2,
        "ValueError: attach(needs='any') would lose the checkpoint, since here rank 0 alone writes it: give needs='rank0'",
        "ValueError: attach(needs='rank0') would lose the checkpoint, since another rank than pchrun's rank 0 writes it: "
        "give attach() the rank that the process has in the framework, or leave needs out",
        "False",
        f"RuntimeError: {path} holds step 7; the job resumes at step 8",
        f"RuntimeError: {path} holds model; this program loads model, other",
        "RuntimeError: the job resumes at step 7, but saved() got no path for that step",
        "True", "True 11", "ValueError: the loader has no batch", "[[2, 3], [0, 1], [2, 3]]"]


GENERATORS = """
import torch
from pch.integrations.torch import batches
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SubsetRandomSampler, WeightedRandomSampler
data = torch.arange(10.0)

class Shard:  # as accelerate's: its batches are those of another sampler
    batch_size, drop_last = 3, False
    def __init__(self, batch_sampler):
        self.batch_sampler = batch_sampler
    def __len__(self):
        return len(self.batch_sampler)
    def __iter__(self):
        return iter(self.batch_sampler)

def shard(own):
    return DataLoader(data, batch_sampler=Shard(BatchSampler(RandomSampler(data, generator=own), 3, False)))

def equal_on_all_ranks(own):  # accelerate sends rank 0's generator to the others; each process has begun it by chance
    loader = shard(own)
    loader.synchronized_generator = own
    return loader

def take(make, seed, first):
    own = torch.Generator().manual_seed(seed)
    before, following = own.get_state(), batches(make(own), first)
    taken = [next(following).tolist() for _ in range(first, 12)]
    return taken, torch.equal(before, own.get_state())

for make in (lambda own: DataLoader(data, batch_size=3, shuffle=True, generator=own),
             lambda own: DataLoader(data, batch_size=3, shuffle=True, generator=own, num_workers=1),
             lambda own: DataLoader(data, batch_size=3, sampler=WeightedRandomSampler(data + 1, 10, generator=own)),
             lambda own: DataLoader(data, batch_size=3, sampler=SubsetRandomSampler(range(10), generator=own)),
             lambda own: DataLoader(data, batch_size=3, shuffle=True, generator=own, num_workers=1, persistent_workers=True),
             shard, equal_on_all_ranks,
             lambda own: DataLoader(data, batch_size=3, shuffle=True, num_workers=1, persistent_workers=True)):
    (whole, is_kept), (rest, _), (other, _) = take(make, 1, 0), take(make, 1, 6), take(make, 2, 0)
    print(whole[6:] == rest, whole[:4] != whole[4:8], whole != other, is_kept)
"""


def test_a_generator_of_the_program(program, short_tmp):
    """A job that resumes makes it anew. The batches that follow are those of an uninterrupted run, by the program's seed. Workers
    that persist draw their seed only once."""
    code, out, err = program(GENERATORS).alone(patience=PATIENCE, TMPDIR=short_tmp)
    assert code == 0, err
    assert out.splitlines() == [*["True True True True"] * 6, *["True True False True"] * 2]


EPOCHS = """
import pch, torch
from pch.integrations.torch import Checkpoint, batches
from torch.utils.data import DataLoader
loader = DataLoader(torch.arange(10.0), batch_size=3, shuffle=True)
whole = batches(loader, 0)
whole = [next(whole) for _ in range(12)]
for first in 0, 6, 8:
    job = pch.attach(first_step=first)
    checkpoint = Checkpoint(job, model=torch.nn.Linear(2, 1))
    trained = []
    epochs = list(checkpoint.epochs(3, loader))
    for epoch in range(3):
        trained += [list(checkpoint.epoch(loader, epoch))]
    print(epochs, [len(batches) for batches in trained], job.finished,
          all(torch.equal(*pair) for pair in zip(sum(trained, []), whole[first:])))
    job.close()
job = pch.attach()
checkpoint = Checkpoint(job, model=torch.nn.Linear(2, 1))
for batch in checkpoint.epoch(loader, 0):
    if job.finished == 2:
        break
print(job.finished)
print(checkpoint.save(5))
"""


def test_a_loop_over_epochs(program):
    """Each step is counted once, an epoch that is trained gives no batch, and a step that is broken off does not count. The
    code behind the last batch of an epoch has not run when its last step is saved. Checkpoints go to the folder that pchrun
    names."""
    one = program(EPOCHS)
    job = one.world.start(*one.command(), env=one.variables({"PCH_CHECKPOINT_DIR": str(one.checkpoints)}), code=0)
    assert job.out.splitlines() == [
        "[0, 1, 2] [4, 4, 4] 12 True", "[1, 2] [0, 2, 4] 12 True", "[1, 2] [0, 0, 4] 12 True", "2",
        f"{one.checkpoints}/step-5"]


OVER = """
import os, pch, sys, torch
from pch.integrations.torch import Checkpoint
from torch.utils.data import DataLoader
with pch.attach() as job:
    optimizer = torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    parts = {"scheduler": scheduler} if os.environ["WHOLE"] else {}
    loader = DataLoader(torch.arange(10.0), batch_size=3)
    checkpoint = Checkpoint(job, optimizer=optimizer, **parts)
    checkpoint.load()
    for epoch in checkpoint.epochs(2, loader):
        steps = sum(1 for batch in checkpoint.epoch(loader, epoch))
        if os.environ["ENDS"] == str(epoch):
            job.saved(checkpoint.save(job.finished))
            sys.exit(1)
        print("epoch", epoch, steps, flush=True)
    print("over", flush=True)
    job.done()
"""


def test_a_completed_loop_is_over(program):
    """A start that resumes behind the last batch of an epoch runs the code behind it, also of the last epoch. After that a
    start does nothing again."""
    one = program(OVER)

    def start(ends=""):
        one.start(WHOLE="1", ENDS=ends, TORCHINDUCTOR_CACHE_DIR=str(one.checkpoints))
        return one.job.finish(), one.job.out.splitlines(), "resumes behind the last batch of epoch" in one.job.err

    assert start("0") == (1, [], False)
    assert start("1") == (1, ["epoch 0 0"], True)
    assert start() == (0, ["epoch 1 0", "over"], True)
    assert start() == (0, ["over"], False)
    assert start() == (0, ["over"], False)


@pytest.mark.parametrize("whole", ["", "1"])
def test_a_scheduler_that_is_forgotten(program, whole):
    one = program(OVER)
    one.start(WHOLE=whole, ENDS="", TORCHINDUCTOR_CACHE_DIR=str(one.checkpoints))
    assert one.result() == (0, "completed", 8)
    assert one.job.err.count("Give it to the checkpoint, too, as in scheduler=scheduler") == (0 if whole else 1)
    assert one.job.out.splitlines() == ["epoch 0 4", "epoch 1 4", "over"]


WRONG_LOOPS = """
import pch, torch
from pch.integrations.torch import Checkpoint
from torch.utils.data import DataLoader
with pch.attach(first_step=FIRST) as job:
    loader = DataLoader(torch.arange(10.0), batch_size=3)
    checkpoint = Checkpoint(job, model=torch.nn.Linear(2, 1))
    checkpoint.load()
    LOOP
    print("steps", job.finished, flush=True)
"""

BY_RANGE = "for epoch in range(2): trained = list(checkpoint.epoch(loader, epoch))"
BY_START = "for epoch in range(job.finished // 4, 2): trained = list(checkpoint.epoch(loader, epoch))"
BY_LOADER = "for epoch in checkpoint.epochs(2, loader): trained = list(loader)"
RIGHT = "for epoch in checkpoint.epochs(2, loader): trained = list(checkpoint.epoch(loader, epoch))"


@pytest.mark.parametrize("first, loop, steps, warning", [
    (4, BY_RANGE, 8, "epoch 0, counted from 0, is over, and no batch of it remains, but the code behind its batches runs again"),
    (0, BY_LOADER, 0,
     "epoch 0, counted from 0, has counted 0 of its 4 steps. Take its batches from checkpoint.epoch(loader, epoch)"),
    (0, RIGHT, 8, ""), (4, BY_START, 8, ""), (0, BY_START, 8, "")],
    ids=["range", "loader", "right", "own start", "own start at 0"])
def test_half_of_the_loops(program, first, loop, steps, warning):
    """A program that has changed only one of its two loops is told once, at its own line. A loop that begins by itself at
    the right epoch is told nothing."""
    one = program(WRONG_LOOPS.replace("LOOP", loop).replace("FIRST", str(first)))
    one.start(n=2, TORCHINDUCTOR_CACHE_DIR=str(one.checkpoints))
    assert one.result()[:2] == (0, "completed"), one.job.err
    assert one.job.out.splitlines() == [f"steps {steps}"] * 2
    warned = [line for line in one.job.err.splitlines() if "RuntimeWarning" in line]
    assert len(warned) == (2 if warning else 0), one.job.err  # without a process group each process is its own rank 0
    assert all(line.startswith(f"{one.path}:9: RuntimeWarning: {warning}") for line in warned), one.job.err


LOADS = """
import pch
from told import say, wait_for

def train(job):
    from torch.utils.data import DataLoader
    data = iter(DataLoader(range(1000), num_workers=2, collate_fn=list, multiprocessing_context=KIND))
    for step in job.steps(100):
        next(data)
        if step == 5:
            say("training")
            wait_for("on")
        if job.should_save:
            job.saved()

if __name__ == "__main__":
    with pch.attach() as job:
        train(job)
"""


@pytest.mark.parametrize("kind", ["fork", "spawn", "forkserver"])
def test_a_scheduler_that_signals_the_data_loaders_too(program, world, short_tmp, kind):
    """The workers live on: the loader would end the training as soon as one of them died."""
    one = program(LOADS.replace("KIND", repr(kind))).start(TMPDIR=short_tmp)
    wait_until(lambda: world.events.all("training") or one.job.process.poll() is not None, "step 5", PATIENCE)
    pids = descendants_of(one.job.pid)
    assert len(pids) >= 3, one.job.err
    for pid in (*pids, one.job.pid):
        os.kill(pid, signal.SIGTERM)
    one.said(r"every rank saves step \d+")
    assert all(is_alive(pid) for pid in pids), one.job.err
    world.go_on("on")
    code, outcome, _ = finish(one)
    assert (code, outcome) == (PREEMPTED, "preempted") and "is killed by signal" not in one.job.err, one.job.err


LOCKSTEP = """
import os, pch, sys, time, torch
from pch.integrations.torch import mark_waits
from torch.nn import BatchNorm1d, Linear, Sequential
kind = sys.argv[1]
job = pch.attach()
mark_waits(job)
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
torch.manual_seed(1)
model = Sequential(Linear(8, 16), BatchNorm1d(16), Linear(16, 1)) if kind == "ddp" else Sequential(Linear(8, 16), Linear(16, 1))
if kind == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(model)
else:
    for part in (*model, model):
        torch.distributed.fsdp.fully_shard(part)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
own = 0.09 if job.rank == 1 else 0.03
for step in job.steps(10 ** 6):
    time.sleep(own / 2)
    loss = model(torch.randn(4, 8)).square().mean()
    loss.register_hook(lambda gradient: time.sleep(own / 2))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    is_over = torch.tensor(float(os.path.exists(f"{os.environ['HOLD']}/on.hold")))
    torch.distributed.all_reduce(is_over)
    if is_over:
        break
job.done()
print(sum(len(parameter._post_accumulate_grad_hooks or ()) for parameter in model.parameters()))
"""


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_slow_rank_is_named(program, kind):
    """The rank that works longer, before the forward pass and within the backward pass."""
    one = program(LOCKSTEP)
    job = Nodes(one.world, 3, ["-n", "1"])
    job.launch_all(*one.command(kind), env=one.variables({"TORCHINDUCTOR_CACHE_DIR": str(one.world.root / "inductor")}))
    first = job.jobs[0]
    wait_until(lambda: "slow: rank " in first.err or first.process.poll() is not None, "a slow rank", PATIENCE)
    assert re.findall(r"rank (\d) \(node (\d), \S+, local rank (\d)\) is slow", first.err) == [("1", "1", "0")], first.err
    one.world.go_on("on")
    assert job.finish(deadline=PATIENCE) == 0
    assert {each.out.strip() for each in job.jobs.values()} == {"1" if kind == "ddp" else "0"}
