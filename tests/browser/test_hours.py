# SPDX-License-Identifier: Apache-2.0
"""The timeline on the page of pchrun-web in a real browser, from ledgers that the tests write, and from real jobs."""

import collections
import itertools
import json
import os
import re
import subprocess
import time
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from deadfs import dead  # noqa: F401
from harness import DEADLINE
from ledger import Ledger
from selenium.webdriver.common.keys import Keys
from supervisor import job

PCHCTL = os.environ["PCHCTL"]
MINUTE, HOUR = 60, 3600
HOSTILE = "<img src=x onerror=\"window.hacked=1\"><b>bold</b>&lt;'\"`</script>\u202egnp.exe"


class Past(Ledger):
    """A job that began so many hours ago, trains at 3 steps a second, and saves every ten minutes."""

    def __init__(self, folder, hours):
        super().__init__(folder, "llama-7b-run12", int(time.time()) - int(hours * HOUR))
        self.step = self.generation = 0

    def mark(self, kind, step, **more):
        super().mark(kind, step, generation=self.generation, **more)

    def event(self, kind, node=0, **more):
        super().event(kind, node, **{"generation": self.generation, **more})

    def wait(self, kind, seconds):
        self.mark(kind, self.step)
        self.at += seconds

    def train(self, seconds):
        """Training with its saves; the last part is not saved."""
        while seconds > 0:
            part = min(10 * MINUTE, seconds)
            self.mark("training", self.step)
            self.at += part
            self.step += 3 * part
            seconds -= part
            if seconds > 0:
                self.save()

    def save(self):
        self.wait("saving", 9)
        self.mark("commit", self.step)
        self.committed = self.step

    def preempt(self, queued, text="Spot capacity is reclaimed", prepares=0):
        """The scheduler starts the job so many seconds before pchrun, if it says so."""
        self.event("notice", source="gce", of_node=1, left_ms=25000, text=text)
        self.at += 20
        self.save()
        self.stop("preempted", 42, f"saved and committed at step {self.step}")
        self.at += queued
        self.start({"job_start_ms": 1000 * (self.at - prepares)} if prepares else {})

    def crash(self, rank=5, text="rank 5: process 4711 ended with signal 11 (Segmentation fault)"):
        """A restart in place."""
        self.event("failed", of_node=1, rank=rank, code=139, text=text)
        self.wait("restarting", 40)
        self.generation += 1
        self.step = self.committed
        self.wait("starting", 80)

    def start(self, more=None):
        self.attempt += 1
        self.generation = 0
        self.event("started", commands=8)
        self.mark("starting", self.step, job=self.job, **(more or {}))
        self.at += 3 * MINUTE

    def stop(self, outcome, code, text):
        self.wait("stopping", 12)
        self.mark("ended", self.step, outcome=outcome)
        self.event("exit", outcome=outcome, exit_code=code, text=text)

    def until_now(self):
        self.mark("training", self.step)
        self.step += 3 * (int(time.time()) - self.at)
        self.at = int(time.time())
        self.mark("tick", self.step)
        return self.write()


def long_past(folder, ends=True):
    """Thirty hours with all kinds of spans. If the job has ended, its figures do not change."""
    past = Past(folder, 30)
    past.start()
    past.wait("waiting", 20 * MINUTE)
    past.train(7 * HOUR)
    past.preempt(90 * MINUTE, prepares=25 * MINUTE)
    past.train(6 * HOUR + 500)
    past.crash()
    past.train(4 * HOUR)
    past.wait("hung", 25 * MINUTE)
    past.step = past.committed
    past.stop("hang", 42, "no rank moves")
    past.at += 10 * MINUTE
    past.start()
    past.wait("unattached", 4 * MINUTE)
    past.train(5 * HOUR)
    past.preempt(12 * MINUTE)
    past.train(2 * HOUR + 300)
    past.crash(rank=2)
    past.train(50 * MINUTE)
    past.preempt(5 * MINUTE)
    past.train(50 * MINUTE)
    if not ends:
        return past.until_now()
    past.stop("completed", 0, "all ranks are done")
    return past.write()


