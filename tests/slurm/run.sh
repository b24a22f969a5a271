#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run: runs the tests of this folder in namespaces of their own (network, mounts, host name, PIDs). They do not
# touch a Slurm outside, and no process is left when this script ends, even if it is killed.
# Arguments are pytest's. Exit status: pytest's, or 77 with a line that says why the tests cannot run.

skip() {
    echo "skipped: $1"
    exit 77
}

((EUID == 0)) || skip "only root can make namespaces with a network for a Slurm"
export PATH="$PATH:/usr/sbin:/sbin"
for tool in slurmctld slurmd sbatch munged ip; do
    [[ $(type -t "$tool") ]] || skip "$tool is not installed (slurmctld, slurmd, slurm-client, munge, iproute2)"
done
# A shell as PID 1: it reaps all orphans.
inside=(unshare --net --mount --uts --pid --fork --mount-proc --kill-child bash -c '"$@"; exit')
why=$("${inside[@]}" bash ip link add br0 type bridge 2>&1) || skip "no namespaces with a bridge: $why"
exec "${inside[@]}" bash /usr/bin/python3 -m pytest -q -p no:cacheprovider \
    --rootdir "${BASH_SOURCE[0]%/*}" "$@"
