#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""count: counts the cases of meson's tests. It prints "passed failed skipped", and failures to stderr.

usage: count.py testlog.json EXIT-STATUS-OF-MESON

A Criterion or pytest program counts as the cases of its summary, any other program as one case. A program
that failed for meson counts at least one failure, even if its summary has none. So does a run without any
case, and a run that meson did not finish, as its exit status tells.
"""

import json
import re
import sys
from pathlib import Path

CRITERION = re.compile(
    r"Synthesis: Tested: (\d+) \| Passing: (\d+) \| Failing: (\d+) \| Crashing: (\d+)")
PYTEST = re.compile(r"^(?:=+ )?((?:\d+ \w+(?:, )?)+) in [\d.]+s", re.M)
COLOUR = re.compile(r"\x1b\[[\d;]*m")
TAIL = 40  # lines shown for a failed test


def cases(output):
    """(passed, failed, skipped) from the program's own summaries; None if there is no summary."""
    total = None
    for match in CRITERION.finditer(output):
        tested, passing, failing, crashing = map(int, match.groups())
        total = add(total, (passing, failing + crashing, tested - passing - failing - crashing))
    for match in PYTEST.finditer(output):
        number = {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", match[1])}
        failed = number.get("failed", 0) + number.get("error", 0) + number.get("errors", 0)
        skipped = number.get("skipped", 0) + number.get("xfailed", 0)
        total = add(total, (number.get("passed", 0), failed, skipped))
    return total


def add(a, b):
    return tuple(x + y for x, y in zip(a or (0, 0, 0), b))


def count(test):
    output = COLOUR.sub("", test.get("stdout", "") + test.get("stderr", ""))
    passed, failed, skipped = cases(output) or (0, 0, 0)
    result = test["result"]
    if result in ("OK", "EXPECTEDFAIL"):
        return (passed, failed, skipped) if passed + failed + skipped else (1, 0, 0)
    if result == "SKIP":
        return passed, failed, skipped + (passed + failed + skipped == 0)
    print(f"{test['name']}: {result}", *output.rstrip().splitlines()[-TAIL:], sep="\n", file=sys.stderr)
    return passed, max(failed, 1), skipped


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[1])
    log, status = Path(sys.argv[1]), int(sys.argv[2])
    total = (0, 0, 0)
    if log.exists():
        for line in log.read_text().splitlines():
            total = add(total, count(json.loads(line)))
    if total[1] == 0 and (status != 0 or total == (0, 0, 0)):
        total = add(total, (0, 1, 0))
    print(*total)


if __name__ == "__main__":
    main()
