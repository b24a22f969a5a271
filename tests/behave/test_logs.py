# SPDX-License-Identifier: Apache-2.0
"""The commands' output, kept in files (logs.dir): it is complete, and faults of the files or the reader do not
stop the training."""

import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import sys

import pytest

from harness import OWN_ERROR, children_of, is_alive, is_blocked, marked, status_of, wait_until
from nodes import Nodes

NODE = "attempt.1/gen.0/node.0"


class Logs:
    """A pchrun whose commands are Python programs, and the files that it keeps."""

    def __init__(self, world, root=None):
        self.world = world
        self.dir = (root or world.root) / "logs"
        self.report_path = (root or world.root) / "report.json"

    def start(self, program, *options, **more):
        return self.world.start(self.world.pchrun, "--logs-dir", self.dir, "--report",
                                self.report_path, *options, "--", sys.executable, "-c", program,
                                **more)

    def read(self, stream="stdout", name=NODE):
        path = self.dir / f"{name}.{stream}"
        return path.read_bytes() if path.exists() else b""

    def report(self):
        return json.loads(self.report_path.read_text())["logs"]

    def lines(self, stream="stderr"):
        return self.report()["commands"][0][stream]


@pytest.fixture
def logs(world):
    return Logs(world)


def tee_of(job):
    """The process that keeps the output."""
    def find():
        return [pid for pid in children_of(job.pid) if status_of(pid).get("Name") == "pchrun-logs"]
    return wait_until(find, "the process that keeps the output")[0]


WRITE = "import os, sys, time\nw = sys.stdout.buffer.write\n"


def until(logs, name):
    """Lines of a program that waits for world.go_on(name)."""
    return f"while not os.path.exists('{logs.world.hold(name)}'): time.sleep(0.01)\n"


def test_off_by_default(world):
    """A command writes to pchrun's own output, with no process in between."""
    job = world.start(world.pchrun, "--", "sh", "-c", "readlink /proc/self/fd/1 /proc/self/fd/2; "
                      "cat /proc/$PPID/task/*/children; echo $$", code=0)
    assert job.out.splitlines()[:2] == [str(job.out_path), str(job.err_path)]
    child, me = job.out.splitlines()[2].split()
    assert child == me


def test_all_bytes_are_kept_and_passed_on(logs):
    """All bytes are kept, whatever they are, also without a newline at the end."""
    out, err = random.Random(1).randbytes(300000), random.Random(2).randbytes(70000)
    program = ("import random, sys\n"
               "sys.stderr.buffer.write(random.Random(2).randbytes(70000))\n"
               "sys.stdout.buffer.write(random.Random(1).randbytes(300000))\n")
    job = logs.start(program, "-q", code=0)
    assert logs.read() == out and logs.read("stderr") == err
    assert job.out_path.read_bytes() == out and job.err_path.read_bytes() == err
    assert logs.lines("stdout")["bytes"] == len(out) and logs.report()["lost"] == 0


def test_kept_only(logs):
    job = logs.start("import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)",
                     "--no-logs-tee", "-q", code=3)
    assert job.out == "" and "err" not in job.err.splitlines()
    assert logs.read() == b"out\n" and logs.read("stderr") == b"err\n"


def test_the_command_sees_pipes_and_nothing_else(logs):
    job = logs.start("import os\nprint(sorted(os.listdir('/proc/self/fd')), os.isatty(1),"
                     " *(os.readlink(f'/proc/self/fd/{fd}')[:5] for fd in (1, 2)))", code=0)
    assert job.out == "['0', '1', '2', '3'] False pipe: pipe:\n"  # 3 is the descriptor that lists them


def test_a_flood_is_not_cut(world):
    """A command that prints faster than the disk or the reader blocks, as usual; no byte is dropped. The command
    blocks for half a second at most; a machine that stands still for longer gets another try."""
    for attempt in range(5):
        (world.root / f"try{attempt}").mkdir()
        logs = Logs(world, world.root / f"try{attempt}")
        if flood(logs) == (0, 0):
            return
    raise AssertionError("something was dropped each time")


