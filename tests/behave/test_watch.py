# SPDX-License-Identifier: Apache-2.0
"""pchrun-watch prints a line when a source gives notice, and never otherwise.

The services are those of metadata.py. After a fault, a test waits for true answers of the service: pchrun-watch
has acted on the fault by then. So a wrong line would be there.
"""

import fcntl
import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import metadata
from harness import (SLACK, below_silent_names, children_of, full_pipe, is_alive, open_files, status_of, wait_until,
                     wakeups)
from metadata import Alibaba, Answer, Aws, Azure, Gce, Tencent, answering, azure_event, beijing, rfc3339, spot_action
from relay import Relay

PROGRAM = Path(os.environ["PCHRUN_BIN"]).with_name("pchrun-watch")
QUICK = ["--interval", "10ms", "--timeout", "10s"]
# For services that do not answer: each request takes the whole timeout.
HASTY = ["--interval", "10ms", "--timeout", "500ms"]
CHECK_S = 2.5  # for so long --check waits for an answer, so it never ends sooner if it waits
TERMINATE, MIGRATE = "TERMINATE_ON_HOST_MAINTENANCE", "MIGRATE_ON_HOST_MAINTENANCE"


class Watcher:
    """A pchrun-watch and what it has printed."""

    def __init__(self, world, *args, env=None, **options):
        self.job = world.start(PROGRAM, *args, env=env, **options)
        self.pid = self.job.pid

    @property
    def lines(self):
        text = self.job.out
        return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]

    @property
    def types(self):
        return [line["type"] for line in self.lines]

    def has(self, count):
        """Waits until `count` lines have been printed."""
        wait_until(lambda: len(self.lines) >= count, f"{count} lines")
        assert len(self.lines) == count, self.lines

    def listens(self):
        """Waits until pchrun-watch watches a directory."""
        wait_until(lambda: "inotify" in str(list(open_files(self.pid))), "inotify")

    def wait(self, *types):
        """Waits until just these have been printed; returns the last line."""
        wait_until(lambda: len(self.lines) >= len(types) or not is_alive(self.pid), f"lines {types}")
        assert self.types == list(types), f"{self.lines}; it said: {self.job.err}"
        return self.lines[-1]

    def said(self, text):
        wait_until(lambda: text in self.job.err, f"{text!r} on standard error")

    def end(self):
        """Ends pchrun-watch as pchrun does; the exit status is 0, and standard output holds nothing but lines."""
        os.kill(self.pid, signal.SIGTERM)
        assert self.job.finish() == 0
        assert self.lines is not None


@pytest.fixture
def watch(world):
    """A function that starts pchrun-watch."""
    started = []

    def start(*args, **more):
        started.append(Watcher(world, *args, **more))
        return started[-1]
    yield start
    for one in started:
        if one.job.process.poll() is None:
            one.end()


@pytest.fixture
def ask(watch):
    """A function that starts pchrun-watch for a service."""
    return lambda service, *options, waits=QUICK, **more: watch(
        service.source, *waits, "--endpoint", service.url, *options, **more)


@pytest.fixture
def serving():
    """A function that makes the service of a test, with a trap beside it."""
    made = []

    def make(service):
        made.append(service)
        service.trap = metadata.Trap(service)
        return service
    yield make
    for service in made:
        service.close()


@pytest.fixture
def gce(serving):
    return serving(Gce())


@pytest.fixture
def aws(serving):
    return serving(Aws())


@pytest.fixture
def azure(serving):
    return serving(Azure())


# ---- the matrix: every source, every fault ----

@dataclass
class Case:
    make: type
    event: Callable  # the argument of set() for an event
    none: tuple  # the arguments of set() for its end
    lies_of_event: Callable
    lies_of_none: object
    options: tuple = ()


def quiet_gce():
    service = Gce()
    service.set("upcoming-maintenance", "{}")
    service.set("shutdown-details/stop-state", "UNSPECIFIED")
    return service


CASES = {
    "gce": Case(quiet_gce, lambda: ("maintenance-event", TERMINATE), ("maintenance-event", "NONE"),
                lambda: {"maintenance-event": TERMINATE, "preempted": "TRUE",
                         "shutdown-details/stop-state": "PENDING_STOP",
                         "upcoming-maintenance": '{"windowStartTime": "2020-01-01T00:00:00Z"}'},
                {"maintenance-event": "NONE", "preempted": "FALSE", "upcoming-maintenance": "{}",
                 "shutdown-details/stop-state": "UNSPECIFIED"}, ("--hang", "1s")),
    "aws": Case(Aws, lambda: (Aws.ACTION, spot_action(120)), (Aws.ACTION, None),
                lambda: {Aws.ACTION: spot_action(3), Aws.TERMINATION: rfc3339(3), Aws.LIFECYCLE: "Terminated",
                         Aws.REBALANCE: '{"noticeTime": "2020-01-01T00:00:00Z"}', Aws.TOKEN: "lie",
                         Aws.SCHEDULED: '[{"Code": "instance-stop", "State": "active"}]'},
                {Aws.SCHEDULED: "[]"}),
    "azure": Case(Azure, lambda: (azure_event(),), (), lambda: [azure_event(ident="E-lie", Resources=[])], [],
                  ("--name", "node_1")),
    "alibaba": Case(Alibaba, lambda: (Alibaba.TERMINATION, rfc3339(120)), (Alibaba.TERMINATION, None),
                    lambda: {Alibaba.TERMINATION: rfc3339(3), Alibaba.TOKEN: "lie"}, {}),
    "tencent": Case(Tencent, lambda: (Tencent.TERMINATION, beijing(120)), (Tencent.TERMINATION, None),
                    lambda: {Tencent.TERMINATION: beijing(3)}, {}),
}
FAULTY = [(source, fault) for source in CASES
          for fault in metadata.FAULTS + (metadata.FLAVOR_FAULTS if source == "gce" else [])]


@pytest.mark.parametrize("source, fault", FAULTY, ids=lambda x: getattr(x, "__name__", x))
def test_fault_changes_nothing(ask, serving, source, fault):
    """A fault that announces an event is not believed. During an event, a fault that denies the event is not believed
    either. Faults come from the first request on, at every other request."""
    case = CASES[source]
    service = serving(case.make())
    service.lies = case.lies_of_event()
    service.spoil(fault, 3)
    watcher = ask(service, *case.options, waits=HASTY if fault in (metadata.silent, metadata.slow) else QUICK)
    service.wait_spoiled()
    service.wait_answered(*service.PATHS)
    assert watcher.lines == []
    service.set(*case.event())
    watcher.wait("terminate")
    service.lies = case.lies_of_none
    service.spoil(fault, 3)
    service.wait_spoiled()
    service.wait_answered(*service.PATHS)
    assert watcher.types == ["terminate"], watcher.lines
    service.set(*case.none)
    watcher.wait("terminate", "cancel")
    assert watcher.lines[0]["id"] == watcher.lines[1]["id"]
    assert not service.trap.requests, "a redirect was followed"
    assert len(watcher.job.err_lines) <= 20  # by key: the first failure, and the first success
    watcher.end()


def test_service_that_comes_and_goes(ask, gce):
    """The service is away at the start, and comes. It goes while an event is announced, and comes again."""
    gce.close()
    watcher = ask(gce)
    watcher.said("maintenance-event: ")
    assert watcher.lines == []
    for _ in range(2):
        again = Gce(gce.port, TERMINATE)
        again.wait_answered(*gce.PATHS)
        again.close()
        assert watcher.types == ["terminate"]


# ---- gce ----

