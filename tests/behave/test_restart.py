# SPDX-License-Identifier: Apache-2.0
"""Restarts in place: what failed is started again, everywhere, from the last commit, when nothing of
the last generation is left; and not for ever."""

import json
import os
import re
import shutil
import signal
import sys

import pytest

from harness import PROMPT, interactive_shell, is_blocked, marked, state_of, wait_until
from nodes import Nodes
from pchctl import ctl  # noqa: F401
from test_ctl import metrics
from test_train import Attempt, digest

INT, TERM, KILL, USR2 = signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGUSR2
QUICK = ["--restart-max", "3", "--restart-backoff", "20ms"]
TRAINED = [*QUICK, "--restart-startup", "0"]  # no failure counts as one at the start
PAUSING = [*TRAINED, "--restart-backoff", "1h", "--restart-backoff-max", "1h"]


def generations(job):
    return [int(n) for n in re.findall(r"generation (\d+) begins", job.err)]


def run(world, script, *options, **more):
    return world.launch(*options, "--", "sh", "-c", script, **more)


@pytest.mark.parametrize("options", [QUICK, ["--preset", "unreliable"]], ids=["options", "preset"])
def test_a_failed_command_is_started_again(world, options):
    job = run(world, "echo $PCH_GENERATION $PCH_ATTEMPT; [ $PCH_GENERATION = 2 ] || exit 7", *options)
    assert job.finish() == 0
    assert job.out == "0 1\n1 1\n2 1\n"
    assert generations(job) == [1, 2]
    assert re.search(r"restart: node 0: process \d+ ended with exit code 7; restarting in place "
                     r"\(1 of 2 after a failure at the start\)$", job.err, re.M)


def test_without_the_option_nothing_is_started_again(world):
    job = run(world, "echo once; exit 7")
    assert (job.finish(), job.out) == (7, "once\n")


@pytest.mark.parametrize("options, starts, says", [
    (TRAINED, 4, r"the 3 restarts of restart\.max are spent"),
    (QUICK, 3, r"it has failed at its start 3 times in a row \(restart\.start_max\)"),
    ([*QUICK, "--restart-start-max", "0"], 1, r"it has failed at its start 1 times in a row"),
    ([*TRAINED, "--restart-fatal-codes", "3,9-11"], 1, r"9 is one of restart\.fatal_codes"),
    ([*TRAINED, "--restart-fatal-codes", "3,10-11"], 4, r"the 3 restarts of restart\.max are spent"),
    ([*TRAINED, "--restart-window", "1ms"], 5, None),
])
def test_budget(world, options, starts, says):
    """When the budget is spent, the job ends as the last failure says. Restarts before the window do not count:
    in that case the test ends the job at the fifth start."""
    job = run(world, "echo start; sleep 0.01; [ $PCH_GENERATION = 4 ] && exit 0; exit 9", *options)
    assert job.finish() == (9 if says else 0)
    assert job.out == "start\n" * starts
    if says:
        assert re.search(rf"end: failed, exit code 9: .*; not restarted: {says}", job.err)


def test_a_command_that_cannot_be_executed_is_not_tried_again(world):
    job = world.launch(*QUICK, "--", "/nonexistent", code=127)
    assert generations(job) == []


def test_a_command_that_is_no_longer_there(world):
    """A command that ran once counts as started, also if it has vanished since."""
    script = world.file("script", "#!/bin/sh\nrm $0; exit 3\n", 0o755)
    report = world.root / "report"
    job = world.launch(*QUICK, "--report", report, "--", script, code=127)
    assert generations(job) == [1]
    assert json.loads(report.read_text())["outcome"] == "failed"
    assert re.search(r"end: failed, exit code 127: node 0: cannot execute ", job.err)


def test_death_by_signal_counts_as_well(world):
    job = run(world, "[ $PCH_GENERATION = 1 ] || kill -SEGV $$", *QUICK)
    assert job.finish() == 0


# A framework's exception is known by its class, and a fault of the GPU by its text.
REPEATS = [
    ("import no_such_module", "ModuleNotFoundError"),
    ("from os import no_such_name", "ImportError"),
    ("def f(:", "SyntaxError"),
    ("if True:\npass", "IndentationError"),
    ("class MisconfigurationException(Exception): pass\nraise MisconfigurationException('no such strategy')",
     "MisconfigurationException"),
    ("raise type('ValidationError', (ValueError,), {})('1 validation error for Config\\nlr\\n  Field required')",
     "ValidationError"),
    ("raise type('ConfigAttributeError', (AttributeError,), {})('Key lr')", "ConfigAttributeError"),
    ("raise RuntimeError('CUDA error: no kernel image is available for execution on the device\\nCUDA kernel errors')",
     '"no kernel image is available for execution on the device"'),
    ("raise OSError('gpt-22 is not a local folder and is not a valid model identifier listed on')",
     '"is not a local folder and is not a valid model identifier"'),
]


