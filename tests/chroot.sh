#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# chroot: shows that README's two commands work on a Debian 12 where nothing was installed by hand.
#
# It makes a minimal bookworm with debootstrap, clones the last commit into its /root, which is closed to
# other users, and runs the commands there, in namespaces of their own for processes and mounts: when they
# end, or when this script is killed, no process and no mount is left. Process 1 is a shell, and "/" is a
# mount point: so it is in `docker run -it debian:12 bash`, too. The files are removed afterwards. Needs
# root, debootstrap, and the places from which this machine's apt and pip take packages. Run by hand; CI does not.

set -euo pipefail

usage() {
    cat <<END
usage: tests/chroot.sh [--cache DIR] [--command CMD]... [--keep]

Runs README's commands on a fresh, minimal Debian 12.

  --cache DIR     where the unpacked system is kept for the next time (default: .cache)
  --command CMD   run this instead, in the clone; may be given more than once
  --keep          leave the files in place and say where
  --help          this text

Exit status: 0 if every command succeeded.
END
}

fail() {
    echo "tests/chroot.sh: $*" >&2
    exit 1
}

# http://deb.debian.org/debian: where apt on this machine gets bookworm's main component from.
find_mirror() {
    apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        awk '$1 == "bookworm" && $2 == "main" { sub("/$", "", $3); print $3; exit }'
}

# The new system's apt gets the settings of this machine's apt: a proxy, a snapshot's old dates.
copy_apt_settings() {
    apt-config dump | grep -E '^Acquire::(https?::|Check-|Retries|AllowInsecure)' \
        >"$1/etc/apt/apt.conf.d/90-as-outside" || true
}

# pip as well: its settings in one file, its certificates in a file that no package writes.
copy_pip_settings() {
    local target=$1/etc certificates
    { python3 -m pip config list 2>/dev/null || true; } | sed -nE "s/^[^.]+\.([a-z-]+)='(.*)'\$/\1 = \2/p" |
        awk 'BEGIN { print "[global]" } !seen[$1]++' >"$target/pip.conf"
    certificates=$(sed -n 's/^cert = //p' "$target/pip.conf")
    if [[ -n $certificates ]]; then
        cp -L "$certificates" "$target/pip-certificates.pem"
        sed -i 's#^cert = .*#cert = /etc/pip-certificates.pem#' "$target/pip.conf"
    fi
}

# The folders of this machine from which pip takes packages. The files of an index are beside it.
pip_folders() {
    sed -nE 's/^(find-links|index-url|extra-index-url) = //p' "$1/etc/pip.conf" | tr -s ' ' '\n' |
        sed -nE 's#^file://(/.*)/[^/]+/?$#\1#; /^\//p'
}

make_system() {
    local mirror target=$1
    mirror=$(find_mirror)
    [[ -n $mirror ]] || fail "apt has no source for bookworm main; see /etc/apt/sources.list"
    echo "making a minimal bookworm from $mirror"
    debootstrap --variant=minbase bookworm "$target" "$mirror" >"$target.log" 2>&1 || {
        tail -n 20 "$target.log" >&2
        fail "debootstrap failed"
    }
    copy_apt_settings "$target"
}

# In the namespaces: mounts, then the commands one after another. The script calls itself for it. As in a
# container "/" is the new system and nothing else: after chroot alone, a mount namespace within this one
# would know files by their paths outside.
run_inside() {
    local root=$1 command folder status=0 began
    shift
    mount --bind "$root" "$root"
    for folder in $(pip_folders "$root"); do
        mkdir -p "$root$folder"
        mount --bind --options ro "$folder" "$root$folder"
    done
    mount -t proc proc "$root/proc" || mount --bind /proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys" # with the control groups: without them Slurm's slurmd does not start
    cd "$root"
    pivot_root . .
    umount --lazy .
    for command in "$@"; do
        began=$SECONDS
        echo "---- $command"
        if env -i HOME=/root USER=root TERM="${TERM-dumb}" LANG=C.UTF-8 \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            ${http_proxy+http_proxy="$http_proxy"} ${https_proxy+https_proxy="$https_proxy"} \
            bash -c 'cd /root/pchrun && eval "$1"' - "$command"; then
            echo "---- ok after $((SECONDS - began)) s: $command"
        else
            echo "---- FAILED ($?) after $((SECONDS - began)) s: $command"
            status=1
        fi
    done
    return $status
}

if [[ ${1-} == --inside ]]; then
    shift
    run_inside "$@"
    exit
fi

cache= keep= commands=()
while (($#)); do
    case $1 in
    --cache | --command)
        (($# > 1)) || fail "$1 needs a value"
        if [[ $1 == --cache ]]; then
            cache=$(realpath -m "$2")
        else
            commands+=("$2")
        fi
        shift
        ;;
    --keep) keep=yes ;;
    --help | -h)
        usage
        exit
        ;;
    *) fail "unknown argument '$1'; see --help" ;;
    esac
    shift
done
((${#commands[@]})) || commands=(contrib/quickstart.sh tests/run.sh)

self=$(realpath "$0")
source=$(dirname "$(dirname "$self")")
cache=${cache:-$source/.cache}
((EUID == 0)) || fail "must be root, for chroot and mount"
command -v debootstrap >/dev/null || fail "there is no debootstrap: apt-get install debootstrap"

work=$(mktemp -d "${TMPDIR:-/tmp}/pchrun-chroot.XXXXXX")
root=$work/root
clean_up() {
    if [[ -n $keep ]]; then
        echo "kept: $root"
    else
        rm -rf --one-file-system "$work"
    fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

tarball=$cache/bookworm-$(dpkg --print-architecture).tar
mkdir -p "$root" "$cache"
if [[ -s $tarball ]]; then
    echo "unpacking $tarball"
    tar -C "$root" --numeric-owner -xf "$tarball"
else
    make_system "$root"
    tar -C "$root" --numeric-owner --one-file-system -cf "$tarball.part" .
    mv "$tarball.part" "$tarball"
fi
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
copy_pip_settings "$root"

if [[ -n $(git -C "$source" status --porcelain) ]]; then
    echo "note: only what is committed is tested; git status shows more"
fi
git clone --quiet --no-local "$source" "$root/root/pchrun"
git -C "$root/root/pchrun" log -1 --format='testing %h %s'

# With this script dies unshare, with that its child, the first process of the namespaces, and with
# that all in them. unshare holds INT and TERM back while its child runs.
setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --propagation private \
    "$self" --inside "$root" "${commands[@]}" &
inside=$!
trap 'kill -KILL "$inside"; exit 130' INT
trap 'kill -KILL "$inside"; exit 143' TERM
wait "$inside"
