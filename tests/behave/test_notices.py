# SPDX-License-Identifier: Apache-2.0
"""Notice sources: their notices reach the training, and their faults do it no harm.

A source is a shell script that the test writes and leads by a FIFO. The training attaches, trains and ends as
without a source. No source may outlive pchrun: the fixture `world` asserts it, because sources carry its mark.
"""

import datetime
import json
import os
import re
import shutil
import signal
import time

import pytest

from harness import PREEMPTED, commands_of, is_alive, marked, read_proc, seconds_of, stat_fields, wait_until
from nodes import Nodes, committed, saved_steps, start_training

NOTICE = '{"type":"terminate","id":"e-1","deadline_seconds":15,"text":"host maintenance"}'
STAY = "while :; do sleep 1000; done"


class Source:
    """A script. `gate` in it waits for go(); `flag NAME` says that the script has come there."""

    def __init__(self, world, text, kind="command", name="watcher", **more):
        self.world = world
        self.name = name
        self.fifo = world.root / f"{name}.fifo"
        os.mkfifo(self.fifo)
        self.fd = os.open(self.fifo, os.O_RDWR)
        self.path = world.file(name, f"""#!/bin/sh
ROOT='{world.root}'
exec 9<>"$ROOT/{name}.fifo"
gate() {{ read -r _ <&9; }}
flag() {{ echo $$ >>"$ROOT/{name}.$1"; }}
{text}
""", 0o755)
        # One save, then the end: test_grace.py tests other uses of the time.
        config = {"notices": [{kind: [str(self.path)], **more}], "save": {"train_on": False}}
        self.options = ["-c", world.file(f"{name}.json", json.dumps(config))]

    def go(self, times=1):
        os.write(self.fd, b"\n" * times)

    def flagged(self, name, count=1):
        """The pids of the runs that have reached this flag, as soon as there are `count`."""
        path = self.world.root / f"{self.name}.{name}"
        return wait_until(lambda: path.exists() and len(path.read_text().split()) >= count
                          and [int(pid) for pid in path.read_text().split()],
                          f"{count} x flag {name}")

    def close(self):
        os.close(self.fd)


@pytest.fixture
def source(world):
    """A function that writes a source."""
    written = []

    def write(text, *args, **more):
        written.append(Source(world, text, *args, **more))
        return written[-1]
    yield write
    for one in written:
        one.close()


def train_to_the_end(job):
    """Trains as without a source: every step at once, no save, success. Returns the report's entry of the source."""
    job.train(30)
    job.complete()
    return job.report()["sources"][0]


def save_and_leave(job):
    job.leave()
    return job.report()


def expect_withdrawn(job):
    job.said("notice: withdrawn: this node has no notice any more")
    wait_until(lambda: job.report()["notice"] is None, "no notice in the report")


def half(training, *options, train=1):
    """A job of two ranks, of which only the first has attached, so that no save can be agreed on. Also returns the
    second rank."""
    job = training(*options, n=2)
    first, second = job.clients
    first.open()
    first.train(train)
    return job, second


def shown(job, **wanted):
    """Waits until the report shows the source so."""
    def found():
        one = job.report()["sources"][0]
        return all(one[key] == value for key, value in wanted.items()) and one
    return wait_until(found, f"a source with {wanted}")


# --- what it says ---------------------------------------------------------------------------------

def test_a_line_is_a_notice(training, source):
    """The whole way of a notice: the line, one save on all ranks, exit 42."""
    watcher = source(f"gate; echo '{NOTICE}'; {STAY}")
    job = training(*watcher.options, n=2, train=3)
    watcher.go()
    report = save_and_leave(job)
    assert report["notice"]["source"] == "watcher"
    assert report["notice"]["text"] == "host maintenance"
    job.said(r"notice: watcher host maintenance, 1[0-5](\.\d+)? s left$")
    (one,) = report["sources"]
    assert (one["name"], one["state"], one["restarts"]) == ("watcher", "off", 0)
    assert one["last_line"] and one["last_error"] is None


