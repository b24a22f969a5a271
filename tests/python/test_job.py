# SPDX-License-Identifier: Apache-2.0
"""The package under a real pchrun, with several ranks."""

import json
import os
import re
import signal

import pytest

from harness import PREEMPTED, is_blocked, marked, wait_until
from pchctl import ctl  # noqa: F401

TOTAL = 40

# The common part of all shapes of a training loop. The test holds the ranks after step 5 until a save is agreed on.
BEGIN = f"""
import pch
from told import load, save, say, wait_for
TOTAL = {TOTAL}
state = None
def train():
    global state
    state += state % 7 + 1
    if job.finished == 5 and job.resume_step == 0:
        say("training")
        wait_for("on")
def saved(step):
    say("saved", step=step)
    return save(step, state)
"""

ATTACHED = """
with pch.attach() as job:
    state = load(job.resume_path)
    say("begin", step=job.resume_step)
"""
ENDS = """
    say("end", state=state)
"""

LOOPS = {
    "steps": ATTACHED + """    for step in job.steps(TOTAL):
        train()
        if job.should_save:
            job.saved(saved(job.finished))
""" + ENDS,
    "steps with a save function": ATTACHED + """    for step in job.steps(TOTAL, save=saved):
        train()
""" + ENDS,
    "step": """
job = pch.attach()
state, step = load(job.resume_path), job.resume_step
say("begin", step=step)
while step < TOTAL and not job.should_exit:
    train()
    step += 1
    if job.step(step):
        job.saved(saved(step))
if not job.should_exit:
    job.done()
    say("end", state=state)
job.close()
""",
    "durable": """
import threading
with pch.attach() as job:
    state = load(job.resume_path)
    say("begin", step=job.resume_step)
    for step in job.steps(TOTAL):
        train()
        if job.should_save:
            say("saved", step=job.finished)
            threading.Thread(target=lambda at, now: job.durable(at, save(at, now)), args=(job.finished, state)).start()
""" + ENDS,
    "run": ATTACHED + """    saver = pch.Saver(job, saved)
    while job.finished < TOTAL:
        saver.run(train)
""" + ENDS,
    "save_if_preempted": ATTACHED + """    saver = pch.Saver(job, saved)
    while job.finished < TOTAL:
        train()
        saver.save_if_preempted()
""" + ENDS,
    "scope": ATTACHED + """    saver = pch.Saver(job, saved)
    while job.finished < TOTAL:
        with saver.scope():
            train()
""" + ENDS,
}


def undisturbed():
    state = 0
    for _ in range(TOTAL):
        state += state % 7 + 1
    return state


@pytest.mark.parametrize("shape", LOOPS)
def test_a_preemption(program, world, shape):
    """All ranks save one step and leave; started again they resume at that step, and end as undisturbed."""
    one = program(BEGIN + LOOPS[shape])
    one.start(n=3, ready="training")
    one.agree()
    code, outcome, step = one.result()
    steps = [event["step"] for event in world.events.all("saved")]
    assert (code, outcome) == (PREEMPTED, "preempted") and 5 < step < TOTAL
    assert steps == [step] * 3 and not world.events.all("end")
    one.start(n=3)
    assert one.result()[:2] == (0, "completed")
    assert [event["step"] for event in world.events.all("begin")] == [0] * 3 + [step] * 3
    assert [event["state"] for event in world.events.all("end")] == [undisturbed()] * 3
    assert "pch_done" not in one.job.err, "a rank has left without a report"


def test_a_stride(program, world):
    """The save step is one at which every rank looks."""
    one = program(BEGIN + LOOPS["steps"].replace("attach()", "attach(stride=5)"))
    one.start(n=2, ready="training")
    one.agree()
    code, _, step = one.result()
    assert code == PREEMPTED and step % 5 == 0
    assert [event["step"] for event in world.events.all("saved")] == [step] * 2


def test_nobody_looks_at_should_save(program, world):
    """pchrun and the program both report the mistake, and the job goes on."""
    one = program(BEGIN + "job = pch.attach()\nstate = 0\nfor step in job.steps(10**9): train()")
    one.start(ready="training")
    one.job.send(signal.SIGTERM)
    world.go_on("on")
    assert one.result() == (PREEMPTED, "preempted_unsaved", None)
    assert "RuntimeWarning: pchrun has asked for a save in an iteration that did not look" in one.job.err
    assert "the program has not looked at should_save" in one.report["why"]


