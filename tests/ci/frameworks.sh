# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# frameworks: tests pch.integrations with the real frameworks in a virtual environment. TEST_FRAMEWORKS
# names its folder: it is made if it is missing, and kept. Without it the environment is new and temporary.
# pip uses the package index that it is configured with. Sourced by tests/run.sh.

# Fixed versions. The index that pip is configured with decides whether PyTorch brings CUDA's gigabytes.
frameworks=(torch==2.13.0 transformers==5.23.0 accelerate==1.15.0 lightning==2.6.6 jax==0.10.2
    orbax-checkpoint==0.12.8 tensorflow-cpu==2.21.0 keras==3.15.1 deepspeed==0.19.8 py-spy==0.4.3)

frameworks_folder=${TEST_FRAMEWORKS:-$output/frameworks}

make_frameworks() {
    local folder=$1
    [[ "$(cat "$folder/.frameworks" 2>&1)" != "${frameworks[*]}" ]] || return 0
    /usr/bin/python3 -m venv --clear "$folder" &&
        "$folder/bin/pip" install -q "${frameworks[@]}" &&
        echo "${frameworks[*]}" >"$folder/.frameworks"
}

part_frameworks() {
    local folder=$frameworks_folder
    check build-opt build_opt && check frameworks make_frameworks "$folder" || return
    check types-frameworks types_are_right --python-executable "$folder/bin/python"
    run_pytest tests-frameworks env PCHRUN_BIN="$PWD/build-opt/src/pchrun" PCHRUN_HELPERS="$PWD/build-opt/tests/helpers" \
        CHARLM="$PWD/build-opt/contrib/examples/charlm" PCH_PYTHON="$folder/bin/python" \
        PCH_PACKAGE="$PWD/build-opt/contrib/python" PYTHONDONTWRITEBYTECODE=1 \
        /usr/bin/python3 -m pytest -q -p no:cacheprovider -o junit_family=xunit1 --junitxml="$output/frameworks.xml" \
        --numprocesses "$(nproc)" --rootdir tests/python \
        tests/python/frameworks
}