def test_the_processes_are_told_who_says_so(training, source):
    """pch_notice names the source, and is silent again when the notice is taken back."""
    watcher = source(f"""gate; echo '{NOTICE.replace('"deadline_seconds":15', '"deadline_seconds":900')}'
gate; echo '{{"type":"cancel","id":"e-1"}}'; {STAY}""", name="moira")
    job = training(*watcher.options, n=2)
    first, second = job.clients
    first.open()
    first.ask("notice", "notice 0 ")
    first.train(1)
    watcher.go()
    wait_until(lambda: "moira" in first.ask("notice", r"notice \d+ (.*)")[1], "the notice")
    assert "host maintenance" in first.ask("notice", r"notice \d+ (.*)")[1]
    watcher.go()
    wait_until(lambda: first.ask("notice", r"notice \d+ (.*)")[0] == "notice 0 ", "no notice")
    second.open()
    assert train_to_the_end(job)["state"] == "off"


@pytest.mark.parametrize("text", [
    f"printf '%s' '{NOTICE}'",                        # no newline, and the source ends
    f"echo 'hello'; echo '{{}}'; echo; echo '{NOTICE}'; {STAY}",
    f"printf '\\377\\000\\n%s\\n' '{NOTICE}'; {STAY}",
    "echo '{\"type\":\"terminate\",\"deadline_seconds\":\"soon\"}';" + STAY,
], ids=["unfinished", "among-others", "behind-bytes", "careless"])
def test_a_notice_is_found_in(training, source, text):
    watcher = source(f"gate; {text}")
    job = training(*watcher.options, train=3)
    watcher.go()
    assert save_and_leave(job)["notice"]["source"] == "watcher"


def test_a_notice_that_is_taken_back(training, source):
    """The notice is withdrawn before any agreement: the job trains on as without a notice."""
    watcher = source(f"gate; echo '{NOTICE}'; gate; echo '{{\"type\":\"cancel\"}}'; flag done; {STAY}")
    job, second = half(training, *watcher.options, train=2)
    watcher.go()
    job.said("notice: watcher host maintenance")
    watcher.go()
    watcher.flagged("done")
    expect_withdrawn(job)
    second.open()
    assert train_to_the_end(job)["restarts"] == 0


@pytest.mark.parametrize("ident", ["e-1", ""], ids=["id", "no-id"])
def test_a_notice_that_becomes_a_log_entry_behind_others(training, source, ident):
    """Such an entry withdraws the notice, so it is none of the entries that pchrun drops because there are many."""
    watcher = source(f"""gate; echo '{NOTICE.replace("e-1", ident)}'; gate
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "{{\\"type\\":\\"log\\",\\"id\\":\\"l-$i\\"}}"; done
echo '{{"type":"log","id":"{ident}"}}'; {STAY}""")
    job, second = half(training, *watcher.options, train=2)
    watcher.go()
    job.said("notice: watcher host maintenance")
    watcher.go()
    expect_withdrawn(job)
    second.open()
    train_to_the_end(job)


def test_words_are_shown_with_its_name(training, source):
    """Standard error is for people: shown, cut, and not too much of it."""
    watcher = source("""echo 'one word' >&2; printf '\\033[31m\\n' >&2
i=0; while [ $i -lt 300 ]; do echo "word $i" >&2; i=$((i + 1)); done; flag done; """ + STAY)
    job = training(*watcher.options, train=0)
    job.said(r"source: watcher says: one word$")
    job.said(r"source: watcher says: \?\[31m$")
    watcher.flagged("done")
    train_to_the_end(job)
    assert job.job.err.count("watcher says:") <= 30


# --- what it does ---------------------------------------------------------------------------------

