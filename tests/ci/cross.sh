# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# cross: builds pchrun for aarch64, and runs under an emulator the tests that work there.
# apt downloads the target's libraries from Debian with a state of its own; dpkg unpacks them into
# build-sysroot. Nothing is installed. Sourced by tests/run.sh.
#
# Criterion cannot run under the emulator: it starts itself anew with memory at fixed addresses. The
# simulator can, and so can pchrun with a process that attaches.

cross_packages=(libc6-dev libevent-dev libjansson-dev libssl-dev libcurl4-openssl-dev libcriterion-dev)
sysroot=$PWD/build-sysroot

# apt for arm64 alone. It uses the machine's sources and nothing else of the machine's state.
cross_apt() {
    local state=$sysroot/.apt
    mkdir -p "$state/lists/partial" "$state/archives/partial" && touch "$state/status" &&
        apt-get -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State="$state" \
            -o Dir::State::status="$state/status" -o Dir::Cache="$state" -o APT::Sandbox::User= \
            -o Acquire::Retries=3 "$@"
}

# .packages is written last: a sysroot without it is incomplete.
make_sysroot() {
    if [[ "$(cat "$sysroot/.packages" 2>&1)" == "${cross_packages[*]}" ]]; then
        return 0
    fi
    rm -rf "$sysroot"
    # The machine's source of Debian's packages. Its other sources may not have this architecture.
    local debian
    debian=$(apt-cache policy libc6 | awk '$3 == "bookworm/main" { print $2; exit }')
    if [[ -z $debian ]]; then
        echo "apt knows no source of Debian 12 (apt-cache policy libc6)"
        return 1
    fi
    mkdir -p "$sysroot/.apt" && cat >"$sysroot/.apt/sources.list" <<END || return 1
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $debian bookworm main
END
    local only=(-o Dir::Etc::sourcelist="$sysroot/.apt/sources.list" -o Dir::Etc::sourceparts=/none)
    cross_apt "${only[@]}" update &&
        cross_apt "${only[@]}" install -y --no-install-recommends --download-only \
            "${cross_packages[@]}" || return 1
    local archive
    for archive in "$sysroot"/.apt/archives/*.deb; do
        dpkg -x "$archive" "$sysroot" || return 1
    done
    rm -rf "$sysroot/.apt"
    echo "${cross_packages[*]}" >"$sysroot/.packages"
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
