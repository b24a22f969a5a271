# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# wheel: what a user of pip does: a source distribution of contrib/python, a wheel of that alone, the
# wheel in a clean virtual environment, and the package's tests there. They are those that meson runs
# with the package of the build folder. Sourced by tests/run.sh.
#
# pip takes setuptools, to build with, and mypy from where it is configured to.

wheel_folder=$output/wheel

# In a copy, since setuptools writes beside what it builds.
make_wheel() {
    mkdir -p "$wheel_folder/tree/contrib" &&
        cp -a contrib/python "$wheel_folder/tree/contrib/" && cp -a include src LICENSE "$wheel_folder/tree/" &&
        /usr/bin/python3 -m venv "$wheel_folder/venv" &&
        "$wheel_folder/venv/bin/pip" install -q build mypy==2.4.1 &&
        "$wheel_folder/venv/bin/python" -m build -o "$wheel_folder/dist" "$wheel_folder/tree/contrib/python" &&
        "$wheel_folder/venv/bin/pip" install -q --no-index "$wheel_folder"/dist/pch-*.whl
}

# What is meant for every Python is, and shows nothing but its one function; the stub says what is there.
wheel_is_sound() {
    local module
    module=$("$wheel_folder/venv/bin/python" -c 'import pch._pch as m; print(m.__file__)') || return 1
    [[ $module == */pch/_pch.abi3.so ]] && ls "$wheel_folder"/dist/pch-*-cp310-abi3-linux_*.whl || return 1
    [[ $(nm -D --defined-only "$module" | awk '{ print $3 }') == PyInit__pch ]] || return 1
    (cd "$wheel_folder" && venv/bin/python -m mypy.stubtest pch._pch && venv/bin/python -m mypy --strict -m pch)
}

part_wheel() {
    check build-opt build_opt || return
    check wheel make_wheel || return
    check wheel-sound wheel_is_sound
    run_pytest tests-wheel env PCHRUN_BIN="$PWD/build-opt/src/pchrun" PCHRUN_HELPERS="$PWD/build-opt/tests/helpers" \
        CHARLM="$PWD/build-opt/contrib/examples/charlm" PCH_PYTHON="$wheel_folder/venv/bin/python" PYTHONDONTWRITEBYTECODE=1 \
        /usr/bin/python3 -m pytest -q -p no:cacheprovider --rootdir tests/python tests/python/test_*.py
}
