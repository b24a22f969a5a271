# SPDX-License-Identifier: Apache-2.0
"""`pchrun --instrument` on programs that know nothing of it. The frameworks here are stand-ins, with only the parts
that the hooks use. The import system, pchrun and the package are real. The folder frameworks has the tests of the real
frameworks.
"""

import json
import os
import re
import shutil
import signal
import textwrap
from pathlib import Path

import pytest

from harness import wait_until
from pchctl import ctl  # noqa: F401

HERE = Path(__file__).resolve().parent
TORCH = {
    "torch/__init__.py": "",
    "torch/optim/__init__.py": "from .optimizer import Optimizer\n",
    # As in PyTorch: hooks of all optimizers, called behind each step.
    "torch/optim/optimizer.py": """
        _hooks = []
        def register_optimizer_step_post_hook(hook):
            _hooks.append(hook)
        class Optimizer:
            def step(self, closure=None):
                loss = closure() if closure else None
                for hook in _hooks:
                    hook(self, (), {})
                return loss
        """,
}
TRAIN = textwrap.dedent("""
    from torch.optim import Optimizer
    from told import wait_for
    optimizer = Optimizer()
    for step in range(3):
        optimizer.step()
    print("stands", flush=True)
    wait_for("go")
    """)


# The parts of Hugging Face's Trainer that its callback uses.
TRAINER = {
    **TORCH,
    "accelerate/__init__.py": "",
    "accelerate/state.py": """
        import os
        class AcceleratorState:
            distributed_type, parallelism_config = os.environ.get("KIND", "NO"), None
        class PartialState:
            distributed_type = "NO"
        """,
    "accelerate/utils.py": """
        class DistributedType:
            XLA = "XLA"
        def gather_object(texts):
            return texts
        """,
    "transformers/__init__.py": """
        class TrainerCallback: pass
        class TrainerControl: pass
        class TrainerState: pass
        class TrainingArguments: pass
        from .trainer import Trainer
        """,
    "transformers/trainer_utils.py": "PREFIX_CHECKPOINT_DIR = 'checkpoint'\n",
    "transformers/trainer.py": """
        import os
        from types import SimpleNamespace
        from torch.optim import Optimizer
        class Trainer:
            def __init__(self, during=lambda step: None):
                self.args = SimpleNamespace(output_dir=os.environ["CHECKPOINTS"], save_only_model=False,
                                            save_total_limit=None, save_on_each_node="EACH_NODE" in os.environ,
                                            world_size=2 if "KIND" in os.environ else 1,
                                            process_index=int(os.environ.get("RANK", 0)),
                                            local_process_index=int(os.environ.get("LOCAL_RANK", 0)))
                self.callbacks, self.during, self.optimizer = [], during, Optimizer()
            def add_callback(self, callback):
                self.callbacks.append(callback)
            def remove_callback(self, callback):
                self.callbacks.remove(callback)
            def tell(self, what):
                for callback in self.callbacks:
                    getattr(callback, what)(self.args, self.state, self.control)
            def train(self, resume_from_checkpoint=None, trial=None):
                self.state = SimpleNamespace(global_step=0, is_local_process_zero=False)
                self.control = SimpleNamespace(should_save=False, should_evaluate=False, should_training_stop=False)
                self.tell("on_train_begin")
                for step in range(3):
                    self.during(step)
                    self.optimizer.step()
                    self.state.global_step = step + 1
                    self.tell("on_step_end")
                self.tell("on_epoch_end")
        """,
}


@pytest.fixture
def fakes(world):
    """A function that makes files on the program's path; returns their folder."""
    def make(files):
        for name, text in files.items():
            path = world.root / "fakes" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return str(world.root / "fakes")
    return make


@pytest.fixture
def trains(program, fakes):
    """A function that makes a Program beside stand-ins for PyTorch."""
    def make(code, files=TORCH):
        made = program(code)
        made.env["PYTHONPATH"] += os.pathsep + fakes(files)
        return made
    return make


