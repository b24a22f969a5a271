# SPDX-License-Identifier: Apache-2.0
"""pchrun-web: the page, the API and the stream of a real job, and what it refuses."""

import contextlib
import http.client
import json
import os
import re
import resource
import signal
import socket
import time
from pathlib import Path

import pytest

from deadfs import dead  # noqa: F401
from harness import DEADLINE, PREEMPTED, Late, open_files, wait_until
from nodes import Nodes, free_port, start_training
from pchctl import ctl  # noqa: F401

WEB = os.environ.get("PCHRUN_WEB", str(Path(os.environ["PCHRUN_BIN"]).with_name("pchrun-web")))
TOKEN = "0123456789abcdef-token"
CONNECTIONS_MAX, READERS_MAX = 64, 32
REQUEST_S = 15  # the time for one request and its answer


class Web:
    """One pchrun-web. self.job is its process."""

    def __init__(self, world, *options, host="127.0.0.1", **more):
        self.port, self.host = free_port(), host
        self.job = world.start(WEB, "--run-dir", world.tmp, "--listen", f"{host}:{self.port}", *options, **more)
        wait_until(lambda: "open http" in self.job.out or self.job.process.poll() is not None, "pchrun-web to listen")
        assert self.job.process.poll() is None, self.job.err

    def connect(self):
        host = "::1" if self.host == "[::1]" else "127.0.0.1"
        return http.client.HTTPConnection(host, self.port, timeout=DEADLINE)

    def ask(self, path, method="GET", **headers):
        """(status, headers, body). Host is that of the address, unless it is given."""
        with contextlib.closing(self.connect()) as connection:
            connection.request(method, path, headers={name.replace("_", "-"): text for name, text in headers.items()})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def ask_files(self, path):
        """As ask(). The answer is read from files, by a forked helper. With a sanitizer the fork may copy a lock of its
        allocator that the other thread holds: then the helper hangs, and is killed after 10 s."""
        late = (b"is still being read\n", b"are still being read\n", b"does its disk hang?\n")
        return wait_until(lambda: None if (told := self.ask(path))[2].endswith(late) else told, path, pause=0.5)

    def status(self):
        code, _, body = self.ask("/api/v1/status")
        assert code == 200
        return json.loads(body)

    def say(self, *data):
        """Sends these bytes; returns the connection."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE)
        connection.sendall(b"".join(data))
        return connection

    def end(self):
        self.job.end_by(signal.SIGTERM, 0)
        assert self.job.err == ""


class Stream:
    """A reader of /api/v1/events. The events that have come are in self.events, as (name, id, data)."""

    def __init__(self, web, **headers):
        self.connection = web.connect()
        self.connection.request("GET", "/api/v1/events", headers={k.replace("_", "-"): v for k, v in headers.items()})
        self.answer = self.connection.getresponse()
        assert (self.answer.status, self.answer.getheader("Content-Type")) == (200, "text/event-stream")
        self.events = []

    def next(self):
        fields = {}
        while line := self.answer.readline().decode().rstrip("\n"):
            name, _, text = line.partition(": ")
            fields[name] = text
        assert fields, "the stream has ended"
        self.events.append((fields["event"], fields.get("id"), json.loads(fields["data"])))
        return self.events[-1]

    def until(self, name, fits=lambda data: True):
        """Reads up to an event that fits, and returns its data."""
        late = time.monotonic() + DEADLINE
        while time.monotonic() < late:
            event = self.next()
            if event[0] == name and fits(event[2]):
                return event[2]
        raise Late(f"no {name} fits within {DEADLINE:g} s; the last events: {self.events[-5:]}")

    def line(self, event, **fields):
        """The line of the journal with this event and these fields, which may have been read already."""
        def fits(line):
            return line["event"] == event and all(line[key] == value for key, value in fields.items())
        found = [data for name, _, data in self.events if name == "line" and fits(data)]
        return found[0] if found else self.until("line", fits)

    def lines(self):
        return [event for event in self.events if event[0] == "line"]

    def close(self):
        self.connection.close()


@pytest.fixture
def web(world):
    """web(*options) starts pchrun-web, which ends well with the test."""
    started = []

    def start(*options, **more):
        started.append(Web(world, *options, **more))
        return started[-1]
    yield start
    for one in started:
        if one.job.process.poll() is None:
            one.end()


@pytest.fixture
def job(world):
    """A job of 2 nodes with 2 ranks each, which trains."""
    nodes = Nodes(world, 2, ["--job", "run7", "--cluster-heartbeat-timeout", "60s"])
    start_training(world, nodes)
    ledger = world.root / ".pchrun" / "ledger"
    wait_until(lambda: ledger.exists() and ledger.read_text().endswith("\n"), "the first line of the ledger")
    yield nodes
    if any(node.process.poll() is None for node in nodes.jobs.values()):
        nodes.jobs[1].send(signal.SIGTERM)
        assert nodes.finish() == PREEMPTED


# --- what it shows -------------------------------------------------------------------------------

def test_the_page(job, web):
    one = web()
    code, headers, page = one.ask("/")
    assert code == 200 and headers["Content-Type"] == "text/html; charset=utf-8" and b"<title>pchrun</title>" in page
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert "require-trusted-types-for 'script'" in policy  # no text of the job can become markup or code
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"
    assert not {"Set-Cookie", "Access-Control-Allow-Origin"} & set(headers)
    # The policy forbids inline code, and the page has none; all that it names is there.
    assert not re.search(rb"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=|javascript:|https?://", page)
    for name, kind in (("app.css", "text/css"), ("app.js", "text/javascript"), ("timeline.js", "text/javascript")):
        assert re.search(rb'(href|src)="' + name.encode() + b'"', page)
        code, headers, body = one.ask(f"/{name}")
        assert (code, headers["Content-Type"]) == (200, f"{kind}; charset=utf-8")
        head = one.ask(f"/{name}", "HEAD")
        assert head[0] == 200 and head[2] == b"" and int(head[1]["Content-Length"]) == len(body) > 1000
    assert one.ask("/healthz")[::2] == (200, b"ok\n")


def contrast(a, b):
    """As WCAG 2 defines it, of "#rrggbb"."""
    def luminance(colour):
        parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


def test_the_page_is_readable_in_light_and_dark(job, web):
    """WCAG 2.1 AA: texts, and the numbers in the cells, have 4.5 : 1; marks in cells and frames have 3 : 1."""
    css = web().ask("/app.css")[2].decode()
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w{6});", part))
                   for part in re.findall(r":root \{(.*?)\}", css, re.S))
    for colours in (light, light | dark):
        low = [(a, b) for a, b, wanted in [
            *((text, back, 4.5) for text in ("text", "muted", "alarm", "warn", "accent") for back in ("page", "card")),
            ("alarm", "alarm-page", 4.5), ("card", "step", 4.5),
            *(("card", cell, 3) for cell in ("behind", "silent", "other", "empty"))]
            if contrast(colours[a], colours[b]) < wanted]
        assert not low


def test_the_status_is_that_of_pchctl(job, web):
    told = web().status()
    assert told["version"] == 1 and told["lost_ms"] is None and told["picture_age_ms"] < DEADLINE * 1000
    assert told["status"]["report"]["job"] == "run7" and told["status"]["ranks_of"] == "job"
    assert [(rank["rank"], rank["attached"]) for rank in told["status"]["ranks"]] == [(i, True) for i in range(4)]


def test_another_node_shows_its_own_ranks(job, web):
    stream = Stream(web("--node", "1"))
    layout = stream.until("layout")
    assert (layout["ranks_of"], layout["rank"], layout["node"], layout["nodes"]) == ("node", [2, 3], 1, [])
    assert layout["chief"] == job.entries.split(",")[0]
    stream.close()


def test_the_stream_follows_a_preemption(world, job, web):
    stream = Stream(web())
    layout = stream.until("layout")
    assert (layout["job"], layout["rank"], layout["rank_node"]) == ("run7", [0, 1, 2, 3], [0, 0, 1, 1])
    assert [node["node"] for node in layout["nodes"]] == [0, 1]
    first = stream.until("state", lambda state: state["pace"])
    assert first["says"].startswith("training at step ") and first["ranks"]["phase"] == "tttt"
    assert first["nodes"]["link"] == "cc" and first["notice"] is None
    assert stream.until("state", lambda state: state["top"] > first["top"])["commit"] > 0
    assert stream.line("committed", step=first["commit"])
    job.jobs[1].send(signal.SIGTERM)
    notice = stream.line("notice")
    assert (notice["source"], notice["of_node"]) == ("SIGTERM", 1)
    end = stream.line("exit")
    saved = end["last_step"]
    assert saved > first["commit"] and stream.line("committed", step=saved)
    assert (end["outcome"], end["exit_code"]) == ("preempted", PREEMPTED)
    lost = stream.until("contact", lambda contact: contact["lost_ms"] is not None)
    assert lost["lost_why"] == "the supervisor has ended"
    assert job.finish() == PREEMPTED
    # The next attempt of the same job is found, and its lines follow those of the first.
    again = Nodes(world, 2, ["--job", "run7"])
    resumed = f"open\ntrain {saved} 1000000 2 at://ckpt\n"
    again.options += ["-n", "2", "--checkpoint-dir", world.root]
    again.launch_all(*world.client(resumed))
    job.jobs = again.jobs
    assert stream.until("layout", lambda layout: layout["attempt"] == 2)["job"] == "run7"
    assert stream.until("contact", lambda contact: contact["lost_ms"] is None)["picture_age_ms"] is not None
    assert stream.line("started", attempt=2, node=0)["resume_step"] == saved
    ids = [event[1] for event in stream.lines()]
    assert len(ids) == len(set(ids))
    again.say(0, "all 4 ranks on 2 nodes have attached")
    again.jobs[0].send(signal.SIGTERM)
    assert again.finish() == PREEMPTED


def test_another_job_of_the_same_name_is_not_followed(world, job, web):
    """It would look like the next attempt. Node 0 of the job has the state directory of the job before."""
    one = web()
    assert one.status()["status"]["state_dir"] == f"{world.root}/.pchrun"
    stream = Stream(one)
    stream.until("layout")
    job.jobs[1].send(signal.SIGTERM)
    saved = stream.line("exit")["last_step"]
    assert job.finish() == PREEMPTED
    (world.root / "other").mkdir()
    other = Nodes(world, 1, ["--job", "run7", "-n", "2", "--checkpoint-dir", world.root / "other"])
    other.launch_all(*world.client("open\ntrain 0 1000000 2 at://ckpt\n"))
    stream.until("contact", lambda contact: contact["lost_why"] == (
        f"the supervisor has ended; process {other.jobs[0].pid} here runs another job named run7; start pchrun-web "
        "again to see it"))
    again = Nodes(world, 2, ["--job", "run7", "-n", "2", "--checkpoint-dir", world.root])
    again.launch_all(*world.client(f"open\ntrain {saved} 1000000 2 at://ckpt\n"))
    assert stream.until("layout", lambda layout: layout["attempt"] == 2)["rank"] == [0, 1, 2, 3]
    stream.line("started", attempt=2, node=0)
    assert [line["attempt"] for _, _, line in stream.lines()
            if (line["event"], line["node"]) == ("started", 0)] == [1, 2]
    for nodes in (other, again):
        nodes.say(0, "have attached")
        nodes.jobs[0].send(signal.SIGTERM)
        assert nodes.finish() == PREEMPTED


def test_node_0_is_shown_once_it_is_there(world, job, web):
    """Node 1 of the next attempt may be found first, and it knows only its own ranks. A reader that asks for node 1
    stays there. A pchrun-web that waits for a job by its state directory finds it in this order, too."""
    stream, of_node_1 = Stream(web()), Stream(web("--node", "1"))
    stream.until("layout")
    job.jobs[1].send(signal.SIGTERM)
    saved = stream.line("exit")["last_step"]
    assert job.finish() == PREEMPTED
    waiting = Stream(web("--state-dir", world.root))
    again = Nodes(world, 2, ["--job", "run7", "-n", "2", "--checkpoint-dir", world.root])
    command = world.client(f"open\ntrain {saved} 1000000 2 at://ckpt\n")
    again.jobs[1] = again.launch(1, *command)
    for each in (stream, waiting):
        assert each.until("layout", lambda layout: layout["node"] == 1)["ranks_of"] == "node"
    again.jobs[0] = again.launch(0, *command)
    for each in (stream, waiting):
        assert each.until("layout", lambda layout: layout["rank"] == [0, 1, 2, 3])["node"] == 0
        each.line("started", node=0)
    of_node_1.until("state", lambda state: state["top"] > saved + 1000)
    assert {data["node"] for name, _, data in of_node_1.events if name == "layout"} == {1}
    again.say(0, "have attached")
    again.jobs[0].send(signal.SIGTERM)
    assert again.finish() == PREEMPTED


def test_a_failure_is_shown_before_a_quick_end(world, web):
    """The other rank ends after half a second. The page keeps the cause, and what the process printed last."""
    go = world.root / "go"
    options = ["--job", "run7", "-n", "2", "--logs-dir", world.root / "logs"]
    failing = world.launch(*options, "--", "sh", "-c", f"""trap 'trap "" TERM; sleep 0.5; exit 0' TERM
        until [ -e {go} ]; do sleep 0.05; done
        [ $RANK = 1 ] && echo 'ValueError: no such shard' >&2 && exit 3
        while :; do sleep 0.05; done""")
    wait_until(lambda: list(Path(world.tmp).glob("pchrun.*/ctl")), "the control socket")
    stream = Stream(web())
    for _ in range(2):  # just after a picture, the next one comes too late
        stream.until("state")
    go.touch()
    cause = stream.until("layout", lambda layout: layout["cause"])["cause"]
    assert (cause["rank"], cause["output"].splitlines()[-1]) == (1, "ValueError: no such shard")
    assert stream.line("exit")["exit_code"] == 3
    assert failing.finish() == 3


def test_a_reader_goes_on_after_its_last_line(job, web):
    one = web()
    stream = Stream(one)
    stream.line("committed")
    lines = stream.lines()
    stream.close()
    again = Stream(one, Last_Event_ID=lines[2][1])
    again.line("committed")
    assert again.lines() == lines[3:]
    foreign = Stream(one, Last_Event_ID="f00-3")
    foreign.line("committed")
    assert foreign.lines() == lines
    again.close()
    foreign.close()


def test_a_stopped_supervisor_stops_nothing_here(job, web):
    one = web()
    stream = Stream(one)
    stream.until("state")
    os.kill(job.jobs[0].pid, signal.SIGSTOP)
    lost = stream.until("contact", lambda contact: contact["lost_ms"] is not None)
    assert "is it stopped?" in lost["lost_why"] and lost["picture_age_ms"] >= 1000
    assert one.ask("/healthz")[0] == 200 and one.ask("/app.js")[0] == 200
    assert one.status()["lost_why"] == lost["lost_why"]
    os.kill(job.jobs[0].pid, signal.SIGCONT)
    stream.until("contact", lambda contact: contact["lost_ms"] is None)
    stream.until("state", lambda state: state["state"] == "training")


def test_a_removed_socket_is_not_the_end(world, job, web):
    """A cleaner of old files took it. The events still come, so the supervisor runs."""
    one = web()
    stream = Stream(one)
    stream.until("state")
    for path in Path(world.tmp).glob("pchrun.*/ctl"):
        path.unlink()
    lost = stream.until("contact", lambda contact: contact["lost_ms"] is not None)
    assert re.fullmatch(r"cannot connect to \S+/ctl: No such file or directory", lost["lost_why"])
    job.jobs[0].send(signal.SIGTERM)
    assert stream.line("exit")["outcome"] == "preempted"
    stream.until("contact", lambda contact: contact["lost_why"] == "the supervisor has ended")
    assert job.finish() == PREEMPTED


def test_it_ends_while_the_supervisor_is_stopped(job, web):
    """Its thread waits for an answer then, and is not waited for."""
    one = web()
    stream = Stream(one)
    stream.until("state")
    os.kill(job.jobs[0].pid, signal.SIGSTOP)
    stream.until("contact", lambda contact: contact["picture_age_ms"] > 1500)
    one.job.end_by(signal.SIGINT, 0)
    os.kill(job.jobs[0].pid, signal.SIGCONT)
    stream.close()


def test_nothing_is_asked_without_a_reader(job, web):
    """The first picture alone is taken without one."""
    one = web()
    first = one.status()["status"]["now"]
    stream = Stream(one)
    stream.until("state", lambda state: state["at"] > first)
    stream.close()

    def age():
        with contextlib.closing(Stream(one)) as reader:
            return reader.until("contact")["picture_age_ms"]
    # A new reader gets the picture that is there, which grows old while no reader is there.
    wait_until(lambda: age() > 1100, "a picture that is older than the interval", pause=1.2)


# --- the metrics ---------------------------------------------------------------------------------

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def samples(text):
    """{name and labels: value}; the comments have none."""
    pairs = [line.rsplit(" ", 1) for line in text.splitlines()]
    return {name: None if name.startswith("#") else float(value) for name, value in pairs}


def test_the_metrics_are_those_of_the_file(world, job, web):
    """job has no metrics.file, run8 has one. Only numbers and times differ."""
    nodes = Nodes(world, 1, ["--job", "run8", "-n", "2", "--metrics-file", world.root / "pchrun.prom",
                             "--metrics-interval", "100ms"])
    nodes.launch_all(*world.client("open\ntrain 0 1000000 2 at://ckpt\n"))
    nodes.say(0, "all 2 ranks")
    one = web("--job", "run8")

    def told():
        code, headers, body = one.ask("/metrics")
        assert (code, headers["Content-Type"], headers["Cache-Control"]) == (200, METRICS_TYPE, "no-store")
        return samples(body.decode())
    wait_until(lambda: [*told()] == [*samples((world.root / "pchrun.prom").read_text())], "the same names", pause=0.2)
    first = told()
    label = '{name="run8",node="0"}'
    assert first[f"pchrun_ranks_attached{label}"] == 2 and first["# TYPE pchrun_step"] is None
    wait_until(lambda: told()[f"pchrun_step{label}"] > first[f"pchrun_step{label}"], "newer metrics")
    assert "pchrun_up{name=\"run7\",node=\"0\"}" in samples(web("--job", "run7").ask("/metrics")[2].decode())
    code, headers, body = one.ask("/metrics", "HEAD")
    assert (code, headers["Content-Type"], body) == (200, METRICS_TYPE, b"")
    nodes.jobs[0].send(signal.SIGTERM)
    assert nodes.finish() == PREEMPTED


def test_a_crowd_of_scrapes_asks_once_a_second(job, web):
    one = web()
    begin = time.monotonic()
    written = [re.search(rb"pchrun_written_timestamp_seconds\S+ (\S+)", one.ask("/metrics")[2])[1] for _ in range(50)]
    assert len(set(written)) <= time.monotonic() - begin + 1


def test_no_metrics_without_the_supervisor(world, job, web):
    """Prometheus shows the line as the error of its last scrape. After the end, the files of the job have the rest."""
    one = web("--state-dir", world.root)
    assert one.ask("/metrics")[0] == 200
    os.kill(job.jobs[0].pid, signal.SIGSTOP)
    code, headers, body = wait_until(lambda: (told := one.ask("/metrics"))[0] == 503 and told, "a refusal", pause=0.2)
    assert (code, body) == (503, b"no metrics: pchrun does not answer; is it stopped?\n")
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    os.kill(job.jobs[0].pid, signal.SIGCONT)
    wait_until(lambda: one.ask("/metrics")[0] == 200, "metrics")
    job.jobs[1].send(signal.SIGTERM)
    assert job.finish() == PREEMPTED
    wait_until(lambda: b"pchrun_up{name=\"run7\",node=\"0\"} 0\n" in one.ask("/metrics")[2], "the end", pause=0.2)


LIVE = re.compile(r"# |pchrun_(\w+_total|(save|agreement)_seconds\w*|ranks_\w+|rank_attached|notice|waiting|info)\{|"
                  r'pchrun_state\{.*state="(?!done)')
HOURS = re.compile(r"pchrun_job_(goodput_ratio|lost_steps|seconds)\{")


def test_the_metrics_of_a_job_that_has_ended(world, web):
    """Those of the last text that the supervisor has written are still there, with its values, but what only a running
    job has. The times of two files differ by the time between their writes."""
    told = world.root / "pchrun.prom"
    job = world.start(world.pchrun, "--job", "run7", "--checkpoint-dir", world.root, "--metrics-file", told, "-n", "2",
                      "--", "sh", "-c", "[ $PCH_LOCAL_RANK = 0 ] && exit 7; exec sleep 60")
    assert job.finish() == 7
    code, headers, body = web("--state-dir", world.root).ask_files("/metrics")
    assert (code, headers["Content-Type"], headers["Cache-Control"]) == (200, METRICS_TYPE, "no-store")
    kept, last = samples(body.decode()), samples(told.read_text())
    assert {name for name in kept if not LIVE.match(name) and not HOURS.match(name)} == \
        {name for name in last if not LIVE.match(name)}
    for name in kept:
        if not LIVE.match(name) and not HOURS.match(name):
            assert kept[name] == pytest.approx(last[name], abs=5 if "_timestamp_seconds" in name else 0), name
    who = 'name="run7",node="0"'
    assert kept[f'pchrun_exit_code{{{who},outcome="failed"}}'] == 7 and kept[f"pchrun_up{{{who}}}"] == 0
    assert [value for name, value in kept.items() if name.startswith("pchrun_first_cause_code{")] == [7]
    history = json.loads(web("--state-dir", world.root).ask_files("/api/v1/history")[2])
    hours = {kind: kept[f'pchrun_job_seconds{{{who},kind="{kind}"}}'] for kind in history["ms"]}
    assert hours == {kind: ms / 1000 for kind, ms in history["ms"].items()}


def without_files(world, web):
    """A job of two ranks without a state directory, and a page that has seen it."""
    nodes = Nodes(world, 1, ["-n", "2"])
    nodes.launch_all(*world.client("open\ntrain 0 1000000 2 at://ckpt\n"))
    nodes.say(0, "have attached")
    one = web()
    one.status()
    return nodes, one


def test_without_files_no_metrics_are_left(world, web):
    """A job without a state directory has only those of its supervisor."""
    nodes, one = without_files(world, web)
    nodes.jobs[0].send(signal.SIGTERM)
    nodes.finish()
    wait_until(lambda: one.ask("/metrics")[::2] == (503, b"no metrics: the supervisor has ended\n"), "the end")


# --- the history ---------------------------------------------------------------------------------

def history(one):
    code, headers, body = one.ask_files("/api/v1/history")
    assert (code, headers["Content-Type"]) == (200, "application/json"), body
    return json.loads(body)


def test_the_history_is_that_of_pchctl(world, job, web, ctl):
    """Of a running job, and of one that has ended, of which nothing changes any more."""
    told = history(web())
    assert (told["schema"], told["job"], told["running"]) == ("pchrun.goodput", "run7", True)
    assert [attempt["end"] for attempt in told["attempts"]] == ["running"]
    job.jobs[1].send(signal.SIGTERM)
    assert job.finish() == PREEMPTED
    after = ctl("goodput", "--json", world.root, everywhere=True).stdout
    assert json.loads(after)["attempts"][0]["end"] == "preempted"
    for place in (world.root, world.root / ".pchrun"):
        assert history(web("--state-dir", place)) == json.loads(after)


def test_the_timeline_follows_the_job(world, job, web, ctl):  # noqa: F811
    """Its sums are those of pchctl goodput. It has the notice and the end soon after the journal."""
    stream = Stream(web())
    whole = stream.until("timeline", lambda told: "views" in told)["views"][0]
    assert whole["hours"] == 0 and whole["attempt_count"] == 1 and whole["notices"] == 0
    job.jobs[1].send(signal.SIGTERM)
    assert job.finish() == PREEMPTED
    # Ledger and journal are written apart, so the end may be read before the notice.
    told = stream.until("timeline", lambda told: not told["running"] and told["views"][0]["notices"])
    view = told["views"][0]
    assert view["notices"] == 1 and view["attempts"][0]["end"] == "preempted"
    after = json.loads(ctl("goodput", "--json", world.root, everywhere=True).stdout)
    assert {kind["kind"]: ms for kind, ms in zip(told["kinds"], view["sums"], strict=True)} == after["ms"]
    assert sum(piece[2] for piece in view["pieces"]) == view["ms"] == view["wall_ms"] == after["wall_ms"]
    assert max(piece[6] for piece in view["pieces"]) == after["attempts"][0]["last_step"]


def test_a_job_is_named_by_its_state_directory(world, job, web):
    """It need not run yet. A pchrun with another state directory is not taken for it."""
    (world.root / "other").mkdir()
    one = web("--state-dir", world.root / "other")
    stream = Stream(one)
    why = f"the pchrun here, process {job.jobs[0].pid}, has another state directory: {world.root}/.pchrun"
    stream.until("contact", lambda contact: contact["lost_why"] == why[:255])
    assert one.ask_files("/api/v1/history")[2].decode() == \
        f"no history: {world.root}/other has no record of a job's time (the file ledger) yet\n"
    mine = Stream(web("--state-dir", world.root))
    assert mine.until("layout")["job"] == "run7"
    job.jobs[1].send(signal.SIGTERM)
    assert job.finish() == PREEMPTED
    nodes = Nodes(world, 1, ["--job", "run8", "-n", "2", "--checkpoint-dir", world.root / "other"])
    nodes.launch_all(*world.client("open\ntrain 0 1000000 2 at://ckpt\n"))
    assert stream.until("layout")["job"] == "run8"
    nodes.say(0, "have attached")
    nodes.jobs[0].send(signal.SIGTERM)
    assert nodes.finish() == PREEMPTED


def test_a_state_directory_without_a_job(world, web):
    """A reader of the page has no use for the commands of pchctl that would show the same."""
    one = web("--state-dir", world.root)
    lost = Stream(one).until("contact", lambda contact: contact["lost_why"])
    assert lost["lost_why"].endswith("; it appears here as soon as it runs")
    assert one.ask("/metrics")[::2] == (503, f"no metrics: no report is in {world.root} yet\n".encode())
    paths = re.findall(r"/[\w/]*", one.ask("/nowhere")[2].decode())
    assert [one.ask(path, "HEAD")[0] for path in paths] == [200, 503, 200, 200, 200, 503]


def test_a_job_without_a_state_directory(world, web):
    nodes, one = without_files(world, web)
    assert one.ask_files("/api/v1/history")[::2] == (
        503, b"no history: the job has no state directory, so it has no ledger\n")
    assert Stream(one).until("timeline") == {"why": "the job has no state directory, so it has no ledger"}
    nodes.jobs[0].send(signal.SIGTERM)
    nodes.finish()


def test_a_disk_that_hangs_stops_nothing(dead, web):
    """The process that reads the ledger cannot even be killed then."""
    one = web("--state-dir", dead.path)
    code, _, body = one.ask("/api/v1/history")
    assert (code, body) == (503, b"no history: the ledger is still being read\n") and dead.asked.is_set()
    Stream(one).until("contact")
    assert one.ask("/healthz")[0] == 200 and one.status()["status"] is None
    one.end()


# --- which job, and where ------------------------------------------------------------------------

@pytest.mark.parametrize("options, why", [
    (["--job", "other"], "no pchrun of job other was found in "),
    (["--listen", "0.0.0.0"], "other machines can reach 0.0.0.0, so a token is needed: see --token-file"),
    (["--listen", "x y"], "--listen: "),
    (["--state-dir", "/nowhere"], "--state-dir: cannot look into /nowhere: No such file or directory"),
    (["--state-dir", "/dev/null"], "--state-dir: /dev/null is not a directory"),
    (["--token-file", "/nowhere"], "there is no token file /nowhere; make it: "),
    (["page"], '"page" is one argument too many; choose a job by --job NAME'),
    (["--metrics"], "unknown flag --metrics"),
])
def test_what_cannot_be_served(world, options, why):
    done = world.start(WEB, "--run-dir", world.tmp, *options, code=2)
    assert len(done.err_lines) == 1 and done.err.startswith("pchrun-web: ") and why in done.err, done.err
    assert done.out == ""


def test_a_port_in_use(world, job, web):
    one = web()
    other = world.start(WEB, "--run-dir", world.tmp, "--listen", f"127.0.0.1:{one.port}", code=1)
    assert other.err == (f"pchrun-web: cannot listen at 127.0.0.1 port {one.port}; see --listen: Address already in "
                         "use\n")


@pytest.mark.parametrize("host, why", [
    (70 * "n", "cannot listen at {host}: Name or service not known; give --listen an address or a name of this machine, "
               "or 0.0.0.0 for all its addresses"),
    ("192.0.2.1", "cannot listen at {host}: this machine has no such address; give --listen one that it has, or 0.0.0.0 "
                  "for all"),
], ids=["unknown", "foreign"])
def test_a_host_that_is_not_of_this_machine(world, job, host, why):
    """192.0.2.1 is for documentation. A name has at most 63 characters between two dots, so no server is asked."""
    failed = world.start(WEB, "--run-dir", world.tmp, "--listen", host, "--token-file", world.file("token", TOKEN), code=1)
    assert failed.err == f"pchrun-web: {why.format(host=host)}\n"


def test_it_says_where_to_look(job, web):
    one = web()
    host = socket.gethostname()
    assert one.job.out == (
        f"open http://127.0.0.1:{one.port}/\nfrom another machine: ssh -L {one.port}:127.0.0.1:{one.port} {host}, "
        f"then open http://localhost:{one.port}/\n")


def test_it_listens_on_ipv6(job, web):
    """ssh -L needs the brackets, too."""
    one = web(host="[::1]")
    assert one.job.out.startswith(
        f"open http://[::1]:{one.port}/\nfrom another machine: ssh -L {one.port}:[::1]:{one.port} ")
    assert one.status()["lost_ms"] is None


# --- what it refuses -----------------------------------------------------------------------------

def test_only_its_own_paths_and_methods(job, web):
    one = web()
    for path in ("/index.html", "/app.js/", "/../app.js", "/./app.js", "/%61pp.js", "/..%2f..%2fetc/passwd",
                 "/api/v1/status/", "/api/v1", "/api/v1/drain", "/metrics/", "/favicon.ico"):
        assert one.ask(path)[0] == 404, path
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
        code, headers, _ = one.ask("/api/v1/status", method)
        assert (code, headers["Allow"]) == (405, "GET, HEAD"), method
    for request in (b"GET http://127.0.0.1/ HTTP/1.1\r\nHost: localhost\r\n\r\n", b"BREW / HTTP/1.1\r\n\r\n",
                    b"GET //app.js HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0\0\0\0\r\n\r\n"):
        with contextlib.closing(one.say(request)) as connection:
            assert b" 200 " not in connection.recv(4096).split(b"\r\n")[0]
    assert one.status()["status"]["report"]["state"] == "running"


def test_a_page_of_another_site_learns_nothing(job, web):
    """By DNS rebinding, the attacker's name is this address. The browser tells the name in Host."""
    one = web()
    for path in ("/", "/healthz", "/metrics", "/api/v1/status", "/api/v1/events", "/api/v1/history"):
        for host in ("attacker.example", f"attacker.example:{one.port}", "127.0.0.1.attacker.example", ""):
            assert one.ask(path, Host=host)[0] == 403, (path, host)
        assert one.ask(path, "HEAD", Host=f"localhost:{one.port}")[0] == 200
    for site, code in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
        assert one.ask("/api/v1/status", Sec_Fetch_Site=site)[0] == one.ask("/metrics", Sec_Fetch_Site=site)[0] == code