def flood(logs):
    size = 32 * 1024 * 1024
    program = WRITE + ("import random\nr = random.Random(5)\n"
                       "part = [r.randbytes(65521) for _ in range(16)]\nn = 0\n"
                       f"while n < {size}:\n    n += w(part[n // 65521 % 16])\n")
    job = logs.start(program, "--logs-max-size", "0", stdout=subprocess.PIPE)
    passed, n = hashlib.sha256(), 0
    while data := os.read(job.process.stdout.fileno(), 1 << 20):
        passed.update(data)
        n += len(data)
    job.process.stdout.close()
    assert job.finish() == 0
    dropped = logs.report()["lost"], logs.report()["not_passed_on"]
    if dropped == (0, 0):
        assert n >= size and n == len(logs.read())
        assert hashlib.sha256(logs.read()).digest() == passed.digest()
    return dropped


def test_files_are_bounded(logs):
    """The last files are kept; joined, they are the end of the stream."""
    logs.start(WRITE + "for i in range(100000): w(b'%09d\\n' % i)", "--logs-max-size",
               "64K", "--logs-keep", "3", "--no-logs-tee", code=0)
    folder = logs.dir / "attempt.1/gen.0"
    names = ["node.0.stdout.3", "node.0.stdout.2", "node.0.stdout.1", "node.0.stdout"]
    assert sorted(p.name for p in folder.iterdir()) == sorted(names + ["node.0.stderr"])
    whole = b"".join(b"%09d\n" % i for i in range(100000))
    kept = b"".join((folder / name).read_bytes() for name in names)
    assert whole.endswith(kept)
    assert [(folder / name).stat().st_size for name in names] == [65536] * 3 + [len(whole) % 65536]


def test_a_second_attempt_has_its_own_files(logs):
    """Without a record each attempt counts as the first, and appends to the files."""
    for n in (1, 2):
        logs.start(f"print({n})", code=0)
    assert logs.read() == b"1\n2\n"
    for n in (1, 2):
        logs.start(f"print({n})", "--checkpoint-dir", logs.world.root / "checkpoints", code=0)
    assert logs.read(name="attempt.2/gen.0/node.0") == b"2\n"


COUNT = 3000
LINES = WRITE + ("import random\nrank = os.environ['RANK']\nr = random.Random(int(rank))\n"
                 f"for i in range({COUNT}):\n"
                 "    line = f'{rank} {i} {\"x\" * r.randrange(300)}\\n'\n"
                 "    cut = r.randrange(len(line))\n"
                 "    os.write(1, line[:cut].encode())\n    os.write(1, line[cut:].encode())\n")


def lines_of(rank):
    r = random.Random(rank)
    for i in range(COUNT):
        line = f"{rank} {i} {'x' * r.randrange(300)}"
        yield line
        r.randrange(len(line) + 1)


def test_lines_of_several_ranks_stay_whole(logs):
    """Each line is written in two pieces, which would mix on a terminal that they share. Only a line whose second
    half takes half a second to come may be interrupted; of those there are few."""
    job = logs.start(LINES, "-n", "3", code=0)
    passed = job.out.splitlines()
    for rank in range(3):
        mine = list(lines_of(rank))
        assert logs.read(name=f"attempt.1/gen.0/rank.{rank}").decode().splitlines() == mine
        assert len(set(mine) & set(passed)) > 0.99 * COUNT
    assert len("".join(passed)) == sum(len("".join(lines_of(rank))) for rank in range(3))


def test_lines_begin_with_their_rank(logs):
    job = logs.start(LINES, "-n", "3", "--logs-prefix", code=0)
    passed = job.out.splitlines()
    for rank in range(3):
        mine = [line.removeprefix(f"[{rank}] ") for line in passed if line.startswith(f"[{rank}] ")]
        assert "".join(mine) == "".join(lines_of(rank))
    assert 3 * COUNT <= len(passed) < 3.03 * COUNT


def test_a_prompt_without_an_end_comes_through(logs):
    """A line without a newline is not kept back for long."""
    job = logs.start(WRITE + "w(b'50%'); sys.stdout.flush()\n" + until(logs, "asked") + "w(b'100%')", "--logs-prefix")
    wait_until(lambda: job.out == "[node 0] 50%", "the first half")
    logs.world.let_end(job, name="asked")
    assert job.out == "[node 0] 50%100%"


LINE = 8000


