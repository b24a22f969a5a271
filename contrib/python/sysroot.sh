#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# sysroot: unpacks packages of another Debian, or for another processor, into a folder, to build against them.
# Nothing is installed: apt has a state of its own in the folder, and takes only the mirror from this machine.
# A folder that already has the packages is left as it is.

set -euo pipefail

usage="usage: sysroot.sh FOLDER SUITE ARCHITECTURE PACKAGE... [--with-dependencies]"
with= packages=()
for word in "$@"; do
    [[ $word == --with-dependencies ]] && with=yes || packages+=("$word")
done
if ((${#packages[@]} < 4)); then
    echo "$usage" >&2
    exit 2
fi
mkdir -p "${packages[0]}"
folder=$(realpath "${packages[0]}") suite=${packages[1]} architecture=${packages[2]}
packages=("${packages[@]:3}")
wanted="$suite $architecture ${packages[*]} $with"

# Written last: a folder without it is incomplete.
if [[ "$(cat "$folder/.packages" 2>/dev/null)" == "$wanted" ]]; then
    exit
fi
# The machine's source of Debian's packages. Its other sources may not have this architecture.
mirror=$(apt-get indextargets --format '$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk '$1 == "Debian" && $2 ~ /^[a-z]+$/ && $3 == "main" { sub("/$", "", $4); print $4; exit }')
if [[ -z $mirror ]]; then
    echo "sysroot.sh: apt has no source for Debian's main component; see /etc/apt/sources.list, and run apt-get update" >&2
    exit 1
fi
rm -rf "$folder"
mkdir -p "$folder/.apt/lists/partial" "$folder/.apt/archives/partial"
touch "$folder/.apt/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$folder/.apt/sources.list"
apt=(apt-get -q -o APT::Architecture="$architecture" -o APT::Architectures::="$architecture" -o Dir::State="$folder/.apt"
    -o Dir::State::status="$folder/.apt/status" -o Dir::Cache="$folder/.apt" -o APT::Sandbox::User= -o Acquire::Retries=3
    -o Dir::Etc::sourcelist="$folder/.apt/sources.list" -o Dir::Etc::sourceparts=/none)
"${apt[@]}" update
cd "$folder/.apt/archives"
if [[ $with ]]; then
    "${apt[@]}" install -y --no-install-recommends --download-only "${packages[@]}"
else
    "${apt[@]}" download "${packages[@]}"
fi
for archive in ./*.deb; do
    dpkg -x "$archive" "$folder"
done
rm -rf "$folder/.apt"
echo "$wanted" >"$folder/.packages"
