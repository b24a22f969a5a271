#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# chroot: shows that README's two commands work on a Debian 12 where nothing was installed by hand. Other
# commands and other Debians may be named.
#
# It makes a minimal system with debootstrap, clones the last commit into its /root, which is closed to
# other users, and runs the commands there, in namespaces of their own for processes and mounts: when they
# end, or when this script is killed, no process and no mount is left. Process 1 is a shell, and "/" is a
# mount point: so it is in `docker run -it debian:12 bash`, too. The files are removed afterwards. Needs
# root, debootstrap, and the places from which this machine's apt and pip take packages. Run by hand; CI runs it for
# the wheels alone (tests/ci/wheel.sh).

set -euo pipefail

usage() {
    cat <<END
usage: tests/chroot.sh [--suite NAME] [--cache DIR] [--copy PATH]... [--command CMD]... [--keep]

Runs README's commands on a fresh, minimal Debian 12.

  --suite NAME    another Debian, as bullseye (default: bookworm)
  --cache DIR     where the unpacked system is kept for the next time (default: .cache)
  --copy PATH     copy this file or folder into /root; may be given more than once
  --command CMD   run this instead, in the clone; may be given more than once
  --docker        give the commands only the capabilities that Docker gives, and no control group of their own
  --keep          leave the files in place and say where
  --help          this text

Exit status: 0 if every command succeeded.
END
}

fail() {
    echo "tests/chroot.sh: $*" >&2
    exit 1
}

# http://deb.debian.org/debian: where apt on this machine gets Debian's main component from.
find_mirror() {
    apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        awk '$1 == "Debian" && $2 ~ /^[a-z]+$/ && $3 == "main" { sub("/$", "", $4); print $4; exit }'
}

# The new system's apt gets the settings of this machine's apt: a proxy, a snapshot's old dates.
copy_apt_settings() {
    apt-config dump | grep -E '^Acquire::(https?::|Check-|Retries|AllowInsecure)' \
        >"$1/etc/apt/apt.conf.d/90-as-outside" || true
}

# pip as well: its settings in one file, and its certificates and constraints under names that no package writes.
copy_pip_settings() {
    local target=$1/etc name file
    { python3 -m pip config list 2>/dev/null || true; } | sed -nE "s/^[^.]+\.([a-z-]+)='(.*)'\$/\1 = \2/p" |
        awk 'BEGIN { print "[global]" } !seen[$1]++' >"$target/pip.conf"
    for name in cert constraint; do
        file=$(sed -n "s/^$name = //p" "$target/pip.conf")
        if [[ -n $file ]]; then
            cp -L "$file" "$target/pip-$name"
            sed -i "s#^$name = .*#$name = /etc/pip-$name#" "$target/pip.conf"
        fi
    done
}

# The folders of this machine from which pip takes packages. The files of an index are beside it.
pip_folders() {
    sed -nE 's/^(find-links|index-url|extra-index-url) = //p' "$1/etc/pip.conf" | tr -s ' ' '\n' |
        sed -nE 's#^file://(/.*)/[^/]+/?$#\1#; /^\//p'
}

make_system() {
    local mirror target=$1
    mirror=$(find_mirror)
    [[ -n $mirror ]] || fail "apt has no source for Debian's main component; see /etc/apt/sources.list"
    echo "making a minimal $suite from $mirror"
    debootstrap --variant=minbase "$suite" "$target" "$mirror" >"$target.log" 2>&1 || {
        tail -n 20 "$target.log" >&2
        fail "debootstrap failed"
    }
    copy_apt_settings "$target"
}

# The capabilities that Docker gives a container, as its documentation lists them.
docker_capabilities=-all,+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap,+setpcap
docker_capabilities+=,+net_bind_service,+sys_chroot,+kill,+audit_write

# In the namespaces: mounts, then the commands one after another. The script calls itself for it. As in a
# container "/" is the new system and nothing else: after chroot alone, a mount namespace within this one
# would know files by their paths outside.
run_inside() {
    local root=$1 docker=$2 command folder status=0 began limited=()
    shift 2
    [[ -z $docker ]] || limited=(setpriv --bounding-set "$docker_capabilities" --inh-caps -all)
    mount --bind "$root" "$root"
    for folder in $(pip_folders "$root"); do
        mkdir -p "$root$folder"
        mount --bind --options ro "$folder" "$root$folder"
    done
    mount -t proc proc "$root/proc" || mount --bind /proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys" # with the control groups: without them Slurm's slurmd does not start
    [[ -z $docker ]] || mount --options remount,bind,ro "$root/sys/fs/cgroup"
    cd "$root"
    pivot_root . .
    umount --lazy .
    for command in "$@"; do
        began=$SECONDS
        echo "---- $command"
        if env -i HOME=/root USER=root TERM="${TERM-dumb}" LANG=C.UTF-8 \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            ${http_proxy+http_proxy="$http_proxy"} ${https_proxy+https_proxy="$https_proxy"} \
            "${limited[@]}" bash -c 'cd /root/pchrun && eval "$1"' - "$command"; then
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

suite=bookworm cache= docker= keep= commands=() copies=()
while (($#)); do
    case $1 in
    --suite | --cache | --copy | --command)
        (($# > 1)) || fail "$1 needs a value"
        case $1 in
        --suite) suite=$2 ;;
        --cache) cache=$(realpath -m "$2") ;;
        --copy) copies+=("$2") ;;
        --command) commands+=("$2") ;;
        esac
        shift
        ;;
    --docker) docker=yes ;;
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

tarball=$cache/$suite-$(dpkg --print-architecture).tar
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
((${#copies[@]} == 0)) || cp -a "${copies[@]}" "$root/root/"

if [[ -n $(git -C "$source" status --porcelain) ]]; then
    echo "note: only what is committed is tested; git status shows more"
fi
git clone --quiet --no-local "$source" "$root/root/pchrun"
git -C "$root/root/pchrun" log -1 --format='testing %h %s'

# With this script dies unshare, with that its child, the first process of the namespaces, and with
# that all in them. unshare holds INT and TERM back while its child runs.
setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --propagation private \
    "$self" --inside "$root" "$docker" "${commands[@]}" &
inside=$!
trap 'kill -KILL "$inside"; exit 130' INT
trap 'kill -KILL "$inside"; exit 143' TERM
wait "$inside"
