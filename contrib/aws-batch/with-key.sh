#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# with-key.sh: writes the key of the environment (TRAIN_KEY) into a file in memory that only this user can
# read. Then it starts a command, which does not see the variable.
set -eu
file=${TRAIN_KEY_FILE:-/dev/shm/train.key}
rm -f "$file"
(umask 077 && printf '%s\n' "$TRAIN_KEY" >"$file")
unset TRAIN_KEY
exec "$@"
