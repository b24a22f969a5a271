# SPDX-License-Identifier: Apache-2.0
"""The page of pchrun-web in a real browser: keyboard, names, contrast, room for texts, hostile texts, many ranks."""

import itertools
import socket

import pytest
from harness import wait_until
from selenium.webdriver.common.keys import Keys
from supervisor import every_kind, job, node, rank, with_cause, with_notice

BIDI = "\u202egnp.exe\u2066\u200b\ufeff\U000e0041"
MARKUP = "<img src=x onerror=\"window.hacked=1\"><b>bold</b>&lt;'\"`</script><script>window.hacked=1</script>"
LONG = "w" * 300
HOSTILE = [MARKUP, BIDI, LONG, "toString", "__proto__", "constructor", "\u0001\u0007\u001b[31m", "\U0001f525" * 40]


def busy():
    """All sections at once: a notice, a rank that is waited for, a cause, and many nodes."""
    told = with_cause(with_notice(every_kind(job(32))))
    told["nodes"] += [node(i, f"node-{i}.cluster.example", []) for i in range(4, 16)]
    return told


def tell(supervisor):
    supervisor.line("state", state="running")
    supervisor.line("attached", rank=3, resume_step=0)
    supervisor.line("log", level="warning", topic="cluster", text="node 1 is silent for 3 s")
    supervisor.line("committed", step=48000)
    supervisor.line("failed", of_node=1, rank=5, text="process 4711 ended with exit code 1")


# --- the keyboard --------------------------------------------------------------------------------

def tab(browser, backwards=False):
    browser.press(Keys.TAB, held=Keys.SHIFT if backwards else "")
    return browser.probe("focused")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_control_is_reached_by_tab(browser, page, scheme):
    tell(page(busy()))
    browser.look(1440, scheme)
    browser.shows("#lines", "committed")
    order = []
    while (at := tab(browser)) is not None:
        assert at["isFocusVisible"] and at["isInView"] and at["ring"] >= 2 and at["contrast"] >= 3, at
        order.append(at["name"])
        assert len(order) < 20, order
    assert order == ["skip", "grid", "cause-output", "scroll", "nodes-all", "kind", "filter", "lines"]


def test_each_control_works_by_its_keys(browser, page):
    supervisor = page(busy())
    tell(supervisor)
    browser.shows("#lines", "committed")
    assert tab(browser)["name"] == "skip"
    browser.press(Keys.ENTER)
    assert tab(browser)["name"] == "kind"  # the link has led over all that is before
    for _ in range(4):
        at = tab(browser, backwards=True)
    assert at["name"] == "grid"
    # The grid: arrows choose a rank, Escape chooses none.
    browser.shows("#rank", "^rank 0 · node0000")
    for key, wanted in ((Keys.ARROW_RIGHT, 1), (Keys.ARROW_RIGHT, 2), (Keys.ARROW_LEFT, 1), (Keys.END, 31),
                        (Keys.HOME, 0)):
        browser.press(key)
        browser.shows("#rank", rf"^rank {wanted} · .*step")
        browser.first("#spoken", rf"^rank {wanted} · ")  # a screen reader hears it
    for one in supervisor.told["ranks"][:2]:
        one["step"] += 7
    browser.shows("#says", "step 48,217")
    assert browser.text("#spoken").startswith("rank 0 · ")  # and hears nothing of each step
    browser.press(Keys.ESCAPE)
    browser.shows("#rank", "^Point at a rank")
    # The button: Space and Enter.
    while tab(browser)["name"] != "nodes-all":
        pass
    browser.shows("#nodes-all", "^Show all 16 nodes$")
    for key, wanted in ((Keys.SPACE, "^Show fewer$"), (Keys.ENTER, "^Show all 16 nodes$")):
        browser.press(key)
        browser.shows("#nodes-all", wanted)
        assert browser.probe("focused")["name"] == "nodes-all"
    # The choice of a kind, by its first letters.
    assert tab(browser)["name"] == "kind"
    browser.press("comm")
    browser.until("return [...document.querySelectorAll('#lines b')].map((b) => b.innerText).join() === 'committed'",
                  "commits alone")
    browser.press(Keys.HOME)
    browser.shows("#lines", "attached")
    # The filter: typed, and cleared by Escape.
    assert tab(browser)["name"] == "filter"
    browser.press("silent")
    browser.until("return document.querySelectorAll('#lines li').length === 1", "one line")
    browser.press("zz")
    browser.shows("#lines-none", "No event fits")
    browser.press(Keys.ESCAPE)
    browser.until("return document.querySelectorAll('#lines li').length === 6", "all lines")


# --- names ---------------------------------------------------------------------------------------

def tree(browser):
    """The accessible objects of the page, as (role, name)."""
    nodes = browser.command("Accessibility.getFullAXTree")["nodes"]
    return [(one["role"]["value"], one.get("name", {}).get("value", "")) for one in nodes if not one["ignored"]]