FORGETS = """
job = pch.attach(needs=NEEDS)
state = 0
for step in job.steps(TOTAL): # the loop
    train()
    if job.should_save:
        save(job.finished, state)
job.done()
"""


@pytest.mark.parametrize("needs", ["all", "rank0"])
def test_a_save_that_is_not_reported(program, needs):
    """The next step tells a rank whose report is needed, once, at a line of the program; at the end the log says why
    the step is not committed."""
    one = program(BEGIN + FORGETS.replace("NEEDS", f"'{needs}'"))
    one.start("--signals", "USR1=checkpoint", n=2, ready="training")
    one.job.send(signal.SIGUSR1)
    one.agreed()
    code, outcome, step = one.result()
    assert (code, outcome, step) == (0, "completed", None)
    warned = [line for line in one.job.err.splitlines() if "RuntimeWarning" in line]
    line = next(number for number, line in enumerate(one.path.read_text().splitlines(), 1) if "# the loop" in line)
    assert len(warned) == (2 if needs == "all" else 1), one.job.err
    for text in warned:
        assert re.fullmatch(rf"{one.path}:{line}: RuntimeWarning: all ranks save step \d+, and this rank goes on without a "
                            r"report of its save: call job.saved\(path\) when the save is on disk, or job.saved\(None\) if "
                            r"this rank writes nothing. A save in the background is reported by job.durable\(step, path\)",
                            text)
    assert "it is not committed: no rank reported its save; every rank has to call pch_saved" in one.job.err


SAVE_RAISES = {
    "steps": "for step in job.steps(10**9, save=fails): train()",
    "Saver": "saver = pch.Saver(job, fails)\nwhile True: saver.run(train)",
}


@pytest.mark.parametrize("shape", SAVE_RAISES)
def test_a_save_that_raises(program, world, shape):
    """The save fails on every rank, and the exception goes on, with its traceback."""
    code = BEGIN + "def fails(step): raise OSError('disk full: \\udcff')\njob = pch.attach()\nstate = 0\n"
    one = program(code + SAVE_RAISES[shape])
    one.start(n=2, ready="training")
    one.job.send(signal.SIGTERM)
    world.go_on("on")
    code, outcome, step = one.result()
    assert step is None and "OSError: disk full: \\udcff" in one.job.err
    assert (code, outcome) in [(1, "failed"), (PREEMPTED, "preempted_unsaved")]


def test_its_own_saves(program, world):
    """A save that is reported before should_save is read belongs to its own iteration."""
    one = program(BEGIN + """
with pch.attach() as job:
    for step in job.steps(6):
        if step % 3 == 2:
            job.saved(save(step + 1, "x"))
        say("finished", finished=job.finished)
    job.saved(save(6, "x"))
""")
    assert one.start(n=2).result() == (0, "completed", 6)
    assert [event["finished"] for event in world.events.all("finished", rank=0)] == [0, 1, 3, 3, 4, 6]


def test_a_save_that_is_not_there(program, world):
    """Once, such a save was committed, and the next start had nothing to load."""
    one = program("""
import os, pch
from told import say
with pch.attach() as job:
    os.chdir(os.environ["CHECKPOINTS"])
    say("resumes", path=job.resume_path)
    job.step(1)
    job.saved("/not/there")
    job.durable(1, "nor/this")
    job.step(2)
    open("step-2", "w").close()
    job.saved("step-2")
    job.step(3)
    open("ckpt-3.index", "w").close()
    job.saved("ckpt-3")
""")
    assert one.start().result() == (0, "completed", 3)
    for path in ("/not/there", f"{one.checkpoints}/nor/this"):
        assert f"rank 0 could not save step 1: there is nothing at {path}; a rank that writes no checkpoint" in one.job.err
    assert "step 2 is durable on every rank" in one.job.err and "step 1 is durable" not in one.job.err
    one = program("import pch\nwith pch.attach() as job: print(job.resume_path)")
    assert one.start().result()[0] == 0
    assert one.job.out == f"{one.checkpoints}/ckpt-3\n", "a relative path is made absolute"


def test_a_save_at_a_url(program):
    """It is neither looked for nor made a path of the working directory."""
    one = program("""
import pch
with pch.attach() as job:
    print(job.resume_path)
    job.step(job.resume_step + 1)
    job.saved(f"s3://bucket/run7/step-{job.finished}")
""")
    assert one.start(n=2).result() == (0, "completed", 1)
    assert one.start(n=2).result() == (0, "completed", 2)
    assert one.job.out == "s3://bucket/run7/step-1\n" * 2
    assert one.report["commit"]["path"] == "s3://bucket/run7/step-2"


