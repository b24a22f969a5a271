# SPDX-License-Identifier: Apache-2.0
"""Training processes that a test leads step by step: pchrun over pchclients.

Each rank takes its commands from a FIFO of its own and answers into another one; its commands are listed in
tests/helpers/pchclient.c. The test holds both ends of both FIFOs open, so that nothing blocks here. A client
whose test has gone reads the end of its input and ends.
"""

import fcntl
import json
import os
import re
import select
import signal
import termios
import time

from harness import DEADLINE, Late, is_blocked, wait_until

# How the client is started: as pchrun's child, or below a shell that stays.
CLIENT = '"$0" <"$1/in.$PCH_RANK" >"$1/out.$PCH_RANK"'
CHILD = f"exec {CLIENT}"
GRANDCHILD = f"{CLIENT}; exit $?"
# One command that starts all ranks, as torchrun and mpirun do; pchrun is not told how many.
LAUNCHER = ('for r in $(seq 0 $(($2 - 1))); do RANK=$r LOCAL_RANK=$r WORLD_SIZE=$2 '
            'LOCAL_WORLD_SIZE=$2 "$0" <"$1/in.$r" >"$1/out.$r" & done; wait')


class Client:
    """One rank. Every command is answered by one line that begins with its name."""

    def __init__(self, folder, rank):
        self.rank = rank
        self.step = 0
        self.text = b""
        self.fds = []
        for name in ("in", "out"):
            path = folder / f"{name}.{rank}"
            os.mkfifo(path)
            self.fds.append(os.open(path, os.O_RDWR))

    def tell(self, command):
        """Gives a command that may take its time; expect() has the answer."""
        os.write(self.fds[0], os.fsencode(f"{command}\n"))

    def line(self, deadline=DEADLINE):
        end = time.monotonic() + deadline
        while b"\n" not in self.text:
            ready, _, _ = select.select([self.fds[-1]], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise Late(f"rank {self.rank} has not answered within {deadline:g} s")
            self.text += os.read(self.fds[-1], 65536)
        line, self.text = self.text.split(b"\n", 1)
        return os.fsdecode(line)

    def expect(self, pattern):
        line = self.line()
        found = re.fullmatch(pattern, line)
        assert found, f"rank {self.rank} says {line!r}, not {pattern!r}"
        return found

    def ask(self, command, pattern):
        self.tell(command)
        return self.expect(pattern)

    def is_silent(self):
        """Has the client not answered yet?"""
        return not self.text and not select.select([self.fds[-1]], [], [], 0)[0]

    def has_read(self):
        """Has the client read all its commands?"""
        return fcntl.ioctl(self.fds[0], termios.FIONREAD, b"\0\0\0\0") == b"\0\0\0\0"

    def rest(self):
        """Takes all answers that the test has not read."""
        while select.select([self.fds[-1]], [], [], 0)[0]:
            self.text += os.read(self.fds[-1], 65536)
        text, self.text = self.text, b""
        return os.fsdecode(text)

    def open(self, options="", resume=0):
        """Attaches, to resume at that step; returns the path of the checkpoint to resume from."""
        self.step = resume
        return self.ask(f"open {options}", rf"open supervised=1 same=1 resume={resume} path=(.*)")[1]

    def train(self, to):
        """Makes steps at which pchrun asks nothing of the client."""
        while self.step < to:
            self.step += 1
            self.ask(f"step {self.step}", f"step {self.step} continue")

    def reach(self, save_step):
        """Trains to the save step, and is asked to save there."""
        self.train(save_step - 1)
        self.step = save_step
        self.ask(f"step {save_step}", f"step {save_step} save")

    def end_input(self):
        """Ends the client after its last command."""
        if self.fds:
            os.close(self.fds.pop(0))

    def close(self):
        while self.fds:
            os.close(self.fds.pop())


class Training:
    """A pchrun with `n` clients, ranks `first` to `first` + n - 1, and what it says."""

    def __init__(self, world, *options, n=1, first=0, start=CHILD, wrap=(), env=None):
        self.folder = world.root / f"training{len(world.jobs)}"
        self.folder.mkdir()
        self.dir = world.root / "checkpoints"
        self.dir.mkdir(exist_ok=True)
        self.shelf = None
        self.report_path = self.folder / "report.json"
        self.clients = [Client(self.folder, rank) for rank in range(first, first + n)]
        count = [] if start is LAUNCHER else ["-n", n]
        self.job = world.start(
            *wrap, world.pchrun, "-v", "--checkpoint-dir", self.dir, "--report", self.report_path, *count,
            *options, "--", "sh", "-c", start, world.pchclient, self.folder, n, env=env)

    def path(self, step, rank):
        """The path of a checkpoint that exists, because a report of a missing one counts as a failed save. The
        file is beside the records, whose folder tests remove. With `shelf` the file is in that folder, and the
        test makes it."""
        path = (self.shelf or self.folder.parent) / f"step-{step}.rank-{rank}"
        if not self.shelf:
            path.touch()
        return str(path)

    def report(self):
        """The report as it is now. A helper of pchrun writes the first one, which takes some time."""
        wait_until(self.report_path.exists, "the first report")
        return json.loads(self.report_path.read_text())

    def said(self, pattern, count=1, deadline=DEADLINE):
        """Waits until the log has matched the pattern `count` times, and returns the last match."""
        try:
            return wait_until(
                lambda: len(list(re.finditer(pattern, self.job.err, re.M))) >= count
                and list(re.finditer(pattern, self.job.err, re.M)), pattern, deadline)[count - 1]
        except Late as late:
            raise Late(f"{late}; it said: {self.job.err}") from None

    def settle(self):
        """Waits until this pchrun has acted on all its messages."""
        wait_until(lambda: is_blocked(self.job.pid), "pchrun to wait for what comes")

    def pid(self, rank):
        return int(self.said(rf"attach: rank {rank} of \d+ is process (\d+)$")[1])

    def expect_waiting(self, rank):
        """The rank waits for the answer to its last command."""
        wait_until(lambda: is_blocked(self.pid(rank)), f"rank {rank} to wait")
        assert next(client for client in self.clients if client.rank == rank).is_silent()

    def kill(self, rank):
        os.kill(self.pid(rank), signal.SIGKILL)

    def open(self, resume=0):
        return [client.open(resume=resume) for client in self.clients]

    def train(self, to):
        for client in self.clients:
            client.train(to)

    def notice(self, number=signal.SIGTERM, said=None):
        self.job.send(number)
        if said:
            self.said(said)

    def agreed(self, rounds=1):
        """The save step of that round, as soon as it is decided."""
        return int(self.said(r"save: every rank saves step (\d+)", rounds)[1])

    def reach(self, save_step):
        for client in self.clients:
            client.reach(save_step)

    def saved(self, step, then, clients=None):
        """Every rank says that its save is durable, and is answered once all have."""
        clients = self.clients if clients is None else clients
        for client in clients:
            client.tell(f"saved {step} {self.path(step, client.rank)}")
        for client in clients:
            client.expect(f"saved {step} {then}")

    def serve(self, step, then):
        """Every rank trains to the save step, and saves there."""
        self.reach(step)
        self.saved(step, then)

    def save(self, then, rounds=1):
        """Saves in the round of that number, from its decision to its end; returns the save step."""
        step = self.agreed(rounds)
        self.serve(step, then)
        return step

    def leave(self, rounds=1):
        """The round in which all save and leave, and the end; returns the save step."""
        step = self.save("exit", rounds)
        assert self.result() == (42, "preempted", step)
        return step

    def reach_by_notice(self):
        """A notice, up to the save step, which is returned."""
        self.notice()
        step = self.agreed()
        self.reach(step)
        return step

    def preempt(self):
        """A notice from beginning to end; returns the save step."""
        self.notice()
        return self.save("exit")

    def done(self):
        for client in self.clients:
            client.ask("done", "done")

    def complete(self, step=None):
        """All ranks are done: the job is completed, with a commit of that step."""
        self.done()
        assert self.result() == (0, "completed", step)

    def finish(self, deadline=DEADLINE):
        """Lets the clients come to their end, and returns pchrun's exit code."""
        for client in self.clients:
            client.end_input()
        code = self.job.finish(deadline)
        self.close()
        return code

    def close(self):
        for client in self.clients:
            client.close()

    def ended(self):
        """As result(), of a job that ends while its ranks have more to do."""
        self.job.finish()
        return self.result()

    def result(self, deadline=DEADLINE):
        """(exit code, outcome, committed step or None): what a scheduler and its user see."""
        code = self.finish(deadline)
        report = self.report()
        assert report["exit_code"] == code and report["state"] == "done"
        return code, report["outcome"], report["commit"] and report["commit"]["step"]