def told(run):
    """How often a process has reported its part."""
    return run.job.err.count("pch: counts the steps of PyTorch's optimizers")


@pytest.fixture
def counting(ctl):
    """Waits until each of these processes only counts, and has come to its step; returns pchctl's entries of them."""
    def wait(n, step):
        def look():
            asked = ctl("--json", "status")
            ranks = json.loads(asked.stdout)["ranks"] if asked.returncode == 0 else []
            there = [rank for rank in ranks if rank["counts_only"] and rank["attached"] and rank["step"] == step]
            return there if len(there) == n else None
        return wait_until(look, f"{n} processes at step {step}")
    return wait


def test_a_plain_loop_is_counted(trains, counting, ctl):
    run = trains(TRAIN).start("--instrument", n=None)
    rank, = counting(1, 3)
    assert (rank["rank"], rank["phase"], rank["saved_step"]) == (0, "train", 0)
    assert re.search(r"^0 +\d+ +training +3 .* counts only$", ctl("status").stdout, re.M)
    assert run.complete("go") is None
    assert told(run) == 1
    assert run.report["ranks"][0]["counts_only"]


@pytest.mark.parametrize("wrap", [(), ("sh", "-c", '"$@"; exit $?', "sh")], ids=["itself", "behind a shell"])
def test_its_hang_is_found(trains, wrap):
    run = trains(TRAIN).start("--instrument", "--watchdog-train", "3s", "--watchdog-start", "60s", n=None, wrap=wrap)
    assert run.result() == (42, "hang", None)
    assert "rank 0" in run.report["why"] and "has stood at step 3" in run.report["why"], run.report["why"]


def test_a_notice_is_handed_on(trains, counting):
    """pchrun hands the notice on, as to any program that has not attached: no save can come."""
    code = textwrap.dedent("""
        import signal
        from told import say
        def leave(number, frame):
            say("signal", number=number)
            raise SystemExit(0)
        signal.signal(signal.SIGTERM, leave)
        """) + TRAIN
    run = trains(code).start("--instrument", n=None)
    counting(1, 3)
    run.job.process.send_signal(signal.SIGTERM)
    assert run.result() == (42, "preempted_unknown", None)
    assert [event["number"] for event in run.world.events.all("signal")] == [signal.SIGTERM]


def test_without_a_handler_it_dies_of_the_notice(trains, counting):
    """There is no shield: it would keep the signal from a program that cannot save."""
    run = trains(TRAIN).start("--instrument", n=None)
    counting(1, 3)
    run.job.process.send_signal(signal.SIGTERM)
    assert run.result() == (42, "preempted_unknown", None)


def test_several_ranks(trains, counting):
    run = trains(TRAIN).start("--instrument", n=3)
    assert [rank["rank"] for rank in counting(3, 3)] == [0, 1, 2]
    assert run.complete("go") is None
    assert told(run) == 1, "rank 0 speaks for all"


def test_all_optimizers_count(trains, counting):
    run = trains("""
        from torch.optim import Optimizer
        from told import wait_for
        def loss():
            return 3
        generator, critic = Optimizer(), Optimizer()
        for step in range(4):
            critic.step()
            critic.step(loss)
            assert generator.step(loss) == 3
        del generator, critic
        Optimizer().step()
        wait_for("go")
        """).start("--instrument", n=None)
    counting(1, 13)
    assert run.complete("go") is None


