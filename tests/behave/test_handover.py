# SPDX-License-Identifier: Apache-2.0
"""The pchrun of one node is linked statically; for several nodes it executes another program.

The user must not notice it, except for the time. Skipped where one program serves both.
"""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from nodes import Nodes
from test_transparency import Pictures, look  # noqa: F401 (a fixture)

OWN_ERROR, PREEMPTED = 125, 42
STATIC, DYNAMIC = Path(os.environ["PCHRUN_BIN"]), Path(os.environ["PCHRUN_DYNAMIC"])
# From the folder of the first to the second, as they are installed.
TO_CLUSTER = os.environ.get("PCHRUN_TO_CLUSTER", "../libexec/pchrun/pchrun")
IGN = signal.SIG_IGN

pytestmark = pytest.mark.skipif(STATIC == DYNAMIC, reason="this build has one pchrun for both")


def install(root):
    """Both as they are installed below a folder, and pchrun-watch; the path of pchrun."""
    bin_folder = root / "usr/bin"
    cluster = Path(os.path.normpath(bin_folder / TO_CLUSTER))
    if root not in cluster.parents:
        pytest.skip(f"the other is installed at {cluster}")
    for source, target in ((STATIC, bin_folder / "pchrun"), (DYNAMIC, cluster),
                           (STATIC.parent / "pchrun-watch", bin_folder / "pchrun-watch")):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    return bin_folder / "pchrun"


def two_nodes(world, pchrun):
    """Nodes of a job of two, started with this pchrun."""
    world.pchrun = str(pchrun)
    return Nodes(world, 2)


def test_one_node_stays_and_several_become_the_other(world):
    """ps, pgrep and killall find both by the one name."""
    job = world.act("say", "alone", "pause")
    world.events.wait("alone")
    assert os.readlink(f"/proc/{job.pid}/exe") == str(STATIC)
    two = Nodes(world, 2)
    two.start_all("pause")
    assert os.readlink(f"/proc/{two.jobs[1].pid}/exe") == str(DYNAMIC)
    for pid in (job.pid, two.jobs[1].pid):
        assert Path(f"/proc/{pid}/comm").read_text() == "pchrun\n"
        assert Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] == str(STATIC).encode()
    for started in (job, two.jobs[0]):
        started.send(signal.SIGTERM)
    assert job.finish() == PREEMPTED
    assert two.finish() == PREEMPTED


def mask_all():
    signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))


def ignore_some():
    for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR1):
        signal.signal(number, IGN)


def close_input():
    os.close(0)


def close_all_streams():
    os.closerange(0, 3)


@pytest.mark.parametrize("before", [None, mask_all, ignore_some, close_input, close_all_streams],
                         ids=lambda before: before.__name__ if before else "nothing")
def test_the_command_sees_what_it_would_have_seen(world, look, before):  # noqa: F811
    """The first program undoes all changes that it makes to itself."""
    two = Nodes(world, 2)
    two.jobs[1] = two.launch(1, "true")
    # The plain picture is taken first; node 0 begins when its turn has come.
    pictures = look(options=["--cluster-nodes", two.entries, "--node-rank", "0", *two.options],
                    preexec_fn=before, restore_signals=False)
    pictures.check()
    assert two.jobs[1].finish() == 0


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_a_signal_between_the_two(world):
    """It comes with the call that puts the one in the place of the other, the first that strace counts;
    it is a notice like any."""
    two = Nodes(world, 2)
    trace = ["strace", "-o", "/dev/null", "-e", "trace=execve", "-e", "inject=execve:signal=SIGTERM:when=1"]
    job = world.start(*trace, world.pchrun, "--cluster-nodes", two.entries, "--node-rank", "0",
                      *two.options, "--", world.actor, "say", "started")
    two.jobs[1] = two.launch(1, world.actor, "say", "started")
    assert two.jobs[1].finish() == PREEMPTED
    assert job.finish() == PREEMPTED
    assert "notice: SIGTERM" in job.err and not world.events.all()


@pytest.mark.parametrize("count", [1, 2])
def test_a_mask_that_was_not_handed_over(world, count):
    """A variable that looks like it, and is another process's, changes nothing."""
    two = Nodes(world, 2)
    options = ["--cluster-nodes", two.entries, "--node-rank", "0", *two.options] if count == 2 else []
    two.jobs = {1: two.launch(1, "true")} if count == 2 else {}
    job = world.start("env", "_PCHRUN_MASK=1:ffffffffffffffff", world.pchrun, *options, "--",
                      "grep", "SigBlk", "/proc/self/status")
    assert job.finish() == 0
    assert job.out == f"SigBlk:\t{0:016x}\n"
    assert all(other.finish() == 0 for other in two.jobs.values())