def test_gce_values(ask, gce):
    watcher = ask(gce)
    gce.wait_answered(*gce.PATHS)
    gce.set("maintenance-event", MIGRATE)
    migrate = watcher.wait("log")
    gce.set("maintenance-event", TERMINATE)
    terminate = watcher.wait("log", "terminate", "cancel")
    assert watcher.lines[2]["id"] == migrate["id"]
    gce.set("preempted", "TRUE")
    preempted = watcher.wait("log", "terminate", "cancel", "terminate")
    assert "deadline_seconds" not in terminate and "deadline_seconds" not in preempted
    assert preempted["text"] == "preempted" and preempted["id"] != watcher.lines[1]["id"]
    gce.set("maintenance-event", "SOMETHING_ELSE")
    watcher.said('"SOMETHING_ELSE" is not a known value of maintenance-event')
    assert len(watcher.lines) == 4


def test_gce_migration_that_asks(ask, gce):
    gce.set("maintenance-event", MIGRATE)
    watcher = ask(gce, "--mild", "checkpoint")
    watcher.wait("checkpoint")


def test_gce_first_request_asks_for_the_value(ask, gce):
    """The first request arms the server's warning; the server holds only later requests."""
    ask(gce)
    gce.wait_answered(*gce.PATHS)
    for path in gce.PATHS:
        queries = [r.query for r in gce.requests if r.path == path]
        assert "wait_for_change" not in queries[0]
    held = [r for r in gce.requests if r.path == gce.PATHS[0]][1]
    assert held.query["last_etag"] == gce.etag("maintenance-event")
    assert held.query["timeout_sec"] == "60"


@pytest.mark.timing
def test_gce_costs_one_request_held_per_key(ask, gce):
    """While the server holds its requests, the watch sleeps."""
    gce.holds_s = 1.0
    gce.set("upcoming-maintenance", "{}")
    gce.set("shutdown-details/stop-state", "UNSPECIFIED")
    watcher = ask(gce)
    gce.wait(lambda: gce.hanging() == 4, "four held requests")
    wait_until(lambda: status_of(watcher.pid)["State"].startswith("S"), "the watch to sleep")
    before = wakeups(watcher.pid)
    begun = len(gce.requests)
    gce.wait(lambda: len(gce.requests) > begun, "the first of the next requests")
    woken = wakeups(watcher.pid) - before
    assert woken <= 10, f"woken {woken} times in a second"


@pytest.mark.parametrize("what", ["does not hold", "has no etag"])
def test_gce_polls_where_requests_are_not_held(ask, gce, what):
    gce.holds_s = None
    gce.has_etag = what == "does not hold"
    watcher = ask(gce)
    gce.wait_answered(gce.PATHS[0], more=10)
    ended = [r for r in gce.requests if r.path == gce.PATHS[0]]
    assert sum("wait_for_change" in r.query for r in ended) <= 2
    gce.set("maintenance-event", TERMINATE)
    watcher.wait("terminate")


def test_gce_upcoming(ask, gce):
    """Days ahead the event is a log line. When it is near, it has its real type. Then it is moved, and ends."""
    body = {"type": "SCHEDULED", "maintenance_status": "PENDING", "can_reschedule": "TRUE",
            "window_start_time": rfc3339(7 * 86400), "window_end_time": rfc3339(8 * 86400)}
    gce.set("upcoming-maintenance", json.dumps(body))
    watcher = ask(gce, "--lead", "1h")
    line = watcher.wait("log")
    assert 7 * 86400 - 10 < line["deadline_seconds"] <= 7 * 86400
    gce.set("upcoming-maintenance", json.dumps({**body, "window_start_time": rfc3339(600)}))
    line = watcher.wait("log", "terminate")
    assert 590 < line["deadline_seconds"] <= 600 and line["id"] == watcher.lines[0]["id"]
    gce.set("upcoming-maintenance", '{ "error": "something else" }')
    watcher.said("the answer is an error: something else")
    assert len(watcher.lines) == 2
    gce.set("upcoming-maintenance", json.dumps({**body, "maintenance_status": "COMPLETE"}))
    watcher.wait("log", "terminate", "cancel")


def test_gce_without_a_maintenance_says_nothing(ask, gce):
    """A machine that never had a maintenance answers 503, for ever: that is no failure."""
    gce.set("upcoming-maintenance", gce.NONE_YET)
    watcher = ask(gce)
    gce.wait_answered(gce.PATHS[2], more=4)
    assert watcher.lines == [] and watcher.job.err == ""


def test_gce_maintenance_that_is_forgotten_is_called_off(ask, gce):
    """The same answer ends a maintenance that was under way, when it has come twice."""
    gce.set("upcoming-maintenance", json.dumps({"Upcoming maintenance": {
        "window_start_time": rfc3339(-60), "maintenance_status": "ONGOING"}}))
    watcher = ask(gce)
    line = watcher.wait("terminate")
    assert "deadline_seconds" not in line
    before = gce.answered(gce.PATHS[2])
    gce.set("upcoming-maintenance", gce.NONE_YET)
    assert watcher.wait("terminate", "cancel")["id"] == line["id"]
    assert gce.answered(gce.PATHS[2]) >= before + 2 and watcher.job.err == ""


def test_gce_words_of_no_maintenance_from_elsewhere(ask, gce):
    """A 503 of another server, or with other words, calls nothing off."""
    gce.set("upcoming-maintenance", json.dumps({"windowStartTime": rfc3339(600)}))
    gce.lies = {"upcoming-maintenance": gce.NONE_YET}

    watcher = ask(gce)
    watcher.wait("terminate")
    gce.spoil(answering("unflavored", lambda lie: Answer(503, lie.body)), 12)
    gce.wait_spoiled()
    gce.wait_answered(gce.PATHS[2])
    assert watcher.types == ["terminate"]


STOP = "shutdown-details/"


def test_gce_graceful_stop(ask, gce):
    """The notice has its deadline from the first line on; the end of the wait changes nothing."""
    gce.set(STOP + "stop-state", "UNSPECIFIED")
    gce.set(STOP + "request-timestamp", rfc3339(-100))
    gce.set(STOP + "max-duration", "700")
    watcher = ask(gce)
    gce.wait_answered(*gce.PATHS)
    gce.set(STOP + "stop-state", "PENDING_STOP")
    line = watcher.wait("terminate")
    assert 590 < line["deadline_seconds"] <= 600 and "PENDING_STOP" in line["text"]
    gce.set(STOP + "stop-state", "STOPPING")
    gce.wait_answered(gce.PATHS[3])
    assert watcher.types == ["terminate"]
    gce.set(STOP + "stop-state", "UNSPECIFIED")
    assert watcher.wait("terminate", "cancel")["id"] == line["id"]
    assert watcher.job.err == ""


def test_gce_graceful_stop_whose_end_is_told_later(ask, gce):
    """The notice is printed once without a deadline; the deadline follows when it can be read."""
    gce.set(STOP + "stop-state", "PENDING_STOP")
    gce.set(STOP + "request-timestamp", rfc3339(-100))
    watcher = ask(gce)
    line = watcher.wait("terminate")
    assert "deadline_seconds" not in line
    watcher.said("the time of the stop: shutdown-details/max-duration: HTTP 404")
    gce.set(STOP + "max-duration", "700s")
    line = watcher.wait("terminate", "terminate")
    assert 590 < line["deadline_seconds"] <= 600 and line["id"] == watcher.lines[0]["id"]
    watcher.said("the time of the stop: it works again")


def test_told_when_it_comes_near(ask, gce):
    gce.set("upcoming-maintenance", "{}")
    watcher = ask(gce, "--lead", "2s")
    gce.wait_answered(*gce.PATHS)
    gce.set("upcoming-maintenance", json.dumps({"windowStartTime": rfc3339(2 + SLACK)}))
    watcher.wait("log", "terminate")
    assert watcher.lines[1]["deadline_seconds"] <= 2 < watcher.lines[0]["deadline_seconds"] + 1


