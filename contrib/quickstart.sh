#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# quickstart.sh: pchrun at work on this machine, in about a minute.
#
# Builds pchrun and its example, and trains the example on four nodes (loopback addresses). Takes one
# node away during the training, starts the job again, and compares the weights with those of an
# uninterrupted run. Ends all its processes, also on Ctrl-C, and removes its work directory. Exit status:
# 0 if everything is correct, else 1.

set -euo pipefail

readonly nodes=(127.0.0.1 127.0.0.2 127.0.0.3 127.0.0.4)
readonly packages=(gcc libc6-dev meson ninja-build pkg-config libevent-dev libjansson-dev
    libncurses-dev libssl-dev libcurl4-openssl-dev)
readonly steps=400 notice_at=150 victim=2
readonly deadline_s=120

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly here
keep=false
programs=
work=
pids=()

usage()
{
    cat <<TEXT
usage: contrib/quickstart.sh [--programs DIR] [--keep]

Shows what pchrun does. A training job on ${#nodes[@]} nodes, all on this machine, is preempted and saves the
same step on every node. It is started again and ends with the same weights as an uninterrupted run.

  --programs DIR  take pchrun and charlm from this folder, and install and build nothing
  --keep          keep the work directory (logs, reports, checkpoints)
  --help          show this text

It needs these Debian packages, and installs missing ones (this needs root):
  ${packages[*]}
It builds in build-quickstart, and keeps that folder for the next time.
TEXT
}

say()
{
    if [[ -t 1 ]]; then
        printf '\n\033[1m%s\033[0m\n' "$*"
    else
        printf '\n%s\n' "$*"
    fi
}

fail()
{
    printf 'quickstart: %s\n' "$*" >&2
    exit 1
}

# Ends every node that still runs: by a notice, then, after ten seconds, by SIGKILL. The training
# processes notice the death of their pchrun and end, too.
end_nodes()
{
    local pid tries
    ((${#pids[@]} > 0)) || return 0
    kill -TERM "${pids[@]}" 2>/dev/null || true
    for ((tries = 0; tries < 100; tries++)); do
        kill -0 "${pids[@]}" 2>/dev/null || break
        sleep 0.1
    done
    for pid in "${pids[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    pids=()
}

on_exit()
{
    local status=$?
    trap - EXIT INT TERM HUP
    end_nodes
    if [[ -n $work ]] && $keep; then
        echo "kept: $work"
    elif [[ -n $work ]]; then
        rm -rf "$work"
    fi
    exit "$status"
}

install_packages()
{
    local missing=() package
    command -v dpkg-query >/dev/null || fail "this script is for Debian; see README.md for others"
    for package in "${packages[@]}"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
            missing+=("$package")
    done
    if ((${#missing[@]} == 0)); then
        echo "All packages are there; nothing to install."
        return
    fi
    echo "Will install: ${missing[*]}"
    ((EUID == 0)) || fail "not root; first run: apt-get install ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } \
        >"$work/apt.log" 2>&1 || { tail -20 "$work/apt.log" >&2; fail "apt-get failed"; }
}

build()
{
    build_dir=$here/build-quickstart
    if [[ ! -w $here || (-e $build_dir && ! -w $build_dir) ]]; then
        build_dir=$work/build
    fi
    if [[ ! -f $build_dir/build.ninja ]]; then
        meson setup "$build_dir" "$here" >"$work/build.log" 2>&1 ||
            { tail -20 "$work/build.log" >&2; fail "meson setup failed"; }
    fi
    ninja -C "$build_dir" src/pchrun contrib/examples/charlm >"$work/build.log" 2>&1 ||
        { tail -30 "$work/build.log" >&2; fail "the build failed"; }
    pchrun=$build_dir/src/pchrun
    charlm=$build_dir/contrib/examples/charlm
}

take_programs()
{
    pchrun=$programs/pchrun
    charlm=$programs/charlm
    [[ -x $pchrun && -x $charlm ]] || fail "--programs: $programs has no pchrun and charlm to start"
}

# Chooses two free ports: for pchrun, and for the example itself.
pick_ports()
{
    local port
    ports=()
    while ((${#ports[@]} < 2)); do
        port=$((15000 + RANDOM % 12000))
        if [[ " ${ports[*]} " != *" $port "* ]] && ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            ports+=("$port")
        fi
    done
}

# pchrun_words KEY RANK DIR PORT and charlm_words DIR PORT: set `words`, the command of a node up to "--" and
# after it. The command that the script shows is the one that it runs.
pchrun_words()
{
    local list
    list=$(IFS=,; echo "${nodes[*]}")
    words=(--job quickstart --no-save-train-on --cluster-nodes "$list" --cluster-port "$4"
        --cluster-key-file "$1" --node-rank "$2" --checkpoint-dir "$3" --)
}

charlm_words()
{
    words=(--dir "$1" --port "$2" --steps "$steps" --save-every 100 --log-every 10)
}

# start_nodes NAME DIR [charlm's options]: node i writes to $work/NAME.node-i.log.
start_nodes()
{
    local name=$1 dir=$2 i words train
    shift 2
    pick_ports
    charlm_words "$dir" "${ports[1]}"
    train=("$charlm" "${words[@]}" "$@")
    for i in "${!nodes[@]}"; do
        pchrun_words "$work/key" "$i" "$dir" "${ports[0]}"
        "$pchrun" "${words[@]}" "${train[@]}" >"$work/$name.node-$i.log" 2>&1 </dev/null &
        pids[i]=$!
    done
}

show_logs()
{
    local log
    for log in "$work/$1".node-*.log; do
        printf '\n== %s\n' "${log##*/}" >&2
        tail -15 "$log" >&2
    done
}

# wait_nodes NAME CODE: all nodes end with CODE before the deadline; sets codes.
wait_nodes()
{
    local name=$1 want=$2 i code end=$((SECONDS + deadline_s))
    codes=()
    while kill -0 "${pids[@]}" 2>/dev/null && ((SECONDS < end)); do
        sleep 0.1
    done
    if ((SECONDS >= end)); then
        show_logs "$name"
        fail "the job has not ended within $deadline_s s"
    fi
    for i in "${!pids[@]}"; do
        code=0
        wait "${pids[i]}" || code=$?
        codes[i]=$code
    done
    pids=()
    for i in "${!codes[@]}"; do
        if ((codes[i] != want)); then
            show_logs "$name"
            fail "node $i has ended with ${codes[i]}, not $want (all: ${codes[*]})"
        fi
    done
}

show_codes()
{
    echo "exit codes of nodes 0 to $((${#codes[@]} - 1)): ${codes[*]}"
}

# wait_step NAME STEP: waits until the training has finished STEP.
wait_step()
{
    local log=$work/$1.node-0.log step=$2 end=$((SECONDS + deadline_s))
    until grep -qs "^step $step " "$log"; do # the log is there a moment after the start
        if ((SECONDS >= end)) || ! kill -0 "${pids[0]}" 2>/dev/null; then
            show_logs "$1"
            fail "the training has not reached step $step"
        fi
        sleep 0.05
    done
    grep "^step $step " "$log"
}

digest_of()
{
    sed -n 's/^digest //p' "$work/$1.node-0.log"
}

# The last committed step.
committed()
{
    sed -n 's/.* commit: step \([0-9]*\) .*/\1/p' "$work/$1.node-0.log" | tail -1
}

# The lines of pchrun from all nodes, in the order of time, from the notice on. The program's lines have
# no time; those about the agreed save come before its commit.
timeline()
{
    local saves
    saves=$(grep -h "^charlm.* saved step $(committed "$1")\$" "$work/$1".node-*.log)
    sort -s -k2,2 <(grep -h '^pchrun\[' "$work/$1".node-*.log) | sed -n '/ notice: /,$p' |
        while IFS= read -r line; do
            [[ $line == *' commit: '* ]] && echo "$saves"
            echo "$line"
        done
}

# The command of one node, as a user would type it.
show_command()
{
    local words pchrun_options
    echo "Once, then copy it to every node:"
    echo "  pchrun --make-key KEY"
    echo "Each node runs (the last one with --node-rank $((${#nodes[@]} - 1))):"
    pchrun_words KEY 0 DIR PORT
    pchrun_options=("${words[@]}")
    charlm_words DIR ANOTHER-PORT
    echo "pchrun ${pchrun_options[*]} charlm ${words[*]}" | fold -s -w 96 | sed '$!s/$/\\/; 1s/^/  /; 1!s/^/    /'
}

# Processes of the job that still run.
leftovers()
{
    grep -las "$work/" /proc/[0-9]*/cmdline || true
}

main()
{
    local expected got step

    say "1. Packages"
    [[ -n $programs ]] || install_packages

    say "2. Build"
    if [[ -n $programs ]]; then take_programs; else build; fi
    echo "$pchrun, $("$pchrun" --version)"

    say "3. A training on ${#nodes[@]} nodes, undisturbed: a character model learns a licence text"
    show_command
    "$pchrun" --make-key "$work/key" >"$work/key.log" || fail "no key could be made"
    start_nodes whole "$work/whole"
    wait_nodes whole 0
    show_codes
    grep '^step .*00 ' "$work/whole.node-0.log"
    expected=$(digest_of whole)
    echo "weights at the end: $expected"

    say "4. The same again, with nodes of unequal speed; after step $notice_at node $victim gets a SIGTERM"
    start_nodes first "$work/run" --step-time 10 --skew 2
    wait_step first $notice_at
    kill -TERM "${pids[victim]}"
    wait_nodes first 42
    timeline first
    show_codes

    say "5. Started again, as a scheduler does on exit code 42"
    start_nodes second "$work/run"
    wait_nodes second 0
    show_codes
    grep '^charlm: ' "$work/second.node-0.log"
    grep "^step $steps " "$work/second.node-0.log"
    step=$(sed -n 's/.*from step \([0-9]*\) to .*/\1/p' "$work/second.node-0.log")
    [[ $step == "$(committed first)" ]] ||
        fail "it began at step $step; step $(committed first) had been committed"
    ((step > notice_at && step < steps)) || fail "step $step is not one of the middle"
    got=$(digest_of second)
    echo "weights at the end: $got"

    say "6. Result"
    [[ -z $(leftovers) ]] || fail "processes are left: $(leftovers)"
    [[ -n $got && $got == "$expected" ]] ||
        fail "the weights differ: $expected undisturbed, $got preempted and resumed"
    echo "Preempted after step $step on all ${#nodes[@]} nodes, and resumed there: the weights are the" \
        "same, to the bit."
}

while (($# > 0)); do
    case $1 in
    --keep) keep=true ;;
    --programs)
        (($# > 1)) || fail "--programs needs a folder"
        programs=$(realpath "$2")
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *) fail "$1: unknown option; see --help" ;;
    esac
    shift
done

# This script may itself run in a job: forget the variables of that job.
unset "${!PCH@}" RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE
trap on_exit EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
work=$(mktemp -d "${TMPDIR:-/tmp}/pchrun-quickstart.XXXXXX")
main
