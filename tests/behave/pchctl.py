# SPDX-License-Identifier: Apache-2.0
"""The fixture that runs pchctl."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from harness import DEADLINE

PCHCTL = os.environ.get("PCHCTL", str(Path(os.environ["PCHRUN_BIN"]).with_name("pchctl")))


@pytest.fixture
def ctl(world):
    """ctl(*words) runs a pchctl that looks only where this test's jobs are; .start() does not wait
    for its end."""
    def command(words, everywhere):
        return [PCHCTL, *([] if everywhere else ["--run-dir", world.tmp]), *words]

    def run(*words, everywhere=False, env=None, **more):
        argv = [str(word) for word in command(words, everywhere)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE,
                              env={**world.env, **(env or {})}, check=False, **more)

    def start(*words, everywhere=False):
        return world.start(*command(words, everywhere))

    def status(*words):
        done = run("status", "--json", *words)
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)
    run.start, run.status = start, status
    return run


def waited_for(ctl, *words):
    """The lines about those for which the job waits."""
    found = re.search(r"^waits for (.*(?:\n          .*)*)$", ctl("status", *words).stdout, re.M)
    return found[1].split("\n          ") if found else []
