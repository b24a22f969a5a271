# SPDX-License-Identifier: Apache-2.0
"""attach(needs=...): what pchrun hears of it, and what the integrations refuse. Other tests of the integrations need
their frameworks: tests/python/frameworks."""

import os
import socket
import struct

import pytest

import client
from harness import DEADLINE

SHIELD, COUNTS, RANK0, ANY = 1, 2, 4, 8  # of pchrun-protocol(7)


@pytest.mark.parametrize("options, flags, needs", [
    ("", SHIELD, "all"), ("needs='all'", SHIELD, "all"), ("needs='rank0'", SHIELD | RANK0, "rank0"),
    ("needs='any'", SHIELD | ANY, "any"), ("needs='any', shield=False", ANY, "any"),
    ("needs='rank0', saves=False", COUNTS, "rank0")])
def test_pchrun_hears_whose_saves_are_needed(program, world, options, flags, needs):
    """A stand-in for pchrun reads the first message, which ends with the flags, and refuses the process."""
    one = program(f"import pch\nprint(pch.attach({options}).needs)")
    path = str(world.tmp / "stand-in")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.settimeout(DEADLINE)
        listener.bind(path)
        listener.listen()
        job = world.start(*one.command(), env=one.variables({"PCH_SOCKET": path}))
        with listener.accept()[0] as connection:
            connection.settimeout(DEADLINE)
            message = connection.recv(1 << 16)
            connection.sendall(client.frame(client.REFUSED, client.text(b"it has read enough")))
            assert job.finish() == 0, job.err
    os.unlink(path)
    assert message[3] == client.ATTACH and struct.unpack("<I", message[-4:])[0] == flags
    assert job.out == f"{needs}\n" and "it has read enough" in job.err


def test_the_first_attach_counts(program):
    one = program("import pch\npch.attach(needs='rank0')\nprint(pch.attach(needs='any').needs)\npch.attach().close()\n"
                  "print(pch.attach().needs)")
    assert one.alone() == (0, "rank0\nall\n", "")


CHECKS = """
from types import SimpleNamespace
from told import attempt
from pch.integrations._needs import check_needs
for needs in "all", "rank0", "any":
    for rank, is_whole, is_first in (0, False, True), (0, True, True), (1, True, False), (1, True, True), (0, True, False):
        job = SimpleNamespace(needs=needs, rank=rank, supervised=True)
        attempt(lambda: check_needs(job, is_whole, is_first))
attempt(lambda: check_needs(SimpleNamespace(needs="rank0", rank=None, supervised=False), True, False))
"""


def test_a_declaration_that_would_lose_a_part_is_refused(program):
    """A sharded checkpoint, one that rank 0 alone writes, and one that is written by the framework's rank 0, which is not
    pchrun's."""
    parts = "ValueError: attach(needs='{}') would lose the other ranks' parts"
    alone = "ValueError: attach(needs='any') would lose the checkpoint, since here rank 0 alone writes it"
    other = "ValueError: attach(needs='rank0') would lose the checkpoint, since another rank"
    wanted = [*["None"] * 5, parts.format("rank0"), "None", "None", other, other, parts.format("any"), *[alone] * 4, "None"]
    status, out, err = program(CHECKS).alone()
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) == len(wanted) and all(line.startswith(start) for line, start in zip(lines, wanted)), out


WHOLE = """
from types import SimpleNamespace
from pch.integrations._accelerated import is_whole
for kind in "NO", "MULTI_CPU", "MULTI_GPU", "FSDP", "DEEPSPEED", "MEGATRON_LM", "XLA", "NEW":
    print(kind, is_whole(SimpleNamespace(distributed_type=SimpleNamespace(value=kind)), False))
print(is_whole(SimpleNamespace(distributed_type="MULTI_GPU", parallelism_config=None), False),
      is_whole(SimpleNamespace(distributed_type="MULTI_GPU", parallelism_config="tp"), False),
      is_whole(SimpleNamespace(distributed_type="MULTI_GPU"), True))
"""


def test_only_where_each_rank_has_all_of_the_model(program):
    whole = ["NO", "MULTI_CPU", "MULTI_GPU"]
    kinds = [*whole, "FSDP", "DEEPSPEED", "MEGATRON_LM", "XLA", "NEW"]
    wanted = [f"{kind} {kind in whole}" for kind in kinds] + ["True False False"]
    assert program(WHOLE).alone() == (0, "\n".join(wanted) + "\n", "")
