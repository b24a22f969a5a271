# SPDX-License-Identifier: Apache-2.0
"""painted: how soon the page of pchrun-web is painted in a real Chromium, of a job of 1,024 nodes with a rank each, beside
a line of text of the same server."""

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

from measure import JOB, Figure, Unmeasured, chief_options, free_port, paired, running

NODES = 1024
LOADS = 20
PARTS = (("the ranks", ""), ("its main thread", ""))
# Notes when the grid of the ranks has been painted for the first time, since the begin of the load.
PROBE = """
(function look() {
  const box = document.getElementById("ranks-box");
  if (box && box.checkVisibility()) requestAnimationFrame(() => { window.paintedRanks = performance.now(); });
  else requestAnimationFrame(look);
})();
"""
FIRST = """
const [paint] = performance.getEntriesByName("first-contentful-paint");
return paint ? paint.startTime : null;
"""
RANKS = "return window.paintedRanks || null;"


def browser():
    """The Chromium of tests/browser, with nothing but what it needs of a test."""
    tests = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(tests / "browser"), str(tests / "behave")]
    try:
        from browser import CHROMIUM, DRIVER, Browser
    except ImportError as why:
        raise Unmeasured(f"Selenium is not installed: {why}") from None
    if not CHROMIUM or not DRIVER:
        raise Unmeasured("Chromium and its driver are not installed")
    return contextlib.closing(Browser(SimpleNamespace(env=dict(os.environ), mark="bench", jobs=[])))


def wait_for(page, what):
    until = time.monotonic() + 60
    while not (found := page.run(what)):
        if time.monotonic() > until:
            raise Unmeasured("the page is not painted")
        time.sleep(0.05)
    return found


def load(page, address):
    """Loads a line of text, then the page. Returns in milliseconds when the line was painted, when the page had a first
    text, when it had the ranks, and the processor's time of its main thread, which does not depend on what else runs."""
    page.open("about:blank")
    page.open(f"{address}healthz")
    beside = wait_for(page, FIRST)
    page.open("about:blank")
    page.open(address)
    ranks, first = wait_for(page, RANKS), wait_for(page, FIRST)
    told = {metric["name"]: metric["value"] for metric in page.command("Performance.getMetrics")["metrics"]}
    return beside, first, ranks, 1000 * told["TaskDuration"]


def paint(bench):
    """when the page of a job of 1,024 ranks is painted first, and when it has the ranks"""
    with tempfile.TemporaryDirectory(prefix="bench.") as folder, browser() as page:
        port, http = free_port(), free_port()
        options = chief_options(NODES, port, folder, "--job", JOB)
        swarm = [bench.helper("swarm"), "idle", str(port), *options]
        web = [str(bench.build / "src/pchrun-web"), "--run-dir", folder, "--listen", f"127.0.0.1:{http}"]
        with running([bench.pchrun, *options], stdout=subprocess.DEVNULL), \
                running(swarm, stdout=subprocess.PIPE) as members:
            if not members.stdout.readline():
                raise Unmeasured("the nodes have not come together")
            with running(web, end=signal.SIGTERM, stdout=subprocess.PIPE) as server:
                if not server.stdout.readline():
                    raise Unmeasured("pchrun-web does not listen")
                page.command("Page.addScriptToEvaluateOnNewDocument", source=PROBE)
                page.command("Performance.enable", timeDomain="threadTicks")
                times = [load(page, f"http://127.0.0.1:{http}/") for _ in range(LOADS)]
        beside, first, *others = zip(*times)
        ms = 1e6
        yield paired(f"page of {NODES} ranks, first paint", [(ms * a, ms * b) for a, b in zip(first, beside)], "a line",
                     "≤ 300 ms")
        for (name, target), found in zip(PARTS, others):
            yield Figure(f"page of {NODES} ranks, {name}", f"{statistics.median(found):.0f} ms", "",
                         f"{min(found):.0f} to {max(found):.0f}", target)


FIGURES = (paint,)
