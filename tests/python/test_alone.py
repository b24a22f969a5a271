# SPDX-License-Identifier: Apache-2.0
"""The package by itself: without a pchrun it does nothing and costs nothing; impossible calls are refused."""

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def prints(program, code, *wanted):
    """The program ends well, and prints these lines and no others; nothing on standard error."""
    status, out, err = program("import pch\n" + textwrap.dedent(code)).alone()
    assert (status, err) == (0, "")
    assert out.splitlines() == list(wanted)


def test_a_loop_runs_as_without_it(program):
    prints(program, """
        import sys
        before = sys.excepthook
        with pch.attach() as job:
            for step in job.steps(3):
                print(step, job.should_save)
            print(job.finished, job.should_exit, job.rank, job.resume_path, job.notice(), job.scratch_dir())
        print(sys.excepthook is before)
        """, "0 False", "1 False", "2 False", "3 False None None None None", "True")


def test_every_call_is_a_no_op(program):
    prints(program, """
        job = pch.attach()
        job.saved("x"); job.saved(); job.durable(1, b"x"); job.save_failed("why"); job.save_failed("why", 1)
        job.save_failed("half a character: \\udcff"); job.error("\\udcff")
        job.save_failed(OSError("full")); job.error(KeyError()); job.error(type("Mute", (Exception,), {"__str__": None})())
        job.phase("eval"); job.error("text", 3); job.done(); job.close(); job.close()
        print(job.step(), job.step(7), job.finished, pch.attach().finished)
        """, "False False 7 0")


def test_a_resumed_start_without_libpch(program):
    """A shell script may hand the variables on to a program that is not attached."""
    one = program("import pch\njob = pch.attach()\nprint(job.resume_step, job.resume_path, list(job.steps(9)))")
    assert one.alone(PCH_RESUME_STEP="7", PCH_RESUME_PATH="/a/b")[1] == "7 /a/b [7, 8]\n"


def test_the_steps_of_two_threads_are_refused(program):
    """Such steps once counted double. A thread may go on if the other one has ended, or has closed the job."""
    prints(program, """
        import threading
        job = pch.attach()
        def in_thread(call, name="other"):
            def run():
                try:
                    print(call(), job.finished)
                except RuntimeError as error:
                    print(str(error)[:63])
            thread = threading.Thread(target=run, name=name)
            thread.start()
            thread.join()
        in_thread(job.step)
        in_thread(job.step)
        job.step()
        for call in (job.step, lambda: job.step(9), lambda: next(job.steps(99)), lambda: pch.Saver(job, print).run(int)):
            in_thread(call)
        iterator = job.steps(99)
        next(iterator)
        for call in (lambda: job.should_save, job.saved, job.done, lambda: next(iterator)):
            in_thread(call)
        print(job.finished, next(iterator), job.finished)
        job.close()
        in_thread(pch.attach().step)
        """, "False 1", "False 2", *["thread MainThread makes the steps of this job, and still runs: "] * 8, "3 4 4",
        "False 1")


@pytest.mark.parametrize("saves, finished", [(True, 10), (False, 20)])
def test_two_threads_that_step_at_the_same_time(program, saves, finished):
    """A job that only counts steps counts them in every thread."""
    prints(program, f"""
        import threading
        job = pch.attach(saves={saves})
        first, last = threading.Barrier(2), threading.Barrier(2)
        def count():
            for step in range(10):
                try:
                    job.step()
                except RuntimeError:
                    pass
                if step == 0:
                    first.wait()
            last.wait()
        thread = threading.Thread(target=count)
        thread.start()
        count()
        thread.join()
        print(job.finished)
        """, str(finished))


def test_attaching_twice_gives_the_same_job(program):
    prints(program, """
        job = pch.attach()
        print(pch.attach() is job, pch.attach(rank=3, stride=7) is job)
        job.close()
        print(pch.attach() is job)
        """, "True True", "True")


def test_strides_and_a_loop_that_is_left(program):
    """The iteration that was left is not counted: only the program knows how far it came."""
    prints(program, """
        job = pch.attach(stride=4)
        for step in job.steps(20):
            if step == 8:
                break
        print(job.finished, list(job.steps(20)), job.finished)
        """, "8 [8, 12, 16] 20")


def test_a_loop_over_epochs_and_a_loader(program):
    """The two ways of docs/python/loop.md: the total is the whole training's, and the steps come before the data. The
    code behind the batches of an epoch runs after a resume at its end, too."""
    prints(program, """
        job = pch.attach()
        for epoch in range(2):
            for step in job.steps((epoch + 1) * 3):
                pass
        print(job.finished)
        for epoch in range(max(job.finished - 1, 0) // 3, 3):
            print(epoch, [step for step in job.steps((epoch + 1) * 3)])
        for epoch in range(2):
            for step, batch in zip(job.steps(100), "abc"):
                pass
        print(job.finished)
        """, "6", "1 []", "2 [6, 7, 8]", "15")


