#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# requeue.sh: the exit hook (exit.hook) for a cluster whose slurm.conf has no RequeueExit=42. One node
# asks Slurm to run the job again; not after too many runs without progress, and not after scancel.
[ "$PCH_NODE_RANK" = 0 ] && [ "$PCH_OUTCOME" != no_progress ] || exit 0
# The number of the array, which is also the number of one task, means all tasks.
job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
job=${job:-$SLURM_JOB_ID}
# Slurm ends a job without a reason only after a user's scancel.
case $(scontrol -o show job "$job") in
*JobState=COMPLETING\ Reason=None\ *PreemptTime=None\ * | *JobState=CANCELLED\ *) exit 0 ;;
esac
exec scontrol requeue "$job"
