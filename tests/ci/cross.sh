# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# cross: builds pchrun for aarch64, and runs under an emulator the tests that work there.
# contrib/python/sysroot.sh unpacks the target's libraries into build-sysroot. Sourced by tests/run.sh.
#
# Criterion cannot run under the emulator: it starts itself anew with memory at fixed addresses. The
# simulator can, and so can pchrun with a process that attaches.

cross_packages=(libc6-dev libevent-dev libjansson-dev libncurses-dev libssl-dev libcurl4-openssl-dev libcriterion-dev)
sysroot=$PWD/build-sysroot

make_sysroot() {
    contrib/python/sysroot.sh "$sysroot" bookworm arm64 "${cross_packages[@]}" --with-dependencies
}

build_aarch64() {
    # A second file holds the place of this tree, because the cross file is the same for every tree.
    printf "[constants]\nsysroot = '%s'\n" "$sysroot" >build-sysroot/constants.ini &&
        build build-aarch64 -Dbuildtype=release -Doptimization=2 \
            --cross-file build-sysroot/constants.ini --cross-file tests/ci/aarch64.ini
}

emulated() {
    qemu-aarch64-static -L "$sysroot" "$@"
}

# The simulator checks every promise on aarch64's atomics and alignment.
aarch64_simulator() {
    emulated build-aarch64/tests/sim/pchrun-sim --seeds 5000
}

# Two whole runs: a command's exit code is passed on; a process attaches, trains and prints its steps.
aarch64_runs() {
    local status=0 said
    emulated build-aarch64/src/pchrun -- sh -c 'exit 7' || status=$?
    if ((status != 7)); then
        echo "the exit status is $status, not 7"
        return 1
    fi
    said=$(printf 'open\nstep 1\nstep 2\ndone\nclose\n' | timeout 300 \
        qemu-aarch64-static -L "$sysroot" build-aarch64/src/pchrun -- \
        qemu-aarch64-static -L "$sysroot" build-aarch64/tests/helpers/pchclient-static) || return 1
    echo "$said"
    [[ $said == 'open supervised=1 '*$'\nstep 1 continue\nstep 2 continue\ndone\nclose '* ]]
}

part_aarch64() {
    if [[ -z $install && ! -e $sysroot/.packages ]]; then
        skip aarch64 "nothing may be installed or downloaded (--no-install)"
        return
    fi
    check sysroot make_sysroot && check build-aarch64 build_aarch64 || return
    run_suites aarch64-symbols build-aarch64 meson test -C build-aarch64 --suite symbols
    check aarch64-sim aarch64_simulator
    check aarch64-runs aarch64_runs
}
