#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run: the tests of pchrun, on a fresh Debian 12 as on a developer's machine.
#
# Without options it is the gate that each change passes: ten minutes. With --full it is everything, in parts that
# can be named. It installs missing packages, builds, runs the suites of meson, and checks what no suite can: that no
# sanitizer has written a report, and that it would have; that no process is left; that what is installed is
# complete. Long parts are in tests/ci. It goes on after a failure. It ends with a table and the sum; its exit status
# is 0 only if nothing failed. Nothing runs beside anything else, since tests look at the clock. It writes into build-*
# alone.

set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
export PATH="/usr/bin:/bin:/usr/sbin:/sbin:$PATH" # the distribution's tools before others
export LC_ALL=C.UTF-8

packages=(
    gcc libc6-dev meson ninja-build pkg-config libevent-dev libjansson-dev libncurses-dev libssl-dev
    libcurl4-openssl-dev                                                                              # to build
    libcriterion-dev python3 python3-dev python3-pytest python3-pyte strace util-linux openssl        # to test
    bash-completion zsh mandoc python3-yaml python3-jsonschema                                        # house
)
# Packages that single parts need besides. Of the suites, the gate skips the tests that need these.
declare -A part_packages=(
    [suites]="fish openmpi-bin prometheus systemd"
    [install]="g++"
    [model]="spin"
    [plain]="g++"
    [browser]="chromium chromium-driver python3-selenium"
    [slurm]="slurmctld slurmd slurm-client munge iproute2"
    [chaos]="iproute2 nftables"
    [clang]="clang-14"
    [fuzz]="clang-14 libclang-rt-14-dev"
    [memcheck]="valgrind"
    [analysis]="clang-format clang-tidy-14 cppcheck python3-venv python3-pip"
    [aarch64]="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static"
    [dist]="git ca-certificates"
    [deb]="git build-essential debhelper dh-python dpkg-dev"
    [rpm]="git rpm cpio"
    [wheels]="python3-venv python3-pip git debootstrap unzip qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
    [wheel]="python3-venv python3-pip git unzip"
    [frameworks]="python3-venv python3-pip python3-pytest-xdist openmpi-bin iproute2 nftables"
)

# The parts of --full in their order: name, minutes on two processors, what it is. A part NAME is the function part_NAME,
# below or in tests/ci; without one it is the suite NAME in the build that users get.
parts=(
    "suites 12 all suites below but timing, with sanitizers"
    "timing 7 tests that look at the clock, with sanitizers and without, one at a time"
    "sim 5 the simulator: schedules, kept seeds, a mutant for each rule"
    "model 3 the agreement, the lease, the replacement of a node and the spares in spin"
    "plain 2 what a sanitizer's runtime does not allow"
    "browser 4 the page of pchrun-web in a real Chromium"
    "slurm 3 a real Slurm of several nodes"
    "chaos 4 whole jobs in network namespaces, under faults"
    "clang 2 a second compiler: unit tests"
    "old-kernel 5 as on Linux 4.18: tests near the kernel"
    "memcheck 3 valgrind: pchrun, libpch, the simulator"
    "analysis 4 clang-format, clang-tidy, cppcheck, mypy"
    "fuzz 2 libFuzzer on all input from outside"
    "aarch64 4 cross-built, under an emulator"
    "dist 5 the release, built and tested by a stranger"
    "deb 2 Debian's packages: built, installed, used, purged"
    "rpm 1 rpm packages"
    "install 1 all is installed, the documents are true"
    "quickstart 1 contrib/quickstart.sh"
    "wheels 6 wheels for two processors, tried on other Debians"
    "wheel 4 the wheel as pip installs it"
    "frameworks 20 PyTorch, TensorFlow, JAX … from PyPI: gigabytes"
)
gate=(suites sim install quickstart)
suites=(unit behave example house man python)
part_names() {
    local line
    for line in "${parts[@]}"; do
        echo "${line%% *}"
    done
}

