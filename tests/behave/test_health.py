# SPDX-License-Identifier: Apache-2.0
"""The health check of a node (health.check): an unhealthy node trains nothing, a broken check holds up nothing, and
all nodes hear which host it is."""

import json
import os
import re
import signal
import socket
import time

import pytest

from deadfs import dead  # noqa: F401
from harness import marked, needs_namespace, wait_until
from nodes import Nodes
from pchctl import ctl  # noqa: F401

HOST = socket.gethostname()
UNHEALTHY, LOST = 45, 42
XID = '{"healthy": false, "component": "gpu3", "text": "Xid 79"}'
SAYS = f"{HOST} is not healthy: gpu3: Xid 79; start the job without this host, until it is repaired"
HANGS = "sleep 1000 & wait"


@pytest.fixture
def check(world):
    """check(script): the options of a node that has this check."""
    def make(script, *more):
        number = len(list(world.root.glob("check*")))
        path = world.file(f"check{number}", f"#!/bin/sh\n{script}\n", 0o755)
        return ["--health-check", path, *more]
    return make


def launched(world, options, code):
    """A job of one node, whose command says so when it runs."""
    return world.launch("--report", world.root / "report.json", *options, "--", world.actor, "say", "trains",
                        code=code)


def report(world):
    return json.loads((world.root / "report.json").read_text())


def ended(world):
    """pchrun kills the processes of a check, and does not wait until they are dead."""
    wait_until(lambda: not marked(world.mark), "the end of the check's processes")


def test_a_healthy_node(world, check):
    """A check may print anything."""
    job = launched(world, check("echo '" + XID + "'; exit 0"), 0)
    assert world.events.all("trains")
    assert re.search(r" health: '.*/check0' says, after \d+m?s: this node is healthy$", job.err, re.M)
    assert report(world)["health"]["state"] == "healthy"


def test_without_a_check(world):
    job = launched(world, [], 0)
    assert " health: " not in job.err and report(world)["health"] is None


def test_an_unhealthy_node(world, check):
    """The last line says which host has what, and what to do."""
    job = launched(world, check(f"echo probing; echo '{XID}'; echo; exit 1"), UNHEALTHY)
    assert not world.events.all("trains")
    assert job.err_lines[-1].endswith(f" end: unhealthy, exit code 45: node 0: {SAYS}")
    told = report(world)
    assert told["outcome"] == "unhealthy" and told["exit_code"] == UNHEALTHY and SAYS in told["why"]
    assert told["first_cause"]["host"] == HOST and SAYS in told["first_cause"]["text"]
    assert {key: told["health"][key] for key in ("state", "component", "text")} == {
        "state": "unhealthy", "component": "gpu3", "text": "Xid 79"}


def test_the_last_line_counts_after_much_output(world, check):
    """A diagnosis with all its details is longer than pchrun keeps, and may hold any bytes."""
    job = launched(world, check(f"head -c 300000 /dev/zero; echo; echo '{XID}'; exit 1"), UNHEALTHY)
    assert job.err_lines[-1].endswith(f"node 0: {SAYS}")


def test_the_journal_names_it(world, check):
    events = world.root / "events.jsonl"
    launched(world, check(f"echo '{XID}'; exit 1", "--events-file", events), UNHEALTHY)
    told = [json.loads(line) for line in events.read_text().splitlines()]
    assert told[-1]["outcome"] == "unhealthy" and SAYS in told[-1]["text"]
    assert [event["kind"] for event in told if event["event"] == "failed"] == ["unhealthy"]


def test_the_code_is_the_users(world, check):
    launched(world, check(f"echo '{XID}'; exit 1", "--exit-unhealthy", "99"), 99)