def launch_python(world, source, *options):
    script = world.file("train.py", source)
    return world.launch(*QUICK, *options, "--", sys.executable, script)


@pytest.mark.parametrize("source, what", REPEATS, ids=[what for _, what in REPEATS])
def test_a_failure_that_repeats_is_not_tried_again(world, source, what):
    """It is known by the end of the program's standard error."""
    job = launch_python(world, source, "--logs-dir", world.root / "logs")
    assert job.finish() == 1
    assert generations(job) == []
    assert f"; not restarted: {what} repeats at each start" in job.err


@pytest.mark.parametrize("source", [
    "import argparse; argparse.ArgumentParser().parse_args(['--no-such-flag'])",
    "import sys; sys.exit(2)",
])
def test_a_wrong_argument_is_not_tried_again(world, source):
    job = launch_python(world, source)
    assert job.finish() == 2
    assert generations(job) == []
    assert "; not restarted: exit code 2 before any process had attached, a wrong argument, repeats" in job.err


@pytest.mark.parametrize("source", [
    "try: import no_such_module\nexcept ImportError: import traceback; traceback.print_exc()\nraise OSError('late')",
    "import os; print('ImportError: no traceback', file=__import__('sys').stderr, flush=True); os.abort()",
    "raise RuntimeError('ImportError: of another process')",
], ids=["caught", "killed", "quoted"])
def test_a_failure_that_may_be_chance_is_tried_again(world, source):
    job = launch_python(world, source, "--logs-dir", world.root / "logs")
    assert job.finish() != 0
    assert generations(job) == [1, 2], job.err


def test_a_failure_that_repeats_by_the_error_file(world):
    """torchrun's workers write it; pchrun need not read what they print."""
    job = launch_python(world, """
import json, os, sys, time
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
    json.dump({"message": {"message": "ModuleNotFoundError: No module named 'apex'",
                           "extraInfo": {"timestamp": str(int(time.time()))}}}, file)
sys.exit(1)
""")
    assert job.finish() == 1
    assert "; not restarted: ModuleNotFoundError repeats at each start" in job.err


@pytest.mark.parametrize("step", [0, 1])
def test_an_import_that_fails_after_a_step_may_be_chance(world, step):
    """Before the first step it repeats."""
    steps = [f"step {n}" for n in range(1, step + 1)]
    script = "\n".join(["open", *steps, "error 1 ImportError: no apex", "exit 1", ""])
    job = world.launch(*QUICK, "-n", "1", "--", *world.client(script))
    assert job.finish() == 1
    assert (generations(job) == []) == (step == 0), job.err
    assert ("not restarted: ImportError repeats at each start" in job.err) == (step == 0)


def test_the_same_failure_at_the_same_step_is_final(world):
    """A batch that the program cannot read ends every generation. At another step it may be another failure."""
    steps = "\n".join(f"step {n}" for n in range(1, 4))
    longer = world.file("longer", f"open\n{steps}\nstep 4\nerror 1 ValueError: bad batch 17\nexit 1\n")
    script = world.file("script", f"open\n{steps}\nerror 1 ValueError: bad batch 18\nexit 1\n")
    client = f"{world.helpers}/pchclient"
    job = run(world, f"[ $PCH_GENERATION = 0 ] && exec {client} <{longer}; exec {client} <{script}", *TRAINED)
    assert job.finish() == 1
    assert generations(job) == [1, 2], job.err
    assert re.search(r"end: failed, exit code 1: node 0: rank 0, process \d+ ended with exit code 1: ValueError: bad "
                     r"batch 18; not restarted: the same failure came twice at step 3, with no commit between; "
                     r"a restart cannot mend it$", job.err, re.M), job.err


def test_nothing_of_the_last_generation_is_left(world):
    """A daemon of the first generation ignores SIGTERM: the second begins when it has been killed."""
    script = """
        if [ $PCH_GENERATION = 0 ]; then
            setsid sh -c 'trap "" TERM; echo $$ >daemon; sleep 1000 & wait; wait' & sleep 0.01
            while [ ! -s daemon ]; do sleep 0.01; done; exit 3
        fi
        kill -0 $(cat daemon) 2>/dev/null && echo there || echo gone"""
    job = run(world, script, *QUICK, "--stop-term-wait", "100ms")
    assert job.finish() == 0
    assert job.out == "gone\n"


