#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""results: reads what a run of tests has reported, runs failed cases once more, and prints the table of all results.

usage: results.py add FILE PART LOG STATUS [--flaky-passes] [-- WRAPPER ...]
       results.py table FILE [NOT-RUN]

FILE collects results, a line of JSON for each case; the checks of tests/ci/lib.sh are in it, too. `add` reads LOG,
meson's log of tests in JSON, and the reports of pytest (--junitxml) and Criterion (--xml) that its commands name. A
program without such a report is one case. STATUS is the exit status of meson. Each failed case runs once more, alone,
below the programs WRAPPER. `add` prints the sum, then for each failure the output of the test and the command that
repeats it. `table` ends with the sum of all, and with status 1 if anything has failed.

A case that passes the second time is flaky. It has failed, unless --flaky-passes is given; then it has passed, but
more than two of those fail the table. Also a failure: a program that failed without a failed case, a run without any
case, and a run that meson did not finish.
"""

import collections
import dataclasses
import json
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import one  # noqa: E402

NOTHING_LEFT = Path(__file__).resolve().parents[1] / "house" / "nothing_left.py"
PASSED, FAILED, SKIPPED, FLAKY = "passed", "failed", "skipped", "flaky"
FLAKY_MAX = 2  # of a run; more than these are no accident
AGAIN_MAX = 10  # failed cases of a run that are run again: with more than these, the code is wrong, or the machine
AGAIN_LIMIT_S = 600
OUTPUT_MAX = 200  # lines of a failed program, or of each of its failed cases
SLOWEST = 5
COLOUR = re.compile(r"\x1b\[[\d;]*m")
SKIP_OF_CRITERION = re.compile(r"^\[SKIP\] (\S+)::(\S+): (.+)$", re.M)


@dataclasses.dataclass
class Case:
    part: str
    suite: str
    program: str
    case: str | None  # None: the program as a whole
    outcome: str
    seconds: float
    reason: str = ""

    @property
    def name(self):
        return f"{self.suite}/{self.program}" + (f" {self.case}" if self.case else "")


def report_of(entry):
    """The path of the report that the command of this entry writes, if it was written in this run."""
    for word in entry.get("command", []):
        if word.startswith(one.REPORTS):
            path = Path(word.partition("=")[2])
            if path.exists() and path.stat().st_mtime >= entry.get("starttime", 0) - 1:
                return path
    return None


def cases_of_report(path, output):
    """The file of pytest, and (case, outcome, seconds, reason), of each case in a report of pytest or Criterion.

    Criterion's report has no reasons. They are in the output of the program.
    """
    reasons = {f"{suite}/{name}": reason for suite, name, reason in SKIP_OF_CRITERION.findall(output)}
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        for case in suite.iter("testcase"):
            name = case.get("name") if case.get("file") else f"{suite.get('name')}/{case.get('name')}"
            outcome, reason = PASSED, ""
            for child in case:
                if child.tag in ("failure", "error"):
                    outcome = FAILED
                elif child.tag == "skipped" and outcome == PASSED:
                    outcome, reason = SKIPPED, child.get("message") or reasons.get(name, "no reason given")
            if case.get("status") in ("FAILED", "CRASHED", "ERRORED"):
                outcome = FAILED
            file = Path(case.get("file", "")).stem.removeprefix("test_")
            yield file, (name, outcome, float(case.get("time") or 0), reason)


def output_of(entry):
    return COLOUR.sub("", entry.get("stdout", "") + entry.get("stderr", "")).rstrip()


def cases_of(entry, part):
    """The cases of one program."""
    # "pchrun:unit+system / base", or without a suite "pchrun:base"
    label, _, program = entry["name"].rpartition(":")[2].rpartition(" / ")
    suite = label.partition("+")[0] or part
    result = entry["result"]
    output = output_of(entry)
    path = report_of(entry)
    whole = one.is_folder(entry.get("command", []))
    reported = cases_of_report(path, output) if path else ()
    cases = [Case(part, suite, file if whole else program, *rest) for file, rest in reported]
    cases = list({case.name: case for case in cases}.values())  # pytest reports twice what fails at its teardown, too
    if result == "SKIP" and not cases:
        return [Case(part, suite, program, None, SKIPPED, 0, output.rpartition("\n")[2] or "no reason given")]
    if result in ("OK", "EXPECTEDFAIL", "SKIP"):
        return cases or [Case(part, suite, program, None, PASSED, entry.get("duration", 0))]
    if not any(case.outcome == FAILED for case in cases):
        cases.append(Case(part, suite, program, None, FAILED, entry.get("duration", 0), f"meson says {result}"))
    return cases


def passes_alone(entry, case, wrapper):
    """Runs the case once more. Its output replaces that of the first run if it fails again."""
    variables = [f"{name}={value}" for name, value in entry.get("env", {}).items()]
    command = [*wrapper, "env", "-i", *variables, *one.narrowed(entry["command"], case.case, case.program)]
    try:
        done = subprocess.run([NOTHING_LEFT, "--", *command], text=True, errors="replace", timeout=AGAIN_LIMIT_S,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def interesting(output):
    """The end of a failed program's output: of pytest that of each failure, of Criterion without what passed."""
    found = re.search(r"^=+ (FAILURES|ERRORS) =+$", output, re.M)
    for part in re.split(r"^(?=_{3,} .* _{3,}$)", output[found.start():] if found else output, flags=re.M):
        title, *lines = [line for line in part.splitlines() if not line.startswith(("[PASS]", "[RUN ]"))] or [""]
        yield from [title, *["..."] * (len(lines) > OUTPUT_MAX), *lines[-OUTPUT_MAX:]]


