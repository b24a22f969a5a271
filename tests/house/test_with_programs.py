# SPDX-License-Identifier: Apache-2.0
"""contrib/python/with_programs.py asks the meson that made the build, even if another one is first in PATH.
Here a script replaces meson; tests/ci/wheel.sh makes a wheel with the real meson."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "contrib/python/with_programs.py"
OPTIONS = {"bindir": "bin", "b_sanitize": "none"}
MESON = """#!/bin/sh
case "$*" in
"introspect --buildoptions "*) echo '{options}' ;;
"introspect --projectinfo "*) echo '{{"version": "9.8.7"}}' ;;
*) exit 1 ;;
esac
"""


def program(path, text):
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(0o700)


@pytest.fixture
def build(tmp_path):
    """A build folder made by a meson whose path has characters that ninja and shells quote."""
    program(tmp_path / "a $meson: 'it'/meson",
            MESON.format(options=json.dumps([{"name": name, "value": value} for name, value in OPTIONS.items()])))
    folder = tmp_path / "build"
    folder.mkdir()
    quoted = f"{tmp_path}/a$ $$meson$:$ '\"'\"'it'\"'\"'/meson"
    (folder / "build.ninja").write_text("build meson-internal__install: CUSTOM_COMMAND PHONY | all\n"
                                        f" DESC = Installing$ files.\n COMMAND = '{quoted}' install --no-rebuild\n")
    return folder


def refused(build):
    """Returns the error for a wheel whose version differs from the build's."""
    program(build.parent / "first/meson", "#!/bin/sh\necho this is another >&2; exit 1\n")
    done = subprocess.run([sys.executable, PROGRAM, build, "pch-1.0-cp310-abi3-linux_x86_64.whl", "-o", build],
                          env={**os.environ, "PATH": f"{build.parent}/first:{os.environ['PATH']}"},
                          text=True, capture_output=True, check=False, timeout=60)
    assert done.returncode == 1 and done.stdout == "", done
    return done.stderr


def test_the_meson_that_has_made_it(build):
    assert refused(build) == (f"with_programs: pch-1.0-cp310-abi3-linux_x86_64.whl is not of the version of {build}, "
                              "9.8.7\n")


def test_it_is_gone(build):
    (build.parent / "a $meson: 'it'/meson").unlink()
    assert f"{build} was made by {build.parent}/a $meson: 'it'/meson, which is not there any more; " in refused(build)


@pytest.mark.parametrize("rules, said", [
    (None, "build.ninja: No such file or directory; a folder that is built is wanted: meson setup"),
    ("build all: phony\n", "build.ninja does not tell which meson has made it; make it anew: meson setup"),
])
def test_no_folder_of_meson(build, rules, said):
    (build / "build.ninja").unlink()
    if rules:
        (build / "build.ninja").write_text(rules)
    assert said in refused(build)
