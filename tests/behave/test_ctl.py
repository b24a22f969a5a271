# SPDX-License-Identifier: Apache-2.0
"""pchctl: what it shows of a job, and what it orders a job to do. Also the files about a job: the journal of events,
the metrics, the last line for Kubernetes. Bad clients: test_control.c, too."""

import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from harness import CHARLM, DEADLINE, PREEMPTED, SLACK, STOPPED, is_alive, wait_until
from nodes import Nodes
from pchctl import PCHCTL, ctl, waited_for  # noqa: F401
from training import CHILD

WITHDRAWN = "job cwd has no notice any more: it was withdrawn, and the job goes on\n"
DONE, FAILED, USAGE = 0, 1, 2


def socket_of(folder):
    """The socket of the one pchrun whose private directory is in this folder."""
    found = wait_until(lambda: list(folder.glob("pchrun.*/ctl")), "the socket of pchctl")
    return str(found[0])


def waiting(world, *options):
    """A job of one command that attaches to nothing, and can be asked."""
    job = world.act("say ready wait", options=options)
    socket_of(world.tmp)
    return job


def end(job):
    job.send(signal.SIGINT)
    job.finish()


# --- status --------------------------------------------------------------------------------------

def test_status_tells_where_each_rank_is(training, ctl):
    run = training("--job", "run7", n=2, train=4)
    run.clients[1].train(5)
    told = ctl.status()
    assert told["version"] == 1 and told["ok"] and told["pid"] == run.job.pid
    assert told["report"]["job"] == "run7" and told["report"]["state"] == "running"
    assert [(r["rank"], r["step"], r["phase"], r["attached"]) for r in told["ranks"]] == [
        (0, 4, "train", True), (1, 5, "train", True)]
    assert all(r["step_age_is_least"] and r["step_age"] >= 1 for r in told["ranks"])
    assert [(n["state"], n["lowest_step"], n["highest_step"]) for n in told["nodes"]] == [
        ("running", 4, 5)]
    run.train(6)
    told = ctl.status()
    assert all(r["steps_per_second"] > 0 and not r["step_age_is_least"] for r in told["ranks"])
    text = ctl("status").stdout
    assert re.match(r"job run7: training at step 6, .* steps/s, no commit so far\nattempt   1, generation 0, node 0 of 1\n", text)
    assert re.search(r"^notice +none\ncommit +none\n", text, re.M)
    assert re.search(rf"^1 +{run.pid(1)} +training +6 ", text, re.M)
    run.complete()


def states(ctl):
    shown = re.findall(r"^(\d) +\d+ +([a-z]+(?: [a-z]+)?) ", ctl("status").stdout, re.M)
    told = [(str(rank["rank"]), rank["state"]) for rank in ctl.status()["ranks"]]
    assert [(rank, word if word != "attached" else "starting") for rank, word in told] == shown
    return [word for _, word in told]


def test_status_of_ranks_that_are_not_attached(training, ctl):
    """A process that loads its model for minutes is not gone; nor is a process that trains on alone."""
    run = training("--stop-exit-wait", "300ms", n=3)
    run.clients[1].open()
    assert states(ctl) == ["starting", "attached", "starting"]
    assert [rank["local_rank"] for rank in ctl.status()["ranks"]] == [0, 1, 2]
    run.clients[1].ask("close", "close .*")
    run.clients[2].open()
    assert states(ctl) == ["starting", "not attached", "attached"]
    run.clients[2].ask("done", "done")
    wait_until(lambda: ctl.status()["ranks"][2]["done"], "rank 2 to be done")
    assert ctl.status()["ranks"][2]["attached"] and states(ctl) == ["starting", "not attached", "done"]
    run.clients[2].end_input()
    wait_until(lambda: not ctl.status()["ranks"][2]["attached"], "the end of rank 2")
    assert states(ctl) == ["starting", "not attached", "done"]
    run.clients[0].tell("exit 3")
    assert run.finish() == 3


@pytest.mark.parametrize("options", [["--watchdog-start", "1s", "--watchdog-mode", "log"],
                                     ["--save-mode", "forward"]], ids=["late", "never"])
def test_status_of_a_rank_that_never_attaches(training, world, ctl, options):
    """pchctl shows this when the rank's time to start is over, or at once if no program is to attach."""
    run = training(*options)
    socket_of(world.tmp)
    wait_until(lambda: [rank["state"] for rank in ctl.status()["ranks"]] == ["not attached"], "that to be told")
    run.clients[0].ask("phase 1", "phase 1")  # the rank runs by now, and reads its input
    assert run.finish() == 0


def test_status_of_a_process_that_writes_nonsense(training, ctl):
    """A process's page may hold any number; pchctl shows only numbers that can be steps."""
    job = training(n=1, train=1)
    job.clients[0].ask("havoc thread", "havoc")
    for _ in range(5):
        told = ctl.status()
        steps = [told["ranks"][0]["step"], told["nodes"][0]["lowest_step"], told["nodes"][0]["highest_step"]]
        assert all(0 <= step < 2**48 for step in steps), steps
    job.kill(0)
    assert job.result() == (128 + 9, "failed", None)


def test_watch_ends_with_the_job(training, ctl):
    run = training(train=3)
    watch = ctl.start("status", "--watch", "--interval", "50ms")
    wait_until(lambda: watch.out.count("\njob cwd") >= 2, "several looks")
    run.preempt()
    assert run.finish() == PREEMPTED
    assert watch.finish() == DONE
    assert watch.err == "pchctl: the job has ended\n"


def test_watch_ends_with_a_job_whose_clock_was_set_back(training, world, ctl):
    """By its time of day the job then ended before it began."""
    clock = world.root / "clock"
    run = training(env=world.shim("clock", SHIM_CLOCK=clock), train=3)
    watch = ctl.start("status", "--watch", "--interval", "50ms")
    wait_until(lambda: "job cwd" in watch.out, "a look")
    clock.write_text("-7200")
    run.preempt()
    assert run.finish() == PREEMPTED
    assert watch.finish() == DONE
    assert watch.err == "pchctl: the job has ended\n"


def answered(world, ctl, answers, *words):
    """A pchctl that gets these answers from a process that is not pchrun."""
    folder = world.tmp / "pchrun.ends"
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "ctl"))
        listener.listen()
        listener.settimeout(DEADLINE)
        asks = ctl.start(*words)
        for answer in answers:
            with listener.accept()[0] as asked:
                asked.recv(4096)
                asked.sendall(answer)
        code = asks.finish()
    (folder / "ctl").unlink()
    folder.rmdir()
    return code, asks