def test_what_a_cuda_graph_replays_is_no_hang(trains, ctl):
    """A CUDA graph calls no hook. So after its capture nothing is counted, and the watchdog waits for no step."""
    cuda = """
        capturing = False
        def is_initialized():
            return True
        def is_current_stream_capturing():
            return capturing
        """
    run = trains("""
        import torch.cuda
        from torch.optim import Optimizer
        from told import wait_for
        optimizer = Optimizer()
        optimizer.step()
        torch.cuda.capturing = True
        optimizer.step()
        wait_for("go")
        """, {**TORCH, "torch/cuda.py": cuda})
    run.start("--instrument", "-v", n=None)
    run.said("counts its steps")
    wait_until(lambda: [rank["attached"] for rank in ctl.status()["ranks"]] == [False], "it has let go")
    assert run.complete("go") is None
    assert told(run) == 1


def test_a_compiled_step_calls_the_hook_and_does_not_compile_it(trains, counting):
    run = trains("""
        import torch._dynamo, torch.compiler
        from torch.optim import Optimizer
        from told import wait_for
        optimizer = Optimizer()
        optimizer.step()
        torch.compiler.compiling = True
        for step in range(4):
            optimizer.step()
        assert torch.compiler.called == 4
        wait_for("go")
        """, {**TORCH, "torch/_dynamo.py": "from . import compiler", "torch/compiler.py": """
        compiling, called = False, 0
        def is_compiling():
            return compiling
        def disable(function):
            def disabled():
                global called
                called += 1
                function()
            return disabled
        """})
    run.start("--instrument", n=None)
    counting(1, 5)
    assert run.complete("go") is None


def test_who_does_not_train_takes_no_part(trains, counting):
    """Workers, compilers, `python -c`: they import hooked modules, and train nothing."""
    run = trains("""
        import multiprocessing, os, subprocess, sys
        from torch.optim import Optimizer
        from told import wait_for
        def work(number):
            import torch.optim
            return number
        if __name__ == "__main__":
            subprocess.run([sys.executable, "-c", "import torch.optim"], check=True)
            for way in "spawn", "fork":
                with multiprocessing.get_context(way).Pool(2) as pool:
                    assert pool.map(work, [1, 2]) == [1, 2]
            Optimizer().step()
            with multiprocessing.get_context("fork").Pool(2) as pool:
                assert pool.map(work, [1, 2]) == [1, 2]
            wait_for("go")
        """).start("--instrument", "-v", n=None)
    counting(1, 1)
    assert run.job.err.count("attach: ") == 1, run.job.err
    assert run.complete("go") is None
    assert told(run) == 1


def test_a_fork_that_trains_is_counted(trains, counting):
    run = trains("""
        import os
        from torch.optim import Optimizer
        from told import wait_for
        Optimizer().step()
        child = os.fork()
        for step in range(4):
            Optimizer().step()
        wait_for("go")
        if child:
            assert os.waitpid(child, 0)[1] == 0
        """).start("--instrument", n=None)
    counting(1, 5)
    counting(1, 4)
    assert run.complete("go") is None


ATTACHES = """
    import pch
    EARLIEST
    from torch.optim import Optimizer
    from told import load, save, say, wait_for
    EARLY
    with pch.attach() as job:
        state = load(job.resume_path)
        optimizer = Optimizer()
        for step in job.steps(30, save=lambda step: save(step, state)):
            state += 1
            optimizer.step()
            if step == 5:
                say("training")
                wait_for("go")
    """


@pytest.mark.parametrize("earliest, early", [("", ""), ("pch.attach()", "Optimizer().step()"), ("", "Optimizer().step()")],
                         ids=["before the first step", "before the import", "after a step"])
def test_a_program_that_attaches_is_left_alone(trains, earliest, early):
    run = trains(ATTACHES.replace("EARLIEST", earliest).replace("EARLY", early)).start("--instrument", n=2)
    run.world.events.wait("training", count=2)
    run.agree("go")
    code, outcome, step = run.result()
    assert (code, outcome) == (42, "preempted") and step
    assert not any(rank["counts_only"] for rank in run.report["ranks"])
    assert told(run) == (1 if early and not earliest else 0)
    assert 5 < step < 30


