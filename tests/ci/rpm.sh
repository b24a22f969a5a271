# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# rpm: builds the rpm packages from the last commit with Debian's rpmbuild, and runs the programs in them. rpm's own
# database is empty here, so it does not look for what the build requires. Sourced by tests/run.sh.

make_rpms() {
    local top=$1 version
    version=$(sed -n 's/^Version: *//p' contrib/packages/pchrun.spec)
    mkdir -p "$top/SOURCES" &&
        git archive --prefix="pchrun-$version/" -o "$top/SOURCES/pchrun-$version.tar.gz" HEAD &&
        rpmbuild -bb --nodeps --define "_topdir $top" --define "debug_package %{nil}" contrib/packages/pchrun.spec
}

rpms_work() {
    local top=$1 root=$1/root file
    mkdir "$root"
    for file in "$top"/RPMS/*/*.rpm; do
        (cd "$root" && rpm2cpio "$file" | cpio -id --quiet) || return 1
    done
    (($(find "$top" -name '*.rpm' | wc -l) == 3)) && "$root/usr/bin/pchrun" -- true &&
        tests/house/documents.py --pages "$root/usr/share/doc/pchrun" &&
        [[ $(rpm -qp --recommends "$top"/RPMS/*/pchrun-[0-9]*.rpm) == *openssl-libs* ]]
}

part_rpm() {
    if [[ ! -e .git ]]; then
        skip rpm "not a clone: what a package is made of is taken from git"
        return
    fi
    check rpm make_rpms "$output/rpm" && check rpm-use rpms_work "$output/rpm"
}