def test_watch_of_a_job_that_ends_while_it_is_asked(world, ctl):
    """pchctl is connected, and the connection closes without an answer."""
    answers = [b'{"ok": true}\n', b'{"ok": true}\n', b""]
    code, watch = answered(world, ctl, answers, "status", "--watch", "--json", "--interval", "50ms")
    assert code == DONE and watch.err.startswith("pchctl: pchrun is gone; without its journal it is unknown whether ")


@pytest.mark.parametrize("answer", [
    '', ', "nodes": 5, "ranks": "x", "report": []', ', "nodes": [[]], "ranks": {"a": 1}',
    ', "nodes": [{}, 7], "ranks": [null, []], "report": {"notice": 3}'])
def test_an_answer_that_says_little(world, ctl, answer):
    """An answer of a broken pchrun, or of a pchrun of another version."""
    code, asked = answered(world, ctl, [b'{"ok": true}\n', b'{"ok": true%s}\n' % answer.encode()], "status")
    assert (code, asked.err) == (DONE, "") and asked.out.startswith("job : not attached: ")


EVIDENCE = """pchrun: node 1 of job run7, attempt 1, generation 2, at 2026-11-29T06:10:00.000Z: no rank moves

where the ranks are in Python:
  rank 3: train.py:88 in backward
    its child 9: data.py:1 in x

Python stack of process 12 (python3), rank 3

rank 3, process 12 (python3): state S in futex_wait_queue, at step %d for 15 s, phase train
"""


@pytest.mark.parametrize("step, line", [(41, " (train.py:88 in backward)"), (40, "")])
def test_the_line_of_python_that_is_waited_for(world, ctl, step, line):
    """It is that of the evidence, unless the rank has made steps since."""
    (world.root / "hang.1.2.txt").write_text(EVIDENCE % step)
    ranks = [{"rank": rank, "node_rank": rank // 2, "attached": True, "phase": "train", "step": at, "step_age": age,
              "steps_per_second": 1} for rank, at, age in ((2, 44, 0.1), (3, 41, 12))]
    answer = {"ok": True, "ranks": ranks, "nodes": [{"node_rank": 1, "host": "b", "state": "running", "connected": True}],
              "report": {"generation": 2, "evidence": str(world.root / "hang.0.2.txt")}}
    code, asked = answered(world, ctl, [b'{"ok": true}\n', json.dumps(answer).encode() + b"\n"], "status")
    assert (code, asked.err) == (DONE, "")
    assert f"\nwaits for rank 3 on b: at step 41 for 12 s, all others at 44{line}\n" in asked.out


def test_status_of_several_nodes(world, ctl):
    """test_status.py tests the ranks of all nodes."""
    job = Nodes(world, 2, ["--job", "run7"])
    job.launch_all(CHARLM, "--steps", 100000, "--step-time", 20, "--dir", world.root)
    job.say(0, "start: all 2 ranks on 2 nodes have attached")

    def both_train():
        nodes = ctl.status("--node", 0)["nodes"]
        return all(n["highest_step"] > 0 for n in nodes) and nodes
    nodes = wait_until(both_train, "both to train")
    assert [(n["node_rank"], n["state"], n["ranks_attached"], n["connected"]) for n in nodes] == [
        (0, "running", 1, True), (1, "running", 1, True)]
    assert all(n["heard_age"] < 5 for n in nodes)
    text = ctl("status", "--node", 0).stdout
    assert re.search(r"^NODE +HOST +STATE", text, re.M) and re.search(r"^1 .* running +1/1 ", text, re.M)
    job.jobs[1].send(signal.SIGTERM)
    assert job.finish() == PREEMPTED


def test_status_of_a_job_that_waits_for_its_nodes(world, ctl):
    job = Nodes(world, 2)
    job.start(0, "wait")
    socket_of(world.tmp)
    told = ctl.status()
    assert told["report"]["state"] == "waiting" and told["ranks"] == []
    assert [(n["state"], n["host"] is None, n["ranks_expected"]) for n in told["nodes"]] == [
        ("waiting", False, None), ("missing", True, None)]
    port = told["nodes"][1]["name"].rpartition(":")[2]
    assert re.fullmatch(rf"node 1 \(127\.0\.0\.2:{port}\): it has not joined for [\d.]+ m?s", waited_for(ctl)[0])
    assert ctl("status").stdout.startswith("job cwd: starting: 1 of 2 nodes have joined\n")
    told = [json.loads(line) for line in ctl("events").stdout.splitlines()]
    assert [event.get("state", event.get("phase")) for event in told] == ["starting", "waiting", "waiting"]
    assert ctl("stop").stdout.startswith("stopped, exit code 44: node 0: stopped by pchctl ")
    assert job.finish(0) == STOPPED


# --- checkpoint ----------------------------------------------------------------------------------

def test_a_checkpoint_is_waited_for(training, ctl):
    run = training(n=2, train=3)
    asked = ctl.start("checkpoint")
    step = run.save("continue")
    assert asked.finish() == DONE
    assert asked.out == f"step {step} is committed\n"
    assert ctl.status()["report"]["commit"]["step"] == step
    run.complete(step)


def test_a_checkpoint_that_fails(training, ctl):
    run = training(train=3)
    asked = ctl.start("checkpoint")
    step = run.agreed()
    run.reach(step)
    run.clients[0].ask(f"failed {step} no room", "failed .*")
    assert asked.finish() == FAILED
    assert asked.err == f"pchctl: the save at step {step} has failed: nothing is committed\n"
    run.complete()


def test_a_checkpoint_that_takes_too_long(training, ctl):
    run = training(train=0)
    done = ctl("checkpoint", "--wait", "100ms")
    assert done.returncode == FAILED
    assert "nothing was committed within 0.1 s; the request stays in force" in done.stderr
    run.save("continue")
    assert ctl("checkpoint", "--wait", "0").stdout == "asked for\n"
    run.agreed(2)
    end(run.job)
    run.close()


def test_no_checkpoint_of_a_program_that_does_not_attach(world, ctl):
    job = waiting(world, "--save-mode", "forward")
    done = ctl("checkpoint")
    assert done.returncode == FAILED and "only a program that attaches can save" in done.stderr
    end(job)


# --- drain ---------------------------------------------------------------------------------------

def test_a_drain_is_a_notice(training, ctl):
    run = training(train=3)
    done = ctl("drain", "--in", "9s", "--text", "the rack goes down")
    assert (done.returncode, done.stdout) == (
        DONE, "job cwd has a notice from pchctl: it saves, if it can, and ends\n")
    step = run.agreed()
    assert re.search(r"^notice +pchctl the rack goes down on node 0, [5-8](\.\d+)? s left$",
                     ctl("status").stdout, re.M)
    run.serve(step, "exit")
    assert run.result() == (PREEMPTED, "preempted", step)
    assert run.report()["notice"]["source"] == "pchctl"


