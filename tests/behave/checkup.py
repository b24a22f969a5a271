# SPDX-License-Identifier: Apache-2.0
"""checkup: runs pchrun --doctor and reads its findings."""

import functools
import json
import os
import re
import subprocess
import sys

import pytest

from harness import CHARLM, DEADLINE


def files_below(world):
    """All files except those that the test keeps of a job: its output, and reports of sanitizers."""
    return {path for path in world.root.rglob("*") if not re.match(r"(out|err)\d+|sanitizer|fds", path.name)}


IN_NAMESPACE = ["/usr/bin/unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
INIT = [sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"]


def cannot_enter_a_namespace():
    """The reason: not root, or "/" is no mount point, as in a chroot. Empty: the test can enter one."""
    return subprocess.run([*IN_NAMESPACE, "true"], capture_output=True, text=True).stderr.strip()


@functools.cache
def below_no_shell():
    """The tests may run in a container whose process 1 is a shell, as in `docker run -it debian bash`. --doctor
    reports this as bad, and most tests are about something else. In such a container they run in a namespace
    with an init."""
    try:
        program = os.readlink("/proc/1/exe")
    except OSError:  # another user's
        with open("/proc/1/comm", encoding="utf-8") as file:
            program = file.read().strip()
    if os.path.basename(program) not in ("sh", "bash", "dash", "ash", "ksh", "zsh", "busybox"):
        return []
    why = cannot_enter_a_namespace()
    if why:
        pytest.skip(f"process 1 is a shell: {why}")
    return [*IN_NAMESPACE, *INIT]


def doctor(world, *options, wanted=0, before=(), command=None, env=None):
    """The findings of --doctor: {name: (verdict, text, advice)}. No command was run, and nothing is left."""
    there = files_below(world)
    apart = [] if "--pid" in before else below_no_shell()
    job = world.start(*apart, *before, world.pchrun, "--doctor", "--run-dir", world.root, *options, "--",
                      *(command or ["sh", "-c", f"touch {world.root}/was-run"]), env=env)
    assert job.finish() == wanted, job.out + job.err
    assert files_below(world) == there
    found = {}
    for line in job.out.splitlines():
        verdict, name, text = line[:8].strip(), line[9:23].strip(), line[24:]
        if verdict:
            found[last := name] = (verdict, text, "")
        else:
            found[last] = (*found[last][:2], text.removeprefix("-> "))
    return found


def trained(world, save_ms):
    """A checkpoint directory with a record of saves that took `save_ms`."""
    folder = world.root / "ckpt"
    world.launch("--checkpoint-dir", folder, "--checkpoint-every", "3", "--", CHARLM, "--steps", "4",
                 "--step-time", "20", "--save-time", save_ms, "--dir", folder, code=0)
    return folder


def shown(world, *options, env=None):
    """The settings that --print-config shows for these options and this environment alone."""
    done = subprocess.run([world.pchrun, *map(str, options), "--print-config"], text=True, timeout=DEADLINE,
                          env={"PATH": world.env["PATH"], **(env or {})}, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def verdicts(found, verdict):
    return {name for name, finding in found.items() if finding[0] == verdict}