# ---- aws ----


def test_aws_tokens(ask, aws):
    """A token is fetched once and sent with every request."""
    aws.needs_token = True
    watcher = ask(aws)
    aws.wait_answered(aws.ACTION, more=5)
    assert sum(r.path == aws.TOKEN for r in aws.requests) == 1
    aws.set(aws.ACTION, spot_action(120))
    line = watcher.wait("terminate")
    assert 110 < line["deadline_seconds"] <= 120
    assert watcher.job.err == ""


def test_aws_token_that_is_refused_is_replaced(ask, aws):
    aws.needs_token = True
    aws.set(aws.ACTION, spot_action(120))
    watcher = ask(aws)
    watcher.wait("terminate")
    aws.forget_tokens()
    aws.wait(lambda: sum(r.path == aws.TOKEN for r in aws.requests) >= 2, "a new token")
    aws.wait_answered(aws.ACTION)
    assert watcher.types == ["terminate"] and watcher.job.err == ""


def test_aws_token_is_replaced_before_its_end(ask, aws):
    aws.ttl_s = 1  # the token is valid for half a second
    aws.needs_token = True
    watcher = ask(aws)
    aws.wait(lambda: sum(r.path == aws.TOKEN for r in aws.requests) >= 3, "two new tokens")
    assert not [r for r in aws.requests if r.status == 401] and watcher.job.err == ""


@pytest.mark.parametrize("put", ["hangs", "403"])
def test_aws_without_tokens(ask, watch, aws, put):
    """Behind one hop too many the PUT is never answered; the service may also have no tokens."""
    aws.put = put
    aws.set(aws.ACTION, spot_action(120))
    # Only a PUT that hangs takes its whole time. All else must come in time.
    watcher = ask(aws, waits=["--interval", "10ms", "--timeout", "3s"] if put == "hangs" else QUICK)
    watcher.wait("terminate")
    watcher.said("though the service answers: the hop limit of the metadata service is too small" if put == "hangs"
                 else "the token (IMDSv2): HTTP 403 instead of a token; requests are sent without a token (IMDSv1)")
    assert put == "hangs" or "hop limit" not in watcher.job.err
    aws.wait_answered(aws.ACTION, more=5)
    # none, if pchrun-watch gave up before the service accepted the connection
    assert sum(r.path == aws.TOKEN for r in aws.requests) <= 1


def test_aws_without_tokens_where_they_are_needed(ask, aws):
    aws.put, aws.needs_token = "hangs", True
    aws.set(aws.ACTION, spot_action(120))
    watcher = ask(aws, waits=HASTY)
    watcher.said("the service requires the token (IMDSv2)")
    assert watcher.lines == []
    with aws.changed:
        aws.put = "ok"
        aws.changed.notify_all()
    watcher.wait("terminate")


def test_aws_token_that_would_be_more_than_a_header(ask, serving):
    class Sly(Aws):
        def _new_token(self, request):
            return Answer(200, b"x\r\nX-Other: y")
    sly = serving(Sly())
    sly.set(sly.ACTION, spot_action(120))
    ask(sly).wait("terminate")
    assert not [r for r in sly.requests if "x-other" in r.headers]


def test_aws_both_spot_paths_are_one_event(ask, aws):
    """The event ends when it is away from both, and the last of them has been asked twice."""
    at = rfc3339(120)
    aws.set(aws.ACTION, json.dumps({"action": "terminate", "time": at}))
    aws.set(aws.TERMINATION, at)
    watcher = ask(aws)
    aws.wait_answered(aws.ACTION, aws.TERMINATION)
    assert watcher.wait("terminate")["id"] == f"spot-terminate-{at}"
    aws.set(aws.ACTION, None)
    aws.wait_answered(aws.ACTION, more=4)
    watcher.wait("terminate")
    aws.spoil(answering("away", lambda _lie: Answer(404)), path=aws.TERMINATION)
    aws.wait_spoiled()
    aws.wait_answered(aws.TERMINATION)
    assert watcher.types == ["terminate"]
    aws.set(aws.TERMINATION, None)
    watcher.wait("terminate", "cancel")


def test_aws_rebalance_and_maintenance(ask, aws):
    aws.set(aws.REBALANCE, json.dumps({"noticeTime": rfc3339(0)}))
    event = {"NotBefore": "21 Jan 2019 09:00:43 GMT", "Code": "system-reboot", "Description": "scheduled",
             "EventId": "instance-event-0d59", "NotAfter": "21 Jan 2019 09:17:23 GMT", "State": "active"}
    aws.set(aws.SCHEDULED, json.dumps([event, {**event, "EventId": "x", "State": "completed"}]))
    aws.set(aws.LIFECYCLE, "InService")
    watcher = ask(aws)
    watcher.has(2)
    lines = {line["type"]: line for line in watcher.lines}
    assert lines["terminate"]["id"] == "instance-event-0d59"
    assert lines["terminate"]["deadline_seconds"] < -86400
    assert "deadline_seconds" not in lines["checkpoint"]
    aws.set(aws.LIFECYCLE, "Terminated")
    watcher.has(3)
    assert watcher.lines[2]["id"].startswith("autoscaling-terminated-")
    event["State"] = "canceled"
    aws.set(aws.SCHEDULED, json.dumps([event]))
    watcher.has(4)
    assert watcher.lines[3] == {"type": "cancel", "id": "instance-event-0d59",
                                "text": lines["terminate"]["text"]}


def test_aws_maintenance_that_is_moved(ask, aws):
    """The owner of an instance may move its reboot, which keeps its id. The new time counts, also a later one."""
    event = {"Code": "instance-reboot", "EventId": "instance-event-0d59", "State": "active", "NotBefore": rfc3339(600)}
    aws.set(aws.SCHEDULED, json.dumps([event]))
    watcher = ask(aws)
    assert 500 < watcher.wait("terminate")["deadline_seconds"] <= 600
    aws.set(aws.SCHEDULED, json.dumps([{**event, "NotBefore": rfc3339(1200)}]))
    assert 1100 < watcher.wait("terminate", "terminate")["deadline_seconds"] <= 1200
    aws.set(aws.SCHEDULED, json.dumps([{**event, "NotBefore": rfc3339(7200)}]))
    assert watcher.wait("terminate", "terminate", "log")["id"] == "instance-event-0d59"


def test_aws_deadline_that_moves_away_is_not_believed(ask, aws):
    """Mocks always name a time two minutes ahead. A later deadline is not printed; an earlier one is."""
    aws.set(aws.ACTION, spot_action(120))
    watcher = ask(aws)
    watcher.wait("terminate")
    aws.set(aws.ACTION, spot_action(180))
    aws.wait_answered(aws.ACTION)
    watcher.wait("terminate")
    aws.set(aws.ACTION, spot_action(60))
    line = watcher.wait("terminate", "terminate")
    assert 50 < line["deadline_seconds"] <= 60 and line["id"] == watcher.lines[0]["id"]


def test_deadline_keeps_its_fraction(ask, aws):
    """Whole seconds would lose up to one of the seconds that are left."""
    at = time.time() + 100.87
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1000):03d}Z"
    aws.set(aws.ACTION, json.dumps({"action": "terminate", "time": text}))
    watcher = ask(aws)
    line = watcher.wait("terminate")
    assert line["deadline_seconds"] != int(line["deadline_seconds"])
    assert 0 < line["deadline_seconds"] <= 100.87


@pytest.mark.timing
def test_aws_is_asked_every_five_seconds(watch, aws):
    """As Amazon's documentation asks."""
    watch("aws", "--endpoint", aws.url)
    aws.wait(lambda: aws.answered(aws.ACTION) >= 1, "the first poll")
    begun = time.monotonic()
    aws.wait(lambda: aws.answered(aws.ACTION) >= 2, "the second")
    assert time.monotonic() - begun > 4.5