def test_the_next_generation_has_what_the_first_had(world):
    """The directory, standard input, a descriptor that was inherited; and its own number."""
    source, sink = os.pipe()
    extra, extra_sink = os.pipe()
    os.write(sink, b"one\ntwo\n")
    os.write(extra_sink, b"three\nfour\n")
    os.close(sink)
    os.close(extra_sink)
    job = world.launch(*QUICK, "--", "bash", "-c", f"pwd; read line; echo $line; read line <&{extra}; "
                       "echo $line; [ $PCH_GENERATION = 1 ] || { sleep 0.3; exit 1; }",
                       stdin=source, pass_fds=[extra])
    os.close(source)
    os.close(extra)
    assert job.finish() == 0
    assert job.out == f"{world.cwd}\none\nthree\n{world.cwd}\ntwo\nfour\n"


def test_the_terminal_is_lent_again(world):
    t = world.terminal(world.pchrun, *QUICK, "--", "sh", "-c",
                       "read line; echo got $line; [ $PCH_GENERATION = 1 ]")
    t.ask("one\n", "got one")
    t.expect("generation 1 begins")
    t.ask("two\n", "got two")
    assert t.finish() == 0


@pytest.mark.parametrize("script", [
    "echo here; exec sleep 1000",
    "trap 'exit 130' INT; echo here; while :; do sleep 0.02; done",
    "read line; echo here; exec sleep 1000",
])
def test_who_presses_a_key_wants_no_restart(world, script):
    """The key ends the job, also if the program has the terminal and pchrun does not get the key."""
    t = world.terminal(world.pchrun, *TRAINED, "--", "sh", "-c", script)
    t.ask("\n", "here")
    t.type("\x03")
    assert t.finish() == 130
    assert "end: interrupted, exit code 130: interrupted on node 0 by SIGINT" in t.text
    assert "restarting" not in t.text


@pytest.fixture
def shell(world):
    yield from interactive_shell(world, "bash", "--norc", "--noprofile", "-i")


def test_a_pause_can_be_stopped_by_a_key(world, shell):
    """There is no command that could stop; the shell gets its prompt all the same."""
    script = world.file("script", "[ $PCH_GENERATION = 2 ] || exit 1; read line; echo got $line")
    shell.ask(f"{world.pchrun} {' '.join(TRAINED)} --restart-backoff 1s -- sh {script}\n", "at the earliest")
    shell.ask("\x1a", "Stopped")
    shell.expect(PROMPT)
    shell.ask("fg\n", "generation 2 begins")
    shell.ask("this\n", "got this")
    shell.expect(PROMPT)


@pytest.mark.parametrize("number, code", [(INT, 130), (signal.SIGHUP, 129)])
def test_who_interrupts_it_wants_no_restart(world, number, code):
    job = run(world, "echo started; exec sleep 1000", *QUICK)
    wait_until(lambda: job.out, "the start")
    job.end_by(number, code)
    assert generations(job) == []


@pytest.mark.parametrize("number, code, said", [
    (INT, 5, "not restarted: a signal has told the job to end"),
    (TERM, 42, "preempted_unknown, exit code 42: the notice came while the job was restarted")])
def test_a_signal_in_the_pause_ends_the_job(world, number, code, said):
    job = run(world, "exit 5", *PAUSING)
    wait_until(lambda: "(2 of 3)" in job.err, "the pause")
    job.end_by(number, code)
    assert said in job.err


def checkpoint(t, step):
    """Requests a save and waits for its commit."""
    t.job.send(USR2)
    save_step = t.agreed()
    assert save_step == step
    t.serve(save_step, "continue")


def resumed(t, step, to):
    """The next generation begins at that step, each rank with its own path, and trains on; returns its report."""
    t.said("generation 1 begins")
    for client in t.clients:
        assert client.open(resume=step) == t.path(step, client.rank)
        client.train(to)
    return wait_until(lambda: t.report()["generation"] == 1 and t.report(), "the report")


def test_ranks_resume_from_the_last_commit(training, world):
    path = world.root / "pchrun.prom"
    t = training(*TRAINED, "--signals", "TERM=preempt,USR2=checkpoint", "-v", "--job", "run7", "--metrics-file", path,
                 n=2, train=4)
    checkpoint(t, 5)
    t.train(8)
    t.kill(0)
    report = resumed(t, 5, 9)
    assert (report["attempt"], report["steps"]["resumed"]) == (1, 5)
    t.complete(5)
    events = [json.loads(line) for line in (t.dir / ".pchrun/events.0.jsonl").read_text().splitlines()]
    assert {event["last_step"] for event in events if event["event"] == "failed"} == {8}
    told = metrics(path)
    assert told["pchrun_restarts_total", "failed"] == told["pchrun_saves_total", "committed"] == 1
    assert (told["pchrun_steps_total",], told["pchrun_steps_lost_total",]) == (8 + 9 - 5, 8 - 5)