def test_a_url_for_an_integration_that_writes_files(program):
    """Once, os.path.abspath() made a folder `s3:` in the working directory of it, and all seemed well."""
    one = program("""
from pch.integrations._files import checkpoint_folder
print(checkpoint_folder("gs://bucket/run7", may_be_url=True), checkpoint_folder("run7"), sep="\\n")
checkpoint_folder("s3://bucket/run7")
""")
    code, out, err = one.alone()
    assert (code, out) == (1, f"gs://bucket/run7\n{one.world.cwd}/run7\n")
    assert "\nValueError: s3://bucket/run7 is a URL, and this integration writes files: give a folder of a mounted" in err


@pytest.mark.parametrize("may_be_url", [True, False])
def test_a_path_made_of_a_url(program, may_be_url):
    """pathlib makes s3:/bucket of it, which became a folder, too."""
    one = program(f"""
import pathlib
from pch.integrations._files import checkpoint_folder
print(checkpoint_folder(pathlib.Path("run7")))
checkpoint_folder(pathlib.Path("s3://bucket/run7"), may_be_url={may_be_url})
""")
    code, out, err = one.alone()
    assert (code, out) == (1, f"{one.world.cwd}/run7\n")
    assert err.endswith("ValueError: s3:/bucket/run7 is a URL that has lost a slash in a Path: give the URL as text\n")


def test_an_exception_is_the_cause(program):
    """An uncaught exception is reported to pchrun, and printed as usual. The program's own hook prints first."""
    one = program("""
        import pch, sys
        own = sys.excepthook
        sys.excepthook = lambda *args: (print("own hook", file=sys.stderr), own(*args))
        def train():
            raise ValueError("no such step")
        with pch.attach() as job:
            job.step()
            train()
        """)
    assert one.start().result() == (1, "failed", None)
    cause = one.report["first_cause"]
    assert cause["text"].endswith("exit code 1: ValueError: no such step (program0.py:6, in train)")
    printed = one.job.err[one.job.err.index("own hook"):]
    assert "Traceback (most recent call last):" in printed and "ValueError: no such step\n" in printed


IN_BACKGROUND = """
import threading
job, state, passed, writers = pch.attach(), 0, threading.Event(), []
def write(at):
    passed.wait()
    job.durable(at, save(at, 0))
for step in job.steps(TOTAL):
    train()
    if writers:
        passed.set()
    if job.should_save:
        say("saved", step=job.finished)
        writers.append(threading.Thread(target=write, args=(job.finished,)))
        writers[-1].start()
    elif writers:
        writers[0].join()
job.done()
"""


@pytest.mark.parametrize("is_daemon", [False, True])
def test_a_first_save_in_the_background(program, is_daemon):
    """It is reported some steps later. Until then a thread that writes it holds the end of the program. A daemon thread may
    be that of a data loader, so the program is warned, once, although it is right."""
    one = program(BEGIN + IN_BACKGROUND.replace("(job.finished,)", f"(job.finished,), daemon={is_daemon}"))
    one.start("--signals", "USR1=checkpoint", n=2, ready="training")
    one.job.send(signal.SIGUSR1)
    one.agreed()
    assert one.result()[:2] == (0, "completed"), one.job.err
    assert one.job.err.count("RuntimeWarning: all ranks save step") == 2 * is_daemon, one.job.err
    assert "is durable on every rank" in one.job.err, one.job.err


RAISED = {
    "the package": ("pch.Saver(job, None)  # here", "TypeError: save must be a function, not None", "main"),
    "the standard library": ("json.loads('x')  # here", "JSONDecodeError: Expecting value: line 1 column 1 (char 0)", "main"),
    "generated code": ("exec(compile('{}[1]', '<eval_with_key>.0', 'exec'))  # here", "KeyError: 1", "main"),
    "a function that the package calls": ("pch.Saver(job, print).run(train)", "KeyError: 'lr'", "train"),
}