def test_roles_and_names(browser, page):
    tell(page(busy()))
    browser.shows("#lines", "committed")
    there = tree(browser)
    for wanted in [("banner", ""), ("main", ""), ("link", "Skip to the events"), ("combobox", "Kind of event"),
                   ("searchbox", "Filter by text"), ("button", "Show all 16 nodes"), ("list", "Events, the newest first"),
                   ("alert", "Notice from gce on node 1"),
                   *(("region", name) for name in ("Waiting for", "Ranks", "First cause", "Nodes", "Events")),
                   *(("heading", name) for name in ("Waiting for", "Ranks", "First cause", "Nodes", "Events")),
                   *(("columnheader", name) for name in ("Node", "Host", "State", "Ranks", "Behind", "Heard"))]:
        assert wanted in there, (wanted, there)
    grids = [name for role, name in there if role == "application"]
    assert len(grids) == 1 and grids[0].startswith("32 ranks: ") and "4 behind" in grids[0]
    assert sum(role == "heading" and name.startswith("Training at step 48,210") for role, name in there) == 1
    controls = ("button", "link", "combobox", "searchbox", "textbox", "application", "region", "alert", "image")
    assert [one for one in there if one[0] in controls and not one[1]] == []
    assert browser.run("return document.documentElement.lang") == "en"


def test_the_state_is_spoken(browser, page):
    """A live region tells each change of the state, and not each step."""
    supervisor = page()
    assert ("status", "") in tree(browser)
    browser.first("#spoken", "^The job is training$")
    with_notice(supervisor.told)
    browser.first("#spoken", "^The job is training, notice from gce$")
    supervisor.told["report"]["state"] = "stopping"
    browser.first("#spoken", "^The job is stopping, notice from gce$")
    said = [entry["text"] for entry in browser.probe("history", "#spoken")]
    assert len(said) == len(set(said)) <= 4


# --- colours -------------------------------------------------------------------------------------

@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_of_all_texts(browser, page, scheme):
    supervisor = page(busy())
    tell(supervisor)
    browser.look(1440, scheme)
    browser.shows("#lines", "committed")
    for id in ("notice", "waits", "ranks", "cause", "nodes", "events"):
        browser.shows(f"#{id}", "")
    assert browser.probe("low", 4.5) == []
    assert browser.probe("low", 22) != []  # it does find texts
    supervisor.line("exit", outcome="failed", exit_code=1, last_step=48210, text="rank 5 failed")
    browser.shows("#lines", "exit code 1")
    supervisor.close()
    browser.shows("#says", "^Ended: failed, exit code 1")
    assert browser.probe("low", 4.5) == []


@pytest.mark.parametrize("count", [8, 1024])
def test_ranks_are_told_apart_without_colour(browser, page, count):
    """Of each two kinds of cells, the shapes differ. With 1,024 ranks cells are small, and have other shapes."""
    page(every_kind(job(count)))
    browser.until("return document.querySelectorAll('#legend li').length === 7", "seven kinds of cells")
    for scheme in ("light", "dark"):
        browser.look(1440, scheme)
        shapes = browser.probe("shapes")
        for (a, bits_a), (b, bits_b) in itertools.combinations(shapes, 2):
            differ = sum(x != y for x, y in zip(bits_a, bits_b, strict=True)) / len(bits_a)
            assert differ > 0.02, f"{a} and {b} look alike: {differ:.3f}"
    browser.shot(f"kinds-{count}-ranks")


# --- room ----------------------------------------------------------------------------------------

# A phone; a desk, and the same at 200 %, which is half the width; the narrowest width that WCAG 2.1 asks for.
@pytest.mark.parametrize("width, scale", [(390, 1), (1440, 1), (720, 2), (320, 4)])
def test_no_text_is_cut(browser, page, width, scale):
    """The table of nodes may scroll within its frame at 320 px."""
    tell(page(busy()))
    browser.look(width, scale=scale)
    browser.shows("#lines", "committed")
    assert browser.probe("cut", width == 320) == []


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("browser", [{"font": 32}], indirect=True, ids=[""])
def test_no_text_is_cut_if_the_reader_wants_large_texts(browser, page, width):
    """The page follows the size of texts that the browser is set to."""
    tell(page(busy()))
    browser.look(width)
    browser.shows("#lines", "committed")
    assert browser.run("return getComputedStyle(document.querySelector('#waits-list')).fontSize") == "32px"
    assert browser.probe("cut", True) == []


# --- hostile texts -------------------------------------------------------------------------------

@pytest.mark.parametrize("text", HOSTILE, ids=["markup", "bidi", "long", "toString", "proto", "constructor", "control",
                                               "fire"])
