# SPDX-License-Identifier: Apache-2.0
"""A training process that speaks the protocol by hand, and then does harm.

    client.py FILE [WAY] [stay]

It attaches, tries in one WAY something that a process must not do, and writes into FILE what it
received and how its attempts ended (0: success, else the errno). Then it ends with 5, or stays.

    pages     (if none is named) changes the size of the shared memory, writes the supervisor's page
    nonsense  fills its own page with ones
    liar      says things that cannot be: steps, tags, words, and answers to nothing
    rude      says what only a supervisor says

The protocol is that of pchrun-protocol(7), written down here a second time on purpose.
"""

import ctypes
import fcntl
import json
import os
import socket
import struct
import sys
import time

PAGE = 4096
MAGIC, VERSION = 0x5050, 3
ATTACH, WAITING, SERVING, SAVED, SAVE_FAILED, HELD, NOTICE, ERROR, DONE, SCRATCH = range(1, 11)
WELCOME, REFUSED = 65, 66
F_ADD_SEALS, F_SEAL_WRITE = 1033, 8
FALLOC_PUNCH_HOLE_KEEP_SIZE = 3
READ, WRITE = 1, 2
HIGHEST = 2**64 - 1

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]


def frame(kind, payload=b""):
    return struct.pack("<HBBI", MAGIC, VERSION, kind, len(payload)) + payload


def text(value):
    return struct.pack("<H", len(value)) + value


def attach_frame(rank=0, world=1, step=0):
    ranks = struct.pack("<iiii", rank, rank, world, world)
    plan = struct.pack("<QQQI", 0, 1, 0, 0)  # first step, stride, last step, flags
    return frame(ATTACH, ranks + struct.pack("<Q", step) + plan)


def connect(path):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(60)
    sock.connect(path)
    return sock


def receive(sock):
    """One packet: its type (None: the end of the connection), its payload, its descriptors."""
    data, fds, _, _ = socket.recv_fds(sock, 16384, 8)
    if not data:
        return None, b"", fds
    magic, version, kind, size = struct.unpack_from("<HBBI", data)
    assert (magic, version, size) == (MAGIC, VERSION, len(data) - 8), data[:8]
    return kind, data[8:], fds


def attempt(result):
    """The result of a call of libc: 0, or the errno."""
    failed = result in (None, -1, ctypes.c_void_p(-1).value)
    return ctypes.get_errno() if failed else 0


def attempt_call(action, *arguments):
    try:
        action(*arguments)
    except OSError as error:
        return error.errno
    return 0


def map_page(fd, prot):
    return libc.mmap(None, PAGE, prot, 1, fd, 0)  # 1: MAP_SHARED


def resize(fd):
    """A process that can shorten another one's mapped page can kill it by SIGBUS."""
    return {
        "shrink": attempt_call(os.ftruncate, fd, 0),
        "grow": attempt_call(os.ftruncate, fd, 1 << 20),
        "seal": attempt_call(fcntl.fcntl, fd, F_ADD_SEALS, F_SEAL_WRITE),
    }


def write_to(fd):
    """Every way to a writable page."""
    told = {
        "write": attempt_call(os.pwrite, fd, b"\xff" * 64, 0),
        "map": attempt(map_page(fd, READ | WRITE)),
        "hole": attempt(libc.fallocate(fd, FALLOC_PUNCH_HOLE_KEEP_SIZE, 0, PAGE)),
    }
    told["protect"] = attempt(libc.mprotect(map_page(fd, READ), PAGE, READ | WRITE))
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
    told["write anew"] = attempt_call(os.pwrite, again, b"\xff" * 64, 0)
    told["map anew"] = attempt(map_page(again, READ | WRITE))
    return told


def harm_pages(sock, fds):
    supervisor, own = fds
    before = os.pread(supervisor, PAGE, 0)
    told = {"supervisor": resize(supervisor), "own": resize(own)}
    told["written"] = write_to(supervisor)
    told["unharmed"] = os.pread(supervisor, PAGE, 0) == before
    told["magic"] = before[:4].decode()
    told["own_written"] = attempt_call(os.pwrite, own, struct.pack("<Q", 7), 0)
    told["own_step"] = struct.unpack("<Q", os.pread(own, 8, 0))[0]
    return told


def harm_nonsense(sock, fds):
    os.pwrite(fds[1], b"\xff" * PAGE, 0)
    return {}


def harm_liar(sock, fds):
    os.pwrite(fds[1], struct.pack("<Q", 3), 0)
    for step in (0, 1, 2**47, 2**48 - 2):
        at = struct.pack("<Q", step)
        sock.send(frame(WAITING, at + struct.pack("<Q", HIGHEST)))
        sock.send(frame(SERVING, at + struct.pack("<I", 77)))
        sock.send(frame(HELD, at + struct.pack("<I", 2**32 - 1)))
        sock.send(frame(SAVE_FAILED, at + struct.pack("<I", 1) + text(b"\x1b[2J\n" * 40)))
    saved = struct.pack("<QI", 0, 16383) + b"\1\1\1" + text(b"x" * 4095)
    sock.send(frame(SAVED, saved))
    for number in (-2**63, -1, 0, 65, 2**63 - 1):
        sock.send(frame(NOTICE, struct.pack("<q", number)))
    sock.send(frame(SCRATCH))
    return {}


def harm_rude(sock, fds):
    sock.send(frame(67))  # LOOK
    ends = receive(sock)
    return {"ended": ends[0] is None}


def main():
    harms = {"pages": harm_pages, "nonsense": harm_nonsense, "liar": harm_liar, "rude": harm_rude}
    out, ways = sys.argv[1], sys.argv[2:] or ["pages"]
    sock = connect(os.environ["PCH_SOCKET"])
    sock.send(attach_frame())
    kind, _, fds = receive(sock)
    told = {"kind": kind, "fds": len(fds), **harms[ways[0]](sock, fds)}
    with open(out + ".new", "w") as file:
        json.dump(told, file)
    os.rename(out + ".new", out)
    while "stay" in ways:
        time.sleep(60)
    sys.exit(5)


if __name__ == "__main__":
    main()
