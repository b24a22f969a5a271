#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What pchrun needs of the system that it runs on: pchrun_symbols.sh pchrun. No symbol of the C library
# newer than 2.34, and no library but these, since each that is loaded delays every start.
set -eu

bad=0
fail() { echo "$*"; bad=1; }

needed=$(objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }' |
    grep -v '^libc\.so\|^ld-linux\|^libevent_core-2\|^libjansson\.so\.4$' || true)
[ -z "$needed" ] || fail "needed beside the C library, libevent_core and jansson: $needed"

versions=$(objdump -T "$1" | grep -o 'GLIBC_2\.[0-9]*' | sort -u)
[ -n "$versions" ] || fail "no symbol of the C library: is this a dynamic program?"
for version in $(echo "$versions" | awk -F. '$2 > 34'); do
    fail "needs $version: $(objdump -T "$1" | grep "$version")"
done
exit $bad
