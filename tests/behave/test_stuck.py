# SPDX-License-Identifier: Apache-2.0
"""Processes that cannot be killed: stuck in the kernel, or with another user by now. The log names them, and
pchrun does not wait for them for ever."""

import json
import os
import re
import signal
import time

import pytest

from deadfs import dead  # noqa: F401
from harness import (DEADLINE, SLACK, descendants_of, group_of, is_alive, kill_quietly, marked, read_proc, state_of,
                     wait_until)

SHORT = ["--grace", "1s", "--stop-term-wait", "300ms", "--stop-kill-wait", "500ms"]


def test_a_command_that_is_stuck_in_the_kernel(world, dead):
    """The command reads from a dead server. No signal reaches it, and pchrun still leaves in time."""
    job = world.launch(*SHORT, "--", "sh", "-c", f"exec cat {dead.path}/x")
    assert dead.asked.wait(DEADLINE)
    (stuck,) = [pid for pid in marked(world.mark) if pid != job.pid]
    wait_until(lambda: state_of(stuck) in "SD", "its wait")
    start = time.monotonic()
    job.end_by(signal.SIGTERM, 42)
    assert time.monotonic() - start < 1 + SLACK
    assert is_alive(stuck) and state_of(stuck) == "D"
    assert re.search(rf"left: still there: {stuck} \(cat\) D in \w+$", job.err, re.M), job.err
    assert "processes that cannot be killed are left behind" in job.err


def test_a_doctor_who_is_stuck_in_the_kernel(world, dead):
    """Three checks look into the dead file system. None of them holds pchrun, or the reader of its output."""
    job = world.start("sh", "-c", '"$@" | cat', "sh", world.pchrun, "--doctor", "--checkpoint-dir", dead.path / "x",
                      "--", "true")
    assert dead.asked.wait(DEADLINE)
    start = time.monotonic()
    assert job.finish() == 0
    assert time.monotonic() - start < 8 + SLACK
    assert re.findall(r"^bad +(\S+) +no answer within 8 s$", job.out, re.M) == ["grace", "state_dir", "checkpoints"]


def test_checkpoints_on_a_dead_file_system(world, dead):
    """Before it resumes, node 0 looks whether the checkpoint is still there. Node 0 waits no longer than 10 s."""
    state = world.root / ".pchrun"
    state.mkdir()
    own = {"schema": 1, "job": "pchrun", "attempt": 1}
    steps = (10, 20)
    (state / "commit.json").write_text(json.dumps(
        {**own, "attempts_without_commit": 0, "commits": [{"step": step, "attempt": 1, "at_ns": 1} for step in steps]}))
    (state / "ranks.0.json").write_text(json.dumps(
        {**own, "saves": [{"step": step, "ranks": [{"rank": 0, "path": f"{dead.path}/{step}"}]} for step in steps]}))
    start = time.monotonic()
    job = world.launch(*SHORT, "--checkpoint-dir", world.root, "--", "sh", "-c", "echo resumes at $PCH_RESUME_STEP")
    assert job.finish() == 0
    assert dead.asked.is_set() and time.monotonic() - start < 10 + SLACK
    assert "cannot tell whether the checkpoint of step 20 is still there" in job.err
    assert "resumes at 20" in job.out and "left: still there" not in job.err


def test_a_leftover_that_is_stuck_in_the_kernel(world, dead):
    """The command's own code is kept."""
    job = world.launch(*SHORT, "--", "sh", "-c", f"cat {dead.path}/x & sleep 0.2; exit 6")
    assert dead.asked.wait(DEADLINE)
    assert job.finish() == 6
    assert re.search(r"left: still there: \d+ \(cat\) D in \w+$", job.err, re.M), job.err


def test_no_more_than_a_moment_stuck(world, dead):
    """The server comes back while pchrun waits for the killed processes: then none is left, and none is named."""
    job = world.launch("--grace", "1s", "--stop-term-wait", "300ms", "--", "sh", "-c",
                       f"exec cat {dead.path}/x")
    assert dead.asked.wait(DEADLINE)
    job.send(signal.SIGTERM)
    wait_until(lambda: "sending SIGKILL" in job.err, "the kill")
    dead.end()
    dead.end = lambda: None
    assert job.finish() == 42
    assert "still there" not in job.err


@pytest.mark.killed
def test_what_a_killed_pchrun_has_left_is_stuck_in_the_kernel(world, dead):
    """The next start waits for the process's end, because the process holds memory and ports; but not for ever."""
    job = world.launch("--", "sh", "-c", f"setsid cat {dead.path}/x & exec sleep 1000")
    assert dead.asked.wait(DEADLINE)
    (stuck,) = [pid for pid in marked(world.mark) if pid in descendants_of(job.pid) and b"cat" in read_proc(pid, "comm")]
    group = group_of(stuck) or ""
    job.kill()
    if "/pchrun." not in group:
        pytest.skip("no control group of version 2 is ours to divide")
    # The kernel kills the command with its pchrun, but a moment later. The next start is to find one process.
    wait_until(lambda: list(marked(world.mark)) == [stuck], "the command's end")
    start = time.monotonic()
    job = world.launch(*SHORT, "--", "true")
    assert job.finish() == 0 and time.monotonic() - start > 0.5
    assert re.search(rf"start: killed the processes that a dead pchrun had left behind: 1 process of pchrun {world.jobs[0].pid}; "
                     r"after \d+ ms these have not ended: 1 process of .*; the commands start all the same", job.err), job.err
    assert is_alive(stuck)


# Root, but without the power over other users' processes.
POWERLESS = ["setpriv", "--bounding-set", "-kill", "--inh-caps", "-kill"]
OTHER = ["setpriv", "--reuid", "65534", "--clear-groups"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("group", ["off", "auto"])
def test_who_has_changed_its_user(world, group):
    """pchrun cannot signal the process any more, and logs that. With a control group it can kill it. The test finds
    the process below pchrun: in a container not even root may read the environment of another user's process."""
    job = world.start(*POWERLESS, world.pchrun, *SHORT, "--stop-cgroup", group, "--", *OTHER, "sleep",
                      "60")
    commands = wait_until(
        lambda: [pid for pid in descendants_of(job.pid) if read_proc(pid, "comm") == b"sleep\n"], "the command")
    job.end_by(signal.SIGTERM, 42)
    if "still there" in job.err:
        assert re.search(rf"still there: {commands[0]} \(sleep\) S.*, which now runs as user 65534, "
                         "so pchrun may not kill it$", job.err, re.M), job.err
    else:
        assert group == "auto" and not is_alive(commands[0])
    for pid in commands:
        kill_quietly(pid)
    wait_until(lambda: not any(map(is_alive, commands)), "its end")
