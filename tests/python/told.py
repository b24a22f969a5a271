# SPDX-License-Identifier: Apache-2.0
"""told: how the programs of these tests tell the test something, and wait for it."""

import json
import os
import socket
import time


def say(what, **fields):
    """A line for world.events; one write, since all ranks say something."""
    line = json.dumps({"what": what, "pid": os.getpid(), "rank": int(os.environ.get("RANK", 0)), **fields})
    fd = os.open(os.environ["ACTOR_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, f"{line}\n".encode())
    os.close(fd)


def wait_for(name):
    """Until the test has called world.go_on(name). A test that waits too long fails first, and says for what."""
    end = time.monotonic() + 300
    while not os.path.exists(f"{os.environ['HOLD']}/{name}.hold"):
        if time.monotonic() > end:
            raise TimeoutError(f"the test has not said {name}")
        time.sleep(0.003)


def hold(finished, at=5):
    """Where the test gives a notice (NOTICE): reports that this rank has finished `at` steps, and waits for the
    notice."""
    if finished == at and "NOTICE" in os.environ and not int(os.environ.get("PCH_RESUME_STEP", 0)):
        say("training")
        wait_for("on")


def begin():
    """Says where the ranks of this generation meet, on which host this rank is, and since when. `older` are the ranks of
    earlier generations that still live."""
    say("begins", generation=_generation(os.environ), host=socket.gethostname(), at=time.monotonic(),
        meets=f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", older=_older())


def trains(step, hold=24):
    """Says that this rank trains. Before the loss of a node (LOST) the ranks are slow, and wait in the end."""
    generation = _generation(os.environ)
    say("trains", generation=generation, step=step, at=time.monotonic())
    if "LOST" in os.environ and generation == 0:
        time.sleep(0.05)
        if step == hold:
            wait_for("on")


def _generation(variables):
    return int(variables["PCH_GENERATION"])


def _older():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                words = [word.partition("=") for word in os.fsdecode(file.read()).split("\0")]
        except OSError:  # it has ended
            continue
        variables = {name: value for name, _, value in words}
        if variables.get("ACTOR_LOG") == os.environ["ACTOR_LOG"] and "PCH_GENERATION" in variables:
            found += [pid] if _generation(variables) < _generation(os.environ) else []
    return found


def attempt(call):
    """Prints what the call returns, or the first line of what it raises."""
    try:
        print(call())
    except (Exception, SystemExit) as error:
        print(f"{type(error).__name__}: {error}".splitlines()[0])


def path_of(step):
    return f"{os.environ['CHECKPOINTS']}/step-{step}.rank-{os.environ.get('RANK', 0)}"


def save(step, state):
    path = path_of(step)
    with open(path, "w", encoding="ascii") as file:
        file.write(str(state))
        file.flush()
        os.fsync(file.fileno())
    return path


def load(path):
    if path is None:
        return 0
    with open(path, encoding="ascii") as file:
        return int(file.read())
