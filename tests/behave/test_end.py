# SPDX-License-Identifier: Apache-2.0
"""How a run ends, exec errors and exit codes.
"""

import os
import re
import resource
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from harness import children_of, state_of, wait_until
from nodes import free_port


@pytest.mark.parametrize("code", [0, 1, 2, 41, 42, 43, 124, 125, 126, 127, 128, 143, 255])
def test_the_programs_code_is_ours(world, code):
    """Every code is passed on: schedulers, scripts and people look at it."""
    assert world.act(f"exit {code}").finish() == code


@pytest.mark.parametrize("options, code, is_told", [
    ([], 42, True), ([], 41, False), (["--exit-hang", "9"], 9, True),
])
def test_a_code_of_the_program_that_means_a_restart_is_told(world, options, code, is_told):
    """The code stays the program's. The log says so, because a scheduler would start the job again for ever."""
    job = world.act(f"exit {code}", options=options, code=code)
    says = "with this code a scheduler starts the job again, as after a preemption"
    assert job.err_lines[-1].endswith(says) == is_told


SIGNALS = ["HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "SEGV", "USR1",
           "PIPE", "ALRM", "TERM", "XCPU", "SYS"]


@pytest.mark.parametrize("name", SIGNALS)
def test_death_by_a_signal_is_128_plus_its_number(world, name):
    """128 + n, as shells have it; a program that dies of SIGTERM by itself was not preempted."""
    assert world.act(f"die {name}").finish() == 128 + getattr(signal, f"SIG{name}")


@pytest.mark.parametrize("name", ["TERM", "KILL", "SEGV", "ABRT", "INT"])
def test_the_signal_is_raised_again_on_request(world, name):
    """With exit.reraise the caller sees the death itself (Slurm: 0:15); without a second core."""
    job = world.act(f"die {name}", options="--exit-reraise")
    assert job.finish() == -getattr(signal, f"SIG{name}")
    assert not list(world.cwd.iterdir())


def test_a_blocked_signal_is_raised_again(world):
    """A mask inherited with the signal blocked: the death must still happen."""
    world.act("die TERM", options="--exit-reraise",
              preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]), code=-signal.SIGTERM)


def test_reraise_keeps_codes(world):
    """exit.reraise is about signals alone."""
    assert world.act("exit 143", options="--exit-reraise").finish() == 143


def test_an_unknown_status_is_not_success(world):
    """Another part of the process has reaped the child. crun and conmon ended with 0 then, and a scheduler
    would have taken the training for complete."""
    job = world.act("exit 0", env=world.shim("lostwait"), code=125)
    assert job.err_lines


# --- a command that cannot be started -------------------------------------------------------------

# Names, and the codes: "./" stands for the test's folder.
CASES = {
    "nothing in PATH": ("no-such-command", 127), "no such file": ("./none", 127),
    "no such folder": ("./none/none", 127), "empty name": ("", 127), "no permission": ("./plain", 126),
    "a folder": ("./", 126), "below a file": ("./plain/below", 126), "not a program": ("./broken", 126),
    "a loop of links": ("./loop", 126), "a name too long": ("/" + "x" * 300, 126), "no interpreter": ("./script", 127),
}


@pytest.mark.parametrize("name, code", CASES.values(), ids=CASES)
def test_127_not_found_126_cannot_execute(world, name, code):
    """The rule of env, nohup and timeout; tini gives 1 for the rest, catatonit 1 for all, dumb-init
    2. The text names the command and the reason, once, and the code is not overwritten by the
    end of the child that reported it."""
    world.file("plain", "text")
    world.file("broken", "\x7fELF\x02\x01\x01" + "\0" * 100, 0o755)
    world.file("script", "#!/no/such/interpreter\n", 0o755)
    (world.root / "loop").symlink_to("loop")
    path = f"{world.root}{name[1:]}" if name.startswith("./") else name
    job = world.launch("--", path, "argument", code=code)
    told = [line for line in job.err_lines if f"'{path[:60]}" in line]
    assert len(told) == 1, job.err
    assert not job.out