def test_hostile_texts(browser, page, text):
    """Names, hosts, causes and lines come from elsewhere: no element is made of one, and the layout holds."""
    told = with_cause(with_notice(job(8, name=text), text=text), text=text, output=f"{text}\n{text}")
    told["host"] = told["command"] = told["chief"] = told["nodes"][0]["host"] = told["nodes"][1]["why"] = text
    told["ranks"][3] = rank(3, 0, step=1, age=100.0)
    told["ranks"][7] = {**rank(7, 1), "phase": text, "state": text}
    told["report"]["notice"]["source"] = told["report"]["first_cause"]["host"] = text
    supervisor = page(told)
    browser.shows("#lines", "started")
    before = browser.run("return document.querySelectorAll('*').length")
    supervisor.line("log", level=text, topic=text, text=text)
    supervisor.line(text, level="error", text=text)
    supervisor.line("failed", of_node=text, rank=-1, text=text)
    supervisor.line("committed", step=text)
    browser.until("return document.querySelectorAll('#lines li').length === 5", "all lines")
    for id in ("notice", "waits", "cause", "nodes"):
        browser.shows(f"#{id}", "")
    made = browser.run("return [...new Set([...document.querySelectorAll('*')].map((at) => at.localName))]")
    assert set(made) <= {"html", "head", "meta", "title", "link", "script", "body", "a", "header", "p", "h1", "h2", "span",
                         "form", "code", "label", "div", "input", "button", "main", "section", "small", "ul", "ol", "li",
                         "canvas", "pre", "table", "thead", "tbody", "tr", "th", "td", "select", "option", "time", "b",
                         "wbr", "noscript", "svg", "details", "summary"}, made
    assert browser.run("return document.querySelectorAll('*').length") - before == 4 * 4 + 4  # lines, and their kinds
    assert browser.run("return window.hacked === undefined && document.scripts.length === 2")
    shown = browser.run("return document.body.textContent")
    assert not set(shown) & {chr(i) for i in (*range(9), 27, 0x202e, 0x2066, 0x200b, 0xfeff, 0xe0041)}
    for width in (390, 1440):
        browser.look(width)
        assert browser.probe("cut", False) == []
    assert browser.probe("low", 4.5) == []


# --- many ranks ----------------------------------------------------------------------------------

def test_a_job_of_1024_ranks(browser, page):
    told = job(1024)
    told["ranks"][777] = rank(777, 97, step=48100, age=33.0)
    supervisor = page(told)
    browser.shows("#waits", "rank 777 on node0097.cluster.example: at step 48,100 for .* s, all others at 48,210")
    browser.shows("#nodes-all", "Show all 128 nodes")
    for width in (390, 1440):
        browser.look(width)
        browser.until("const box = document.getElementById('grid').getBoundingClientRect();"
                      "return box.width > 100 && box.right <= innerWidth && box.height <= 480", "the grid to fit")
        assert browser.probe("cut", False) == []
    browser.run("document.getElementById('grid').focus()")
    browser.press(Keys.END)
    browser.shows("#rank", "^rank 1,?023 · ")
    supervisor.told["ranks"][777] = rank(777, 97)
    browser.hides("#waits")
    browser.shot("ranks-1024")


# --- the token -----------------------------------------------------------------------------------

def test_the_token_by_keyboard(browser, world, fake, web):
    browser.errors = ["401 (Unauthorized)"]
    fake()
    address = web("--token-file", world.file("token", "0123456789abcdef-token\n")).address
    browser.open(address)
    browser.shows("#says", "^Locked$")
    assert ("textbox", "Token") in tree(browser) and browser.probe("focused")["name"] == "token"
    browser.shot("token")
    browser.press("wrong-token-0123456", Keys.ENTER)
    browser.shows("#token-wrong", "That is not the token")
    assert ("alert", "") in tree(browser)
    for scheme in ("light", "dark"):
        browser.look(1440, scheme)
        assert browser.probe("low", 4.5) == []
    browser.press("0123456789abcdef-token")
    assert tab(browser)["name"] == "BUTTON"
    browser.press(Keys.SPACE)
    browser.shows("#says", "^Training at step")


def test_the_token_of_an_address(browser, world, fake, web):
    """It is taken at once, also into a page that is open already, and no address bar shows it."""
    browser.errors = ["401 (Unauthorized)"]
    fake()
    address = web("--token-file", world.file("token", "0123456789abcdef-token\n")).address
    browser.open(address)
    browser.shows("#says", "^Locked$")
    browser.open(f"{address}#token=0123456789abcdef-token")
    browser.shows("#says", "^Training at step")
    assert browser.driver.current_url == address
    browser.run("sessionStorage.clear()")
    browser.open("about:blank")
    browser.open(f"{address}#token=0123456789abcdef-token")
    browser.shows("#says", "^Training at step")
    assert browser.driver.current_url == address


# --- what it costs -------------------------------------------------------------------------------

@pytest.mark.parametrize("count, least", [(8, 0.9), (8192, 1.9)])
def test_a_job_of_thousands_of_ranks_is_asked_less_often(fake, web, count, least):
    """Reading such an answer takes more than the fiftieth part of a second of a processor's time."""
    supervisor = fake(job(count))
    with socket.create_connection(("127.0.0.1", web().port)) as reader:
        reader.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: len(supervisor.asked) > 6, "pictures")
        asked = supervisor.asked[3:7]  # the first ones are those of the search and of the start
        assert all(after - before > least for before, after in itertools.pairwise(asked)), asked
