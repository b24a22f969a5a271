# SPDX-License-Identifier: Apache-2.0
"""The page of pchrun-web in a real browser, beside a real job: each event is on the page within 2 s, without a reload."""

import json
import os
import signal
import socket
from datetime import datetime

from harness import PREEMPTED, wait_until
from nodes import FAST, free_port
from supervisor import every_kind, job as fake_job, with_cause, with_notice
from training import Training

WITHIN_MS = 2000
# A loopback connection that ends in the middle, and one that is refused, are the loss of contact that is tested.
CUT_OFF = ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE"]


class Start:
    """One start of the job: 2 nodes with 2 ranks each, whose clients the test leads."""

    def __init__(self, world):
        self.world = world
        nodes = ",".join(f"127.0.0.{i + 1}:{free_port()}" for i in range(2))
        options = ["--job", "run7", "--cluster-nodes", nodes, *FAST, "--cluster-heartbeat-timeout", "10m",
                   "--grace", "10m", "--restart-max", "3", "--restart-startup", "0"]
        self.nodes = [Training(world, *options, "--node-rank", i, n=2, first=2 * i) for i in range(2)]
        self.clients = [client for one in self.nodes for client in one.clients]

    def listens(self):
        wait_until(lambda: len(list(self.world.tmp.glob("pchrun.*/ctl"))) == 2, "both control sockets")

    def train(self, resume, to):
        """All ranks train from here. They are asked to save on the way, and do."""
        for client in self.clients:
            client.tell(f"open\ntrain {resume} {to} 10 at://ckpt")

    def stop(self, number):
        """Stops or continues rank 3."""
        os.kill(self.nodes[1].pid(3), number)

    def end_input(self):
        """The clients end behind what they have been told."""
        for client in self.clients:
            client.end_input()

    def ends(self, code):
        assert [one.finish() for one in self.nodes] == [code, code]


def journal(world, event, since=0.0, **members):
    """The time (ms since 1970) of the first such line that node 0 has written after `since`; waits for it."""
    def found():
        for path in world.root.glob("checkpoints/**/events.0.jsonl"):
            for text in path.read_text().rpartition("\n")[0].splitlines():  # a line may be half written
                line = json.loads(text)
                if line.get("event") == event and all(line[key] == value for key, value in members.items()) \
                        and ms_of(line["ts"]) > since:
                    return ms_of(line["ts"])
        return None
    return wait_until(found, f"a line {event} {members} in the journal")


def ms_of(ts):
    return datetime.fromisoformat(ts.replace("Z", "+00:00")).timestamp() * 1000


class Follower:
    """Compares what the page shows with the journal. took: the milliseconds of each, for the output of the test."""

    def __init__(self, browser, world):
        self.browser, self.world, self.took = browser, world, {}
        browser.run("window.mark = 'not reloaded'")

    def shows(self, name, selector, pattern, event, since=0.0, **members):
        at = journal(self.world, event, since, **members)
        self.took[name] = round(self.browser.first(selector, pattern, since) - at)
        assert -1000 <= self.took[name] <= WITHIN_MS, self.took  # far below: this is not what the line tells of
        self.browser.shot(name)
        return at


def test_the_page_follows_a_job(world, browser, web):
    """It trains, waits for a rank, is preempted, resumes by its next start, loses a rank, and completes."""
    first = Start(world)
    first.listens()
    browser.open(web("--node", "0").address)
    page = Follower(browser, world)
    first.train(0, 1000000)
    page.shows("training", "#says", "^Training at step", "phase", phase="training")
    first.stop(signal.SIGSTOP)
    browser.shows("#waits", r"rank 3 on \S+: at step .* for .*, (all others at|the furthest at) ")
    browser.shot("waiting")
    first.nodes[1].job.send(signal.SIGTERM)
    page.shows("notice", "#notice", "Notice from SIGTERM on node 1", "notice", source="SIGTERM")
    first.stop(signal.SIGCONT)
    first.end_input()
    end = page.shows("preempted", "#says", r"^End(ed|ing): preempted, exit code 42", "exit", outcome="preempted")
    browser.shows("#says", "^Ended: preempted, exit code 42")
    browser.hides("#notice")
    browser.shot("ended")
    first.ends(PREEMPTED)
    saved = first.nodes[0].report()["commit"]["step"]

    second = Start(world)
    second.train(saved, saved + 1000000)
    page.shows("resumed", "#says", "^Training at step", "phase", since=end, phase="training")
    browser.shows("#job", "attempt 2")
    browser.shows("#lines", f"resume at step {saved:,}")
    second.nodes[1].kill(2)
    lost = page.shows("lost", "#cause", "Last failure.*process .* ended with signal 9.*rank 2", "failed", of_node=1, rank=2)
    page.shows("restarted", "#job", "generation 1", "started", since=lost, generation=1)
    idle = browser.first("#says", "^(Not attached|Starting|Restarting)", lost)
    second.train(saved, saved + 100)
    page.shows("trains-again", "#says", "^Training at step", "phase", since=idle, phase="training")
    for client in second.clients:
        client.tell("done")
    second.end_input()
    page.shows("completed", "#says", "^End(ed|ing): completed, exit code 0", "exit", since=lost, outcome="completed")
    browser.shows("#says", "^Ended: completed, exit code 0")
    browser.hides("#cause")
    browser.shows("#timeline-says", r" 2 attempts, 1 notice, 1 failure, [\d,]+ steps lost\.$")
    browser.shot("completed")
    second.ends(0)
    assert browser.run("return window.mark") == "not reloaded"
    print(f"after its line of the journal, in ms: {page.took}")


