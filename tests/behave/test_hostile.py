# SPDX-License-Identifier: Apache-2.0
"""Everything is refused, set wrong, cut off or lied about, by attackers and by bad luck. Whatever
comes, the outcome is one of the documented ones, what is written is true, and nothing is left."""

import collections
import errno
import json
import os
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import time

import pytest

from client import ATTACH, WELCOME, attach_frame, connect, frame, receive
from harness import DEADLINE, MARK, SLACK, below_silent_names, is_blocked, kill_quietly, status_of, wait_until
from nodes import far, free_port, nodes  # noqa: F401
from relay import Relay
from test_boundary import end, held  # noqa: F401

# Long enough for a campaign, in the suite "long" only.
LONG = int(os.environ.get("TEST_LONG_MINUTES", "0"))


# --- the system refuses ---------------------------------------------------------------------------

def refused_runs(world, kind, command, lasting):
    """Runs the command once for each of its calls of a kind, and makes this call fail: (n, job, report). The report is
    None if none could be written."""
    shim = "memory" if kind == "memory" else "refuse"
    for n in range(1, 1000):
        mark, report = world.root / "refused", world.root / "report"
        for path in (mark, report):
            path.unlink(missing_ok=True)
        shutil.rmtree(world.root / "checkpoints", ignore_errors=True)
        env = world.shim(shim, SHIM_REFUSE=f"{kind}:{n}{'+' if lasting else ''}", SHIM_REFUSED=mark)
        job = world.launch("--report", report, "--checkpoint-dir", world.root / "checkpoints",
                           "--stop-term-wait", "300ms", "--stop-kill-wait", "300ms", *command,
                           env=env)
        job.finish()
        if not mark.exists():
            assert n > 4, "nothing was refused"
            return
        yield n, job, json.loads(report.read_text()) if report.exists() else None
        world.jobs.remove(job)


def expect_truth(n, job, report, codes):
    """The end is the command's own code, or our failure with a reason. The report must agree."""
    code = job.process.returncode
    assert code in codes, f"call {n}: {code}; it said: {job.err}"
    for line in job.err_lines:
        assert line.startswith(("pchrun ", "pch: ")), line
    if code == 125:
        assert job.err_lines, f"call {n}: no reason is given"
    if report and report["outcome"] != "unknown":
        assert report["exit_code"] == code, f"call {n}: {report}"


@pytest.fixture(params=["memory", "fork", "descriptors"])
def kind(request, world):
    if request.param == "memory" and world.has_sanitizer():
        pytest.skip("the sanitizer's malloc cannot be replaced; the plain build runs this test")
    return request.param


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
def test_what_is_refused_at_any_moment(world, kind, lasting):
    """The machine is out of memory, processes or descriptors: at each single call in turn."""
    for n, job, report in refused_runs(world, kind, ["--", "sh", "-c", "exit 3"], lasting):
        expect_truth(n, job, report, (3, 125))


def test_what_is_refused_while_a_process_trains_and_saves(world, kind):
    """A process attaches and saves by itself: a save that it knows as committed is on record."""
    script = world.file("script", "open\nstep 1\nstep 2\nsaved 2 at:///there\nscratch\nstep 3\ndone\n")
    command = ["-n", "1", "--", "sh", "-c", f"{world.helpers}/pchclient <{script} >/dev/null"]
    for n, job, report in refused_runs(world, kind, command, lasting=False):
        expect_truth(n, job, report, (0, 125))
        if report and report["commit"]:
            record = json.loads((world.root / "checkpoints/.pchrun/commit.json").read_text())
            assert report["commit"]["step"] == 2 and '"step": 2' in json.dumps(record)


# --- floods ---------------------------------------------------------------------------------------

class Flood:
    """Connections that say nothing, or a byte now and then (slowloris), made as fast as it goes."""

    def __init__(self, family, kind, address):
        self.make = lambda: socket.socket(family, kind | socket.SOCK_NONBLOCK)
        self.address = address
        self.sockets = []

    def come(self, count, says=b""):
        for _ in range(count):
            self.sockets.append(self.make())
            # EAGAIN: a full queue of a Unix socket takes no more; those of TCP come in time.
            if self.sockets[-1].connect_ex(self.address) == errno.EAGAIN:
                self.sockets.pop().close()
                time.sleep(0.001)
            elif says:
                self.say(self.sockets[-1], says)

    def say(self, one, data):
        try:
            one.send(data)
        except OSError:
            pass  # not connected yet, or put out already

    def go(self):
        for one in self.sockets:
            one.close()
        self.sockets = []