BROKEN = {
    "crash": ("kill -SEGV $$", "signal 11"),
    "code": ("exit 3", "exit code 3"),
    "silence": ("exit 1", 'exit code 1, without a line that says "healthy": false'),
    "nonsense": ("echo 'Traceback {'; exit 1", 'exit code 1, without a line that says "healthy": false'),
    "contradiction": ("echo '{\"healthy\": true}'; exit 1", 'exit code 1, without a line'),
    "time": (HANGS, "killed, since health.timeout is over"),
    "flood": ("exec 2>&-; yes; exit 1", "killed, since health.timeout is over"),
}


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("strict", [False, True], ids=["", "strict"])
def test_a_broken_check(world, check, broken, strict):
    """It says nothing about the node. So it holds the node back only if the user says so."""
    script, because = BROKEN[broken]
    job = launched(world, check(script, "--health-timeout", "300ms", *["--health-strict"] * strict),
                   UNHEALTHY if strict else 0)
    assert bool(world.events.all("trains")) != strict
    assert because in job.err
    assert report(world)["health"]["state"] == "unknown"
    if strict:
        assert "health.strict" in job.err_lines[-1] and HOST in job.err_lines[-1]
    else:
        assert "the health of this node is unknown, and the node takes part" in job.err


def test_a_check_that_is_not_there(world):
    """The user sees it at once."""
    world.refused("not_started, exit code 125: health.check: cannot execute '/none'",
                  options=["--health-check", "/none"])


def test_what_a_check_leaves_behind(world, check):
    """Its group ends with it; the daemon of another session ends with the job."""
    script = f"'{world.actor}' say grouped pause & '{world.actor}' daemon {{ say apart pause }} say made\n"
    script += "while ! grep -q grouped $ACTOR_LOG || ! grep -q apart $ACTOR_LOG; do sleep 0.01; done; exit 0"
    launched(world, check(script), 0)
    for what in ("grouped", "apart"):
        pid = world.events.wait(what)["pid"]
        wait_until(lambda pid=pid: not os.path.exists(f"/proc/{pid}"), f"the end of {what}")


def test_a_daemon_that_prints_without_end(world, check):
    """It holds the pipe when the check has ended. The job starts, and does not wait for the daemon's end."""
    script = "for i in 1 2 3; do setsid dd if=/dev/zero bs=4M & done\nexit 0"
    launched(world, check(script), 0)
    assert world.events.all("trains") and report(world)["health"]["state"] == "healthy"


def test_a_notice_during_the_check(world, check):
    """pchrun answers, ends, and takes the check with it."""
    job = world.launch("--health-timeout", "1h", *check(f"'{world.actor}' say checks; {HANGS}"), "--", world.actor,
                       "say", "trains")
    world.events.wait("checks")
    job.send(signal.SIGTERM)
    assert job.finish() == LOST
    assert "preempted" in job.err_lines[-1] and not world.events.all("trains")
    ended(world)


def test_status_answers_during_the_check(world, check, ctl):  # noqa: F811
    """The check does not block the event loop."""
    job = world.launch("--health-timeout", "1h", "--report", world.root / "report.json",
                       *check(f"'{world.actor}' say checks; {HANGS}"), "--", world.actor, "say", "trains")
    world.events.wait("checks")
    wait_until(lambda: (world.root / "report.json").exists() and report(world)["health"], "the report")
    assert report(world)["health"]["state"] == "checking"
    assert "starting" in ctl("status").stdout
    job.send(signal.SIGTERM)
    assert job.finish() == LOST
    ended(world)


@pytest.mark.timing
def test_a_standstill_during_the_check(world, check, ctl):  # noqa: F811
    """The machine was suspended for longer than the check may take: that time does not count against the check."""
    up, limit_s = world.root / "up", 4
    script = f"'{world.actor}' say checks; until [ -e '{up}' ]; do sleep 0.05; done; exit 0"
    job = world.launch("--report", world.root / "report.json", *check(script, "--health-timeout", f"{limit_s}s"),
                       "--", world.actor, "say", "trains")
    world.events.wait("checks")
    job.send(signal.SIGSTOP)
    time.sleep(limit_s + 0.2)
    job.send(signal.SIGCONT)
    assert "starting" in ctl("status").stdout
    up.touch()
    assert job.finish() == 0 and world.events.all("trains")
    assert report(world)["health"]["state"] == "healthy"


# --- the checkpoint directory ---

def test_a_healthy_disk(world, check):
    """It is checked before the program is run, and nothing is left there."""
    folder = world.root / "ckpt"
    folder.mkdir()
    job = launched(world, ["--health-disk", "--checkpoint-dir", folder, "--state-dir", world.root / "state",
                           *check("exit 0")], 0)
    assert re.findall(r"'([^']*)' says, after \d+m?s: this node is healthy\n", job.err) == [
        "health.disk", str(world.root / "check0")]
    assert not list(folder.iterdir())


