#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# resubmit.sh: the exit hook (exit.hook) of train.pbs. PBS puts no job back for its exit code, so a new
# one is submitted, which begins when this one has ended; not after too many runs without progress.
[ "$PCH_OUTCOME" != no_progress ] || exit 0
cd "$PBS_O_WORKDIR" && exec qsub -N "$PBS_JOBNAME" -W "depend=afterany:$PBS_JOBID" "$SCRIPT"