@pytest.mark.parametrize("what", ["pchrun.*", "pchrun.*/socket"])
def test_the_private_directory_was_removed(training, world, what):
    """A job that cleans /tmp removed the directory. The next generation must not train without the connection to
    pchrun."""
    t = training(*TRAINED, "-v", n=1, train=3)
    for path in world.tmp.glob(what):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    t.kill(0)
    t.said(r"start: \S+/pchrun\.\w+, where processes attach, was removed; it is made again")
    t.clients[0].rest()
    t.open()
    t.clients[0].train(3)
    assert t.preempt() and t.result()[:2] == (42, "preempted")
    assert not list(world.tmp.glob("pchrun.*"))


def test_a_private_directory_that_cannot_be_made_again(training, world):
    """pchrun does not touch the file that another program has put in the directory's place."""
    t = training(*TRAINED, "-v", n=1, train=3)
    [path] = world.tmp.glob("pchrun.*")
    shutil.rmtree(path)
    path.write_text("not ours")
    t.kill(0)
    assert t.result()[:2] == (125, "failed")
    assert re.search(r"end: .*the socket .* was removed .*: "
                     r"cannot make the directory \S+ again: File exists", t.job.err)
    assert path.read_text() == "not ours"
    path.unlink()


def test_who_waits_for_a_save_hears_of_a_restart(training, ctl):  # noqa: F811
    """In the next generation rounds count from 1 again: pchctl does not wait in vain for the failed round."""
    t = training(*TRAINED, "-v", n=2, train=4)
    first = ctl.start("checkpoint")
    step = t.save("continue")
    assert first.finish() == 0
    t.train(step + 3)
    second = ctl.start("checkpoint")
    t.agreed(2)
    t.kill(1)
    assert second.finish() == 1
    assert re.fullmatch(r"pchctl: (the save at step \d+ (has failed|was called off): nothing is committed"
                        r"|the job was restarted in place before the save was committed; ask again)\n",
                        second.err)
    t.said("generation 1 begins")
    for client in t.clients:
        client.rest()
        client.step = step
        client.open(resume=step)
    t.complete(step)


def test_a_save_that_is_asked_for_in_the_pause_is_made(training, ctl):  # noqa: F811
    t = training(*TRAINED, "--restart-backoff", "1s", "--restart-backoff-max", "1s", "-v")
    for generation in range(2):
        t.open()
        t.train(3)
        os.kill(int(t.said(r"attach: rank 0 of 1 is process (\d+)$", generation + 1)[1]), KILL)
        t.said(rf"restarting in place.*\({generation + 1} of 3\)")
        t.clients[0].step = 0
        asked = ctl.start("checkpoint") if generation == 1 else None
        t.said(f"generation {generation + 1} begins")
    t.open()
    step = t.save("continue")
    assert (asked.finish(), asked.out) == (0, f"step {step} is committed\n")
    t.complete(step)


def test_what_was_saved_and_not_committed_can_be_saved_again(training):
    """Rank 0 has saved step 5 when rank 1 dies. The next generation saves it anew, and commits it."""
    t = training(*TRAINED, "--signals", "TERM=preempt,USR2=checkpoint", "-v", n=2, train=4)
    t.job.send(USR2)
    assert t.agreed() == 5
    t.reach(5)
    t.clients[0].tell(f"saved 5 {t.path(5, 0)}")
    wait_until(lambda: t.clients[0].has_read() and is_blocked(t.pid(0)), "rank 0 to be in pch_saved")
    t.kill(1)
    t.said("generation 1 begins")
    t.clients[0].rest()  # the rank may have been answered before it was ended
    t.open()
    t.train(4)
    t.job.send(USR2)
    assert t.agreed(2) == 5
    t.serve(5, "continue")
    t.complete(5)


def test_generations_without_a_commit_come_to_an_end(training):
    t = training(*TRAINED, "--restart-no-progress-after", "2", "-v", n=1)
    for generation in range(2):
        if generation > 0:
            t.said(f"generation {generation} begins")
        t.clients[0].step = 0
        t.open()
        t.train(3)
        os.kill(int(t.said(r"attach: rank 0 of 1 is process (\d+)$", generation + 1)[1]), KILL)
    code, outcome, commit = t.result()
    assert (code, outcome, commit) == (137, "failed", None)
    assert "2 generations in a row brought no commit" in t.job.err