def test_a_disk_that_cannot_be_written(world, check):
    """No further check is run."""
    job = launched(world, ["--health-disk", "--checkpoint-dir", "/proc", "--state-dir", world.root / "state",
                           *check("exit 0")], UNHEALTHY)
    assert f"{HOST} is not healthy: disk: no file can be made in /proc: " in job.err_lines[-1]
    assert "check0" not in job.err and report(world)["health"]["check"] == "health.disk"


def test_a_full_disk(world):
    needs_namespace("--mount")
    folder = world.root / "ckpt"
    folder.mkdir()
    job = world.start("unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o size=32m none '{folder}' && exec \"$@\"",
                      "sh", world.pchrun, "--health-disk", "--checkpoint-dir", folder, "--", "true", code=UNHEALTHY)
    assert re.search(r"is not healthy: disk: .*/ckpt has 3\d MiB free; ", job.err_lines[-1])


def test_a_dead_disk(world, dead):  # noqa: F811
    """The server of the directory is gone when the job is restarted in place. The process that waits for it cannot be
    killed, and pchrun ends in time."""
    folder = world.root / "ckpt"
    (world.root / "live").mkdir()
    folder.symlink_to(world.root / "live")
    (world.root / "next").symlink_to(dead.path / "x")
    job = world.launch("--health-disk", "--health-timeout", "2s", "--checkpoint-dir", folder, "--state-dir",
                       world.root / "state", "--restart-max", "3", "--restart-startup", "0", "--", "sh", "-c",
                       f"echo start; mv -T '{world.root}/next' '{folder}'; exit 7", code=UNHEALTHY)
    assert dead.asked.is_set() and job.out == "start\n"
    assert "disk: " in job.err_lines[-1] and "/ckpt does not answer within health.timeout; " in job.err_lines[-1]


# --- several nodes ---

class Checked(Nodes):
    """The command of each node says trains."""

    def begin(self, rank, options=()):
        self.jobs[rank] = self.launch(rank, self.world.actor, "say", "trains", options=options)
        return self.jobs[rank]

    def end(self, *bad):
        """The code of an unhealthy node is its own. All nodes say which host it is."""
        for rank, job in self.jobs.items():
            assert job.finish() == (UNHEALTHY if rank in bad else LOST), job.err
            code = UNHEALTHY if rank in bad else LOST
            assert re.search(rf" end: unhealthy, exit code {code}: node ({'|'.join(map(str, bad))}): "
                             rf"{re.escape(SAYS)}$", job.err_lines[-1]), job.err
        assert not self.world.events.all("trains")


@pytest.fixture
def checked(world):
    return lambda count, *options: Checked(world, count, options)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("bad", [0, 1])
def test_one_of_two_nodes_is_unhealthy(checked, check, bad, first):
    """Either may come first. Its scheduler starts the job again elsewhere, so the healthy node ends with 42."""
    two = checked(2)
    options = {bad: check(f"echo '{XID}'; exit 1"), 1 - bad: check("exit 0")}
    two.begin(first, options[first])
    two.say(first, "healthy")
    two.begin(1 - first, options[1 - first])
    two.end(bad)


def test_the_end_waits_for_no_check(world, checked, check):
    two = checked(2)
    two.begin(0, check(f"'{world.actor}' say checks; {HANGS}", "--health-timeout", "1h"))
    world.events.wait("checks")
    two.begin(1, check(f"echo '{XID}'; exit 1"))
    two.end(1)
    ended(world)


@pytest.mark.parametrize("bad", [0, 1])
def test_a_third_node_comes_late(checked, check, bad):
    """The first two end only when it was told."""
    three = checked(3)
    for rank in (0, 1):
        three.begin(rank, check(f"echo '{XID}'; exit 1") if rank == bad else ())
    three.say(0, f"unhealthy: node {bad}: ")
    three.begin(2)
    three.end(bad)


def test_node_0_does_not_come(checked, check):
    """The unhealthy node tries no longer than the join may take."""
    two = checked(2, "--cluster-join-timeout", "1s")
    job = two.begin(1, check(f"echo '{XID}'; exit 1"))
    assert job.finish() == UNHEALTHY
    assert job.err_lines[-1].endswith(f"end: unhealthy, exit code 45: {SAYS}")