@pytest.mark.parametrize("where", RAISED)
def test_a_cause_names_the_line_of_the_program(program, where):
    """A user looks for the fault there first, also if a library has raised the exception: the traceback has its frames."""
    call, text, function = RAISED[where]
    one = program(f"""
import json, pch
def train():
    {{}}["lr"]  # there
def main():
    with pch.attach() as job:
        {call}
main()
""")
    assert one.start().result() == (1, "failed", None)
    line = {"main": 7, "train": 4}[function]
    text = text.replace("JSONDecodeError", "json.decoder.JSONDecodeError")
    assert one.report["first_cause"]["text"].endswith(f"exit code 1: {text} (program0.py:{line}, in {function})")


@pytest.mark.parametrize("error, text", [
    ('OSError(28, "No space left")', "OSError: [Errno 28] No space left"), ("KeyError()", "KeyError"),
    ('type("Mute", (Exception,), {"__str__": None})()', "Mute")])
def test_an_exception_that_the_program_tells(program, error, text):
    """The program passes the exception itself in place of a text."""
    one = program(f"""
        import pch, sys
        with pch.attach() as job:
            job.step()
            job.save_failed({error})
            job.error({error}, 7)
            sys.exit(7)
        """)
    assert one.start().result() == (7, "failed", None)
    assert one.report["first_cause"]["text"].endswith(f"exit code 7: {text}")
    assert f"rank 0 could not save step 1: {text}\n" in one.job.err


TOLD = """
import json, pch, sys
def save(step):
    json.loads("x")
with pch.attach() as job:
    try:
        for step in job.steps(1 << 40, save=save):
            pass
    except ValueError as error:
        job.error(error, 7)
        job.save_failed(error)
        sys.exit(7)
"""


def test_an_exception_that_a_package_tells_names_the_line_of_the_call(program):
    """The package has called a function of Python, so the traceback has no line of the program."""
    one = program("""
import pch, sys
package = "def run(job, call):\\n try:\\n  call('x')\\n except ValueError as error:\\n  job.error(error, 7)"
exec(compile(package, "/usr/lib/site-packages/package.py", "exec"))
def train(job):
    run(job, int)
with pch.attach() as job:
    train(job)
    sys.exit(7)
""")
    assert one.start().result() == (7, "failed", None)
    text = "ValueError: invalid literal for int() with base 10: 'x' (program0.py:6, in train)"
    assert one.report["first_cause"]["text"].endswith(f"exit code 7: {text}")


def test_an_exception_that_is_caught_and_told_names_its_line(program):
    """A program that catches the exception itself, to end tidily, told less than a program that did not."""
    one = program(TOLD)
    one.start("--signals", "USR1=checkpoint")
    wait_until(lambda: "the only rank has attached" in one.job.err, "the rank to attach")
    one.job.send(signal.SIGUSR1)
    assert one.result() == (7, "failed", None)
    text = "JSONDecodeError: Expecting value: line 1 column 1 (char 0) (program0.py:4, in save)"
    assert one.report["first_cause"]["text"].endswith(f"exit code 7: {text}")
    assert f": {text}\n" in one.job.err and "could not save step" in one.job.err


def test_an_exception_that_is_caught_is_no_cause(program):
    one = program("""
        import pch
        try:
            with pch.attach() as job:
                job.step()
                raise ValueError("caught")
        except ValueError:
            with pch.attach() as same:
                assert same.supervised and same.finished == 1
        """)
    assert one.start().result() == (0, "completed", None)


@pytest.mark.parametrize("leave, code", [("sys.exit(7)", 7), ("sys.exit('why')", 1), ("sys.exit()", 0),
                                         ("os._exit(3)", 3), ("os.abort()", 134), ("raise KeyboardInterrupt", 130)])
def test_exit_codes_are_kept(program, leave, code):
    one = program(f"import os, pch, sys\nwith pch.attach() as job:\n    {leave}")
    assert one.start().result()[0] == code


def test_a_thread_is_told_to_leave(program, world):
    """Nothing is printed when a SystemExit or a pch.Exit ends a thread. Any other exception is printed as usual."""
    one = program(BEGIN + """
import threading
def loop():
    for step in job.steps(TOTAL, save=lambda step: None):
        say("step") if step == 3 else None
        wait_for("on") if step == 3 else None
def fail():
    raise ValueError("in a thread")
with pch.attach() as job:
    for work in (loop, fail):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    print("joined")
""")
    one.start("--no-save-train-on", ready="step")
    one.agree()
    assert one.result()[:2] == (PREEMPTED, "preempted") and one.job.out == "joined\n"
    assert one.job.err.count("Traceback") == 1 and "ValueError: in a thread" in one.job.err
    assert "pch.Exit" not in one.job.err