def restless_past(folder):
    """Two hours of a job that crashes each second."""
    past = Past(folder, 2)
    past.start()
    past.train(5 * MINUTE)
    past.save()
    for _ in range(6000):
        past.wait("training", 0.45)
        past.step += 1
        past.wait("restarting", 0.15)
        past.generation += 1
        past.step = past.committed
        past.wait("starting", 0.4)
    past.train(5 * MINUTE)
    past.stop("completed", 0, "all ranks are done")
    return past.write()


def short_past(folder):
    """Half an hour of a job that still runs."""
    past = Past(folder, 0.5)
    past.start()
    past.train(700)
    past.crash(text=HOSTILE)
    past.train(300)
    past.preempt(120, text=HOSTILE)
    return past.until_now()


@pytest.fixture
def past(world, page):
    """past(make) opens the page of a job with this past."""
    def start(make=long_past):
        told = job()
        told["state_dir"] = str(make(world.root / "state"))
        return page(told)
    return start


def goodput(world):
    done = subprocess.run([PCHCTL, "goodput", "--json", world.root / "state"], capture_output=True, check=True)
    return json.loads(done.stdout)


def options(browser):
    return browser.run("return [...document.querySelectorAll('#view option')].map((one) => one.text)")


def rects(browser):
    """The spans of the picture, as (kind, left, right, its part of the height)."""
    return browser.run("const thick = Number(document.querySelector('#chart rect.edge').getAttribute('height'));"
                       "return [...document.querySelectorAll('#chart rect[data-kind]')].map((one) => {"
                       "const [x, width, height] = ['x', 'width', 'height'].map((name) => Number(one.getAttribute(name)));"
                       "return [Number(one.dataset.kind), x, x + width, height / thick]; })")


def shares(world, bar):
    """Of each kind, its part of the bar's area, and of the job's time."""
    told, width = goodput(world), bar[-1][2] - bar[0][1]
    return {name: (sum((right - left) * part for kind, left, right, part in bar if kind == i) / width, ms / told["wall_ms"])
            for i, (name, ms) in enumerate(told["ms"].items()) if ms}


def test_it_tells_where_the_hours_went(world, browser, past):
    """The figures are those of pchctl goodput; the bar has no gap; the last hours are a part of the whole."""
    past()
    browser.shows("#timeline-says", "^Goodput")
    assert options(browser)[1:] == ["last 24 hours", "last 6 hours", "last hour"]
    assert browser.run("return document.getElementById('view').value") == "6"
    browser.shot("timeline-6-hours")
    browser.run("const view = document.getElementById('view'); view.value = '0'; view.dispatchEvent(new Event('change'))")
    browser.shot("timeline-all")
    told = goodput(world)
    kinds = [*told["ms"]]
    share = f"{100 * told['goodput']:.1f}"
    assert browser.text("#timeline-says") == (
        f"Goodput {share} %: {told['ms']['training_kept'] / HOUR / 1000:.1f} h of {told['wall_ms'] / HOUR / 1000:.1f} h were "
        f"training that was kept. 5 attempts, 3 notices, 3 failures, {told['lost_steps']:,} steps lost.")
    sums = browser.text("#sums")
    for name in ("training, kept", "training, lost", "saving", "hung", "starting", "not attached", "restarting in place",
                 "waiting for nodes", "stopping", "preparing", "queued"):
        assert name in sums
    bar = rects(browser)
    assert {kinds.index(name) for name in ("training_kept", "training_lost", "hung", "starting", "queued")} <= {
        kind for kind, *_ in bar}
    columns = collections.Counter()
    for _, left, right, part in bar:
        columns[left, right] += part
    assert all(abs(part - 1) < 0.01 for part in columns.values()), columns
    assert all(abs(right - left) < 0.6 for (_, right), (left, _) in itertools.pairwise(columns)), columns
    assert browser.run("return document.querySelectorAll('#chart .failure').length") == 3