def test_exec_fails_for_one_of_many(world):
    """All commands are the same, so all fail; the log says so once, not once per rank."""
    job = world.launch("-n", "4", "--", world.root / "none", code=127)
    assert len([line for line in job.err_lines if "cannot execute" in line]) == 1, job.err


def test_the_path_is_searched_as_execvp_does(world):
    """A folder without permission and a file without permission are passed over while there is
    something better behind them."""
    first, second = world.root / "first", world.root / "second"
    for folder, mode in ((first, 0o644), (second, 0o755)):
        folder.mkdir()
        (folder / "tool").write_text("#!/bin/sh\nexit 33\n")
        (folder / "tool").chmod(mode)
    search = f"{world.root}/none:{first}:{second}:/usr/bin:/bin"
    assert world.launch("--", "tool", env={"PATH": search}).finish() == 33
    assert world.launch("--", "tool", env={"PATH": str(first)}).finish() == 126


def test_a_script_without_an_interpreter_line_is_run_by_sh(world):
    """Shells and execvp run such a script by sh; many a job script has no #! line."""
    script = world.file("job", 'exit "$1"\n', 0o755)
    assert world.launch("--", script, "21").finish() == 21


def test_a_script_is_found_by_its_path(world):
    """The program gets the name that the user gave, not the path that was found."""
    script = world.file("job.sh", '#!/bin/sh\necho "$0"\n', 0o755)
    job = world.launch("--", "./job.sh", cwd=world.root, code=0)
    assert job.out == "./job.sh\n"
    assert script.exists()


def test_a_script_that_is_being_written_is_tried_again(world):
    """ETXTBSY: the program file is open for writing. It is an exec failure like others."""
    path = world.root / "busy"
    path.write_bytes(open(world.actor, "rb").read())
    path.chmod(0o755)
    with open(path, "r+b"):
        job = world.launch("--", path, code=126)
    assert "busy" in job.err


# --- around the fork ------------------------------------------------------------------------------

def test_nothing_is_allocated_between_fork_and_exec(world):
    """malloc's lock may be held by a thread that the child does not have: it waits for ever."""
    if world.has_sanitizer():
        pytest.skip("the sanitizer's malloc cannot be replaced; the plain build runs this test")
    assert world.act("exit 5", env=world.shim("alloc")).finish() == 5
    job = world.launch("--", world.root / "none", env=world.shim("alloc"), code=127)
    assert "shim_alloc" not in job.err


@pytest.mark.parametrize("case", ["ends", "cannot be executed"])
def test_only_we_leave_through_exit(world, case):
    """A child that returns through main or calls exit() writes our buffers a second time and runs
    our exit handlers, which remove our socket."""
    trace = world.root / "trace"
    command = [world.actor, "exit", "1"] if case == "ends" else [world.file("plain")]
    job = world.launch("--", *command, env=world.shim("trace", SHIM_TRACE=trace))
    assert job.finish() == (1 if case == "ends" else 126)
    ends = [line for line in trace.read_text().splitlines() if line.startswith("exit")]
    assert ends == [f"exit {job.pid}"]


def test_artefacts_that_were_there_stay(world):
    """We remove what we created, and nothing else."""
    run_dir = world.root / "run"
    run_dir.mkdir(mode=0o700)
    (run_dir / "other").write_text("not ours")
    assert world.act("exit 0", options=["--run-dir", run_dir]).finish() == 0
    assert [path.name for path in run_dir.iterdir()] == ["other"]


# --- what the supervisor lets go of ---------------------------------------------------------------

def at_end(fd):
    try:
        return os.read(fd, 1) == b""
    except BlockingIOError:
        return False


def test_a_pipe_reaches_its_end(world):
    """The supervisor keeps no inherited descriptor after the start. Otherwise the reader of the program's pipe
    would wait for the job's end (catatonit #12, #14)."""
    read_end, write_end = os.pipe()
    job = world.act(f"close {write_end} record USR1 say ready until USR1", pass_fds=[write_end])
    os.close(write_end)
    os.set_blocking(read_end, False)
    wait_until(lambda: at_end(read_end), "the end of the pipe")
    os.close(read_end)
    os.kill(job.actor, signal.SIGUSR1)
    assert job.finish() == 0


