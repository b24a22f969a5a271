# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests in a browser: those of tests/behave, a Chromium, pchrun-web, and a supervisor that is a thread.

Environment, beside that of tests/behave: BROWSER_SHOTS, the folder for pictures of the page. After each test the
fixture `browser` asserts what must hold of any page: see Browser.check(). It also asserts that no process of Chromium
is left.
"""

import importlib.util
import os
import signal
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BEHAVE = HERE.parent / "behave"
sys.path[:0] = [str(HERE), str(BEHAVE)]
_spec = importlib.util.spec_from_file_location("behave_conftest", BEHAVE / "conftest.py")
_behave = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_behave)
pytest_configure, pytest_runtest_makereport = _behave.pytest_configure, _behave.pytest_runtest_makereport
world, training = _behave.world, _behave.training

from harness import wait_until  # noqa: E402
from nodes import free_port  # noqa: E402
from supervisor import Supervisor, job  # noqa: E402

try:
    from browser import CHROMIUM, DRIVER, Browser
except ImportError:
    CHROMIUM = DRIVER = None


class Web:
    """A pchrun-web. start() starts it again at the same address."""

    def __init__(self, world, *options):
        self.world, self.options, self.port = world, options, free_port()
        self.address = f"http://127.0.0.1:{self.port}/"
        self.start()

    def start(self):
        self.job = self.world.start(os.environ["PCHRUN_WEB"], "--run-dir", self.world.tmp, "--listen",
                                    f"127.0.0.1:{self.port}", *self.options)
        wait_until(lambda: "open http" in self.job.out or self.job.process.poll() is not None, "pchrun-web to listen")
        assert self.job.process.poll() is None, self.job.err

    def end(self):
        if self.job.process.poll() is None:
            self.job.end_by(signal.SIGTERM, 0)
        assert self.job.err == ""


@pytest.fixture
def web(world):
    """web(*options) starts a pchrun-web, which ends well with the test."""
    started = []

    def start(*options):
        started.append(Web(world, *options))
        return started[-1]
    yield start
    for one in started:
        one.end()


@pytest.fixture
def fake(world):
    """fake(told) starts a supervisor that gives this answer."""
    started = []

    def start(told=None):
        started.append(Supervisor(world.tmp, told or job()))
        return started[-1]
    yield start
    for one in started:
        if one.folder.exists():
            one.close()


@pytest.fixture
def browser(request, world, fake, web):
    """Ends before `fake` and `web`, whose end the console would tell."""
    if not CHROMIUM or not DRIVER:
        pytest.skip("needs Debian's packages chromium, chromium-driver and python3-selenium")
    one = Browser(world, **getattr(request, "param", {}))
    try:
        yield one
        passed = getattr(request.node, "report_call", None)
        if passed is not None and passed.passed:
            one.check()
    finally:
        one.close()


@pytest.fixture
def page(browser, fake, web):
    """page(told) opens the page of a job with this state; returns its supervisor."""
    def start(told=None, *options):
        supervisor = fake(told)
        page.web = web(*options)
        browser.open(page.web.address)
        browser.shows("#contact-text", "^live$")
        return supervisor
    return start