def test_at_a_terminal(logs, terminal):
    """The terminal's keys still reach the command. Its output, to the last line, appears on the terminal and in the
    file."""
    shown = terminal("--logs-dir", logs.dir, "--", sys.executable, "-c",
                     "import sys, time\ntry:\n    print('ready', sys.stdin.isatty(), flush=True)\n"
                     "    while True: time.sleep(0.02)\n"
                     "except KeyboardInterrupt: print('bye'); sys.exit(7)")
    shown.expect("ready True")
    shown.ask("\x03", "bye")
    assert shown.finish() == 7
    assert logs.read() == b"ready True\nbye\n"


# --- places that do not take it --------------------------------------------------------------------

def printing(world, per_line=LINE):
    """A program that prints lines until it may end, and then writes how many bytes."""
    return (WRITE + f"i = 0\nwhile not os.path.exists('{world.hold('enough')}'):\n"
            f"    w(b'%0{per_line - 1}d\\n' % i); i += 1\n    sys.stdout.flush()\n"
            f"    open('{world.root}/printed', 'w').write(str(i * {per_line}))\n"
            f"    time.sleep(0 if i * {per_line} < 3000000 else 0.01)\n")


def printed(world):
    path = world.root / "printed"
    return int(path.read_text() or 0) if path.exists() else 0


def test_a_full_disk(logs):
    """The training goes on; what is missing is said in the log and in the file; when there is room, the output goes
    on."""
    world = logs.world
    logs.dir.mkdir()
    job = world.start("unshare", "--mount", "sh", "-c",
                      f"mount -t tmpfs -o size=512k none '{logs.dir}' && exec \"$@\"", "sh",
                      world.pchrun, "--logs-dir", logs.dir, "--no-logs-tee", "--logs-max-size", "0",
                      "--report", logs.report_path, "--", sys.executable, "-c", printing(world))
    probe = wait_until(lambda: printed(world) > 3000000 or job.process.poll() is not None, "3 MB")
    if not printed(world):
        pytest.skip(f"no mount namespace here: {job.err}")
    assert probe and "No space left on device" in job.err
    inside = f"/proc/{tee_of(job)}/root{logs.dir}"
    os.truncate(f"{inside}/{NODE}.stdout", 0)
    wait_until(lambda: "bytes are missing" in job.err, "room to be found")
    world.go_on("enough")
    kept = None

    def look():
        nonlocal kept
        try:
            with open(f"{inside}/{NODE}.stdout", "rb") as file:
                kept = file.read()
        except OSError:  # the process has ended
            return True
    wait_until(lambda: look() or job.process.poll() is not None, "the end")
    assert job.finish() == 0
    assert b"bytes of output are missing here: No space left on device]\n" in kept
    assert logs.lines("stdout")["lost"] > 1000000
    assert job.err.count("cannot be kept") <= 3, "once each time that it is full"


def test_nobody_reads_our_output(logs):
    """As with a stopped terminal (^S) or a pager that waits: the command ends nevertheless, and a later reader
    learns how much is missing."""
    job = logs.start(printing(logs.world), stdout=subprocess.PIPE)
    wait_until(lambda: printed(logs.world) > 3000000, "3 MB to be printed")
    assert "cannot be passed on" in job.err
    reader = job.process.stdout
    text = b""
    while b"bytes of output are missing here: writes took too long]\n" not in text:
        data = os.read(reader.fileno(), 65536)
        assert data
        text += data
    logs.world.go_on("enough")
    while os.read(reader.fileno(), 65536):
        pass
    reader.close()
    assert job.finish() == 0
    assert len(logs.read()) == printed(logs.world), "the files have it all"
    assert logs.report()["not_passed_on"] > 1000000 and logs.report()["lost"] == 0


def test_nobody_reads_to_the_end(logs):
    """The end waits for no reader, either."""
    job = logs.start(WRITE + "w(b'x' * 1000000)", stdout=subprocess.PIPE)
    assert job.finish() == 0
    job.process.stdout.close()
    assert len(logs.read()) == 1000000


def test_our_output_was_closed(logs):
    """`pchrun … | head -1` ends no training by SIGPIPE."""
    job = logs.start(printing(logs.world), stdout=subprocess.PIPE)
    assert os.read(job.process.stdout.fileno(), 1)
    job.process.stdout.close()
    wait_until(lambda: printed(logs.world) > 3000000, "3 MB to be printed")
    logs.world.let_end(job, name="enough")
    assert len(logs.read()) == printed(logs.world) and "Broken pipe" in job.err


def stuck(logs):
    return logs.world.shim("stuck", SHIM_STUCK=logs.dir, SHIM_DIR=logs.world.root)