@pytest.mark.parametrize("value, notice, said", [
    ("marked-for-nothing", False, 'spot/termination-time is "marked-for-nothing", which is not a time'),
    ("2026/11/23 03:04:05", True, 'termination-time is "2026/11/23 03:04:05", which is not a time'),
])
def test_aws_termination_time_that_cannot_be_read(ask, aws, value, notice, said):
    """The log shows such a value once. A word means no notice; a value like a time is a notice without a deadline."""
    aws.set(aws.TERMINATION, value)
    watcher = ask(aws)
    watcher.said(said)
    aws.wait_answered(aws.TERMINATION, more=4)
    assert watcher.types == ["terminate"] * notice
    assert len(watcher.job.err_lines) == 1
    aws.set(aws.TERMINATION, rfc3339(120))
    line = watcher.wait(*["terminate"] * (1 + notice))
    assert 110 < line["deadline_seconds"] <= 120
    aws.set(aws.TERMINATION, value + "?")
    wait_until(lambda: len(watcher.job.err_lines) == 2, "the next remark")


@pytest.mark.parametrize("when", [rfc3339, beijing])
def test_times_of_other_clouds(ask, serving, when):
    """One cloud writes UTC, the other UTC+8 without a zone. Each is asked at its own path, with its own token."""
    service = serving(Alibaba() if when is rfc3339 else Tencent())
    service.needs_token = when is rfc3339
    service.set(service.TERMINATION, when(120))
    watcher = ask(service)
    line = watcher.wait("terminate")
    assert 110 < line["deadline_seconds"] <= 120 and line["id"].startswith("spot-terminate-")
    service.wait_answered(*service.PATHS)
    assert sum(r.path == service.TOKEN for r in service.requests) == service.needs_token
    service.set(service.TERMINATION, "soon")
    watcher.said('the answer is "soon", which is not a time')
    service.set(service.TERMINATION, None)
    watcher.wait("terminate", "cancel")


# ---- azure ----


def test_azure_events(ask, azure):
    azure.set(azure_event("Preempt", "P", 30), azure_event("Freeze", "F", 900, DurationInSeconds=5),
              azure_event("Freeze", "L", 900, DurationInSeconds=60), azure_event("Reboot", "R", None),
              azure_event("Redeploy", "O", 600, Resources=["node_0", "node_2"]),
              azure_event("Terminate", "T", 600, Resources=["node_0", "NODE_1"]))
    watcher = ask(azure)
    watcher.has(5)
    azure.wait_answered(azure.EVENTS)
    lines = {line["id"]: line for line in watcher.lines}
    assert {i: line["type"] for i, line in lines.items()} == {
        "P": "terminate", "F": "log", "L": "checkpoint", "R": "terminate", "T": "terminate"}
    assert 20 < lines["P"]["deadline_seconds"] <= 30 and "deadline_seconds" not in lines["R"]
    azure.set(azure_event("Preempt", "P", 10))
    watcher.has(10)
    assert [(line["type"], line["id"]) for line in watcher.lines[5:]] == [
        ("terminate", "P"), ("cancel", "F"), ("cancel", "L"), ("cancel", "R"), ("cancel", "T")]


def test_azure_time_that_cannot_be_read(ask, azure):
    """The notice then has no deadline, and the log says so. An empty time is normal once the event has begun."""
    azure.set({**azure_event("Reboot", "R", None), "EventStatus": "Started"},
              {**azure_event("Preempt", "P", 30), "NotBefore": "in 30 s"})
    watcher = ask(azure)
    watcher.has(2)
    assert all("deadline_seconds" not in line for line in watcher.lines)
    watcher.said('NotBefore is "in 30 s", which is not a time: the notice P has no deadline')
    azure.wait_answered(azure.EVENTS)
    assert len(watcher.job.err_lines) == 1


def test_azure_events_of_many_machines(ask, azure):
    """The document has the events of the whole placement group, of which a mass eviction makes a long one."""
    azure.set(*(azure_event(ident=f"E-{i}", Resources=[f"node_{i}"]) for i in range(1000, 1400)), azure_event())
    assert len(azure.document(azure.events)) > 65536
    watcher = ask(azure)
    assert watcher.wait("terminate")["id"] == "E-1"
    azure.wait_answered(azure.EVENTS)
    assert watcher.types == ["terminate"] and watcher.job.err == ""


def test_azure_asks_for_its_name_first(ask, azure):
    ask(azure)
    azure.wait_answered(azure.EVENTS)
    assert azure.requests[0].path == azure.NAME
    assert sum(r.path == azure.NAME for r in azure.requests) == 1


def test_azure_without_a_name_takes_all(ask, azure):
    azure.own_name = None
    azure.set(azure_event(Resources=["node_7"]))
    watcher = ask(azure)
    watcher.wait("terminate")
    watcher.said("set --name")


def test_azure_with_a_name_that_is_given(ask, azure):
    azure.set(azure_event(Resources=["node_7"]))
    watcher = ask(azure, "--name", "node_7")
    watcher.wait("terminate")
    assert not [r for r in azure.requests if r.path == azure.NAME]


def test_failures_that_come_and_go_are_told_once(ask, azure):
    watcher = ask(azure, "--name", "node_1")
    for _ in range(6):
        azure.spoil(metadata.http_503)
        azure.wait_spoiled()
        azure.wait_answered(azure.EVENTS)
    assert [("HTTP 503" in line, "works again" in line) for line in watcher.job.err_lines] == [
        (True, False), (False, True)]


def test_azure_acknowledgement(ask, azure):
    """The acknowledgement is sent once, in spite of faults, and never without the option."""
    azure.set(azure_event())
    watcher = ask(azure)
    watcher.wait("terminate")
    assert azure.acknowledged == []
    watcher.end()
    azure.spoil(metadata.http_503, 2)
    done = ask(azure, "--acknowledge", "E-1")
    assert done.job.finish() == 0 and done.job.out == ""
    assert azure.acknowledged == ["E-1"]


def test_azure_acknowledgement_that_fails(ask, azure):
    azure.spoil(metadata.http_500, 5)
    done = ask(azure, "--acknowledge", "E-1")
    assert done.job.finish() == 1
    assert "could not be acknowledged in 5 attempts: HTTP 500" in done.job.err


# ---- deadlines ----

@pytest.mark.parametrize("time_text, kind, low, high", [
    ("1802-01-01T00:00:00Z", "terminate", -4e9, -1e9),
    ("9999-12-31T23:59:59Z", "log", 7e9, 1e10),
    ("2026-02-30T00:00:00Z", "terminate", None, None),
], ids=["1802", "9999", "no_day"])
def test_deadlines(ask, aws, time_text, kind, low, high):
    """A text that is no date gives no deadline; the notice stays."""
    aws.set(aws.ACTION, json.dumps({"action": "stop", "time": time_text}))
    line = ask(aws, "--lead", "3650d").wait(kind)
    deadline = line.get("deadline_seconds")
    assert low <= deadline <= high if low else deadline is None
    assert len(line["id"]) < 64


def test_clock_that_steps(world, ask, aws):
    """A live event keeps its type and deadline when the clock is set; a new event counts from the new clock."""
    clock = world.root / "clock"
    at = rfc3339(120)
    aws.set(aws.ACTION, json.dumps({"action": "terminate", "time": at}))
    env = {**world.shim("clock", SHIM_CLOCK=clock), "SHIM_FOR": "pchrun-watch"}
    watcher = ask(aws, env=env)
    watcher.wait("terminate")
    for seconds in (7200, -7200):
        clock.write_text(str(seconds))
        aws.wait_answered(aws.ACTION)
        assert watcher.types == ["terminate"]
    aws.set(aws.ACTION, json.dumps({"action": "terminate", "time": rfc3339(60 - 7200)}))
    line = watcher.wait("terminate", "terminate")
    assert 50 < line["deadline_seconds"] <= 60


