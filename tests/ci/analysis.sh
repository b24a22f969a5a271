# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# analysis: the static analysers clang-tidy and cppcheck, and clang-format. No finding is allowed. A false
# finding is suppressed in the source, with its reason. Sourced by tests/run.sh.

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

part_analysis() {
    check build-opt build_opt || return
    check format format_is_kept
    check cppcheck cppcheck_is_silent
    check clang-tidy tidy_is_silent
}
