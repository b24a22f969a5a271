# SPDX-License-Identifier: Apache-2.0
"""The first cause: every node reports the failure that came first, and marks the ranks that fell because of it.

The job ends everywhere when a process fails. The report and the last line of each node must name the failure
that started it, not one of the many that followed.
"""

import calendar
import json
import os
import re
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from harness import Tracer, is_alive, state_of, wait_until
from nodes import Nodes, nodes  # noqa: F401
from test_death import kernel_can
from training import CHILD, Client

# A process that does not end by itself is killed soon.
HURRY = ["--stop-exit-wait", "300ms", "--stop-term-wait", "300ms"]


def start(job, codes):
    """Starts actors on all nodes. Those in `codes` exit with their code when they get SIGUSR1."""
    for rank in range(job.count):
        ends = f"until USR1 exit {codes[rank]}" if rank in codes else "pause"
        job.start(rank, f"record USR1 say n{rank}", ends)
    for rank in range(job.count):
        job.pid(rank)


def seconds(text):
    """"2026-11-21T12:03:04.123Z" as a number."""
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) + float(text[19:-1])


# --- several nodes --------------------------------------------------------------------------------

@pytest.mark.parametrize("at_fault", [0, 2])
def test_every_node_names_the_first_cause(nodes, at_fault):
    """All reports and all last lines name the failed node."""
    job = nodes(3, "-n", "1", "--stop-exit-wait", "1s")
    before = time.time()
    start(job, {at_fault: 7})
    job.jobs[at_fault].send(signal.SIGUSR1)
    assert job.finish() == 7
    job.agreed()
    cause = job.agreed("first_cause")["first_cause"]
    assert (cause["node_rank"], cause["rank"], cause["code"]) == (at_fault, at_fault, 7)
    assert cause["pid"] == job.pid(at_fault) and cause["host"] == socket.gethostname()
    assert cause["signal"] is None and "exit code 7" in cause["text"]
    assert before - 0.01 <= seconds(cause["at"]) <= time.time() + 0.01
    for rank in range(3):
        last = job.jobs[rank].err_lines[-1]
        assert f"node {at_fault}: rank {at_fault}, process {cause['pid']} ended" in last, last


def test_two_failures_at_once_are_told_alike(nodes):
    """Microseconds decide which failure is first, but all nodes name the same one."""
    job = nodes(3, "-n", "1")
    start(job, {1: 5, 2: 6})
    for rank in (1, 2):
        job.jobs[rank].send(signal.SIGUSR1)
    code = job.finish()
    cause = job.agreed("first_cause")["first_cause"]
    assert (code, cause["node_rank"]) in ((5, 1), (6, 2))
    assert cause["code"] == code
    job.agreed()


def test_who_said_it_first_is_the_cause(world, nodes):
    """A rank finds a fault, reports it, and dies slowly. A rank of another node misses the first rank and dies sooner.
    Its death ends the job, but it is only a victim. The test waits first: on a busy machine the clocks have been
    compared only once or twice."""
    job = nodes(2, "-n", "1", *HURRY)
    client = Client(world.root, 0)
    try:
        job.jobs[0] = job.launch(0, "sh", "-c", CHILD, f"{world.helpers}/pchclient", world.root)
        job.start(1, "record USR1 say n1 until USR1 spin 300 exit 5")
        job.pid(1)
        client.open()
        client.ask("error 3 out of luck", "error 3")
        job.say(0, "rank 0 says why it fails: out of luck")
        job.jobs[1].send(signal.SIGUSR1)
        assert job.finish() == 3
    finally:
        client.close()
    cause = job.agreed("first_cause")["first_cause"]
    assert (cause["node_rank"], cause["rank"], cause["code"], cause["signal"]) == (0, 0, 3, None)
    assert cause["text"].endswith(": out of luck")
    assert "exit code 5" in job.jobs[0].err, "what ended the job is told, too"


@pytest.fixture
def reported(world):
    """A function that runs pchrun, and returns the job, which has ended, and the first cause in its report."""
    def run(*words, **more):
        path = world.root / "report.json"
        job = world.launch("--report", path, *words, **more)
        job.finish()
        return job, json.loads(path.read_text())["first_cause"]
    return run