def test_many_short_saves_do_not_hide_the_training(world, browser, past):
    """On a phone each of 150 saves is far narrower than a pixel."""
    past()
    browser.shows("#timeline-says", "^Goodput")
    browser.look(390)
    browser.run("const view = document.getElementById('view'); view.value = '0'; view.dispatchEvent(new Event('change'))")
    drawn, true = shares(world, rects(browser))["saving"]
    assert drawn < true + 0.02


def test_a_job_that_restarts_each_second(world, browser, past):
    """Its spans are far narrower than a pixel. Each kind has the area of its time, on a phone as on a desk."""
    past(restless_past)
    browser.shows("#timeline-says", "^Goodput")
    browser.shot("timeline-restless")
    for width in (390, 1440):
        browser.look(width)
        areas = shares(world, rects(browser))
        assert {"training_lost", "starting", "restarting"} <= set(areas)
        assert all(abs(drawn - true) < 0.01 for drawn, true in areas.values()), (width, areas)
    browser.run("document.getElementById('chart').focus()")
    browser.press(Keys.HOME)
    for _ in range(9):
        browser.press(Keys.ARROW_RIGHT)
    browser.shows("#span", r"^\d+ short spans \(training, lost 4\d\.\d %, starting [34]\d\.\d %, restarting in place 1\d\.\d %\): ")


def test_the_keyboard_and_a_screen_reader(browser, past):
    past(short_past)
    browser.shows("#timeline-says", "^Goodput")
    browser.shot("timeline-short")
    assert options(browser) == ["whole job"] and not browser.run(
        "return document.getElementById('view').checkVisibility()")
    assert browser.run("return document.getElementById('chart').getAttribute('aria-label')").startswith(
        "Timeline. Goodput ")
    for _ in range(2):  # the link that skips, the timeline
        browser.press(Keys.TAB)
    at = browser.probe("focused")
    assert at["name"] == "chart" and at["isFocusVisible"] and at["ring"] >= 2 and at["isInView"]
    browser.shows("#span", r"^training, kept: .* from \d\d:\d\d:\d\d, attempt 2, steps 2,700 to ")
    browser.press(Keys.HOME)
    browser.shows("#span", "^starting: 180 s from .*, attempt 1$|^starting: 3 min from .*, attempt 1$")
    browser.first("#spoken", "^starting: ")
    browser.press(Keys.ARROW_RIGHT)
    browser.shows("#span", "^training, kept: 10 min from .*, attempt 1, steps 0 to 1,800$")
    browser.shot("timeline-chosen")
    browser.press(Keys.ESCAPE)
    browser.shows("#span", "^Point at the timeline")
    browser.press(Keys.TAB, Keys.SPACE)
    browser.shows("#story", r"attempt 1, preempted, exit code 42: saved and committed at step 2,?700")
    texts = browser.text("#story").splitlines()
    assert len(texts) == 4 and sum("first failure: node" in text or "first failure: rank" in text for text in texts) == 1


@pytest.mark.parametrize("browser", [{}, {"font": 32}], indirect=True, ids=["usual", "twice-the-size"])
def test_it_has_room_and_contrast(browser, past):
    """At each width and scheme; letters and marks beside the colours; no text of the job is markup."""
    past(short_past)
    browser.shows("#timeline-says", "^Goodput")
    browser.run("document.querySelector('details').open = true")
    is_usual = browser.run("return getComputedStyle(document.documentElement).fontSize") == "16px"
    for scheme in ("light", "dark"):
        for width in ((320, 390, 1440) if is_usual else (390, 1440)):
            browser.look(width, scheme)
            assert browser.probe("cut", True) == [] and browser.probe("low", 4.5) == [], (scheme, width)
    assert "<b>bold</b>" in browser.text("#story") and browser.run(
        "return window.hacked === undefined && document.querySelector('img, #timeline b') === null")
    assert "\u202e" not in browser.text("#story")