def test_a_background_save_that_fails_ends_no_turn(program):
    """A failure that names its step does not finish the current iteration's step. A failure without a step does."""
    prints(program, """
        import threading
        job = pch.attach()
        for step in job.steps(3):
            thread = threading.Thread(target=job.save_failed, args=("why", step))
            thread.start()
            thread.join()
            print(step, job.finished)
        iterator = job.steps(9)
        next(iterator)
        job.save_failed("why")
        print(job.finished)
        """, "0 0", "1 1", "2 2", "4")


def test_the_saver_alone(program):
    prints(program, """
        job = pch.attach()
        saver = pch.Saver(job, print)
        print(saver.run(lambda a, b=0: a + b, 1, b=2), job.finished)
        saver.save_if_preempted()
        print(job.finished)
        with saver.scope() as same:
            print(same.finished)
        print(job.finished)
        try:
            with saver.scope():
                raise KeyError
        except KeyError:
            print(job.finished)
        """, "3 1", "2", "2", "3", "3")


@pytest.mark.parametrize("call, error", [
    ("job.step(-1)", "ValueError: -1 is not a number of steps"),
    ("job.step(2**48 - 1)", "ValueError: 281474976710655 is not a number of steps"),
    ("job.step(10**30)", "ValueError: 10.* is not a number of steps"),
    ("job.step('5')", "TypeError: 'str' object cannot be interpreted as an integer"),
    ("job.step(1, 2)", "TypeError: step.. takes at most 1 argument"),
    ("job.step(5); job.step(4)", "ValueError: step 5 is finished already, so 4 cannot be"),
    ("job.step(2**48 - 2); job.step()", "ValueError: step .* is finished already"),
    ("job.steps()", "TypeError: steps"),
    ("job.steps(3, save=1)", "TypeError: save must be a function, not 1"),
    ("job.saved(3)", "TypeError: expected str, bytes or os.PathLike object, not int"),
    ("job.saved('a\\0b')", "ValueError: embedded null byte"),
    ("job.phase('lunch')", "ValueError: 'lunch' is not a phase; there are start, train"),
    ("job.step = 1", "AttributeError: 'pch.Job' object attribute 'step' is read-only"),
    ("job.anything = 1", "AttributeError"),
    ("pch.Job()", "TypeError: cannot create 'pch.Job' instances"),
    ("pch.Job.step = 1", "TypeError: cannot set 'step' attribute of immutable type 'pch.Job'"),
    ("pch.attach(stride=0)", "ValueError: stride must be 1 or more steps"),
    ("pch.attach(last_step=-1)", "ValueError: -1 is not a number of steps"),
    ("pch.attach(rank='a')", "TypeError"),
    ("pch.attach(needs='some')", "ValueError: needs cannot be 'some'; there are 'all', 'rank0' and 'any'"),
    ("pch.attach(needs=None)", "ValueError: needs cannot be None"),
    ("pch.attach(required=True)", "RuntimeError: no pchrun has started this process"),
    ("pch.Saver(job, None)", "TypeError: save must be a function, not None"),
    ("pickle.dumps(job)", "TypeError: a pch.Job cannot be pickled or copied"),
    ("copy.copy(job)", "TypeError: a pch.Job cannot be pickled or copied"),
    ("pickle.dumps(job.steps(3))", "TypeError: cannot pickle 'pch.Steps' object"),
])
def test_what_cannot_be_is_refused(program, call, error):
    status, _, err = program(f"import copy, pch, pickle\njob = pch.attach()\n{call}").alone()
    assert status == 1 and re.search(f"^{error}", err.splitlines()[-1]), err


def test_a_socket_that_is_not_there(program):
    """The program trains unsupervised, as a C program does, unless it asks for a supervisor."""
    one = program("import pch, sys\nprint(pch.attach(required=len(sys.argv) > 1).step())")
    status, out, err = one.alone(PCH_SOCKET="/nowhere/s")
    assert (status, out) == (0, "False\n") and err.startswith("pch: cannot attach to pchrun at /nowhere/s:")
    status, _, err = one.alone("required", PCH_SOCKET="/nowhere/s")
    assert status == 1 and err.endswith("RuntimeError: cannot attach to pchrun at /nowhere/s; standard error says why\n")


