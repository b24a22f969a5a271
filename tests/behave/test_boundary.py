# SPDX-License-Identifier: Apache-2.0
"""What comes from outside must not stop the supervision: CHECKLIST.md lines 32 (in part), 36-38."""

import fcntl
import json
import os
import resource
import signal
import socket
import stat
import sys
import time
from pathlib import Path

import pytest

from harness import children_of, is_alive, stat_fields, status_of, wait_until

CLIENT = Path(__file__).with_name("client.py")


def full_pipe():
    """A pipe that takes no byte more; returns (read end, write end)."""
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(write_end, False)
    try:
        while True:
            os.write(write_end, b"x" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(write_end, True)
    return read_end, write_end


# --- line 36: the log -----------------------------------------------------------------------------

@pytest.mark.parametrize("level", ["-q", "-v", "-vv"])
def test_line_36_standard_error_is_a_full_pipe(world, level):
    """`pchrun … 2>&1 | less`, and nobody looks: a supervisor that blocks in write() is deaf to the
    notice and to the program's end."""
    read_end, write_end = full_pipe()
    job = world.act("record", "TERM", "say", "ready", "until", "TERM", "exit", "0",
                    options=[level, "--grace", "20s"], stderr=write_end)
    os.close(write_end)
    world.events.wait("ready")
    os.kill(job.pid, signal.SIGTERM)
    assert job.finish(10) == 42
    os.close(read_end)


def test_line_36_an_error_on_a_full_pipe(world):
    """Nor may the last word, why the command could not be started, hold us."""
    read_end, write_end = full_pipe()
    job = world.launch("--", "/no/such/command", stderr=write_end)
    os.close(write_end)
    assert job.finish(10) == 127
    os.close(read_end)


def test_line_36_dropped_lines_are_counted(world):
    """When the reader is back, it is told how much it has missed."""
    read_end, write_end = full_pipe()
    job = world.act("record", "USR1", "record", "TERM", "say", "ready", "until", "USR1", "say",
                    "first", "until", "TERM", options=["-vv", "--grace", "20s"], stderr=write_end)
    os.close(write_end)
    world.events.wait("ready")
    job.send(signal.SIGUSR1)
    world.events.wait("first")
    os.set_blocking(read_end, False)
    text = os.read(read_end, 65536)
    assert not text.strip(b"x")
    job.send(signal.SIGTERM)
    assert job.finish() == 42
    assert b"dropped" in os.read(read_end, 65536)
    os.close(read_end)


def test_line_36_one_line_is_one_write(world):
    """Lines of several writers do not mix when each is one write of at most PIPE_BUF bytes. A
    datagram socket shows each write by itself."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    job = world.launch("-vv", "--", world.actor, "exit", "3", "x" * 6000, stderr=theirs)
    theirs.close()
    assert job.finish() == 3
    job = world.launch("-vv", "--", "/" + "n" * 6000, stderr=ours)
    job.finish()
    ours.setblocking(False)
    writes = []
    try:
        while data := ours.recv(1 << 20):
            writes.append(data)
    except BlockingIOError:
        pass
    ours.close()
    for data in writes:
        assert data.endswith(b"\n") and data.count(b"\n") == 1 and len(data) <= 4096


def test_line_36_standard_error_closed(world):
    """Nobody wants to hear: no reason to fail, nor to write the log into another file."""
    job = world.start("sh", "-c", 'exec "$@" 2>&-', "sh", world.pchrun, "-vv", "--report",
                      world.root / "report", "--", world.actor, "exit", "3")
    assert job.finish() == 3
    json.loads((world.root / "report").read_text())


def test_line_36_control_characters_do_not_reach_the_terminal(world):
    """The name of a command, a peer's text: an escape sequence in the log moves the cursor."""
    job = world.launch("--", "/no/\x1b[2Jsuch\ncommand")
    assert job.finish() == 127
    assert "\x1b" not in job.err
    assert all(line.startswith("pchrun") for line in job.err_lines)


# --- lines 37 and 38: the program's socket and page -----------------------------------------------

@pytest.fixture
def held(world):
    """A pchrun over a waiting actor, and the path of its socket."""
    def start(*options, **more):
        job = world.act("record", "all", "say", "ready", "until", "USR1", "exit", "5",
                        options=options, **more)
        actor = world.events.wait("ready")["pid"]
        entries = Path(f"/proc/{actor}/environ").read_bytes().split(b"\0")
        job.socket = Path([e for e in entries if e.startswith(b"PCH_SOCKET=")][0][11:].decode())
        return job
    return start


def end(job):
    job.send(signal.SIGUSR1)
    assert job.finish() == 5


def cpu_ticks(pid):
    """Processor time so far, in hundredths of a second."""
    return sum(map(int, stat_fields(pid)[11:13]))


def connect(path):
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(str(path))
    return client


def test_line_37_the_socket_is_private(held):
    """Whoever can connect can end the job."""
    job = held(preexec_fn=lambda: os.umask(0))
    assert not stat.S_IMODE(job.socket.stat().st_mode) & 0o077
    assert stat.S_IMODE(job.socket.parent.stat().st_mode) == 0o700
    end(job)
    assert not job.socket.exists() and not job.socket.parent.exists()


def test_line_37_two_jobs_in_one_folder(world, held):
    """Neither takes the other's socket."""
    one, two = held(), held()
    assert one.socket != two.socket
    end(one)
    assert two.socket.exists()
    end(two)


@pytest.mark.parametrize("long", ["TMPDIR", "--run-dir"])
def test_line_37_a_path_too_long_for_a_socket(world, held, long):
    """108 bytes and no more: a scratch folder's name is easily longer. What was asked for by name
    is refused; what was only tried is passed over."""
    folder = world.root / ("d" * 120)
    folder.mkdir()
    if long == "TMPDIR":
        job = held(env={"TMPDIR": str(folder)})
        end(job)
    else:
        job = world.launch("--run-dir", folder, "--", world.actor, "say", "started")
        assert job.finish() == 125
        assert job.err_lines and not world.events.all("started")


GARBAGE = {
    "nothing": b"", "text": b"GET / HTTP/1.1\r\n\r\n", "zeros": bytes(64),
    "magic and too long": b"\x50\x50\x01\x01\xff\xff\xff\xff" + bytes(64),
    "a wrong version": b"\x50\x50\x63\x01\x00\x00\x00\x00",
    "a wrong type": b"\x50\x50\x01\xee\x00\x00\x00\x00",
    "a short ATTACH": b"\x50\x50\x01\x01\x02\x00\x00\x00\x00\x00",
    "half a header": b"\x50\x50\x01",
    "random": bytes((i * 167 + 13) % 256 for i in range(4096)),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
def test_line_37_garbage_on_the_socket(held, data):
    """Versions and lengths are checked before anything is looked at."""
    job = held()
    with connect(job.socket) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        client.settimeout(10)
        try:
            while client.recv(4096):
                pass
        except ConnectionResetError:
            pass
    end(job)


def test_line_37_more_connections_than_descriptors(world, held):
    """accept() fails with EMFILE for as long as they stay: a loop that only tries again burns a
    whole processor, and one that gives up is deaf."""
    job = held(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
    clients = []
    for _ in range(60):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.setblocking(False)
        try:
            client.connect(str(job.socket))
        except BlockingIOError:
            pass
        clients.append(client)
    job.send(signal.SIGUSR2)  # forwarded all the same
    world.events.wait("signal", name="USR2")
    before = cpu_ticks(job.pid)
    time.sleep(0.5)  # the span that is measured
    assert cpu_ticks(job.pid) - before < 20
    for client in clients:
        client.close()
    end(job)


def test_line_38_an_attached_process_that_does_harm(world):
    """The page is written by an untrusted, perhaps dead process: it can neither shrink the memory
    under us (SIGBUS) nor write what is ours, and no step that it stores makes us stumble."""
    out = world.root / "client.json"
    job = world.launch("-n", "1", "--", sys.executable, "-I", CLIENT, out)
    assert job.finish() == 5
    told = json.loads(out.read_text())
    assert told["welcome"] == 65 and told["fds"] >= 1
    assert told["shrink"] and told["grow"], told
    assert told["write_supervisor_page"], told
    assert told["write_own_page"] == 0


def test_line_38_a_notice_while_the_page_holds_nonsense(world):
    """The agreement reads that step. The round ends at its deadline, and so does the job."""
    out = world.root / "client.json"
    job = world.launch("-n", "1", "--grace", "2s", "--stop-term-wait", "300ms", "--stop-exit-wait",
                       "300ms", "--", sys.executable, "-I", CLIENT, out, "stay")
    wait_until(out.exists, "the client")
    os.kill(job.pid, signal.SIGTERM)
    assert job.finish(12) == 42


def test_line_32_a_program_that_cannot_be_killed_at_once(world):
    """Every wait has a deadline: a process in a dead NFS mount cannot be reaped. Shown with one
    that a debugger holds: stopped by ptrace, it cannot die of SIGTERM."""
    job = world.act("say", "ready", "pause", options=["--grace", "1s", "--stop-term-wait", "300ms"])
    actor = world.events.wait("ready")["pid"]
    tracer = world.start("strace", "-qq", "-o", "/dev/null", "-p", actor)
    wait_until(lambda: status_of(actor).get("TracerPid", "0") != "0", "the tracer")
    os.kill(tracer.pid, signal.SIGSTOP)
    os.kill(job.pid, signal.SIGTERM)
    assert job.finish(12) == 42
    tracer.process.kill()
    tracer.finish()
    wait_until(lambda: not is_alive(actor) and not children_of(job.pid), "the end of both")