def test_sigchld_that_was_ignored_is_reset_by_both(world):
    two = Nodes(world, 2)
    two.jobs[1] = two.launch(1, "true")
    job = world.start("env", "--ignore-signal=CHLD", world.pchrun, "--cluster-nodes", two.entries,
                      "--node-rank", "0", *two.options, "--", world.actor, "exit", "0")
    assert job.finish() == 0
    assert two.jobs[1].finish() == 0


def test_as_it_is_installed(world):
    """The other is found from where pchrun lies, wherever all of it has been moved, and finds
    pchrun-watch from there; neither lies in PATH."""
    two = two_nodes(world, install(world.root))
    notice = world.root / "notice"
    two.options += ["--notices", f"file:{notice}"]
    two.start_all("pause")
    notice.write_text("")
    assert two.finish() == PREEMPTED
    assert two.agreed()["outcome"] == "preempted_unknown"


def test_behind_links_into_a_wheel(world):
    """An installer (uv, with --link-mode=symlink) may leave a wheel's files in its cache, where what it puts
    into two folders of the environment lies in two others."""
    if TO_CLUSTER.startswith("/"):
        pytest.skip(f"the other is installed at {TO_CLUSTER}")
    wheel, environment = world.root / "pch.data", world.root / "environment/bin"
    cluster = wheel / "data" / TO_CLUSTER.removeprefix("../")
    for source, target in ((STATIC, wheel / "scripts/pchrun"), (DYNAMIC, cluster),
                           (STATIC.parent / "pchrun-watch", wheel / "scripts/pchrun-watch")):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    environment.mkdir(parents=True)
    (environment / "pchrun").symlink_to(wheel / "scripts/pchrun")
    notice = world.root / "notice"
    two = two_nodes(world, environment / "pchrun")
    two.options += ["--notices", f"file:{notice}"]
    two.start_all("pause")
    notice.write_text("")
    assert two.finish() == PREEMPTED


def test_the_other_is_missing(world):
    """One file copied by hand. It still serves one node."""
    pchrun = world.root / "pchrun"
    shutil.copy(STATIC, pchrun)
    assert world.start(pchrun, "--", world.actor, "exit", "3").finish() == 3
    job = two_nodes(world, pchrun).start(0, "say", "started")
    assert job.finish() == OWN_ERROR
    assert f"{world.root}/{TO_CLUSTER}" in job.err or TO_CLUSTER.startswith("/")
    assert "install pchrun as a whole" in job.err_lines[-1] and "not there" in job.err_lines[-1]
    assert not world.events.all()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_other_is_another_users(world):
    """pchrun was copied into a folder below /tmp: another user may own the file in the other program's place."""
    pchrun = install(world.root)
    os.chown(Path(os.path.normpath(pchrun.parent / TO_CLUSTER)), 12345, 12345)
    job = two_nodes(world, pchrun).start(0, "say", "started")
    assert job.finish() == OWN_ERROR
    assert "belongs to another user" in job.err_lines[-1]
    assert not world.events.all()


def test_the_other_cannot_be_executed(world):
    """Of another architecture, say."""
    pchrun = install(world.root)
    cluster = Path(os.path.normpath(pchrun.parent / TO_CLUSTER))
    cluster.write_bytes(b"\x7fELF, but no more")
    job = two_nodes(world, pchrun).start(0, "say", "started")
    assert job.finish() == OWN_ERROR
    assert "cannot be executed" in job.err_lines[-1] and "Exec format error" in job.err_lines[-1]
    assert not world.events.all()


def test_what_needs_no_other_node_needs_no_other_program(world):
    """The values of several nodes are printed, and their key is made, by what is there."""
    pchrun = world.root / "pchrun"
    shutil.copy(STATIC, pchrun)
    for words in (["--nnodes", "2", "--cluster-chief", "n0", "--node-rank", "1", "--cluster-insecure",
                   "--print-config"], ["--make-key", world.root / "key"], ["--help"], ["--version"]):
        assert world.start(pchrun, *words).finish() == 0, words


def test_the_static_one_loads_nothing(world):
    """A static program saves the loader's time."""
    said = subprocess.run(["readelf", "-dl", STATIC], capture_output=True, text=True, check=True)
    assert "INTERP" not in said.stdout and "NEEDED" not in said.stdout
