# SPDX-License-Identifier: Apache-2.0
"""Input from outside must not stop the supervision."""

import errno
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

from client import ATTACH, REFUSED, VERSION, WELCOME, attach_frame, connect, frame, receive
from harness import children_of, full_pipe, is_alive, stat_fields, status_of, wait_until

CLIENT = Path(__file__).with_name("client.py")


# --- the log --------------------------------------------------------------------------------------

@pytest.fixture
def full(world):
    """A pipe that takes no byte more: (read end, write end)."""
    ends = full_pipe()
    yield ends
    for end in ends:
        os.close(end)


@pytest.mark.parametrize("level", ["-q", "-v", "-vv"])
def test_a_full_pipe_on_standard_error_holds_nothing_up(world, full, level):
    """`pchrun … 2>&1 | less` with a reader that does not read: a supervisor that blocks in write() misses the
    notice and the program's end."""
    job = world.act("record TERM say ready until TERM exit 0", options=[level, "--grace", "10m"], stderr=full[1])
    job.end_by(signal.SIGTERM, 42)


def test_an_error_on_a_full_pipe_keeps_its_code(world, full):
    """Nor may the last word, why the command could not be started, hold us."""
    assert world.launch("--", "/no/such/command", stderr=full[1]).finish() == 127


def test_dropped_lines_are_counted(world, full):
    """The log says how many lines the reader has missed."""
    job = world.act("record USR1 record TERM say ready until USR1 say first until TERM", options="-vv --grace 20s",
                    stderr=full[1])
    job.send(signal.SIGUSR1)
    world.events.wait("first")
    os.set_blocking(full[0], False)
    text = os.read(full[0], 65536)
    assert not text.strip(b"x")
    job.end_by(signal.SIGTERM, 42)
    assert b"dropped" in os.read(full[0], 65536)


def test_one_line_is_one_write(world):
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


def test_a_closed_standard_error_does_no_harm(world):
    """Without a standard error pchrun neither fails nor writes its log into another file."""
    world.start("sh", "-c", 'exec "$@" 2>&-', "sh", world.pchrun, "-vv", "--report",
                world.root / "report", "--", world.actor, "exit", "3", code=3)
    json.loads((world.root / "report").read_text())


def test_control_characters_do_not_reach_the_terminal(world):
    """The name of a command, a peer's text: an escape sequence in the log moves the cursor."""
    job = world.launch("--", "/no/\x1b[2Jsuch\ncommand", code=127)
    assert "\x1b" not in job.err
    assert all(line.startswith("pchrun") for line in job.err_lines)


# --- the program's socket and page ----------------------------------------------------------------

@pytest.fixture
def held(world):
    """A pchrun over a waiting actor, and the path of its socket."""
    def start(*options, **more):
        job = world.act("record all say ready until USR1 exit 5", options=options, **more)
        entries = Path(f"/proc/{job.actor}/environ").read_bytes().split(b"\0")
        job.socket = Path([e for e in entries if e.startswith(b"PCH_SOCKET=")][0][11:].decode())
        return job
    return start


def end(job):
    job.end_by(signal.SIGUSR1, 5)


def cpu_ticks(pid):
    """Processor time so far, in hundredths of a second."""
    return sum(map(int, stat_fields(pid)[11:13]))


def expect_refused(client):
    """REFUSED says why in words, and the connection ends."""
    kind, payload, fds = receive(client)
    assert (kind, fds) == (REFUSED, []) and b"protocol" in payload
    assert receive(client)[0] is None


def expect_welcome(client):
    """An ATTACH is answered with the two pages."""
    client.send(attach_frame())
    kind, _, fds = receive(client)
    assert (kind, len(fds)) == (WELCOME, 2)
    for fd in fds:
        os.close(fd)


def test_the_socket_is_private(held):
    """A process that can connect can end the job."""
    job = held(preexec_fn=lambda: os.umask(0))
    assert not stat.S_IMODE(job.socket.stat().st_mode) & 0o077
    assert stat.S_IMODE(job.socket.parent.stat().st_mode) == 0o700
    end(job)
    assert not job.socket.exists() and not job.socket.parent.exists()


def test_two_jobs_in_one_folder_have_two_sockets(held):
    """Neither job takes the other's socket."""
    one, two = held(), held()
    assert one.socket != two.socket and one.socket.parent.parent == two.socket.parent.parent
    end(one)
    assert two.socket.exists()
    with connect(str(two.socket)) as client:
        client.send(b"hello")
        expect_refused(client)
    end(two)


@pytest.mark.parametrize("long", ["TMPDIR", "--run-dir"])
def test_a_path_too_long_for_a_socket_is_told(world, held, long):
    """The limit is 108 bytes; a scratch folder's name is easily longer. A path from an option is refused; a
    default path is skipped."""
    folder = world.root / ("d" * 120)
    folder.mkdir()
    if long == "TMPDIR":
        job = held(env={"TMPDIR": str(folder)})
        end(job)
    else:
        world.refused(options=["--run-dir", folder])