def test_a_pattern_for_each_kind_that_is_not_kept_training(browser, past):
    """So a kind is known without its colour. The names and colours are those of pchctl timeline."""
    past()
    browser.shows("#timeline-says", "^Goodput")
    shapes = browser.run("return [...document.querySelectorAll('#chart pattern path')].map((one) => one.getAttribute('d')"
                         " + one.parentElement.getAttribute('patternTransform'))")
    picture = subprocess.run([PCHCTL, "timeline", "-o", "-", browser.world.root / "state"], capture_output=True, text=True,
                             check=True).stdout
    assert len(shapes) == len(set(shapes)) == picture.count("<pattern") > 9
    for scheme in ("light", "dark"):
        browser.look(1440, scheme)
        fills = browser.run("return [...document.querySelectorAll('#chart pattern rect')].map((one) => one.getAttribute('fill'))")
        part = picture.split("@media")[scheme == "dark"]
        assert fills and all(f"fill:{fill}" in part for fill in fills)


def test_it_follows_the_ledger(world, browser, past):
    """A crash is on the timeline without a reload, soon after the journal tells of it."""
    supervisor = past(short_past)
    browser.shows("#timeline-says", "1 failure,")
    again = Past(world.root / "state", 0)
    again.attempt = 2
    again.event("failed", of_node=0, rank=1, code=1, text="rank 1: process 4712 ended with exit code 1")
    for node, event in again.journal:
        with (world.root / "state" / f"events.{node}.jsonl").open("a") as file:
            file.write(json.dumps(event) + "\n")
    supervisor.line("failed", of_node=0, rank=1, text="process 4712 ended with exit code 1")
    browser.shows("#timeline-says", "2 failures,")


def test_what_is_chosen_stays_chosen(world, browser, past):
    """Also if a node tells later of something that was before it."""
    supervisor = past(short_past)
    browser.shows("#timeline-says", "1 notice,")
    browser.run("document.getElementById('chart').focus()")
    browser.press(Keys.HOME, Keys.ARROW_RIGHT)
    chosen = "^training, kept: 10 min from .*, attempt 1, steps 0 to 1,800$"
    browser.shows("#span", chosen)
    late = Past(world.root / "state", 0.5)
    late.attempt, late.at = 1, late.at + MINUTE
    late.event("notice", source="slurm", of_node=0, left_ms=60000, text="")
    with (world.root / "state/events.0.jsonl").open("a") as file:
        file.write(json.dumps(late.journal[0][1]) + "\n")
    supervisor.line("notice", source="slurm", of_node=0, left_ms=60000, text="")
    browser.shows("#timeline-says", "2 notices,")
    assert re.fullmatch(chosen, browser.text("#span"))


def test_a_disk_that_hung_is_read_again_soon(dead, browser, page):  # noqa: F811
    """A line of the journal that came while it hung is not forgotten."""
    told = job()
    told["state_dir"] = str(dead.path)
    supervisor = page(told)
    assert dead.asked.wait(DEADLINE)
    supervisor.line("notice", source="gce", of_node=1, left_ms=25000, text="")
    browser.shows("#lines", "gce")
    dead.end()
    browser.shows("#timeline-none", "^There is no timeline: ")
    since = time.monotonic()
    short_past(dead.path)
    browser.shows("#timeline-says", "^Goodput")
    assert time.monotonic() - since < 12


def ticks(browser):
    """The labels of the axis of time, as (milliseconds since the begin, text)."""
    return browser.run("const edge = document.querySelector('#chart rect.edge'), number = (one, name) => Number(one.getAttribute(name));"
                       "return [...document.querySelectorAll('#chart text.time')].map((one) => [Math.round(timeline.view.ms"
                       " * (number(one, 'x') - number(edge, 'x')) / number(edge, 'width')), one.textContent])")


@pytest.mark.parametrize("begin, hours, wanted", [
    ("2026-03-29T00:00", 12, ["01:00", "03:00 CEST", "04:00"]),
    ("2026-10-25T00:00", 12, ["01:00", "02:00", "02:00 CET", "03:00", "04:00"]),
    ("2026-03-28T06:00", 60, ["29 Mar", "06:00 CEST", "12:00", "18:00", "30 Mar"]),
    ("2026-10-24T06:00", 60, ["25 Oct", "06:00 CET", "12:00", "18:00", "26 Oct"]),
    ("2026-03-20T06:00", 24 * 25, ["28 Mar", "30 Mar"]),
    ("2026-10-20T06:00", 24 * 25, ["24 Oct", "26 Oct"])])