usage() {
    cat <<END
usage: tests/run.sh [--full] [--only NAME]... [--long [MINUTES]] [--no-install]

Builds pchrun and tests it. Ends with a table; the last line is the sum of all.

Without options it is the gate that each change passes before it is pushed: ten minutes on two processors, and what
the installation of packages takes. It is this much of --full: ${gate[*]}, without the tests of
the suite "full", and with half of the simulator's mutants.

  --full            all parts: before a release
  --only NAME       this part or suite alone, whole; may be given more than once
  --long [MINUTES]  tests that can go on for any time (simulator, models, fuzzers, chaos, slow ranks) take MINUTES
                    each (default 10; they read TEST_LONG_MINUTES). Alone it is --full --long
  --no-install      install nothing; fail if a package is missing
  --help            this text

The parts, with their minutes:
$(printf '%s\n' "${parts[@]}" | sed -E 's/^(\S+) (\S+) (.*)/\1\t\2\t\3/' | awk -F'\t' '{ printf "  %-12s %3d  %s\n", $1, $2, $3 }')
The suites of the part "suites": ${suites[*]}
One test alone: tests/one.py --help

As root on Debian 12 it installs with apt-get, if missing:
$(fold -s -w 90 <<<"${packages[*]}" | sed 's/^/  /')
and what a part needs besides.
END
}

long= install=yes full= only=()
while (($#)); do
    case $1 in
    --full) full=yes ;;
    --long)
        long=10
        if [[ ${2-} =~ ^[1-9][0-9]*$ ]]; then
            long=$2
            shift
        fi
        ;;
    --no-install) install= ;;
    --only)
        if [[ " $(part_names | xargs) ${suites[*]} " != *" ${2-} "* || -z ${2-} ]]; then
            echo "tests/run.sh: --only needs the name of a part or suite; see --help" >&2
            exit 2
        fi
        only+=("$2")
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
# shellcheck source=tests/ci/lib.sh
. tests/ci/lib.sh # which the others use
for file in tests/ci/*.sh; do
    # shellcheck source=/dev/null # read by themselves
    [[ $file == */lib.sh ]] || . "$file"
