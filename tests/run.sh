#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run: every test of pchrun, on a fresh Debian 12 as on a developer's machine.
#
# It installs what is missing, builds (with sanitizers; optimised, for the simulator and the model;
# by clang), runs the suites of meson and the fuzzers, and checks what no suite can: that no sanitizer has written a
# report, and that it would have; that no process is left; that the sources are formatted; that what
# is installed is complete; that the documents are true. It goes on after a failure; its last line is
# the sum, its exit status 0 only if nothing failed. It writes into build-* alone.

set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
export PATH="/usr/bin:/bin:/usr/sbin:/sbin:$PATH" # the distribution's tools before others
export LC_ALL=C.UTF-8

packages=(
    gcc libc6-dev meson ninja-build pkg-config                             # to build
    libevent-dev libjansson-dev libssl-dev
    libcriterion-dev python3 python3-pytest strace util-linux openssl      # unit, behave, house
    clang-14 libclang-rt-14-dev clang-format mandoc spin                   # fuzz, house, model
)
# Suites that run optimised; all others run with sanitizers. "plain" has what a sanitizer's runtime does
# not allow. "long" runs with --long only.
opt_suites=(sim model plain)

usage() {
    cat <<END
usage: tests/run.sh [--long [MINUTES]] [--no-install] [--only SUITE]

Builds pchrun and runs every test. The last line is the sum of all.

  --long [MINUTES]  also the suite "long"; tests that can go on for any time (simulator, fuzzers)
                    take MINUTES each (default 10; they read TEST_LONG_MINUTES)
  --no-install      install nothing; fail if a package is missing
  --only SUITE      this suite alone: unit, behave, example, house, sim, model, fuzz, ...
  --help            this text

As root on Debian 12 it installs with apt-get, if missing:
$(fold -s -w 90 <<<"${packages[*]}" | sed 's/^/  /')
END
}

long= install=yes only=
while (($#)); do
    case $1 in
    --long)
        long=10
        if [[ ${2-} =~ ^[1-9][0-9]*$ ]]; then
            long=$2
            shift
        fi
        ;;
    --no-install) install= ;;
    --only)
        only=${2-}
        if [[ -z $only ]]; then
            echo "tests/run.sh: --only needs the name of a suite" >&2
            exit 2
        fi
        shift
        ;;
    --help | -h)
        usage
        exit
        ;;
    *)
        echo "tests/run.sh: unknown argument '$1'; see --help" >&2
        exit 2
        ;;
    esac
    shift
done
if [[ -n $long ]]; then
    export TEST_LONG_MINUTES=$long
fi

passed=0 failed=0 skipped=0
output=$(mktemp -d)
policy=
clean_up() {
    rm -rf "$output"
    [[ -z $policy ]] || rm -f "$policy"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The last line, whatever happened before.
finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    exit $((failed > 0))
}

begin() {
    printf '[%4d s] %-16s ' "$SECONDS" "$1"
}

# check NAME COMMAND...: one check, counted as one test; shows the output of a failed one.
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

# Installs without starting any service: policy-rc.d forbids it where the machine has no such rule.
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

# build FOLDER MESON-OPTION...: made anew when the options differ from those it was made with.
build() {
    local folder=$1
    shift
    if [[ "$(cat "$folder/.options" 2>&1)" != "$*" ]]; then
        rm -rf "$folder"
        meson setup "$folder" --prefix=/usr --libdir=lib -Dtests=enabled -Dwerror=true "$@" || return 1
        echo "$*" >"$folder/.options"
    fi
    ninja -C "$folder"
}

# A second compiler warns of other things.
build_clang() {
    CC=clang-14 build build-clang
}

