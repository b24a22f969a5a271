# SPDX-License-Identifier: Apache-2.0
"""The Python stacks in the evidence of a hang: the line that a rank, or a worker of its loader, does not leave. A dump harms
neither the training nor a process that has not asked for it."""

import os
import re
import tempfile

import pytest

from harness import descendants_of, is_alive, wait_until
from pchctl import ctl, waited_for  # noqa: F401

# A rank calls hang() after its third step. Each line that does not return is marked. The ranks hang in a function, since
# the first line of a program's module is in no function.
LOOP = """
import os, signal, sys, threading, time
import pch
from told import say, wait_for
{}
def train():
    with pch.attach() as job:
        for step in job.steps(6):
            if step == 3:
                say("training")
                hang(job)
            job.should_save
if __name__ == "__main__":
    train()
"""


class Hung:
    """A job that hangs, or seems to."""

    def __init__(self, program, code, *options, **kwargs):
        self.program = program(LOOP.format(code))
        self.program.start("--watchdog-train", "1s", *options, ready="training", **kwargs)
        self.pids = [event["pid"] for event in self.program.world.events.all("training")]

    def evidence(self):
        self.program.said("watchdog: the evidence is in ")
        return (self.program.checkpoints / ".pchrun" / "hang.0.0.txt").read_text()

    def line(self, mark="hangs"):
        """The number of the line of the program with this mark."""
        lines = open(self.program.path).read().splitlines()
        return 1 + next(i for i, line in enumerate(lines) if line.endswith(f"# {mark}"))

    def place(self, where, mark="hangs"):
        return f"{os.path.basename(self.program.path)}:{self.line(mark)} in {where}"

    def end(self):
        assert self.program.result()[:2] == (42, "hang"), self.program.job.err


@pytest.fixture
def hung(program):
    """A function that starts a job with this hang()."""
    return lambda code, *options, **kwargs: Hung(program, code, *options, **kwargs)


@pytest.fixture
def tmp():
    """As short_tmp. A killed program leaves files."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


LOADER = """
import multiprocessing
def work(lock, batches):
    with lock:  # hangs
        batches.put(1)
def hang(job):
    context = multiprocessing.get_context(KIND)
    lock, batches = context.Lock(), context.Queue()
    lock.acquire()
    context.Process(target=work, args=(lock, batches)).start()
    batches.get()  # waits
"""


@pytest.mark.parametrize("kind", ["fork", "spawn", "forkserver"])
def test_a_loader_that_is_stuck(hung, tmp, kind):
    """Its worker waits for a lock, and the rank for the worker. Both lines are found."""
    job = hung(LOADER.replace("KIND", repr(kind)), TMPDIR=tmp)
    text = job.evidence()
    assert f"\n  rank 0: {job.place('hang', 'waits')}\n" in text
    assert re.search(rf"^    its child \d+: {re.escape(job.place('work'))}$", text, re.M), text
    assert f'"{job.program.path}", line {job.line()} in work\n' in text
    job.program.said(rf"watchdog: rank 0: {re.escape(job.place('hang', 'waits'))}$")
    job.end()


GIL = """
import ctypes, re
def spin():
    re.match("(a+)+$", "a" * 60 + "b")  # hangs
def hang(job):
    if job.rank == 0:
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        spin()
    time.sleep(600)  # waits
"""


def test_a_loop_in_c_that_keeps_the_lock(hung):
    job = hung(GIL, n=2)
    text = job.evidence()
    assert f"  rank 0: {job.place('spin')}\n" in text and f"  rank 1: {job.place('hang', 'waits')}\n" in text, text
    assert re.search(r"^Thread 0x.*\n  File .*, line \d+ in run$", text, re.M)  # the other thread, too
    job.end()


COLLECTIVE = """
import socket
def hang(job):
    here, there = pair
    if job.rank == 0:
        here.recv(1)  # hangs
    late()
def late():
    threading.Event().wait()  # late
pair = socket.socketpair()
"""


def test_a_rank_that_waits_for_another(hung):
    job = hung(COLLECTIVE, n=2)
    text = job.evidence()
    assert f"  rank 0: {job.place('hang')}\n" in text and f"  rank 1: {job.place('late', 'late')}\n" in text, text
    job.end()


ALONE = """
def hang(job):
    if job.rank == 0:
        wait_for("on")