def test_required(program):
    one = program("import pch\nprint(pch.attach(required=True))")
    assert one.start().result()[0] == 0
    assert one.job.out == "<pch.Job of rank 0, 0 steps finished>\n"


@pytest.mark.parametrize("version, grace, run, warns", [
    ("2.11.0+cu126", "110s", "a", True), ("2.12.1", "110s", "a", False), ("2.11.0", "9s", "a", False),
    ("2.11.0", "110s", None, False), ("a version of ours", "110s", "a", False)])
def test_an_old_torchrun_that_kills_too_early(program, version, grace, run, warns):
    """It knows no variable for the time that it gives its workers."""
    end = program(f"""
import sys, types
sys.modules["torch"] = torch = types.ModuleType("torch")
torch.__version__ = {version!r}
import pch
pch.attach().done()
""").start("--grace", grace, n=2, **({"TORCHELASTIC_RUN_ID": run} if run else {}))
    assert end.job.finish() == 0, end.job.err
    assert end.job.err.count("pch: torchrun of PyTorch 2.11 kills its workers 30 seconds after") == warns


# Rank 0 waits in saved() for rank 1, which holds back.
WAITS = """
import pch, signal, sys, threading
from told import say, wait_for
job = pch.attach()
job.step(1)
if job.rank == 1:
    wait_for("on")
    job.saved("at://b")
    job.done()
    sys.exit()

def save_while(other):
    thread = threading.Thread(target=other)
    thread.start()
    say("waits")
    job.saved("at://a")
    say("answered")
    thread.join()
    job.done()
"""


def start_to_wait(one, world):
    """Starts two ranks; returns the pid of the rank that waits for the other's save."""
    one.start("-v", n=2)
    world.events.wait("waits")
    pid = rank_pid(one, 0)
    wait_until(lambda: is_blocked(pid), "a rank that waits")
    return pid


def test_a_wait_lets_other_threads_run(program, world):
    """Other threads run meanwhile, but the calls of the training thread are refused to them."""
    one = program(WAITS + """
def other():
    wait_for("waiting")
    for call in (job.step, job.saved, job.close, lambda: job.step(2)):
        try:
            call()
        except RuntimeError as error:
            say("refused", text=str(error))
    job.phase("save"), job.durable(1, "at://x"), job.save_failed("why", 0), job.notice(), repr(job)
    say("ran")
save_while(other)
""")
    start_to_wait(one, world)
    world.go_on("waiting")
    world.events.wait("ran")
    assert not world.events.all("answered")
    refused = [event["text"] for event in world.events.all("refused")]
    assert len(refused) == 4 and all(text.startswith("another thread, or the code that") for text in refused)
    one.complete("on")


def rank_pid(one, rank):
    return int(one.said(rf"attach: rank {rank} of \d+ is process (\d+)$")[1])


def test_a_keyboard_interrupt_ends_a_wait(program, world):
    """The interrupt is raised in the call that waits. The program may then make the call again."""
    one = program(WAITS + """
say("waits")
try:
    job.saved("at://a")
except KeyboardInterrupt:
    say("interrupted")
job.saved("at://a")
job.done()
say("answered")
""")
    pid = start_to_wait(one, world)
    os.kill(pid, signal.SIGINT)
    world.events.wait("interrupted")
    world.go_on("on")
    world.events.wait("answered")
    assert one.result()[:2] == (0, "completed")


def test_a_handler_runs_in_a_wait(program, world):
    """A handler that raises nothing does not end the wait. In a handler, calls of the training loop are refused."""
    one = program(WAITS + """
def handler(number, frame):
    try:
        job.step()
    except RuntimeError as error:
        say("handled", text=str(error), notice=job.notice())
signal.signal(signal.SIGUSR1, handler)
say("waits")
job.saved("at://a")
job.done()
say("answered")
""")
    pid = start_to_wait(one, world)
    os.kill(pid, signal.SIGUSR1)
    assert world.events.wait("handled")["text"].startswith("another thread, or the code that a signal has interrupted")
    assert not world.events.all("answered")
    one.complete("on")