HARMLESS = {
    "hangs": "trap '' TERM HUP INT; flag there; " + STAY,
    "stops itself": "flag there; kill -STOP $$; " + STAY,
    "floods": "flag there; exec yes '{\"type\":\"log\",\"text\":\"again\"}'",
    "prints garbage": "flag there; exec cat /dev/urandom",
    "prints zeros": "flag there; exec cat /dev/zero",
    "floods with words": "flag there; exec yes >&2",
    "no end of line": "flag there; yes | tr -d '\\n'",
    "a huge line": "flag there; head -c 3000000 /dev/zero | tr '\\0' x; echo; " + STAY,
    "a huge id": """flag there; printf '{"type":"checkpoint","id":"'
head -c 1048576 /dev/zero | tr '\\0' x; echo '"}'; """ + STAY,
    "closes its streams": "flag there; exec >&- 2>&-; " + STAY,
    "ends": "flag there; exit 0",
    "fails": "flag there; exit 3",
    "dies": "flag there; kill -SEGV $$",
    "leaves children": f"flag there; ({STAY}) & exit 0",
    "leaves a session": "flag there; setsid sleep 1000 & exit 0",
}


@pytest.mark.parametrize("text", HARMLESS.values(), ids=HARMLESS)
def test_it_does_no_harm(training, source, text):
    """The training neither waits nor saves, and the job ends at once when the training does."""
    watcher = source(text)
    job = training(*watcher.options, train=0)
    watcher.flagged("there")
    train_to_the_end(job)


@pytest.mark.timing
def test_a_flood_costs_little(training, source, world):
    """pchrun slows the source down and logs that once; it still finds a notice in the flood."""
    if world.has_sanitizer():
        pytest.skip("costs are measured without sanitizers")
    watcher = source(f"""yes '{{"type":"log","text":"again"}}' | head -n 30
echo '{NOTICE}'; exec yes '{{"type":"log"}}'""")
    job = training(*watcher.options, train=3)
    report = save_and_leave(job)
    assert job.job.err.count("pchrun reads it no faster") == 1
    assert report["sources"][0]["last_line"]
    assert job.job.err.count("\n") < 60


def test_a_flood_of_advice_is_not_said_for_ever(world, source):
    """Each with an id of its own; after some of them the log drops the rest."""
    watcher = source("""i=0; while [ $i -lt 60 ]; do
echo "{\\"type\\":\\"checkpoint\\",\\"id\\":$i}"; i=$((i + 1)); sleep 0.02; done
echo '{"type":"terminate","id":"e-1","deadline_seconds":900}'; """ + STAY)
    job = world.act("say started hold end", options=watcher.options)
    wait_until(lambda: "notice: watcher, 15 min left" in job.err, "the notice behind it")
    world.go_on("end")
    job.finish()
    assert job.err.count("notice: watcher checkpoint: save and go on") == 1
    assert job.err.count("has just saved for such a notice") == 10


def cpu_of(pid):
    fields = stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.timing
@pytest.mark.parametrize("text", ["exec cat /dev/zero", "exec yes", "exec cat /dev/zero >&2"],
                         ids=["zeros", "lines", "words"])
def test_an_endless_flood_leaves_the_processor_to_others(training, source, world, text):
    """For two seconds of it pchrun works for less than a tenth of the time."""
    if world.has_sanitizer():
        pytest.skip("costs are measured without sanitizers")
    watcher = source(f"flag there; {text}")
    job = training(*watcher.options, train=0)
    watcher.flagged("there")
    began, before = time.monotonic(), cpu_of(job.job.pid)
    wait_until(lambda: time.monotonic() - began > 2, "two seconds")
    assert cpu_of(job.job.pid) - before < 0.1 * (time.monotonic() - began)
    peak = int(re.search(rb"VmHWM:\s+(\d+)", read_proc(job.job.pid, "status"))[1])
    assert peak < 32 * 1024, "what it prints is not kept"
    train_to_the_end(job)


def test_one_that_crashes_is_started_again_later_each_time(training, source):
    watcher = source("flag there; exit 3")
    job = training(*watcher.options, train=0)
    job.said(r"source: watcher: it ended with exit code 3; it is started again in 1s$")
    shown(job, state="restarting", restarts=1, last_error="it ended with exit code 3")
    job.said(r"source: watcher: it ended with exit code 3; it is started again in 2s$")
    assert len(watcher.flagged("there")) == 2
    assert train_to_the_end(job)["restarts"] == 2


