#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What pchrun needs of the system that it runs on: pchrun_symbols.sh PCHRUN PCHRUN_CLUSTER
# [LIBRARY_LINKED_IN...]. Of the second, or both if they are one: no symbol of the C library newer than
# 2.34; and no library but these, since each that is loaded delays every start. Of the first, if it is
# another: nothing at all.
set -eu

alone=$1
pchrun=$2
shift 2
bad=0
fail() { echo "$*"; bad=1; }

if [ "$alone" != "$pchrun" ]; then
    loaded=$(readelf -dl "$alone" | grep -E 'INTERP|NEEDED' || true)
    [ -z "$loaded" ] || fail "linked statically, $alone yet needs: $loaded"
    elf=$(readelf -h "$alone" | grep -E 'Type: +DYN' || true)
    [ -n "$elf" ] || fail "$alone is not position-independent"
fi

may='^libc\.so|^ld-linux'
for library in libevent_core libjansson; do
    case " $* " in
    *" $library "*) ;;
    *) may="$may|^$library" ;;
    esac
done
needed=$(objdump -p "$pchrun" | awk '$1 == "NEEDED" { print $2 }' | grep -vE "$may" || true)
[ -z "$needed" ] || fail "needed beside $may: $needed"

symbols=$(objdump -T "$pchrun" | grep GLIBC_ || true)
[ -n "$symbols" ] || fail "no symbol of the C library: is this a dynamic program?"
for version in $(echo "$symbols" | grep -o 'GLIBC_2\.[0-9]*' | sort -u | awk -F. '$2 > 34'); do
    fail "needs $version: $(echo "$symbols" | grep "$version")"
done
exit $bad
