# SPDX-License-Identifier: Apache-2.0
"""checkup: runs pchrun --doctor and reads what it has found."""

import re


def files_below(world):
    """All but what the test itself keeps of a job: its output, and reports of sanitizers."""
    return {path for path in world.root.rglob("*") if not re.match(r"(out|err)\d+|sanitizer|fds", path.name)}


def doctor(world, *options, wanted=0, before=(), command=None, env=None):
    """Its findings: {name: (verdict, text, advice)}. Nothing was run, and nothing is left."""
    there = files_below(world)
    job = world.start(*before, world.pchrun, "--doctor", "--run-dir", world.root, *options, "--",
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


def verdicts(found, verdict):
    return {name for name, finding in found.items() if finding[0] == verdict}
