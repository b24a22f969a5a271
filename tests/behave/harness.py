# SPDX-License-Identifier: Apache-2.0
"""harness: how the process tests start pchrun, watch it, and wait for what it does.

Every wait is for an event and has a deadline; no wait is a mere sleep. Every process of a test has the test's own
variable MARK in its environment. So the test finds the process in /proc even in another session, below another parent,
or in another PID namespace.
"""

import atexit
import contextlib
import ctypes
import fcntl
import json
import os
import pty
import re
import resource
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

MARK = "BEHAVE_MARK"
# pchrun's exit codes, and the example.
PREEMPTED, NO_PROGRESS, STOPPED, OWN_ERROR = 42, 43, 44, 125
CHARLM = os.environ.get("CHARLM", "")
# Far above any wait, even on a machine with twenty times too much to do: a wait that comes near this limit has failed.
DEADLINE = float(os.environ.get("BEHAVE_DEADLINE", "60"))
# An event that is due at a certain time may come this many seconds later on a busy machine. An event that shows a
# fault comes later still, or never.
SLACK = 10
APART = 1.1  # seconds: signals further apart than this are two signals, as pchrun promises
# The shims are loaded before the sanitizer, which would refuse this order.
SANITIZER_OPTIONS = "verify_asan_link_order=0:handle_sigill=1:log_path="

# A fork owns copies of its parent's memory before its exec, so valgrind stays silent for it.
MEMCHECK_OPTIONS = ("-q --vgdb=no --leak-check=full --show-leak-kinds=definite,indirect,possible "
                    "--child-silent-after-fork=yes --num-callers=25")
# valgrind writes the system calls that it does not know as "--PID-- ..."; a report is "==PID== ...". LeakSanitizer
# cannot read a thread that a signal ends meanwhile: that says nothing about a leak.
CHECKER_WARNINGS = re.compile(r"(--\d+-- .*\n|==\d+==Unable to get registers from thread \d+\.\n)*")

# The variables that DESIGN.md lets pchrun set for the program.
DOCUMENTED = {
    "PCH_SOCKET", "PCH_RANK", "PCH_LOCAL_RANK", "PCH_WORLD_SIZE", "PCH_NODE_RANK", "PCH_NNODES",
    "PCH_ATTEMPT", "PCH_GENERATION", "PCH_RESUME_STEP", "PCH_RESUME_PATH",
    "TORCHELASTIC_ERROR_FILE", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT",
}
DOCUMENTED_RANKS = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
                    "MASTER_ADDR", "MASTER_PORT"}


def checker_reports(folder):
    """The reports of valgrind or a sanitizer in this folder. A file of warnings alone is none."""
    texts = [path.read_text(errors="replace") for path in folder.iterdir()]
    return [text for text in texts if not CHECKER_WARNINGS.fullmatch(text)]


class Late(AssertionError):
    """A wait came to its deadline."""


def seconds_of(line):
    """The time of day of this log line."""
    hours, minutes, rest = re.match(r"pchrun\S* (\d\d):(\d\d):(\d\d\.\d\d\d) ", line).groups()
    return 3600 * int(hours) + 60 * int(minutes) + float(rest)