def test_a_drain_is_taken_back(training, ctl):
    run = training(env={"PCHRUN_SAVE_TRAIN_ON": "true"}, train=3)
    assert ctl("drain", "--in", "1h").returncode == DONE
    step = run.save("continue")
    done = ctl("drain", "--cancel")
    assert (done.returncode, done.stdout) == (DONE, WITHDRAWN)
    run.complete(step)


def test_a_drain_is_taken_back_where_it_was_given(world, ctl):
    job = Nodes(world, 2, ["--save-train-on"])
    job.start_all("wait")
    wait_until(lambda: len(list(world.tmp.glob("pchrun.*/ctl"))) == 2, "both sockets")
    assert ctl("drain", "--in", "1h", "--node", 1).returncode == DONE
    wait_until(lambda: ctl.status("--node", 0)["report"]["notice"], "node 0 to be told")
    done = ctl("drain", "--cancel", "--node", 0)
    assert done.returncode == FAILED
    assert done.stderr == "pchctl: the notice is still in force: it was given on node 1; withdraw it there\n"
    done = ctl("drain", "--cancel", "--node", 1)
    assert (done.returncode, done.stdout) == (DONE, WITHDRAWN)
    assert ctl("stop", "--node", 0).returncode == DONE
    assert job.finish() == STOPPED


def test_the_end_of_a_drain_is_waited_for(training, ctl):
    run = training(train=3)
    asked = ctl.start("drain", "--wait", "15s")
    step = run.save("exit")
    assert run.finish() == PREEMPTED
    assert asked.finish() == DONE
    assert asked.out.endswith(f"preempted, exit code 42: saved and committed at step {step}\n")


# --- stop ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("node", [0, 1])
def test_a_stop_ends_all_nodes(world, ctl, node):
    """Any node may be asked. The exit code does not start the job again."""
    job = Nodes(world, 2)
    job.start_all("wait")
    wait_until(lambda: len(list(world.tmp.glob("pchrun.*/ctl"))) == 2, "both sockets")
    done = ctl("stop", "--node", node)
    assert done.returncode == DONE, done.stderr
    assert re.fullmatch(rf"stopped, exit code 44: node {node}: stopped by pchctl "
                        r"\(process \d+, user \d+\)\n", done.stdout)
    assert job.finish() == STOPPED
    assert job.report(1 - node)["outcome"] == "stopped"


def test_a_stop_after_a_notice(training, ctl):
    """The notice would have the job started again."""
    run = training("--stop-exit-wait", "100ms", "--stop-term-wait", "100ms", "--exit-stopped", "7", train=3)
    run.notice()
    run.agreed()
    assert ctl("stop").stdout.startswith("stopped, exit code 7: ")
    assert run.job.finish() == 7
    assert run.report()["outcome"] == "stopped"
    run.close()


def test_a_stop_after_a_save(training, ctl):
    """All ranks save one step, which is committed before the end."""
    run = training(n=2, train=3)
    asked = ctl.start("stop", "--save")
    step = run.save("exit")
    assert run.result() == (STOPPED, "stopped", step)
    assert asked.finish() == DONE, asked.err
    assert asked.out == ("stopped, exit code 44: stopped by pchctl on node 0: "
                         f"saved and committed at step {step}\n")


@pytest.mark.parametrize("node", [0, 1])
def test_a_stop_after_a_save_of_two_nodes(world, ctl, node):
    """Both nodes end with the same code and words, and the step is on record."""
    (world.root / "run").mkdir()
    job = Nodes(world, 2, ["--checkpoint-dir", world.root / "run"])
    job.launch_all(CHARLM, "--steps", 100000, "--step-time", 20, "--dir", world.root / "run")
    wait_until(lambda: len(list(world.tmp.glob("pchrun.*/ctl"))) == 2 and all(
        n["highest_step"] > 0 for n in ctl.status()["nodes"]), "both to train")
    done = ctl("--node", node, "stop", "--save")
    assert done.returncode == DONE, done.stderr
    step = int(re.fullmatch(rf"stopped, exit code 44: stopped by pchctl on node {node}: "
                            r"saved and committed at step (\d+)\n", done.stdout)[1])
    assert job.finish() == STOPPED
    assert job.agreed("outcome", "why")["why"] == (
        f"stopped by pchctl on node {node}: saved and committed at step {step}")
    commits = json.loads((world.root / "run/.pchrun/commit.json").read_text())["commits"]
    assert commits[-1]["step"] == step


def test_a_stop_whose_save_fails(training, ctl):
    """The user asked for a save, so the job goes on. A later request is judged anew."""
    run = training(train=3)
    asked = ctl.start("stop", "--save")
    step = run.agreed()
    run.reach(step)
    run.clients[0].ask(f"failed {step} no room", "failed .*")
    assert asked.finish() == FAILED
    assert asked.err == ("pchctl: the job was to save and end, but goes on: the save failed: node 0: rank 0 could "
                         f"not save step {step}: no room; pchctl stop ends it without a save\n")
    asked = ctl.start("stop", "--save")
    step = run.save("exit", 2)
    assert run.result() == (STOPPED, "stopped", step)
    assert asked.finish() == DONE, asked.err


def test_a_stop_of_a_program_that_cannot_save(world, ctl):
    job = waiting(world)
    done = ctl("stop", "--save")
    assert done.returncode == FAILED and "no process has attached, so none can be asked to save" in done.stderr
    end(job)


def test_no_saved_stop_of_a_program_that_does_not_attach(world, ctl):
    job = waiting(world, "--save-mode", "forward")
    done = ctl("stop", "--save")
    assert done.returncode == FAILED and "only a program that attaches can save" in done.stderr
    end(job)


def test_a_job_that_is_ending_takes_no_orders(world, ctl):
    job = world.act("record all say ready until TERM hold end exit 0", options="--stop-term-wait 1h")
    socket_of(world.tmp)
    assert ctl("stop", "--wait", "0").stdout == "asked for\n"
    world.events.wait("signal", name="TERM")
    for words in (["stop"], ["drain"], ["checkpoint"]):
        done = ctl(*words)
        assert done.returncode == FAILED
        assert "the job is ending already: stopped, exit code 44: " in done.stderr
    assert ctl("status").stdout.startswith("job cwd: ending: stopped, exit code 44: ")
    world.let_end(job, STOPPED)