@pytest.fixture
def flood():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    floods = []

    def make(*args):
        floods.append(Flood(*args))
        return floods[-1]
    yield make
    for one in floods:
        one.go()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def memory_kb(job):
    return int(status_of(job.pid)["VmRSS"].split()[0])


@pytest.mark.parametrize("says", [b"", b"CP"], ids=["silent", "slow"])
def test_a_flood_on_node_0_s_port(world, nodes, flood, says):
    """A broken load balancer's health check, or an attack: thousands of connections that send nothing, or send
    slowly. A node joins, reconnects and is preempted all the same."""
    two = nodes(2, "--grace", "20s")
    two.start(0, "record TERM say n0 until TERM")
    two.say(0, "waiting for")
    attack = flood(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", two.port))
    attack.come(3000, says)
    begin = time.monotonic()
    two.start(1, "record TERM say n1 until TERM")
    two.pid(1)
    assert time.monotonic() - begin < SLACK
    attack.come(1000, says)
    two.jobs[1].send(signal.SIGTERM)
    assert two.finish() == 42
    assert two.agreed()["outcome"].startswith("preempted")
    lines = [line for line in two.jobs[0].err_lines if "closed" in line]
    assert 1 <= len(lines) < 20, lines


@pytest.fixture
def flood_on_node_0(lone_chief, flood):
    return flood(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", lone_chief.port))

def descriptors(job):
    return len(os.listdir(f"/proc/{job.pid}/fd"))


@pytest.fixture
def lone_chief(world, nodes):
    """Node 0 of two, which waits for the other one; all its lasting descriptors are open."""
    two = nodes(2)
    two.start(0, "say n0")
    two.say(0, "waiting for")
    wait_until(lambda: list(world.tmp.glob("pchrun.*/ctl")) and is_blocked(two.jobs[0].pid), "the socket of pchctl")
    return two


def test_a_flood_leaves_no_room_for_itself(world, lone_chief, flood_on_node_0):
    """Memory and descriptors stay bounded, and after the flood others can use them."""
    two, job, attack = lone_chief, lone_chief.jobs[0], flood_on_node_0
    before, fds = memory_kb(job), descriptors(job)
    attack.come(2000, b"CP\x01")
    wait_until(lambda: descriptors(job) > fds + 100, "the flood")
    attack.come(2000, b"CP\x01")
    assert descriptors(job) < fds + 300
    if not world.has_sanitizer():
        assert memory_kb(job) - before < 8192
    attack.go()
    wait_until(lambda: descriptors(job) <= fds, "the end of the flood")
    two.start(1, "say n1")
    world.events.wait("n1")
    assert two.finish() == 0


def test_strangers_give_their_descriptors(lone_chief, flood_on_node_0):
    """When descriptors run out, a node takes one from a connection that sends nothing."""
    two, chief = lone_chief, lone_chief.jobs[0]
    fds = descriptors(chief)
    flood_on_node_0.come(5)
    wait_until(lambda: descriptors(chief) >= fds + 5, "five strangers")
    set_descriptors(chief, max(map(int, os.listdir(f"/proc/{chief.pid}/fd"))) + 1)
    two.start(1, "say n1")
    two.say(0, "starting")
    set_descriptors(chief, 1024)
    two.finish()


def come_and_go(job):
    """A process attaches by hand, and leaves."""
    with connect(str(job.socket)) as client:
        client.send(attach_frame())
        kind, _, fds = receive(client)
        assert kind == WELCOME
        for fd in fds:
            os.close(fd)


@pytest.mark.parametrize("says", [b"", frame(ATTACH)[:4]], ids=["silent", "garbage"])
def test_a_flood_on_the_processes_socket(world, held, flood, says):
    """A library that connects in each of its workers, and again when it is refused. A process
    attaches all the same; memory, descriptors and the log stay small."""
    job = held()
    before = memory_kb(job)
    attack = flood(socket.AF_UNIX, socket.SOCK_SEQPACKET, str(job.socket))
    attack.come(3000, says)
    begin = time.monotonic()
    come_and_go(job)
    assert time.monotonic() - begin < SLACK
    if not world.has_sanitizer():
        assert memory_kb(job) - before < 8192
    assert len(os.listdir(f"/proc/{job.pid}/fd")) < 400
    attack.go()
    end(job)
    assert len(job.err_lines) < 40
    assert "more lines like the last ones were not written" in job.err


def test_who_attaches_and_goes_again_and_again(held):
    """Each time is news, a thousand times is not."""
    job = held("-n", "1", "--procs-per-node", "1")
    for _ in range(1500):
        come_and_go(job)
    job.send(signal.SIGTERM)
    job.send(signal.SIGUSR1)
    job.finish()
    assert len(job.err_lines) < 850
    assert "attach: " in job.err and "more lines like the last ones were not written" in job.err


# --- strangers on the socket of the processes -----------------------------------------------------

STRANGER = 65534


def as_stranger(world, *argv):
    return world.start("setpriv", "--reuid", str(STRANGER), "--clear-groups", *argv)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("is_open", [False, True], ids=["as it is", "opened by mistake"])
def test_another_user_on_the_processes_socket(world, held, open_folder, is_open):
    """A process that can talk to pchrun can end the job. The directory's mode keeps other users out. If the
    directory was opened, pchrun knows them by their uid and refuses them."""
    job = held("--run-dir", open_folder)
    if is_open:
        os.chmod(os.path.dirname(job.socket), 0o755)
        os.chmod(job.socket, 0o777)
    code = ("import socket, sys\n"
            "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
            f"s.settimeout({DEADLINE})\n"
            "s.connect(sys.argv[1])\n"
            "data = s.recv(9000)\n"
            "sys.exit(9 if b'another user' in data and not s.recv(9000) else 1)\n")
    stranger = as_stranger(world, "/usr/bin/python3", "-I", "-c", code, job.socket)
    assert stranger.finish() == (9 if is_open else 1)
    assert is_open or "PermissionError" in stranger.err
    assert ("refused: it belongs to another user" in job.err) == is_open
    end(job)


# --- between nodes --------------------------------------------------------------------------------

PEER_MAGIC = 0x5043
HELLO, PEER_WELCOME, PEER_REFUSED, STATUS, ORDER, BYE = range(1, 7)


def frames_of(data):
    """The whole frames in a stream: (type, bytes)."""
    found = []
    while len(data) >= 8:
        magic, _, kind, size = struct.unpack_from("<HBBI", data)
        assert magic == PEER_MAGIC
        if len(data) < 8 + size:
            break
        found.append((kind, data[:8 + size]))
        data = data[8 + size:]
    return found


def shout(port, data):
    """Sends data to node 0. Returns all answers until node 0 closes, which it does after half a message, too."""
    with socket.create_connection(("127.0.0.1", port), DEADLINE) as sock:
        answer = b""
        try:
            sock.sendall(data)
            while part := sock.recv(65536):
                answer += part
        except ConnectionError:
            pass
        return answer


@pytest.fixture
def recorded(world, nodes):
    """Two nodes that run, with what they said to each other."""
    two = nodes(2)
    far_port = free_port()
    relay = Relay(None, ("127.0.0.1", far_port), ("127.0.0.1", two.port))
    two.start(0, "say n0 hold end")
    two.jobs[1] = world.launch(
        "--cluster-nodes", f"127.0.0.1:{far_port},127.0.0.2:{two.port}", "--node-rank", 1,
        *two.options, "--report", world.root / "report.1.json", "--", world.actor, "say", "n1",
        "hold", world.hold("end"))
    world.events.wait("n0")
    world.events.wait("n1")
    member = [side for side in list(relay.heard) if not side.is_far][-1]

    def talk():
        return [frames_of(bytes(relay.heard.get(side, b""))) for side in (member, member.other)]
    wait_until(lambda: len(talk()[0]) > 4 and len(talk()[1]) > 3, "some heartbeats")
    yield two, *talk()
    relay.close()


def expect_unharmed(world, two):
    """No node has ended; the job does, with success."""
    for job in two.jobs.values():
        assert job.process.poll() is None, job.err
    world.let_end(two)
    assert two.agreed()["outcome"] == "completed"
def test_a_recorded_node_is_played_back(world, recorded):
    """A network or an attacker sends the bytes of an earlier connection again (without a key pchrun cannot
    prevent it). pchrun knows old bytes by their number; the node that they replace comes back."""
    two, there, _ = recorded
    assert there[0][0] == HELLO
    everything = b"".join(data for _, data in there)
    for n in range(1, 4):
        shout(two.port, everything)
        two.say(0, "is back", 2 * n)
    expect_unharmed(world, two)


def test_messages_that_make_no_sense_now(world, recorded):
    """STATUS before HELLO, orders from a member, an answer without a question: the connection ends, and nothing
    else."""
    two, there, back = recorded
    hello = there[0][1]
    status = next(data for kind, data in there if kind == STATUS)
    for kind, data in back:
        assert kind in (PEER_WELCOME, ORDER)
        assert shout(two.port, data) == b""
        assert frames_of(shout(two.port, data + hello)) == []
    assert shout(two.port, status) == b""
    cut = bytearray(hello)
    cut[4:8] = struct.pack("<I", len(hello) - 9)  # one byte less than HELLO needs
    for bad in (hello[:4] + b"\xff\xff\xff\xff" + hello[8:], bytes(cut[:-1]),
                hello[:3] + b"\x77" + hello[4:], hello[:-1]):
        assert frames_of(shout(two.port, bad)) == []
    refused = frames_of(shout(two.port, hello[:2] + b"\x63" + hello[3:]))
    assert [kind for kind, _ in refused] == [PEER_REFUSED]
    assert "is back" not in two.jobs[0].err
    world.let_end(two)


# --- a hostile environment ------------------------------------------------------------------------

def run_bare(world, argv, env, **options):
    """Starts a program with this environment and nothing else."""
    done = subprocess.run([str(a) for a in argv], env={MARK: world.mark, **env}, timeout=DEADLINE,
                          capture_output=True, **options)
    assert b"runtime error" not in done.stderr and b"Sanitizer" not in done.stderr, done.stderr
    return done


@pytest.mark.parametrize("env", [{}, {"PATH": ""}, {"TMPDIR": "/no/such/folder"}, {"TMPDIR": ""},
                                 {"XDG_RUNTIME_DIR": "/proc", "TMPDIR": "/sys"},
                                 {"HOME": "relative", "LANG": "no_NO.SUCH"}],
                         ids=lambda env: ",".join(env) or "nothing")
def test_an_environment_that_lacks_everything(world, env):
    """Started by a daemon, by a container's init, by a script that has unset too much."""
    done = run_bare(world, [world.pchrun, "-n", "1", "--", "/bin/sh", "-c",
                            'test -S "$PCH_SOCKET" && exit 4'], env)
    assert done.returncode == 4, done.stderr


def test_what_is_set_for_somebody_else(world):
    """pchrun inside of pchrun, in a shell that the outer one started. The inner program belongs to the inner pchrun.
    No variable of the outer pchrun misleads it."""
    inner = [world.pchrun, "-n", "2", "--", "/bin/sh", "-c",
             'echo "$PCH_SOCKET" "$PCH_RANK$PCH_WORLD_SIZE$RANK" "$PCH_RESUME_STEP$PCH_RESUME_PATH"']
    outside = {"PCH_SOCKET": "/evil", "PCH_RANK": "77", "PCH_RESUME_STEP": "99",
               "PCH_RESUME_PATH": "/evil", "PCH_WORLD_SIZE": "x", "RANK": "5"}
    done = run_bare(world, [world.pchrun, "-n", "1", "--", *inner], outside)
    assert done.returncode == 0, done.stderr
    lines = sorted(line.split(" ")[1:] for line in done.stdout.decode().splitlines())
    assert lines == [["020", "0"], ["121", "0"]]
    assert b"/evil" not in done.stdout


def test_pchrun_in_pchrun_is_preempted(world):
    """The notice reaches the innermost, and each pchrun tells the truth about its own command."""
    job = world.launch("--grace", "20s", "--", world.pchrun, "--grace", "10s", "--", world.actor,
                       "record", "TERM", "say", "ready", "until", "TERM", "exit", "0")
    world.events.wait("ready")
    job.end_by(signal.SIGTERM, 42)
    assert world.events.signals() == ["TERM"]
    assert job.err.count(" end: ") == 2


def test_a_megabyte_of_arguments_and_environment(world):
    """A shell that has expanded *; a launcher that puts its configuration there."""
    words = ["x" * 100_000] * 5
    env = {f"LONG_{i}": "y" * 100_000 for i in range(5)}
    report = world.root / "report"
    job = world.launch("-vv", "--report", report, "--", "sh", "-c", "exit $(($# + 1))", "sh", *words,
                       env=env, code=6)
    assert json.loads(report.read_text())["exit_code"] == 6
    assert max(len(line) for line in job.err_lines) <= 4096


def test_any_bytes_in_the_log_and_the_report(world):
    """A command's name is no text. Output for machines stays JSON, and output for people has no control characters."""
    report = world.root / "report"
    name = b"\xff\xc3\n\x1b[2J\"\\" + "\u00e9".encode() + b"\xe2\x82"
    job = world.launch("--log-format", "json", "-vv", "--report", report, "--",
                       os.fsdecode(b"/no/" + name), os.fsdecode(name), code=127)
    assert [json.loads(line) for line in job.err_path.read_bytes().splitlines()]
    assert "/no/\ufffd\ufffd\n" in json.loads(report.read_bytes())["why"]
    assert b"\x1b" not in job.err_path.read_bytes()


# --- a clock that is set --------------------------------------------------------------------------

def test_the_clock_is_set_in_mid_job(world, training):
    """NTP finds that the host was years off, or an operator thinks so. Deadlines, rounds and the ages of files depend
    on no clock that can be set; only times for people do."""
    clock = world.root / "clock"
    job = training("--grace", "20s", n=2, env=world.shim("clock", SHIM_CLOCK=clock), train=3)
    for jump in (400_000_000, -900_000_000, 0):
        clock.write_text(str(jump))
        begin = time.monotonic()
        for client in job.clients:
            client.train(client.step + 3)
        assert time.monotonic() - begin < SLACK
    clock.write_text("-1500000000")
    step = job.preempt()
    clock.write_text("1500000000")
    code, outcome, committed = job.result()
    assert (code, outcome, committed) == (42, "preempted", step)
    again = training(n=2, env=world.shim("clock", SHIM_CLOCK=clock))
    again.open(resume=step)
    again.done()
    assert again.result()[0] == 0


def test_the_clock_is_set_during_the_grace(world):
    """A deadline on the wrong clock comes at once, or never."""
    clock = world.root / "clock"
    job = world.act("record TERM say ready until TERM say asked pause",
                    options="--grace 1500ms --stop-term-wait 300ms --log-format json",
                    env=world.shim("clock", SHIM_CLOCK=clock))
    begin = time.monotonic()
    job.send(signal.SIGTERM)
    world.events.wait("asked")
    clock.write_text("-1000000000")
    assert job.finish() == 42
    assert time.monotonic() - begin > 1
    years = {json.loads(line)["at"][:4] for line in job.err_lines}
    assert len(years) == 2, "the clock was not set"


# --- processes that do harm, and die at any moment ------------------------------------------------

# The ends that a job with killed processes may have. No other end may come, above all no false success.
KILLED = 128 + signal.SIGKILL
LEGAL = {0: {"completed"}, 42: {"preempted", "preempted_unsaved", "preempted_unknown"}, KILLED: {"failed"},
         125: {"failed"}}


def check_end(job, report, checkpoints, killed):
    """The end is a legal one, and the reported commit is on record."""
    code = job.process.returncode
    assert report["state"] == "done" and report["exit_code"] == code, report
    assert code in LEGAL and report["outcome"] in LEGAL[code], (code, report["outcome"], job.err)
    assert code != 0 or not killed, "a killed rank is no success"
    record = checkpoints / ".pchrun/commit.json"
    commits = json.loads(record.read_text())["commits"] if record.exists() else []
    on_record = max([c["step"] for c in commits], default=None)
    assert (report["commit"] and report["commit"]["step"]) == on_record, (report, commits)
    return code, report["outcome"], on_record


def spree(world, n, *before, ranks=3, options=()):
    """A job of ranks that train and save by themselves, as fast as they can; and their pids."""
    checkpoints, report = world.root / f"checkpoints{n}", world.root / f"report{n}"
    checkpoints.mkdir()
    script = world.file("script", "\n".join(["open", *before, "spree 300 0 5 at:///x", ""]))
    job = world.launch("-n", ranks, "--checkpoint-dir", checkpoints, "--report", report,
                       "--grace", "6s", "--stop-exit-wait", "300ms", "--stop-term-wait", "300ms",
                       *options, "--", "sh", "-c",
                       f'echo $$ >>{checkpoints}/pids; exec {world.helpers}/pchclient <{script}')
    pids = checkpoints / "pids"
    wait_until(lambda: pids.exists() and len(pids.read_text().split()) == ranks, "the ranks")
    return job, checkpoints, report, [int(pid) for pid in pids.read_text().split()]


def kill_one(world, n, delay, notice):
    """One rank is killed after `delay` seconds; with `notice` a notice is under way."""
    job, checkpoints, report, pids = spree(world, n)
    time.sleep(delay)  # the test tries different moments
    if notice:
        os.kill(job.pid, signal.SIGTERM)
        time.sleep(delay / 7)
    victim = pids[n % len(pids)]
    kill_quietly(victim)
    job.finish()
    world.jobs.remove(job)
    return check_end(job, json.loads(report.read_text()), checkpoints,
                     f"process {victim} was killed" in job.err)


def kill_many(world, runs):
    ends = collections.Counter()
    dice = random.Random(str(runs))
    for n in runs:
        code, outcome, committed = kill_one(world, n, dice.uniform(0, 0.06), n % 2)
        ends[code, outcome, committed is not None] += 1
    return ends


def test_a_rank_is_killed_at_any_moment(world):
    """The kill comes at the start, between two steps, at the gate, or during the report of a save. The other ranks do
    not wait for the dead rank, and there is no false success or commit."""
    ends = kill_many(world, range(30))
    assert len({code for code, _, _ in ends}) > 1, ends


@pytest.mark.skipif(not LONG, reason="a campaign: TEST_LONG_MINUTES")
def test_ranks_are_killed_for_long(world):
    end_at = time.monotonic() + 60 * LONG
    n = 0
    while time.monotonic() < end_at:
        kill_many(world, range(n, n + 50))
        n += 50


@pytest.mark.parametrize("who", ["thread", "fork"])
@pytest.mark.parametrize("notice", [False, True], ids=["", "notice"])
def test_nonsense_in_the_page_at_full_speed(world, who, notice):
    """A thread with a wild pointer, or a fork that has kept the page, writes into it all the time:
    also between two looks of one round."""
    job, checkpoints, report, pids = spree(world, 0, f"havoc {who}", ranks=2)
    if notice:
        time.sleep(0.05)  # into the middle
        os.kill(job.pid, signal.SIGTERM)
    job.finish()
    check_end(job, json.loads(report.read_text()), checkpoints, False)


STAMPED = 36  # the length of header and stamp; behind them HELLO has the incarnation and the rank of its node


def hello_of_node_0(there, incarnation=None):
    """The HELLO that node 1 sent, but from node 0."""
    hello = there[0][1]
    assert hello[STAMPED + 8:STAMPED + 12] == struct.pack("<I", 1)
    return hello[:STAMPED] + (incarnation or hello[STAMPED:STAMPED + 8]) + bytes(4) + hello[STAMPED + 12:]


def test_somebody_says_that_he_is_node_0(world, recorded):
    """With the number of the true node 0, which every member knows."""
    two, there, back = recorded
    welcome = next(data for kind, data in back if kind == PEER_WELCOME)
    own = welcome[STAMPED:STAMPED + 8]  # the chief's incarnation
    for incarnation in (own, bytes(8), b"\1" * 8):
        false = hello_of_node_0(there, incarnation)
        assert PEER_WELCOME not in [kind for kind, _ in frames_of(shout(two.port, false))]
    two.say(0, "says that it is node 0", 3)
    expect_unharmed(world, two)


def test_refused_and_does_not_go(world, recorded, flood):
    """A stranger sends HELLO, is refused, and keeps the connection: the connection counts as one that sends nothing."""
    two, there, _ = recorded
    false = hello_of_node_0(there)
    chief = two.jobs[0]
    fds = descriptors(chief)
    attack = flood(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", two.port))
    for _ in range(6):
        attack.come(100, false)
        assert descriptors(chief) < fds + 300
    two.say(0, "says that it is node 0", 20)
    attack.go()
    world.let_end(two)


# --- few descriptors are allowed from the start ---------------------------------------------------

@pytest.fixture
def few_files():
    """A soft limit of descriptors that is too low for pchrun, and a sufficient hard limit."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, before[1]))
    yield 100
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def soft_limit(pid):
    return resource.prlimit(pid, resource.RLIMIT_NOFILE)[0]


def test_each_node_takes_the_descriptors_it_needs(world, nodes, few_files):
    """The soft limit is raised for each pchrun, and more for node 0, which has a connection to each node. The commands
    get the limit that their pchrun was given."""
    two = nodes(2)
    for rank in range(2):
        two.start(rank, f"say n{rank} hold end")
    actors = [two.pid(rank) for rank in range(2)]
    assert [soft_limit(pid) for pid in actors] == [few_files] * 2
    assert soft_limit(two.jobs[0].pid) > soft_limit(two.jobs[1].pid) + 2
    assert soft_limit(two.jobs[1].pid) == 128 + 3
    world.let_end(two)


# --- descriptors run out while the job runs -------------------------------------------------------

def set_descriptors(job, limit):
    resource.prlimit(job.pid, resource.RLIMIT_NOFILE, (limit, 4096))


def test_no_descriptor_for_a_helper(training):
    """The report cannot be written now. The writers of the record run already: this save is committed, and the next."""
    job = training("--grace", "10s", "--signals", "USR2=checkpoint", n=2, train=3)
    set_descriptors(job.job, 3)
    job.notice(signal.SIGUSR2)
    job.save("continue")
    job.said("Too many open files")
    assert json.loads((job.dir / ".pchrun/commit.json").read_text())["commits"]
    set_descriptors(job.job, 1024)
    job.notice()
    job.leave(2)


def test_no_descriptor_for_a_connection(world, far):
    """A member's connection breaks just when it has no descriptor left for a new one: the member is lost, like any that
    does not come back, and says why."""
    if world.has_sanitizer():
        pytest.skip("a sanitizer needs descriptors at the end; the plain build runs this test")
    two, proxy = far
    two.start_all("hold end")
    set_descriptors(two.jobs[1], 3)
    proxy.cut()
    assert two.finish() == 42
    assert two.report(0)["outcome"] == "node_lost"
    assert "cannot connect to" in two.jobs[1].err and "Too many open files" in two.jobs[1].err


# --- names that do not resolve --------------------------------------------------------------------

@pytest.mark.looks_up
@pytest.mark.parametrize("rank, sends", [(0, ""), (1, ""), (1, "TERM")])
def test_a_name_server_that_does_not_answer(world, rank, sends):
    """As in a new cluster's network. A look-up in libc may take minutes; pchrun does not wait so long, and
    takes a notice meanwhile."""
    options = f"--cluster-nodes n0.test,n1.test --node-rank {rank} --cluster-insecure --cluster-join-timeout 3s"
    job = world.act("say started", options=options, above=below_silent_names(world, sends))
    code = job.finish()
    assert code == (42 if sends else 125), job.err
    if not sends:
        assert "cannot look up 'n0.test'" in job.err or "could not join" in job.err, job.err
    assert not world.events.all("started")


@pytest.mark.looks_up
def test_a_look_up_under_a_limit_of_the_stack(world):
    """A thread gets `ulimit -s` by default; here it is more than the address space."""
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    job = world.start(world.pchrun, "--cluster-nodes", f"localhost:{free_port()},127.0.0.1", "--node-rank", 1,
                      "--cluster-join-timeout", "1s", "--", "true",
                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (1 << 50, hard)), code=125)
    assert "cannot connect to localhost" in job.err and "cannot start a thread" not in job.err, job.err
