# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# lib: what the parts of tests/run.sh share: checks, packages, builds, suites of meson.
# Sourced, never run. It owns the folder $output, and in it the results, which tests/ci/results.py reads.

part=packages # that runs now
output=$(mktemp -d)
policy=
home= # of the stranger of dist.sh
clean_up() {
    rm -rf "$output" ${home:+"$home"}
    [[ -z $policy ]] || rm -f "$policy"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# finish [NOT-RUN]: prints the table, and the sum as the last line.
finish() {
    if [[ ! -x /usr/bin/python3 ]]; then # it could not be installed
        echo "0 passed, 1 failed, 0 skipped"
        exit 1
    fi
    tests/ci/results.py table "$output/results" "$@"
    exit
}

begin() {
    printf '[%4d s] %-18s ' "$SECONDS" "$1"
}

# result NAME OUTCOME SECONDS [REASON]
result() {
    # The first results come before python3 is installed.
    printf '{"part": "%s", "suite": "%s", "program": "%s", "case": null, "outcome": "%s", "seconds": %d, "reason": "%s"}\n' \
        "$part" "$part" "$1" "$2" "$3" "$(tr '"\\\n' "'/ " <<<"${4-}")" >>"$output/results"
}

# check NAME COMMAND...: one check, counted as one test. Shows the output if the command fails.
check() {
    local name=$1 began=$SECONDS
    shift
    begin "$name"
    if "$@" >"$output/check" 2>&1; then
        echo ok
        result "$name" passed $((SECONDS - began))
    else
        echo FAILED
        result "$name" failed $((SECONDS - began))
        tail -n 60 "$output/check" | sed 's/^/    /'
        echo "    again: tests/run.sh --only $part"
        return 1
    fi
}

# skip NAME REASON
skip() {
    begin "$1"
    echo "skipped: $2"
    result "$1" skipped 0 "$2"
}

missing_packages() {
    local name
    for name in "$@"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$name" 2>&1) == installed ]] || echo "$name"
    done
}

# Installs without starting any service: policy-rc.d forbids that, unless the machine has a rule of its own.
install_packages() {
    local missing
    mapfile -t missing < <(missing_packages "$@")
    if ((${#missing[@]} == 0)); then
        return 0
    fi
    echo "missing: ${missing[*]}"
    if [[ -z $install || $EUID -ne 0 ]]; then
        echo "install them with: apt-get install --no-install-recommends ${missing[*]}"
        return 1
    fi
    if [[ ! -e /usr/sbin/policy-rc.d ]]; then
        policy=/usr/sbin/policy-rc.d
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get -o Acquire::Retries=3 update &&
        apt-get -o Acquire::Retries=3 install -y --no-install-recommends "${missing[@]}"
}

# build FOLDER MESON-OPTION... [-- TARGET...]: builds, and sets the folder up anew if its options have changed.
build() {
    local folder=$1 options=()
    shift
    while (($#)) && [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    if [[ "$(cat "$folder/.options" 2>&1)" != "${options[*]}" ]]; then
        rm -rf "$folder"
        meson setup "$folder" --prefix=/usr -Dtests=enabled -Dwerror=true "${options[@]}" || return 1
        echo "${options[*]}" >"$folder/.options"
    fi
    ninja -C "$folder" "${@:2}"
}

# Criterion binds /tmp/criterion_PID.sock. A killed test leaves its socket behind, and a later test with the same
# process number cannot start.
sweep_criterion() {
    local socket pid
    for socket in /tmp/criterion_*.sock; do
        pid=${socket##*_}
        [[ -d /proc/${pid%.sock} ]] || rm -f "$socket"
    done
}

# run_suites NAME FOLDER COMMAND...: COMMAND is `meson test` of FOLDER, possibly below other programs, and NAME the
# base name of its logs. As many programs run at once as there are processors. Only from its level 1 on does Criterion
# say why a test was skipped.
run_suites() {
    local name=$1 log=$2/meson-logs/$1.json status
    shift 2
    rm -f "$log"
    sweep_criterion
    begin "$name"
    CRITERION_VERBOSITY_LEVEL=1 tests/house/nothing_left.py -- "$@" --logbase "$name" --no-rebuild \
        ${long:+--timeout-multiplier $((2 * long + 2))} >"$output/suites" 2>&1
    status=$?
    add_results "$log" "$status" "$@"
}

# run_pytest NAME COMMAND...: the same for a pytest that meson does not run. Its last word is a folder.
run_pytest() {
    local name=$1 log=$output/$1.json status
    shift
    begin "$name"
    tests/house/nothing_left.py -- "$@" >"$output/suites" 2>&1
    status=$?
    /usr/bin/python3 -c '
import json, os, sys
print(json.dumps({"name": sys.argv[1], "result": sys.argv[2], "stdout": sys.stdin.read(), "command": sys.argv[3:],
                  "env": dict(os.environ)}))' "$name" "$( ((status == 0)) && echo OK || echo FAIL)" "$@" \
        <"$output/suites" >"$log"
    add_results "$log" "$status"
}

# add_results LOG STATUS [COMMAND...]: adds the results of a run. $output/suites holds its output, and COMMAND ends in
# `meson test`.
add_results() {
    local log=$1 status=$2 wrapper=()
    shift 2
    while (($#)) && [[ $1 != meson ]]; do
        wrapper+=("$1")
        shift
    done
    if grep '^left behind:' "$output/suites" >"$output/left"; then
        status=0 # it only repeats this; the log has all other failures
    fi
    tests/ci/results.py add "$output/results" "$part" "$log" "$status" ${flaky_passes:+--flaky-passes} -- "${wrapper[@]}" ||
        result results failed 0 "the results could not be read"
    [[ -e $log ]] || tail -n 20 "$output/suites" | sed 's/^/    /'
    if [[ -s $output/left ]]; then
        result nothing-left failed 0
        sed 's/^/    /' "$output/left"
    fi
}