@pytest.mark.parametrize("reason", [b"x" * (10 << 20), b"bad \xff\xfe\xc0 bytes",
                                    b"\x1b]0;title\x07 beeps"], ids=["10MiB", "utf8", "control"])
def test_a_reason_that_is_not_fit_to_be_told(world, reported, reason):
    """The text of pch_error may hold any bytes; the report shows a short and printable part."""
    job, cause = reported("-n", "1", "--", *world.client(b"open\nerror 9 " + reason + b"\nexit 9\n"), code=9)
    assert cause["rank"] == 0 and "ended with exit code 9: " in cause["text"]
    assert len(cause["text"]) < 512 and "\x1b" not in job.err and len(job.err) < 4096


@pytest.mark.parametrize("size,is_whole", [(400, True), (6000, False)], ids=["long", "longer"])
def test_a_reason_keeps_its_end(world, reported, size, is_whole):
    """The beginning says what failed, the end most often why: also in the last line."""
    middle = "/data/shards " * (size // 13)
    client = world.client(f"open\nerror 9 cannot read {middle}: out of quota\nexit 9\n")
    job, cause = reported("-n", "1", "--", *client, code=9)
    for text in (cause["text"], job.err_lines[-1]):
        assert re.search(r"ended with exit code 9: cannot read /data/shards .*/data/shards : out of quota$", text), text
        assert ("..." not in text) == is_whole


def test_a_reason_of_several_lines_is_one(training):
    job = training(*HURRY, train=0)
    job.clients[0].ask("error 3 CUDA error: an illegal|  memory access|was encountered|", "error 3")
    job.clients[0].tell("exit 3")
    assert job.result() == (3, "failed", None)
    assert job.report()["first_cause"]["text"].endswith(": CUDA error: an illegal memory access was encountered")


def test_its_last_word_comes_before_its_death(training):
    """pchrun was busy, or stopped: it finds the message and the death at once."""
    job = training(train=0)
    pid = job.pid(0)
    job.job.send(signal.SIGSTOP)
    wait_until(lambda: state_of(job.job.pid) == "T", "pchrun to stop")
    job.clients[0].ask("error 9 lost a card", "error 9")
    job.clients[0].tell("exit 9")
    wait_until(lambda: state_of(pid) == "Z", "the death")
    job.job.send(signal.SIGCONT)
    assert job.result() == (9, "failed", None)
    assert job.report()["first_cause"]["text"].endswith(": lost a card")


@pytest.mark.killed
@pytest.mark.parametrize("lost", [0, 2])
def test_a_lost_node_is_the_cause(nodes, lost):
    """The node's host has lost power. A process of another node misses that node and fails at once. This failure ends
    the job, but the cause is the lost node."""
    job = nodes(3, "-n", "1")
    start(job, {1: 6})
    supervisor, actor = job.jobs[lost].pid, job.pid(lost)
    before = time.time()
    os.kill(supervisor, signal.SIGKILL)
    if lost != 0:  # if node 0 is lost, node 1 cannot report a failure
        job.jobs[1].send(signal.SIGUSR1)
    others = [rank for rank in range(3) if rank != lost]
    assert job.finish(*others) == 42
    job.jobs.pop(lost).finish()
    wait_until(lambda: not is_alive(actor), "the end of the lost node's process")
    assert job.agreed("outcome")["outcome"] == "node_lost"
    causes = [job.report(rank)["first_cause"] for rank in others]
    cause = causes[0]
    if lost != 0:  # else each node sees for itself when and how its connection is closed
        assert causes[1] == cause and job.agreed("why")
    assert (cause["node_rank"], cause["rank"], cause["code"]) == (lost, -1, 42), cause
    assert "the node is lost: " in cause["text"]
    if lost != 0:
        assert cause["pid"] == supervisor and cause["host"] == socket.gethostname()
    assert before - 2 <= seconds(cause["at"]) <= time.time()
    for rank in others:
        assert re.search(rf"node {lost} .*is lost: ", job.jobs[rank].err_lines[-1])


# --- victims --------------------------------------------------------------------------------------

def victims(job):
    return {rank["rank"]: rank["victim"] for rank in job.report()["ranks"]}


def test_who_is_ended_because_of_another_is_a_victim(training):
    """Such ranks are killed by us, or die of the loss of a peer. None is the cause; each is marked as a victim."""
    job = training(*HURRY, n=3, train=2)
    job.clients[1].tell("exit 7")
    assert job.ended() == (7, "failed", None)
    assert job.report()["first_cause"]["rank"] == 1
    assert victims(job) == {0: True, 1: False, 2: True}


def test_who_leaves_well_is_no_victim(training):
    """The rank had to leave, and did."""
    job = training(n=2, train=2)
    job.clients[0].ask("done", "done")
    job.clients[0].end_input()
    wait_until(lambda: not is_alive(job.pid(0)), "the end of rank 0")
    job.clients[1].tell("exit 7")
    assert job.result() == (7, "failed", None)
    assert victims(job) == {0: False, 1: False}


def test_said_first_on_one_node(training):
    """The first report counts among the ranks of one node, too."""
    job = training(*HURRY, n=2, train=2)
    job.clients[1].ask("error 9 lost a card", "error 9")
    job.said("rank 1 says why it fails: lost a card")
    os.kill(job.pid(0), signal.SIGABRT)  # not a crash: the time of a crash may be before its report
    assert job.ended() == (9, "failed", None)
    cause = job.report()["first_cause"]
    assert cause["rank"] == 1 and cause["text"].endswith(": lost a card")
    assert victims(job) == {0: True, 1: False}


def test_commands_that_do_not_attach_are_victims_too(world):
    """With -n each command is a rank, even if it does not attach."""
    report = world.root / "report.json"
    world.launch("-n", "3", *HURRY, "--report", report, "--", "sh", "-c",
                 'case $RANK in 1) sleep 0.2; exit 4;; 2) trap "exit 0" TERM;; esac; sleep 60 & wait', code=4)
    ranks = json.loads(report.read_text())["ranks"]
    assert {r["rank"]: (r["victim"], r["attached"], r["done"]) for r in ranks} == {
        0: (True, False, False), 1: (False, False, False), 2: (False, False, False)}
    assert len({r["pid"] for r in ranks}) == 3


# --- what a program has written down ------------------------------------------------------------

FILE = "TORCHELASTIC_ERROR_FILE"
# As PyTorch's `record` does when an exception ends the program.
RECORD = """
import json, os, sys, time, traceback
def record(error):
    data = {"message": {"message": f"{type(error).__name__}: {error}", "extraInfo": {
        "py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}}}
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as f:
        json.dump(data, f)
"""


@pytest.fixture
def run_python(world, reported):
    """A function that runs a program that can `record` its error: the job, its exit code, the first cause."""
    def run(text, *options, env=None):
        script = world.file("train.py", RECORD + text)
        job, cause = reported(*options, "--", sys.executable, "-S", script, env=env)
        return job, job.process.returncode, cause
    return run


def test_an_exception_is_the_cause(run_python):
    """The cause has the exception's type and message, not only an exit code that all exceptions share."""
    before = time.time()
    job, code, cause = run_python("""
try:
    raise RuntimeError("CUDA error: an illegal memory access\\nwas encountered")
except RuntimeError as e:
    record(e)
    raise
""")
    assert code == 1
    assert cause["text"].endswith(": RuntimeError: CUDA error: an illegal memory access was encountered")
    assert "exit code 1" in cause["text"]
    assert before - 0.02 <= seconds(cause["at"]) <= time.time()
    assert job.err_lines[-1].endswith("illegal memory access was encountered")


def test_each_command_has_a_file_of_its_own(run_python):
    """The files are below pchrun's private directory, to which no other user can write, and vanish with it."""
    job, code, cause = run_python("""
rank = os.environ["RANK"]
path = os.environ["TORCHELASTIC_ERROR_FILE"]
print(path, oct(os.stat(os.path.dirname(path)).st_mode & 0o777), flush=True)
if rank == "1":
    record(ValueError("rank 1"))
    sys.exit(9)
time.sleep(60)
""", "-n", "2")
    assert (code, cause["rank"]) == (9, 1) and cause["text"].endswith(": ValueError: rank 1")
    paths = [line.split() for line in job.out.splitlines()]
    assert all(mode == "0o700" for _, mode in paths)
    assert len(paths) < 2 or paths[0][0] != paths[1][0]


def test_who_wrote_it_first_was_first(run_python):
    """One process fails and takes its time to die; its neighbour dies of the failure earlier."""
    _, code, cause = run_python("""
if os.environ["RANK"] == "0":
    record(ValueError("the cause"))
    open("failed", "w").close()
    time.sleep(60)
while not os.path.exists("failed"):
    time.sleep(0.01)
time.sleep(1.1)
record(ConnectionError("reset by peer"))
sys.exit(5)
""", "-n", "2", *HURRY)
    assert cause["rank"] == 0 and cause["text"].endswith("had failed: ValueError: the cause")
    assert code == cause["code"] == 1


def test_the_users_file_is_read_and_stays(world, run_python):
    """A launcher like torchrun sets the variable and reads the file afterwards."""
    path = world.root / "mine.json"
    _, code, cause = run_python('record(KeyError("loss"))\nsys.exit(3)\n', env={FILE: str(path)})
    assert code == 3 and cause["text"].endswith(": KeyError: 'loss'")
    assert "KeyError" in json.loads(path.read_text())["message"]["message"]


def test_an_old_file_of_the_users_tells_nothing(world, run_python):
    """Of the attempt before."""
    path = world.file("mine.json", '{"message": "yesterday"}')
    os.utime(path, (time.time() - 86400,) * 2)
    _, code, cause = run_python("sys.exit(3)\n", env={FILE: str(path)})
    assert code == 3 and "yesterday" not in cause["text"]


def test_a_success_leaves_no_cause(run_python):
    """An exception that was caught and written down is no cause."""
    _, code, cause = run_python('record(ValueError("x"))\n')
    assert (code, cause) == (0, None)


BAD = {
    "fifo": "os.mkfifo(path)",
    "folder": "os.mkdir(path)",
    "link": 'os.symlink("/dev/zero", path)',
    "huge": 'open(path, "w").write("[" * (10 << 20))',
    "deep": 'open(path, "w").write("[" * 500000)',
    "binary": 'open(path, "wb").write(bytes(range(256)) * 100)',
    "utf8": """open(path, "wb").write(b'{"message": "\\\\xff\\\\xfe"}')""",
    "shape": """open(path, "w").write('{"message": [1, 2]}')""",
}


@pytest.mark.parametrize("whose", ["ours", "users"])
@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_error_file_does_no_harm(world, run_python, kind, whose):
    """The log says that the file is invalid, and the job ends as without a file."""
    env = {FILE: str(world.root / "mine")} if whose == "users" else None
    job, code, cause = run_python(f'path = os.environ["{FILE}"]\n{BAD[kind]}\nsys.exit(6)\n', env=env)
    assert code == 6 and cause["text"].endswith("ended with exit code 6"), cause
    assert re.search(rf"ignoring the error file \S+ \({FILE}\): ", job.err), job.err


def test_control_characters_do_not_reach_the_terminal(run_python):
    job, code, cause = run_python('record(ValueError("\\x1b[2Jgone\\x07"))\nsys.exit(1)\n')
    assert "\x1b" not in job.err and cause["text"].endswith("ValueError: ?[2Jgone?")


# --- out of memory --------------------------------------------------------------------------------

@pytest.fixture
def control_group(world):
    """A real control group of 64 MiB, in which the kernel kills a process that wants more."""
    for base, limit in ((Path("/sys/fs/cgroup"), "memory.max"),
                        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes")):
        group = base / f"pchrun-{world.mark}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            with open(group / limit, "r+") as f:  # a folder without this file is no control group
                f.write(str(64 << 20))
            break
        except OSError:
            group.rmdir()
    else:
        pytest.skip("no control group with a limit of memory can be made here")
    yield group
    wait_until(lambda: not (group / "cgroup.procs").read_text(), "the end of the group")
    group.rmdir()


# It waits until pchrun has looked at the groups of its commands: then pchrun leaves its directory.
HOG = """import os
import time
while os.readlink(f"/proc/{os.getppid()}/cwd") != "/":
    time.sleep(0.01)
data = []
while True:
    data.append(bytearray(b"x" * (8 << 20)))
"""


def test_out_of_memory_is_told_apart(world, control_group):
    """The rank moves into a group of its own, as a container's does; pchrun stays outside. pchrun looks at the groups
    of its commands soon after their start. So it stands until the rank has moved."""
    script, report = world.file("hog.py", HOG), world.root / "report.json"
    job = world.launch("--report", report, "--", "sh", "-c",
                       f"echo $$ >{control_group}/cgroup.procs; exec {sys.executable} -S {script}",
                       env=world.gates("parent-after-fork"))
    wait_until((control_group / "cgroup.procs").read_text, "the rank in its group")
    world.go("parent-after-fork")
    assert job.finish() == 137
    cause = json.loads(report.read_text())["first_cause"]
    assert cause["signal"] == signal.SIGKILL
    assert "out of memory: the kernel killed it" in cause["text"]
    assert control_group.name in cause["text"]


@pytest.mark.skipif(not kernel_can(), reason="the kernel tells of a death only when its parent may reap it")
def test_out_of_memory_whoever_dies_first(training, control_group):
    """The kernel kills rank 0 for memory. Rank 1 is ended because of that, and reaped before rank 0 is: the
    kill stays rank 0's. The ranks come into their group after the start, as below a container's runtime."""
    looks = "until [ $(readlink /proc/$PPID/cwd) = / ]; do sleep 0.01; done"  # pchrun looks at the groups of its commands
    job = training("--stop-exit-wait", "300ms", "--stop-term-wait", "60s", n=2,
                   start=f"{looks}; echo $$ >{control_group}/cgroup.procs; {CHILD}", train=0)
    hog, other = job.pid(0), job.pid(1)
    tracer = Tracer(hog)  # a large memory, which takes seconds to be taken down, would do the same
    job.clients[0].tell("swell 512")
    try:
        wait_until(lambda: state_of(hog) == "Z", "the kernel to kill it")
        wait_until(lambda: state_of(other) == "", "the end of rank 1")
    finally:
        tracer.wait()  # now the parent learns of the end of the killed process
    assert job.result() == (137, "failed", None)
    cause = job.report()["first_cause"]
    assert (cause["rank"], cause["signal"]) == (0, signal.SIGKILL)
    assert "out of memory: the kernel killed it" in cause["text"], cause["text"]


def test_a_plain_kill_is_not_out_of_memory(world):
    """A kill -9 by a user does not count as out of memory."""
    report = world.root / "report.json"
    job = world.launch("--report", report, "--", world.actor, "say", "on", "pause")
    pid = world.events.wait("on")["pid"]
    os.kill(pid, signal.SIGKILL)
    assert job.finish() == 137
    assert "SIGKILL, cause unknown" in json.loads(report.read_text())["first_cause"]["text"]


def test_the_last_lines_of_standard_error(world):
    """With logs.dir the report of every node has the last lines, since people look at them first."""
    nodes = Nodes(world, 2, ["--logs-dir", world.root / "logs"])
    nodes.launch_all("sh", "-c", "[ $PCH_NODE_RANK = 1 ] || exec sleep 1000; echo first >&2; "
                     "printf 'Traceback\\n\\377ValueError: 7' >&2; exit 7")
    assert nodes.finish() == 7
    for node in range(2):
        assert nodes.report(node)["first_cause"]["stderr"] == "first\nTraceback\n\ufffdValueError: 7"


NO_RANK = ("ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK "
           "expected, but not set")


@pytest.mark.parametrize("script, options", [
    ('printf \'{"message": "%s"}\' "$1" >"$TORCHELASTIC_ERROR_FILE"; exit 1', ()),
    ('echo "$1" >&2; exit 1', ("--logs-dir", "logs"))], ids=["error file", "output"])
def test_a_program_without_a_rank_is_told_of_n(world, script, options):
    """A program for torchrun died of it without -n, and nothing said so."""
    job = world.launch(*options, "--", "sh", "-c", script, "sh", NO_RANK, code=1)
    assert job.err.rstrip().endswith("; pchrun sets RANK with -n COUNT only")


def test_a_program_that_instrument_does_not_know_is_not_told_to_use_it(world):
    """The text advised --instrument, although it was given."""
    job = world.act("say ready pause", options="--instrument")
    job.end_by(signal.SIGTERM, 42)
    assert "; --instrument attaches programs of Trainer, Lightning and Keras only; see also" in job.err
