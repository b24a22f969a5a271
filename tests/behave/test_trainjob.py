# SPDX-License-Identifier: Apache-2.0
"""metrics.trainjob: node 0 posts its progress to the TrainJob of Kubeflow Trainer. The server is a fake (metadata.py),
written after the source of its controller. Nothing may wait for it, whatever it does."""

import os
import re
import subprocess
from datetime import datetime

import pytest

import metadata
from harness import PREEMPTED, children_of, status_of, wait_until
from nodes import nodes  # noqa: F401
from test_goodput import preempted
from test_watch import checked, serving, watch  # noqa: F401

WANTED = "--metrics-trainjob"


@pytest.fixture
def server(world, serving):  # noqa: F811
    return serving(metadata.TrainJob(world.root / "account"))


def posters(pid):
    return [child for child in children_of(pid) if status_of(child).get("Name") == "pchrun-watch"]


# --- pchrun ---

def test_the_progress_is_posted(training, server):
    """In the second attempt: the step of now, and the commit. The token is read anew for each post."""
    preempted(training)
    run = training(WANTED, "--metrics-interval", "5s", env=server.env)
    run.open(resume=6)
    run.train(9)
    wait_until(lambda: server.metrics() and server.metrics()["step"] == "9", "the step of the second attempt")
    assert server.metrics() == {"step": "9", "committed_step": "6", "attempt": "2", "restarts": "0"}
    assert set(server.posted[-1]) == {"metrics", "lastUpdatedTime"}
    assert datetime.fromisoformat(server.posted[-1]["lastUpdatedTime"].replace("Z", "+00:00")).tzinfo
    assert server.requests[-1].headers["content-type"] == "application/json"
    (server.account / "token").write_text("renewed-by-the-kubelet\n")
    run.train(10)
    wait_until(lambda: server.metrics()["step"] == "10", "a post with the new token")
    run.complete(6)
    assert not re.search("cannot be posted", run.job.err)


def test_only_node_0_posts(nodes, server):  # noqa: F811
    job = nodes(2, WANTED)
    job.launch_all("sleep", "1000", env=server.env)
    [poster] = wait_until(lambda: posters(job.jobs[0].pid), "the program of node 0")
    assert not posters(job.jobs[1].pid)
    os.kill(poster, 9)
    job.say(0, r"trainjob: it was killed by SIGKILL; it is started again")
    wait_until(lambda: posters(job.jobs[0].pid), "its next start")
    job.jobs[0].send(15)
    assert job.finish() == PREEMPTED
    assert not posters(job.jobs[1].pid)


@pytest.mark.parametrize("env, said", [
    ({}, "trainjob: KUBEFLOW_TRAINER_SERVER_URL is not set, so nothing is posted (metrics.trainjob)"),
    ({"KUBEFLOW_TRAINER_SERVER_URL": "https://127.0.0.1:1/x"}, "KUBEFLOW_TRAINER_SERVER_CA_CERT is not set")])
def test_without_a_variable_the_job_runs(training, env, said):
    run = training(WANTED, train=3, env=env)
    run.said(re.escape(said))
    run.complete()
    assert len(re.findall("trainjob: ", run.job.err)) == 1


def test_without_the_option_nothing_is_posted(training, server):
    """The program may post by itself; a post of pchrun would replace what it has posted."""
    run = training(train=3, env=server.env)
    assert not posters(run.job.pid)
    run.complete()
    assert not server.requests


@pytest.mark.parametrize("fault", [metadata.silent, metadata.slow, metadata.endless, metadata.http_500],
                         ids=lambda fault: fault.__name__)
def test_a_save_and_an_end_wait_for_no_server(training, server, fault):
    server.lies = {server.PATH: "{}"}
    server.spoil(fault, 1000)
    run = training(WANTED, train=3, env=server.env)
    wait_until(lambda: server.requests, "a post")
    run.preempt()
    assert run.finish() == PREEMPTED
    assert len(re.findall("cannot be posted", run.job.err)) <= 1


# --- pchrun-watch trainjob ---

@pytest.fixture
def post(watch):  # noqa: F811
    """A function that starts it, and gives a function that writes lines to its standard input."""
    made = []

    def start(**more):
        one = watch("trainjob", stdin=subprocess.PIPE, **more)
        made.append(one)
        pipe = one.job.process.stdin
        return one, lambda *lines: (pipe.write("".join(f"{line}\n" for line in lines).encode()), pipe.flush())
    yield start
    for one in made:
        one.job.process.stdin.close()
        assert one.job.finish() == 0 and not one.job.out


def update(step):
    return f'{{"trainerStatus": {{"metrics": [{{"name": "step", "value": "{step}"}}]}}}}'


def test_the_newest_line_is_posted(post, server):
    """While a request runs, older lines are dropped. A line that is too long is none."""
    server.lies = {server.PATH: "{}"}
    server.spoil(metadata.slow)
    one, give = post(env=server.env)
    give(update(1))
    wait_until(lambda: server.requests, "the first post")
    give(*(update(step) for step in range(2, 300)), "", "x" * 100_000)
    one.said("the progress cannot be posted to the TrainJob: ")
    wait_until(lambda: server.metrics() == {"step": "299"}, "the newest")
    assert len(server.posted) == 1


def test_only_the_first_failure_is_told(post, server):
    one, give = post(env=server.env)
    (server.account / "token").unlink()
    for step in range(3):
        give(update(step))
    one.said("cannot read the token ")
    (server.account / "token").write_text("")
    give(update(3))
    (server.account / "token").write_text("secret")
    server.spoil(metadata.http_500, 3)
    for step in range(4, 7):
        before = len(server.requests)
        give(update(step))
        server.wait(lambda: len(server.requests) > before, "a post")
    give(update(7))
    wait_until(lambda: server.metrics() == {"step": "7"}, "a post after the failures")
    give("no JSON")
    server.wait(lambda: server.requests[-1].status == 422, "a refusal")
    assert one.job.err.count("\n") == 1, one.job.err


def test_the_token_goes_to_no_other_server(world, post, serving, server):  # noqa: F811
    other = serving(metadata.TrainJob(world.root / "other"))
    one, give = post(env={**server.env, "KUBEFLOW_TRAINER_SERVER_URL": other.env["KUBEFLOW_TRAINER_SERVER_URL"]})
    give(update(1))
    one.said("the progress cannot be posted to the TrainJob: ")
    plain, write = post(env={**server.env, "KUBEFLOW_TRAINER_SERVER_URL": f"http://127.0.0.1:{server.port}/x"})
    write(update(1))
    plain.said("but it must begin with https://")
    assert not other.requests and not server.requests


def test_a_redirect_is_not_followed(post, server):
    server.lies = {server.PATH: "{}"}
    server.spoil(metadata.redirect)
    one, give = post(env=server.env)
    give(update(1))
    one.said("HTTP 302")
    assert not server.trap.requests


def test_check(watch, server):  # noqa: F811
    assert checked(watch, "trainjob", env=server.env) == (0, "ok: it answers")
    assert not server.posted and server.requests[-1].body == b"{}"
    (server.account / "token").write_text("another")
    code, line = checked(watch, "trainjob", env={**server.env, "KUBEFLOW_TRAINER_SERVER_TOKEN": "/etc/hostname"})
    assert (code, line) == (1, "bad: it does not answer: HTTP 403")
    code, line = checked(watch, "trainjob")
    assert code == 1 and line.startswith("bad: KUBEFLOW_TRAINER_SERVER_URL is not set: this is no pod of a TrainJob")
