# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# dist: unpacks the release (meson dist of the last commit), builds it and tests it, as an ordinary user
# with an empty home. This also shows that only the tests that say so need root. Sourced by tests/run.sh.

# A user ID that owns nothing here. It needs no name and no entry in passwd.
stranger=64999

make_dist() {
    # --allow-dirty: a developer's tree may hold uncommitted changes. The release holds the last commit.
    meson dist -C build-opt --no-tests --allow-dirty --formats gztar &&
        tar -xzf build-opt/meson-dist/pchrun-*.tar.gz --strip-components=1 -C "$1"
}

build_dist() {
    "${as_stranger[@]}" meson setup build -Dtests=enabled -Dwerror=true &&
        "${as_stranger[@]}" ninja -C build
}

part_dist() {
    if [[ ! -e .git ]]; then
        skip dist "not a clone: what a release holds is taken from git"
        return
    fi
    check build-opt build_opt || return
    home=$(mktemp -d /tmp/d.XXXXXX) # short, because the paths of sockets begin with it
    local as_stranger=(env -i -C "$home/pchrun" PATH="$PATH" LC_ALL="$LC_ALL" HOME="$home"
        TMPDIR="$home")
    # An ordinary user needs no setpriv.
    ((EUID != 0)) || as_stranger+=(setpriv --reuid="$stranger" --regid="$stranger" --clear-groups)
    mkdir "$home/pchrun"
    check dist make_dist "$home/pchrun" || return
    ((EUID != 0)) || chown -R "$stranger:$stranger" "$home"
    check build-dist build_dist || return
    run_suites tests-dist "$home/pchrun/build" "${as_stranger[@]}" \
        meson test -C build --suite=system --suite=example --no-suite=timing
}
