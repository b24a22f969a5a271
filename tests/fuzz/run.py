#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""run: builds the fuzzers with clang and libFuzzer, and lets each of them run for a while.

It begins with the inputs that are kept in tests/fuzz/corpus and those that earlier runs found (in
build-fuzz/corpus). An input that breaks something is kept in build-fuzz/found, named after its fuzzer.
Exit status: 0 if no input broke anything, 1 if one did, 2 if the fuzzers could not be built.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build-fuzz"
FOUND = BUILD / "found"
NAMES = sorted(path.name for path in (HERE / "corpus").iterdir())
OPTIONS = ["-Dfuzz=true", "-Dtests=disabled", "-Db_sanitize=address,undefined", "-Db_lundef=false",
           "-Dc_args=-fno-sanitize-recover=undefined"]
INPUT_S = 10  # longer than that for one input is a hang
START_S = 120  # for the kept inputs, on a busy machine


def build():
    clang = shutil.which("clang-14") or shutil.which("clang")
    if not clang:
        return "no clang; install clang-14 and libclang-rt-14-dev"
    steps = [["ninja", "-C", str(BUILD), "fuzzers"]]
    if not (BUILD / "build.ninja").exists():
        steps.insert(0, ["meson", "setup", str(BUILD), str(HERE.parents[1]), *OPTIONS])
    for step in steps:
        done = subprocess.run(step, env={**os.environ, "CC": clang}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            return done.stdout[-4000:] + "\nthe fuzzers could not be built"
    return None


def dictionary(name, path):
    """libFuzzer's option for a dictionary: the texts of kept JSON, since chance finds no key."""
    words = set()
    for kept in (HERE / "corpus" / name).iterdir():
        words.update(re.findall(rb'"[A-Za-z0-9_$.\[\]:{}-]{1,40}"', kept.read_bytes()))
    path.write_text("".join('"\\"%s\\""\n' % word[1:-1].decode() for word in sorted(words)))
    return [f"-dict={path}"] if words else []


def fuzz(name, seconds, folder):
    """Runs one fuzzer; returns (ok, its report)."""
    corpus = BUILD / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    before = set(FOUND.iterdir())
    argv = [BUILD / "tests/fuzz" / f"fuzz_{name}", f"-max_total_time={seconds}",
            f"-timeout={INPUT_S}", f"-artifact_prefix={FOUND}/{name}-",
            *dictionary(name, folder / f"{name}.dict"), corpus, HERE / "corpus" / name]
    try:
        done = subprocess.run(argv, env={**os.environ, "TMPDIR": str(folder)}, text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, errors="replace",
                              timeout=seconds + START_S)
        said, code = done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        said, code = (late.stderr or b"").decode(errors="replace"), "late"
    (BUILD / f"{name}.log").write_text(said)
    counted = re.search(r"^#(\d+)\s+DONE\s+cov: (\d+) ft: \d+ corp: (\d+)/", said, re.M)
    if code == 0 and counted:
        return True, "%s inputs, %s of them kept, %s places of the code reached" % counted.group(1, 3, 2)
    kept = [str(path) for path in sorted(set(FOUND.iterdir()) - before)]
    broken = re.search(r"^(?:.*runtime error: .*|SUMMARY: .*|.*fuzz_\w+\.[ch]:\d+: .*)$", said, re.M)
    return False, (f"FAILED ({code}): {broken[0] if broken else 'see its log'}\n  input: "
                   f"{' '.join(kept) or 'none was kept'}\n  log: {BUILD / f'{name}.log'}")


def main():
    parser = argparse.ArgumentParser(
        description="Runs pchrun's fuzzers; an input that breaks something is kept in "
                    "build-fuzz/found. To try one again: build-fuzz/tests/fuzz/fuzz_NAME FILE.")
    parser.add_argument("--seconds", type=int, default=5, metavar="N", help="for each (default 5)")
    parser.add_argument("--list", action="store_true", help="print the names and do nothing")
    parser.add_argument("name", nargs="*", help=f"{', '.join(NAMES)} (default: all)")
    options = parser.parse_args()
    unknown = set(options.name) - set(NAMES)
    if unknown or options.seconds < 1:
        parser.error(f"no fuzzer {min(unknown)}" if unknown else "--seconds wants at least 1")
    if options.list:
        print("\n".join(NAMES))
        return 0
    print("building in", BUILD, flush=True)
    failed = build()
    if failed:
        print(failed, file=sys.stderr)
        return 2
    FOUND.mkdir(exist_ok=True)
    ok = True
    with tempfile.TemporaryDirectory() as folder:
        for name in options.name or NAMES:
            print(f"{name}: {options.seconds} s ...", flush=True)
            is_fine, text = fuzz(name, options.seconds, Path(folder))
            print(f"{name}: {text}", flush=True)
            ok = ok and is_fine
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
