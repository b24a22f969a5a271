# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the process tests; see harness.py.

Environment: PCHRUN_BIN, the pchrun to test; PCHRUN_HELPERS, the folder with mirror, actor, pchclient
and the shims; CHARLM, the example; BEHAVE_MEMCHECK, if it is set: pchrun and pchclient run in valgrind.
After every test the fixture `world` asserts that no process of the test is left, that nothing is left
in TMPDIR, that no sanitizer has reported anything, and that no pchrun, nor the test, has left a
descriptor open.
"""

import os
import signal
import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest

import harness
from harness import (MARK, MEMCHECK_OPTIONS, SANITIZER_OPTIONS, Events, Job, Terminal, become_subreaper,
                     checker_reports, children_of, describe, entering, kill_quietly, live_apart, marked,
                     needs_namespace, reap_adopted, start_from_defaults, wait_until)
from training import Training

become_subreaper()
start_from_defaults()
live_apart()


def pytest_configure(config):
    config.addinivalue_line("markers", "killed: pchrun is killed, so its files may stay")
    config.addinivalue_line("markers", "looks_up: a thread of libc's may still look up a name at the "
                            "end, with descriptors of its own")
    config.addinivalue_line("markers", "memcheck: also run in valgrind (BEHAVE_MEMCHECK)")
    config.addinivalue_line("markers", "timing: looks at the clock, so nothing runs beside it (the suite timing)")
    for name in ("PCHRUN_BIN", "PCHRUN_HELPERS", "CHARLM"):
        if name not in os.environ:
            raise pytest.UsageError(f"{name} is not set: run the tests with `meson test`")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    setattr(item, f"report_{call.when}", report)
    world = item.funcargs.get("world")
    if report.failed and isinstance(world, World):
        report.sections += [(f"standard error of process {job.pid}", job.err) for job in world.jobs if job.err]


class World:
    """The things of one test: folders, the environment, and the programs that it has started."""

    def __init__(self, root):
        self.root = root
        self.mark = uuid.uuid4().hex
        self.pchrun = os.environ["PCHRUN_BIN"]
        self.helpers = Path(os.environ["PCHRUN_HELPERS"])
        self.actor = str(self.helpers / "actor")
        self.mirror = str(self.helpers / "mirror")
        self.pchclient = str(self.helpers / "pchclient")
        self.oldkernel = str(self.helpers / "oldkernel")  # runs a command as on an old kernel
        self.cwd = self._folder("cwd")
        self.tmp = self._folder("tmp")
        self.sanitizer = self._folder("sanitizer")
        self.fds = self._folder("fds")
        if os.environ.get("BEHAVE_MEMCHECK"):
            self.pchrun = self._memcheck(self.pchrun)
            self.pchclient = self._memcheck(self.pchclient)
        self.events = Events(root / "events")
        self.jobs = []
        self.terminals = []
        # Where the tests run, on a cloud or not, must not decide what they see.
        self.env = {
            "PATH": "/usr/bin:/bin", "HOME": str(root), "LANG": "C.UTF-8", "TMPDIR": str(self.tmp),
            "PCHRUN_PRESET": "none",
            "ACTOR_LOG": str(self.events.path), MARK: self.mark,
            # A notice ends the job at once; test_grace.py has the tests of the time that it leaves.
            "PCHRUN_SAVE_TRAIN_ON": "false",
            "ASAN_OPTIONS": ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"),
                                                   f"{SANITIZER_OPTIONS}{self.sanitizer}/asan"])),
            "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={self.sanitizer}/ubsan",
        }

    def _folder(self, name):
        path = self.root / name
        path.mkdir()
        return path

    def _memcheck(self, program):
        """A script that runs the program in valgrind. It has the program's name, by which shims and tests find it."""
        folder = self.root / "memcheck"
        folder.mkdir(exist_ok=True)
        return str(self.file(f"memcheck/{os.path.basename(program)}", "#!/bin/sh\n"
                             f"exec /usr/bin/valgrind {MEMCHECK_OPTIONS} "
                             f"--log-file='{self.sanitizer}/memcheck.%p' '{program}' \"$@\"\n", 0o755))

    def file(self, name, text="", mode=0o600):
        path = self.root / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def start(self, *argv, env=None, code=None, **options):
        """Starts any program in a process group of its own, with its output in files. With `code`: waits for its end
        with this code."""
        n = len(self.jobs)
        out = err = None
        if "stdout" not in options:
            out = self.root / f"out{n}"
            options["stdout"] = out.open("wb")
        if "stderr" not in options:
            err = self.root / f"err{n}"
            options["stderr"] = err.open("wb")
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("cwd", self.cwd)
        options.setdefault("process_group", 0)
        env = {**self.env, **(env or {})}
        argv = [str(a) for a in argv]
        process = subprocess.Popen(argv, env=env | self.count_fds(argv, env), **options)
        if out:
            options["stdout"].close()
        if err:
            options["stderr"].close()
        job = Job(process, out, err, self.mark)
        self.jobs.append(job)
        if code is not None:
            assert job.finish() == code, job.err
        return job

    def launch(self, *args, above=(), **options):
        """Starts pchrun with these arguments, below the programs `above`."""
        return self.start(*above, self.pchrun, *args, **options)

    def words(self, *texts):
        """Splits texts into words; the words of lists stay as they are. "hold NAME" is the file that go_on(NAME)
        creates."""
        words = [str(word) for text in texts for word in (text.split() if isinstance(text, str) else text)]
        return [self.hold(word) if before == "hold" and "/" not in word else word
                for before, word in zip(["", *words], words)]

    def act(self, *verbs, options=(), ready="ready", above=(), start=None, **more):
        """Starts pchrun over an actor, below the programs `above`, or by a function such as the fixture terminal. Verbs
        and options: see words(). If the word `ready` is one of the verbs, waits until every actor has said it;
        job.actors are their pids, and job.actor the first."""
        verbs, options = self.words(*verbs), self.words(options)
        before = len(self.events.all(ready))
        start = start or (lambda *args, **more: self.start(*above, self.pchrun, *args, **more))
        job = start(*options, "--", self.actor, *verbs, **more)
        if ready in verbs:
            count = int(options[options.index("-n") + 1]) if "-n" in options else 1
            self.events.wait(ready, before + count)
            job.actors = [event["pid"] for event in self.events.all(ready)[before:]]
            job.actor = job.actors[0]
        return job

    def refused(self, *words, **more):
        """pchrun starts nothing, and says why in one line that has these words. Returns the job, which has ended."""
        job = self.act("say started", code=harness.OWN_ERROR, **more)
        assert len(job.err_lines) == 1, job.err
        for word in words:
            assert str(word) in job.err, job.err
        assert not self.events.all() and not job.out
        return job

    def client(self, commands, stays=False):
        """The words that run a pchclient through these commands. With `stays` the input of the client does not end."""
        script = self.file(f"script{len(list(self.root.glob('script*')))}")
        script.write_bytes(commands if isinstance(commands, bytes) else commands.encode())
        client = f"{self.helpers}/pchclient"
        return ["sh", "-c", f"(cat {script}; sleep 600) | {client}" if stays else f"exec {client} <{script}"]

    def terminal(self, *argv, env=None, size=(24, 200)):
        """Starts a program as the leader of a session on a pseudo-terminal, with so many rows and columns."""
        env = {**self.env, **(env or {})}
        argv = [str(a) for a in argv]
        terminal = Terminal(argv, env | self.count_fds(argv, env), self.cwd, self.mark, size)
        self.jobs.append(terminal.job)
        self.terminals.append(terminal)
        return terminal

    def count_fds(self, argv, env):
        """The environment in which pchrun writes down what it leaves open at its end (shim_fds)."""
        if self.pchrun not in argv:
            return {}
        others = env.get("LD_PRELOAD")
        return {"LD_PRELOAD": ":".join(filter(None, [others, f"{self.helpers}/shim_fds.so"])),
                "FDS_OF": os.path.basename(self.pchrun), "FDS_LOG": str(self.fds),
                **({"FDS_OTHERS": others} if others else {})}

    def fds_left(self):
        """The descriptors that programs have left open, as {"fds.PID": text}; the text should be empty."""
        return {path.name: path.read_text() for path in self.fds.iterdir()}

    def shim(self, *names, **variables):
        """The environment that preloads shims for pchrun."""
        program = os.path.basename(self.pchrun)
        paths = ":".join(str(self.helpers / f"shim_{name}.so") for name in names)
        # The shims replace fork() of the C library. A start in a control group asks the kernel directly.
        return {"LD_PRELOAD": paths, "SHIM_FOR": program, "PCHRUN_STOP_CGROUP": "off",
                **{key: str(value) for key, value in variables.items()}}

    def gates(self, *points):
        """The environment that holds pchrun at these points; see reached() and go()."""
        return self.shim("gate", SHIM_GATES=",".join(points), SHIM_DIR=self.root)

    def reached(self, point):
        """Waits until pchrun stands at a gate."""
        wait_until((self.root / f"{point}.reached").exists, f"pchrun at the gate {point}")

    def go(self, point):
        (self.root / f"{point}.go").touch()

    def go_on(self, name):
        """Creates the file that an actor's `hold` waits for (see hold())."""
        Path(self.hold(name)).touch()

    def let_end(self, job, code=0, name="end"):
        """Lets the actors of a job (or of nodes) go on, and the job end."""
        self.go_on(name)
        assert job.finish() == code

    def hold(self, name):
        return str(self.root / f"{name}.hold")

    def has_sanitizer(self):
        libraries = subprocess.run(["ldd", self.pchrun], capture_output=True, text=True).stdout
        return "libasan" in libraries or b"__asan_init" in Path(self.pchrun).read_bytes()

    def end(self):
        """Ends what a failed test has left running."""
        for pid in marked(self.mark):
            kill_quietly(pid)
        for job in self.jobs:
            kill_quietly(job.pid) if job.process.poll() is None else None
            job.process.wait(10)
        for terminal in self.terminals:
            terminal.close()
        reap_adopted()


