#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# with-key.sh: starts a command when the key of the environment (TRAIN_KEY) has become a file that only
# this user can read, in memory; the command does not see the variable.
set -eu
umask 077
rm -f /dev/shm/train.key
printf '%s\n' "$TRAIN_KEY" >/dev/shm/train.key
unset TRAIN_KEY
exec "$@"