# run_suites FOLDER MESON-TEST-OPTION...: counts every case; a process left behind is a failure more.
run_suites() {
    local folder=$1 log=$1/meson-logs/testlog.json p f s
    shift
    rm -f "$log"
    begin "${folder/build/tests}"
    tests/house/nothing_left.py -- meson test -C "$folder" --no-rebuild \
        ${long:+--timeout-multiplier $((2 * long + 2))} "$@" >"$output/suites" 2>&1
    local status=$? left=0
    if grep '^left behind:' "$output/suites" >"$output/left"; then
        left=1 status=0 # it says nothing else that the log does not
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

# A leak in a test that forks its cases does not fail the test, and who looks at how a process three
# levels down has ended? So every report goes to a file, and any file is a failure. Beside ASan, gcc's
# UBSan writes to standard error whatever its log_path: it is built to trap, and ASan reports that.
sanitizer_options() {
    export ASAN_OPTIONS="log_path=$1/report:detect_leaks=1:handle_sigill=1"
}

sanitizer_logs_empty() {
    local logs=$1
    if [[ -z $(ls "$logs") ]]; then
        return 0
    fi
    echo "reports in $logs:"
    head -n 25 "$logs"/*
    return 1
}

# canary KIND PATTERN: a test that leaks (or overflows) on purpose must be seen in the logs.
canary() {
    local kind=$1 pattern=$2 logs=$PWD/build-asan/canary-logs
    rm -rf "$logs" && mkdir "$logs"
    (
        sanitizer_options "$logs"
        build-asan/tests/house/canary --filter "canary/$kind"
    )
    if ! grep -r "$pattern" "$logs"; then
        echo "the canary's $kind was not reported: a true one would not be, either"
        return 1
    fi
}

# What every promise of the tests rests on: a suite that has gone missing fails nothing.
suites_are_there() {
    (meson introspect --tests build-asan; meson introspect --tests build-opt) | python3 -c '
import json, sys
there = {suite.split(":")[-1] for line in sys.stdin for test in json.loads(line) for suite in test["suite"]}
sys.exit("; ".join(f"suite {s} has no test" for s in sys.argv[1:] if s not in there) or 0)' \
        unit behave example house "${opt_suites[@]}"
}

format_is_kept() {
    find src include man tests contrib -name '*.[ch]' -exec clang-format --dry-run -Werror {} +
}

# One check for each fuzzer: a few seconds, or the minutes of --long.
run_fuzzers() {
    local name
    for name in $(tests/fuzz/run.py --list); do
        check "fuzz-$name" tests/fuzz/run.py --seconds "$((long ? 60 * long : 5))" "$name"
    done
}

manuals_are_clean() {
    local manuals
    mapfile -t manuals < <(find "$1" -path '*/man/man*' -type f)
    if ((${#manuals[@]} == 0)); then
        echo "no manual is installed"
        return 1
    fi
    mandoc -Tlint -W warning "${manuals[@]}"
}

is_installed() {
    local root=$1 path missing=0
    DESTDIR=$root meson install -C build-opt --no-rebuild --quiet || return 1
    for path in bin/pchrun lib/libpch.so lib/libpch.a lib/pkgconfig/pch.pc include/pch.h \
        share/man/man1/pchrun.1 share/man/man3/libpch.3 share/man/man5/pchrun.json.5 \
        share/man/man7/pchrun-protocol.7; do
        if [[ ! -s $root/usr/$path ]]; then
            echo "not installed: $path"
            missing=1
        fi
    done
    return $missing
}

check packages install_packages || finish
asan_tests=("${opt_suites[@]/#/--no-suite=}") opt_tests=("${opt_suites[@]/#/--suite=}")
if [[ -n $only && " ${opt_suites[*]} " == *" $only "* ]]; then
    asan_tests=() opt_tests=("--suite=$only")
elif [[ $only == fuzz ]]; then
    asan_tests=() opt_tests=()
elif [[ -n $only ]]; then
    asan_tests=("--suite=$only") opt_tests=()
fi
if [[ -z $long ]]; then
    asan_tests+=(${asan_tests[0]+--no-suite=long}) opt_tests+=(${opt_tests[0]+--no-suite=long})
fi

if ((${#asan_tests[@]})); then
    check build-asan build build-asan -Db_sanitize=address,undefined -Db_lundef=false \
        -Dc_args='-fno-omit-frame-pointer -fsanitize-undefined-trap-on-error' || finish
    logs=$PWD/build-asan/sanitizer-logs
    rm -rf "$logs" && mkdir "$logs"
    sanitizer_options "$logs"
    run_suites build-asan "${asan_tests[@]}"
    check sanitizers sanitizer_logs_empty "$logs"
    check leak-canary canary leak LeakSanitizer
    check overflow-canary canary overflow 'AddressSanitizer: ILL'
    unset ASAN_OPTIONS
fi
if ((${#opt_tests[@]})); then
    check build-opt build build-opt -Dbuildtype=release -Doptimization=2 || finish
    run_suites build-opt "${opt_tests[@]}"
fi
if [[ -z $only || $only == fuzz ]]; then
    run_fuzzers
fi
if [[ -z $only ]]; then
    check build-clang build_clang
    check suites suites_are_there
    check format format_is_kept
    check install is_installed "$output/root"
    check manuals manuals_are_clean "$output/root"
    check documents tests/house/documents.py "$output/root/usr"
fi
finish