# ---- slurm ----

SQUEUE = "#!/bin/sh\necho \"$*\" >>'{log}'\n[ \"$TZ\" = UTC0 ] && {what}\n"


def fake_squeue(world, what):
    folder = world.root / "bin"
    folder.mkdir(exist_ok=True)
    path = folder / "squeue.new"
    path.write_text(SQUEUE.format(log=world.root / "squeue.log", what=what))
    path.chmod(0o755)
    path.rename(folder / "squeue")
    return {"PATH": f"{folder}:/usr/bin:/bin", "SLURM_JOB_ID": "77"}


def asked_squeue(world):
    log = world.root / "squeue.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.mark.parametrize("options, env", [
    (lambda: [], lambda: {"SLURM_JOB_END_TIME": str(int(time.time()) + 300)}),
    (lambda: ["--end-time", rfc3339(300)], lambda: {"SLURM_JOB_END_TIME": "1"}),
    (lambda: ["--end-time", str(int(time.time()) + 300)], dict),
], ids=["variable", "option", "seconds"])
def test_slurm_end(watch, options, env):
    watcher = watch("slurm", *options(), env=env())
    line = watcher.wait("terminate")
    assert 280 < line["deadline_seconds"] <= 300 and line["id"].startswith("slurm-job-")


def test_slurm_far_end_is_told_later(watch):
    """Every job has an end, so a distant end is not reported yet."""
    watcher = watch("slurm", "--end-time", rfc3339(7200), "--lead", "7188s")
    assert 7150 < watcher.wait("log")["deadline_seconds"] <= 7198
    near = watch("slurm", "--end-time", rfc3339(7200), "--lead", "3h")
    near.wait("terminate")


def test_slurm_squeue(world, watch):
    """squeue is asked if the environment does not have the end, and again later: the limit may change."""
    at = rfc3339(300)
    env = fake_squeue(world, f"echo 77 {at.rstrip('Z')}")
    watcher = watch("slurm", "--interval", "20ms", env=env)
    line = watcher.wait("terminate")
    assert 280 < line["deadline_seconds"] <= 300 and line["id"].startswith("slurm-77-")
    asked = asked_squeue(world)
    fake_squeue(world, "exit 1")  # the controller is away
    wait_until(lambda: asked_squeue(world) >= asked + 3, "squeue to fail")
    assert watcher.types == ["terminate"]
    fake_squeue(world, f"echo 77 {rfc3339(500).rstrip('Z')}")
    line = watcher.wait("terminate", "terminate")
    assert 480 < line["deadline_seconds"] <= 500 and line["id"] == watcher.lines[0]["id"]
    assert "--noheader --format=%A %e --jobs=77" in (world.root / "squeue.log").read_text()
    fake_squeue(world, f"echo 77 {rfc3339(5000).rstrip('Z')}")  # the limit was raised: no end is near any more
    assert watcher.wait("terminate", "terminate", "log")["id"] == line["id"]


@pytest.mark.timing
def test_slurm_squeue_is_not_asked_long_before(world, watch):
    env = {**fake_squeue(world, "echo 77 2001-01-01T00:00:00"), "SLURM_JOB_END_TIME": str(int(time.time()) + 900)}
    begin = time.monotonic()
    watcher = watch("slurm", "--interval", "20ms", "--lead", "887s", env=env)
    watcher.wait("terminate")
    assert time.monotonic() - begin > 1.5


@pytest.mark.parametrize("array, asked", [("77", "77_4"), ("50", "77")])
def test_slurm_task_of_an_array(world, watch, array, asked):
    """One of its tasks has the array's own number, for which squeue has a line for each task. A job that a task of
    another array has submitted has that task's variables, too."""
    env = fake_squeue(world, f"[ \"$3\" = --jobs={asked} ] && echo 77 {rfc3339(300).rstrip('Z')}")
    watcher = watch("slurm", env={**env, "SLURM_ARRAY_JOB_ID": array, "SLURM_ARRAY_TASK_ID": "4"})
    assert 280 < watcher.wait("terminate")["deadline_seconds"] <= 300


def test_slurm_part_of_a_heterogeneous_job(world, watch):
    """squeue has a line for each part, whichever it is asked for."""
    lines = f"7 {rfc3339(100)} 770 {rfc3339(200)} 77 {rfc3339(300)} 78 {rfc3339(400)}".replace("Z", "")
    env = fake_squeue(world, f"printf '%s %s\\n' {lines}")
    assert 280 < watch("slurm", env=env).wait("terminate")["deadline_seconds"] <= 300


def test_slurm_squeue_that_hangs_ends_with_the_watch(world, watch):
    env = fake_squeue(world, "exec sleep 86393")
    watcher = watch("slurm", env=env)
    wait_until(lambda: asked_squeue(world) >= 1, "squeue")
    [squeue] = children_of(watcher.pid)
    watcher.end()
    wait_until(lambda: not is_alive(squeue), "squeue to end")


def test_slurm_without_an_end(world, watch):
    watcher = watch("slurm", env={"SLURM_JOB_ID": "77", "PATH": "/nonexistent"})
    assert watcher.job.finish() == 1
    assert "SLURM_JOB_END_TIME is not set, and there is no squeue in PATH" in watcher.job.err
    assert "--end-time" in watcher.job.err and watcher.lines == []


def test_slurm_without_a_limit(world, watch):
    """A job without a limit is no failure, and is logged once. A job may get a limit, and lose it again."""
    env = fake_squeue(world, "echo 77 NONE")
    watcher = watch("slurm", "--interval", "20ms", "--lead", "200ms", env=env)
    wait_until(lambda: asked_squeue(world) >= 3, "squeue")
    fake_squeue(world, f"echo 77 {rfc3339(-1).rstrip('Z')}")
    watcher.wait("terminate")
    fake_squeue(world, "echo 77 NONE")
    watcher.wait("terminate", "cancel")
    watcher.end()
    assert len(re.findall("slurm: job 77 has no time limit", watcher.job.err)) == 2


@pytest.mark.parametrize("answer", ["77 N/A", "78 2030-01-01T00:00:00", "77", ""])
def test_slurm_end_that_squeue_does_not_know_yet(world, watch, answer):
    """squeue prints "N/A" for a job that is just being requeued. The watch goes on, and asks again."""
    env = fake_squeue(world, f"echo {answer}")
    watcher = watch("slurm", "--interval", "20ms", env=env)
    wait_until(lambda: asked_squeue(world) >= 3, "squeue")
    fake_squeue(world, f"echo 77 {rfc3339(300).rstrip('Z')}")
    watcher.wait("terminate")
    watcher.end()
    assert len(re.findall(r"squeue: it prints (\"N/A\"|nothing) for the end of job 77", watcher.job.err)) == 1


def test_slurm_signals_every_process_of_the_job(world, watch):
    """With proctrack/linuxproc --signal reaches the watch, too, which must still report the end."""
    env = fake_squeue(world, f"echo 77 {rfc3339(300).rstrip('Z')}")
    watcher = watch("slurm", "--interval", "20ms", env=env)
    watcher.wait("terminate")
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        os.kill(watcher.pid, number)
    fake_squeue(world, "echo 77 NONE")
    watcher.wait("terminate", "cancel")


def test_slurm_outside_of_a_job(watch):
    watcher = watch("slurm")
    assert watcher.job.finish() == 1
    assert "neither is SLURM_JOB_ID" in watcher.job.err


# ---- file ----

