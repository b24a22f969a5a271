#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# requeue.sh: the exit hook (exit.hook) for a cluster whose slurm.conf has no RequeueExit=42, or for a job with a
# health check. One node asks Slurm to run the job again; not after too many runs without progress, and not after
# scancel. An unhealthy node does so itself. From then on the job avoids its host, and the hosts that were not healthy
# within the last day, also in an earlier job with the same record.
case $PCH_OUTCOME in
no_progress) exit 0 ;;
unhealthy) node=$PCH_CAUSE_NODE ;;
*) node=0 ;;
esac
[ "$PCH_NODE_RANK" = "$node" ] || exit 0
# The number of the array, which is also the number of one task, means all tasks. Another array's number is that of a
# task that has submitted this job.
job=$SLURM_JOB_ID
[ "$SLURM_ARRAY_JOB_ID" != "$job" ] || job=${job}_$SLURM_ARRAY_TASK_ID
shown=$(scontrol -o show job "$job")
# Slurm ends a job without a reason only after a user's scancel.
case $shown in
*JobState=COMPLETING\ Reason=None\ *PreemptTime=None\ * | *JobState=CANCELLED\ *) exit 0 ;;
esac
# Slurm changes the list of a waiting job only, and sends SIGTERM to what still runs of a requeued one.
trap '' TERM
scontrol requeue "$job" || exit
avoided=${shown#* ExcNodeList=}
avoided=${avoided%% *}
[ "$avoided" != "(null)" ] || avoided=
# Slurm refuses a list with a name that it does not know, so one host at a time is added.
IFS=,
for host in $PCH_UNHEALTHY_HOSTS; do
    case ,$avoided, in *,"$host",*) continue ;; esac
    scontrol update JobId="$job" ExcNodeList="${avoided:+$avoided,}$host" && avoided=${avoided:+$avoided,}$host
done
[ "$PCH_OUTCOME" = unhealthy ] || exit 0
# Slurm may know this host by a name of its own.
case ,$avoided, in *,"$SLURMD_NODENAME",*) exit 0 ;; esac
exec scontrol update JobId="$job" ExcNodeList="${avoided:+$avoided,}$SLURMD_NODENAME"