"""


def test_status_has_the_line(hung, ctl):  # noqa: F811
    """The rank that the others wait for is shown with it."""
    job = hung(ALONE, "--watchdog-mode", "log", n=2)
    job.evidence()
    line = wait_until(lambda: waited_for(ctl), "the rank that is behind")
    assert len(line) == 1 and re.fullmatch(
        r"rank 0 on \S+: at step 3 for .* s, all others at 6 \(told\.py:\d+ in wait_for\)", line[0]), line
    job.program.complete("on")


# The first thread waits in the kernel, where no signal ends the wait: the process that it starts has not begun.
UNINTERRUPTIBLE = """
def hang(job):
    os.mkfifo("fifo")
    if THREADS:
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        time.sleep(0.1)
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, "fifo", os.O_RDONLY, 0)])  # hangs
"""


def test_another_thread_answers(hung):
    """A signal to the whole process would wait for the first thread."""
    job = hung(UNINTERRUPTIBLE.replace("THREADS", "True"))
    assert f"\n  rank 0: {job.place('hang')}\n" in job.evidence()
    job.end()


def test_no_thread_can_answer(hung):
    job = hung(UNINTERRUPTIBLE.replace("THREADS", "False"))
    assert re.search(rf"\nno Python stack of process {job.pids[0]} \(python[\d.]*\), rank 0: it waits in the kernel, where "
                     r"no signal reaches it\n", job.evidence())
    job.end()


TEARDOWN = """
def wait():
    threading.Event().wait()  # waits
def hang(job):
    job.done()
    threading.Thread(target=wait).start()
    threading.Event().wait()  # hangs
"""


def test_a_teardown_that_hangs(hung):
    """The rank is done. Its evidence had no stack, so that nothing said where it hung."""
    job = hung(TEARDOWN, "--watchdog-end", "1s")
    text = job.evidence()
    assert f"\n  rank 0: {job.place('hang')}\n" in text
    assert re.search(r"^rank 0, process \d+ \(.*\): state S.*, at step \d, done$", text, re.M), text
    waiting = rf'^Thread 0x.*:\n(  File .*\n)*  File ".*", line {job.line("waits")} in wait$'
    assert re.search(waiting, text, re.M), text
    assert job.program.result() == (0, "completed", None)
    assert job.program.report["evidence"], "the report does not name it"


NO_STACK = "its Python has ended, or the program has taken away the handler or the file"

AFTER_PYTHON = """
import ctypes
def hang(job):
    library = ctypes.CDLL(None)
    library.on_exit(ctypes.cast(library.pause, ctypes.c_void_p), None)
    job.done()
    ctypes.pythonapi.Py_Exit(0)  # the job is not closed
"""


def test_a_library_that_hangs_at_the_exit(hung):
    """Python has ended, so it shows no stack. The threads' names and waits tell which library it is."""
    job = hung(AFTER_PYTHON, "--watchdog-end", "1s")
    text = job.evidence()
    assert f"\n  rank 0: {NO_STACK}\n" in text, text
    assert re.search(r"^  thread \d+ \(python[\d.]*\): state S, cpu .*$", text, re.M), text
    assert job.program.result() == (0, "completed", None)


STOPPED = """
def hang(job):
    if job.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    threading.Event().wait()  # hangs
"""


def test_a_stopped_rank(hung):
    """It does not delay the other rank's stack."""
    job = hung(STOPPED, n=2)
    text = job.evidence()
    assert f"  rank 0: {job.place('hang')}\n" in text and "  rank 1: it is stopped\n" in text, text
    job.end()


# The rank leaves hang() when the test says so.
ALIVE = """
import faulthandler, multiprocessing, subprocess
BEFORE
def work():
    wait_for("on")
    say("worked")
def hang(job):
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    AFTER
    wait_for("on")
    child.join()
    say("joined", code=child.exitcode)
"""


@pytest.fixture
def goes_on(hung):
    """A function that starts a job, and takes the evidence while it seems to hang; then the job completes."""
    def start(before="", after="pass", **kwargs):
        job = hung(ALIVE.replace("BEFORE", before).replace("AFTER", after), "--watchdog-mode", "log", **kwargs)
        text = job.evidence()
        job.program.complete("on")
        assert job.program.world.events.wait("joined")["code"] == 0
        return job, text
    return start


def test_the_training_goes_on(goes_on):
    """It, and a worker that it has forked, have only been slow."""
    job, text = goes_on()
    assert "  rank 0: told.py:" in text and "    its child " in text, text


