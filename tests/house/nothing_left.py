#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nothing_left: runs a command and fails if a process that it started is still there afterwards.

usage: nothing_left.py -- command [argument ...]

It becomes the subreaper, so that whoever loses its parent becomes its child, whatever session,
group or environment it gave itself. Processes on their way out get a few seconds; those that stay
are named and killed, by pid. Exit status: the command's, or 1 if it was 0 and something was left.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 3.0  # seconds


def become_subreaper():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit(f"nothing_left: cannot become a subreaper: {os.strerror(ctypes.get_errno())}")


def children():
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def reap(deadline):
    """Reaps until no child is left, or until the deadline; says whether none is left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            left = deadline - time.monotonic()
            if left <= 0 or not signal.sigtimedwait({signal.SIGCHLD}, left):
                return False


def describe(pid):
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return b" ".join(words).decode(errors="replace").strip() or "?"
    except OSError:
        return "?"


def main():
    command = sys.argv[2:]
    if sys.argv[1:2] != ["--"] or not command:
        sys.exit(__doc__.split("\n\n")[1])
    become_subreaper()
    status = subprocess.run(command, check=False).returncode
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    if reap(time.monotonic() + PATIENCE):
        return status if status >= 0 else 128 - status
    while True:  # killing one may hand us its children
        for pid in children():
            print(f"left behind: process {pid}: {describe(pid)}", flush=True)
            os.kill(pid, signal.SIGKILL)
        if reap(time.monotonic() + PATIENCE):
            return status or 1


if __name__ == "__main__":
    sys.exit(main())
