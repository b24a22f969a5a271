#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# packages: shows that Debian's packages of pchrun install, work, and leave nothing when they are purged.
#
#   packages.sh FILE.deb...
#
# It needs root. It works in an overlay over this system's root, in its own namespaces for mounts and
# processes, so that nothing outlives the script. All that dpkg writes is in the overlay's upper folder, where
# this script finds the files that a purge leaves. It prints faults on standard output; exit status 1 then.

set -euo pipefail

fail() {
    echo "packages.sh: $*"
    exit 1
}

in_root() {
    env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        chroot "$root" "$@"
}

mount_root() {
    local base=/mnt # hidden from here on, in this namespace only
    mount -t tmpfs packages "$base"
    root=$base/root upper=$base/upper
    mkdir "$root" "$upper" "$base/work"
    mount -t overlay -o "lowerdir=/,upperdir=$upper,workdir=$base/work" packages "$root" ||
        fail "no overlay over / can be mounted here"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmp "$root/tmp"
}

# exits WANTED COMMAND...
exits() {
    local wanted=$1 status=0
    shift
    in_root timeout 60 "$@" || status=$?
    ((status == wanted)) || fail "$* ended with $status, not $wanted"
}

programs_work() {
    exits 0 pchrun -- true
    exits 7 pchrun -n 2 -- sh -c 'exit 7'
    exits 0 pchrun --make-key /tmp/key
    exits 0 pchrun-watch --list
    exits 2 pchctl status # there is no job
    exits 2 pchrun-web
    exits 0 pchrun --instrument -- python3 -c 'import sitecustomize' # leaves its bytecode there
    exits 0 test -s /usr/share/man/man1/pchrun.1.gz
    exits 0 bash -c '. /usr/share/bash-completion/completions/pchrun && complete -p pchrun'
}

# Builds a program as a user does; the program attaches.
library_works() {
    cat >"$root/tmp/train.c" <<END
#include <pch.h>
int main(void)
{
    pch_t *job = pch_open(NULL);
    if (!pch_supervised(job) || pch_step(job, 1) != PCH_CONTINUE)
        return 9;
    pch_done(job);
    return 0;
}
END
    in_root sh -c 'cc -o /tmp/train /tmp/train.c $(pkg-config --cflags --libs pch) &&
        cc -static -o /tmp/train-static /tmp/train.c $(pkg-config --static --cflags --libs pch)' ||
        fail "no program can be built with libpch-dev"
    exits 9 /tmp/train
    exits 0 pchrun -- /tmp/train
    exits 0 pchrun -- /tmp/train-static
}

# Bytecode of what Python imports is removed with the package.
module_works() {
    cat >"$root/tmp/train.py" <<END
import pch
with pch.attach() as job:
    for step in job.steps(3):
        assert job.should_save is False
    assert job.rank == 0
END
    exits 0 pchrun -- python3 /tmp/train.py
}

# All files except those of dpkg and ldconfig, and the new directories.
nothing_stays() {
    local path left=()
    while IFS= read -r path; do
        [[ -d $upper/$path && -d /$path ]] || left+=("/$path")
    done < <(cd "$upper" && find . -mindepth 1 -printf '%P\n' |
        grep -vE '^(var/(lib/dpkg|log|cache)(/|$)|etc/ld\.so\.cache$)')
    ((${#left[@]} == 0)) || fail "left after the purge: ${left[*]}"
}

inside() {
    local names=() deb
    mount_root
    for deb in "$@"; do
        names+=("$(dpkg-deb -f "$deb" Package)")
        cp "$deb" "$root/tmp"
    done
    in_root sh -c 'dpkg --force-unsafe-io -i /tmp/*.deb'
    programs_work
    library_works
    module_works
    in_root dpkg --force-unsafe-io --purge "${names[@]}"
    nothing_stays
}

if [[ ${1-} == --inside ]]; then
    shift
    inside "$@"
    exit
fi
(($#)) || fail "usage: packages.sh FILE.deb..."
((EUID == 0)) || fail "must be root, for mount, chroot and dpkg"
exec unshare --mount --pid --fork --kill-child --propagation private "$(realpath "$0")" --inside "$@"
