# SPDX-License-Identifier: Apache-2.0
"""pchrun-watch file, while a program writes the file in place: an unfinished file is no notice.

The number of its waits shows that the watcher has looked meanwhile. An interval of ten minutes is for files
that must not be taken before they are complete, or must be complete long before.
"""

import os

import pytest

from harness import wait_until, wakeups
from test_watch import watch  # noqa: F401 (a fixture)

PATIENT = ["--interval", "10m"]


def looks_and_says(watcher, *types):
    """Waits until the watcher has looked several times; the first waits may have other reasons."""
    before = wakeups(watcher.pid)
    wait_until(lambda: wakeups(watcher.pid) >= before + 6 or watcher.types != list(types), "looks")
    assert watcher.types == list(types), watcher.lines
    assert "trying again" not in watcher.job.err


@pytest.mark.parametrize("half, rest", [('{"type": "log", "id', '": "c"}'), ('{\n', '"type": "log", "id": "c"}\n')])
def test_rewritten_in_place(world, watch, half, rest):  # noqa: F811
    """An empty file would be a notice to terminate, a half-written one no notice at all."""
    path = world.file("notice", '{"type": "checkpoint", "id": "c"}\n')
    watcher = watch("file", path, *PATIENT)
    watcher.wait("checkpoint")
    with open(path, "w", encoding="ascii") as file:
        looks_and_says(watcher, "checkpoint")
        file.write(half)
        file.flush()
        looks_and_says(watcher, "checkpoint")
        file.write(rest)
        file.flush()
        watcher.wait("checkpoint", "log")
    assert "trying again" not in watcher.job.err


def test_words_without_their_end(world, watch):  # noqa: F811
    path = world.root / "notice"
    watcher = watch("file", path, *PATIENT)
    with open(path, "w", encoding="ascii") as file:
        looks_and_says(watcher)
        file.write("node is ")
        file.flush()
        looks_and_says(watcher)
        file.write("drained\n")
        file.flush()
        assert watcher.wait("terminate")["text"] == "node is drained"


@pytest.mark.parametrize("text", ["", "node is drained"])
def test_who_has_closed_it_has_finished(world, watch, text):  # noqa: F811
    path = world.file("notice", '{"type": "checkpoint", "id": "c"}\n')
    watcher = watch("file", path, *PATIENT)
    watcher.wait("checkpoint")
    path.write_text(text)
    watcher.wait("checkpoint", "terminate", "cancel")
    assert watcher.lines[1].get("text", "") == text


def test_what_is_old_is_finished(world, watch):  # noqa: F811
    path = world.file("notice")
    os.utime(path, (1e9, 1e9))
    watch("file", path, *PATIENT).wait("terminate")


def test_nobody_is_waited_for_for_ever(world, watch):  # noqa: F811
    path = world.root / "notice"
    watcher = watch("file", path, "--interval", "50ms")
    with open(path, "w", encoding="ascii") as file:
        file.write("node is ")
        file.flush()
        assert watcher.wait("terminate")["text"] == "node is "
        file.truncate(0)
        file.seek(0)
        file.write('{"type": ')
        file.flush()
        watcher.said(f"{path}: ")
        file.write('"checkpoint", "id": "c"}')
        file.flush()
        watcher.said(f"{path}: it works again")
        watcher.wait("terminate", "checkpoint", "cancel")