def test_an_interrupt_of_a_rank_that_is_held(program, world):
    """Rank 0 has finished its background save, and rank 1 has not. So the next step of rank 0 waits, and waits again
    after a signal."""
    one = program("""
import pch
from told import path_of, save, say, wait_for
with pch.attach() as job:
    say("begin")
    while not job.should_exit:
        try:
            asked = job.step(job.finished + 1)
        except KeyboardInterrupt:
            say("interrupted", finished=job.finished)
            continue
        if asked:
            say("asked", step=job.finished)
            if job.rank == 1:
                wait_for("on")
            job.durable(job.finished, save(job.finished, "x"))
""")
    one.start("-v", n=2, ready="begin")
    one.job.send(signal.SIGTERM)
    world.events.wait("asked", count=2)
    pid = rank_pid(one, 0)
    for times in (1, 2):
        wait_until(lambda: is_blocked(pid), "a rank that waits")
        os.kill(pid, signal.SIGINT)
        step = world.events.wait("interrupted", count=times)["finished"]
    world.go_on("on")
    assert one.result() == (PREEMPTED, "preempted", step)


def test_waits_for_data(program, ctl):  # noqa: F811
    """Those of the rank that waits longest. The workers of a loader mark nothing, and an exception ends the wait. A
    wait before pchrun has seen the first step is part of the start."""
    one = program("""
import os, pathlib, pch, time
ledger = pathlib.Path(os.environ["CHECKPOINTS"], ".pchrun", "ledger")
with pch.attach() as job:
    for step in job.steps(3):
        if step == 0:
            continue
        while not ledger.exists() or '"training"' not in ledger.read_text():
            time.sleep(0.01)
        try:
            with job.loading():
                if os.fork() == 0:
                    with job.loading():
                        time.sleep(0.1)
                    os._exit(0)
                time.sleep(0.2 * job.rank)
                os.wait()
                raise KeyError
        except KeyError:
            time.sleep(0.5)
    assert repr(job.loading()).startswith("<pch.Loading")
""")
    assert one.start(n=3).result() == (0, "completed", None)
    shown = ctl("goodput", "--json", one.checkpoints, everywhere=True)
    ms = json.loads(shown.stdout)["ms"]
    assert ms["loading"] >= 800 and ms["training_kept"] >= 500, ms
    marks = (one.checkpoints / ".pchrun" / "ledger").read_text().splitlines()
    sums = [json.loads(mark).get("loading_ms", 0) for mark in marks]
    assert sums == sorted(sums), "the end of a process takes nothing off"


def test_workers_do_not_take_part(program, world):
    """A worker that a data loader forks counts no steps, is not held, and ends silently. A spawned worker cannot attach
    as a rank that is taken, and the job goes on."""
    one = program("""
import multiprocessing, os, pch, sys
from told import say
def work(n):
    with pch.attach() if n == "again" else job:
        for step in job.steps(1000): pass
        return job.supervised, job.should_exit, str(job)
if __name__ == "__main__":
    with pch.attach() as job:
        for step in job.steps(3):
            with multiprocessing.get_context("fork").Pool(2) as pool:
                say("worker", said=pool.map(work, [1, 2]))
            pid = os.fork()
            if pid == 0:
                job.step(500)
                raise SystemExit(5)
            say("fork", status=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), finished=job.finished)
""")
    assert one.start("-v").result() == (0, "completed", None)
    assert one.report["steps"]["last"] == 3
    assert [event["status"] for event in world.events.all("fork")] == [5] * 3
    assert [event["finished"] for event in world.events.all("fork")] == [0, 1, 2]
    unsupervised = [False, False, "<pch.Job, not under pchrun, 1000 steps finished>"]
    assert [event["said"] for event in world.events.all("worker")] == [[unsupervised] * 2] * 3
    assert one.job.err.count("attach: rank") == 1


def test_a_fork_while_a_thread_waits(program, world):
    """No thread of the fork is in a call, whatever the parent's threads do."""
    one = program(WAITS + """
import os
def other():
    wait_for("waiting")
    pid = os.fork()
    if pid == 0:
        job.step(), job.saved("x"), job.close()
        os._exit(0 if not job.supervised else 1)
    say("fork", status=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
save_while(other)
""")
    start_to_wait(one, world)
    world.go_on("waiting")
    assert world.events.wait("fork")["status"] == 0
    one.complete("on")


