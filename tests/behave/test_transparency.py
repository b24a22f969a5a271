# SPDX-License-Identifier: Apache-2.0
"""The program sees the same with and without pchrun.

The tests start mirror twice from the same environment, with and without pchrun, and compare the two pictures
whole. The allowed differences are listed here only.
"""

import fcntl
import json
import os
import signal
import subprocess

import pytest

from harness import DOCUMENTED, DOCUMENTED_RANKS
from nodes import Nodes

# The process's own identity, its place under pchrun, and the death signal that ends it with pchrun.
MAY_DIFFER = {"pid", "ppid", "pgid", "pdeathsig"}
IGN = signal.SIG_IGN


class Pictures:
    def __init__(self, plain, under):
        self.plain = plain
        self.under = under
        # pchrun's configuration is for pchrun.
        plain["env"] = [entry for entry in plain["env"] if not entry.startswith("PCHRUN_")]

    def added(self):
        """The variables that only the program under pchrun has."""
        return [e for e in self.under["env"] if e not in self.plain["env"]]

    def check(self, documented=DOCUMENTED, but=()):
        for key in self.plain:
            if key not in MAY_DIFFER and key != "env" and key not in but:
                assert self.under[key] == self.plain[key], key
        names = {entry.partition("=")[0] for entry in self.added()}
        assert names <= documented
        rest = [e for e in self.under["env"] if e.partition("=")[0] not in documented]
        # PCHRUN_* is for pchrun alone, and ends with it.
        assert rest == [e for e in self.plain["env"] if e.partition("=")[0] not in documented
                        and not e.startswith("PCHRUN_")]


@pytest.fixture
def mirrored(world):
    """mirrored(*before, …): what mirror sees when these words start it, below pchrun or not."""
    def mirrored(*before, arguments=(), **more):
        path = world.root / "picture"  # the same each time: it is in argv
        world.start(*before, world.mirror, path, *arguments, code=0, **more)
        picture = json.loads(path.read_text())
        path.unlink()
        return picture
    return mirrored


@pytest.fixture
def look(world, mirrored):
    """look(*before, options=(), …): starts `before… mirror` and `before… pchrun … mirror`."""
    silent = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    return lambda *before, options=(), **more: Pictures(
        *(mirrored(*before, *middle, **silent, **more) for middle in ([], [world.pchrun, *options, "--"])))


@pytest.fixture
def pipe(world):
    """The ends of a pipe: (read end, write end)."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def variables(picture):
    return dict(entry.split("=", 1) for entry in picture["env"])


def mask_all():
    signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))


def close_all_streams():
    os.closerange(0, 3)


def test_promise_7_nothing_differs_but_what_is_documented(look):
    """The promise behind all others of this file. Containers were once left at oom_score_adj
    -1000, children with a launcher's blocked TSTP, ranks with a socket on descriptor 5."""
    look().check()


@pytest.mark.parametrize("before", [None, mask_all, close_all_streams],
                         ids=lambda before: before.__name__ if before else "nothing")
def test_promise_7_in_a_job_of_several_nodes(world, look, before):
    two = Nodes(world, 2)
    two.jobs[1] = two.launch(1, "true")
    # The plain picture is taken first; node 0 begins when its turn has come.
    look(options=["--cluster-nodes", two.entries, "--node-rank", "0", *two.options], preexec_fn=before).check()
    assert two.jobs[1].finish() == 0


def test_ignored_sigchld_is_reset(world):
    """Some launchers start jobs with SIGCHLD ignored. waitpid then fails with ECHILD, and tini and
    catatonit wait for ever for a child that ended long ago."""
    assert world.act("exit 7", above=["env", "--ignore-signal=CHLD"]).finish() == 7


CATCHABLE = [n for n in range(1, 32) if n not in (signal.SIGKILL, signal.SIGSTOP)]
CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}


@pytest.mark.parametrize("numbers", [[n] for n in (1, 2, 3, 13, 15, 17, 17 + 3, 21, 22)] + [CATCHABLE],
                         ids=lambda n: "all" if len(n) > 1 else signal.Signals(n[0]).name)
