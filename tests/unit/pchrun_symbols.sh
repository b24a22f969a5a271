#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# pchrun_symbols.sh PCHRUN [LIBRARY_LINKED_IN...]: checks the libraries that pchrun needs where it runs.
# It needs the C library, and the libraries that are not linked in. It needs no symbol of the C library
# newer than 2.34. The exception is arc4random: a libevent archive built against glibc 2.36 or later
# calls it.
set -eu

pchrun=$1
shift
bad=0
fail() { echo "$*"; bad=1; }

may='^libc\.so|^ld-linux'
for library in libevent_core libjansson; do
    case " $* " in
    *" $library "*) ;;
    *) may="$may|^$library" ;;
    esac
done
needed=$(objdump -p "$pchrun" | awk '$1 == "NEEDED" { print $2 }' | grep -vE "$may" || true)
[ -z "$needed" ] || fail "needed beside $may: $needed"

symbols=$(objdump -T "$pchrun" | grep GLIBC_ | grep -v ' arc4random' || true)
[ -n "$symbols" ] || fail "no symbol of the C library: is this a dynamic program?"
for version in $(echo "$symbols" | grep -o 'GLIBC_2\.[0-9]*' | sort -u | awk -F. '$2 > 34'); do
    fail "needs $version: $(echo "$symbols" | grep "$version")"
done
exit $bad
