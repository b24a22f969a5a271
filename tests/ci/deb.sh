# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# deb: Debian's packages, from the last commit, as dpkg-buildpackage makes them (without the tests, which
# the other parts run), installed, used and purged. Sourced by tests/run.sh.

make_packages() {
    local tree=$1/pchrun
    mkdir "$tree" && git archive HEAD | tar -xf - -C "$tree" &&
        (cd "$tree" && DEB_BUILD_OPTIONS="nocheck noautodbgsym parallel=$(nproc)" dpkg-buildpackage -b -us -uc)
}

# One version: that of meson.build, and of the packages.
packages_have_version() {
    local wanted have
    wanted=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build)
    have=$(dpkg-parsechangelog --show-field Version)
    if [[ $wanted != "$have" ]]; then
        echo "meson.build says version $wanted, debian/changelog $have"
        return 1
    fi
}

part_deb() {
    if [[ ! -e .git ]]; then
        skip deb "not a clone: what a package is made of is taken from git"
        return
    fi
    local place=$output/deb
    mkdir "$place"
    check deb-version packages_have_version
    check deb make_packages "$place" || return
    # It brings a hundred packages along, so it is not installed for this.
    if command -v lintian >/dev/null; then
        check lintian lintian --allow-root --info --pedantic --fail-on info,pedantic,warning,error \
            "$place"/*.changes
    fi
    if ((EUID != 0)); then
        skip deb-use "needs root: dpkg installs the packages"
        return
    fi
    check deb-use tests/house/packages.sh "$place"/*.deb
}