def open_fds():
    """The descriptors of the tests themselves: a set of (number, target)."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add((int(name), os.readlink(f"/proc/self/fd/{name}")))
        except FileNotFoundError:  # the process that listed them
            pass
    return found


def sanitizer_reports(world):
    """gcc's UBSan writes to standard error, whatever its log_path says."""
    return checker_reports(world.sanitizer) + [job.err for job in world.jobs if "runtime error:" in job.err]


@pytest.fixture
def world(request, tmp_path):
    world = World(tmp_path)
    own = open_fds()
    yield world
    left = [describe(pid) for pid in marked(world.mark)]
    running = [job.process.args for job in world.jobs if job.process.poll() is None]
    files = sorted(str(path.relative_to(world.tmp)) for path in world.tmp.rglob("*"))
    world.end()
    passed = getattr(request.node, "report_call", None)
    if passed is None or not passed.passed:
        return
    assert not running, f"the test did not wait for {running}"
    assert not left, f"processes are left: {left}"
    if not request.node.get_closest_marker("killed"):
        assert not files, f"files are left in TMPDIR: {files}"
    reports = sanitizer_reports(world)
    assert not reports, "\n".join(reports)
    open_at_end = {name: text for name, text in world.fds_left().items() if text}
    if request.node.get_closest_marker("looks_up"):
        open_at_end = {}
    assert not open_at_end, f"pchrun has left descriptors open: {open_at_end}"
    own = open_fds() - own
    assert not own, f"the test has left descriptors open: {own}"


