# SPDX-License-Identifier: Apache-2.0
"""A launcher of the kind of torchrun, for the tests.

    launcher.py COUNT PATIENCE COMMAND [ARGUMENT ...]

Starts the command COUNT times, each in a session of its own, with RANK and similar variables. On
SIGTERM it sends SIGTERM to all and kills those that are left after PATIENCE seconds. It ends with 0
if all commands did, else with 1.
"""

import os
import signal
import subprocess
import sys


def start(rank, count, command):
    ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    env = {**os.environ, **{name: str(value) for name, value in ranks.items()}}
    return subprocess.Popen(command, env=env, start_new_session=True)


def main():
    count, patience, command = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    workers = [start(rank, count, command) for rank in range(count)]

    def on_term(number, frame):
        for worker in workers:
            worker.terminate()
        for worker in workers:
            try:
                worker.wait(patience)
            except subprocess.TimeoutExpired:
                worker.kill()

    signal.signal(signal.SIGTERM, on_term)
    sys.exit(int(any([worker.wait() != 0 for worker in workers])))


main()
