# SPDX-License-Identifier: Apache-2.0
"""watched: what pchrun-web costs beside node 0 of a job of 1,024 nodes: its own time, and the time of an agreement while
pages are open."""

import contextlib
import random
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from measure import JOB, Figure, Unmeasured, chief_options, free_port, paired, running

NODES = 1024
WINDOW_S = 20


class Reader:
    """A browser that reads the events of a page. largest: the bytes of its largest update."""

    def __init__(self, port):
        self.updates = self.largest = 0
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self):
        with contextlib.suppress(OSError), self.socket.makefile("rb") as lines:
            is_state = False
            for line in lines:
                if is_state:
                    self.updates, self.largest = self.updates + 1, max(self.largest, len(line))
                is_state = line == b"event: state\n"

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.socket.close()


@contextlib.contextmanager
def pages(bench, run_dir, count):
    """pchrun-web with so many readers, each of which has a picture: its process, and the readers."""
    port = free_port()
    command = [str(bench.build / "src/pchrun-web"), "--run-dir", run_dir, "--listen", f"127.0.0.1:{port}"]
    with running(command, end=signal.SIGTERM, stdout=subprocess.PIPE) as process:
        if not process.stdout.readline():
            raise Unmeasured("pchrun-web does not listen")
        readers = [Reader(port) for _ in range(count)]
        try:
            until = time.monotonic() + 60
            while not all(reader.updates for reader in readers):
                if time.monotonic() > until:
                    raise Unmeasured("pchrun-web sends no picture")
                time.sleep(0.1)
            yield process, readers
        finally:
            for reader in readers:
                reader.close()


def seconds_of(process):
    """The time that all threads of a process have run."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{process.pid}/task").iterdir()) / 1e9


def web(bench):
    """the time of pchrun-web and of node 0 of 1,024, with no reader, with one and with ten"""
    with tempfile.TemporaryDirectory(prefix="bench.") as folder:
        port = free_port()
        options = chief_options(NODES, port, folder, "--job", JOB)
        swarm = [bench.helper("swarm"), "idle", str(port), *options]
        with running([bench.pchrun, *options], stdout=subprocess.DEVNULL) as node_0, \
                running(swarm, stdout=subprocess.PIPE) as members:
            if not members.stdout.readline():
                raise Unmeasured("the nodes have not come together")
            for count, target in ((0, ""), (1, "≤ 1 %"), (10, "≤ 1 %")):
                with pages(bench, folder, count) as (process, readers):
                    begin = [seconds_of(each) for each in (process, node_0)]
                    time.sleep(WINDOW_S)
                    shares = [(seconds_of(each) - before) / WINDOW_S for each, before in zip((process, node_0), begin)]
                yield Figure(f"pchrun-web, {NODES} nodes, readers: {count}", f"{100 * shares[0]:.2f} % of a core",
                             f"node 0 {100 * shares[1]:.2f} %", target=target)
            yield Figure(f"an update of the page, {NODES} ranks", f"{max(reader.largest for reader in readers)} bytes",
                         target="≤ 20 kB")


def agreed(bench, is_watched):
    """The nanoseconds of an agreement, with a reader of pchrun-web or without."""
    with tempfile.TemporaryDirectory(prefix="bench.") as folder, contextlib.ExitStack() as stack:
        port = free_port()
        options = chief_options(NODES, port, folder, "--job", JOB)
        stack.enter_context(running([bench.pchrun, *options], stdout=subprocess.DEVNULL))
        if is_watched:
            while not list(Path(folder).glob("pchrun.*/ctl")):
                time.sleep(0.05)
            stack.enter_context(pages(bench, folder, 1))
        return bench.lines([bench.helper("swarm"), "agree", str(port), *options])[0][1]


def watched(bench):
    """an agreement of 1,024 nodes while a page is open, beside one without a page"""
    pairs = []
    for _ in range(max(20, bench.rounds // 20)):
        took = {is_watched: agreed(bench, is_watched) for is_watched in random.sample([True, False], 2)}
        pairs.append((took[True], took[False]))
    yield paired(f"agreement, {NODES} nodes, a page is open", pairs, "no page", "1")


FIGURES = (web, watched)