def test_a_dead_disk(logs):
    """A write to a dead disk does not return: not while the job runs, nor at its end."""
    job = logs.start(printing(logs.world), "--no-logs-tee", env=stuck(logs))
    wait_until(lambda: printed(logs.world) > 1000, "the first lines")
    (logs.world.root / "stuck").touch()
    wait_until(lambda: printed(logs.world) > 3000000, "3 MB to be printed")
    assert "cannot be kept" in job.err and "writes do not finish" in job.err
    logs.world.let_end(job, name="enough")
    lost = logs.lines("stdout")["lost"]
    assert lost > 1000000 and f"{lost} bytes of the commands' output were not kept" in job.err
    assert logs.lines("stdout")["last"][-1].endswith(str(printed(logs.world) // LINE - 1))


def test_a_disk_that_comes_back(logs):
    job = logs.start(printing(logs.world), "--no-logs-tee", "--logs-max-size", "0", env=stuck(logs))
    (logs.world.root / "stuck").touch()
    wait_until(lambda: printed(logs.world) > 3000000, "3 MB to be printed")
    (logs.world.root / "stuck").unlink()
    wait_until(lambda: "bytes are missing" in job.err, "the disk to be used again")
    logs.world.let_end(job, name="enough")
    kept, note = logs.read(), b"bytes of output are missing here: writes took too long]\n"
    assert kept.count(note) >= 1
    before, _, after = kept.rpartition(note)
    whole = b"".join(b"%0*d\n" % (LINE - 1, i) for i in range(printed(logs.world) // LINE))
    assert whole.endswith(after) and whole.startswith(before[:200000])


# --- the process that keeps it, and ends -----------------------------------------------------------

def test_it_is_killed(logs):
    """Another log process takes its place, and the command does not notice."""
    job = logs.start(WRITE + "print('before', flush=True)\n" + until(logs, "killed") + "print('after')")
    tee = tee_of(job)
    wait_until(lambda: logs.read() == b"before\n" and job.out == "before\n", "the first line")
    os.kill(tee, signal.SIGKILL)
    wait_until(lambda: "pchrun starts another one" in job.err, "its end to be seen")
    logs.world.let_end(job, name="killed")
    assert logs.read() == b"before\nafter\n" and job.out == "before\nafter\n"
    assert logs.lines("stdout")["last"] == ["before", "after"]


def test_what_it_held_when_it_was_killed_is_counted(logs):
    """The disk has died, so the log process holds in memory what it has read. The next log process reads the rest
    from the pipe."""
    root = logs.world.root
    job = logs.start(WRITE + "print('before', flush=True)\n" + until(logs, "print") +
                     f"w(b'x' * 199999 + b'\\n')\nsys.stdout.flush()\nopen('{root}/all', 'w').close()\n" +
                     until(logs, "end"), "--no-logs-tee", env=stuck(logs))
    wait_until(lambda: logs.read() == b"before\n", "the first line")
    (root / "stuck").touch()
    logs.world.go_on("print")
    wait_until((root / "all").exists, "all to be printed")
    wait_until(lambda: is_blocked(tee_of(job)), "all to be read: what it was just reading is not counted")
    os.kill(tee_of(job), signal.SIGKILL)
    wait_until(lambda: "pchrun starts another one" in job.err, "its end to be seen")
    (root / "stuck").unlink()
    logs.world.let_end(job)
    lost = logs.lines("stdout")["lost"]
    assert lost > 100000 and len(logs.read()) + lost == 7 + 200000


def test_it_cannot_be_replaced(logs):
    """No new process can be started: the output is lost, but no process waits at a full pipe for ever. The
    first three processes look at the directory, keep the output, and run the command."""
    job = logs.start(WRITE + until(logs, "killed") +
                     "for i in range(4): os.write(1, bytes(32768))", "--no-logs-tee",
                     env=logs.world.shim("refuse", SHIM_REFUSE="fork:4+",
                                         SHIM_REFUSED=logs.world.root / "refused"))
    os.kill(tee_of(job), signal.SIGKILL)
    logs.world.let_end(job, name="killed")
    assert "cannot start the process that keeps" in job.err
    assert "bytes of the commands' output were not kept" in job.err


def test_the_limit_of_the_stack_is_no_matter(logs):
    """A thread gets `ulimit -s` by default; here it is more than the address space."""
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    job = logs.start("print('hi')", "-q", code=0,
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (1 << 50, hard)))
    assert job.err == ""
    assert logs.read() == b"hi\n" and job.out == "hi\n"


def test_it_cannot_begin(logs):
    """The log process lacks a descriptor. The log says so, and the process begins when there is one again."""
    job = logs.start(WRITE + until(logs, "killed") + "print('hi')")
    tee = tee_of(job)
    wait_until(lambda: is_blocked(job.pid), "pchrun to have opened all that it needs")
    limits = resource.prlimit(job.pid, resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    os.kill(tee, signal.SIGKILL)
    wait_until(lambda: "cannot start: Too many open files" in job.err, "the reason to be said")
    resource.prlimit(job.pid, resource.RLIMIT_NOFILE, limits)
    logs.world.go_on("killed")
    wait_until(lambda: logs.read() == b"hi\n", "what was printed to be kept")
    assert job.finish() == 0


def test_it_is_stopped(logs):
    """A user stops the log process; pchrun continues it before its pipes are full."""
    job = logs.start(printing(logs.world), "--no-logs-tee")
    for _ in range(3):
        os.kill(tee_of(job), signal.SIGSTOP)
    wait_until(lambda: printed(logs.world) > 3000000, "3 MB to be printed")
    logs.world.let_end(job, name="enough")
    assert len(logs.read()) == printed(logs.world)


def test_it_is_killed_again_and_again(logs):
    """Each new log process takes over the pipes as they are."""
    job = logs.start(printing(logs.world))
    for count in (1, 2):
        os.kill(tee_of(job), signal.SIGKILL)
        wait_until(lambda: job.err.count("pchrun starts another one") == count, "its end to be seen")
        before = printed(logs.world)
        wait_until(lambda: printed(logs.world) > before + 20 * LINE, "more than a pipe holds")
    logs.world.let_end(job, name="enough")
    assert logs.lines("stdout")["last"][-1].endswith(str(printed(logs.world) // LINE - 1))


@pytest.mark.killed
def test_we_are_killed(logs):
    """The output until then is kept, and no process is left."""
    job = logs.start(WRITE + "print('last words', flush=True)\n"
                     f"open('{logs.world.root}/printed', 'w').write('1')\ntime.sleep(60)")
    wait_until(lambda: printed(logs.world), "the words to be printed")
    tee = tee_of(job)
    job.kill()
    wait_until(lambda: not marked(job.mark), "the end of the command")
    wait_until(lambda: not is_alive(tee), "the end of who keeps its output")
    assert logs.read() == b"last words\n" and job.out == "last words\n"


DAEMON = ("import os, sys, time, signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
          "print('started', flush=True)\n"
          "if os.fork() == 0:\n    os.setsid()\n    while True:\n"
          "        os.write(1, b'daemon\\n')\n        time.sleep(0.01)\n"
          "time.sleep(0.1)\n")


def test_a_daemon_that_stays(logs):
    """The daemon holds its end of the pipe as long as it likes. pchrun does not wait for it."""
    logs.start(DAEMON, "--stop-leftovers", "leave", "--no-logs-tee", code=0)
    assert logs.read().startswith(b"started\ndaemon\n")
    wait_until(lambda: "daemon" in str(logs.lines("stdout")["last"]), "the report")
    wait_until(lambda: not marked(logs.world.mark), "the daemon to find its pipe closed")


def test_a_daemon_that_is_ended(logs):
    logs.start(DAEMON, "--no-logs-tee", code=0)
    assert logs.read().startswith(b"started\n")


def test_streams_that_are_closed_early(logs):
    """The log process has nothing to do any more, and the job goes on."""
    logs.start("import os, time\nprint('out', flush=True)\nos.close(1)\nos.close(2)\n"
               "time.sleep(0.3)\nos._exit(5)", code=5)
    assert logs.read() == b"out\n"


# --- the report ------------------------------------------------------------------------------------

def test_the_first_and_last_lines_are_in_the_report(logs):
    logs.start("import sys\nfor i in range(100): print(i, file=sys.stderr)\nsys.exit(1)",
               "--logs-lines", "3", "--no-logs-tee", code=1)
    assert logs.lines()["first"] == ["0", "1", "2"] and logs.lines()["last"] == ["97", "98", "99"]
    assert logs.lines("stdout")["first"] == logs.lines("stdout")["last"] == []
    assert logs.lines()["file"] == f"{logs.dir}/{NODE}.stderr"


def test_lines_that_are_none(logs):
    """Bytes that are no UTF-8, a line of 10 MB, NULs, control characters for a terminal, a progress bar."""
    logs.start(WRITE + "e = sys.stderr.buffer.write\n"
               "e(b'a\\xff\\xfe b\\xed\\xa0\\x80\\n'); e(b'\\0nul\\n'); e(b'\\x1b[31mred\\n')\n"
               "e(b'x' * 10000000 + b'END\\n')\n"
               "for i in range(50000): e(b'\\r%d%%' % i)\n"
               "e(b'\\nRuntimeError: boom')\n", "--no-logs-tee", code=0)
    first, last = logs.lines()["first"], logs.lines()["last"]
    assert first[0].startswith("a\ufffd\ufffd b") and first[1] == "?nul" and first[2] == "\x1b[31mred"
    assert first[3].startswith("xxx") and first[3].endswith("x...") and len(first) == 4
    assert last[-1] == "RuntimeError: boom" and last[-2] == "49999%"
    assert last[0].startswith("...xx") and last[0].endswith("xEND") and len(last) == 3
    assert logs.report_path.stat().st_size < 100000


def test_no_lines_are_wanted(logs):
    logs.start("print('secret')", "--logs-lines", "0", code=0)
    assert "secret" not in logs.report_path.read_text()


# --- restarts in place -----------------------------------------------------------------------------

def test_each_generation_has_its_own(logs):
    """Files and lines; what a generation printed last is not mixed with what the next prints."""
    job = logs.start("import os, sys\ng = int(os.environ['PCH_GENERATION'])\n"
                     "print('generation', g)\nprint('why', g, file=sys.stderr)\nsys.exit(g < 2)",
                     "-n", "1", "--restart-max", "3", "--restart-backoff", "0", code=0)
    for n in range(3):
        name = f"attempt.1/gen.{n}/rank.0"
        assert logs.read(name=name) == f"generation {n}\n".encode()
        assert logs.read("stderr", name) == f"why {n}\n".encode()
    assert job.out.splitlines() == [f"generation {n}" for n in range(3)]
    assert logs.lines()["last"] == ["why 2"]


# --- several nodes -----------------------------------------------------------------------------------

def test_nodes_that_share_the_directory(logs):
    """Files have the names of ranks, which are unique in the job."""
    nodes = Nodes(logs.world, 2, ["-n", "2", "--logs-dir", str(logs.dir)])
    for node in range(2):
        nodes.jobs[node] = nodes.launch(node, "sh", "-c", "echo rank $RANK of node $PCH_NODE_RANK")
    assert nodes.finish() == 0
    for rank in range(4):
        assert logs.read(name=f"attempt.1/gen.0/rank.{rank}") == (
            f"rank {rank} of node {rank // 2}\n".encode())


# --- the start -------------------------------------------------------------------------------------

@pytest.mark.parametrize("make,said", [
    (lambda path: None, "its parent directory is missing"),
    (lambda path: (path.parent.mkdir(), path.write_text("")), "Not a directory"),
], ids=["no-parent", "a-file"])
def test_a_directory_that_cannot_be(logs, make, said):
    """The user is there to be told, and nothing has been started yet."""
    logs.dir = logs.world.root / "folder" / "logs"
    make(logs.dir)
    job = logs.start("print('started')", code=OWN_ERROR)
    assert said in job.err and "logs.dir" in job.err and job.out == ""


def test_too_few_descriptors(logs):
    """Two pipes for each command: the error says what is missing, and nothing is started."""
    job = logs.start("print('started')", "-n", "60", preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_NOFILE, (100, 100)), code=OWN_ERROR)
    assert "Too many open files" in job.err and job.out == ""


def test_descriptors_for_the_pipes(logs):
    """The soft limit is too low for the pipes of all commands. pchrun raises its own; each command gets the limit that
    pchrun was given."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    job = logs.start("import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))", "-n", "32",
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard)), code=0)
    assert job.out.splitlines() == [f"(128, {hard})"] * 32


def test_output_that_we_do_not_have(logs):
    """Started with standard output closed: the command has a standard output, which is kept."""
    logs.start("print('kept')", preexec_fn=lambda: os.close(1), code=0)
    assert logs.read() == b"kept\n"