GARBAGE = {
    "text": b"GET / HTTP/1.1\r\n\r\n", "zeros": bytes(64),
    "a length beyond all bounds": frame(ATTACH)[:4] + b"\xff\xff\xff\xff" + bytes(64),
    "another version": frame(ATTACH)[:2] + b"\x63" + attach_frame()[3:],
    "an unknown type": frame(0xee),
    "a short ATTACH": frame(ATTACH, b"\0\0"),
    "a long ATTACH": attach_frame() + b"\0",
    "half a header": frame(ATTACH)[:3],
    "longer than any frame": bytes(100000),
    "random": bytes((i * 167 + 13) % 256 for i in range(4096)),
    "what only a supervisor says": frame(67),
    "a word before ATTACH": frame(10),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_on_the_socket_does_no_harm(held, data):
    """Versions and lengths are checked before the content is read."""
    job = held()
    with connect(str(job.socket)) as client:
        client.send(data)
        expect_refused(client)
    if data == GARBAGE["another version"]:
        assert f"its libpch speaks version 99 of the protocol, not {VERSION}" in job.err
    end(job)


@pytest.mark.parametrize("data", [b"", attach_frame()], ids=["nothing", "ATTACH"])
def test_a_process_may_hang_up(held, data):
    """The process is gone before its answer; the next process can still attach."""
    job = held()
    with connect(str(job.socket)) as client:
        client.send(data)
    with connect(str(job.socket)) as client:
        expect_welcome(client)
    end(job)


@pytest.mark.timing
def test_more_connections_than_descriptors_cost_nothing(world, held):
    """accept() fails with EMFILE as long as the connections stay. A loop that only tries again burns a whole
    processor; a loop that gives up hears no more processes."""
    job = held(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
    clients = []
    for _ in range(60):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        client.connect(str(job.socket))
        clients.append(client)
    job.send(signal.SIGUSR2)  # forwarded all the same
    world.events.wait("signal", name="USR2")
    before, began = cpu_ticks(job.pid), time.monotonic()
    time.sleep(0.5)  # the measured time
    assert cpu_ticks(job.pid) - before < 40 * (time.monotonic() - began)
    for client in clients:
        client.close()
    with connect(str(job.socket)) as client:
        expect_welcome(client)
    end(job)


@pytest.fixture
def harm(world):
    """Runs client.py below pchrun; returns the job, and what the client tells."""
    def start(*ways, options=()):
        out = world.root / "client.json"
        job = world.launch("-n", "1", "--report", world.root / "report", *options, "--",
                           sys.executable, "-I", CLIENT, out, *ways)
        wait_until(lambda: out.exists() or job.process.poll() is not None, "the client")
        return job, json.loads(out.read_text())
    return start


def expect_failed(world, job):
    """The client's own code, and a report that can be read."""
    assert job.finish() == 5
    report = json.loads((world.root / "report").read_text())
    assert (report["outcome"], report["first_cause"]["code"]) == ("failed", 5)
    assert report["commit"] is None


def test_an_attached_process_cannot_do_harm(world, harm):
    """An untrusted, perhaps dead process writes the page. It can neither shrink pchrun's memory (SIGBUS) nor write
    pchrun's page."""
    job, told = harm("pages")
    expect_failed(world, job)
    assert (told["kind"], told["fds"], told["magic"]) == (WELCOME, 2, "1PCH")
    assert set(told["supervisor"].values()) == set(told["own"].values()) == {errno.EPERM}
    assert set(told["written"].values()) <= {errno.EPERM, errno.EACCES}
    assert told["unharmed"]
    assert (told["own_written"], told["own_step"]) == (0, 7)


@pytest.mark.parametrize("way", ["nonsense", "liar"])
def test_nothing_that_a_process_says_is_believed(world, harm, way):
    """The page has steps beyond all bounds, and the socket names rounds that never were."""
    job, told = harm(way)
    assert (told["kind"], told["fds"]) == (WELCOME, 2)
    expect_failed(world, job)
    assert "\x1b" not in job.err


def test_a_process_cannot_speak_for_the_supervisor(world, harm):
    """pchrun cuts the process off at once, and does not care how the process goes on."""
    job, told = harm("rude")
    assert told["ended"]
    expect_failed(world, job)
    assert "breaks the protocol: it sent LOOK, which only the supervisor may send" in job.err


@pytest.mark.parametrize("way", ["nonsense", "liar"])
def test_a_notice_counts_while_a_process_talks_nonsense(world, harm, way):
    """The agreement reads the process's step. The round fails or ends at its deadline, and so does the job, with
    nothing committed."""
    job, _ = harm(way, "stay", options=["--grace", "2s", "--stop-term-wait", "300ms",
                                        "--stop-exit-wait", "300ms",
                                        "--exit-preempted-unsaved", "45"])
    job.end_by(signal.SIGTERM, 45)
    report = json.loads((world.root / "report").read_text())
    assert (report["outcome"], report["commit"]) == ("preempted_unsaved", None)


def test_a_program_that_cannot_be_killed_at_once_does_not_hold_pchrun(world):
    """Every wait has a deadline: a process in a dead NFS mount cannot be reaped. A debugger holds the process of
    this test: stopped by ptrace, the process cannot die of SIGTERM."""
    job = world.act("say ready pause", options="--grace 1s --stop-term-wait 300ms")
    tracer = world.start("strace", "-qq", "-o", "/dev/null", "-p", job.actor)
    wait_until(lambda: status_of(job.actor).get("TracerPid", "0") != "0", "the tracer")
    os.kill(tracer.pid, signal.SIGSTOP)
    job.end_by(signal.SIGTERM, 42)
    tracer.process.kill()
    tracer.finish()
    wait_until(lambda: not is_alive(job.actor) and not children_of(job.pid), "the end of both")