def test_ignored_signals_stay_ignored(world, look, numbers):
    """nohup, background jobs of a shell and Python (SIGPIPE) hand ignored signals down. A launcher that resets them
    kills the job at logout; a launcher that leaks its own ignores breaks `yes | head`."""
    if world.has_sanitizer():  # a sanitizer catches these signals before main, whatever was inherited
        numbers = [n for n in numbers if n not in CRASHES]

    def ignore():
        for number in numbers:
            signal.signal(number, IGN)
    pictures = look(preexec_fn=ignore, restore_signals=False)
    pictures.check()
    mask = int(pictures.under["SigIgn"], 16)
    assert all(mask >> n - 1 & 1 for n in numbers)


@pytest.mark.parametrize("numbers", [[], [signal.SIGUSR1], [signal.SIGTERM, signal.SIGCHLD],
                                     range(1, 65)], ids=["none", "USR1", "TERM+CHLD", "all"])
def test_the_signal_mask_is_handed_down(look, numbers):
    """catatonit left its child with TSTP, TTIN and TTOU blocked: Ctrl-Z had no effect any more."""
    look(preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, numbers)).check()


def test_nohup_keeps_its_effect(look):
    """nohup is the oldest way to start a long job. With evsignal the protection against SIGHUP was
    silently lost for the child."""
    pictures = look("nohup")
    pictures.check()
    assert int(pictures.under["SigIgn"], 16) & 1 << signal.SIGHUP - 1


def test_same_session_new_group(look):
    """A new session loses the controlling terminal and job control, so it is not the default; a
    process group of its own lets the whole command be signalled at once."""
    under = look().under
    assert under["pgid"] == under["pid"]
    assert under["sid"] != under["pid"]


def test_a_new_session_on_request(look):
    """Services want no terminal: --procs-new-session gives each command a session of its own."""
    pictures = look(options=["--procs-new-session"])
    assert pictures.under["sid"] == pictures.under["pid"] == pictures.under["pgid"]
    pictures.check(but={"sid"})


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)],
                         ids=lambda c: "".join(map(str, c)))
def test_standard_descriptors_closed_at_the_start_stay_closed(look, closed):
    """A daemon manager that closes 0-2 makes the next socket land on standard error, and the first
    warning is written into it. The program itself finds them closed, as it would have."""
    redirections = " ".join(f"{fd}>&-" for fd in closed)
    pictures = look("sh", "-c", f'exec "$@" {redirections}', "sh")
    pictures.check()
    assert not set(map(str, closed)) & set(pictures.under["fds"])


def test_inherited_descriptors_are_passed(look, pipe):
    """The numbers of PMI's, make's jobserver's and LISTEN_FDS' descriptors must not change."""
    pictures = look(pass_fds=pipe)
    pictures.check()
    assert set(map(str, pipe)) <= set(pictures.under["fds"])


@pytest.mark.parametrize("kernel", [None, [], ["--eperm"]], ids=["new", "old kernel", "EPERM"])
def test_inherited_descriptors_closed_on_request(world, look, pipe, kernel):
    """A leaked listening socket keeps its port busy as long as the job runs. On kernels before 5.9
    there is no close_range; crun falls back on EINVAL, ENOSYS and EPERM."""
    before = [] if kernel is None else [world.oldkernel, *kernel]
    pictures = look(*before, options=["--procs-close-fds"], pass_fds=pipe)
    assert set(pictures.under["fds"]) == {"0", "1", "2"}
    pictures.check(but={"fds"})


def test_programs_are_found_where_unknown_calls_get_eperm(world):
    """An old libseccomp answers so, also to faccessat2. pchrun-watch then was "in no directory of PATH"."""
    world.start(world.oldkernel, "--eperm", world.pchrun, "--notices", f"file:{world.root}/leave", "--", world.actor,
                "exit", "7", code=7)


def test_inherited_descriptors_are_not_made_nonblocking(world, pipe):
    """O_NONBLOCK lives in the open file description: a supervisor that sets it on its standard
    error changes its caller, its shell and every rank; writes then fail with EAGAIN."""
    with open("/dev/null", "rb") as null:
        def flags():
            return [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (null.fileno(), pipe[1])]
        before = flags()
        job = world.act("record USR1 say ready until USR1", options="-v", stdin=null, stdout=pipe[1], stderr=pipe[1])
        assert flags() == before
        job.end_by(signal.SIGUSR1, 0)
        assert flags() == before


def test_a_nonblocking_descriptor_stays_so(look, pipe):
    """Nor is the flag cleared: the caller may have set it on purpose."""
    os.set_blocking(pipe[1], False)
    pictures = look(pass_fds=pipe[1:])
    assert pictures.under["fds"][str(pipe[1])]["fl"] & os.O_NONBLOCK
    pictures.check()