@pytest.fixture
def open_folder(world):
    """A folder that other users may enter. Below tmp_path there is none: each pytest that starts closes the folder
    above it, which all of them share."""
    with tempfile.TemporaryDirectory(prefix="pchrun-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.fixture
def terminal(world):
    """A function that starts pchrun as a session leader on a pseudo-terminal."""
    def start(*args, env=None):
        return world.terminal(world.pchrun, *args, env=env)
    return start


@pytest.fixture
def training(world):
    """A function that starts pchrun over pchclients. With `train` all have attached, and trained to that step."""
    started = []

    def start(*options, train=None, **more):
        started.append(Training(world, *options, **more))
        if train is not None:
            started[-1].open()
            started[-1].train(train)
        return started[-1]
    yield start
    for one in started:
        one.close()


class Namespace:
    """pchrun as PID 1 of a PID namespace. pid: as seen from outside."""

    def __init__(self, world, args, env):
        self.world = world
        self.job = world.start("unshare", "--pid", "--fork", "--mount-proc", "--kill-child",
                               world.pchrun, *args, env=env)
        name = os.path.basename(world.pchrun)
        found = wait_until(
            lambda: [pid for pid in children_of(self.job.pid)
                     if harness.status_of(pid).get("Name") == name[:15]]
            or self.job.process.poll() is not None, "pchrun as PID 1")
        self.pid = None if found is True else found[0]  # None: the process has ended already

    def kill_from_inside(self, number):
        sender = subprocess.run([*entering(self.pid, "--pid"), "sh", "-c", f"kill -{int(number)} 1"],
                                timeout=harness.DEADLINE)
        # The end of the namespace may take the sender along.
        assert sender.returncode in (0, -signal.SIGKILL)

    def finish(self, deadline=harness.DEADLINE):
        return self.job.finish(deadline)


@pytest.fixture
def namespace(world):
    """A function that starts pchrun as PID 1 of a new PID namespace."""
    needs_namespace("--pid", "--fork", "--mount-proc")
    return lambda *args, env=None: Namespace(world, args, env)