def test_its_notice_stands_while_it_is_down(training, source):
    """To end is not to take back."""
    watcher = source(f"gate; echo '{NOTICE}'; exit 1")
    job, second = half(training, *watcher.options, train=2)
    watcher.go()
    job.said("notice: watcher host maintenance")
    shown(job, state="restarting")
    assert job.report()["notice"]["source"] == "watcher"
    second.open()
    save_and_leave(job)


def test_it_is_apart_from_the_job(training, source, world):
    """A source has a group of its own, nothing of ours or the job's, and no blocked signal. It runs in our
    directory."""
    watcher = source("""grep SigBlk /proc/self/status >"$ROOT/mask"; pwd >"$ROOT/pwd"
flag there; """ + STAY)
    job = training(*watcher.options, wrap=["sh", "-c", 'exec "$@" 5</dev/null', "sh", "env",
                                           "--block-signal=TERM", "--block-signal=USR1"], train=0)
    (pid,) = watcher.flagged("there")
    assert int(stat_fields(pid)[2]) == pid, "it leads its group"
    assert (world.root / "mask").read_text().split() == ["SigBlk:", 16 * "0"]
    script = {"9", "10"}  # the script's FIFO, and the script itself
    assert set(os.listdir(f"/proc/{pid}/fd")) - script == {"0", "1", "2"}
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    assert (world.root / "pwd").read_text().strip() == str(world.cwd)
    train_to_the_end(job)


def test_what_it_has_hidden_ends_too(training, source):
    """The process has a session and an environment of its own, so no mark shows it; it ends all the same."""
    watcher = source(f"""setsid env -i ROOT="$ROOT" sh -c 'echo $$ >>"$ROOT/watcher.hidden"
exec sleep 1000' & {STAY}""")
    job = training(*watcher.options, train=0)
    (hidden,) = watcher.flagged("hidden")
    train_to_the_end(job)
    wait_until(lambda: not is_alive(hidden), "what the source has hidden to end")


@pytest.mark.killed
def test_it_dies_with_us(training, source, world):
    watcher = source("trap '' TERM HUP; flag there; " + STAY)
    job = training(*watcher.options, train=0)
    (pid,) = watcher.flagged("there")
    job.job.kill()
    wait_until(lambda: not is_alive(pid), "the source's end")
    for client in job.clients:
        client.end_input()
    for left in marked(world.mark):  # the source's own child, whose end the source did not see
        os.kill(left, signal.SIGKILL)
    wait_until(lambda: not marked(world.mark), "the end of all")


def test_without_sources_there_is_nothing(training):
    job = training(train=0)
    assert len(commands_of(job.job.pid)) == 1
    job.train(5)
    job.complete()
    assert job.report()["sources"] == []


# --- polls ----------------------------------------------------------------------------------------

# The exit code of each run is what the test has written last.
POLL = 'flag ran; read -r code <"$ROOT/code"; exit "$code"'


def answer(world, code):
    path = world.file("code.new", f"{code}\n")
    path.rename(world.root / "code")


def poll(source, text=POLL, **more):
    return source(text, "poll", interval="100ms", **more)


def test_a_poll_that_says_no(training, source, world):
    answer(world, 1)
    watcher = poll(source)
    job = training(*watcher.options, train=0)
    watcher.flagged("ran", 3)
    assert job.report()["sources"][0]["state"] == "running"
    assert train_to_the_end(job) == {"name": "watcher", "state": "off", "restarts": 0,
                                     "last_line": None, "last_error": None}


def test_a_poll_that_says_yes(training, source, world):
    answer(world, 1)
    watcher = poll(source)
    job = training(*watcher.options, n=2, train=3)
    answer(world, 0)
    report = save_and_leave(job)
    assert (report["notice"]["source"], report["notice"]["text"]) == ("watcher", "")
    job.said(r"notice: watcher, 25 s left$")


def test_a_poll_may_say_more(training, source, world):
    answer(world, 1)
    watcher = poll(source, """echo '{"id":"7","deadline_seconds":20,"text":"told"}'; """ + POLL)
    job = training(*watcher.options, train=3)
    watcher.flagged("ran", 2)
    assert job.report()["notice"] is None, "what is printed counts only with the exit code"
    answer(world, 0)
    report = save_and_leave(job)
    assert report["notice"]["text"] == "told"
    job.said(r"notice: watcher told, (20|1\d(\.\d+)?) s left$")