def test_status_says_where_the_next_start_resumes(training, ctl):
    """The job has failed, and a rank that does not end still holds it."""
    job = training("--stop-exit-wait", "60s", "--stop-term-wait", "60s", n=2, start=f"trap '' TERM; {CHILD}")
    for client in job.clients:
        client.open()
        client.train(2)
    job.clients[0].tell("exit 3")
    job.said("ending: failed")
    lines = ctl("status").stdout.splitlines()
    assert lines[0].startswith("job cwd: ending: failed, exit code 3: ") and "next      begins anew" in lines
    job.clients[1].end_input()
    assert job.job.finish() == 3


def in_a_pause(world, script="exit 7", *options):
    """A job that has failed, and waits for its restart."""
    job = world.launch("--restart-max", "3", "--restart-startup", "0", "--restart-backoff", "1h",
                       "--restart-backoff-max", "1h", *options, "--", "sh", "-c", script)
    wait_until(lambda: "at the earliest" in job.err, "the pause")
    return job


def test_status_tells_of_restarts(training, ctl):
    """How many there were, how many are allowed, and why the last one was. The report has the same."""
    run = training("--restart-max", "3", "--restart-startup", "0", "--checkpoint-every", "10m", train=3)
    assert "\nrestarts  0 in place; restart.max allows 3 within 1h\nnotice " in ctl("status").stdout
    run.clients[0].tell("exit 9")
    run.said("generation 1 begins")
    cause = ctl.status()["report"]["restarts"]["last_cause"]
    assert cause["code"] == 9 and cause["rank"] == 0
    assert re.search(r"^restarts  1 in place; restart.max allows 3 within 1h\n"
                     rf"cause     of the last failure: node 0 \(.+\), rank 0: {re.escape(cause['text'])}$", ctl("status").stdout, re.M)
    run.open()
    run.train(2)
    assert ctl("checkpoint", "--wait", "0").returncode == DONE
    step = run.save("continue")
    wait_until(lambda: ctl.status()["report"]["commit"], "the commit")
    assert re.search(r"^saves     every 10 min, if no notice comes; the next in (9\.\d+|10) min$", ctl("status").stdout, re.M)
    assert re.match(rf"job cwd: training at step {step}, .*last commit .* s ago, next save in 9 min\n", ctl("status").stdout)
    run.complete(step)


def test_a_stop_between_two_generations(world, ctl):
    """The end of a generation is not that of the job."""
    job = in_a_pause(world)
    report = ctl.status()["report"]
    assert [report[key] for key in ("state", "outcome", "exit_code", "why")] == [
        "restarting", "unknown", None, ""]
    assert report["first_cause"]["code"] == 7
    assert ctl("stop").stdout.startswith("stopped, exit code 44: node 0: stopped by pchctl ")
    assert job.finish() == STOPPED


def test_a_drain_between_two_generations(world, ctl):
    job = in_a_pause(world)
    assert ctl("drain").returncode == DONE
    assert job.finish() == PREEMPTED


def test_a_drain_is_taken_back_when_all_have_left(training, ctl):
    """With restart.after_notice the ranks come again."""
    run = training("--restart-after-notice", n=1, train=1)
    ctl("drain", "--in", "10m")
    run.save("exit")
    run.clients[0].end_input()
    wait_until(lambda: run.report()["state"] == "restarting", "the wait")
    assert ctl("drain", "--cancel").stdout == WITHDRAWN
    assert ctl("drain", "--cancel").stdout == "job cwd has no notice\n"
    run.said("generation 1 begins")
    assert ctl("stop").returncode == DONE
    assert run.job.finish() == STOPPED


def test_a_stop_that_is_not_waited_for(world, ctl):
    job = world.act("record all say ready hold end exit 0", options="--stop-term-wait 1h")
    socket_of(world.tmp)
    done = ctl("stop", "--wait", "50ms")
    assert done.returncode == FAILED and "the job has not ended within" in done.stderr
    world.let_end(job, STOPPED)


# --- events --------------------------------------------------------------------------------------

def names(lines, but=("log", "signal", "phase")):
    return [event["event"] for event in lines if event["event"] not in but]


def test_events_are_followed_and_kept(training, ctl):
    run = training(train=0)
    follow = ctl.start("events", "--follow")
    wait_until(lambda: '"attached"' in follow.out, "the events so far")
    run.train(3)
    step = run.preempt()
    assert run.finish() == PREEMPTED
    assert follow.finish() == DONE
    kept = (run.dir / ".pchrun/events.0.jsonl").read_text()
    assert kept == follow.out
    events = [json.loads(line) for line in kept.splitlines()]
    assert all({"ts", "node", "attempt", "generation", "event"} <= set(event) for event in events)
    told = names(events)
    assert told[:3] == ["started", "state", "attached"] and told[-1] == "exit"
    assert [e["phase"] for e in events if e["event"] == "round"][-2:] == ["decided", "committed"]
    phases = [(e["phase"], e["step"]) for e in events if e["event"] == "phase"]
    assert phases == [("starting", 0), ("training", 0), ("saving", step), ("stopping", step)]
    for name, key, value in (("notice", "source", "SIGTERM"), ("saved", "step", step),
                             ("committed", "step", step), ("exit", "exit_code", PREEMPTED),
                             ("exit", "last_step", step)):
        assert [event[key] for event in events if event["event"] == name] == [value], name


def test_node_0_tells_the_first_failure_of_another_node(world):
    nodes = Nodes(world, 2, ["--state-dir", world.root / "state", "--restart-max", "1", "--restart-startup", "0"])
    nodes.launch_all("sh", "-c", "[ $PCH_NODE_RANK = 0 ] && exec sleep 1000; [ $PCH_GENERATION = 0 ] && exit 7; kill $$")
    assert nodes.finish() == 143
    told = [json.loads(line) for line in (world.root / "state/events.0.jsonl").read_text().splitlines()]
    assert [(e["generation"], e["kind"], e["of_node"], e["rank"], e["code"]) for e in told if e["event"] == "failed"] == [
        (0, "exit", 1, -1, 7), (1, "signal", 1, -1, 143)]


def test_a_restart_at_once_still_tells_its_failure(world):
    """On a single node the failure and the end of the generation are one event of the core."""
    world.launch("--job", "run7", "--state-dir", world.root / "state", "--restart-max", "3", "--restart-startup", "0",
                 "--restart-backoff", "20ms", "--metrics-file", world.root / "metrics", "--", "sh", "-c", "exit 9", code=9)
    told = [json.loads(line) for line in (world.root / "state/events.0.jsonl").read_text().splitlines()]
    assert [(e["generation"], e["kind"], e["code"]) for e in told if e["event"] == "failed"] == [
        (generation, "exit", 9) for generation in range(4)]
    restarts = {key[1]: value for key, value in metrics(world.root / "metrics").items()
                if key[0] == "pchrun_restarts_total"}
    assert restarts == {"failed": 3, "node_lost": 0, "hang": 0}