@pytest.mark.parametrize("option", ["-S", "-E", "-I"])
def test_a_python_that_looks_at_nothing_is_not_hooked(trains, option, fakes):
    """Such a program takes no part, and the watchdog does not end what it cannot see."""
    folder = fakes({})
    path = f"import sys\nsys.path[:0] = {[folder, os.path.dirname(__file__)]!r}\n"
    run = trains(path + TRAIN.replace('wait_for("go")', "import time; time.sleep(1.2)"))
    python = os.environ["PCH_PYTHON"]
    job = run.world.launch("--instrument", "--watchdog-train", "500ms", "--watchdog-start", "500ms", "--", python, option,
                           run.path, env=run.variables({}))
    assert job.finish() == 0, job.err
    assert "pch:" not in job.err
    [line] = [line for line in job.err_lines if line.endswith("; so no process takes part")]
    assert " instrument: no process has finished an optimizer step " in line and line.count("instrument") == 1


def test_off_unless_asked_for(trains):
    run = trains("""
        import os, sys
        from torch.optim import Optimizer, optimizer
        Optimizer().step()
        assert not optimizer._hooks and "PCH_INSTRUMENT" not in os.environ and "_pch" not in str(sorted(sys.modules))
        """).start(n=None)
    assert run.result() == (0, "completed", None)
    assert "--instrument" not in run.job.err


def test_the_hidden_sitecustomize_runs(trains, fakes):
    run = trains("import sys, sitecustomize; print(sitecustomize.__file__, sitecustomize.MARK)",
                 {**TORCH, "sitecustomize.py": "MARK = 'theirs'\n"}).start("--instrument", n=None)
    assert run.result() == (0, "completed", None)
    assert run.job.out.strip().endswith("fakes/sitecustomize.py theirs")


def test_below_another_pchrun_that_instruments(trains):
    """Both finders look for the program's imports, each by asking all other finders."""
    run = trains("from torch.optim import Optimizer; Optimizer().step(); import sys; print(sys.path)")
    folder = str(run.world.root / "other")
    os.mkdir(folder)
    shutil.copy(HERE.parents[1] / "contrib/python/instrument/sitecustomize.py", folder)
    run.env["PYTHONPATH"] = folder + os.pathsep + run.env["PYTHONPATH"]
    run.start("--instrument", n=None)
    assert run.result() == (0, "completed", None), run.job.err
    assert told(run) == 1 and folder not in run.job.out


def test_what_the_hidden_sitecustomize_raises_is_told_as_ever(trains):
    run = trains("import sys; from torch.optim import Optimizer; Optimizer().step()",
                 {**TORCH, "sitecustomize.py": "raise KeyError('theirs')\n"}).start("--instrument", n=None)
    assert run.result() == (0, "completed", None)
    assert "KeyError: 'theirs'" in run.job.err or "theirs" in run.job.err
    assert told(run) == 1


def test_the_program_sees_what_it_would_have_seen(trains):
    """The program sees its usual path, and loaders of its modules that know their source."""
    code = """
        import inspect, sys
        import torch.optim
        print(sys.path, type(torch.optim.__loader__).__name__, torch.optim.__spec__.loader is torch.optim.__loader__,
              len(inspect.getsource(torch.optim)))
        """
    plain, asked = trains(code), trains(code)
    asked.path = plain.path
    assert plain.start(n=None).result() == asked.start("--instrument", n=None).result() == (0, "completed", None)
    assert plain.job.out == asked.job.out != ""


def test_a_package_that_is_not_there_is_told_once(trains):
    run = trains("""
        import subprocess, sys
        from torch.optim import Optimizer
        Optimizer().step()
        subprocess.run([sys.executable, "-c", "import torch.optim"], check=True)
        """)
    # in the place of the package's own
    run.env["PYTHONPATH"] = f"{run.world.root}/none{os.pathsep}{run.env['PYTHONPATH']}"
    (run.world.root / "none" / "pch").mkdir(parents=True)
    run.world.file("none/pch/__init__.py", "raise ImportError('there is none')")
    run.start("--instrument", n=None)
    assert run.result() == (0, "completed", None)
    assert len(re.findall("^pch: --instrument does nothing: .* cannot import the package pch .there is none.; install",
                          run.job.err, re.M)) == 1, run.job.err


