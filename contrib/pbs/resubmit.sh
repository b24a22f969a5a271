#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# resubmit.sh: the exit hook (exit.hook) of train.pbs. PBS never requeues a job for its exit code, so this
# submits a new job, which begins when this one has ended. It does not after too many runs without progress.
[ "$PCH_OUTCOME" != no_progress ] || exit 0
cd "$PBS_O_WORKDIR" && exec qsub -N "$PBS_JOBNAME" -W "depend=afterany:$PBS_JOBID" "$SCRIPT"
