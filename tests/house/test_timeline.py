# SPDX-License-Identifier: Apache-2.0
"""The picture docs/timeline.svg: it is what docs/timeline.py draws from the kept journal of a real run. It shows all
that happened, no two of its texts overlap, and a damaged journal is named, not drawn."""

import importlib.util
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
JOURNAL = ROOT / "docs/timeline.jsonl"
SVG = "{http://www.w3.org/2000/svg}"
SIZE = 22
LETTERS = {True: 0.7, False: 0.62}  # the mean width of a letter, bold or not, in sizes of DejaVu Sans, a wide font

spec = importlib.util.spec_from_file_location("timeline", ROOT / "docs/timeline.py")
timeline = importlib.util.module_from_spec(spec)
spec.loader.exec_module(timeline)


def lives(journal=JOURNAL):
    return timeline.lives_of(timeline.read(journal))


@pytest.fixture(scope="module", name="drawn")
def fixture_drawn():
    return timeline.Picture(lives()).draw()


def texts_of(drawn):
    return [text.text for text in ET.fromstring(drawn).iter(f"{SVG}text")]


def boxes(drawn):
    """(words, left, right, base) of each text."""
    for text in ET.fromstring(drawn).iter(f"{SVG}text"):
        words, x = text.text, float(text.get("x"))
        width = len(words) * SIZE * LETTERS["strong" in text.get("class", "")]
        left = x - {"start": 0, "middle": width / 2, "end": width}[text.get("text-anchor")]
        yield words, left, left + width, float(text.get("y"))


def overlaps(drawn):
    placed = list(boxes(drawn))
    return [(one[0], other[0]) for i, one in enumerate(placed) for other in placed[:i]
            if one[1] < other[2] and other[1] < one[2] and abs(one[3] - other[3]) < SIZE]


def test_the_picture_is_the_one_of_the_journal(drawn):
    """After a change of the drawing: docs/timeline.py draw."""
    assert (ROOT / "docs/timeline.svg").read_text() == drawn
    assert len(drawn) < 40_000 and "<script" not in drawn and "http" not in drawn.replace(SVG[1:-1], "")


def test_readme_s_caption_is_true():
    readme = (ROOT / "README.md").read_text()
    lost = [life.lost for life in lives()[:-1]]
    assert lost == [0, int(re.search(r"(\d+) at the crash", readme)[1]), 0]
    assert f"{lost[1]} steps are trained again" in readme


def test_it_shows_what_happened(drawn):
    marks = [element.get("class") for element in ET.fromstring(drawn).iter()]
    texts = texts_of(drawn)
    events = timeline.read(JOURNAL)
    committed = {(event.attempt, event.step) for event in events if event.event == "committed"}
    ends = {event.exit_code for event in events if event.event == "exit"}
    assert ends == {0, 42}
    assert marks.count("save") == len(committed)
    assert marks.count("deadline") == texts.count("SIGTERM") == 2
    assert marks.count("cross") == texts.count("crash") == texts.count("SIGSEGV") == 1
    assert texts.count("0 steps lost") == 2
    assert texts.count("42") == 4 and texts.count("0") == 2
    resumed = {str(life.resumed) for life in lives() if life.resumed}
    assert len(resumed) == 3 and resumed <= set(texts)


def test_the_ends_of_the_steps_agree():
    """Lost steps follow from where one generation ended and where the next one began."""
    all_lives = lives()
    assert [bool(life.failed) for life in all_lives] == [False, True, False, False]
    for life, after in zip(all_lives, all_lives[1:]):
        assert after.resumed == life.commits[-1].step
        assert (life.lost > 0) == bool(life.failed)


def test_no_two_texts_overlap(drawn):
    assert overlaps(drawn) == []
    assert all(0 < left and right < timeline.WIDTH for _, left, right, _ in boxes(drawn))
    assert overlaps(drawn.replace(' y="', ' y="20" was="'))  # the check can fail


def changed(tmp_path, change):
    path = tmp_path / "journal.jsonl"
    path.write_text("".join(f"{line}\n" for line in change(JOURNAL.read_text().splitlines())))
    return path


@pytest.mark.parametrize("change, fault", [
    (lambda lines: [*lines[:5], lines[5][:40], *lines[6:]], "journal.jsonl:6: this is not a line of a journal"),
    (lambda lines: [*lines, '{"event":"dropped","count":3}'], "the journal lacks 3 events"),
    (lambda lines: [*lines[:2], "[]", *lines[2:]], "journal.jsonl:3: this is not a line of a journal"),
    (lambda lines: lines[:len(lines) // 4], "lacks its start or its end"),
    (lambda lines: [line for line in lines if json.loads(line)["event"] != "committed"], "but no save"),
    (lambda lines: [], "the journal is empty"),
], ids=["cut", "dropped", "other", "half", "unsaved", "empty"])
def test_a_damaged_journal_is_named(tmp_path, change, fault):
    with pytest.raises(timeline.Fault, match=fault):
        lives(changed(tmp_path, change))


@pytest.mark.parametrize("words, code, part", [
    (["--help"], 0, "docs/timeline.py run"), ([], 2, "usage:"), (["draw", "nowhere"], 1, "cannot read the journal"),
    (["run", "nowhere"], 1, "pchrun is not there: first build it")])
def test_the_command_line(words, code, part):
    done = subprocess.run([sys.executable, ROOT / "docs/timeline.py", *words], text=True, capture_output=True,
                          timeout=30, check=False)
    assert done.returncode == code and part in done.stdout + done.stderr