def test_the_start_waits_for_the_slowest_check(world, checked, check, ctl):  # noqa: F811
    """pchctl says for which node."""
    two = checked(2)
    go = world.root / "go"
    two.begin(0)
    two.begin(1, check(f"'{world.actor}' say checks; while [ ! -e '{go}' ]; do sleep 0.01; done"))
    world.events.wait("checks")
    two.say(1, "joined as node 1")
    said = f"\nwaits for node 1 ({HOST}): its health check is under way\n"
    wait_until(lambda: said in ctl("status", "--node", "0").stdout, "pchctl to name the check")
    assert not world.events.all("trains")
    go.touch()
    assert two.finish() == 0
    assert len(world.events.all("trains")) == 2


def test_three_attempts_end_the_job(world, check):
    """A scheduler that chooses the same host again and again is stopped, as after each end without progress."""
    options = check(f"echo '{XID}'; exit 1", "--checkpoint-dir", world.root / "ckpt")
    (world.root / "ckpt").mkdir()
    for code in (UNHEALTHY, UNHEALTHY, 43):
        job = launched(world, options, code)
    assert "no_progress" in job.err_lines[-1] and SAYS in job.err_lines[-1]


@pytest.mark.killed
def test_a_pchrun_is_killed_during_its_check(world, checked, check):
    """Its node is not there yet: node 0 says so, and the job starts when the node has come again."""
    two = checked(2)
    two.begin(0)
    killed = two.begin(1, check(f"exec '{world.actor}' say checks pause", "--health-timeout", "1h"))
    world.events.wait("checks")
    two.say(1, "joined as node 1")
    killed.kill()
    two.say(0, "; node 0 waits until it joins again")
    two.begin(1)
    assert two.finish() == 0


# --- strikes ---

def commits(world):
    return json.loads((world.root / "ckpt/.pchrun/commit.json").read_text())


@pytest.fixture
def kept(world):
    """The options of a job with a record, and with a hook that notes which hosts were not healthy, and of which node."""
    (world.root / "ckpt").mkdir()
    hook = world.file("hook", f"#!/bin/sh\ncd '{world.root}'\necho \"$PCH_UNHEALTHY_HOSTS\" >hosts.$PCH_NODE_RANK\n"
                      "echo \"$PCH_CAUSE_NODE\" >cause.$PCH_NODE_RANK\n", 0o755)
    return ["--checkpoint-dir", world.root / "ckpt", "--exit-hook", hook]


def test_strikes_are_counted(world, check, kept, ctl):  # noqa: F811
    """Each attempt counts its host. The hook, the report and pchctl know them."""
    for count in (1, 2):
        launched(world, check(f"echo '{XID}'; exit 1", *kept), UNHEALTHY)
        (strike,) = commits(world)["strikes"]
        assert (strike["host"], strike["count"], strike["text"]) == (HOST, count, "gpu3: Xid 79")
        assert (world.root / "hosts.0").read_text() == f"{HOST}\n"
        assert report(world)["strikes"] == commits(world)["strikes"]
    shown = ctl("status", world.root / "report.json", everywhere=True).stdout
    assert re.search(rf"^unhealthy {HOST}, 2 times, the last [\d.]+ s ago: gpu3: Xid 79$", shown, re.M), shown


@pytest.mark.parametrize("at_ns", [-2**63, 2**63 - 1])
def test_a_strike_of_a_damaged_report(world, check, kept, ctl, at_ns):  # noqa: F811
    launched(world, check(f"echo '{XID}'; exit 1", *kept), UNHEALTHY)
    told = report(world)
    told["strikes"][0]["at_ns"] = at_ns
    (world.root / "report.json").write_text(json.dumps(told))
    shown = ctl("status", world.root / "report.json", everywhere=True)
    assert f"unhealthy {HOST}, 1 time, the last 0 s ago: gpu3: Xid 79\n" in shown.stdout


