#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# libpch_symbols.sh libpch.so libpch.a: checks the symbols that libpch exports and imports. Both files
# export nothing but pch_*. The shared library needs only the C library, and no symbol of it newer than
# 2.28. A build on a newer system can break that: fstat, for example, is then of 2.33.
set -eu

bad=0
fail() { echo "$*"; bad=1; }

shown=$({ nm -D --defined-only "$1"; nm -g --defined-only "$2"; } | awk 'NF == 3 && $2 != "A" { print $3 }')
others=$(echo "$shown" | grep -v '^pch_[a-z_]*\(@@PCH_0\)\{0,1\}$' || true)
[ "$(echo "$shown" | grep -c '^pch_step')" = 2 ] || fail "pch_step is not in both"
[ -z "$others" ] || fail "shown, but not pch_*: $others"

needed=$(objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }' | grep -v '^libc\.so\|^ld-linux' || true)
[ -z "$needed" ] || fail "needed beside the C library: $needed"

newer=$(objdump -T "$1" | grep -o 'GLIBC_2\.[0-9]*' | sort -u | awk -F. '$2 > 28')
[ -z "$newer" ] || fail "needs $newer: $(objdump -T "$1" | grep "$newer")"
exit $bad