def wait_until(condition, what, deadline=DEADLINE, pause=0.003):
    """Polls until condition() is true and returns it; for conditions that send no event."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Late(f"waited {deadline:g} s for {what}")
        time.sleep(pause)


# --- /proc ---------------------------------------------------------------------------------------

def read_proc(pid, name):
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def open_files(pid):
    """The files that the descriptors of the process lead to; the process may close some meanwhile."""
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            yield os.readlink(f"/proc/{pid}/fd/{name}")


def status_of(pid):
    """The lines of /proc/PID/status; {} if there is no such process."""
    lines = read_proc(pid, "status").decode(errors="replace").splitlines()
    return dict((k, v.strip()) for k, _, v in (line.partition(":") for line in lines))


def state_of(pid):
    """One letter: R, S, D, T (stopped), Z; "" if there is no such process."""
    return status_of(pid).get("State", "")[:1]


def is_alive(pid):
    return state_of(pid) not in ("", "Z", "X")


def signal_set(pid, key):
    """The signals in a mask of /proc/PID/status: SigBlk, SigIgn, SigCgt, SigPnd, ShdPnd."""
    mask = int(status_of(pid).get(key, "0"), 16)
    return {n for n in range(1, 65) if mask >> (n - 1) & 1}


def takes(pid, number):
    """Does this pchrun read the signal from its signalfd by now? A C library or a sanitizer may block signals before,
    for a moment."""
    with contextlib.suppress(FileNotFoundError):  # the process has ended
        return number in signal_set(pid, "SigBlk") and any("[signalfd]" in file for file in open_files(pid))
    return False


def is_pending(pid, number):
    return number in signal_set(pid, "SigPnd") | signal_set(pid, "ShdPnd")


def children_of(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def descendants_of(pid):
    pids = children_of(pid)
    for child in pids:
        pids.extend(children_of(child))
    return pids


def commands_of(pid):
    """The children of a pchrun that are its commands: its helpers are in its own group."""
    groups = {child: stat_fields(child)[2:3] for child in children_of(pid)}
    own = stat_fields(pid)[2:3]
    return [child for child, group in groups.items() if group and group != own]  # no group: the process has just ended


def wakeups(pid):
    """How often the process has waited so far."""
    return int(status_of(pid)["voluntary_ctxt_switches"])


def at_rest(pid, seconds=0.5):
    """Waits until the process has slept for so long at a stretch; returns its wakeups(). A process that wakes up at
    least that often by itself never does. The kernel may wake one now and then."""
    def rests():
        before = wakeups(pid)
        time.sleep(seconds)
        return (before, ) if wakeups(pid) == before else None
    return wait_until(rests, f"it to rest for {seconds:g} s")[0]


def is_blocked(pid):
    """Does the process wait in a system call that does not read its input?"""
    return state_of(pid) == "S" and read_proc(pid, "syscall")[:2] not in (b"", b"0 ", b"63 ")


def stat_fields(pid):
    """The fields of /proc/PID/stat behind the name: [0] state, [1] ppid, [2] pgrp, [3] session,
    [4] tty, [5] foreground group."""
    return read_proc(pid, "stat").decode(errors="replace").rpartition(")")[2].split()


def marked(mark):
    """The living processes that carry the mark."""
    needle = f"{MARK}={mark}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and needle in read_proc(entry, "environ").split(b"\0"):
            if is_alive(int(entry)):
                found.append(int(entry))
    return found


def describe(pid):
    command = read_proc(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")
    fields = stat_fields(pid)
    return f"{pid} {fields[:4] if fields else ''} {command}"


WITHOUT_PROC = ["sh", "-c", 'umount -l /proc && exec "$@"', "sh"]


def needs_namespace(*kinds):
    """Skips the test where unshare(1) cannot make these namespaces."""
    probe = subprocess.run(["unshare", *kinds, "true"], capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip(f"this kernel or user may not make such a namespace: {probe.stderr.strip()}")


def needs_disk(path):
    """Skips the test where pchrun takes the file system of this path for one that other machines share."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, text=True, check=True).stdout.strip()
    if kind not in ("ext2/ext3", "xfs", "btrfs", "f2fs", "zfs", "tmpfs", "ramfs", "overlayfs"):
        pytest.skip(f"the tests run in {kind}")


def entering(pid, *kinds):
    """The words before a command that shall run in these namespaces of the process, and at its root: after a plain
    chroot the root of a mount namespace is another one."""
    return ["nsenter", "--target", str(pid), *kinds, "--root"]


def skip_if_it_needs_proc(world):
    if world.has_sanitizer():
        pytest.skip("a sanitizer needs /proc")


def leaks_unseen(world):
    """The search for leaks needs a /proc of its own PID namespace."""
    return {"ASAN_OPTIONS": world.env["ASAN_OPTIONS"] + ":detect_leaks=0"}


# --- what actors tell ----------------------------------------------------------------------------

class Events:
    """The lines that the actors of one test have written."""

    def __init__(self, path):
        self.path = Path(path)

    def all(self, what=None, **fields):
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        events = [json.loads(line) for line in lines]
        if what is not None:
            fields["what"] = what
        return [e for e in events if all(e.get(k) == v for k, v in fields.items())]

    def wait(self, what, count=1, deadline=DEADLINE, **fields):
        """Waits for `count` such events and returns the last of them."""
        try:
            return wait_until(lambda: len(self.all(what, **fields)) >= count
                              and self.all(what, **fields), f"{count} x {what} {fields}",
                              deadline)[count - 1]
        except Late as late:
            raise Late(f"{late}; there was: {self.all()}") from None

    def signals(self, pid=None):
        """Names of the signals that arrived, in order."""
        return [e["name"] for e in self.all("signal") if pid is None or e["pid"] == pid]


# --- one started program -------------------------------------------------------------------------

