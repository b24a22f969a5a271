# SPDX-License-Identifier: Apache-2.0
"""place: a run's folder and disks in a lab, its ports, clocks and relay, and the journal of all that was done.
A Place outlives the attempts of its run; close() removes everything.
"""

import itertools
import os
import shutil
import subprocess
import time
import uuid
from pathlib import Path

import harness
import lab as laboratory
from attempt import HOST_MARK
from relay import Relay

WAYS = (laboratory.FROM, laboratory.TO)
# Each run has ports of its own, so that no run meets old connections of another one.
PORTS = itertools.cycle(range(20000, 29000, 3))


class Programs:
    """The tested programs, from the same variables as in the tests of behave."""

    def __init__(self):
        self.pchrun = os.environ["PCHRUN_BIN"]
        self.charlm = os.environ["CHARLM"]
        self.helpers = Path(os.environ["PCHRUN_HELPERS"])


class Place:
    def __init__(self, lab, plan, programs):
        self.lab, self.plan = lab, plan
        self.pchrun, self.charlm = programs.pchrun, programs.charlm
        self.pchclient = programs.helpers / "pchclient"
        self.shims = [str(programs.helpers / f"shim_{name}.so") for name in ("clock", "trail")]
        self.mark = uuid.uuid4().hex
        self.begin = time.monotonic()
        self.journal = []
        self.folder = lab.root / f"seed-{plan.seed}"
        self.folder.mkdir()
        self.tmp = self._folder("tmp")
        self.sanitizer = self._folder("sanitizer")
        self.disks = [self.folder / f"disk{n}" for n in range(1 if plan.is_shared else plan.nnodes)]
        for disk in self.disks:
            lab.disk(disk)
        self.port, self.relay_port, self.charlm_port = (next(PORTS) + n for n in range(3))
        self.key = self.folder / "key"
        if plan.has_key:
            subprocess.run([self.pchrun, "--make-key", str(self.key)], check=True,
                           stdout=subprocess.DEVNULL)
        self.relay = Relay(lab.hub, (laboratory.HUB, self.relay_port),
                           (laboratory.address(0), self.port)) if plan.has_proxy else None

    def _folder(self, name):
        path = self.folder / name
        path.mkdir()
        return path

    def note(self, text):
        self.journal.append(text)

    def env_of(self, node, host, trail):
        """trail: where the ranks write down when they train."""
        program = os.path.basename(self.pchrun)
        options = [os.environ.get("ASAN_OPTIONS"),
                   f"handle_segv=0:{harness.SANITIZER_OPTIONS}{self.sanitizer}/asan"]  # the tests send SIGSEGV
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.folder), "LANG": "C.UTF-8",
                "TMPDIR": str(self.tmp), harness.MARK: self.mark, HOST_MARK: str(host),
                "LD_PRELOAD": ":".join(self.shims), "SHIM_FOR": program, "SHIM_TRAIL": str(trail),
                "SHIM_CLOCK": str(self.folder / f"clock{node}"),
                "ASAN_OPTIONS": ":".join(filter(None, options))}

    # --- the network ---

    def cut(self, host, *ways):
        self.lab.filter(self.lab.cut | {(way, host) for way in ways or WAYS}, self.lab.loss)

    def mend(self, host):
        self.lab.filter({cut for cut in self.lab.cut if cut[1] != host}, self.lab.loss)

    def lose(self, percent):
        self.lab.filter(self.lab.cut, percent)

    def heal(self, off=frozenset()):
        """Ends all faults that last. off: the hosts without power, which send nothing any more."""
        self.lab.filter({(way, host) for way in WAYS for host in off}, 0)
        for disk in self.disks:
            (disk / "ballast").unlink(missing_ok=True)
        if self.relay:
            self.relay.delay_s, self.relay.is_stalled, self.relay.splits = 0.0, False, False

    # --- disks and clocks ---

    def disk_of(self, node):
        return self.disks[node % len(self.disks)]

    def fill(self, node):
        """Fills the disk to the last byte, also while other processes write to it."""
        fd = os.open(self.disk_of(node) / "ballast", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            for size in (1 << 20, 4096):
                try:
                    while True:
                        end = os.lseek(fd, 0, os.SEEK_END)
                        os.posix_fallocate(fd, end, size)
                except OSError:
                    pass
        finally:
            os.close(fd)

    def free(self, node):
        (self.disk_of(node) / "ballast").unlink(missing_ok=True)

    def set_clock(self, node, seconds):
        path = self.folder / f"clock{node}"
        path.with_suffix(".new").write_text(str(seconds))
        path.with_suffix(".new").rename(path)

    # --- the end ---

    def keep(self, target):
        """Copies all files that help to explain a failure; not the checkpoints."""
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.folder, target, ignore=shutil.ignore_patterns(
            "step-*", "ballast", "key", "tmp"), ignore_dangling_symlinks=True)
        (target / "journal").write_text("\n".join([str(self.plan), *self.journal, ""]))

    def close(self):
        if self.relay:
            self.relay.close()
        self.lab.remove(self.folder, self.disks)