def test_strikes_outlive_a_healthy_attempt(world, check, kept):
    """A host that was not healthy for a day is left alone by the hook."""
    launched(world, check(f"echo '{XID}'; exit 1", *kept), UNHEALTHY)
    launched(world, check("exit 0", *kept), 0)
    record = commits(world)
    assert [strike["count"] for strike in record["strikes"]] == [1]
    for age, hosts in (("23h", HOST), ("25h", "")):
        record["strikes"][0]["at_ns"] = time.time_ns() - int(age[:-1]) * 3600 * 10**9
        (world.root / "ckpt/.pchrun/commit.json").write_text(json.dumps(record))
        job = world.launch(*kept, "--", world.actor, "say", f"trains{age}", "pause")
        world.events.wait(f"trains{age}")
        job.send(signal.SIGTERM)
        assert job.finish() == LOST
        assert (world.root / "hosts.0").read_text() == f"{hosts}\n"


def test_without_a_strike(world, check, kept):
    launched(world, check("exit 0", *kept), 0)
    assert commits(world)["strikes"] == [] and report(world)["strikes"] == []


@pytest.mark.parametrize("bad", [0, 1])
def test_the_strikes_of_two_nodes(world, checked, check, kept, bad):
    """Node 0 records the strike. Both hooks know it."""
    two = checked(2, *kept)
    two.begin(bad, check(f"echo '{XID}'; exit 1"))
    two.begin(1 - bad, check("exit 0"))
    two.end(bad)
    assert [(strike["host"], strike["count"]) for strike in commits(world)["strikes"]] == [(HOST, 1)]
    for rank in (0, 1):
        assert (world.root / f"hosts.{rank}").read_text() == f"{HOST}\n"


# --- a restart in place ---

ONCE = f"[ ! -e bad ] || {{ echo '{XID}'; exit 1; }}"


def test_before_the_next_generation(world, check):
    """The GPU that has failed the ranks fails the check: no rank is started on it again."""
    bad = world.root / "bad"
    job = world.launch("--restart-max", "3", "--restart-startup", "0", *check(ONCE.replace("bad", str(bad))), "--",
                       "sh", "-c", f"echo start; touch '{bad}'; exit 7", code=UNHEALTHY)
    assert job.out == "start\n"
    assert job.err_lines[-1].endswith(f" end: unhealthy, exit code 45: node 0: {SAYS}")


def test_each_generation_is_checked(world, check):
    job = world.launch("--restart-max", "3", "--restart-startup", "0", *check("exit 0"), "--", "sh", "-c",
                       "echo start; [ $PCH_GENERATION = 2 ] || exit 7", code=0)
    assert job.out == "start\n" * 3
    assert job.err.count("this node is healthy") == 3


@pytest.fixture
def failed(world, checked, check):
    """failed(): two nodes that are restarted in place. The failure is on node 0, and the unhealthy node is node 1."""
    def begin(*options):
        bad, up = world.root / "bad", world.root / "up"
        two = checked(2, "--restart-max", "3", "--restart-startup", "0", *options)
        fails = f"echo start; until [ -e '{up}' ]; do sleep 0.05; done; touch '{bad}'; exit 7"
        two.jobs[0] = two.launch(0, "sh", "-c", fails)
        two.jobs[1] = two.launch(1, "sh", "-c", f"echo start; touch '{up}'; sleep 1000",
                                 options=check(ONCE.replace("bad", str(bad))))
        return two
    return begin


def test_before_the_next_generation_of_two(failed):
    two = failed()
    two.end(1)
    assert two.jobs[0].out == two.jobs[1].out == "start\n"


def test_an_unhealthy_node_leaves_a_job_that_waits(world, failed, kept):
    """Its hook hears of its own host, though the failure was on the other node, which waits for a replacement."""
    two = failed("--cluster-replace-wait", "60s", *kept)
    left = two.jobs.pop(1)
    assert left.finish() == UNHEALTHY
    assert left.err_lines[-1].endswith(f" end: unhealthy, exit code 45: {SAYS}")
    cause = two.report(1)["first_cause"]
    assert (cause["node_rank"], cause["rank"], cause["code"]) == (1, -1, UNHEALTHY)
    assert cause["at"] > two.report(0)["restarts"]["last_cause"]["at"]
    assert [(world.root / name).read_text() for name in ("hosts.1", "cause.1")] == [f"{HOST}\n", "1\n"]
    two.say(0, "node 1 (")
    two.jobs[0].send(signal.SIGTERM)
    assert two.finish() == LOST
    assert (world.root / "hosts.0").read_text() == f"{HOST}\n"
