# SPDX-License-Identifier: Apache-2.0
"""ddp_program: the trainings of ddp.py, with PyTorch's DistributedDataParallel on CPU over gloo.

    pchrun -n N -- python3 ddp_program.py step CALLS ROUNDS
        Rank 0 prints a line for each round: the nanoseconds of the slowest rank for CALLS calls of job.step(), of
        Lightning's check for a SIGTERM in each batch, and of Megatron-LM's check in each iteration, in random order.
        A thousandth of the calls is made for the latter two. The time of an empty loop is subtracted. A few steps
        are trained before each measurement.

    pchrun -n 1 -- python3 ddp_program.py waits CALLS ROUNDS
        Prints a line for each round: the nanoseconds of CALLS steps of the smallest model whose waits are marked, and of
        one whose waits are not.

    pchrun -n N -- python3 ddp_program.py notice FOLDER
        Trains until it has to leave. Each rank adds a line to FOLDER/rank-R when it has trained a little, and one for
        each save: the times of its beginning, of its commit, and of the ends of the last steps before it; nanoseconds.

    pchrun -n N -- python3 ddp_program.py train FOLDER STEPS
        Trains to the end. Rank 0 prints each event with its time in nanoseconds: "begin", "step N" at its end,
        "save", "saved", "end" and a digest of the weights.
"""

import collections
import hashlib
import os
import random
import sys
import time
from types import SimpleNamespace

import pch
import torch
import torch.distributed as dist
from pch.integrations.torch import Checkpoint, batches, mark_waits
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

WARM_UP = 5
FEWER = 1000  # one slow call for this many quick ones


class Training:
    """A model of `width` * 2048 weights, its data, and a step."""

    def __init__(self, width=512):
        torch.manual_seed(1)
        data = TensorDataset(torch.randn(1024, width), torch.randn(1024, width))
        self.loader = DataLoader(data, batch_size=64, sampler=DistributedSampler(data, seed=1))
        self.model = DistributedDataParallel(torch.nn.Sequential(
            torch.nn.Linear(width, 1024), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(1024, width)))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.001)
        self.following = None

    def begin(self, step=0):
        self.following = batches(self.loader, step)

    def step(self):
        inputs, wanted = next(self.following)
        self.optimizer.zero_grad()
        torch.nn.functional.mse_loss(self.model(inputs), wanted).backward()
        self.optimizer.step()


# --- what a step costs ---


def lightnings():
    """Lightning's own function, called on a Trainer with all that the function reads."""
    from lightning.pytorch.loops.training_epoch_loop import _TrainingEpochLoop
    strategy = SimpleNamespace(root_device=torch.device("cpu"))
    loop = SimpleNamespace(trainer=SimpleNamespace(received_sigterm=False, strategy=strategy))
    return lambda: _TrainingEpochLoop._broadcast_sigterm_tensor(loop)


def megatrons():
    """Megatron's collective, rebuilt because its package lacks it: every rank gathers and reads all flags."""
    def check():
        flags = [torch.zeros(1, dtype=torch.int32) for _ in range(dist.get_world_size())]
        dist.all_gather(flags, torch.zeros(1, dtype=torch.int32))
        if any(flag.item() for flag in flags):
            sys.exit("asked to save")
    return check


def slowest(loop, calls):
    """The nanoseconds of the slowest rank; all ranks begin together."""
    dist.barrier()
    begin = time.perf_counter_ns()
    loop(calls)
    took = torch.tensor(time.perf_counter_ns() - begin)
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return int(took)


def step(job, calls, rounds):
    def step_loop(turns):
        for _ in range(turns):
            job.step()

    def empty_loop(turns):
        for _ in range(turns):
            pass

    def loop_of(check):
        def loop(turns):
            for _ in range(turns):
                check()
        return loop

    training = Training()
    training.begin()
    sides = {step_loop: 1, loop_of(lightnings()): FEWER, loop_of(megatrons()): FEWER}
    order = random.Random(1)  # the same on all ranks
    for number in range(WARM_UP + rounds):
        times = {}
        for loop in order.sample([empty_loop, *sides], len(sides) + 1):
            fewer = sides.get(loop, 1)
            for _ in range(3):
                training.step()
            times[loop] = slowest(loop, calls // fewer) * fewer
        if number >= WARM_UP and dist.get_rank() == 0:
            print(*(times[side] - times[empty_loop] for side in sides))


def waits(job, calls, rounds):
    def loop_of(model):
        def loop(turns):
            for _ in range(turns):
                model(inputs).backward()
        return loop

    inputs = torch.ones(1)
    plain = loop_of(DistributedDataParallel(torch.nn.Linear(1, 1)))
    mark_waits(job)
    marked = loop_of(DistributedDataParallel(torch.nn.Linear(1, 1)))
    order = random.Random(1)
    for number in range(WARM_UP + rounds):
        times = {loop: slowest(loop, calls) for loop in order.sample([marked, plain], 2)}
        if number >= WARM_UP:
            print(times[marked], times[plain])


# --- a notice ---


def notice(job, folder):
    training, ends = Training(64), collections.deque(maxlen=100)
    training.begin()
    with open(f"{folder}/rank-{dist.get_rank()}", "w", encoding="ascii", buffering=1) as told:
        while not job.should_exit:
            training.step()
            ends.append(time.monotonic_ns())
            is_asked = job.step()
            begins_at = time.monotonic_ns()
            if is_asked:
                job.saved()
            if is_asked or job.finished == WARM_UP:
                told.write(" ".join(map(str, [begins_at, time.monotonic_ns(), *ends])) + "\n")


# --- a whole training ---


def train(job, folder, steps):
    def say(*words):
        if dist.get_rank() == 0:
            print(*words, time.monotonic_ns(), flush=True)

    training = Training()
    checkpoint = Checkpoint(job, folder, model=training.model, optimizer=training.optimizer)
    training.begin(checkpoint.load())
    say("begin")
    for _ in job.steps(steps):
        training.step()
        is_asked = job.should_save
        say("step", job.finished)
        if is_asked:
            say("save")
            job.saved(checkpoint.save(job.finished))
            say("saved")
    weights = torch.cat([part.flatten() for part in training.model.state_dict().values()])
    say("end", hashlib.sha256(weights.numpy().tobytes()).hexdigest())


def main():
    what, *arguments = sys.argv[1:]
    with pch.attach(required=True) as job:
        dist.init_process_group("gloo")
        {"step": step, "waits": waits, "notice": notice, "train": train}[what](
            job, *(int(word) if word.isdigit() else word for word in arguments))
    dist.destroy_process_group()


os.environ.setdefault("OMP_NUM_THREADS", "1")
main()
