# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# frameworks: pch.integrations with the real frameworks, in a virtual environment: the one in the folder
# PCHRUN_FRAMEWORKS, which is made if it is not there and kept, or a new one. pip takes them from where it
# is configured to. Sourced by tests/run.sh.

# PyTorch for CPUs; without a version, PyPI's brings some gigabytes of CUDA.
frameworks=(torch==2.13.0 transformers==5.23.0 accelerate==1.15.0 lightning==2.6.6 jax==0.10.2
    orbax-checkpoint==0.12.8 tensorflow-cpu==2.21.0 keras==3.15.1 deepspeed==0.19.8)

frameworks_folder=${PCHRUN_FRAMEWORKS:-$output/frameworks}

make_frameworks() {
    local folder=$1
    [[ "$(cat "$folder/.frameworks" 2>&1)" != "${frameworks[*]}" ]] || return 0
    /usr/bin/python3 -m venv --clear "$folder" &&
        "$folder/bin/pip" install -q "${frameworks[@]}" &&
        echo "${frameworks[*]}" >"$folder/.frameworks"
}

# By itself, for it can be done beside other parts.
part_frameworks-made() {
    check frameworks make_frameworks "$frameworks_folder"
}

part_frameworks() {
    local folder=$frameworks_folder
    check build-opt build_opt && part_frameworks-made || return
    run_pytest tests-frameworks env PCHRUN_BIN="$PWD/build-opt/src/pchrun" PCHRUN_HELPERS="$PWD/build-opt/tests/helpers" \
        CHARLM="$PWD/build-opt/contrib/examples/charlm" PCH_PYTHON="$folder/bin/python" \
        PCH_PACKAGE="$PWD/build-opt/contrib/python" PYTHONDONTWRITEBYTECODE=1 \
        /usr/bin/python3 -m pytest -q -p no:cacheprovider --numprocesses 3 --rootdir tests/python \
        tests/python/frameworks
}