def test_the_ticks_of_a_day_whose_clock_is_changed(browser, past, begin, hours, wanted):
    """A day may have 23 or 25 hours. Each label is right where it stands; `wanted` are some that follow each other."""
    zone = ZoneInfo("Europe/Berlin")
    start = datetime.fromisoformat(begin).replace(tzinfo=zone)

    def made(folder):
        job = Past(folder, 0)
        job.at = int(start.timestamp())
        job.start()
        job.train(hours * HOUR - 3 * MINUTE)
        job.stop("completed", 0, "all ranks are done")
        return job.write()

    browser.command("Emulation.setTimezoneOverride", timezoneId=zone.key)
    past(made)
    browser.shows("#timeline-says", "^Goodput")
    browser.run("const view = document.getElementById('view'); view.value = '0'; view.dispatchEvent(new Event('change'))")
    for width in (390, 1440):
        browser.look(width)
        found = ticks(browser)
        assert len(found) >= 2
        for ms, text in found:
            # A label is drawn to a part of a pixel, and all ticks are at whole hours.
            there = (start.astimezone(timezone.utc) + timedelta(hours=round(ms / HOUR / 1000))).astimezone(zone)
            forms = [f"{there.day} {there:%b}"] if there.hour == 0 else [f"{there:%H:%M}", f"{there:%H:%M} {there.tzname()}"]
            assert text in forms, (ms, text, forms)
    texts = [text for _, text in found]
    assert any(texts[i:i + len(wanted)] == wanted for i in range(len(texts))), texts
    assert browser.probe("cut", True) == []


def test_the_ticks_of_a_job_of_a_second(browser, past):
    """Chromium's own form of these is "8 (second: 8)"."""
    past(short_past)
    browser.shows("#timeline-says", "^Goodput")
    assert browser.run("return [8800, 9000, 59900].map((at) => nameTick(60000 + at, undefined, 100))") == ["08.8", "09.0", "59.9"]


def test_the_choice_of_the_time_stays_as_it_is(world, browser, past):
    """The job goes on, and the reader is in the list: no name changes, and the list is not made anew."""
    supervisor = past(lambda folder: long_past(folder, ends=False))
    browser.shows("#timeline-says", "^Goodput")
    browser.run("window.seen = [...document.querySelectorAll('#view option')]; document.getElementById('view').focus()")
    before, says = options(browser), browser.text("#timeline-says")
    assert before == ["whole job", "last 24 hours", "last 6 hours", "last hour"]
    more = Past(world.root / "state", 0)
    more.attempt, more.step, more.at = 5, 200000, int(time.time()) + 2 * HOUR
    more.mark("ended", more.step, outcome="completed")
    with (world.root / "state/ledger").open("a") as file:
        file.write(more.marks[0])
    supervisor.line("phase", phase="training", step=1)
    browser.until("return document.getElementById('timeline-says').innerText !== arguments[0]", "the time to go on", says)
    assert options(browser) == before
    assert browser.run("return window.seen.every((one) => one.isConnected) && document.activeElement.id") == "view"


def test_the_state_directory_may_go(world, browser, past):
    supervisor = past(short_past)
    browser.shows("#timeline-says", "^Goodput")
    (world.root / "state").rename(world.root / "gone")
    supervisor.line("notice", source="gce", of_node=1, left_ms=25000, text="")
    browser.shows("#timeline-none", "^There is no timeline: .*state")
    (world.root / "gone").rename(world.root / "state")
    supervisor.line("notice", source="gce", of_node=1, left_ms=25000, text="")
    browser.shows("#timeline-says", "^Goodput")


def test_a_job_without_a_ledger_says_so(browser, page):
    page()
    browser.shows("#timeline-none", "^There is no timeline: the job has no state directory, so it has no ledger.$")
    browser.shot("timeline-none")
