# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# analysis: what is read rather than run: clang-tidy, cppcheck, clang-format; no finding at all is
# allowed. A finding that is none is marked in the source, with its reason. Sourced by tests/run.sh.

# The checks and why the others are off: .clang-tidy. To follow every path through the calls takes nine
# tenths of the time, so that is for --long; else the analyser looks at each function by itself.
tidy_is_silent() {
    local depth=()
    [[ -n $long ]] || depth=(-Xclang -analyzer-config -Xclang mode=shallow)
    find src include contrib -name '*.c' -print0 |
        xargs -0 -P "$(nproc)" -n 3 clang-tidy-14 -p build-opt --quiet "${depth[@]/#/--extra-arg=}" \
        2> >(grep -v ' warnings\? generated\.$' >&2)
}

# Of the product: the tests' programs are full of what it takes for mistakes (shims that define what the
# C library has, functions that end in exit). Off: variableScope, since declarations stand where a
# reader looks for them; nullPointerRedundantCheck in the example, whose die() it takes to return.
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