def test_ranks_that_a_program_forks(program, world):
    """The program looks where the job resumes, closes, and forks its ranks, which attach by themselves."""
    one = program("""
import os, pch
from told import save, say
job = pch.attach(rank=0, world_size=1)
job.close()
pids = []
for rank in range(2):
    pid = os.fork()
    if pid == 0:
        os.environ["RANK"] = str(rank)
        with pch.attach(rank=rank, local_rank=rank, world_size=2, local_world_size=2) as job:
            say("forked", supervised=job.supervised, attached=job.rank)
            for step in job.steps(5):
                if job.should_save or step == 4:
                    job.saved(save(5, "x"))
        os._exit(0)
    pids.append(pid)
raise SystemExit(sum(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids))
""")
    one.start("--procs-per-node", "2")
    assert one.result() == (0, "completed", 5)
    assert sorted(event["attached"] for event in world.events.all("forked")) == [0, 1]


def test_a_sigterm_to_a_rank_is_a_notice(program, world):
    """Python leaves SIGTERM at its default action, so that libpch's handler stands."""
    one = program(BEGIN + LOOPS["steps"])
    one.start("-v", n=2, ready="training")
    os.kill(rank_pid(one, 1), signal.SIGTERM)
    one.agreed()
    assert one.result()[:2] == (PREEMPTED, "preempted")


@pytest.mark.parametrize("options, is_notice", [("", True), ("shield=False", False), ("saves=False", False)])
def test_sigterm_is_taken_back_as_attach_has_it(program, world, options, is_notice):
    """TensorFlow's clusters take SIGTERM in C, unseen by Python, and do nothing with it. Once, the shield came back
    even if the program had asked for no shield."""
    one = program(f"""
import ctypes, pch, signal, time
from pch._pch import _take_sigterm
from told import say, wait_for
job = pch.attach({options})
ctypes.CDLL(None).signal(signal.SIGTERM, ctypes.c_void_p(1))  # SIG_IGN
_take_sigterm()
say("training")
wait_for("on")
for step in job.steps(10**6):
    time.sleep(0.01)
    if job.should_save:
        job.saved("at://b")
""")
    one.start()
    os.kill(world.events.wait("training")["pid"], signal.SIGTERM)
    if is_notice:
        one.said("notice: SIGTERM")
        world.go_on("on")
        assert one.result()[:2] == (PREEMPTED, "preempted")
    else:
        assert one.result()[:2] == (128 + signal.SIGTERM, "failed")
        assert "notice: SIGTERM" not in one.job.err


@pytest.mark.killed
def test_the_loop_ends_when_pchrun_has_died(program, world):
    """The program runs below a shell, so that the kernel does not end it together with pchrun."""
    one = program("""
import pch
from told import say
with pch.attach() as job:
    say("begin")
    try:
        for step in job.steps(10**12): pass
    except pch.Exit as leave:
        say("left", code=leave.code)
""")
    one.start(wrap=["sh", "-c", '"$@"; exit $?', "sh"])
    world.events.wait("begin")
    os.kill(one.job.pid, signal.SIGKILL)
    one.job.finish()
    assert world.events.wait("left")["code"] is None
    wait_until(lambda: not marked(world.mark), "the end of the rank and of pchrun's helpers")


EVALUATES = """
import os
import time
import pch
from told import save
with pch.attach() as job:
    for step in job.steps(100000, save=lambda step: save(step, 0)):
        if step == 1:
            time.sleep(1)  # the drill sees the first step; the next ones come between two of its looks
        elif step == 5:
            job.phase("eval")
            end = time.monotonic() + 60
            while time.monotonic() < end and not (os.environ["LEAVES"] and job.notice()):
                time.sleep(0.01)
        elif step > 5:
            time.sleep(0.02)
"""


@pytest.mark.parametrize("leaves", ["", "yes"])
def test_a_drill_in_an_evaluation(program, leaves):
    """The drill says that the evaluation kept the save from coming in time, and its advice helps."""
    one = program(EVALUATES).start("--drill", "6s", "--stop-exit-wait", "100ms", n=2, LEAVES=leaves)
    code, outcome, _ = one.result()
    assert (code, outcome) == ((0, "preempted") if leaves else (1, "preempted_unsaved")), one.job.err
    one.said(r"drill: import: [\d.]+ s from the start of the commands until every rank had attached; "
             r"first step: [\d.]+ s more; a notice in these [\d.]+ s saves nothing")
    one.said(r"drill: a notice in these is saved in time: step \(up to [\d.]+ s\), evaluation \(up to [\d.]+ s\)" if leaves else
             r"drill: evaluation: [3-6]\.?\d* s, and not over when the time was up; shorten it, or leave it when pch_notice "
             r"\(in Python: job\.notice\) has a text")
