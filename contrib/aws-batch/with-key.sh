#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# with-key.sh: starts a command when the key of the environment (TRAIN_KEY) has become a file that only
# this user can read, in memory; the command does not see the variable.
set -eu
file=${TRAIN_KEY_FILE:-/dev/shm/train.key}
rm -f "$file"
(umask 077 && printf '%s\n' "$TRAIN_KEY" >"$file")
unset TRAIN_KEY
exec "$@"