def test_a_poll_that_takes_it_back(training, source, world):
    """The poll answers 0, then 1; unknown answers between them change nothing."""
    answer(world, 1)
    watcher = poll(source)
    job, second = half(training, *watcher.options)
    answer(world, 0)
    job.said("notice: watcher")
    answer(world, 2)
    job.said(r"source: watcher gave no answer: it ended with exit code 2$")
    shown(job, state="failing", last_error="it ended with exit code 2")
    assert job.report()["notice"]["source"] == "watcher"
    answer(world, 1)
    expect_withdrawn(job)
    second.open()
    assert train_to_the_end(job)["last_error"] == "it ended with exit code 2"


def deadline(job):
    notice = job.report()["notice"]
    return notice and datetime.datetime.fromisoformat(notice["deadline"]).timestamp()


@pytest.mark.timing
def test_a_poll_that_says_it_again_does_not_put_it_off(training, source, world):
    """Each poll counts its seconds anew; the deadline stays the same."""
    answer(world, 1)
    watcher = poll(source, """echo '{"id":"7","deadline_seconds":900}'; """ + POLL)
    job, second = half(training, *watcher.options)
    answer(world, 0)
    first_told = wait_until(lambda: deadline(job), "the notice")
    runs = len(watcher.flagged("ran"))
    watcher.flagged("ran", runs + 4)
    assert job.job.err.count("notice: watcher") == 1
    assert abs(deadline(job) - first_told) < 0.2, "four intervals have passed"
    answer(world, 1)
    expect_withdrawn(job)
    second.open()
    train_to_the_end(job)


UNKNOWN = {
    "another code": ("exit 2", "it ended with exit code 2"),
    "a signal": ("kill -KILL $$", "it was killed by SIGKILL"),
    "too late": ("sleep 1000", "it took too long and was killed"),
    "a contradiction": ("echo '{\"type\":\"cancel\"}'; exit 0",
                        "it prints a cancel, but its exit code 0 means a notice"),
}


@pytest.mark.parametrize("text, why", UNKNOWN.values(), ids=UNKNOWN)
def test_a_poll_that_says_nothing(training, source, text, why):
    """Any other answer is unknown, and never a notice."""
    watcher = poll(source, f"flag ran; {text}", timeout="200ms")
    job = training(*watcher.options, train=0)
    job.said(rf"source: watcher gave no answer: {re.escape(why)}$")
    watcher.flagged("ran", 2)
    assert train_to_the_end(job)["last_error"] == why


# --- at the start ---------------------------------------------------------------------------------

@pytest.mark.parametrize("mode, why", [
    (None, "No such file or directory"),
    (0o644, "Permission denied; is it a file with permission to execute (chmod +x)?"),
], ids=["missing", "no permission"])
def test_one_that_cannot_be_run_is_an_error_at_the_start(world, mode, why):
    """The error has the program's path; a path is relative to the configuration file."""
    if mode:
        world.file("watch", "", mode)
    config = world.file("c.json", '{"notices": [{"poll": ["./watch"], "name": "mine"}]}')
    world.refused("not_started, exit code 125: the notice source mine: cannot execute "
                  f"'{world.root}/watch': {why} (file {config} has \"./watch\", which is relative to it)\n",
                  options=["-c", config])


@pytest.mark.parametrize("place", ["beside", "behind a link", "path"])
def test_ours_are_run_by_pchrun_watch(training, world, place):
    """pchrun-watch is looked for beside pchrun, then in PATH; the source's word and its path follow. An installer
    (uv, with --link-mode=symlink) may leave a wheel's programs in its cache and link to them."""
    for name in ("beside", "link", "path"):
        (world.root / name).mkdir()
    world.pchrun = shutil.copy(world.pchrun, world.root / "beside" / "pchrun")
    if place == "behind a link":
        place = "beside"
        (world.root / "link/pchrun").symlink_to(world.pchrun)
        world.pchrun = world.root / "link/pchrun"
    args = world.root / "args"
    world.file(f"{place}/pchrun-watch", f"#!/bin/sh\necho \"$@\" >>'{args}'\n{STAY}\n", 0o755)
    job = training("--notices", "gce,slurm,file:leave",
                   env={"PATH": f"{world.root}/path:/usr/bin:/bin"}, train=0)
    said = wait_until(lambda: args.exists() and len(args.read_text().splitlines()) == 3
                      and args.read_text().splitlines(), "three sources")
    assert set(said) == {"gce", "slurm", f"file {world.cwd}/leave"}
    train_to_the_end(job)