def put(path, text):
    """Replaces the file as a whole: a writer in place could be seen with an empty file."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def test_file(world, watch):
    path = world.root / "notice"
    watcher = watch("file", path)
    watcher.listens()
    put(path, "node is drained\nat noon\n")
    line = watcher.wait("terminate")
    assert line["text"] == "node is drained" and line["id"].startswith("file-")
    path.unlink()
    assert watcher.wait("terminate", "cancel")["id"] == line["id"]
    put(path, '{"type": "checkpoint", "id": "c-1", "deadline_seconds": 60.5, "text": "soon"}')
    line = watcher.wait("terminate", "cancel", "checkpoint")
    assert line["id"] == "c-1" and 50 < line["deadline_seconds"] <= 60.5
    put(path, '{"type": "terminate", "id": "c-1", "deadline": "%s"}' % rfc3339(30))
    line = watcher.wait("terminate", "cancel", "checkpoint", "terminate")
    assert line["id"] == "c-1" and 20 < line["deadline_seconds"] <= 30
    put(path, '{"type": "cancel"}')
    assert watcher.wait("terminate", "cancel", "checkpoint", "terminate", "cancel")["id"] == "c-1"


def test_file_that_is_there_already(world, watch):
    path = world.file("notice")
    watcher = watch("file", path)
    assert watcher.wait("terminate").keys() == {"type", "id"}


@pytest.mark.parametrize("spoil", [
    '{"type": "canc', " " * 65537, '{"type": "explode"}', os.mkfifo,
    lambda new: new.symlink_to("/")], ids=["half", "huge", "type", "fifo", "directory"])
def test_file_that_cannot_be_read_changes_nothing(world, watch, spoil):
    path = world.file("notice", '{"type": "terminate", "id": "n-1"}')
    watcher = watch("file", path)
    watcher.wait("terminate")
    if isinstance(spoil, str):
        path.write_text(spoil)
    else:
        spoil(world.root / "new")
        (world.root / "new").rename(path)
    watcher.said(str(path))
    assert watcher.types == ["terminate"]


@pytest.mark.parametrize("member", ['"deadline": 1795391940', '"deadline_seconds": 1e300'])
def test_file_whose_deadline_cannot_be_read_is_a_notice(world, watch, member):
    """Such a file was refused, and the notice lost."""
    watcher = watch("file", world.file("notice", '{"type": "terminate", "id": "n-1", %s}' % member))
    assert watcher.wait("terminate").keys() == {"type", "id"}
    watcher.said("the notice n-1 has no deadline")


def test_file_whose_directory_goes_and_comes(world, watch):
    folder = world.root / "folder"
    folder.mkdir()
    path = folder / "notice"
    path.write_text("x")
    watcher = watch("file", path, "--interval", "20ms")
    watcher.wait("terminate")
    path.unlink()
    watcher.wait("terminate", "cancel")
    folder.rmdir()
    folder.mkdir()
    put(path, "y")
    watcher.wait("terminate", "cancel", "terminate")


def test_file_elsewhere(world, watch):
    watcher = watch("file", world.root / "none" / "notice")
    assert watcher.job.finish() == 1
    assert "cannot watch the directory" in watcher.job.err


# ---- kubernetes ----

class Volume:
    """A downward-API volume, which kubelet replaces as a whole."""

    def __init__(self, root):
        self.root = root
        root.mkdir()
        self.times = 0
        self.write("")
        (root / "annotations").symlink_to("..data/annotations")

    def write(self, text):
        self.times += 1
        folder = self.root / f"..{self.times}"
        folder.mkdir()
        (folder / "annotations").write_text(text)
        (self.root / "..data_tmp").symlink_to(folder.name)
        (self.root / "..data_tmp").rename(self.root / "..data")


@pytest.fixture
def volume(world):
    return Volume(world.root / "podinfo")


def test_kubernetes(volume, watch):
    watcher = watch("kubernetes", volume.root / "annotations", "--annotation", "example.com/drain")
    watcher.listens()
    volume.write('a="b"\nexample.com/drain="yes, at \\"noon\\""\nz="1"')
    line = watcher.wait("terminate")
    assert line["text"] == 'yes, at "noon"'
    volume.write('example.com/drain="false"')
    assert watcher.wait("terminate", "cancel")["id"] == line["id"]
    volume.write('example.com/drain="{\\"type\\": \\"checkpoint\\", \\"id\\": \\"k\\"}"')
    watcher.wait("terminate", "cancel", "checkpoint")
    volume.write('other="x"')
    watcher.wait("terminate", "cancel", "checkpoint", "cancel")


def test_kubernetes_value(volume, watch):
    watcher = watch("kubernetes", volume.root / "annotations", "--value", "now")
    watcher.listens()
    volume.write('pchrun/notice="later"')
    volume.write('pchrun/notice="now"')
    assert watcher.wait("terminate")["text"] == "now"


def test_kubernetes_volume_that_is_away_changes_nothing(volume, watch):
    volume.write('pchrun/notice="now"')
    watcher = watch("kubernetes", volume.root / "annotations")
    watcher.wait("terminate")
    (volume.root / "..data").unlink()
    watcher.said("the file is missing")
    assert watcher.types == ["terminate"]


# ---- pod ----

DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "bye"}


@pytest.fixture
def api(world, serving):
    return serving(metadata.ApiServer(world.root / "account"))


def start_pod(watch, api, *options, **more):
    return watch("pod", api.account, *QUICK, *options, env={**api.env, **more})


def test_pod_that_is_disrupted(watch, api):
    """First announced, then with its time; another token is taken when the kubelet writes one."""
    watcher = start_pod(watch, api)
    api.wait_answered(api.POD, api.NODE)
    assert watcher.lines == []
    (api.account / "token").write_text("another")
    api.set([DISRUPTED])
    line = watcher.wait("terminate")
    assert line == {"type": "terminate", "id": "pod-u-1", "text": "EvictionByEvictionAPI: bye"}
    api.set([DISRUPTED], deletionTimestamp=rfc3339(90))
    line = watcher.wait("terminate", "terminate")
    assert 80 < line["deadline_seconds"] <= 90 and line["id"] == "pod-u-1"


def test_pod_that_an_older_server_answers_for(watch, api):
    """Several API servers share one address. Each has its own memory, and one lags behind. Its older answer is no
    withdrawal; the watch does not ask for a newer one there."""
    api.set()
    older = api.pod, api.node
    watcher = start_pod(watch, api)
    api.wait_answered(api.POD, api.NODE)
    asked = [r.query for r in api.requests if r.path == api.POD]
    assert asked[0] == {}, "the first answer is the newest"
    assert asked[1] == {"resourceVersion": api.pod["metadata"]["resourceVersion"]}, "it may come from a memory"
    api.set([DISRUPTED], [{"key": "example.com/maintenance", "effect": "NoExecute"}])
    watcher.wait("terminate", "terminate")
    api.wait_answered(api.POD, api.NODE)
    api.laggard = older
    api.wait_answered(api.POD, api.NODE, more=4)
    assert watcher.types == ["terminate", "terminate"]
    assert {r.path for r in api.requests if r.status == 504} == {api.POD, api.NODE}
    watcher.said("HTTP 504")


def test_pod_whose_node_is_tainted(watch, api):
    watcher = start_pod(watch, api)
    gpu = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    api.set(taints=[gpu])
    api.wait_answered(api.NODE)
    api.set(taints=[gpu, {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}])
    line = watcher.wait("terminate")
    assert line["text"] == "the node has the taint ToBeDeletedByClusterAutoscaler"
    api.set(taints=[gpu])
    assert watcher.wait("terminate", "cancel")["id"] == line["id"]
    assert watcher.job.err == ""


def test_pod_that_may_not_read_its_node(watch, api):
    """The log says so once; the pod is still asked, and the node now and then."""
    api.forbidden = {api.NODE}
    watcher = start_pod(watch, api)
    watcher.said("the node: HTTP 403: the pod's service account has no permission to read it (RBAC)")
    api.wait_answered(api.NODE, more=2)
    api.set([DISRUPTED])
    watcher.wait("terminate")
    assert len(watcher.job.err_lines) == 1
    asked = [r.path for r in api.requests]
    first = asked.index(api.NODE)
    second = asked.index(api.NODE, first + 1)
    assert asked[first:second].count(api.POD) > 8
    assert checked(watch, "pod", api.account, env=api.env)[1].startswith("warn: it answers: the node: HTTP 403")
    api.forbidden = set()
    watcher.said("the node: it works again")


def test_pod_that_may_read_nothing(watch, api):
    api.forbidden = {api.NODE, api.POD}
    watcher = start_pod(watch, api)
    watcher.said("the pod: HTTP 403: the pod's service account has no permission to read it (RBAC)")
    code, line = checked(watch, "pod", api.account, env=api.env)
    assert code == 1 and line.startswith("bad: it does not answer: the pod: HTTP 403")
    assert watcher.lines == []


def test_pod_of_another_name(watch, api):
    watcher = start_pod(watch, api, POD_NAME="train-0-x7k2p")
    watcher.said("there is no pod train-0-x7k2p in the namespace train; set POD_NAME")
    given = start_pod(watch, api, "--name", "train-0", POD_NAME="train-0-x7k2p")
    api.wait_answered(api.NODE)
    assert given.job.err == ""


def test_pod_trusts_no_other_server(world, watch, serving, api):
    """The pod's token does not go to a server whose certificate is not the account's."""
    other = serving(metadata.ApiServer(world.root / "other"))
    watcher = start_pod(watch, api, KUBERNETES_SERVICE_PORT=str(other.port))
    watcher.said("the pod: ")
    assert other.requests == [] and watcher.lines == []


@pytest.mark.parametrize("fault", metadata.FAULTS, ids=lambda fault: fault.__name__)
def test_pod_fault_changes_nothing(watch, api, fault):
    api.lies = {api.POD: json.dumps({**api.pod, "metadata": {"deletionTimestamp": rfc3339(3)}})}
    api.spoil(fault, 2)
    watcher = watch("pod", api.account, *(HASTY if fault in (metadata.silent, metadata.slow) else QUICK),
                    env=api.env)
    api.wait_spoiled()
    api.wait_answered(api.POD)
    assert watcher.lines == []
    api.set([DISRUPTED])
    watcher.wait("terminate")
    api.lies = {api.POD: json.dumps({**api.pod, "status": {}})}
    api.spoil(fault, 2)
    api.wait_spoiled()
    api.wait_answered(api.POD)
    assert watcher.types == ["terminate"] and not api.trap.requests


@pytest.mark.parametrize("env, said", [
    ({"KUBERNETES_SERVICE_HOST": ""}, "this is not a pod: KUBERNETES_SERVICE_HOST is not set"),
    ({"KUBERNETES_SERVICE_HOST": "a/b"}, "are not an address: a/b"),
    ({"POD_NAME": "../nodes"}, "set POD_NAME from metadata.name"),
])
def test_pod_that_is_none(watch, api, env, said):
    watcher = start_pod(watch, api, **env)
    assert watcher.job.finish() == 1 + ("HOST" not in said)
    assert said in watcher.job.err


def test_pod_without_a_service_account(world, watch, api):
    watcher = watch("pod", world.root / "none", env=api.env)
    assert watcher.job.finish() == 1 and "automountServiceAccountToken" in watcher.job.err


# ---- whatever the source ----

PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


@pytest.mark.parametrize("source", CASES)
def test_no_packet_goes_elsewhere(world, serving, source):
    """Not to a proxy, not to a name server: every connection and every datagram is the endpoint's."""
    service = serving(CASES[source].make())
    trace = world.root / "trace"
    service.set(*CASES[source].event())
    proxies = {name: service.trap.url for name in PROXIES}
    asan = f"{world.env['ASAN_OPTIONS']}:detect_leaks=0"
    job = world.start("strace", "-f", "-qq", "-o", trace, "-e", "trace=connect,sendto,sendmsg,sendmmsg",
                      PROGRAM, source, *QUICK, "--endpoint", service.url, env={**proxies, "ASAN_OPTIONS": asan})
    wait_until(lambda: '"terminate"' in job.out, "a line")
    service.wait_answered(*service.PATHS)
    [pid] = wait_until(lambda: children_of(job.pid), "the watch")
    os.kill(pid, signal.SIGTERM)
    assert job.finish() == 0
    addresses = re.findall(r"sa_family=(\w+), ([^}]*)", trace.read_text())
    there = ("AF_INET", f'sin_port=htons({service.port}), sin_addr=inet_addr("127.0.0.1")')
    assert addresses and set(addresses) == {there}
    assert not service.trap.requests


