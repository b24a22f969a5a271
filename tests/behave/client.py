# SPDX-License-Identifier: Apache-2.0
"""A training process that attaches by hand and then does harm to the shared page.

    client.py FILE [stay]

It tells in FILE what it got and which of its attempts were refused (as errno, 0: it worked), and
ends with 5, or stays. The protocol is that of src/wire/procmsg.h and page.h, written down here a
second time on purpose.
"""

import ctypes
import json
import mmap
import os
import socket
import struct
import sys
import time

PAGE = 4096
ATTACH, WELCOME = 1, 65
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]


def attach():
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(os.environ["PCH_SOCKET"])
    payload = struct.pack("<iiii", 0, 0, 1, 1) + struct.pack("<Q", 0)
    payload += struct.pack("<QQQI", 0, 1, 0, 0)
    sock.sendall(struct.pack("<HBBI", 0x5050, 1, ATTACH, len(payload)) + payload)
    data, control, _, _ = sock.recvmsg(16384, socket.CMSG_SPACE(8 * 4))
    fds = []
    for level, kind, found in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds += [n for (n,) in struct.iter_unpack("i", found[:len(found) // 4 * 4])]
    return sock, data[3], fds


def attempt(action):
    try:
        action()
        return 0
    except OSError as error:
        return error.errno


def map_page(fd, offset, prot=mmap.PROT_READ | mmap.PROT_WRITE):
    address = libc.mmap(None, PAGE, prot, mmap.MAP_SHARED, fd, offset)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "mmap")
    return address


def main():
    sock, kind, fds = attach()
    told = {"welcome": kind, "fds": len(fds)}
    told["shrink"] = all(attempt(lambda fd=fd: os.ftruncate(fd, 0)) for fd in fds)
    told["grow"] = all(attempt(lambda fd=fd: os.ftruncate(fd, 1 << 20)) for fd in fds)

    def write_supervisor_page():
        for fd in fds:
            address = map_page(fd, 0, mmap.PROT_READ)
            magic = ctypes.string_at(address, 4)
            if magic != b"1PCH":
                continue
            if attempt(lambda fd=fd: os.pwrite(fd, b"\xff" * 64, 0)):
                map_page(fd, 0)
            return
    told["write_supervisor_page"] = attempt(write_supervisor_page)

    own = None
    for fd in fds:
        for offset in (PAGE, 0):
            try:
                own = map_page(fd, offset)
                break
            except OSError:
                continue
    told["write_own_page"] = 0 if own else 1
    for step in (2**64 - 1, 2**63, 2**48, 0, 7, 3):
        if own:
            ctypes.memmove(own, struct.pack("<Q", step), 8)
            ctypes.memset(own + 64, 0xff, 4)
    if own and len(sys.argv) > 2:
        ctypes.memset(own, 0xff, PAGE)
    with open(sys.argv[1] + ".new", "w") as file:
        json.dump(told, file)
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    while len(sys.argv) > 2:
        time.sleep(60)
    sock.close()
    sys.exit(5)


main()
