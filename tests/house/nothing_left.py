#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nothing_left: runs a command and fails if a process that it started is still there afterwards.

usage: nothing_left.py -- command [argument ...]

It becomes the subreaper: a process that loses its parent becomes its child, whatever its session, group or
environment is. Processes that are about to end get a few seconds. It names those that stay, and kills them by
pid. Exit status: the command's, or 1 if that was 0 and a process was left.
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
    """Reaps until no child is left, or until the deadline. Returns whether no child is left."""
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
    while True:  # the children of a killed process become ours
        for pid in children():
            print(f"left behind: process {pid}: {describe(pid)}", flush=True)
            os.kill(pid, signal.SIGKILL)
        if reap(time.monotonic() + PATIENCE):
            return status or 1


if __name__ == "__main__":
    sys.exit(main())
