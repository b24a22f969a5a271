#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run: every test of pchrun, on a fresh Debian 12 as on a developer's machine.
#
# It installs what is missing, builds (with sanitizers; optimised; by clang; for aarch64; from the
# release, as a stranger; as Debian's packages), runs the suites of meson and the fuzzers, some of them
# under valgrind and on what looks like an old kernel, and checks what no suite can: that no sanitizer has
# written a report, and that it would have; that no process is left; that the analysers have nothing to
# say; that what is installed is complete; that the packages work and leave nothing; that the documents
# are true. Long parts are in tests/ci. It goes on after a failure; its last line is the sum, its exit
# status 0 only if nothing failed. It writes into build-* alone.

set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
export PATH="/usr/bin:/bin:/usr/sbin:/sbin:$PATH" # the distribution's tools before others
export LC_ALL=C.UTF-8

packages=(
    gcc libc6-dev meson ninja-build pkg-config                             # to build
    libevent-dev libjansson-dev libssl-dev libcurl4-openssl-dev
    libcriterion-dev python3 python3-pytest strace util-linux openssl      # unit, behave, house
    g++                                                                    # plain: C++
    bash-completion zsh fish                                               # house: completions
    openmpi-bin                                                            # behave: before and below mpirun
    iproute2 nftables                                                      # chaos
    slurmctld slurmd slurm-client munge                                    # slurm
    python3-yaml python3-jsonschema systemd                                # house: contrib
    clang-14 libclang-rt-14-dev mandoc spin                                # fuzz, house, model
    clang-format clang-tidy-14 cppcheck                                    # analysis
    valgrind                                                               # memcheck
    gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static           # aarch64
    git ca-certificates                                                    # dist
    python3-dev python3-venv python3-pip                                   # python, wheel
    python3-pytest-xdist                                                   # frameworks
    build-essential debhelper dh-python dpkg-dev                           # deb
    rpm cpio                                                               # rpm
    debootstrap unzip                                                      # wheels
)
# Suites that run optimised; all others run with sanitizers. "plain" has what a sanitizer's runtime does
# not allow. "long" runs with --long only.
opt_suites=(sim model chaos slurm plain)
# The parts beside the suites, in this order: functions part_… below and in tests/ci. The calm parts run in the
# background: they only read, build and compute, and no time limit of theirs is short. The frameworks' gigabytes
# come last: the suites compute then, and wait for no disk.
calm_parts=(fuzz aarch64 analysis wheels frameworks-made)
parts=(clang old-kernel memcheck dist deb rpm install wheel frameworks)

usage() {
    cat <<END
usage: tests/run.sh [--long [MINUTES]] [--no-install] [--only NAME]

Builds pchrun and runs every test. The last line is the sum of all.

  --long [MINUTES]  also the suite "long"; tests that can go on for any time (simulator, fuzzers)
                    take MINUTES each (default 10; they read TEST_LONG_MINUTES)
  --no-install      install nothing; fail if a package is missing
  --only NAME       this alone; a suite: unit, behave, example, house, sim, model, ...
                    or one of the other parts: ${parts[*]}
                    ${calm_parts[*]}
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
            echo "tests/run.sh: --only needs the name of a suite or part" >&2
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
# shellcheck source=tests/ci/lib.sh
. tests/ci/lib.sh # which the others use
for file in tests/ci/*.sh; do
    # shellcheck source=/dev/null # read by themselves
    [[ $file == */lib.sh ]] || . "$file"
done
if [[ -n $long ]]; then
    export TEST_LONG_MINUTES=$long
fi