class Job:
    """A pchrun (or another program) that a test has started. code: as of subprocess, or None."""

    def __init__(self, process, out, err, mark):
        self.process = process
        self.pid = process.pid
        self.mark = mark
        self.out_path = out
        self.err_path = err

    @property
    def out(self):
        return self.out_path.read_text(errors="replace") if self.out_path else ""

    @property
    def err(self):
        return self.err_path.read_text(errors="replace") if self.err_path else ""

    @property
    def err_lines(self):
        return [line for line in self.err.splitlines() if line.strip()]

    def finish(self, deadline=DEADLINE):
        """Waits for the end and returns the exit code; minus the signal if one killed it."""
        try:
            return self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            raise Late(f"{self.process.args} did not end within {deadline:g} s; processes: "
                       f"{[describe(pid) for pid in marked(self.mark)]}; it said: {self.err}"
                       ) from None

    def send(self, number):
        """Sends a signal and waits until the process has taken it."""
        os.kill(self.pid, number)
        wait_until(lambda: not is_pending(self.pid, number), f"{number!r} to be taken")

    def end_by(self, number, code, deadline=DEADLINE):
        """Sends a signal, and waits until the job has ended with this code."""
        os.kill(self.pid, number)
        assert self.finish(deadline) == code, self.err

    def kill(self):
        """Kills the process, and waits for its end."""
        os.kill(self.pid, signal.SIGKILL)
        assert self.finish() == -signal.SIGKILL

    def child(self, deadline=DEADLINE):
        """The pid of the job's one child."""
        return wait_until(lambda: children_of(self.pid), "a child", deadline)[0]


def leave_behind(world, deaf, *options, **more):
    """A job whose command leaves a daemon, which with `deaf` ignores SIGTERM; job.actor is the daemon. expect_left()
    sees the end of both."""
    left = "ignore TERM say left pause" if deaf else "record TERM say left until TERM say cleaned"
    waits = ["--stop-term-wait", "300ms" if deaf else "1h", "--stop-kill-wait", "1h"]
    return world.act("daemon {", left, "} hold end exit 3", options=[*options, *waits], ready="left", **more)


def expect_left(world, job, deaf):
    world.let_end(job, 3)
    assert ("sending SIGKILL" in job.err) == deaf == (not world.events.all("cleaned"))


def undisturbed_digest(world, *options):
    """The digest of charlm's weights after a training without pchrun."""
    argv = [str(word) for word in (CHARLM, *options)]
    ranks = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(world)})
             for rank in range(world)]
    told = [rank.communicate(timeout=DEADLINE)[0] for rank in ranks]
    return re.search("^digest (.*)$", told[0], re.M)[1]


# Runs a command where the only name server takes every question and answers none.
SILENT = """
import fcntl, socket, struct, subprocess, sys
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(link, 0x8914, struct.pack("16sH14s", b"lo", 1, b""))  # SIOCSIFFLAGS, IFF_UP
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
subprocess.run(["mount", "--bind", sys.argv[1], "/etc/resolv.conf"], check=True)
job = subprocess.Popen(sys.argv[3:])
if sys.argv[2] == "TERM":
    server.recv(512)
    job.terminate()
sys.exit(job.wait())
"""


def below_silent_names(world, sends=""):
    """The words before such a command. sends: "TERM", the signal that it gets after its question."""
    needs_namespace("--net", "--mount")
    resolv = world.file("resolv.conf", "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n")
    return ["unshare", "--net", "--mount", "/usr/bin/python3", "-I", "-c", SILENT, resolv, sends]


def libm_of(program):
    """The C library's libm, which tests put in the place of other libraries."""
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return Path(re.search(r"libc\.so\S* => (\S+)", linked)[1]).with_name("libm.so.6")


def full_pipe():
    """A small pipe that takes no byte more; returns (read end, write end)."""
    read_end, write_end = os.pipe()
    os.write(write_end, b"x" * fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096))
    return read_end, write_end


class Tracer:
    """A debugger, as the kernel sees it. It is attached to a process. That process's parent learns of the end only
    after the debugger."""
    SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17

    def __init__(self, pid):
        self.pid = pid
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        self._trace(self.SEIZE)

    def _trace(self, request):
        if self.libc.ptrace(request, self.pid, None, None) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")

    def wait(self):
        """Waits for the process's stop, or its end."""
        os.waitpid(self.pid, 0)

    def stop(self):
        self._trace(self.INTERRUPT)
        self.wait()

    def detach(self):
        """Lets a stopped process go on."""
        self._trace(self.DETACH)


def become_subreaper():
    """Orphans of the tests become our children: none can hide, and none is left to init."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(36, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def start_from_defaults():
    """Resets the signals that the tests inherited. nohup, or a script's background, passes SIGHUP, SIGINT and
    SIGQUIT on ignored."""
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def group_of(pid):
    """The path of the process's control group of version 2, as a program sees it."""
    lines = [line for line in read_proc(pid, "cgroup").decode().splitlines() if line[:3] == "0::"]
    return lines[0][3:] if lines else None


