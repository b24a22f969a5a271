# SPDX-License-Identifier: Apache-2.0
"""relay: a TCP relay between node 0 and the others, with the faults of bad networks and middle boxes. It delays,
stalls and changes data, sends it in pieces, ends and refuses connections, and leaves them half open.

It is one thread, in the given network namespace. It owns all its sockets; close() ends it.
"""

import ctypes
import selectors
import socket
import struct
import threading
import time

from harness import wait_until

CHUNK = 65536
PIECE = 37  # bytes of a piece
TICK_S, DUE_S = 0.02, 0.0005
QUEUE_MAX = 1 << 20  # bytes in a queue; above it the relay reads no more


class End:
    """One of the two sockets of a relayed connection. queue: data for this socket, each piece with the earliest
    time at which it may be sent."""

    def __init__(self, sock):
        self.sock = sock
        self.other = None
        self.is_far = False  # the socket to node 0
        self.queue = []
        self.is_over = False  # the other end sends nothing any more

    def waiting(self):
        return sum(len(data) for _, data in self.queue)


class Relay:
    """here, there: (host, port). namespace: a descriptor; None: ours."""

    def __init__(self, namespace, here, there):
        self.there = there
        self.delay_s = 0.0
        self.is_stalled = self.splits = self.refuses = self.changes = False
        self.heard = {}  # data from each end; the end that spoke first comes first
        self.lock = threading.Lock()
        self.ends = {}  # by socket
        self.dead = []  # half open: not read, and not closed before the end
        self.is_over = False
        self.ready = threading.Event()
        self.failure = None
        self.thread = threading.Thread(target=self._main, args=(namespace, here), daemon=True)
        self.thread.start()
        self.ready.wait(10)
        if self.failure:
            raise self.failure

    def close(self):
        self.is_over = True
        self.thread.join(10)

    # --- faults of the connections ---

    def cut(self, is_reset=False):
        """Closes, or resets, both ends of every connection; new connections are relayed."""
        with self.lock:
            for end in list(self.ends.values()):
                self._drop(end, is_reset)

    def refuse(self):
        """Closes all connections, and each new one, until restore()."""
        self.refuses = True
        self.cut()

    def restore(self):
        self.refuses = False

    def stall(self):
        """From now on no byte gets through, and no side sees an end."""
        self.is_stalled = True

    def change(self):
        """Changes one place in the next bytes that pass; waits until this has happened."""
        self.changes = True
        wait_until(lambda: not self.changes, "something to change")

    def half_open(self):
        """Closes the ends of node 0; the other ends see nothing of it."""
        with self.lock:
            for end in list(self.ends.values()):
                if end.is_far:
                    self.dead.append(end.other.sock)
                    self._forget(end.other)
                    self._forget(end)
                    end.sock.close()

    # --- the thread ---

    def _main(self, namespace, here):
        try:
            if namespace and ctypes.CDLL(None, use_errno=True).setns(namespace, 0x40000000) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            self.listener = socket.create_server(here, backlog=64)
            self.selector = selectors.DefaultSelector()
            self.selector.register(self.listener, selectors.EVENT_READ)
        except OSError as failure:
            self.failure = failure
        self.ready.set()
        while not self.is_over and not self.failure:
            self._turn()
        self.selector.close()
        for sock in [*self.ends, *self.dead, self.listener]:
            sock.close()

    def _turn(self):
        if self.is_stalled:
            time.sleep(TICK_S)
            return
        due = any(end.queue for end in list(self.ends.values()))
        ready = [key.fileobj for key, _ in self.selector.select(DUE_S if due else TICK_S)]
        with self.lock:
            for sock in ready:
                if sock is self.listener:
                    self._accept()
                elif sock in self.ends:
                    self._read(self.ends[sock])
            for end in list(self.ends.values()):
                if end.sock in self.ends:
                    self._write(end)

    def _accept(self):
        near, _ = self.listener.accept()
        try:
            if self.refuses:
                raise ConnectionRefusedError
            far = socket.create_connection(self.there, 0.3)
        except OSError:
            near.close()
            return
        pair = End(near), End(far)
        pair[1].is_far = True
        for end, other in (pair, pair[::-1]):
            end.other = other
            end.sock.setblocking(False)
            end.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.ends[end.sock] = end
            self.selector.register(end.sock, selectors.EVENT_READ)

    def _read(self, end):
        if end.other.waiting() > QUEUE_MAX:
            return
        try:
            data = end.sock.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self._drop(end)
            return
        due = time.monotonic() + self.delay_s
        self.heard.setdefault(end, bytearray()).extend(data)
        if data and self.changes:
            data = data[:-1] + bytes([data[-1] ^ 1])
            self.changes = False
        if data:
            end.other.queue.append((due, data))
        else:
            end.other.is_over = True
            self.selector.unregister(end.sock)

    def _write(self, end):
        while end.queue and end.queue[0][0] <= time.monotonic():
            due, data = end.queue[0]
            try:
                sent = end.sock.send(data[:PIECE] if self.splits else data)
            except BlockingIOError:
                return
            except OSError:
                self._drop(end)
                return
            end.queue[0:1] = [(due, data[sent:])] if sent < len(data) else []
            if self.splits:
                return
        if end.is_over and not end.queue:
            self._drop(end)

    def _forget(self, end):
        self.ends.pop(end.sock, None)
        if end.sock.fileno() in self.selector.get_map():
            self.selector.unregister(end.sock)

    def _drop(self, end, is_reset=False):
        for each in (end, end.other):
            if each.sock in self.ends:
                self._forget(each)
                if is_reset:
                    each.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                each.sock.close()