@pytest.mark.parametrize("options, generations", [([], [0]), (["--restart-max", "1"], [0, 1])])
def test_a_hang_is_a_failure_with_a_rank(training, options, generations):
    """The report names no cause, since no process has failed. Until then only lines of the log named the rank."""
    run = training("--watchdog-train", "1s", *options)
    for generation in generations:
        if generation:
            run.said(r"generation 1 begins")
        run.open()
        run.train(4)
    assert run.job.finish() == PREEMPTED
    run.close()
    events = [json.loads(line) for line in (run.dir / ".pchrun/events.0.jsonl").read_text().splitlines()]
    told = [e for e in events if e["event"] == "failed"]
    assert [(e["generation"], e["kind"], e["of_node"], e["last_step"], e["code"]) for e in told] == [
        (generation, "hang", 0, 4, PREEMPTED) for generation in generations]
    for e in told:
        named = re.match(r"rank (\d+) \(process (\d+) on node 0, ", e["text"])
        assert [int(number) for number in named.groups()] == [e["rank"], e["pid"]]
    assert json.loads(run.report_path.read_text())["first_cause"] is None


def test_events_without_a_file(world, ctl):
    """pchctl still shows the newest events."""
    job = waiting(world)
    told = [json.loads(line) for line in ctl("events").stdout.splitlines()]
    assert names(told) == ["started", "state"] and [e["commands"] for e in told if e["event"] == "started"] == [1]
    told = ctl.status()
    assert (told["events_file"], told["state_dir"]) == (None, None)
    end(job)


def test_attempts_share_a_journal(world):
    """A failed attempt records why; the next attempt adds to the file."""
    for code in (3, 4):
        world.act(f"exit {code}", options=["--state-dir", world.root / "state"], code=code)
    events = [json.loads(line)
              for line in (world.root / "state/events.0.jsonl").read_text().splitlines()]
    assert [(e["attempt"], e["exit_code"]) for e in events if e["event"] == "exit"] == [(1, 3), (2, 4)]
    assert [e["code"] for e in events if e["event"] == "failed"] == [3, 4]


def test_a_journal_that_cannot_be_written(world, ctl):
    """The log says so once, and the job goes on and ends as usual."""
    folder = world.root / "a/b"
    folder.mkdir(parents=True)
    job = world.act("say ready wait", options=["--events-file", folder / "events"])
    wait_until((folder / "events").exists, "the journal")
    (folder / "events").unlink()
    folder.rmdir()
    folder.parent.rmdir()
    assert ctl("stop").returncode == DONE
    assert job.finish() == STOPPED
    assert len(re.findall(r"events: cannot .*; the job does not depend on it", job.err)) == 1


