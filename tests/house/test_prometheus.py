# SPDX-License-Identifier: Apache-2.0
"""contrib/prometheus: the alerts and the dashboard know only metrics that pchrun writes, pchctl(1) names all of these,
and promtool takes the rules and their tests."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "contrib" / "prometheus"
METRICS, LAST = (ROOT / "src" / name for name in ("status/metrics.c", "ctl/lastmetrics.c"))
WRITTEN = re.compile(r'(?:\b(?:promtext_(head|gauge|counter)|(histogram|last_put_int|last_put_date))\(\s*[&\w>.-]+,\s*|'
                     r'promtext_metric\(\s*[&\w>.-]+, "([a-z]+)",)\s*"([a-z_]+)",\s*((?:"[^"]*"\s*)+)')
RULES = yaml.safe_load((FOLDER / "rules.yml").read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
PROMTOOL = shutil.which("promtool")


def told(file):
    """{name: help} of all that this file can write."""
    found = {}
    for *kinds, name, text in WRITTEN.findall(file.read_text()):
        parts = ["_bucket", "_sum", "_count"] if "histogram" in kinds else [""]
        found.update({f"pchrun_{name}{part}": "".join(re.findall('"(.*?)"', text)) for part in parts})
    return found


def written():
    """The names of all samples that a pchrun, or pchrun-web after its end, can write."""
    return {*told(METRICS), *told(LAST)}


def used(text):
    return set(re.findall(r"\bpchrun_[a-z_]+", text))


def expressions(node):
    """All queries of the dashboard."""
    if isinstance(node, dict):
        for key, inner in node.items():
            if key in ("expr", "query") and isinstance(inner, str):
                yield inner
            yield from expressions(inner)
    if isinstance(node, list):
        for inner in node:
            yield from expressions(inner)


def test_the_names_are_found():
    assert {"pchrun_up", "pchrun_notices_total", "pchrun_save_seconds_bucket", "pchrun_steps_lost_total"} <= written()
    assert len(list(expressions(DASHBOARD))) > 15 and len(RULES) == 9


def test_the_metrics_of_an_ended_job_have_the_same_names():
    """But for the hours of all attempts, which no running pchrun tells."""
    live, last = told(METRICS), told(LAST)
    assert {"pchrun_step", "pchrun_exit_code", "pchrun_ended_timestamp_seconds"} < set(last)
    assert {name for name in last if not name.startswith("pchrun_job_")} == {n for n in last if live.get(n) == last[n]}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_knows_what_is_written(rule):
    assert used(rule["expr"]) and used(rule["expr"]) <= written()
    assert set(rule["annotations"]) == {"summary", "action"}


def test_the_dashboard_knows_what_is_written():
    names = used(" ".join(expressions(DASHBOARD)))
    assert len(names) > 15 and names <= written()


def test_each_panel_has_its_place():
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) == 23
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)


def test_the_manual_names_all_metrics():
    page = (ROOT / "man" / "pchctl.1").read_text()
    section = page[page.index(".Sh METRICS"):page.index(".Sh ENVIRONMENT")]
    named = {f"pchrun_{name}" for line in re.findall(r"^\.It (.*)$", section, re.M) for name in line.split(" , ")}
    assert named == {re.sub(r"_(bucket|sum|count)$", "", name) for name in written()}


@pytest.mark.skipif(not PROMTOOL, reason="needs promtool, of Debian's package prometheus")
@pytest.mark.parametrize("words", [["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]],
                         ids=["check", "test"])
def test_promtool_takes_the_rules(words):
    told = subprocess.run([PROMTOOL, *words], cwd=FOLDER, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.skipif(not PROMTOOL, reason="needs promtool, of Debian's package prometheus")
def test_each_alert_is_tested():
    tested = {case["alertname"] for test in yaml.safe_load((FOLDER / "rules_test.yml").read_text())["tests"]
              for case in test["alert_rule_test"] if case.get("exp_alerts")}
    assert tested == {rule["alert"] for rule in RULES}
