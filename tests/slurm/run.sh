#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run: the tests of this folder, in namespaces of their own (network, mounts, host name, PIDs), so that
# nothing of a Slurm outside is seen or touched, and nothing is left when this ends, however it ends.
# Arguments are pytest's. Exit status: pytest's, or 77 with a line that says why nothing could be tested.

skip() {
    echo "skipped: $1"
    exit 77
}

((EUID == 0)) || skip "only root can make namespaces with a network for a Slurm"
export PATH="$PATH:/usr/sbin:/sbin"
for tool in slurmctld slurmd sbatch munged ip; do
    [[ $(type -t "$tool") ]] || skip "$tool is not installed (slurmctld, slurmd, slurm-client, munge, iproute2)"
done
# A shell as PID 1: it takes the ends of all orphans.
inside=(unshare --net --mount --uts --pid --fork --mount-proc --kill-child bash -c '"$@"; exit')
why=$("${inside[@]}" bash ip link add br0 type bridge 2>&1) || skip "no namespaces with a bridge: $why"
exec "${inside[@]}" bash /usr/bin/python3 -m pytest -q -p no:cacheprovider \
    --rootdir "${BASH_SOURCE[0]%/*}" "$@"
