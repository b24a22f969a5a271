#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""one: runs one test program of a build, or one case of it, alone.

usage: tests/one.py [-C FOLDER] SUITE/PROGRAM [CASE]

FOLDER is the build (default: build-asan). CASE is a case of pytest, such as test_a_gate[1], or of Criterion, such
as str/whole_numbers. Without a case all cases of the program run. `meson test -C FOLDER --list` shows the programs.

It starts the program as `meson test` does, with the same arguments and environment. Exit status: the program's.
"""

import argparse
import json
import os
import sys
from pathlib import Path

REPORTS = ("--junitxml=", "--xml=")


def is_folder(command):
    """Does this command run pytest on a folder?"""
    return bool(command) and "pytest" in command and Path(command[-1]).is_dir()


def narrowed(command, case, program):
    """The command of a test program, for this case alone. It writes no report for tests/ci/results.py."""
    last = Path(command[-1])
    if is_folder(command):
        last = last / f"test_{program}.py"
    command = [word for word in command if not word.startswith(REPORTS)]
    if case is None:
        return command
    if last.suffix == ".py":
        return [*command[:-1], f"{last}::{case}"]
    return [*command, f"--filter={case}"]


def find(folder, wanted):
    """The test SUITE/PROGRAM as meson describes it."""
    listed = Path(folder) / "meson-info" / "intro-tests.json"  # as `meson introspect` prints it, of any version of meson
    if not listed.exists():
        sys.exit(f"tests/one.py: {folder} is no build: it has no {listed.name}; tests/run.sh --only unit makes build-asan")
    suite, _, name = wanted.partition("/")
    tests = json.loads(listed.read_text())
    for test in tests:
        if test["name"] == name and suite in (each.split(":")[-1] for each in test["suite"]):
            return test
    near = sorted(f"{each['suite'][0].split(':')[-1]}/{each['name']}" for each in tests if name and name in each["name"])
    sys.exit(f"tests/one.py: {folder} has no test {wanted}" + (f"; it has {', '.join(near)}" if near else ""))


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "),
                                     description=__doc__.split("\n\n")[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-C", dest="folder", metavar="FOLDER", default="build-asan", help="the build")
    parser.add_argument("test", metavar="SUITE/PROGRAM")
    parser.add_argument("case", metavar="CASE", nargs="?")
    options = parser.parse_args()
    test = find(options.folder, options.test)
    os.environ.update(test["env"])
    command = narrowed(test["cmd"], options.case, test["name"])
    os.chdir(test["workdir"] or ".")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
