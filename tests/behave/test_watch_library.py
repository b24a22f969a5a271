# SPDX-License-Identifier: Apache-2.0
"""pchrun-watch loads libcurl when it asks a service: what it does without libcurl, or with another
library in its place."""

import re
import subprocess
from pathlib import Path

import pytest

from harness import libm_of
from test_watch import QUICK, gce, serving, watch  # noqa: F401 (fixtures)

NAMES = ("libcurl.so.4", "libcurl-gnutls.so.4")


@pytest.fixture
def folder(world):
    """A folder that is searched before the system's. The files under both names there are no libraries."""
    folder = world.root / "lib"
    folder.mkdir()
    for name in NAMES:
        (folder / name).write_bytes(b"")
    return folder


def libcurl():
    """Where the system has libcurl."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    return Path(re.search(rf"{NAMES[0]} .*=> (\S+)", listed)[1])


@pytest.mark.parametrize("source", ["gce", "aws", "azure", "alibaba", "tencent"])
def test_a_service_is_not_asked_without_it(watch, folder, source):  # noqa: F811
    one = watch(source, "--endpoint", "http://127.0.0.1:1", env={"LD_LIBRARY_PATH": str(folder)})
    assert one.job.finish() == 1 and not one.lines
    for word in (f"{source}: an HTTP request needs libcurl", "file too short", "apt-get install libcurl4",
                 "unset LD_LIBRARY_PATH"):
        assert word in one.job.err


def test_another_library_under_its_name(watch, folder, world):  # noqa: F811
    for name in NAMES:
        (folder / name).unlink()
        (folder / name).symlink_to(libm_of(world.pchrun))
    one = watch("gce", "--endpoint", "http://127.0.0.1:1", env={"LD_LIBRARY_PATH": str(folder)})
    assert one.job.finish() == 1
    assert "needs libcurl" in one.job.err and "undefined symbol: curl_" in one.job.err


def test_a_file_is_watched_without_it(watch, folder, world):  # noqa: F811
    one = watch("file", world.file("notice"), env={"LD_LIBRARY_PATH": str(folder)})
    one.wait("terminate")
    one.end()


def test_debians_other_build_does(watch, gce, folder):  # noqa: F811
    """Debian's libcurl with GnuTLS, which comes with git, works if the build with OpenSSL is missing."""
    (folder / NAMES[1]).unlink()
    (folder / NAMES[1]).symlink_to(libcurl())
    gce.set("preempted", "TRUE")
    one = watch("gce", *QUICK, "--endpoint", gce.url, env={"LD_LIBRARY_PATH": str(folder)})
    one.wait("terminate")
    one.end()