def test_standard_streams_are_inherited_not_piped(world, mirrored):
    """A pipe in between adds buffering, loses isatty and dies with us."""
    with open(world.root / "streams", "w+") as file:
        fds = mirrored(world.pchrun, "--", stdin=file, stdout=file, stderr=file)["fds"]
    assert [fds[str(n)]["target"] for n in range(3)] == [str(world.root / "streams")] * 3


def test_variables_pass_in_order(look):
    """Empty values, odd bytes and long values are the program's business."""
    look(env={"EMPTY": "", "ODD": "a=b\nc\x7f\u00e4", "LONG": "x" * 100_000}).check()


def test_last_duplicate_wins(world, mirrored):
    """A second PCH_RANK, left by an outer pchrun, must not be what getenv finds first."""
    env = mirrored(world.actor, "env", "PCH_RANK=77", "PCH_NNODES=9", "PCH_RANK=78", "TWICE=1", "--", world.pchrun,
                   "--")["env"]
    assert [e for e in env if e.startswith("PCH_RANK=")] == ["PCH_RANK=0"]
    assert [e for e in env if e.startswith("PCH_NNODES=")] == ["PCH_NNODES=1"]
    assert "TWICE=1" in env


def test_documented_variables_are_set(look):
    """A shell script resumes by these alone."""
    env = dict(entry.split("=", 1) for entry in look().added())
    assert env["PCH_RANK"] == env["PCH_LOCAL_RANK"] == env["PCH_NODE_RANK"] == "0"
    assert env["PCH_WORLD_SIZE"] == env["PCH_NNODES"] == "1"
    assert env["PCH_GENERATION"] == "0"
    assert not DOCUMENTED_RANKS & set(env)  # only with -n


def test_listen_pid_follows_the_program(world, mirrored):
    """systemd's socket activation checks LISTEN_PID against getpid(): under a wrapper it named the
    wrapper, and the sockets were ignored."""
    seen = mirrored("sh", "-c", 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"', "sh", world.pchrun, "--")
    env = variables(seen)
    assert env["LISTEN_PID"] == str(seen["pid"]) and env["LISTEN_FDS"] == "1"


def test_anothers_listen_pid_is_left_alone(look):
    """A LISTEN_PID that does not name pchrun stays unchanged."""
    pictures = look(env={"LISTEN_PID": "1", "LISTEN_FDS": "1"})
    pictures.check()
    assert "LISTEN_PID=1" in pictures.under["env"]


def test_notify_socket_is_dropped(world, mirrored):
    """NOTIFY_SOCKET belongs to the service's main process: a rank that says READY=1 or STOPPING=1
    there speaks for the whole service."""
    assert "NOTIFY_SOCKET" not in variables(mirrored(world.pchrun, "--", env={"NOTIFY_SOCKET": "/run/none"}))


def test_limits_and_the_rest_are_handed_down(look):
    """crun once left containers with its own -1000 of oom_score_adj, conmon its raised limits."""
    pictures = look("nice", "-n", "3", "prlimit", "--nofile=128:200", "--stack=4194304",
                    "--core=0:0", "--memlock=65536:65536", "setpriv", "--no-new-privs", "sh", "-c",
                    'umask 027; echo 77 >/proc/self/oom_score_adj; cd /proc; exec "$@"', "sh")
    pictures.check()
    assert pictures.under["nice"] == os.nice(0) + 3 and pictures.under["cwd"] == "/proc"
    assert pictures.under["oom_score_adj"] == "77" and pictures.under["Umask"] == "0027"


def test_a_removed_working_directory_does_no_harm(world):
    """The working directory may vanish while the job starts; pchrun does not need it."""
    gone = world.root / "gone"
    gone.mkdir()
    world.act("exit 3", above=["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', gone], code=3)


def test_arguments_are_passed_as_they_are(look):
    """No shell in between: what looks like an option, a quote or nothing at all arrives."""
    assert look().under["argv"][1:] == look().plain["argv"][1:]


@pytest.mark.parametrize("args", [["", " ", "-n", "--grace", "--", "*", "$HOME", "a\nb"], []],
                         ids=["odd", "none"])
def test_odd_arguments_are_passed_as_they_are(world, mirrored, args):
    """All words behind the command's name belong to the command, even a second "--"."""
    assert mirrored(world.pchrun, arguments=args)["argv"] == [world.mirror, str(world.root / "picture"), *args]