done
if [[ -n $long ]]; then
    export TEST_LONG_MINUTES=$long
    ((${#only[@]})) || full=yes
fi
flaky_passes= # in the gate: see tests/ci/results.py
[[ -n $full || ${#only[@]} -gt 0 ]] || flaky_passes=yes

# build_opt [TARGET...]
build_opt() {
    build build-opt -Dbuildtype=release -Doptimization=2 -- "$@"
}

# A second compiler warns of other things, and makes other code of the same atomics.
build_clang() {
    CC=clang-14 build build-clang
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

# Each promise of the tests rests on this: a suite that has gone missing fails nothing beside others.
suites_are_there() {
    meson introspect --tests build-asan | python3 -c '
import json, sys
there = {suite.split(":")[-1] for test in json.load(sys.stdin) for suite in test["suite"]}
sys.exit("; ".join(f"suite {s} has no test" for s in sys.argv[1:] if s not in there) or 0)' "${suites[@]}"
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
    DESTDIR=$root meson install -C build-asan --no-rebuild --quiet || return 1
    for path in lib/python3/dist-packages/pch/{__init__.py,_pch.pyi,_pch.abi3.so} bin/pchrun bin/pchrun-{watch,web} bin/pchctl lib/libpch.so lib/libpch.a lib/pkgconfig/pch.pc include/pch.h \
        share/man/man1/pchrun.1 share/man/man3/libpch.3 share/man/man5/pchrun.json.5 \
        share/man/man1/pchrun-{watch,web}.1 share/man/man1/pchctl.1 share/man/man7/pchrun-{notices,protocol}.7 \
        share/bash-completion/completions/{pchrun,pchctl,pchrun-watch,pchrun-web} \
        share/zsh/site-functions/_{pchrun,pchctl,pchrun-watch,pchrun-web} \
        share/fish/vendor_completions.d/{pchrun,pchctl,pchrun-watch,pchrun-web}.fish; do
        if [[ ! -s $root/usr/$path ]]; then
            echo "not installed: $path"
            missing=1
        fi
    done
    return $missing
}

# --- the parts ------------------------------------------------------------------------------------

# The options that build fastest: a third of the time.
build_asan() {
    build build-asan -Db_sanitize=address,undefined -Db_lundef=false \
        -Doptimization=1 -Dc_args='-g1 -fno-omit-frame-pointer -fsanitize-undefined-trap-on-error'
}

# asan_suites MESON-ARGUMENT...: suites under ASan and UBSan.
asan_suites() {
    check build-asan build_asan || return
    local logs=$PWD/build-asan/sanitizer-logs
    rm -rf "$logs" && mkdir "$logs"
    sanitizer_options "$logs"
    run_suites "tests-$part" build-asan meson test -C build-asan "$@"
    check sanitizers sanitizer_logs_empty "$logs"
    check leak-canary canary leak LeakSanitizer
    check overflow-canary canary overflow 'AddressSanitizer: ILL'
    unset ASAN_OPTIONS
}

# opt_suites MESON-ARGUMENT...: suites of the build that users get.
opt_suites() {
    check build-opt build_opt || return
    run_suites "tests-$part" build-opt meson test -C build-opt "${left_out[@]}" "$@"
}

part_suites() {
    asan_suites "${left_out[@]}" --no-suite=timing "${suites[@]/#/--suite=}" && check suites suites_are_there
}

# With sanitizers, and in the build that users get, where costs are measured, too.
part_timing() {
    asan_suites --suite=timing
    opt_suites --suite=timing
}

# The seeds of the new schedules, and which half of the mutants the gate runs, follow from the commit: others for each
# commit, the same ones whenever it is tested.
part_sim() {
    local from
    check simulator build_sim || return
    run_suites tests-sim build-opt meson test -C build-opt "${left_out[@]}" --suite=sim
    from=$((16#$( (git rev-parse HEAD 2>/dev/null || date +%s) | head -c 10)))
    check "schedules-$from" schedules_hold "$from" 20000
    [[ -z $flaky_passes ]] || check "mutants-half-$((from % 2))" mutants_are_caught --half "$((from % 2))"
}

mutants_are_caught() {
    tests/sim/mutants.py --build build-opt/tests/sim/mutants "$@"
}

build_sim() {
    build_opt tests/sim/pchrun-sim
}

# schedules_hold FROM COUNT: one half on each of two processors.
schedules_hold() {
    local half=$(($2 / 2)) status=0
    build-opt/tests/sim/pchrun-sim --quiet --from "$1" --seeds "$half" &
    build-opt/tests/sim/pchrun-sim --quiet --from "$(($1 + half))" --seeds "$half" || status=1
    wait $! || status=1
    return $status
}

# No system call younger than Linux 4.18: tests/helpers/oldkernel.c. The tests of system calls, root and paths.
part_old-kernel() {
    check build-opt build_opt || return
    run_suites tests-old-kernel build-opt build-opt/tests/helpers/oldkernel \
        meson test -C build-opt --suite=system --no-suite=timing
}

# One check for each fuzzer: a few seconds, or the minutes of --long.
part_fuzz() {
    local name
    for name in $(tests/fuzz/run.py --list); do
        check "fuzz-$name" tests/fuzz/run.py --seconds "$((long ? 60 * long : 5))" "$name"
    done
}

part_clang() {
    check build-clang build_clang || return
    run_suites tests-clang build-clang meson test -C build-clang --suite=unit --suite=symbols
}

part_install() {
    check build-asan build_asan || return
    check install is_installed "$output/root"
    check manuals manuals_are_clean "$output/root"
    check documents tests/house/documents.py "$output/root/usr"
}

part_quickstart() {
    check quickstart contrib/quickstart.sh
}

# --- the run --------------------------------------------------------------------------------------

# Tests that this run leaves out. "long": tests that go on for the minutes of --long. "full": what the gate leaves out.
left_out=()
[[ -n $long ]] || left_out+=(--no-suite=long)
if [[ -n $full ]]; then
    mapfile -t run < <(part_names)
    not_run=
elif ((${#only[@]})); then
    run=("${only[@]}")
    not_run="everything else"
else
    run=("${gate[@]}")
    left_out+=(--no-suite=full)
    not_run="the tests that meson lists in the suite full, and the parts $(part_names | grep -vxF "$(printf '%s\n' "${gate[@]}")" | xargs): see tests/run.sh --help"
fi
if [[ -z $flaky_passes ]]; then
    for part in "${run[@]}"; do
        read -ra needed <<<"${part_packages[$part]-}"
        packages+=("${needed[@]}")
    done
    part=packages
fi
check packages install_packages "${packages[@]}" || finish
for part in "${run[@]}"; do
    if [[ " ${suites[*]} " == *" $part "* ]]; then
        asan_suites "${left_out[@]}" --no-suite=timing --suite="$part"
    elif [[ $(type -t "part_$part") ]]; then
        "part_$part"
    else
        opt_suites --suite="$part"
    fi
done
finish "$not_run"