def test_the_token(world, job, web):
    one = web("--token-file", world.file("token", f"{TOKEN}\n"))
    assert "the page asks for the token" in one.job.out and TOKEN not in one.job.out
    for path in ("/", "/app.css", "/app.js", "/healthz"):
        assert one.ask(path)[0] == 200
    for given in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": f"Bearer {TOKEN[:-1]}"},
                  {"Authorization": "Bearer "}, {"Authorization": f"Basic {TOKEN}"}, {"Cookie": f"token={TOKEN}"}):
        for path in ("/api/v1/status", "/api/v1/events", "/api/v1/history", "/metrics",
                     f"/api/v1/status?token={TOKEN}"):
            code, headers, body = one.ask(path, **given)
            assert (code, headers["WWW-Authenticate"]) == (401, "Bearer") and b"run7" not in body, (path, given)
    for path in ("/api/v1/status", "/api/v1/history", "/metrics"):
        assert one.ask(path, Authorization=f"Bearer {TOKEN}")[0] == 200
    Stream(one, Authorization=f"Bearer {TOKEN}").until("state")


def test_with_a_token_it_listens_for_others(world, job, web):
    one = web("--token-file", world.file("token", TOKEN), host="0.0.0.0")
    host = socket.gethostname()
    assert f"other machines can also open http://{host}:{one.port}/; that connection is not encrypted" in one.job.out
    given = {"Authorization": f"Bearer {TOKEN}"}
    for name, code in ((host, 200), ("10.0.0.7", 200), ("attacker.example", 403)):
        assert one.ask("/api/v1/status", Host=name, **given)[0] == code


