# SPDX-License-Identifier: Apache-2.0
"""test_library: each public function of pch.h has all that belongs to it: a call from C++, a version in Debian's package."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def found(pattern, *path):
    return set(re.findall(pattern, ROOT.joinpath(*path).read_text(), re.M))


DECLARED = found(r"^PCH_API [^;(]*?\b(pch_\w+)\(", "include", "pch.h")


def test_the_program_in_cplusplus_calls_every_function():
    assert len(DECLARED) > 10
    assert DECLARED <= found(r"\b(pch_\w+)\(", "tests", "unit", "cplusplus.cc")


def test_the_list_of_symbols_has_every_function():
    """The list of Debian's package: a function that is missing there has no version."""
    assert DECLARED == found(r"^ (pch_\w+)@PCH_0 ", "debian", "libpch0.symbols")