def test_a_file_that_appears_and_vanishes(training, world):
    """The built pchrun-watch reports the file, and later that the file has gone."""
    job, second = half(training, "--notices", "file:leave")
    (world.cwd / "leave").write_text("the operator says so\n")
    job.said("notice: file the operator says so, 25 s left$")
    (world.cwd / "leave").unlink()
    expect_withdrawn(job)
    second.open()
    assert train_to_the_end(job)["last_error"] is None


def test_without_pchrun_watch_ours_are_an_error(world):
    (world.root / "bin").mkdir()
    world.pchrun = shutil.copy(world.pchrun, world.root / "bin" / "pchrun")
    world.refused("the notice source gce: cannot execute 'pchrun-watch'", options="--notices gce",
                  env={"PATH": "/nowhere"})


# --- a notice that stands at the start --------------------------------------------------------------

def standing(seconds):
    """A notice that its source gives from the first moment on."""
    notice = {"type": "terminate", "id": "e-1", "deadline_seconds": seconds, "text": "upcoming"}
    return f"echo '{json.dumps(notice)}'; {STAY}"


def seconds_between(job, first, last):
    """Between the last line with `first` and the last one with `last`."""
    said = [line for line in job.job.err.splitlines() if line.startswith("pchrun")]
    began, ended = ([line for line in said if text in line][-1] for text in (first, last))
    return (seconds_of(ended) - seconds_of(began)) % 86400


def first_save(job):
    """The step of the first save that the notice leads to."""
    job.said("notice: watcher upcoming")
    job.open()
    job.train(3)
    step = job.save("continue")
    return step


@pytest.mark.timing
def test_a_notice_that_stands_at_the_start_is_trained_up_to(training, source):
    """As clouds announce it hours ahead: a far notice. The last save is before the deadline. The ranks make no
    step after the first save's, so the last one begins about half-way, and not at once."""
    watcher = source(standing(16))
    job = training(*watcher.options, "--grace", "2s", n=2)
    first = first_save(job)
    job.train(first + 3)
    job.leave(2)
    assert 4 < seconds_between(job, "notice: watcher upcoming", "every rank saves step") < 16, job.job.err


def saved_once(training, source, *options):
    """A rank that has made the first save for a notice whose deadline is far away."""
    watcher = source(standing(900))
    job = training(*watcher.options, "--grace", "2s", "-v", *options, n=1)
    return job, first_save(job)


def test_a_failure_long_before_the_deadline_is_no_preemption(training, source):
    job, step = saved_once(training, source)
    job.kill(0)
    assert job.result() == (128 + signal.SIGKILL, "failed", step)


def test_a_job_restarts_in_place_long_before_the_deadline(training, source):
    """The next generation trains under the same notice."""
    job, step = saved_once(training, source, "--restart-max", "1", "--restart-backoff", "20ms")
    job.kill(0)
    job.said("generation 1 begins")
    client = job.clients[0]
    assert client.ask("open", r"open supervised=1 same=1 resume=(\d+) path=.*")[1] == str(step)
    assert job.report()["notice"]["text"] == "upcoming"
    client.step = step
    client.train(step + 1)
    step = job.save("continue", rounds=2)
    job.complete(step)


@pytest.mark.timing
def test_a_notice_that_stands_longer_than_no_step_is_finished(training, source):
    """A start-up that takes all the time: nothing to save, and out before the deadline, but not at once."""
    watcher = source(standing(12))
    job = training(*watcher.options, "--grace", "4s", n=2, train=0)
    job.job.finish()
    assert 4 < seconds_between(job, "notice: watcher upcoming", " end: ") < 12, job.job.err
    assert job.result() == (PREEMPTED, "preempted", None)
    assert "nothing to save: no step was finished in this attempt" in job.job.err_lines[-1]


