# SPDX-License-Identifier: Apache-2.0
"""test_house: tests what tests/run.sh relies on: the counting, the search for processes left, the other checks here.

A runner that counts wrongly, or finds no process left, makes every other test worthless.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parent
sys.path[:0] = [str(HOUSE), str(HOUSE.parent)]
import badtrees  # noqa: E402
import documents  # noqa: E402
import english  # noqa: E402
import floorplan  # noqa: E402

CRITERION = "[====] Synthesis: Tested: 5 | Passing: 3 | Failing: 1 | Crashing: 1 \n"


def counted(tmp_path, *tests, status=0):
    log = tmp_path / "testlog.json"
    if tests:
        log.write_text("".join(
            json.dumps({"name": "t", "result": result, "stdout": said}) + "\n" for result, said in tests))
    done = subprocess.run([HOUSE / "count.py", log, str(status)], text=True, capture_output=True, check=True)
    return tuple(map(int, done.stdout.split()))


@pytest.mark.parametrize("result, said, wanted", [
    ("OK", "", (1, 0, 0)),
    ("FAIL", "", (0, 1, 0)),
    ("TIMEOUT", "", (0, 1, 0)),
    ("ERROR", "", (0, 1, 0)),
    ("SKIP", "", (0, 0, 1)),
    ("UNEXPECTEDPASS", "", (0, 1, 0)),
    ("FAIL", CRITERION, (3, 2, 0)),
    ("OK", "\x1b[0;34m[====]\x1b[0m Synthesis: Tested: \x1b[1m2\x1b[0m | Passing: 2 | Failing: 0 | Crashing: 0",
     (2, 0, 0)),
    ("OK", "..s\n2 passed, 1 skipped in 0.12s\n", (2, 0, 1)),
    ("FAIL", "=== 1 failed, 2 passed, 1 error in 3.10s ===\n", (2, 2, 0)),
    ("OK", "1 passed, 1 xfailed in 0.1s\n", (1, 0, 1)),
    ("FAIL", "4 passed in 0.1s\n", (4, 1, 0)),  # the program crashed after its summary
])
def test_one_program(tmp_path, result, said, wanted):
    assert counted(tmp_path, (result, said)) == wanted


def test_sum_of_programs(tmp_path):
    assert counted(tmp_path, ("OK", ""), ("FAIL", CRITERION), ("SKIP", ""), status=1) == (4, 2, 1)


def test_no_log_is_a_failure(tmp_path):
    assert counted(tmp_path) == (0, 1, 0)


def test_status_alone_is_a_failure(tmp_path):
    assert counted(tmp_path, ("OK", ""), status=1) == (1, 1, 0)


def nothing_left(script):
    return subprocess.run([HOUSE / "nothing_left.py", "--", "bash", "-c", script], text=True,
                          capture_output=True, check=False, timeout=60)


def test_nothing_left_passes_the_status_on():
    assert nothing_left("exit 7").returncode == 7
    assert nothing_left("true").returncode == 0


def test_slow_leaver_is_waited_for():
    done = nothing_left("setsid sleep 0.5 & exit 0")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("script", [
    "setsid sleep 86397 & exit 0",
    "(setsid env -i sleep 86397 &) ; exit 0",  # an orphan with another session and environment
    "setsid bash -c 'sleep 86397 & wait' & exit 0",  # a parent and its child
])
def test_stray_is_named_and_ended(script):
    done = nothing_left(script)
    assert done.returncode == 1
    assert "sleep 86397" in done.stdout
    strays = [line.split()[3].rstrip(":") for line in done.stdout.splitlines()]
    assert strays and not any(Path(f"/proc/{pid}").exists() for pid in strays)


def test_documents_faults_are_found():
    readme = (documents.ROOT / "README.md").read_text()
    assert not list(documents.readme_shape(readme))
    assert list(documents.readme_shape(readme + "\n" * documents.README_LINES_MAX))
    assert list(documents.readme_shape(readme.replace("## Failures", "## Faults")))
    include = documents.ROOT / "include"
    assert not list(documents.readme_code(readme, include))
    assert list(documents.readme_code(readme.replace("pch_saved(job, step, path)", "pch_saved(job)"), include))
    assert list(documents.places_exist("x", "see src/nowhere/at_all.c"))
    assert not list(documents.places_exist("x", "see src/base/err.h."))
    said = "`exit.preemted`, exit.preempted, `--no-such`, `--grace`"
    assert len(list(documents.settings_exist("x", said, {"exit.preempted"}, {"grace"}))) == 2


def test_exit_codes_that_differ_are_found():
    readme = (documents.ROOT / "README.md").read_text()
    manual = (documents.ROOT / "man/pchrun.1").read_text()
    defaults = {"preempted": 42, "preempted_unsaved": 42, "node_lost": 42, "hang": 42, "no_progress": 43,
                "stopped": 44}

    def faults(readme, manual, **other):
        codes = {name: {"default": code} for name, code in {**defaults, **other}.items()}
        return list(documents.exit_codes(readme, manual, {"properties": {"exit": {"properties": codes}}}))
    assert not faults(readme, manual)
    assert len(faults(readme, manual, no_progress=44)) == 2
    assert len(faults(readme.replace("| 125 |", "| 124 |"), manual)) == 2
    assert len(faults(readme, manual.replace(".It 43 ", ".It 44 "))) == 3


@pytest.mark.parametrize("name, text, lines", [
    ("a.c", "/* Wh_o has gone is not read. */", [1]),
    ("a.c", "/* a: reads.\n *\n * It ends if no_body\n * asks. */", [3]),
    ("a.c", "/* A save. On_e\n * that fails is made again. */", [1]),
    ("a.c", "// A rank ends. Wh_at it saved stays.", [1]),
    ("a.inc", '.help = "the source "\n    "asks.\\nOn_e "\n    "that fails is asked again",', [1]),
    ("a.py", "def f():\n    \"\"\"It waits.\n\n    Who_ever waits is told.\n    \"\"\"", [4]),
    ("a.py", "# It waits for\n# some_body.", [2]),
    ("a.sh", 'echo "$0: no_body listens" >&2  # Wh_at it says', [1, 1]),
    ("a.md", "- **43**: some_body must look", [1]),
    ("a.1", ".It Fl a\nWh_o calls\n.Fn f\nwaits.", [2]),
    ("a.c", 'int no_body; /* Wh_o is lost? */ say("no_body"); /* no "no_body" */', []),
    ("a.py", "no_body = f('no_body', 'Wh_o is it?')  # see `Wh_at` and 'Wh_at it does'", []),
    ("a.sh", "chown no_body /tmp", []),
    ("a.md", "## Wh_at it does\n\n```\nWh_o listens\n```\nThe user `no_body`.", []),
    ("a.1", ".Sh Wh_o listens\n.Bd -literal\nWh_o listens\n.Ed", []),
    ("a", "Wh_o listens: not a file that is searched", []),
])
def test_riddles_are_found(name, text, lines):
    """This file is searched, too, so its words have an underscore."""
    assert [line for line, _ in english.riddles(name, text.replace("_", ""))] == lines


def test_there_is_no_riddle():
    assert list(english.found()) == []


def test_shared_names_are_found(tmp_path):
    """A name that one file has twice, for two systems, is not shared; nor is main(), nor what tests define."""
    badtrees.build(tmp_path, {
        "src/os/a.c": badtrees.c("a", "#if A", "int take(void)\n{\n}", "#else", "int take(void)\n{\n}", "#endif"),
        "src/os/b.c": badtrees.c("b", "static int find(void)\n{\n}"),
        "src/run/b.c": badtrees.c("b", "static int find(void)\n{\n}", "/* int take(void)\n{\n} */"),
        "src/json/b.c": badtrees.c("b", "static bool find(int a)\n{\n    take();\n}"),
        "tests/unit/b.c": badtrees.c("b", "static int take(void)\n{\n}"),
        **{f"src/{name}.c": badtrees.c(name, "int main(void)\n{\n}") for name in ("main", "check")},
    })
    names = floorplan.shared_names(floorplan.Tree(tmp_path))
    assert names.pop("find") == ["src/json/b.c", "src/os/b.c", "src/run/b.c"]
    assert not {"take", "main"} & names.keys()


def test_shared_names_do_not_increase():
    """`tests/floorplan.py --shared` names them."""
    names = floorplan.shared_names(floorplan.Tree(HOUSE.parents[1]))
    assert (len(names), sum(map(len, names.values()))) == (floorplan.SHARED_NAMES, floorplan.SHARED_FUNCTIONS)