def test_what_a_full_disk_has_not_taken_is_counted(world, ctl):
    """A full disk leaves no part of a line. The test limits the size of every file, also of the log, instead
    of filling a disk."""
    path = world.root / "events"
    job = waiting(world, "-q", "--events-file", path)
    wait_until(lambda: path.exists() and path.read_text().count("\n") >= 2, "the first events")
    before = path.read_text()
    resource.prlimit(job.pid, resource.RLIMIT_FSIZE, (len(before) + 30, resource.RLIM_INFINITY))
    assert ctl("checkpoint", "--wait", "0").returncode == DONE
    wait_until(lambda: "events: cannot write" in job.err, "the complaint")
    assert path.read_text() == before
    resource.prlimit(job.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert ctl("stop").returncode == DONE
    assert job.finish() == STOPPED
    told = [json.loads(line) for line in path.read_text().splitlines()]
    asked = [event for event in told if "asked for" in event.get("text", "")]
    assert not asked and {"event": "dropped", "count": 1} in told


@pytest.mark.parametrize("option", ["--events-file", "--metrics-file"])
def test_a_file_that_cannot_be(world, option):
    job = world.launch(option, "/dev/null", "--", "true", code=125)
    assert f"({option[2:].replace('-', '.')}): '/dev/null' is not a regular file" in job.err


# --- metrics -------------------------------------------------------------------------------------

SAMPLE = re.compile(r'(pchrun_[a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (-?[0-9.e+-]+)')


def metrics(path):
    """{(name, more labels): value}, by a strict reader of the text format."""
    found, name, typed = {}, None, None
    text = path.read_text()
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split()[2]
            assert name not in {key[0] for key in found}
        elif line.startswith("# TYPE "):
            kind = "counter" if name.endswith("_total") else "gauge"
            assert line in (f"# TYPE {name} {kind}", f"# TYPE {name} histogram")
            typed = [name + part for part in ("_bucket", "_sum", "_count")] if "histogram" in line else [name]
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample and sample[1] in typed, line
            labels = dict(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', sample[2]))
            assert labels.pop("name") == "run7" and labels.pop("node") == "0"
            found[sample[1], *labels.values()] = float(sample[3])
    return found


def test_metrics(training, world):
    path = world.root / "metrics/pchrun.prom"
    path.parent.mkdir()
    run = training("--job", "run7", "--metrics-file", path, "--metrics-interval", "100ms", n=2, train=4)
    wait_until(lambda: path.exists() and all(
        metrics(path).get(("pchrun_rank_step", rank, rank)) == 4 for rank in "01"), "the steps")
    told = metrics(path)
    assert told["pchrun_up",] == 1 and told["pchrun_notice",] == 0
    assert told["pchrun_step",] == 4
    assert told["pchrun_state", "running"] == 1 and told["pchrun_ranks_attached",] == 2
    step = run.preempt()
    assert run.finish() == PREEMPTED
    told = metrics(path)
    assert told["pchrun_up",] == 0 and told["pchrun_exit_code", "preempted"] == PREEMPTED
    assert told["pchrun_commit_step",] == step and told["pchrun_notice",] == 1
    assert told["pchrun_rank_step", "0", "0"] == told["pchrun_rank_step", "1", "1"] == step
    assert told["pchrun_notices_total", "SIGTERM"] == 1 and told["pchrun_steps_total",] == step
    assert told["pchrun_saves_total", "committed"] == told["pchrun_save_seconds_count",] >= 1
    assert told["pchrun_restarts_total", "failed"] == 0
    assert os.listdir(path.parent) == [path.name]


# --- the last line -------------------------------------------------------------------------------

IN_KUBERNETES = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


def test_the_last_line_for_kubernetes(world):
    path = world.file("termination-log", "what was there before, and is longer than the end " * 9)
    inode = path.stat().st_ino
    job = world.act("exit 3", options=["--termination-log", path], env=IN_KUBERNETES, code=3)
    assert path.read_text() == job.err_lines[-1].partition(" end: ")[2]
    assert path.stat().st_ino == inode, "it is a mount, which cannot be replaced"


@pytest.mark.parametrize("kind", ["missing", "pipe", "folder"])
def test_a_last_line_that_nobody_waits_for(world, kind):
    path = world.root / "termination-log"
    {"missing": lambda p: None, "pipe": os.mkfifo, "folder": os.mkdir}[kind](path)
    world.act("exit 3", options=["--termination-log", path], env=IN_KUBERNETES, code=3)
    assert path.exists() == (kind != "missing")


def test_the_last_line_of_a_job_that_does_not_start(world):
    path = world.file("termination-log")
    world.launch("--termination-log", path, "--report", "/dev/null", "--", "true", code=125)
    assert path.read_text().startswith("not_started, exit code 125: ")


# --- which job -----------------------------------------------------------------------------------

def test_a_job_is_found_by_its_name(world, ctl):
    """pchctl searches the usual places, where other jobs may be, too."""
    name = f"job-{world.mark[:20]}"
    job = waiting(world, "--job", name)
    assert ctl("status", "--job", name, everywhere=True).stdout.startswith(f"job {name}: ")
    done = ctl("status", "--job", name + "x", everywhere=True)
    assert done.returncode == USAGE
    assert re.search(rf"no pchrun of job {name}x( of this user)? was found in .*/tmp", done.stderr)
    assert ctl("status", env={"PCHRUN_RUN_DIR": "/nowhere"}).returncode == DONE
    end(job)


def test_within_a_job_it_is_that_job(world, ctl):
    out = world.root / "told"
    world.launch("--job", "own", "--", "sh", "-c",
                 f"for i in $(seq 200); do '{PCHCTL}' status >'{out}' && break; sleep 0.02; done", code=0)
    assert out.read_text().startswith("job own: ")


def test_there_is_no_job(world, ctl):
    done = ctl("status")
    assert done.returncode == USAGE
    assert re.fullmatch(rf"pchctl: no pchrun( of this user)? was found in {world.tmp}; "
                        r"has it ended, is it a spare, or on another host\? then pchctl status CHECKPOINT-DIR\n", done.stderr)
    done = ctl("status", "--run-dir", world.root / "none")
    assert done.returncode == USAGE and done.stderr.endswith("; there is no such directory\n")


def test_two_nodes_of_one_job_are_one_choice(world, ctl):
    """Several nodes may share a host. Node 0 knows all ranks."""
    job = Nodes(world, 2)
    job.start_all("wait")
    wait_until(lambda: len(list(world.tmp.glob("pchrun.*/ctl"))) == 2, "both sockets")
    told = ctl.status()
    assert told["report"]["node_rank"] == 0 and len(told["nodes"]) == 2
    assert ctl.status("--node", 1)["report"]["node_rank"] == 1
    assert ctl("checkpoint", "--wait", 0).stdout == "asked for\n"
    assert ctl("stop").stdout.startswith("stopped, exit code 44: node 0: stopped by pchctl ")
    assert job.finish() == STOPPED


def test_the_lowest_node_that_is_here(world, ctl):
    """The other nodes of a job may be on other hosts, as node 0 here, which does not come."""
    job = Nodes(world, 3)
    for rank in (2, 1):
        job.start(rank, "wait")
    wait_until(lambda: len(list(world.tmp.glob("pchrun.*/ctl"))) == 2, "both sockets")
    assert ctl.status()["report"]["node_rank"] == 1
    for rank in (1, 2):
        assert ctl("stop", "--node", rank).returncode == DONE
    assert job.finish() == STOPPED


def test_two_jobs_of_one_name_are_told_apart(world, ctl):
    """A user who has not named the jobs sees which is which, and nothing happens to either."""
    jobs = [world.act(f"say {word} wait", options="--job run7", ready=word) for word in ("first", "second")]
    wait_until(lambda: len(list(world.tmp.glob("pchrun.*/ctl"))) == 2, "both sockets")
    for words in (["drain"], ["checkpoint"], ["stop"], ["stop", "--save"], ["--job", "run7", "stop"], ["events"]):
        done = ctl(*words)
        assert (done.returncode, done.stdout) == (USAGE, "")
        head, *rows, last = done.stderr.splitlines()
        assert head.split() == ["JOB", "NODE", "PID", "STATE", "STARTED", "RUN-DIR", "COMMAND"]
        assert last == "pchctl: which of these 2? choose one by --job, --node or --run-dir"
        cells = {row.split(None, 2)[2].split()[0]: row for row in rows}
        for job, word in zip(jobs, ("first", "second")):
            row = cells[str(job.pid)]
            assert re.fullmatch(rf"run7 +0/1 +{job.pid} +running +[\d.]+ m?s ago +{world.tmp}/pchrun\.\S+ +"
                                rf".*actor say {word} wait", row), row
    named = next(row.split()[7] for row in rows if row.split()[2] == str(jobs[1].pid))
    assert ctl("--run-dir", named, "status", everywhere=True).returncode == DONE
    for job in jobs:
        end(job)


def test_a_look_needs_no_choice(training, world, ctl):
    """A user with several jobs asks how they are, and gets a line for each. --json: the same answer as of one job."""
    runs = [training("--job", name, "--state-dir", world.root / name, n=2, train=step)
            for name, step in (("run8", 4), ("run7", 3))]
    runs[0].clients[0].train(5)
    done = ctl("status")
    assert (done.returncode, done.stderr) == (DONE, "")
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["JOB", "STATE", "ATTEMPT", "STEP", "STEPS/S", "COMMIT", "NOTICE", "RUN-DIR", "WAITS", "FOR"]
    assert [row.split()[:4] for row in rows] == [["run7", "training", "1", "3"], ["run8", "training", "1", "5"]]
    told = [json.loads(line) for line in ctl("status", "--json").stdout.splitlines()]
    assert [(one["report"]["job"], one["pid"], len(one["ranks"])) for one in told] == [
        ("run7", runs[1].job.pid, 2), ("run8", runs[0].job.pid, 2)]
    only = re.search(r" (\S+/pchrun\.\S+) ", rows[1])[1]
    assert ctl.status("--run-dir", only)["pid"] == runs[0].job.pid
    assert ctl.status("--job", "run7")["pid"] == runs[1].job.pid
    ctl("--job", "run7", "drain", "--in", "1h")
    wait_until(lambda: re.search(r"^run7 .* (59\.\d|60) min left ", ctl("status").stdout, re.M), "the notice in its line")
    runs[1].save("exit")
    assert runs[1].finish() == PREEMPTED
    runs[0].train(5)
    runs[0].complete()


def test_the_watch_of_several_jobs(training, world, ctl):
    """It goes on while one of them runs, and shows those that begin."""
    runs = [training("--job", name, "--state-dir", world.root / name, train=3) for name in ("run1", "run2")]
    watch = ctl.start("status", "--watch", "--interval", "50ms")
    wait_until(lambda: watch.out.count("\nrun2 ") >= 2, "two looks")
    runs[0].complete()
    seen = watch.out.count("\nrun2 ")
    wait_until(lambda: watch.out.count("\nrun2 ") >= seen + 2, "two looks at the other job")
    assert watch.out.splitlines()[-1].startswith("run2 ")
    runs[1].complete()
    assert watch.finish() == DONE
    assert watch.err == "pchctl: no pchrun is left\n"


def test_jobs_that_do_not_answer_hide_no_other(world, ctl):
    """Each is a line of its own, and they take no more time than one. Once one goes on, the watch shows it again."""
    jobs = [world.act(f"say up{i} wait", options=["--job", f"run{i}"], ready=f"up{i}") for i in range(4)]
    wait_until(lambda: ctl("status").stdout.count("\nrun") == 4, "all to answer")
    for job in jobs[:3]:
        os.kill(job.pid, signal.SIGSTOP)
    began = time.monotonic()
    done = ctl("status")
    assert 2 <= time.monotonic() - began < 3.5 + SLACK
    assert (done.returncode, done.stderr) == (DONE, "")
    rows = done.stdout.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["run3", "-", "-", "-"]
    assert all(re.fullmatch(r"-  .* silent  .* \S+/pchrun\.\S+ +pchrun does not answer; is it stopped\?", row) for row in rows[1:])
    told = [json.loads(line) for line in ctl("status", "--json").stdout.splitlines()]
    assert [(one["version"], one["ok"]) for one in told] == [(1, True), *3 * [(1, False)]]
    assert {one["error"] for one in told[1:]} == {"pchrun does not answer; is it stopped?"}
    assert {one["run_dir"] for one in told[1:]} < {str(path.parent) for path in world.tmp.glob("pchrun.*/ctl")}

    watch = ctl.start("status", "-w", "--interval", "50ms")
    wait_until(lambda: watch.out.count("silent") >= 6, "two looks")
    for job in jobs[:3]:
        os.kill(job.pid, signal.SIGCONT)
    wait_until(lambda: all(f"\nrun{i} " in watch.out for i in range(4)), "all jobs")
    for job in jobs:
        end(job)
    assert watch.finish() == DONE
    assert watch.err == "pchctl: no pchrun is left\n"


def test_the_watch_of_a_job_that_does_not_answer(world, ctl):
    """It may have been stopped for a moment. The watch says so, and goes on."""
    job = waiting(world)
    watch = ctl.start("status", "-w", "--interval", "50ms")
    wait_until(lambda: "job cwd: " in watch.out, "a look")
    os.kill(job.pid, signal.SIGSTOP)
    wait_until(lambda: "silent" in watch.out, "the line")
    assert re.search(r"^\S+/pchrun\.\S+: silent: pchrun does not answer; is it stopped\?$", watch.out, re.M)
    seen = len(watch.out)
    os.kill(job.pid, signal.SIGCONT)
    wait_until(lambda: "job cwd: " in watch.out[seen:], "the next look")
    end(job)
    assert watch.finish() == DONE


@pytest.mark.killed
@pytest.mark.parametrize("options, said", [
    (["--checkpoint-dir", "{root}"], r"pchrun was killed: {root}/\.pchrun/events\.0\.jsonl tells no end of the job"),
    ([], "pchrun is gone; without its journal it is unknown whether the job has ended or pchrun was killed")],
    ids=["journal", "none"])
def test_the_watch_of_a_job_that_is_killed(world, ctl, options, said):
    """An earlier attempt of it has ended."""
    options = [option.format(root=world.root) for option in options]
    world.act("exit 0", options=options, code=0)
    job = waiting(world, *options)
    child = job.child()
    watch = ctl.start("status", "-w", "--interval", "50ms")
    wait_until(lambda: "job cwd: " in watch.out, "a look")
    job.kill()
    assert watch.finish() == DONE
    assert re.fullmatch(f"pchctl: {said.format(root=re.escape(str(world.root)))}\n", watch.err), watch.err
    wait_until(lambda: not is_alive(child), "its command's end, which follows by itself")


@pytest.mark.parametrize("port_in", ["the list", "cluster.port"])
def test_a_job_of_one_name_and_another_port_is_another_job(world, ctl, port_in):
    """Nodes of two jobs that share a name."""
    jobs = [Nodes(world, 2), Nodes(world, 2)]
    for rank, job in enumerate(jobs):
        if port_in == "cluster.port":
            job.entries = job.entries.replace(f":{job.port}", "")
        job.start(rank, "wait", options=["--cluster-port", job.port])
    wait_until(lambda: len(list(world.tmp.glob("pchrun.*/ctl"))) == 2, "both sockets")
    done = ctl("stop")
    assert done.returncode == USAGE and "which of these 2?" in done.stderr
    for rank, job in enumerate(jobs):
        assert ctl("stop", "--node", rank).returncode == DONE
        assert job.finish() == STOPPED


def test_there_is_no_such_node(world, ctl):
    job = waiting(world)
    done = ctl("status", "--node", 3)
    assert done.returncode == USAGE and re.search("no pchrun, node 3,( of this user)? was found",
                                                  done.stderr)
    end(job)


@pytest.mark.killed
def test_a_killed_pchrun_is_no_job(world, ctl):
    job = waiting(world)
    child = job.child()
    job.kill()
    done = ctl("status")
    assert done.returncode == USAGE and "no pchrun" in done.stderr
    wait_until(lambda: not is_alive(child), "its command's end, which follows by itself")


@pytest.mark.parametrize("word", ["status", "stop"])
@pytest.mark.parametrize("is_there", [False, True], ids=["no directory", "a dead socket"])
def test_a_variable_of_a_job_that_is_over(ctl, world, word, is_there):
    """A shell may have it from a job that is over. Another job is not taken instead: it might be stopped."""
    folder = world.root / "pchrun.gone"
    if is_there:
        folder.mkdir()
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(folder / "ctl"))
    done = ctl(word, everywhere=True, env={"PCH_SOCKET": folder / "socket"})
    assert (done.returncode, done.stdout) == (FAILED, "")
    assert done.stderr == (f"pchctl: PCH_SOCKET is set, but no pchrun runs in {folder} any more; unset it, or choose a pchrun by "
                           "--job, --node or --run-dir\n")


def test_directories_that_were_left_hide_no_job(world, ctl):
    """More than pchctl asks at once."""
    for i in range(300):
        (world.tmp / f"pchrun.left{i}").mkdir(mode=0o700)
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(world.tmp / f"pchrun.left{i}/ctl"))
    job = world.act("say ready wait")
    wait_until(lambda: ctl("status").returncode == DONE, "the job to be found")
    end(job)
    for left in world.tmp.glob("pchrun.left*"):
        shutil.rmtree(left)


