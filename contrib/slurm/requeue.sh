#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# requeue.sh: the exit hook (exit.hook) for a cluster whose slurm.conf has no RequeueExit=42. One node
# asks Slurm to run the job again; not after too many runs without progress, and not after scancel.
[ "$PCH_NODE_RANK" = 0 ] && [ "$PCH_OUTCOME" != no_progress ] || exit 0
# Slurm ends a job without a reason of its own only where somebody has cancelled it.
case $(scontrol -o show job "$SLURM_JOB_ID") in
*JobState=COMPLETING\ Reason=None\ *PreemptTime=None\ * | *JobState=CANCELLED\ *) exit 0 ;;
esac
exec scontrol requeue "$SLURM_JOB_ID"