def test_the_working_directory_is_let_go(world):
    """A scratch mount that the wrapper stands in cannot be unmounted. The program stays in it."""
    job = world.act("record USR1 say ready until USR1")
    wait_until(lambda: os.readlink(f"/proc/{job.pid}/cwd") == "/", "our going to /")
    assert os.readlink(f"/proc/{job.actor}/cwd") == str(world.cwd)
    os.kill(job.actor, signal.SIGUSR1)
    assert job.finish() == 0


def test_relative_paths_are_resolved_before(world):
    """--report and --run-dir are relative to where the user was."""
    world.act("exit 0", options="--report report.json", code=0)
    assert (world.cwd / "report.json").exists()


def test_a_relative_command_with_a_relative_path_is_found(world):
    """The command is looked up where the user was, too."""
    (world.cwd / "here").symlink_to(world.actor)
    assert world.launch("--", "./here", "exit", "8").finish() == 8
    assert world.launch("--", "here", "exit", "8", env={"PATH": ""}).finish() == 8


# --- our own codes --------------------------------------------------------------------------------

OUR_ERRORS = {
    "unknown option": ["--no-such-option", "--", "true"],
    "unknown short option": ["-X", "--", "true"],
    "no command": [],
    "no command behind --": ["--"],
    "bad number": ["-n", "many", "--", "true"],
    "missing value": ["--grace"],
    "run_dir that cannot be": ["--run-dir", "/proc/none", "--", "true"],
}


@pytest.mark.parametrize("args", OUR_ERRORS.values(), ids=OUR_ERRORS.keys())
def test_our_own_failures_are_125(world, args):
    """0-124 belong to the program: the caller must see whether pchrun or the program failed."""
    job = world.launch(*args, code=125)
    assert job.err_lines and not job.out


@pytest.mark.parametrize("option", ["--help", "-h", "--version", "-V", "--print-config"])
def test_what_only_shows_ends_with_0(world, option):
    """The text is on standard output, and nothing is started."""
    job = world.launch(option, code=0)
    assert job.out and not job.err


def left_column(text):
    return set(re.findall(r"^  (?:-\w, )?--(?:\[no-\])?([a-z-]+)", text, re.M))


@pytest.mark.parametrize("program, width", [("pchrun", 80), ("pchctl", 100), ("pchrun-watch", 100)])
def test_the_help_fits_one_screen(world, program, width):
    """Only pchrun has more options than that: its --help has the usual ones, and says how to see all."""
    path = Path(world.pchrun).with_name(program)
    texts = [subprocess.run([path, *args], capture_output=True, text=True, check=True).stdout
             for args in (["--help"], ["--help", "all"])]
    assert len(texts[0].splitlines()) <= 40
    assert max(map(len, texts[0].splitlines())) <= width
    usual, known = map(left_column, texts)
    assert len(usual) >= 10 and usual <= known
    assert (usual < known) == (program == "pchrun") == ("--help all" in texts[0])


def test_the_manual_describes_the_options_of_the_short_help(world):
    manual = (Path(__file__).parents[2] / "man" / "pchrun.1").read_text()
    described = manual.partition(".Sh OPTIONS")[2].partition("\n.Sh ")[0]
    named = set(re.findall(r"Fl -([a-z][a-z-]+)", described))
    assert left_column(world.launch("--help", code=0).out) - named == set()


def test_pchrun_alone_on_a_terminal_says_what_to_type(world, terminal):
    """Elsewhere, as in a script, it is an error of one line."""
    alone = terminal()
    assert alone.finish() == 125
    said = alone.text.splitlines()
    assert 3 <= len(said) <= 4 and max(map(len, said)) <= 80
    typed = [line.split("python train.py")[0] for line in said if "python train.py" in line]
    assert len(typed) == 2 and all("--checkpoint-dir" in line for line in typed)  # else a preemption costs all
    assert "pchrun --help" in alone.text
    job = world.launch(code=125)
    assert len(job.err_lines) == 1 and "no command is given" in job.err


