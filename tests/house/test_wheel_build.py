# SPDX-License-Identifier: Apache-2.0
"""The build as pip runs it, without pip and without meson-python: what it says if headers are missing, the package for
Python alone, and the folders of a wheel. Also the folders of `meson install`.
"""

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHEEL = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["meson-python"]["args"]["setup"]


@pytest.fixture(name="setup")
def fixture_setup(tmp_path):
    """Sets a build folder up as pip does; returns the exit status, the output, and a reader of meson's files."""
    build = tmp_path / "build"

    def setup(*options, **env):
        done = subprocess.run(["meson", "setup", build, ROOT, *WHEEL, *options], env={**os.environ, **env}, text=True,
                              capture_output=True, check=False, timeout=100)
        return done.returncode, done.stdout, lambda name: json.loads((build / f"meson-info/{name}.json").read_text())
    return setup


def test_what_is_missing_is_named_at_once(setup, tmp_path):
    status, said, _ = setup(PKG_CONFIG_LIBDIR=str(tmp_path))
    assert status == 1 and "missing: libevent from 2.1.12, jansson from 2.13, ncurses from 6.0" in said, said
    assert "on Debian or Ubuntu: apt-get install libevent-dev libjansson-dev libncurses-dev" in said


def test_the_package_alone_is_another_version(setup, tmp_path):
    """It needs no headers but Python's, and pip would take a wheel of the same version for the whole."""
    status, said, read = setup(f"--native-file={ROOT}/contrib/python/alone.ini", PKG_CONFIG_LIBDIR=str(tmp_path))
    assert status == 0, said
    assert read("intro-projectinfo")["version"].endswith("+nopchrun")
    plan = [entry["destination"] for kind in read("intro-install_plan").values() for entry in kind.values()]
    assert len(plan) > 10 and [path for path in plan if not path.startswith("{py_platlib}/pch/")] == []


def test_every_file_has_a_place_in_a_wheel(setup):
    """meson-python knows the folders by these names. Before meson 1.11 pch.pc's folder has no name."""
    status, said, read = setup()
    assert status == 0, said
    places = [entry["destination"] for kind in read("intro-install_plan").values() for entry in kind.values()]
    assert {"{bindir}/pchrun", "{datadir}/include/pch.h", "{datadir}/lib/libpch.a", "{datadir}/share/man/man1/pchrun.1",
            "{datadir}/share/pchrun/python/sitecustomize.py", "{py_platlib}/pch/_pch.abi3.so"} <= set(places)
    known = ("{bindir}/", "{datadir}/include/", "{datadir}/lib/", "{datadir}/share/", "{py_platlib}/pch/")
    assert [path for path in places if not path.startswith(known)] in ([], ["./lib/pkgconfig/pch.pc"])


@pytest.mark.parametrize("prefix", ["/usr/local", "/usr"])
def test_what_is_installed_is_found(tmp_path, prefix):
    """pkg-config, the loader and Python look into the folders, also on a Debian without dpkg-dev: there meson takes lib64."""
    if not Path("/etc/debian_version").exists():
        pytest.skip("other systems have other folders")
    (tmp_path / "dpkg-architecture").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "dpkg-architecture").chmod(0o755)

    def said(*command):
        return subprocess.run(command, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, text=True,
                              capture_output=True, check=True, timeout=100).stdout
    said("meson", "setup", tmp_path / "build", ROOT, f"--prefix={prefix}", "-Dtests=disabled", "-Dpython=enabled")
    installed = json.loads(said("meson", "introspect", "--installed", tmp_path / "build")).values()
    folder = {Path(path).name: str(Path(path).parent) for path in installed}
    assert folder["pch.pc"] in said("pkg-config", "--variable=pc_path", "pkg-config").strip().split(":")
    searched = re.findall(r"^(/.*?):", said("/sbin/ldconfig", "-NXv"), re.M)
    assert folder["libpch.so"] in map(os.path.realpath, searched)
    assert folder["_pch.abi3.so"] == folder["_attach.py"]
    paths = said("/usr/bin/python3", "-c", "import sys; print(*sys.path, sep=chr(10))").split("\n")
    assert str(Path(folder["_pch.abi3.so"]).parent) in paths