OWN = """
own = open("own", "w")
faulthandler.enable(open("fatal", "w"))
faulthandler.register(signal.SIGRTMAX - 1, own)
faulthandler.register(signal.SIGUSR1, own)
"""


def test_a_program_s_own_dumps(goes_on):
    """It uses the signal that would be taken, and gets both of its signals as before."""
    job, text = goes_on(OWN, "assert faulthandler.is_enabled(); os.kill(os.getpid(), signal.SIGUSR1)")
    assert "  rank 0: told.py:" in text
    assert (job.program.world.cwd / "own").read_text().count(" in hang\n") == 1


FOREIGN = r"""subprocess.Popen([sys.executable, "-c", '''
import signal, time
from told import say, wait_for
for number in range(signal.SIGRTMIN, signal.SIGRTMAX):
    signal.signal(number, lambda number, frame: say("caught", number=number))
say("ready")
wait_for("on")
''']); subprocess.Popen(["sleep", "600"], start_new_session=True); wait_for("started")"""


def test_who_has_not_registered_gets_no_signal(hung):
    """One program that the rank has started handles every signal, another one would end by any."""
    job = hung(ALIVE.replace("BEFORE", "").replace("AFTER", FOREIGN), "--watchdog-mode", "log")
    events = job.program.world.events
    events.wait("ready")
    pids = descendants_of(job.pids[0])
    assert len(pids) == 3
    text = job.evidence()
    assert len(re.findall("^Python stack of process", text, re.M)) == 2, text
    assert all(is_alive(pid) for pid in pids)
    job.program.world.go_on("started")
    job.program.complete("on")
    assert not events.all("caught")


LOST = {
    "the file": "other = open('other', 'w'); os.dup2(other.fileno(), pch._pch._stacks()[0])",
    "the handler": "[signal.signal(n, signal.SIG_DFL) for n in range(signal.SIGRTMIN, signal.SIGRTMAX)]",
}


@pytest.mark.parametrize("what", LOST)
def test_a_program_that_takes_it_away(goes_on, what):
    """Without the handler the signal would end the process; without the file it would write into another one."""
    job, text = goes_on(after=LOST[what])
    assert f"\n  rank 0: {NO_STACK}\n" in text, text
    other = job.program.world.cwd / "other"
    assert not other.exists() or other.read_text() == ""


FORKED = """
def hang(job):
    if os.fork() == 0:
        pch.attach(rank=1).step(3)
        inner()
    outer()
def inner():
    threading.Event().wait()  # inner
def outer():
    threading.Event().wait()  # outer
"""


def test_a_fork_that_is_a_rank(hung):
    """It shows its own stack as its own, and none as a child of the other rank."""
    job = hung(FORKED, PCH_WORLD_SIZE="2", n=None, wrap=("env", "RANK=0", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2"))
    text = job.evidence()
    assert f"  rank 0: {job.place('outer', 'outer')}\n" in text and f"  rank 1: {job.place('inner', 'inner')}\n" in text, text
    assert "its child" not in text
    job.end()


@pytest.fixture
def spy(world):
    """A py-spy that only says how it was called."""
    (world.root / "bin").mkdir()
    path = world.file("bin/py-spy", '#!/bin/sh\necho "called: $*"; echo "Error: no permission" >&2; exit 1\n', 0o755)
    return f"{path.parent}:{os.environ['PATH']}"


def test_py_spy_looks_at_other_programs(program, world, spy):
    """Only at Python, and only at a process that has no stacks of its own."""
    one = program("import time\nprint('begun', flush=True)\ntime.sleep(600)\n")
    one.start("--watchdog-silence", "1s", "--logs-dir", world.root / "logs", PATH=spy)
    one.said("watchdog: the evidence is in ")
    text = (one.checkpoints / ".pchrun" / "hang.0.0.txt").read_text()
    assert re.search(r"^'.*/py-spy' for process (\d+): exit code 1\ncalled: dump --nonblocking --subprocesses --pid \1\n"
                     r"Error: no permission$", text, re.M), text
    assert one.job.finish() == 42


def test_py_spy_is_not_needed(hung, spy):
    job = hung(STOPPED.replace("rank == 1", "rank == 9"), PATH=spy)
    text = job.evidence()
    assert f"  rank 0: {job.place('hang')}\n" in text and "py-spy" not in text
    job.end()
