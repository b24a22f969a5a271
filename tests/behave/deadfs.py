# SPDX-License-Identifier: Apache-2.0
"""A file system that stops answering, like that of a server that is gone. A process that looks up a name in it
waits in the kernel (state D) and cannot even be killed until the file system is ended.

It is a FUSE file system. Its server is a thread of the test, which answers only what the mount needs. It is
mounted in a mount namespace that the test process enters for good.
"""

import ctypes
import errno
import os
import struct
import threading

import pytest

from harness import marked, wait_until

LIBC = ctypes.CDLL(None, use_errno=True)
NEWNS, PRIVATE, RECURSIVE, FORCE, DETACH = 0x20000, 1 << 18, 16384, 1, 2
INIT, GETATTR, LOOKUP, INTERRUPT = 26, 3, 1, 36


def call(rc):
    if rc != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class DeadFolder:
    """Raises OSError if the file system cannot be mounted."""

    def __init__(self, path):
        self.path = path
        path.mkdir()
        self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        self.asked = threading.Event()  # set when a process waits for an answer
        try:
            call(LIBC.unshare(NEWNS))
            call(LIBC.mount(b"none", b"/", None, PRIVATE | RECURSIVE, None))
            call(LIBC.mount(b"dead", bytes(path), b"fuse", 0,
                            b"fd=%d,rootmode=40000,user_id=0,group_id=0" % self.fd))
        except OSError:
            os.close(self.fd)
            raise
        self.server = threading.Thread(target=self._serve, daemon=True)
        self.server.start()

    def _answer(self, unique, data=b"", error=0):
        os.write(self.fd, struct.pack("=IiQ", 16 + len(data), -error, unique) + data)

    def _serve(self):
        while True:
            try:
                request = os.read(self.fd, 1 << 20)
            except OSError:
                return  # the file system has ended
            _, opcode, unique = struct.unpack_from("=IIQ", request)
            if opcode == INIT:
                self._answer(unique, struct.pack("=IIIIHHIIHH8I", 7, 31, 0, 0, 12, 9, 4096, 1, 0, 0,
                                                 *[0] * 8))
            elif opcode == GETATTR:
                self._answer(unique, struct.pack("=QII6Q3I7I", 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
                                                 0o040755, 2, 0, 0, 0, 4096, 0))
            elif opcode == LOOKUP:
                self.asked.set()
            elif opcode != INTERRUPT:
                self._answer(unique, error=errno.ENOSYS)

    def end(self):
        """Ends the file system: all processes that wait in it get an error. The folder then is an empty one."""
        if not self.server.is_alive():
            return
        call(LIBC.umount2(bytes(self.path), FORCE | DETACH))
        self.server.join()
        os.close(self.fd)


@pytest.fixture
def dead(world):
    """A folder on a file system that has stopped answering."""
    try:
        folder = DeadFolder(world.root / "dead")
    except OSError as err:
        pytest.skip(f"no file system of ours can be mounted: {err}")
    yield folder
    folder.end()
    wait_until(lambda: not marked(world.mark), "the end of who was stuck")
