# SPDX-License-Identifier: Apache-2.0
"""The harness itself: it sees the faults that it looks for. A tool that cannot fail proves nothing."""

import json
import os
import re
import signal
import subprocess

import pytest

import harness
from harness import MARK, Late, Watch, is_alive, marked, signal_set, wait_until


def test_a_daemon_in_another_session_is_found(world):
    job = world.start(world.actor, "daemon", "{", "ignore", "TERM", "say", "ready", "pause", "}")
    daemon = world.events.wait("ready")["pid"]
    assert job.finish() == 0
    assert marked(world.mark) == [daemon]
    os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: not marked(world.mark), "the daemon's end")


def test_a_process_of_another_namespace_is_found(world, namespace):
    job = world.start("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", world.actor,
                      "say", "ready", "pause")
    world.events.wait("ready")
    assert len(marked(world.mark)) == 2
    job.process.kill()
    job.finish()
    wait_until(lambda: not marked(world.mark), "the end of the namespace")


def test_an_orphan_comes_to_the_tests(world):
    world.start(world.actor, "daemon", "{", "say", "orphan", "hold", world.hold("adopted"),
                "}").finish()
    orphan = world.events.wait("orphan")["pid"]
    wait_until(lambda: orphan in harness.children_of(os.getpid()), "the adoption")
    world.go_on("adopted")
    wait_until(lambda: not marked(world.mark), "the orphan's end")


def test_mirror_sees_a_change_of_each_kind(world):
    def look(name, *before, **options):
        path = world.root / name
        assert world.start(*before, world.mirror, path, **options).finish() == 0
        return json.loads(path.read_text())
    plain = look("plain")
    read_end, write_end = os.pipe()
    changed = look("changed", "nohup", "nice", "-n", "3", "prlimit", "--nofile=77:77", "sh", "-c",
                   'umask 077; echo 55 >/proc/self/oom_score_adj; cd /; exec "$@"',
                   "sh", env={"MORE": "1"}, pass_fds=[write_end])
    os.close(read_end)
    os.close(write_end)
    for key in ("nice", "rlimits", "Umask", "SigIgn", "oom_score_adj", "cwd", "env", "fds"):
        assert plain[key] != changed[key], key


def test_a_descriptor_left_open_is_seen(world):
    """A program's own descriptors count, those that it inherited do not; pchrun's count, too."""
    read_end, write_end = os.pipe()
    shim = {"LD_PRELOAD": f"{world.helpers}/shim_fds.so", "FDS_OF": "python3",
            "FDS_LOG": str(world.fds)}
    job = world.start("/usr/bin/python3", "-c", "import os; os.open('/dev/zero', os.O_RDONLY)",
                      env=shim, pass_fds=[read_end])
    job.finish()
    os.close(read_end)
    os.close(write_end)
    text = world.fds_left()[f"fds.{job.pid}"]
    assert re.fullmatch(r"\d+ /dev/zero\n", text), text
    (world.fds / f"fds.{job.pid}").unlink()
    job = world.start(world.pchrun, "--", world.actor, "exit", "0")
    job.finish()
    assert world.fds_left() == {f"fds.{job.pid}": ""}


def test_a_wait_has_a_deadline(world):
    with pytest.raises(Late):
        world.events.wait("never", deadline=0.05)
    job = world.start(world.actor, "pause")
    with pytest.raises(Late):
        job.finish(0.05)
    job.process.kill()
    job.finish()


def test_inotify_tells_writing_from_renaming(world):
    watch = Watch(world.cwd)
    (world.cwd / "a").write_text("x")
    (world.cwd / "a").rename(world.cwd / "b")
    seen = []
    wait_until(lambda: seen.extend(watch.next(0.1)) or any(m & Watch.MOVED_TO for m, _ in seen),
               "the rename")
    watch.close()
    assert (Watch.MODIFY, "a") in seen and (Watch.MOVED_TO, "b") in seen


def test_the_mark_is_in_the_environment_of_programs_alone(world):
    assert MARK not in os.environ
    probe = subprocess.run(["env"], capture_output=True, text=True, env=world.env)
    assert f"{MARK}={world.mark}" in probe.stdout
    assert harness.state_of(os.getpid()) == "R" and is_alive(os.getpid())


def test_the_tests_start_from_defaults():
    """The signals do not depend on the runner. Python itself ignores these two, and restores them in its children."""
    assert signal_set(os.getpid(), "SigIgn") <= {signal.SIGPIPE, signal.SIGXFSZ}
    assert not signal_set(os.getpid(), "SigBlk")


def test_only_a_checkers_own_warnings_are_no_report(tmp_path):
    warning = "==2==Unable to get registers from thread 3.\n"
    leak = warning + "==2==ERROR: LeakSanitizer: detected memory leaks\n"
    (tmp_path / "asan.2").write_text(warning)
    assert harness.checker_reports(tmp_path) == []
    (tmp_path / "asan.4").write_text(leak)
    assert harness.checker_reports(tmp_path) == [leak]
