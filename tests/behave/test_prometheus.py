# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus takes the metrics of real jobs, and the alerts of contrib/prometheus fire when a fault is
injected. The rules' times are shortened here; contrib/prometheus/rules_test.yml tests them as they are."""

import contextlib
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from harness import MARK, wait_until
from nodes import free_port

RULES = Path(__file__).resolve().parents[2] / "contrib" / "prometheus" / "rules.yml"
PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
CONFIG = """
global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}}
rule_files: [{rules}]
scrape_configs:
  - job_name: pchrun
    honor_labels: true
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
{more}"""
WEB = os.environ.get("PCHRUN_WEB", str(Path(os.environ["PCHRUN_BIN"]).with_name("pchrun-web")))

pytestmark = pytest.mark.skipif(not PROMETHEUS or not PROMTOOL, reason="needs Debian's package prometheus")


class Metrics(http.server.BaseHTTPRequestHandler):
    """The part of a node exporter's textfile collector."""

    def do_GET(self):
        try:
            text = self.server.path.read_bytes()
        except FileNotFoundError:
            text = b""
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def quick(rules):
    """The same rules, with the patience of a test: no `for:`, and seconds instead of minutes and hours."""
    rules, n = re.subn(r" *for: \d+m\n", "", rules)
    rules, m = re.subn(r"> (600|300|3 \* 3600)", "> 0.5", rules)
    assert (n, m) == (5, 3)
    return rules


@contextlib.contextmanager
def running(world, target, more=""):
    """A Prometheus that scrapes this port, and evaluates the rules. alert(NAME) waits until it fires. more: of the
    scrape's configuration."""
    port = free_port()
    rules = world.file("rules.yml", quick(RULES.read_text()))
    config = world.file("prometheus.yml", CONFIG.format(rules=rules, port=target, more=more))
    process = subprocess.Popen(
        [PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={world.root / 'tsdb'}",
         f"--web.listen-address=127.0.0.1:{port}"],
        env={**os.environ, MARK: world.mark}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return json.load(answer)
        except OSError:
            return None

    def firing(name=None):
        told = ask("/api/v1/alerts")
        return [a for a in told["data"]["alerts"]
                if a["state"] == "firing" and name in (None, a["labels"]["alertname"])] if told else []

    def value(query):
        told = ask("/api/v1/query?query=" + urllib.parse.quote(query))
        return float(told["data"]["result"][0]["value"][1]) if told and told["data"]["result"] else None

    def alert(name):
        labels = wait_until(lambda: firing(name), f"the alert {name}")[0]["labels"]
        assert labels["name"] == "run7" and labels["node"] == "0"
        return labels

    alert.ask, alert.firing, alert.value = ask, firing, value
    try:
        yield alert
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def prometheus(world):
    """Scrapes world.root / "pchrun.prom"."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
    server.path = world.root / "pchrun.prom"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    with running(world, server.server_port) as alert:
        yield alert
    server.shutdown()
    server.server_close()
    thread.join()


def options(world):
    return ["--job", "run7", "--metrics-file", world.root / "pchrun.prom", "--metrics-interval", "100ms"]


def checked(world):
    check((world.root / "pchrun.prom").read_bytes())


def check(text):
    """promtool takes these metrics without a remark."""
    told = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True)
    assert (told.returncode, told.stdout + told.stderr) == (0, b"")


def test_a_job_that_gets_a_notice(training, world, prometheus):
    t = training(*options(world), n=2, train=4)
    prometheus("PchrunNoCommit")
    prometheus("PchrunStands")
    checked(world)
    step = t.reach_by_notice()
    prometheus("PchrunNotice")
    t.saved(step, "exit")
    assert t.result() == (42, "preempted", step)
    checked(world)
    wait_until(lambda: prometheus.value('pchrun_saves_total{result="committed"}') == 1, "the commit")
    assert prometheus.value("pchrun_save_seconds_count") == 1
    wait_until(lambda: prometheus.value("pchrun_up") == 0, "the end")
    assert not prometheus.firing("PchrunFailed")


def test_pchrun_web_is_scraped(training, world):
    """With a token, and without a file of metrics. The alerts are the same. promtool takes both texts: that of the running
    job, and that which is left after its end."""
    token, port = "0123456789abcdef-token", free_port()
    report = world.root / "checkpoints" / ".pchrun" / "report.0.json"  # where it is by default
    t = training("--job", "run7", "--report", report, n=2, train=4)
    t.report_path = report
    web = world.start(WEB, "--run-dir", world.tmp, "--listen", f"127.0.0.1:{port}", "--token-file",
                      world.file("token", f"{token}\n"))
    wait_until(lambda: "open http" in web.out, "pchrun-web to listen")

    def served():
        request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.read()

    with running(world, port, f"    authorization: {{credentials_file: {world.root / 'token'}}}\n") as alert:
        alert("PchrunStands")
        assert alert.value("pchrun_ranks_attached") == 2
        check(served())
        step = t.reach_by_notice()
        alert("PchrunNotice")
        t.saved(step, "exit")
        assert t.result() == (42, "preempted", step)

        wait_until(lambda: alert.value("pchrun_up") == 0, "the end")
        assert alert.value("up") == 1 and alert.value("pchrun_exit_code") == 42
        left = served()
        assert b"pchrun_job_seconds{" in left and b"pchrun_ranks_attached" not in left
        check(left)
        wait_until(lambda: alert.firing() == [], "the alerts to end")
    web.end_by(signal.SIGTERM, 0)


def test_a_save_that_fails(training, world, prometheus):
    """An alert on an increase needs a sample before it."""
    t = training(*options(world), "--signals", "TERM=preempt,USR2=checkpoint", n=2, train=4)
    wait_until(lambda: prometheus.value("pchrun_up") == 1, "the first sample")
    t.job.send(signal.SIGUSR2)
    step = t.agreed()
    t.reach(step)
    t.clients[0].ask(f"failed {step} the disk is full", f"failed {step}")
    t.saved(step, "continue", t.clients[1:])
    assert prometheus("PchrunSavesFail")["result"] == "failed"
    t.complete()


def test_a_job_that_fails_again_and_again(world, prometheus):
    job = world.start(world.pchrun, *options(world), "--restart-max", "3", "--restart-startup", "0", "--restart-backoff",
                      "500ms", "--restart-backoff-max", "500ms", "--", "sh", "-c",
                      "until [ -e go$PCH_GENERATION ] || [ -e go ]; do sleep 0.1; done; sleep 1; exit 7")
    wait_until(lambda: prometheus.value("pchrun_up") == 1, "the first sample")
    for generation in range(3):
        (world.cwd / f"go{generation}").touch()
    prometheus("PchrunRestartsOften")
    (world.cwd / "go").touch()
    assert job.finish() == 7
    assert prometheus("PchrunFailed")["outcome"] == "failed"
    wait_until(lambda: not prometheus.firing("PchrunRestartsOften"), "the other alert to end")
    checked(world)


@pytest.mark.killed
def test_a_pchrun_that_is_killed(world, prometheus):
    job = world.start(world.pchrun, *options(world), "-n", "2", "--", "sleep", "60")
    prometheus("PchrunRanksMissing")
    os.kill(job.pid, signal.SIGKILL)
    prometheus("PchrunGone")
