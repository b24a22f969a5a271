# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# lib: what the parts of tests/run.sh share: counted checks, packages, builds, suites of meson.
# Sourced, never run. It owns the three counters and the folder $output.

passed=0 failed=0 skipped=0
output=$(mktemp -d)
policy=
home=       # of the stranger of dist.sh
beside_pid= # of begin_beside
clean_up() {
    [[ -z $beside_pid ]] || kill -- "-$beside_pid" 2>/dev/null
    rm -rf "$output" ${home:+"$home"}
    [[ -z $policy ]] || rm -f "$policy"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Prints the sum, which is always the last line.
finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    exit $((failed > 0))
}

begin() {
    printf '[%4d s] %-18s ' "$SECONDS" "$1"
}

# check NAME COMMAND...: one check, counted as one test. Shows the output if the command fails.
check() {
    local name=$1
    shift
    begin "$name"
    if "$@" >"$output/check" 2>&1; then
        echo ok
        ((++passed))
    else
        echo FAILED
        ((++failed))
        tail -n 60 "$output/check" | sed 's/^/    /'
        return 1
    fi
}

skip() {
    begin "$1"
    echo "skipped: $2"
    ((++skipped))
}

missing_packages() {
    local name
    for name in "${packages[@]}"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$name" 2>&1) == installed ]] || echo "$name"
    done
}

# Installs without starting any service: policy-rc.d forbids that, unless the machine has a rule of its own.
install_packages() {
    local missing
    mapfile -t missing < <(missing_packages)
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

# build FOLDER MESON-OPTION...: builds, and sets the folder up anew if its options have changed. The lock keeps
# two parts that run at the same time from building in one folder.
build() {
    local folder=$1
    shift
    (
        flock 9
        if [[ "$(cat "$folder/.options" 2>&1)" != "$*" ]]; then
            rm -rf "$folder"
            meson setup "$folder" --prefix=/usr --libdir=lib -Dtests=enabled -Dwerror=true "$@" || exit 1
            echo "$*" >"$folder/.options"
        fi
        ninja -C "$folder"
    ) 9>"$folder.lock"
}

# begin_beside PART...: runs the parts one after another in the background, at a lower priority: tests wait half
# of the time. join_beside shows their output and adds their counts.
begin_beside() {
    mkdir "$output/beside"
    set -m # in a group of its own, which clean_up() ends
    (
        trap - EXIT
        renice -n 10 -p "$BASHPID" >"$output/beside/renice"
        output=$output/beside passed=0 failed=0 skipped=0
        for part in "$@"; do
            "part_$part"
        done
        echo "$passed $failed $skipped" >"$output/sum"
    ) >"$output/beside.log" 2>&1 </dev/null &
    beside_pid=$!
    set +m
}

join_beside() {
    local p=0 f=1 s=0 # it is a failure if there is no sum
    wait "$beside_pid"
    beside_pid=
    cat "$output/beside.log"
    [[ ! -s $output/beside/sum ]] || read -r p f s <"$output/beside/sum"
    ((passed += p, failed += f, skipped += s))
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

# run_suites NAME FOLDER COMMAND...: COMMAND is `meson test` of FOLDER, possibly in a wrapper, and NAME the base
# name of its logs. Counts every case; a process left behind counts as one more failure.
run_suites() {
    local name=$1 log=$2/meson-logs/$1.json status
    shift 2
    rm -f "$log"
    sweep_criterion
    begin "$name"
    tests/house/nothing_left.py -- "$@" --logbase "$name" --no-rebuild \
        ${long:+--timeout-multiplier $((2 * long + 2))} >"$output/suites" 2>&1
    status=$?
    tally "$log" "$status"
}

# run_pytest NAME COMMAND...: the same for a pytest that meson does not run.
run_pytest() {
    local name=$1 log=$output/$1.json status
    shift
    begin "$name"
    tests/house/nothing_left.py -- "$@" >"$output/suites" 2>&1
    status=$?
    python3 -c 'import json, sys; print(json.dumps({"name": sys.argv[1], "result": sys.argv[2], "stdout": sys.stdin.read()}))' \
        "$name" "$( ((status == 0)) && echo OK || echo FAIL)" <"$output/suites" >"$log"
    tally "$log" "$status"
}

# tally LOG STATUS: adds the counts of a run's log and prints them. $output/suites holds the run's output.
tally() {
    local log=$1 status=$2 p f s left=0
    if grep '^left behind:' "$output/suites" >"$output/left"; then
        left=1 status=0 # the status only repeats this; the log has all other failures
    fi
    read -r p f s < <(tests/house/count.py "$log" "$status" 2>"$output/failures")
    ((f += left))
    if [[ ! -e $log ]]; then
        tail -n 20 "$output/suites" >>"$output/failures"
    fi
    echo "$p passed, $f failed, $s skipped"
    cat "$output/failures" "$output/left" | sed 's/^/    /'
    ((passed += p, failed += f, skipped += s))
}
