# SPDX-License-Identifier: Apache-2.0
"""check.py ends all that it has started, and a busy machine fails no proof."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "behave")]
from check import Tool  # noqa: E402
from harness import wait_until  # noqa: E402


def working_in(folder):
    """The commands of the processes that work below this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if Path(folder) in (process / "cwd").readlink().parents:
                found.append((process / "comm").read_text().strip())
        except OSError:
            continue  # it has ended
    return found


@pytest.mark.skipif(not shutil.which("spin"), reason="needs spin")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_runs(tmp_path, number):
    """The proofs went on, for half an hour each."""
    process = subprocess.Popen([FOLDER / "check.py", "--long", "--only", "ONE_NODE LAST=3 LOSS"], env={
        "PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: {"cc1", "pan"} & {*working_in(tmp_path)} or process.poll() is not None, "a proof, or its compiler")
    finally:
        process.send_signal(number)
        code = process.wait(60)
    assert code == (-number if number == signal.SIGINT else 128 + number)
    wait_until(lambda: working_in(tmp_path) == [], "the end of the processes, which were killed")
    assert list(tmp_path.iterdir()) == []


def test_the_limit_is_of_the_processors_time(tmp_path):
    tool = Tool(tmp_path, 1)
    begin = time.monotonic()
    assert tool("sh", "-c", "sleep 1.5; echo told")[0:2] == (0, "told\n")
    assert time.monotonic() > begin + 1.5
    assert tool("sh", "-c", "while :; do :; done")[0] == -signal.SIGXCPU
