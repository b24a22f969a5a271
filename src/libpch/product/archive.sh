#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes a static library that stands alone: archive.sh OUTPUT WHOLE.a PART.a... -- CC...
# All of the first archive and what it needs of the others become one object; its hidden symbols are
# made local. Fails with the first tool that fails.
set -eu

out=$1 whole=$2
shift 2
parts=
while [ "$1" != -- ]; do
    parts="$parts $1"
    shift
done
shift

object=$out.o
# shellcheck disable=SC2086 # archives of the build tree: no spaces
"$@" -r -nostdlib -o "$object" -Wl,--whole-archive "$whole" -Wl,--no-whole-archive $parts
"${OBJCOPY:-objcopy}" --localize-hidden "$object"
rm -f "$out"
"${AR:-ar}" rcsD "$out" "$object"
rm -f "$object"
