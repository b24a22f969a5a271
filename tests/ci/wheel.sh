# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# wheel: does what a user of pip does. wheels.sh makes the source distribution and the wheels. pip builds the source
# distribution here, whole and as the package alone. This installs the wheel in an environment of its own, and runs
# the package's tests there with that pchrun: those that meson runs, and test_wheel.py. Sourced by tests/run.sh.
#
# part_wheels tries the wheels where they must work: on aarch64, and on other Debians.
# pip takes meson-python and the tools from the package index that it is configured with.

wheels=$PWD/build-wheels
wheel_folder=$output/wheel
wheel_user="$wheel_folder/an environment" # with a blank, so that missing quotes are found

make_wheels() {
    contrib/python/wheels.sh "$wheels" x86_64 aarch64 && touch "$output/wheels-made"
}

# Four nodes with a key under an emulator, with OpenSSL 1.1.1.
wheel_on_aarch64() {
    local system=$wheels/work/emulated programs=$output/aarch64 built=$wheels/work/aarch64/build name
    contrib/python/sysroot.sh "$system" bullseye arm64 libc6 libssl1.1 &&
        unzip -qo "$wheels"/pchrun-*aarch64.whl '*/scripts/*' -d "$programs" &&
        mv "$programs"/*.data/scripts "$programs/real" && cp "$built/contrib/examples/charlm" "$programs/real" || return 1
    for name in pchrun charlm; do
        printf '#!/bin/sh\nexec qemu-aarch64-static -L "%s" -E LD_LIBRARY_PATH="%s" "%s" "$@"\n' "$system" \
            "$built/src/libpch/product" "$programs/real/$name" >"$programs/$name" || return 1
    done
    chmod +x "$programs"/{pchrun,charlm,real/*} && contrib/quickstart.sh --programs "$programs"
}

wheel_on_debian() {
    local built=$wheels/work/x86_64/build programs=$output/programs
    mkdir -p "$programs" && cp "$built"/contrib/examples/charlm "$built"/src/libpch/product/libpch.so.0 "$programs" &&
        tests/chroot.sh --suite "$1" --cache "$wheels/work/cache" --copy "$wheels"/pchrun-*x86_64.whl --copy "$programs" \
            --command "tests/ci/inside-wheel.bash /root/pchrun-*.whl /root/programs"
}

part_wheels() {
    check wheels make_wheels || return
    check wheel-aarch64 wheel_on_aarch64
    if unshare --mount --pid --fork true 2>/dev/null; then
        check wheel-debian-11 wheel_on_debian bullseye
        check wheel-debian-13 wheel_on_debian trixie
    else
        skip wheel-debian "no namespaces: not root, or in a container that forbids them"
    fi
}

# As a user without a wheel gets it.
make_wheel() {
    /usr/bin/python3 -m venv "$wheel_folder/venv" && "$wheel_folder/venv/bin/pip" install -q mypy==2.4.1 uv pipx &&
        "$wheel_folder/venv/bin/pip" install -q "$wheels"/pchrun-*.tar.gz && "$wheel_folder/venv/bin/pchrun" -- true
}

# pip replaces the package alone, which is built from a clone and has no programs, by the wheel.
package_alone() {
    local env=$wheel_folder/alone
    /usr/bin/python3 -m venv "$env" && "$env/bin/pip" install -q . \
        "--config-settings=setup-args=--native-file=$PWD/contrib/python/alone.ini" &&
        (cd "$env" && bin/python -c 'import pch') && "$env/bin/pip" list | grep -E '^pchrun +[0-9.]+\+nopchrun$' &&
        [[ ! -e $env/bin/pchrun ]] && "$env/bin/pip" install -q --no-index "$wheels"/pchrun-*_"$(uname -m)".whl &&
        "$env/bin/pchrun" -- true
}

# With uvx the wheel's environment comes first in PATH; pipx leaves PATH as it is.
runs_from_the_wheel() {
    local wheel home=$wheel_folder/home
    wheel=$(echo "$wheels"/pchrun-*_"$(uname -m)".whl)
    mkdir "$home" &&
        HOME=$home "$wheel_folder/venv/bin/uvx" --from "$wheel" pchrun -- python -c 'import pch; pch.attach()' &&
        HOME=$home "$wheel_folder/venv/bin/pipx" run --spec "$wheel" pchrun -- /usr/bin/python3 -c 'print("trains")'
}

# The module fits every Python from 3.10 on and exports one function only. The stub matches the module.
wheel_is_sound() {
    local module
    module=$("$wheel_folder/venv/bin/python" -c 'import pch._pch as m; print(m.__file__)') || return 1
    [[ $module == */pch/_pch.abi3.so ]] || return 1
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
install_programs() {
    ls "$wheels"/pchrun-*-cp310-abi3-manylinux_2_28_{x86_64,aarch64}.whl &&
        /usr/bin/python3 -m venv --without-pip "$wheel_user" && wheel_user_files >"$wheel_folder/before" &&
        in_wheel_user install -q --no-index "$wheels"/pchrun-*_"$(uname -m)".whl
}

uninstall_programs() {
    in_wheel_user uninstall -q -y pchrun && diff "$wheel_folder/before" <(wheel_user_files)
}

part_wheel() {
    check build-opt build_opt || return
    [[ -e $output/wheels-made ]] || check wheels make_wheels || return
    check wheel make_wheel || return
    check wheel-sound wheel_is_sound
    check wheel-alone package_alone
    check wheel-run runs_from_the_wheel
    check wheel-programs install_programs || return
    run_pytest tests-wheel env PCHRUN_BIN="$wheel_user/bin/pchrun" \
        PCHRUN_HELPERS="$PWD/build-opt/tests/helpers" CHARLM="$PWD/build-opt/contrib/examples/charlm" \
        PCH_PYTHON="$wheel_user/bin/python" PYTHONDONTWRITEBYTECODE=1 \
        /usr/bin/python3 -m pytest -q -p no:cacheprovider -o junit_family=xunit1 --junitxml="$output/wheel.xml" \
        --rootdir tests/python --ignore tests/python/frameworks tests/python
    check wheel-uninstalled uninstall_programs
}