@pytest.mark.parametrize("code", [0, 42, 43, 125, 126, 127])
def test_the_codes_are_documented(code):
    """A code that no page names cannot be acted on. The manual lists all codes with their names."""
    manual = (Path(__file__).parents[2] / "man" / "pchrun.1").read_text()
    status = manual.partition(".Sh EXIT STATUS")[2].partition("\n.Sh ")[0]
    assert re.search(rf"(?<!\d){code}(?!\d)", status)


def test_output_that_cannot_be_written_is_an_error(world):
    """`pchrun --help >/dev/full`: what the user asked for did not arrive, so it is not success."""
    with open("/dev/full", "w") as full:
        assert world.launch("--help", stdout=full).finish() == 125


def test_files_of_ours_are_private(world):
    """Whatever umask the job has, no other user may write a report."""
    world.act("exit 0", options="--report report.json", preexec_fn=lambda: os.umask(0), code=0)
    assert not stat.S_IMODE((world.cwd / "report.json").stat().st_mode) & 0o022


def test_no_zombie_and_no_child_at_the_end(world):
    """Before its own end, pchrun leaves no process of the job to init."""
    job = world.act("fork { pause } hold end exit 2")
    wait_until(lambda: world.events.all("forked"), "the fork")
    world.let_end(job, 2)
    assert not children_of(os.getpid()) and state_of(job.pid) == ""


# --- too few descriptors --------------------------------------------------------------------------

def low_limit(number):
    """For preexec_fn: forbids descriptors from this number on."""
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))


@pytest.mark.parametrize("options", [[], ["-n", "8"], ["--checkpoint-dir", "ckpt"]],
                         ids=["one", "many", "records"])
def test_a_low_limit_on_descriptors(world, options):
    """pchrun works, or its last line says what was tried, the limit, and what to do. With three descriptors not even
    the loader can open our libraries."""
    codes = []
    for limit in range(4, 41):
        job = world.launch(*options, "--", "true", preexec_fn=low_limit(limit))
        codes.append(job.finish())
        if codes[-1]:
            assert codes[-1] == 125
            assert f"the limit on open descriptors (ulimit -n) is {limit}: raise it" in (
                job.err_lines[-1])
        assert not list(world.tmp.iterdir())
    assert codes == sorted(codes, reverse=True) and codes[0] == 125 and codes[-1] == 0


def test_a_low_limit_on_descriptors_on_node_0(world):
    """There are some for node 0 itself, and none for the other nodes."""
    job = world.launch("--cluster-nodes", "127.0.0.1,127.0.0.2", "--cluster-port", free_port(),
                       "--node-rank", "0", "--cluster-join-timeout", "10s", "--grace", "1s", "--",
                       "true", preexec_fn=low_limit(11))
    wait_until(lambda: "waiting for node 1 (127.0.0.2)" in job.err, "it to listen")
    port = re.search(r"port (\d+)", job.err)[1]
    with socket.create_connection(("127.0.0.1", int(port))), \
            socket.create_connection(("127.0.0.1", int(port))):
        wait_until(lambda: "cannot accept connections: Too many open files; the limit on open "
                           "descriptors (ulimit -n) is 11: raise it" in job.err, "it to complain")
    job.end_by(signal.SIGTERM, 42)


# --- the last line --------------------------------------------------------------------------------

@pytest.mark.parametrize("options, verbs, words", [
    ("", "exit 3", ""),
    ("--stop-term-wait 200ms", "fork { ignore TERM say deaf pause } hold end exit 3", "stop: sending SIGKILL"),
    ("--report /proc/none", "exit 3", "report: cannot"),
    ("-n 2 --log-level debug", "exit 3", "signal: sending"),
    ("--exit-reraise", "die SEGV", ""),
], ids=["plain", "leftovers", "report", "debug", "reraise"])
def test_the_end_is_the_last_line(world, options, verbs, words):
    """A user looks at the last line of a log to see why the job ended."""
    job = world.act(verbs, options=options, ready="deaf")
    world.go_on("end")
    assert job.finish() in (3, -signal.SIGSEGV)
