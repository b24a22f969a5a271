# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# analysis: the static analysers clang-tidy and cppcheck, clang-format, and mypy for the package in Python. No
# finding is allowed. A false finding is suppressed in the source, with its reason. Sourced by tests/run.sh.

# .clang-tidy lists the checks and says why others are off. Following every path through the calls takes nine
# tenths of the time, so only --long does it. Otherwise the analyser looks at each function by itself.
tidy_is_silent() {
    local depth=()
    [[ -n $long ]] || depth=(-Xclang -analyzer-config -Xclang mode=shallow)
    find src include contrib -name '*.c' -print0 |
        xargs -0 -P "$(nproc)" -n 3 clang-tidy-14 -p build-opt --quiet "${depth[@]/#/--extra-arg=}" \
        2> >(grep -v ' warnings\? generated\.$' >&2)
}

# The product only: cppcheck takes the tests' shims of C library functions, and functions that end in exit,
# for mistakes. Off: variableScope, since declarations stand at the top of their function;
# nullPointerRedundantCheck in the example, because cppcheck expects its die() to return.
cppcheck_is_silent() {
    cppcheck --project=build-opt/compile_commands.json --file-filter='src/*' \
        --file-filter='contrib/*' -j "$(nproc)" --quiet --error-exitcode=1 --inline-suppr --enable=warning,style,performance,portability \
        --suppress=variableScope --suppress=nullPointerRedundantCheck:contrib/*
}

format_is_kept() {
    find src include man tests contrib '(' -name '*.[ch]' -o -name '*.cc' ')' -exec clang-format --dry-run -Werror {} +
}

# A fixed version, as in wheel.sh.
make_mypy() {
    [[ -x $output/mypy/bin/mypy ]] ||
        { /usr/bin/python3 -m venv "$output/mypy" && "$output/mypy/bin/pip" install -q mypy==2.4.1; }
}

# pyproject.toml says what is checked. The arguments name a Python that has the frameworks.
types_are_right() {
    make_mypy && "$output/mypy/bin/mypy" --cache-dir "$output/mypy-cache" "$@"
}

# The stub says what the module in C has.
stub_is_right() {
    local package=$PWD/build-opt/contrib/python
    make_mypy &&
        (cd "$output" && PYTHONPATH=$package MYPYPATH=$package mypy/bin/python -m mypy.stubtest pch._pch)
}

part_analysis() {
    check build-opt build_opt || return
    check format format_is_kept
    check cppcheck cppcheck_is_silent
    check clang-tidy tidy_is_silent
    check types types_are_right
    check stub stub_is_right
}