def test_jax_is_told_what_it_lacks(program):
    """A missing variable was once a KeyError. If the program gives an argument, its variable may be missing."""
    prints(program, """
        import sys, types
        def initialize(**place):
            print(sorted(place.items()))
        jax, orbax = types.ModuleType("jax"), types.ModuleType("orbax")
        jax.config = types.SimpleNamespace(update=print)
        jax.distributed = types.SimpleNamespace(initialize=initialize)
        orbax.checkpoint = types.ModuleType("orbax.checkpoint")
        sys.modules.update({"jax": jax, "orbax": orbax, "orbax.checkpoint": orbax.checkpoint})
        from pch.integrations.jax import initialize
        for more in ({}, {"process_id": 1}, {"coordinator_address": "a:1", "num_processes": 2, "process_id": 1}):
            try:
                initialize(**more)
            except RuntimeError as error:
                print(error)
        """, *["initialize() needs MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK, which are not set: start the program by "
               "`pchrun -n`, or give initialize() the arguments of jax.distributed.initialize"] * 2,
        "jax_enable_preemption_service False", "[('coordinator_address', 'a:1'), ('num_processes', 2), ('process_id', 1)]")


def test_what_it_shows_of_itself(program):
    prints(program, """
        job = pch.attach()
        print(job)
        job.step()
        print(repr(job), type(job), pch.Job.__module__, pch.Exit.__mro__[1].__name__)
        """, "<pch.Job, not under pchrun, 0 steps finished>",
        "<pch.Job, not under pchrun, 1 steps finished> <class 'pch.Job'> pch SystemExit")


def test_a_subinterpreter_is_refused(program):
    """The module refuses a subinterpreter before and after the main interpreter has it; the process goes on."""
    code = """
        import _xxsubinterpreters as sub
        def attempt():
            one = sub.create()
            try:
                sub.run_string(one, "import pch")
            except sub.RunFailedError as error:
                print(error)
            sub.destroy(one)
        attempt()
        import pch
        attempt()
        print(pch.attach().step())
        """
    status, out, err = program(code).alone()
    if "No module named '_xxsubinterpreters'" in err:
        pytest.skip("this Python has no subinterpreters")
    refused = ("<class 'ImportError'>: pch works in the main interpreter only: the job is the process's, not a "
               "subinterpreter's")
    assert (status, out.splitlines(), err) == (0, [refused, refused, "False"], "")


def test_nothing_leaks(program):
    """Every call many times, also those that fail; the amount of allocated memory stays the same."""
    prints(program, """
        import gc, sys
        job = pch.attach()
        function = lambda step: None
        def fails(call, *args):
            try:
                call(*args)
            except Exception:
                pass
        def all_calls():
            pch.attach()
            for step in job.steps(job.finished + 3, save=function):
                job.should_save, job.should_exit, job.finished, job.resume_step, job.resume_path, job.rank, job.needs
            job.step(), job.step(job.finished), job.saved("path"), job.durable(1000, b"path"), job.save_failed("why")
            job.scratch_dir(), job.phase("eval"), job.notice(), job.error("text"), job.done(), repr(job)
            with job, job.loading():
                pass
            for call, args in ((job.step, ("x",)), (job.step, (-1,)), (job.saved, (3,)), (job.phase, ("x",)),
                               (job.durable, ("x",)), (job.steps, (3, 4)), (job.__reduce__, ()),
                               (pch.attach, (1,)), (job.error, (1,)), (job.save_failed, (1,))):
                fails(call, *args)
        def count():
            gc.collect()
            return sys.getallocatedblocks(), sys.getrefcount(pch.Job), sys.getrefcount(function), len(gc.get_objects())
        for _ in range(50):
            all_calls()
        before = count()
        for _ in range(2000):
            all_calls()
        print([abs(now - then) < 20 for now, then in zip(count(), before)])
        """, "[True, True, True, True]")


def test_what_is_public_is_documented_and_typed(program):
    """The stub has every name of the extension, and no other; each has a docstring."""
    code = """
        import inspect, os, pch
        names = [n for n in vars(pch.Job) if not n.startswith("_")]
        print(*sorted(names))
        print([n for n in names if not getattr(pch.Job, n).__doc__])
        print(inspect.signature(pch.Job.step), inspect.signature(pch.Job.saved))
        print(os.path.exists(os.path.join(os.path.dirname(pch.__file__), "py.typed")))
        """
    status, out, err = program(code).alone()
    names, undocumented, signatures, has_marker = out.splitlines()
    stub = (ROOT / "contrib/python/pch/_pch.pyi").read_text()
    of_job = stub[stub.index("class Job:"):stub.index("\ndef attach")]
    assert sorted(set(re.findall(r"def ([a-z]\w*)", of_job))) == names.split()
    assert (status, err, undocumented, has_marker) == (0, "", "[]", "True")
    assert signatures == "(self, finished=None, /) (self, path=None, /)"


def test_its_version_is_the_projects(program):
    wanted = re.search(r'PCH_VERSION "(.*)"', (ROOT / "include/pch.h").read_text())[1]
    assert re.search(r"^  version: '([^']*)'", (ROOT / "meson.build").read_text(), re.M)[1] == wanted
    prints(program, "print(pch.__version__)", wanted)
