# SPDX-License-Identifier: Apache-2.0
"""test_manuals: the manuals' examples work when they are copied from the page as man shows it."""

import json
import os
import re
import subprocess
import textwrap
from pathlib import Path

MAN = Path(__file__).resolve().parents[2] / "man"


def shown(name):
    """The page on a terminal of 80 columns."""
    page = subprocess.run(["mandoc", "-Tascii", MAN / name], text=True, capture_output=True, check=True).stdout
    return re.sub(".\b", "", page)


def run(script, **env):
    env = {"PATH": os.environ["PATH"], **{name: str(value) for name, value in env.items()}}
    return subprocess.run(["sh", "-eu", "-c", script], env=env, text=True, capture_output=True, check=False)


def test_the_file_of_a_drained_node(tmp_path):
    """The command of pchrun-watch(1) for administrators writes a notice with a deadline, and nothing else."""
    example = re.search(r"^ +\$ (echo .*\n +>)/shared(/drain/n7)$", shown("pchrun-watch.1"), re.M)
    (tmp_path / "drain").mkdir()
    done = run(f"{example[1]}{tmp_path}{example[2]}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    notice = json.loads((tmp_path / "drain" / "n7").read_text())
    assert notice["type"] == "terminate" and notice["deadline"].startswith("20")


def test_the_hook_that_acknowledges(tmp_path):
    """The example of EXIT HOOK in pchrun-notices(7) acknowledges Azure's event once, after the save, and no other."""
    hook = textwrap.dedent(re.search(r"^ +#!/bin/sh\n.*?\n(?=\n)", shown("pchrun-notices.7"), re.M | re.S)[0])
    watch = tmp_path / "pchrun-watch"
    watch.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    watch.chmod(0o755)

    def said(**other):
        env = {"PCH_NODE_RANK": 0, "PCH_OUTCOME": "preempted", "PCH_NOTICE_SOURCE": "azure",
               "PCH_NOTICE_ID": "an id", **other}
        done = run(hook, **env, PATH=f"{tmp_path}:{os.environ['PATH']}")
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()
    assert said() == ["azure", "--acknowledge", "an id"]
    for other in ({"PCH_NODE_RANK": 1}, {"PCH_OUTCOME": "preempted_unsaved"}, {"PCH_NOTICE_SOURCE": "SIGTERM"}):
        assert said(**other) == []