def test_a_stopped_pchrun_does_not_answer(world, ctl):
    job = waiting(world)
    os.kill(job.pid, signal.SIGSTOP)
    done = ctl("status")
    os.kill(job.pid, signal.SIGCONT)
    assert done.returncode == USAGE and "pchrun does not answer; is it stopped?" in done.stderr
    end(job)


def test_one_that_does_not_answer_may_be_meant(world, ctl):
    """A user who wants to stop the job that hangs must not stop another job that answers."""
    stuck = waiting(world, "--job", "stuck")
    os.kill(stuck.pid, signal.SIGSTOP)
    other = world.act("say up wait", options="--job other", ready="up")
    wait_until(lambda: ctl("status", "--job", "other").returncode == 0, "the other to answer")
    done = ctl("stop")
    look = ctl("status")
    os.kill(stuck.pid, signal.SIGCONT)
    assert done.returncode == USAGE and re.search(r"^other ", done.stdout + done.stderr, re.M)
    assert (look.returncode, look.stderr) == (DONE, "")
    assert [row.split()[:2] for row in look.stdout.splitlines()] == [["JOB", "STATE"], ["other", "not"], ["-", "silent"]]
    assert re.search(r"one pchrun answers, but .*pchrun does not answer; is it stopped\?; choose ", done.stderr)
    end(other)
    end(stuck)