def repeat(entry, case, log, wrapper):
    """The command by which a person repeats a case."""
    if log.parent.name != "meson-logs":
        return shlex.join(one.narrowed(entry["command"], case.case, case.program))
    return shlex.join([*wrapper, "tests/one.py", "-C", str(log.parent.parent), f"{case.suite}/{case.program}",
                       *([case.case] if case.case else [])])


def collect(part, log, status, flaky_passes, wrapper):
    """The cases of a log, and lines that say what failed."""
    said = []
    entries = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    found = [(entry, cases_of(entry, part)) for entry in entries]
    cases = [case for _, some in found for case in some]
    failed = [case for case in cases if case.outcome == FAILED]
    for entry, some in found:
        broken = [case for case in some if case.outcome == FAILED]
        for case in broken:
            if len(failed) <= AGAIN_MAX and passes_alone(entry, case, wrapper):
                case.outcome, case.reason = FLAKY, "" if flaky_passes else FAILED
        if broken:
            said += [f"output of {broken[0].suite}/{broken[0].program}", *interesting(output_of(entry))]
        for case in broken:
            said += [f"{case.outcome}: {case.name}" + (", it passed when it was run again" if case.outcome == FLAKY else ""),
                     f"    again: {repeat(entry, case, log, wrapper)}"]
    if not cases or (status != 0 and not failed):
        said.append(f"the run ended with {status}, and {log} has {len(cases)} cases")
        cases.append(Case(part, "meson", log.stem, None, FAILED, 0, f"the run ended with {status}"))
    return cases, said


def sums(cases):
    """(passed, failed, skipped)"""
    count = collections.Counter(FAILED if case.outcome == FLAKY and case.reason else
                                PASSED if case.outcome == FLAKY else case.outcome for case in cases)
    return count[PASSED], count[FAILED], count[SKIPPED]


def add(words):
    wrapper = words[words.index("--") + 1:] if "--" in words else []
    words = words[:words.index("--")] if "--" in words else words
    file, part, log, status, *rest = words
    cases, said = collect(part, Path(log), int(status), "--flaky-passes" in rest, wrapper)
    with open(file, "a") as out:
        for case in cases:
            out.write(json.dumps(dataclasses.asdict(case)) + "\n")
    print("{} passed, {} failed, {} skipped".format(*sums(cases)), *said, sep="\n    ")


def table(cases, not_run):
    """Prints the table. Returns whether nothing has failed."""
    rows = {}
    for case in cases:
        rows.setdefault((case.part, case.suite), []).append(case)
    print(f"\n{'part':<14} {'suite':<12} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}")
    for (part, suite), some in rows.items():
        print("{:<14} {:<12} {:>7} {:>7} {:>8} {:>8.0f}".format(
            part, suite if suite != part else "", *sums(some), sum(case.seconds for case in some)))
    skipped = collections.Counter((case.suite, case.reason) for case in cases if case.outcome == SKIPPED)
    if skipped:
        print("\nskipped")
    for (suite, reason), count in sorted(skipped.items()):
        print(f"{count:>4}  {suite}: {reason}")
    slow = sorted((case for case in cases if case.case), key=lambda case: -case.seconds)[:SLOWEST]
    if slow:
        print("\nslowest")
    for case in slow:
        print(f"{case.seconds:>6.1f} s  {case.name}")
    if not_run:
        print(f"\nnot run\n    {not_run}")
    passed, failed, left_out = sums(cases)
    flaky = [case for case in cases if case.outcome == FLAKY]
    wrong = [case for case in cases if case.outcome == FAILED]
    print()
    for case in flaky:
        print(f"flaky: {case.name}")
    for case in wrong:
        print(f"failed: {case.part}: {case.name}" + (f" ({case.reason})" if case.reason else ""))
    if not failed and len(flaky) > FLAKY_MAX:
        print(f"{len(flaky)} tests are flaky; up to {FLAKY_MAX} are tolerated")
        passed, failed = passed - len(flaky), len(flaky)
    print(f"{passed} passed, {failed} failed, {left_out} skipped")
    return failed == 0 and passed > 0


def main():
    match sys.argv[1:]:
        case ["add", _, _, _, _, *_]:
            add(sys.argv[2:])
        case ["table", file, *not_run]:
            path = Path(file)
            lines = path.read_text().splitlines() if path.exists() else []
            sys.exit(0 if table([Case(**json.loads(line)) for line in lines], " ".join(not_run)) else 1)
        case _:
            sys.exit(__doc__.split("\n\n")[1])


if __name__ == "__main__":
    main()