def test_a_framework_that_is_otherwise_is_told_of(trains):
    files = {**TORCH, "torch/optim/optimizer.py": "class Optimizer:\n    def step(self): return 1\n"}
    run = trains("from torch.optim import Optimizer; assert Optimizer().step() == 1", files)
    run.start("--instrument", n=None)
    assert run.result() == (0, "completed", None)
    assert re.search("^pch: --instrument does nothing for torch.optim: AttributeError: ", run.job.err, re.M), run.job.err


def test_an_exception_is_the_cause(trains):
    run = trains("""
        from torch.optim import Optimizer
        Optimizer().step()
        raise ValueError("no such batch")
        """).start("--instrument", n=None)
    assert run.result() == (1, "failed", None)
    assert "ValueError: no such batch" in run.report["first_cause"]["text"]


FITS = "from transformers import Trainer\nfrom told import say, wait_for\n"


def test_a_fit_that_ends_well_is_done(trains):
    """Once, the log said at each good end that the rank had left without pch_done."""
    run = trains(FITS + "Trainer().train()", TRAINER).start("--instrument", n=2)
    assert run.result() == (0, "completed", None)
    assert run.job.err.count("Trainer.train takes part") == 1
    assert [rank["done"] for rank in run.report["ranks"]] == [True, True]
    assert "pch_done" not in run.job.err


def test_a_fit_that_raises_is_not_done(trains):
    """The fit is not done, even if the program catches the exception."""
    run = trains(FITS + """
def fail(step):
    if step == 2:
        raise ValueError("no such batch")
try:
    Trainer(fail).train()
except ValueError:
    pass
""", TRAINER).start("--instrument", n=None)
    assert run.result()[0] == 0
    assert run.report["ranks"][0]["done"] is False
    assert "has detached at step 2 without pch_done" in run.job.err


def test_a_fit_behind_the_first_is_not_done(trains):
    """The later fit is only counted. A scheduler's signal to every process ends it: no success, though the first fit
    has come to its end."""
    run = trains(FITS + """
import signal
signal.signal(signal.SIGTERM, lambda number, frame: exit(0))
Trainer().train()
def hold(step):
    if step == 1:
        say("second")
        wait_for("never")
Trainer(hold).train()
""", TRAINER).start("--instrument", n=None)
    pid = run.world.events.wait("second")["pid"]
    run.job.process.send_signal(signal.SIGTERM)
    run.said("notice: SIGTERM")
    os.kill(pid, signal.SIGTERM)
    assert run.result() == (42, "preempted_unsaved", None), run.report["why"]


@pytest.mark.parametrize("kind, more, needs", [
    ("MULTI_GPU", {}, "rank0"), ("MULTI_GPU", {"EACH_NODE": "1"}, "all"), ("FSDP", {}, "all"), ("DEEPSPEED", {}, "all"),
    ("NEW_KIND", {}, "all")])
def test_a_trainer_says_whose_saves_are_needed(trains, world, kind, more, needs):
    """The callback would refuse "rank0" for shards, so the fit shows that the two agree."""
    run = trains(FITS + """
import pch
Trainer(lambda step: say("needs", needs=pch.attach().needs)).train()
""", TRAINER).start("--instrument", n=2, KIND=kind, **more)
    assert run.result()[:2] == (0, "completed"), run.job.err
    assert run.job.err.count("Trainer.train takes part") == 1, run.job.err
    told = {(event["rank"], event["needs"]) for event in world.events.all("needs")}
    assert told == {(0, needs), (1, needs)}