def our_group():
    """The folder of our own control group, None if the tests may not divide it."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if " - cgroup2 " in line and fields[3] == "/":
            folder = Path(fields[4] + (group_of("self") or "/none").rstrip("/"))
            return folder if os.access(folder, os.W_OK) else None
    return None


def live_apart():
    """Moves the tests into a control group of their own, if possible. A pchrun kills the processes that a killed
    pchrun has left in its group. It must not kill those of other tests that run beside these."""
    before = our_group()
    if not before:
        return
    own = before / f"tests.{os.getpid()}"
    own.mkdir(exist_ok=True)
    try:
        (own / "cgroup.procs").write_text("0")
    except OSError:
        own.rmdir()
        return

    def leave():
        (before / "cgroup.procs").write_text("0")
        for folder in (*own.glob("pchrun.*"), own):
            folder.rmdir()
    atexit.register(leave)


def reap_adopted():
    """Takes the ends of all processes that have become our children. Only between tests."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] > 0:
            pass
    except ChildProcessError:
        pass


class Terminal:
    """A program that leads a session on a pseudo-terminal of its own."""

    def __init__(self, argv, env, cwd, mark, size=(24, 200)):
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, size)
        self.text = ""
        self.seen = 0

        def own_terminal():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=env, cwd=cwd,
                                   start_new_session=True, preexec_fn=own_terminal)
        self.slave_name = os.ttyname(slave)
        os.close(slave)
        self.job = Job(process, None, None, mark)

    def close(self):
        if self.master >= 0:
            os.close(self.master)
        self.master = -1

    def type(self, text):
        os.write(self.master, text.encode())

    def resize(self, rows, columns):
        termios.tcsetwinsize(self.master, (rows, columns))

    def foreground(self):
        """The terminal's foreground process group, as its session leader sees it."""
        fields = stat_fields(self.job.pid)
        return int(fields[5]) if fields else -1

    def _read(self, seconds):
        ready, _, _ = select.select([self.master], [], [], max(0, seconds))
        if not ready:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:  # EIO: no process has it open any more
            data = b""
        self.text += data.decode(errors="replace")
        return bool(data)

    def expect(self, pattern, deadline=DEADLINE):
        """Waits for the pattern behind what was matched last."""
        end = time.monotonic() + deadline
        while True:
            found = re.compile(pattern).search(self.text, self.seen)
            if found:
                self.seen = found.end()
                return found
            left = end - time.monotonic()
            if left <= 0 or (not self._read(left) and state_of(self.job.pid) in ("", "Z")):
                raise Late(f"no {pattern!r} on the terminal; behind the last match there was: "
                           f"{self.text[self.seen:]!r}")

    def ask(self, text, pattern):
        """Types, and waits for the answer."""
        self.type(text)
        return self.expect(pattern)

    def finish(self, deadline=DEADLINE):
        """Reads to the end, so that no process blocks on the terminal, and returns the exit code."""
        end = time.monotonic() + deadline
        while self.job.process.poll() is None and time.monotonic() < end:
            self._read(0.02)
        while self._read(0):  # what was written last
            pass
        return self.job.finish(0.1)


# --- file events ---------------------------------------------------------------------------------

PROMPT = "READY> "


def interactive_shell(world, *words):
    """A shell that waits at its prompt; ends it when the test has ended. For `yield from`."""
    shell = world.terminal(*words, env={"PS1": PROMPT, "HISTFILE": ""})
    shell.expect(PROMPT)
    yield shell
    if shell.job.process.poll() is None:
        shell.type("exit 0\n")
        shell.finish()


def shell_command(world, *verbs, options=()):
    """The line to type into a shell to run an actor under pchrun."""
    words = [world.pchrun, *world.words(options), "--", world.actor, *world.words(*verbs)]
    return " ".join(f"'{word}'" for word in words)


def shell_runs(world, shell, verbs, behind="", options=()):
    """Types the actor's words, and `behind`, into a shell. Returns the actor's pid when it is `ready`."""
    shell.type(f"{shell_command(world, verbs, options=options)}{behind}\n")
    return world.events.wait("ready")["pid"]


class Watch:
    """inotify on one directory: what happened to the names in it, in order."""

    MODIFY, MOVED_TO, CREATE, CLOSE_WRITE = 0x2, 0x80, 0x100, 0x8

    def __init__(self, directory):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_CLOEXEC)
        mask = self.MODIFY | self.MOVED_TO | self.CREATE | self.CLOSE_WRITE
        if self.fd < 0 or libc.inotify_add_watch(self.fd, os.fsencode(directory), mask) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def next(self, deadline=DEADLINE):
        """The next events: a list of (mask, name). Empty if none came in time."""
        ready, _, _ = select.select([self.fd], [], [], deadline)
        data = os.read(self.fd, 65536) if ready else b""
        events = []
        while data:
            mask = int.from_bytes(data[4:8], sys.byteorder)
            size = int.from_bytes(data[12:16], sys.byteorder)
            events.append((mask, data[16:16 + size].rstrip(b"\0").decode()))
            data = data[16 + size:]
        return events

    def close(self):
        os.close(self.fd)


def kill_quietly(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