@pytest.mark.timing
def test_nodes_with_a_notice_that_stands_at_the_start(world, source):
    """Slurm's ten minutes are live from the first second of a short job of several nodes."""
    watcher = source(standing(15))
    job = Nodes(world, 2)
    first = start_training(world, job, *watcher.options, "--grace", "2s", "--save-train-on", step_ms=20)
    assert job.finish() == PREEMPTED
    assert job.agreed("outcome")["outcome"] == "preempted"
    saved = saved_steps(job)
    last = max(saved)
    assert saved[last] == 4 and last > first + 200, saved


def test_nodes_that_end_one_after_the_other_under_a_far_notice(world, source):
    """A cloud tells of an end hours ahead, and the training is over before. The nodes do not end at one moment:
    no save is wanted then, so none is lost, and the log says nothing of one."""
    watcher = source(standing(3 * 3600))
    script = world.file("script", "open\ntrain 0 100 5 at://ckpt 0\n")
    job = Nodes(world, 2, ["-n", "1", "-v", "--checkpoint-dir", world.root, *watcher.options, "--save-train-on"])
    ends = {}
    for rank in range(2):
        fifo = world.root / f"end.{rank}"
        os.mkfifo(fifo)
        ends[rank] = os.open(fifo, os.O_RDWR)
        job.jobs[rank] = job.launch(rank, "sh", "-c", f"cat {script} {fifo} | {world.helpers}/pchclient")
    committed(job, 1)
    for rank in range(2):
        wait_until(lambda node=job.jobs[rank]: re.search(r"train .*100", node.out), "the last step")
        os.write(ends[rank], b"done\n")
        wait_until(lambda node=job.jobs[rank]: "done" in node.out, "pch_done")
    for rank in range(2):
        pid = int(re.search(rf"rank {rank} of 2 is process (\d+)", job.jobs[rank].err)[1])
        os.close(ends[rank])
        wait_until(lambda pid=pid: not is_alive(pid), "the end of its rank")
    assert job.finish() == 0
    assert job.agreed("outcome")["outcome"] == "completed"
    assert "no save can be agreed on" not in job.jobs[0].err


# --- what is remembered ---------------------------------------------------------------------------

def preempted_by(training, watcher, resume=0):
    job = training(*watcher.options)
    (client,) = job.clients
    client.open(resume=resume)
    client.train(resume + 2)
    watcher.go()
    step = job.leave()
    return job, step


def memory(job):
    return json.loads((job.dir / ".pchrun" / "notices.0.json").read_text())["notices"]


def test_a_notice_that_stays_ends_two_attempts(training, source):
    """The third attempt trains on, says why, and saves once before the deadline."""
    watcher = source(f"gate; echo '{NOTICE}'; echo '{NOTICE}'; flag said; {STAY}")
    job, step = preempted_by(training, watcher)
    assert [(one["source"], one["id"], one["attempts"]) for one in memory(job)] == [
        ("watcher", "e-1", 1)]
    job, step = preempted_by(training, watcher, step)
    assert memory(job)[0]["attempts"] == 2
    job = training(*watcher.options)
    job.clients[0].open(resume=step)
    job.clients[0].train(step + 1)
    watcher.go()
    said = job.said(r'source: watcher: the notice "e-1" has ended 2 attempts of this job, but this '
                    r'node still runs. So the job saves before the deadline and goes on. To let the '
                    r'notice end the job again, raise notices_repeat or remove (\S+)$')
    assert said[1] == str(job.dir / ".pchrun" / "notices.0.json")
    watcher.flagged("said", 3)
    job.train(step + 9)
    job.said("notice: the deadline of a repeated notice is near: save and go on")
    step = job.save("continue")
    job.complete(step)
    assert job.job.err.count("has ended 2 attempts") == 1
    assert memory(job)[0]["attempts"] == 2


