# SPDX-License-Identifier: Apache-2.0
"""replaced_program: a tiny training of replaced.py, with PyTorch's DistributedDataParallel on CPU over gloo.

    NODE=N ... python3 replaced_program.py FIFO

Each rank writes lines for failures.Ranks: "begin" as its first act, "up" when it has imported PyTorch, "group" when all
ranks have met, and "step" after its first step. Then it trains on until it is killed.
"""

import os
import sys
import time

FIFO = os.open(sys.argv[1], os.O_WRONLY)


def tell(what):
    os.write(FIFO, f"{what} {os.environ['NODE']} {os.getpid()} {time.monotonic_ns()}\n".encode("ascii"))


tell("begin")
import torch  # noqa: E402  pylint: disable=wrong-import-position
import torch.distributed as dist  # noqa: E402  pylint: disable=wrong-import-position
from torch.nn.parallel import DistributedDataParallel  # noqa: E402  pylint: disable=wrong-import-position

tell("up")
dist.init_process_group("gloo")
tell("group")
model = DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
is_first = True
while True:
    optimizer.zero_grad()
    model(torch.randn(8, 64)).square().mean().backward()
    optimizer.step()
    if is_first:
        tell("step")
    is_first = False
    time.sleep(0.02)
