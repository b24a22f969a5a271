# SPDX-License-Identifier: Apache-2.0
"""supervisor: a thread that answers pchrun-web as a pchrun does, with any state that a test wants to see on the page.

It owns a private directory with a control socket. `told` is the next answer to "status", and line() adds a line of the
journal. test_job.py compares the members of its answers with those of a real pchrun.
"""

import contextlib
import json
import socket
import threading
import time
from datetime import datetime, timezone

HOSTS = ["node-a.cluster.example", "node-b.cluster.example"]


def at(seconds=0.0):
    """A time, so many seconds from now, as a supervisor writes it."""
    text = datetime.fromtimestamp(time.time() + seconds, timezone.utc).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def rank(number, node, step=48210, phase="train", state="attached", age=0.3, saved=0):
    is_attached = state == "attached"
    return {"rank": number, "node_rank": node, "state": state, "attached": is_attached, "done": state == "done",
            "phase": phase if is_attached else None, "step": step, "step_age": age if is_attached else None,
            "steps_per_second": 3.1 if is_attached and phase == "train" else None, "saved_step": saved,
            "counts_only": False}


def node(number, host, ranks, state="running", connected=True, notice=False, why=None, unknown=None):
    return {"node_rank": number, "host": host, "state": state, "connected": connected, "notice": notice,
            "ranks_attached": sum(one["attached"] for one in ranks), "ranks_expected": len(ranks), "heard_age": 0.4,
            "why": why, "ranks_unknown_why": unknown}


def job(count=8, name="llama-7b-run12"):
    """A job of `count` ranks on nodes of at most 8, which trains."""
    each = min(count // 2, 8)
    ranks = [rank(i, i // each) for i in range(count)]
    hosts = HOSTS if count // each == 2 else [f"node{i:04}.cluster.example" for i in range(count // each)]
    nodes = [node(i, host, ranks[i * each:(i + 1) * each]) for i, host in enumerate(hosts)]
    return {"ok": True, "host": hosts[0], "chief": f"{hosts[0]}:29400", "command": "python3 train.py", "since": at(-7200),
            "now": at(), "ranks_of": "job", "ranks": ranks, "nodes": nodes,
            "report": {"job": name, "attempt": 3, "generation": 0, "node_rank": 0, "nnodes": len(nodes),
                       "state": "running", "outcome": "unknown", "exit_code": None, "why": "", "notice": None,
                       "round": None, "commit": {"step": 48000, "at": at(-240)}, "save_every_ms": 600000,
                       "first_cause": None}}


def every_kind(told):
    """Eight ranks, each in another condition; then the same again."""
    kinds = [{}, {"step": 48190}, {"age": 40.0, "step": 48100}, {"phase": "eval"}, {"state": "not attached", "step": 0},
             {"state": "gone"}, {"state": "done"}, {"phase": "save"}]
    told["ranks"] = [rank(one["rank"], one["node_rank"], **kinds[i % 8]) for i, one in enumerate(told["ranks"])]
    return told


def with_notice(told, left=75, text="Spot capacity is reclaimed"):
    told["report"]["notice"] = {"source": "gce", "node_rank": 1, "at": at(), "deadline": at(left), "text": text}
    told["nodes"][1]["notice"] = True
    return told


def with_cause(told, text="rank 5: process 4711 ended with exit code 1", output="ValueError: no such shard: train-00017"):
    told["report"]["first_cause"] = {"node_rank": 1, "rank": 5, "host": told["nodes"][1]["host"], "at": at(-30),
                                     "text": text, "stderr": output}
    told["nodes"][1].update(state="lost", connected=False, why="its connection was closed: Connection reset by peer")
    return told


class Supervisor:
    """The socket in the folder `tmp`. End it by close(): pchrun-web then finds no supervisor."""

    def __init__(self, tmp, told):
        self.told = told
        self.lines = []
        self.readers = []
        self.asked = []  # when each answer was asked for, in seconds
        self.lock = threading.Lock()
        self.folder = tmp / "pchrun.fake"
        self.folder.mkdir(mode=0o700)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.folder / "ctl"))
        self.listener.listen()
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()
        self.line("started", commands=len(told["ranks"]), resume_step=0)

    def _serve(self):
        while True:
            asked, _ = self.listener.accept()
            asked.settimeout(10)
            wanted = json.loads(asked.recv(4096) or b"{}").get("do")
            if wanted is None:  # close()
                asked.close()
                return
            with self.lock:
                if wanted == "events":
                    asked.sendall(b"".join(self.lines))
                    self.readers.append(asked)
                    continue
                self.asked.append(time.monotonic())
                text = json.dumps({**self.told, "now": at()}).encode() + b"\n"
            with asked, contextlib.suppress(OSError):  # pchrun-web may end before it has read all
                asked.sendall(text)

    def line(self, event, **members):
        """A line of the journal."""
        report = self.told["report"]
        line = {"ts": at(), "node": 0, "attempt": report["attempt"], "generation": report["generation"], "event": event,
                **members}
        with self.lock:
            self.lines.append(json.dumps(line).encode() + b"\n")
            for reader in self.readers:
                reader.sendall(self.lines[-1])

    def close(self):
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(self.folder / "ctl"))
            last.sendall(b"{}\n")
            self.thread.join()
        for reader in self.readers:
            reader.close()
        self.listener.close()
        (self.folder / "ctl").unlink()
        self.folder.rmdir()