# --- after a notice ------------------------------------------------------------------------------

def test_a_job_goes_on_when_the_notice_is_over(training):
    """The notice's deadline has passed, and the machine is still there. The next notice counts anew."""
    t = training("--restart-after-notice", "--grace", "2s", "-v", n=2, train=3)
    step = t.preempt()
    assert resumed(t, step, step + 3)["notice"] is None
    t.complete(step)


def test_a_notice_that_is_withdrawn_is_over_at_once(training, world):
    """Until the notice is withdrawn no command is started. A notice that the source repeats for ever counts once."""
    source = world.file("source", f"""#!/bin/sh
while [ ! -e {world.root}/open ]; do sleep 0.05; done
echo '{{"type":"terminate","id":"e","deadline_seconds":600,"text":"host maintenance"}}'
while [ ! -e {world.root}/over ]; do sleep 0.05; done
echo '{{"type":"cancel","id":"e"}}'
exec sleep 1000
""", 0o755)
    config = world.file("config", f'{{"notices": [{{"command": ["{source}"]}}]}}')
    t = training("-c", config, "--restart-after-notice", "-v", n=1, train=1)
    (world.root / "open").touch()
    t.save("exit")
    t.clients[0].end_input()
    wait_until(lambda: t.report()["state"] == "restarting", "the wait")
    t.close()
    assert "generation 1 begins" not in t.job.err
    (world.root / "over").touch()
    t.said("generation 1 begins")
    t.job.send(INT)
    assert t.job.finish() in (2, 130)


def test_whoever_is_told_to_stop_does_not_wait_for_the_end_of_a_notice(world):
    job = run(world, "trap 'exit 0' TERM; echo started; while :; do sleep 0.02; done",
              "--restart-after-notice", "--grace", "1h")
    wait_until(lambda: job.out, "the start")
    job.send(TERM)
    wait_until(lambda: "goes on in place when the notice is over" in job.err, "the wait")
    job.end_by(INT, 42)
    assert "not restarted: a signal has told the job to end" in job.err


# --- several nodes -------------------------------------------------------------------------------

def test_all_nodes_begin_together(world):
    """After a failure on one node, all nodes start again, with the same variables."""
    nodes = Nodes(world, 3, QUICK)
    script = ("echo $PCH_GENERATION; [ $PCH_GENERATION = 1 ] && exit 0; while [ ! -e go ]; do sleep 0.02; "
              "done; [ $PCH_NODE_RANK = 1 ] && exit 7; exec sleep 1000")
    nodes.launch_all("sh", "-c", script)
    wait_until(lambda: all(job.out for job in nodes.jobs.values()), "the first generation")
    (world.cwd / "go").touch()
    assert nodes.finish() == 0
    assert [job.out for job in nodes.jobs.values()] == ["0\n1\n"] * 3
    assert nodes.agreed()["generation"] == 1


@pytest.mark.killed
@pytest.mark.parametrize("count, lost", [(3, 1), (2, 0)], ids=["member", "chief"])
def test_a_node_that_is_lost_in_the_pause_ends_the_job(world, count, lost):
    nodes = Nodes(world, count, PAUSING)
    nodes.launch_all("sh", "-c", f"[ $PCH_NODE_RANK = {count - 1} ] && exit 7; exec sleep 1000")
    nodes.say(0, "(2 of 3)")
    os.kill(nodes.jobs[lost].pid, KILL)
    others = [node for node in range(count) if node != lost]
    assert nodes.finish(*others) == 42
    assert {nodes.report(node)["outcome"] for node in others} == {"node_lost"}


def test_a_training_ends_with_the_same_weights(world, digest):
    """A rank of four is killed after a commit: the job goes on from the commit, and ends with the same weights as
    undisturbed."""
    world.env |= {"PCHRUN_RESTART_MAX": "1", "PCHRUN_RESTART_STARTUP": "0"}
    attempt = Attempt(world, nnodes=2, options=["--save-every", "10"], pace=5)
    for node in attempt.nodes.jobs.values():
        assert node.process.poll() is None
    attempt.nodes.say(0, "step 10 is durable")
    attempt.wait_step(13)
    victims = [pid for pid in marked(world.mark) if state_of(pid) and "charlm" in open(
        f"/proc/{pid}/comm").read()]
    os.kill(victims[-1], KILL)
    assert attempt.nodes.finish() == 0, attempt.said()
    assert attempt.nodes.agreed()["generation"] == 1
    assert f"digest {digest}" in attempt.said()