def test_long_requests_are_cut_off(job, web):
    one = web()
    for request in (b"GET /" + 100000 * b"a" + b" HTTP/1.1\r\n\r\n",
                    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + 100000 * b"a" + b"\r\n\r\n",
                    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + 5000 * b"X: y\r\n" + b"\r\n",
                    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n" + 5000 * b"a"):
        with contextlib.closing(socket.create_connection(("127.0.0.1", one.port), timeout=DEADLINE)) as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(request)
                assert re.match(rb"HTTP/1.1 4\d\d |$", connection.recv(4096))
    assert one.ask("/healthz")[0] == 200


@pytest.mark.parametrize("request_", [
    b"<script>run7</script>\r\n\r\n", b"GET\r\n\r\n", b"GET /run7 HTTP/x\r\n\r\n", b"GET / HTTP/1.1\r\nrun7<b>\r\n\r\n",
    b"GET http://[run7 HTTP/1.1\r\n\r\n", b"POST /run7 HTTP/1.1\r\nContent-Length: 9999\r\n\r\n"])
def test_a_malformed_request_gets_a_fixed_answer(job, web, request_):
    """It is libevent's, without the headers of the others, so nothing of the job or of the request may be in it."""
    with contextlib.closing(web().say(request_)) as connection, connection.makefile("rb") as answer:
        head, _, body = answer.read().partition(b"\r\n\r\n")
    code, reason = re.fullmatch(rb"HTTP/1.1 (400|413) ([\w ]+)", head.split(b"\r\n")[0]).groups()
    names = {line.partition(b":")[0] for line in head.split(b"\r\n")[1:]}
    assert names == {b"Content-Type", b"Content-Length", b"Connection", b"Date"}
    assert body == b"<HTML><HEAD>\n<TITLE>%b %b</TITLE>\n</HEAD><BODY>\n<H1>%b</H1>\n</BODY></HTML>\n" % (code, reason, reason)


def sockets_of(pid):
    return sum("socket:" in name for name in open_files(pid))


def test_slow_clients_do_not_keep_others_out(job, web):
    """800 connections that have sent the beginning of a request: at most 64 stay, and a browser gets in."""
    one = web()
    idle = 2  # the one that listens, and the connection with the events of the job
    wait_until(lambda: sockets_of(one.job.pid) == idle, "pchrun-web to follow the job")
    slow = []
    try:
        for _ in range(8):
            slow += [one.say(b"G") for _ in range(100)]
            assert one.ask("/healthz")[0] == 200
            assert sockets_of(one.job.pid) <= idle + CONNECTIONS_MAX + 1
    finally:
        for connection in slow:
            connection.close()
    wait_until(lambda: sockets_of(one.job.pid) <= idle, "all connections to be closed")


def limit_files(soft, hard):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_limit_of_descriptors_that_clients_could_reach(world, job):
    """Below it libevent would try to accept again and again, and no other client would get in."""
    limited = world.start(WEB, "--run-dir", world.tmp, preexec_fn=limit_files(CONNECTIONS_MAX, CONNECTIONS_MAX), code=1)
    assert limited.err == ("pchrun-web: cannot keep 64 connections open: no descriptor is left: Too many open files; "
                           "the limit on open descriptors (ulimit -n) is 64: raise it\n")


def test_a_soft_limit_of_descriptors_is_raised(job, web):
    one = web(preexec_fn=limit_files(CONNECTIONS_MAX, 1000))
    slow = [one.say(b"G") for _ in range(2 * CONNECTIONS_MAX)]
    assert one.status()["lost_ms"] is None
    for connection in slow:
        connection.close()


@pytest.mark.timing
def test_a_reader_that_vanished_frees_its_place(job, web):
    """Its machine acknowledges nothing any more. On loopback the nearest to it is a reader whose small buffer stays
    full. The server's own buffer would have room for an hour."""
    one = web()
    idle = 2  # the one that listens, and the connection with the events of the job
    wait_until(lambda: sockets_of(one.job.pid) == idle, "pchrun-web to follow the job")
    with contextlib.closing(socket.socket()) as vanished:
        vanished.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        vanished.settimeout(DEADLINE)
        vanished.connect(("127.0.0.1", one.port))
        vanished.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert vanished.recv(4096, socket.MSG_PEEK).startswith(b"HTTP/1.1 200 ")
        wait_until(lambda: sockets_of(one.job.pid) == idle + 1, "the reader to be the only one")
        wait_until(lambda: sockets_of(one.job.pid) == idle, "its place to be free", deadline=60)


@pytest.mark.timing
def test_a_slow_request_has_a_time(job, web):
    """However often a byte comes. libevent's own limit begins again with each byte."""
    one = web()
    slow = one.say(b"GET / HTTP/1.1\r\nX: ")
    slow.settimeout(0.5)

    def is_cut():
        try:
            slow.sendall(b"a")
            return slow.recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True
    wait_until(is_cut, "the connection to be cut off", deadline=REQUEST_S + 10)
    slow.close()


def test_there_is_a_limit_of_readers(job, web):
    one = web()
    readers = [Stream(one) for _ in range(READERS_MAX)]
    code, headers, body = one.ask("/api/v1/events")
    assert (code, body) == (503, b"too many readers\n") and headers["Content-Type"] == "text/plain; charset=utf-8"
    assert one.ask("/healthz")[0] == 200
    for reader in readers:
        reader.until("state")
    readers[0].close()
    wait_until(lambda: one.ask("/api/v1/events", "HEAD")[0] == 200, "an answer")
    for reader in readers:
        reader.close()


def test_a_client_that_reads_nothing_costs_little(job, web):
    one = web()
    deaf = one.say(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    flood = one.say(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    flood.settimeout(0.2)
    with contextlib.suppress(TimeoutError, ConnectionError):
        for _ in range(1000):  # 64 MB, of which the server takes little
            flood.sendall(65536 * b"x")
    resident = int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{one.job.pid}/status").read_text())[1])
    assert resident < 200000, "kB"
    Stream(one).until("state")
    deaf.close()
    flood.close()