def test_a_notice_within_the_grace_is_a_plan_once_a_start_is_known(training, source):
    """The machine stays, and so does its notice. The second attempt knows from the record that it can start, train
    and save in time, so it does not leave at once."""
    watcher = source(f"[ -e $ROOT/told ] || gate; touch $ROOT/told; echo '{NOTICE}'; {STAY}")
    job, step = preempted_by(training, watcher)
    record = json.loads((job.dir / ".pchrun" / "commit.json").read_text())
    assert 0 < record["start_ns"] < 10 * 10**9, record
    job = training(*watcher.options)
    job.said("notice: watcher host maintenance, 15 s left")
    job.clients[0].open(resume=step)
    job.clients[0].train(step + 3)
    step = job.save("continue")
    job.complete(step)


def test_without_an_id_nothing_is_remembered(training, source):
    watcher = source("gate; echo '{\"type\":\"terminate\",\"deadline_seconds\":15}'; " + STAY)
    job, _ = preempted_by(training, watcher)
    assert not (job.dir / ".pchrun" / "notices.0.json").exists()


def test_a_memory_that_is_damaged_is_no_reason_to_stay(training, source):
    watcher = source(f"gate; echo '{NOTICE}'; {STAY}")
    job, step = preempted_by(training, watcher)
    path = job.dir / ".pchrun" / "notices.0.json"
    path.write_text("{")
    job, step = preempted_by(training, watcher, step)
    job.said(r"source: starting with an empty list of notices that have ended an attempt: \S+notices\.0\.json:1:1: ")
    assert memory(job)[0]["attempts"] == 1


def test_without_a_state_directory_it_is_said_once(world, source):
    watcher = source("flag there; " + STAY)
    job = world.act("say started hold end", options=watcher.options)
    watcher.flagged("there")
    world.let_end(job)
    assert job.err.count("without state_dir pchrun forgets") == 1


# --- several nodes --------------------------------------------------------------------------------

def test_one_node_is_warned_and_all_save(world, source):
    """One node gets the notice, and tells all."""
    watcher = source(f"gate; echo '{NOTICE}'; {STAY}")  # one newline, so only one of three readers gets it
    job = Nodes(world, 3)
    first = start_training(world, job, *watcher.options)
    watcher.go()
    assert job.finish() == PREEMPTED
    step = committed(job, 2)
    assert step > first and saved_steps(job)[step] == 6
    notices = {rank: job.report(rank)["notice"] for rank in range(3)}
    warned = notices[0]["node_rank"]
    assert all(notice["node_rank"] == warned for notice in notices.values())
    assert notices[warned]["source"] == "watcher"


def test_a_notice_ends_two_attempts_of_the_job_not_of_each_node(world, source):
    """One node of three gets the word in each attempt, by chance. The third attempt saves and goes on."""
    watcher = source(f"gate; echo '{NOTICE}'; {STAY}")  # one newline, so only one of three readers gets it
    step = 0
    for attempt in range(2):
        job = Nodes(world, 3)
        start_training(world, job, *watcher.options, begin=step)
        watcher.go()
        assert job.finish() == PREEMPTED
        step = committed(job, 2)
        counts = [json.loads((world.root / ".pchrun" / f"notices.{node}.json").read_text())["notices"]
                  for node in range(3)]
        assert [[one["id"], one["attempts"]] for (one,) in counts] == 3 * [["e-1", attempt + 1]]
    job = Nodes(world, 3)
    start_training(world, job, *watcher.options, begin=step)
    watcher.go()
    wait_until(lambda: any("has ended 2 attempts" in one.err for one in job.jobs.values()), "a refusal")
    committed(job, 2)
    job.jobs[0].send(signal.SIGTERM)
    assert job.finish() == PREEMPTED
    assert job.report(0)["notice"]["source"] == "SIGTERM"


def test_a_notice_before_the_others_have_come(world, source):
    """No command is started; the warned node leaves as preempted."""
    watcher = source(f"echo '{NOTICE}'; {STAY}")
    job = Nodes(world, 2, watcher.options)
    job.start(1, "say started")
    assert job.jobs[1].finish() == PREEMPTED
    assert not world.events.all("started")
    assert "notice: watcher host maintenance" in job.jobs[1].err
