#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# inside-wheel: tries a wheel on a minimal Debian, as root: installs it, then preempts and resumes a job on one node and
# on two nodes with a key. Run by tests/chroot.sh in a system of its own: it installs packages, and cleans nothing up.

set -euo pipefail

wheel=$1 examples=$2 # a file; a folder with charlm and the libpch that it is linked with
deadline_s=60

fail() {
    printf 'inside-wheel: %s\n' "$*" >&2
    tail -n 20 /root/run/*.log >&2 || true
    exit 1
}

# Without a Python that the package supports, only the programs are unpacked.
install_wheel() {
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends python3-venv ca-certificates >/root/apt.log 2>&1 ||
        { tail /root/apt.log; return 1; }
    if python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
        python3 -m venv /root/env
        /root/env/bin/pip install -q --no-index "$wheel"
        PATH=/root/env/bin:$PATH
    else
        python3 -m zipfile -e "$wheel" /root/unpacked
        install -m 755 /root/unpacked/*.data/scripts/* /usr/local/bin
    fi
}

# Four nodes, a key, a program in C.
try_in_c() {
    ln -sf "$(command -v pchrun)" "$examples/pchrun"
    LD_LIBRARY_PATH=$examples contrib/quickstart.sh --programs "$examples"
}

# start NAME NODES: the nodes of a job that trains the program of the plain loop's page.
start() {
    local name=$1 count=$2 rank nodes=()
    for ((rank = 0; rank < count; rank++)); do
        nodes+=("127.0.0.$((rank + 1)):21000")
    done
    pids=()
    for ((rank = 0; rank < count; rank++)); do
        pchrun --job "nodes-$count" --cluster-nodes "$(IFS=, && echo "${nodes[*]}")" \
            --node-rank "$rank" --cluster-key-file /root/run/key --checkpoint-dir "/root/run/$count.d" --no-save-train-on -v -- \
            python train.py >"/root/run/$name-$count.$rank.log" 2>&1 &
        pids+=($!)
    done
}

# finish NAME CODE: all nodes end with this code.
finish() {
    local pid code
    for pid in "${pids[@]}"; do
        code=0
        wait "$pid" || code=$?
        ((code == $2)) || fail "$1: a node has ended with $code, not $2"
    done
}

await() {
    local file=$1 text=$2 end=$((SECONDS + deadline_s))
    until grep -qs "$text" "$file"; do
        ((SECONDS < end)) || fail "$file does not say \"$text\""
        sleep 0.1
    done
}

try_in_python() {
    local count want
    mkdir -p /root/run
    pchrun --make-key /root/run/key >/root/run/key.log
    sed -n '/^```python$/,/^```$/p' docs/python/loop.md | sed '1d;/^```$/,$d' >/root/run/train.py
    cd /root/run
    want=$(python train.py | tail -n 1)
    for count in 1 2; do # nodes
        mkdir "$count.d"
        start first "$count"
        await "/root/run/first-$count.0.log" "resumes at step 0"
        kill -TERM "${pids[-1]}"
        finish first 42
        start second "$count"
        finish second 0
        [[ $(grep -hc "^$want\$" second-"$count".*.log | sort -u) == 1 ]] || fail "$count nodes: not the weight $want"
        grep -h "resumes at step\|tls: OpenSSL" second-"$count".*.log
        grep -q "resumes at step [1-9]" "second-$count.0.log" || fail "$count nodes: nothing was resumed"
    done
}

ldd --version | sed -n 1p
install_wheel
pchrun --version
try_in_c | tail -n 3
[[ ! -d /root/env ]] || try_in_python
