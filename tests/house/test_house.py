# SPDX-License-Identifier: Apache-2.0
"""test_house: tests what tests/run.sh relies on: the counting, the search for processes left, the other checks here.

A runner that counts wrongly, or finds no process left, makes every other test worthless.
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parent
sys.path[:0] = [str(HOUSE), str(HOUSE.parent)]
import badtrees  # noqa: E402
import documents  # noqa: E402
import english  # noqa: E402
import floorplan  # noqa: E402
import one  # noqa: E402

RESULTS = HOUSE.parent / "ci" / "results.py"

CRITERION = """<testsuites><testsuite name="str"><testcase name="good" status="PASSED" time="0.5"></testcase>
<testcase name="off" status="SKIPPED" time="0"><skipped/></testcase>
<testcase name="bad" status="FAILED" time="0"><failure type="assert" message="1 assertion(s) failed."></failure></testcase>
<testcase name="worse" status="ERRORED" time="0"></testcase></testsuite></testsuites>"""
PYTEST = """<testsuites><testsuite name="pytest">
<testcase classname="test_a" name="test_good[1]" file="test_a.py" line="1" time="0.25" />
<testcase classname="test_a" name="test_off" file="test_a.py" time="0"><skipped message="needs root">at 3</skipped></testcase>
<testcase classname="test_a" name="test_bad" file="test_a.py" time="0"><failure message="no">text</failure></testcase>
<testcase classname="test_a" name="test_worse" file="test_a.py" time="0"><error message="no">text</error></testcase>
</testsuite></testsuites>"""


class Run:
    """A log of meson's, whose programs are commands of this test."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "meson-logs").mkdir()
        self.log = folder / "meson-logs" / "log.json"
        self.file = folder / "results"

    def add(self, result, report=None, said="", command=("false",)):
        words = list(command)
        if report is not None:
            path = self.folder / f"report{len(list(self.folder.iterdir()))}.xml"
            path.write_text(report)
            words.append(f"--xml={path}")
        with self.log.open("a") as log:
            log.write(json.dumps({"name": "pchrun:unit+system / a", "result": result, "stdout": said, "command": words,
                                  "env": {"PATH": "/usr/bin:/bin"}, "starttime": 0, "duration": 2.0}) + "\n")
        return self

    def call(self, *words):
        return subprocess.run([RESULTS, *map(str, words)], text=True, capture_output=True, check=False)

    def read(self, status=0, *more):
        done = self.call("add", self.file, "suites", self.log, status, *more)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def sum(self, status=0, *more):
        return tuple(map(int, re.findall(r"\d+", self.read(status, *more).splitlines()[0])))

    def table(self):
        done = self.call("table", self.file, "the rest")
        return done.returncode, done.stdout


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


@pytest.mark.parametrize("result, report, wanted", [
    ("OK", None, (1, 0, 0)),
    ("FAIL", None, (0, 1, 0)),
    ("TIMEOUT", None, (0, 1, 0)),
    ("ERROR", None, (0, 1, 0)),
    ("SKIP", None, (0, 0, 1)),
    ("UNEXPECTEDPASS", None, (0, 1, 0)),
    ("FAIL", CRITERION, (1, 2, 1)),
    ("FAIL", PYTEST, (1, 2, 1)),
    ("OK", PYTEST.replace("failure", "x").replace("error", "x"), (3, 0, 1)),
    ("FAIL", PYTEST.replace("failure", "x").replace("error", "x"), (3, 1, 1)),  # it crashed behind its report
])
def test_one_program(run, result, report, wanted):
    assert run.add(result, report).sum(int(wanted[1] > 0)) == wanted


def test_a_case_that_fails_at_its_teardown_too_is_one_case(run):
    twice = PYTEST.replace("test_worse", "test_bad")
    assert twice.count('"test_bad"') == 2 and run.add("FAIL", twice).sum(1) == (1, 1, 1)


def test_sum_of_programs(run):
    assert run.add("OK").add("FAIL", CRITERION).add("SKIP").sum(1) == (2, 2, 2)


def test_each_failure_is_shown(run):
    """A long failure hides no other one of its program."""
    said = "passed\n== FAILURES ==\n___ test_bad ___\nfirst\nbad\n___ test_worse ___\n" + 300 * "worse\n"
    lines = [line.strip() for line in run.add("FAIL", PYTEST, said).read(1).splitlines()]
    assert lines.index("___ test_bad ___") + 2 == lines.index("bad") < lines.index("___ test_worse ___")
    assert lines.count("worse") == 200 and "passed" not in lines


def test_no_log_is_a_failure(run):
    assert run.sum() == (0, 1, 0)


def test_status_alone_is_a_failure(run):
    assert run.add("OK").sum(1) == (1, 1, 0)


def test_a_report_of_an_earlier_run_does_not_count(run):
    run.add("FAIL", PYTEST)
    entry = json.loads(run.log.read_text())
    run.log.write_text(json.dumps({**entry, "starttime": time.time() + 60}) + "\n")
    assert run.sum(1) == (0, 1, 0)


# A program of Criterion's kind: fails at its first run, and then only if told to.
FLAKY = "test -e $0 && exit $1; touch $0; exit 1"


