# SPDX-License-Identifier: Apache-2.0
"""ledger: a state directory that no pchrun has written, with any past of a job that a test wants to look at."""

import json
from datetime import datetime, timezone


def fnv(text):
    found = 0xcbf29ce484222325
    for byte in text.encode():
        found = (found ^ byte) * 0x100000001b3 % 2**64
    return found


class Ledger:
    """A state directory as node 0 writes it. Times are in seconds; `at` is that of the next line."""

    def __init__(self, folder, job, at=1_800_000_000):
        self.folder = folder
        self.job, self.at, self.attempt = job, at, 0
        self.marks, self.journal = [], []

    def mark(self, kind, step, **more):
        members = {"at_ms": round(1000 * self.at), "mono_ms": round(1000 * self.at), "attempt": self.attempt, "generation": 0,
                   "mark": kind, "step": step, **more}
        text = json.dumps(members, ensure_ascii=False)[:-1]
        self.marks.append(f'{text}, "sum": "{fnv(text):016x}"}}\n')

    def event(self, event, /, node=0, **more):
        ts = datetime.fromtimestamp(self.at, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.journal.append((node, {"ts": ts, "node": node, "attempt": self.attempt, "generation": 0, "event": event, **more}))

    def begin(self, step):
        self.attempt += 1
        self.mark("starting", step, job=self.job)
        self.at += 10
        self.mark("training", step)

    def end(self, outcome, step):
        self.mark("stopping", step)
        self.at += 2
        self.mark("ended", step, outcome=outcome)

    def write(self):
        self.folder.mkdir(exist_ok=True)
        (self.folder / "ledger").write_text("".join(self.marks))
        for node, event in self.journal:
            with (self.folder / f"events.{node}.jsonl").open("a") as file:
                file.write(json.dumps(event) + "\n")
        return self.folder
