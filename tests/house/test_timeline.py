# SPDX-License-Identifier: Apache-2.0
"""The picture docs/timeline.svg: it is what pchctl timeline draws from the kept state of a real run. It shows all that
happened, its caption in README.md is true, and no two of its texts overlap. PCHCTL is the program."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / "docs/timeline"
SVG = "{http://www.w3.org/2000/svg}"
SIZES = {"small": 18, "letter": 17}
LETTERS = {True: 0.7, False: 0.58}  # the mean width of a letter, bold or not, in sizes of DejaVu Sans, a wide font


def said(*words):
    return subprocess.run([os.environ["PCHCTL"], *words], text=True, capture_output=True, timeout=30, check=True).stdout


@pytest.fixture(scope="module", name="drawn")
def fixture_drawn():
    return said("timeline", STATE)


@pytest.fixture(scope="module", name="hours")
def fixture_hours():
    return json.loads(said("goodput", "--json", STATE))


def boxes(drawn):
    """(words, left, right, base) of each text."""
    groups = {child: parent for parent in ET.fromstring(drawn).iter() for child in parent}
    for text, parent in groups.items():
        if text.tag != f"{SVG}text":
            continue
        own = set(text.get("class", "").split()) & set(SIZES)
        head = re.fullmatch(r"font-size:(\d+)px", parent.get("style", ""))
        size = int(head[1]) if head else SIZES[own.pop()] if own else 20
        words, x = text.text, float(text.get("x"))
        width = len(words) * size * LETTERS[bool(head)]
        left = x - {"start": 0, "middle": width / 2, "end": width}[text.get("text-anchor", "start")]
        yield words, left, left + width, float(text.get("y"))


def overlaps(drawn):
    placed = list(boxes(drawn))
    return [(one[0], other[0]) for i, one in enumerate(placed) for other in placed[:i]
            if one[1] < other[2] and other[1] < one[2] and abs(one[3] - other[3]) < 16]


def test_the_picture_is_the_one_of_the_state(drawn):
    """After a change of the drawing: docs/timeline.py draw."""
    assert (ROOT / "docs/timeline.svg").read_text() == drawn
    assert len(drawn) < 40_000 and "<script" not in drawn and "http" not in drawn.replace(SVG[1:-1], "")
    assert "prefers-color-scheme:dark" in drawn


def test_it_shows_what_happened(drawn, hours):
    tree = ET.fromstring(drawn)
    texts = [text.text for text in tree.iter(f"{SVG}text")]
    assert [group.get("data-flag") for group in tree.iter(f"{SVG}g") if group.get("data-flag")] == [
        "notice", "cause", "notice"]
    assert {"SIGTERM to node 1", "rank 3 on node 1: SIGSEGV", "SIGTERM to node 0"} <= set(texts)
    assert {"attempt 1: preempted", "attempt 2: preempted", "attempt 3: completed"} <= set(texts)
    assert f"{hours['lost_steps']} steps lost" in texts
    commits = [line for line in (STATE / "ledger").read_text().splitlines() if json.loads(line)["mark"] == "commit"]
    assert sum("commit of step" in title.text for title in tree.iter(f"{SVG}title")) == len(commits) > 5


def test_readme_s_caption_is_true(hours):
    readme = (ROOT / "README.md").read_text()
    lost = [attempt["lost_steps"] for attempt in hours["attempts"]]
    assert [attempt["end"] for attempt in hours["attempts"]] == ["preempted", "preempted", "completed"]
    assert lost == [0, int(re.search(r"0 steps are lost at the preemptions, (\d+) at the crash", readme)[1]), 0]
    flat = re.sub(r"\s+", " ", readme)
    assert f"{lost[1]} steps are trained again" in flat
    told = re.search(r"which counts, here (\d+) %\. The rest of these (\d+) seconds: (\d+) % starts, and pauses until the scheduler "
                     r"starts the job again; (\d+) % what the crash lost; (\d+) % saves\.", flat)
    assert told, "the caption says why the goodput is not 100 %"
    parts = {"kept": ("training_kept",), "starts": ("starting", "queued", "waiting", "restarting", "stopping"),
             "lost": ("training_lost",), "saves": ("saving",)}
    shares = [round(100 * sum(hours["ms"][kind] for kind in kinds) / hours["wall_ms"]) for kinds in parts.values()]
    assert [int(share) for share in told.groups()] == [shares[0], round(hours["wall_ms"] / 1000), *shares[1:]]
    assert {span["generation"] for span in hours["spans"] if span["kind"] == "training_lost"} == {0}
    assert [attempt["generations"] for attempt in hours["attempts"]] == [1, 2, 1]


def test_no_two_texts_overlap(drawn):
    assert overlaps(drawn) == []
    assert all(0 < left and right < 1000 for _, left, right, _ in boxes(drawn))
    assert overlaps(re.sub(r' y="[\d.]+"', ' y="20"', drawn))  # the check can fail


@pytest.mark.parametrize("words, code, part", [
    (["--help"], 0, "docs/timeline.py run"), ([], 2, "usage:"),
    (["draw", "nowhere"], 1, "src/pchctl is not there: first build it"),
    (["run", "nowhere"], 1, "src/pchrun is not there: first build it")])
def test_the_command_line(words, code, part):
    done = subprocess.run([sys.executable, ROOT / "docs/timeline.py", *words], text=True, capture_output=True,
                          timeout=30, check=False)
    assert done.returncode == code and part in done.stdout + done.stderr