def test_a_job_that_fails(world, browser, web):
    """The page keeps the first cause, and what the process printed last, beside how the job ended."""
    job = world.launch("--job", "run7", "--checkpoint-dir", world.root / "checkpoints", "-n", "2", "--logs-dir",
                       world.root / "logs", "--", "sh", "-c", f"""trap 'exit 0' TERM
        until [ -e {world.root}/go ]; do sleep 0.05; done
        [ $RANK = 1 ] && echo 'ValueError: no such shard: train-00017' >&2 && exit 3
        while :; do sleep 0.05; done""")
    wait_until(lambda: list(world.tmp.glob("pchrun.*/ctl")), "a control socket")
    browser.open(web().address)
    browser.shows("#contact-text", "^live$")
    page = Follower(browser, world)
    (world.root / "go").touch()
    page.shows("cause", "#cause", "First cause.*exit code 3.*rank 1.*ValueError: no such shard", "failed", rank=1)
    page.shows("failed", "#says", "^End(ed|ing): failed, exit code 3", "exit", outcome="failed")
    assert job.finish() == 3
    browser.shows("#says", "^Ended: failed, exit code 3")
    browser.shows("#cause-output", "ValueError: no such shard")


def test_lost_contact(world, browser, web):
    """The supervisor is stopped, and pchrun-web is killed. Each time the page says so, how old its picture is, and
    goes on by itself."""
    browser.errors = CUT_OFF
    start = Start(world)
    start.listens()
    one = web("--node", "0")
    browser.open(one.address)
    browser.run("window.mark = 'not reloaded'")
    start.train(0, 1000000)
    browser.shows("#says", "^Training at step")
    supervisor = start.nodes[0].job.pid
    os.kill(supervisor, signal.SIGSTOP)
    browser.first("#contact-text", r"^waiting for the supervisor\. This picture is [\d.]+ s old\.$")
    browser.shows("#contact-text", r"^no contact for [\d.]+ s: .*is it stopped\? This picture is [\d.]+ s old\.$")
    browser.shows("#says", "^Last seen training at step")
    browser.first("#spoken", "^No contact. The job was last seen training$")
    assert (browser.text("#ranks-title"), browser.text("#nodes-title")) == ("Ranks, as last seen", "Nodes, as last seen")
    browser.shot("supervisor-stopped")
    for scheme in ("light", "dark"):
        browser.look(1440, scheme)
        assert browser.probe("low", 4.5) == []
    os.kill(supervisor, signal.SIGCONT)
    browser.shows("#contact-text", "^live$")
    browser.shows("#says", "^Training at step")
    one.job.kill()
    browser.shows("#contact-text", r"^no contact with pchrun-web for [\d.]+ s; trying again\. This picture is [\d.]+ s old")
    browser.shows("#says", "^Last seen training at step")
    browser.shot("web-killed")
    one.start()
    browser.shows("#contact-text", "^live$")
    lines = browser.run("return [...document.querySelectorAll('#lines li')].map((line) => line.innerText)")
    assert sum("started" in line for line in lines) == 1  # those of before are not there a second time
    assert browser.run("return window.mark") == "not reloaded"
    start.nodes[0].job.send(signal.SIGTERM)
    start.end_input()
    start.ends(PREEMPTED)


def members(told):
    """The paths of all members in an answer; of a list, those of its items."""
    if isinstance(told, dict):
        return {f"{key}.{rest}".rstrip(".") for key, value in told.items() for rest in {"", *members(value)}}
    return {rest for value in told for rest in members(value)} if isinstance(told, list) else set()


def test_the_fake_supervisor_answers_as_a_real_one(training, world):
    """Each member of its answers is one that pchrun has."""
    t = training("--signals", "TERM=preempt,USR2=checkpoint", n=2, train=4)
    t.notice(signal.SIGUSR2)
    t.save("continue")
    t.notice(said="notice: SIGTERM")
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect(str(next(world.tmp.glob("pchrun.*/ctl"))))
        asked.sendall(b'{"version": 1, "do": "status"}\n')
        real = json.loads(asked.makefile("rb").readline())
    t.kill(0)
    t.ended()
    real["report"]["first_cause"] = t.report()["first_cause"]
    assert members(with_cause(with_notice(every_kind(fake_job())))) - members(real) == set()