@pytest.mark.parametrize("variables", [("GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"),
                                       ("GCE_METADATA_ROOT", "GCE_METADATA_IP"), ("GCE_METADATA_IP",)],
                         ids=lambda variables: variables[0])
def test_gce_address_of_the_environment(watch, gce, variables):
    """The first of the variables wins."""
    env = {name: f"127.0.0.1:{gce.trap.port}" for name in variables}
    watch("gce", *QUICK, env={**env, variables[0]: f"127.0.0.1:{gce.port}"})
    gce.wait_answered(*gce.PATHS)
    assert not gce.trap.requests


def test_option_wins_over_environment(ask, gce):
    ask(gce, env={"GCE_METADATA_HOST": f"127.0.0.1:{gce.trap.port}"})
    gce.wait_answered(*gce.PATHS)
    assert not gce.trap.requests


def test_aws_address_of_the_environment(watch, aws):
    watch("aws", *QUICK, env={"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{aws.url}/"})
    aws.wait_answered(aws.ACTION)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_ends_on_a_signal(world, watch, number):
    """Also on a signal that was inherited blocked or ignored."""
    watcher = watch("file", world.root / "notice", preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
    watcher.listens()
    os.kill(watcher.pid, number)
    assert watcher.job.finish() == 0 and watcher.job.err == ""


@pytest.mark.parametrize("has_printed", [False, True])
def test_ends_when_nobody_reads(world, watch, has_printed):
    """The reader of its output is gone: pchrun-watch notices it without printing."""
    path = world.root / "notice"
    if has_printed:
        put(path, "x")
    ours, its = os.pipe()
    watcher = watch("file", path, stdout=its)
    os.close(its)
    if has_printed:
        assert os.read(ours, 4096).startswith(b'{"type": "terminate"')
    os.close(ours)
    assert watcher.job.finish() == 0 and watcher.job.err == ""


def test_ends_when_nobody_reads_while_a_request_is_held(ask, gce):
    ours, its = os.pipe()
    gce.holds_s = 60
    watcher = ask(gce, stdout=its)
    os.close(its)
    gce.wait(lambda: gce.hanging() >= 2, "held requests")
    os.close(ours)
    assert watcher.job.finish() == 0


@pytest.mark.looks_up
def test_ends_while_a_name_is_looked_up(world):
    """The name server never answers, so libc may take minutes."""
    job = world.start(*below_silent_names(world, "TERM"), PROGRAM, "gce", "--endpoint", "http://metadata.test",
                      "--timeout", "100ms")
    assert job.finish() == 0, job.err


def test_reader_that_does_not_read(world, watch):
    """pchrun-watch does not wait for the reader, who later finds the newest news of each event."""
    ours, its = full_pipe()
    room = fcntl.fcntl(its, fcntl.F_GETPIPE_SZ)
    path = world.file("notice", '{"type": "terminate", "id": "a"}')
    watcher = watch("file", path, stdout=its)
    os.close(its)
    watcher.listens()
    put(path, '{"type": "checkpoint", "id": "a"}')
    path.unlink()
    other = world.root / "other"
    put(other, '{"type": "log", "id": "b"}')
    other.rename(path)
    while room > 0:
        room -= len(os.read(ours, min(room, 65536)))
    text = b""
    while not (b'"b"' in text and b'"cancel"' in text and text.endswith(b"\n")):
        text += os.read(ours, 4096)
    os.close(ours)
    assert watcher.job.finish() == 0
    ids = [(line["type"], line["id"]) for line in map(json.loads, text.decode().splitlines())]
    assert ("log", "b") in ids and ids.count(("cancel", "a")) == 1 and len(ids) <= 3


def test_dies_with_its_parent(world):
    """The signal that a parent's death sends ends pchrun-watch as any other signal does."""
    script = ("import ctypes, os, signal, subprocess, sys\n"
              "set_it = lambda: ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)\n"
              "print(subprocess.Popen(sys.argv[1:], preexec_fn=set_it).pid, flush=True)\n"
              "sys.stdin.read()\n")
    path = world.file("notice", "x")
    ours, its = os.pipe()
    job = world.start("/usr/bin/python3", "-c", script, PROGRAM, "file", path, stdin=ours)
    os.close(ours)
    # Either may be the first to print.
    wait_until(lambda: '"terminate"' in job.out, "a line")
    pid = int(wait_until(lambda: re.search(r"^(\d+)\n", job.out, re.M), "its process")[1])
    job.kill()
    os.close(its)
    wait_until(lambda: not is_alive(pid), "the watch to end")


@pytest.mark.parametrize("args, said", [
    ([], "which source?"),
    (["gcp"], 'unknown source "gcp"; the nearest is "gce"'),
    (["zzzzzzzz"], "pchrun-watch --help lists all"),
    (["gce", "--intervall", "1s"], "unknown flag --intervall; the nearest is --interval"),
    (["gce", "--interval", "0"], "out of range"),
    (["gce", "--interval", "soon"], "is not a duration"),
    (["gce", "--interval"], "--interval needs a value"),
    (["gce", "--interval="], "is not a duration"),
    (["gce", "--endpoint="], "--endpoint: the value is empty"),
    (["gce", "--mild", "terminate"], "is not one of log, checkpoint"),
    (["gce", "--value", "x"], "gce takes no --value"),
    (["gce", "x"], "one argument too many"),
    (["gce", "-x"], "unknown flag -x"),
    (["gce", "--check=1"], "--check takes no value"),
    (["file"], "file needs its PATH"),
    (["gce", "--endpoint", "https://x"], "need plain http"),
    (["gce", "--endpoint", "http://user@x"], "which is not an address"),
    (["slurm", "--end-time", "tomorrow"], "which is not a time"),
])
def test_usage(watch, args, said):
    watcher = watch(*args)
    assert watcher.job.finish() == 2
    assert said in watcher.job.err and watcher.job.out == ""
    assert watcher.job.err.startswith("pchrun-watch ")


@pytest.mark.parametrize("option, said", [("--help", "Usage: pchrun-watch"), ("--version", "pchrun-watch "),
                                          ("--list", "kubernetes")])
def test_shows(watch, option, said):
    watcher = watch(option)
    assert watcher.job.finish() == 0
    assert said in watcher.job.out and watcher.job.err == ""


def test_errors_as_json(ask, gce):
    gce.spoil(metadata.http_503, 3)
    watcher = ask(gce, "--log-format", "json")
    gce.wait_spoiled()
    gce.wait_answered(*gce.PATHS)
    lines = [json.loads(line) for line in watcher.job.err_lines]
    assert {"warning", "info"} == {line["level"] for line in lines}
    assert {line["topic"] for line in lines} == {"gce"}


# ---- --check ----

def checked(watch, *args, **more):
    """The exit status, and the line."""
    one = watch(*args, "--check", **more)
    code = one.job.finish()
    assert one.job.out.count("\n") == 1
    return code, one.job.out.strip()


@pytest.mark.parametrize("source", CASES)
def test_check_of_a_service(watch, serving, source):
    """Checks that the service answers, with any answer; it prints no notice."""
    service = serving(CASES[source].make())
    service.set(*CASES[source].event())
    assert checked(watch, source, "--endpoint", service.url) == (0, "ok: it answers")
    service.close()
    code, line = checked(watch, source, "--endpoint", service.url)
    assert "hop limit" not in line
    assert code == 1 and "it does not answer: " in line and "onnect" in line
    assert line.startswith("unknown: " if source == "azure" else "bad: ")
    assert ("two minutes" in line) == (source == "azure")


def test_check_behind_the_hop_limit(watch, aws):
    """Only the answer to PUT is lost: with optional tokens that is a warning, with required tokens it is an error."""
    aws.put = "hangs"
    code, line = checked(watch, "aws", "--endpoint", aws.url)
    assert code == 0 and line.startswith("warn: it answers: the token (IMDSv2): ")
    assert "the hop limit of the metadata service is too small for this container; set it to 2" in line
    aws.needs_token = True
    code, line = checked(watch, "aws", "--endpoint", aws.url)
    assert code == 1 and line.startswith("bad: it does not answer: the token (IMDSv2): ") and "hop limit" in line


def test_check_of_a_service_that_says_nothing(watch, aws):
    """The service answers on no path; the hop limit is one possible reason."""
    aws.spoil(metadata.silent, 6)
    code, line = checked(watch, "aws", "--endpoint", aws.url)
    assert code == 1 and "in a container the hop limit of the metadata service may have to be 2" in line


def test_check_of_a_service_that_answers_in_part(watch, gce):
    gce.set("maintenance-event", "WHAT")
    code, line = checked(watch, "gce", "--endpoint", gce.url)
    assert code == 1 and line == ('bad: it answers only in part: maintenance-event: "WHAT" is not a known value of '
                                  'maintenance-event')


@pytest.mark.timing
def test_check_of_what_is_no_service(world, watch):
    assert checked(watch, "file", world.root / "notice") == (0, "ok: it answers")
    code, line = checked(watch, "file", world.root / "none" / "notice")
    assert code == 1 and line.startswith("bad: cannot watch the directory")
    assert checked(watch, "slurm", "--end-time", rfc3339(300)) == (0, "ok: it answers")

    def once():
        begun = time.monotonic()
        code, line = checked(watch, "slurm", env=fake_squeue(world, "exit 1"))
        assert code == 1 and line.startswith("bad: it does not answer: squeue: ")
        return time.monotonic() - begun < CHECK_S
    assert any(once() for _ in range(3)), "what has failed is not waited for"


# ---- other people's emulators ----

@pytest.mark.parametrize("source, root", [("gce", "computeMetadata"), ("aws", "latest"),
                                          ("azure", "metadata")])
def test_external_emulator(watch, source, root):
    """Each emulator answers 200 to several requests. pchrun-watch understands all its answers."""
    address = os.environ.get(f"PCHRUN_TEST_{source.upper()}")
    if not address:
        pytest.skip(f"PCHRUN_TEST_{source.upper()} is not set: HOST:PORT of an emulator")
    host, _, port = address.removeprefix("http://").rstrip("/").partition(":")
    with socket.create_server(("127.0.0.1", 0)) as free:
        here = free.getsockname()
    relay = Relay(None, here, (host, int(port or 80)))
    try:
        watcher = watch(source, "--interval", "100ms", "--endpoint", f"http://127.0.0.1:{here[1]}")

        def answers():
            return sum(bytes(data).count(b" 200 OK") for data in list(relay.heard.values()))
        wait_until(lambda: answers() >= 3, "three answers")
        assert "cannot be" not in watcher.job.err
        watcher.end()
    finally:
        relay.close()