build_opt() {
    build build-opt -Dbuildtype=release -Doptimization=2
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

# Each promise of the tests rests on this: a suite that has gone missing fails nothing.
suites_are_there() {
    (meson introspect --tests build-asan; meson introspect --tests build-opt) | python3 -c '
import json, sys
there = {suite.split(":")[-1] for line in sys.stdin for test in json.loads(line) for suite in test["suite"]}
sys.exit("; ".join(f"suite {s} has no test" for s in sys.argv[1:] if s not in there) or 0)' \
        unit behave example house python "${opt_suites[@]}"
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
    for path in lib/python3/dist-packages/pch/{__init__.py,_pch.pyi,_pch.abi3.so} bin/pchrun bin/pchrun-watch bin/pchctl lib/libpch.so lib/libpch.a lib/pkgconfig/pch.pc include/pch.h \
        share/man/man1/pchrun.1 share/man/man3/libpch.3 share/man/man5/pchrun.json.5 \
        share/man/man1/pchrun-watch.1 share/man/man1/pchctl.1 share/man/man7/pchrun-{notices,protocol}.7 \
        share/bash-completion/completions/{pchrun,pchctl,pchrun-watch} \
        share/zsh/site-functions/_{pchrun,pchctl,pchrun-watch} \
        share/fish/vendor_completions.d/{pchrun,pchctl,pchrun-watch}.fish; do
        if [[ ! -s $root/usr/$path ]]; then
            echo "not installed: $path"
            missing=1
        fi
    done
    return $missing
}

# --- the parts ------------------------------------------------------------------------------------

# Everything under ASan and UBSan, with what meson calls SUITES ("--suite=…"). Half of the time tests wait.
part_asan() {
    check build-asan build build-asan -Db_sanitize=address,undefined -Db_lundef=false \
        -Dc_args='-fno-omit-frame-pointer -fsanitize-undefined-trap-on-error' || return
    local logs=$PWD/build-asan/sanitizer-logs
    rm -rf "$logs" && mkdir "$logs"
    sanitizer_options "$logs"
    run_suites tests-asan build-asan meson test -C build-asan --num-processes "$((2 * $(nproc)))" "$@"
    check sanitizers sanitizer_logs_empty "$logs"
    check leak-canary canary leak LeakSanitizer
    check overflow-canary canary overflow 'AddressSanitizer: ILL'
    unset ASAN_OPTIONS
}

part_opt() {
    check build-opt build_opt || return
    run_suites tests-opt build-opt meson test -C build-opt "$@"
}

# pchrun and libpch in valgrind, and the simulator.
part_memcheck() {
    check build-opt build_opt || return
    run_suites memcheck build-opt meson test -C build-opt --suite memcheck
}

# No system call younger than Linux 4.18: tests/helpers/oldkernel.c. Most tests wait most of the time.
part_old-kernel() {
    check build-opt build_opt || return
    run_suites old-kernel build-opt build-opt/tests/helpers/oldkernel \
        meson test -C build-opt --num-processes 6 --suite unit --suite behave
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
    run_suites tests-clang build-clang meson test -C build-clang --suite unit --suite symbols
}

part_install() {
    check build-opt build_opt || return
    check install is_installed "$output/root"
    check manuals manuals_are_clean "$output/root"
    check documents tests/house/documents.py "$output/root/usr"
}

check packages install_packages || finish
no_long=()
[[ -n $long ]] || no_long=(--no-suite=long)
if [[ -z $only ]]; then
    begin_beside "${calm_parts[@]}"
    part_asan "${no_long[@]}" "${opt_suites[@]/#/--no-suite=}"
    part_opt "${no_long[@]}" "${opt_suites[@]/#/--suite=}"
    check suites suites_are_there
    for part in "${parts[@]}"; do
        [[ $part != wheel ]] || join_beside # its tests, and the frameworks', use both processors
        "part_$part"
    done
elif [[ " ${parts[*]} ${calm_parts[*]} " == *" $only "* ]]; then
    "part_$only"
elif [[ " ${opt_suites[*]} " == *" $only "* ]]; then
    part_opt "${no_long[@]}" "--suite=$only"
else
    part_asan "${no_long[@]}" "--suite=$only"
fi
finish