@pytest.mark.parametrize("again, options, wanted, code", [
    (1, ["--flaky-passes"], (0, 1, 0), 1),
    (0, ["--flaky-passes"], (1, 0, 0), 0),
    (0, [], (0, 1, 0), 1),
])
def test_a_failed_test_runs_once_more(run, tmp_path, again, options, wanted, code):
    first = ["sh", "-c", FLAKY, str(tmp_path / "ran"), str(again)]
    assert subprocess.run(first, check=False).returncode == 1
    assert run.add("FAIL", command=first).sum(1, *options) == wanted
    status, said = run.table()
    assert status == code and ("flaky: unit/a" in said) == (again == 0)
    assert said.splitlines()[-1] == "{} passed, {} failed, {} skipped".format(*wanted)


@pytest.mark.parametrize("count, code", [(2, 0), (3, 1)])
def test_more_than_two_flaky_tests_fail_the_run(run, count, code):
    for _ in range(count):
        run.add("FAIL", command=["true"])
    run.sum(1, "--flaky-passes")
    status, said = run.table()
    assert status == code and said.count("flaky: ") == count


def test_what_failed_is_shown_with_the_command_that_repeats_it(run):
    said = run.add("FAIL", PYTEST, said="noise\n=== FAILURES ===\nthe reason\n").read(1)
    assert "noise" not in said and "the reason" in said
    assert f"again: tests/one.py -C {run.folder} unit/a test_bad" in said


def test_the_table_names_what_was_skipped_and_what_was_slow(run):
    run.add("SKIP", said="looking\nspin is not installed").add("OK", PYTEST.replace("failure", "x").replace("error", "x"))
    run.read()
    code, said = run.table()
    assert code == 0 and "   1  unit: spin is not installed" in said and "   1  unit: needs root" in said
    assert "  0.2 s  unit/a test_good[1]" in said and "not run\n    the rest" in said
    assert re.search(r"^suites +unit +3 +0 +2 ", said, re.M)


def test_the_reason_of_a_skipped_test_of_criterion(run):
    """Its report has none, its output does."""
    passes = CRITERION.replace("FAILED", "PASSED").replace("ERRORED", "PASSED").replace("failure", "x")
    run.add("OK", passes, said="[RUN ] str::off\n[SKIP] str::off: the kernel: too old\n").add("OK", passes)
    run.read()
    assert "   1  unit: no reason given\n   1  unit: the kernel: too old\n" in run.table()[1]


def test_one_test_alone(tmp_path):
    command = ["/usr/bin/python3", "-m", "pytest", f"--junitxml={tmp_path}/a.xml", "/x/test_a.py"]
    assert one.narrowed(command, "test_b[1]", "a") == [*command[:3], "/x/test_a.py::test_b[1]"]
    assert one.narrowed(command, None, "a") == [*command[:3], "/x/test_a.py"]
    assert one.narrowed(["/x/test_a", "--xml=/a.xml"], "str/fit", "a") == ["/x/test_a", "--filter=str/fit"]
    (tmp_path / "test_b.py").touch()
    assert one.narrowed(["pytest", str(tmp_path)], "test_c", "b") == ["pytest", f"{tmp_path}/test_b.py::test_c"]


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
    assert list(documents.readme_shape(readme.replace("## Exit codes", "## Codes")))
    assert not list(documents.readme_difference(readme))
    assert list(documents.readme_difference(readme.replace("+job.done()", "+job.done()\n" * 8)))
    assert list(documents.readme_difference(readme.replace("+job.done()", "+job.done(")))
    include = documents.ROOT / "include"
    assert not list(documents.readme_code(readme, include))
    assert list(documents.readme_code(readme.replace("pch_saved(job, step, path)", "pch_saved(job)"), include))
    assert list(documents.places_exist("x", "see src/nowhere/at_all.c"))
    assert not list(documents.places_exist("x", "see src/base/err.h."))
    faq = documents.ROOT / "docs/FAQ.md"
    assert not list(documents.links_lead(faq, "[a](python/ddp.md#a-slow-rank), [b](#nccl), [c](https://no.where)"))
    assert len(list(documents.links_lead(faq, "[a](python/no.md), [b](python/ddp.md#no), [c](#no)"))) == 3
    said = "`exit.preemted`, exit.preempted, `--no-such`, `--grace`"
    assert len(list(documents.settings_exist("x", said, {"exit.preempted"}, {"grace"}))) == 2


def test_exit_codes_that_differ_are_found():
    readme = (documents.ROOT / "README.md").read_text()
    manual = (documents.ROOT / "man/pchrun.1").read_text()
    defaults = {"preempted": 42, "preempted_unsaved": 42, "node_lost": 42, "hang": 42, "no_progress": 43,
                "stopped": 44, "unhealthy": 45, "done_killed": 0}

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
    ("a.c", '.help = "the source "\n    "asks.\\nOn_e "\n    "that fails is asked again",', [1]),
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


def test_no_conflict_of_a_merge_is_left():
    """git marks one with seven of these signs."""
    assert [name for name, text in english.tree(english.ROOT) if re.search("^([<>])\\1{6} ", text, re.M)] == []


@pytest.mark.parametrize(("name", "head"), [("peer", b"CP"), ("proc", b"PP")])
def test_kept_frames_are_of_the_present_version(name, head):
    """A frame of another version is refused at its head, so the fuzzer would begin with nothing."""
    source = documents.ROOT / f"src/wire/{name}msg.h"
    version = int(re.search(rf"#define {name.upper()}MSG_VERSION +(\d+)", source.read_text())[1])
    kept = {path.name: path.read_bytes()[:3] for path in (documents.ROOT / "tests/fuzz/corpus" / name).iterdir()}
    assert kept and {other for other, data in kept.items() if data != head + bytes([version])} == set()


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