@pytest.mark.parametrize("words, why", [
    ([], "which command?"), (["dance"], 'unknown command "dance"'), (["cancel"], "unknown command"),
    (["status", "here", "stop"], '"stop" is one argument too many; choose a job by --job NAME'), (["--loud", "stop"], "unknown flag --loud"),
    (["status", "--wait", "1s"], "status takes no --wait"), (["drain", "--in"], "--in needs a value: --in TIME"),
    (["drain", "--in", "soon"], "--in: "), (["status", "--watch=yes"], "--watch takes no value"),
    (["drain", "--cancel", "--in", "1s"], "without other options of drain"), (["drain", "--text", "x" * 96], "more than 95 bytes"),
    (["status", "--node", "x"], "--node: x is not a whole number"), (["status", "--job="], "--job: the value is empty"),
    (["status", "--interval", "0"], '--interval: "0" is out of range (1ms to 365d)'),
])
def test_a_command_line_that_is_none(ctl, words, why):
    done = ctl(*words)
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert done.stderr.startswith("pchctl: ") and why in done.stderr


def test_help_and_version(ctl):
    assert ctl("--version").stdout.startswith("pchctl ")
    text = ctl("-h").stdout
    assert "Examples:" in text and all(f"\n  {name} " in text
                                       for name in ("status", "checkpoint", "drain", "stop", "events", "goodput"))


def test_full_output(world):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([PCHCTL, "--help"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == FAILED


# --- bad clients ---------------------------------------------------------------------------------

def connect(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(DEADLINE)
    sock.connect(path)
    return sock


def test_a_client_that_does_not_read_disturbs_nobody(training, ctl, world):
    run = training("--log-level", "debug", train=0)
    with connect(socket_of(world.tmp)) as deaf:
        deaf.sendall(b'{"version":1,"do":"events","follow":true}\n')
        for step in range(1, 40):
            run.clients[0].train(step)
            assert ctl("checkpoint", "--wait", "0").returncode == DONE
            save = run.save("continue", step)
            if save >= 10:
                break
        run.done()
        assert run.result()[:2] == (0, "completed")


def test_nonsense_is_answered(world, ctl):
    job = waiting(world)
    path = socket_of(world.tmp)
    for nonsense in (b"hello\n", b"\0\xff\n", b"{}\n", b"x" * 5000, b'{"version":1,"do":"stop","now":1}\n'):
        with connect(path) as sock:
            sock.sendall(nonsense)
            answer = b""
            while not answer.endswith(b"\n"):
                piece = sock.recv(4096)
                assert piece, answer
                answer += piece
            told = json.loads(answer)
            assert told["ok"] is False and told["error"] and told["version"] == 1
    assert ctl("status").returncode == DONE
    end(job)


NOBODY = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/"}


@pytest.fixture
def beside_others(world, open_folder):
    """A job, and its private directory: other users come as far as this directory."""
    job = world.act("say ready wait", options=["--run-dir", open_folder])
    return job, Path(socket_of(open_folder)).parent


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_another_user_is_told_whose_pchrun_it_is(beside_others, ctl, open_folder):
    """The programs may have been built where no other user may enter, as in root's home directory."""
    job, folder = beside_others
    nobody = {**NOBODY, "executable": shutil.copy(PCHCTL, open_folder)}
    advice = (f"cannot enter {folder}: Permission denied; it belongs to the pchrun of user 0: run pchctl as that "
              "user, or as root\n")
    named = ctl("--run-dir", folder, "status", everywhere=True, **nobody)
    assert (named.returncode, named.stderr) == (USAGE, f"pchctl: no pchrun answers: {advice}")
    within = ctl("status", everywhere=True, env={"PCH_SOCKET": folder / "socket"}, **nobody)
    assert (within.returncode, within.stderr) == (FAILED, f"pchctl: {advice}")
    assert ctl("--run-dir", folder, "status", everywhere=True).returncode == DONE
    end(job)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_another_user_is_kept_out(beside_others):
    job, folder = beside_others
    os.chmod(folder, 0o755)  # by mistake
    os.chmod(folder / "ctl", 0o777)
    probe = ("import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
             f"s.settimeout({DEADLINE}); sys.exit(s.recv(1) != b'')")
    done = subprocess.run(["/usr/bin/python3", "-c", probe, str(folder / "ctl")], check=False,
                          capture_output=True, **NOBODY)
    assert done.returncode == 0, done.stderr
    end(job)
