# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# deb: builds Debian's packages from the last commit with dpkg-buildpackage, then installs, uses and purges
# them. The build skips the tests, because other parts run them. Sourced by tests/run.sh.

make_packages() {
    local tree=$1/pchrun
    mkdir "$tree" && git archive HEAD | tar -xf - -C "$tree" &&
        (cd "$tree" && DEB_BUILD_OPTIONS="nocheck noautodbgsym parallel=$(nproc)" dpkg-buildpackage -b -us -uc)
}

# meson.build and the packages have the same version.
packages_have_version() {
    local wanted have
    wanted=$(sed -n "s/^  version: '\([^']*\)'.*/\1/p" meson.build)
    have=$(dpkg-parsechangelog --show-field Version)
    if [[ $wanted != "$have" ]]; then
        echo "meson.build says version $wanted, debian/changelog $have"
        return 1
    fi
}

# No page of the package has a link to a file that the package lacks.
pages_lead() {
    dpkg-deb -x "$1"/pchrun_*.deb "$1/root" && tests/house/documents.py --pages "$1/root/usr/share/doc/pchrun"
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
    check deb-pages pages_lead "$place"
    # lintian depends on a hundred packages, so this script does not install it.
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
