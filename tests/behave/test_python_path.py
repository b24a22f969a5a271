# SPDX-License-Identifier: Apache-2.0
"""The variables that `--instrument` sets for the commands; tests/python/test_instrument.py tests their effect
in Python."""

import os
import shutil
from pathlib import Path

import pytest

OWN_ERROR = 125
SHOW = ("sh", "-c", 'printf "%s\\n" "${PYTHONPATH-unset}" "${PCH_INSTRUMENT-unset}" "${PCH_CHECKPOINT_DIR-unset}"')
CUSTOM = Path(__file__).resolve().parents[2] / "contrib/python/instrument/sitecustomize.py"


def shown(world, *options, command=SHOW, **more):
    job = world.launch(*options, "--", *command, **more)
    code = job.finish()
    return code, job.out.splitlines()


def test_it_goes_before_what_is_there(world):
    code, (ours, on, folder) = shown(world, "--instrument")
    assert (code, on, folder) == (0, "1", "unset")
    assert Path(ours, "sitecustomize.py").read_text() == CUSTOM.read_text()
    assert os.listdir(ours) == ["sitecustomize.py"], "nothing else is to be found by it"
    checkpoints = world.root / "run7"
    checkpoints.mkdir()
    code, lines = shown(world, "--instrument", "--checkpoint-dir", checkpoints, env={"PYTHONPATH": "/theirs:"})
    assert lines == [f"{ours}:/theirs:", "1", str(checkpoints)]
    assert shown(world, "--instrument", env={"PYTHONPATH": ""})[1][0] == ours, "no empty part: it is the directory"


def test_the_folder_of_the_checkpoints(world):
    """Every program gets it, as an absolute path, and finds it made. Once only `--instrument` set it."""
    folder = world.cwd / "run7"
    check = ("sh", "-c", 'cd / && test -d "$PCH_CHECKPOINT_DIR" && echo "$PCH_CHECKPOINT_DIR"')
    assert shown(world, "--checkpoint-dir", "run7", command=check) == (0, [str(folder)])


def test_off_and_on_again(world):
    """An inner pchrun does not inherit the option: nothing is hooked there, unless its own user asks for it."""
    assert shown(world, env={"PYTHONPATH": "/theirs", "PCH_INSTRUMENT": "1", "PCH_CHECKPOINT_DIR": "/x"})[1] == [
        "/theirs", "unset", "unset"]
    code, lines = shown(world, "--instrument", command=(world.pchrun, "--", *SHOW))
    assert code == 0 and lines[1:] == ["unset", "unset"]


@pytest.mark.parametrize("what", ["alone", "as a whole", "in a wheel"])
def test_where_it_is_looked_for(world, what):
    """pchrun looks beside itself, wherever it is installed. If the file is missing, nothing is started."""
    pchrun = world.root / "usr/scripts/pchrun" if what == "in a wheel" else world.root / "usr/bin/pchrun"
    pchrun.parent.mkdir(parents=True)
    shutil.copy(world.pchrun, pchrun)
    custom = world.root / ("usr/data/share" if what == "in a wheel" else "usr/share") / "pchrun/python/sitecustomize.py"
    if what != "alone":
        custom.parent.mkdir(parents=True)
        shutil.copy(CUSTOM, custom)
    world.pchrun = str(pchrun)
    job = world.launch("--instrument", "--", *SHOW)
    code = job.finish()
    if what == "alone":
        assert (code, job.out) == (OWN_ERROR, "")
        assert "--instrument needs " in job.err and "install pchrun as a whole" in job.err
        assert job.err.count("sitecustomize.py") == 1
    else:
        assert (code, job.out.splitlines()[0]) == (0, str(custom.parent))
