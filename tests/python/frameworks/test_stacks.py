# SPDX-License-Identifier: Apache-2.0
"""The Python stacks in the evidence of a hang, with the real PyTorch: a DataLoader, and a collective of gloo. A program
without the package, with the real py-spy."""

import os
import re

from conftest_frameworks import PATIENCE

# Rank 0 waits in the collective, since rank 1 waits for its loader. A worker of the loader waits for a lock that a thread of
# the rank held when the worker was forked.
CODE = """
import threading, time, pch, torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
lock = threading.Lock()
class Locked(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        with lock:  # locked
            return torch.ones(1) * i
def together(value):
    dist.all_reduce(value)  # together
def feed():
    return next(iter(DataLoader(Locked(), num_workers=2)))  # feed
def main():
    dist.init_process_group("gloo")
    with pch.attach() as job:
        for step in job.steps(10):
            together(torch.ones(1))
            if step == 3 and job.rank == 1:
                lock.acquire()
                feed()
            job.should_save
if __name__ == "__main__":
    main()
"""


def test_a_loader_and_a_collective(train):
    one = train(CODE, "--watchdog-train", "2s", n=2, folder="hung")
    assert one.job.finish(PATIENCE) == 42, one.job.err
    lines = CODE.splitlines()

    def place(mark, where):
        line = 1 + next(i for i, line in enumerate(lines) if line.endswith(f"# {mark}"))
        return f"{os.path.basename(one.path)}:{line} in {where}"

    one.said(f"watchdog: rank 0: {place('together', 'together')}$")
    one.said(f"watchdog: rank 1: {place('feed', 'feed')}$")
    text = (one.checkpoints / ".pchrun" / "hang.0.0.txt").read_text()
    workers = re.findall(rf"^    its child \d+: {place('locked', '__getitem__')}$", text, re.M)
    assert len(workers) == 2, text


DEADLOCK = """
import threading
lock = threading.Lock()
def twice():
    with lock, lock:  # deadlock
        pass
print("begun", flush=True)
twice()
"""


def test_py_spy_finds_the_line_of_a_program_without_pch(program, world):
    path = f"{os.path.dirname(os.environ['PCH_PYTHON'])}:{os.environ['PATH']}"
    one = program(DEADLOCK).start("--watchdog-silence", "1s", "--logs-dir", world.root / "logs", PATH=path)
    assert one.job.finish() == 42, one.job.err
    text = (one.checkpoints / ".pchrun" / "hang.0.0.txt").read_text()
    line = 1 + next(i for i, line in enumerate(DEADLOCK.splitlines()) if line.endswith("# deadlock"))
    assert re.search(rf"/py-spy' for process \d+: exit code 0\n.*\n.*\n\nThread .*\n    twice \(program0\.py:{line}\)$", text,
                     re.M), text
