# SPDX-License-Identifier: Apache-2.0
"""The record of commits: written whole or not at all, wherever pchrun is killed and whatever the
file system says, and offered to the next start; attempts that come to nothing."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness import (NO_PROGRESS, PREEMPTED, commands_of, entering, is_blocked, marked, needs_namespace, seconds_of,
                     wait_until)


# --- the next start -------------------------------------------------------------------------------

def test_the_next_start_resumes_at_the_commit(training):
    """At each of several starts every rank gets its own path."""
    resume = 0
    for attempt in range(3):
        job = training(n=2)
        paths = job.open(resume)
        assert paths == ([job.path(resume, rank) for rank in range(2)] if attempt else ["-", "-"])
        job.train(resume + 3)
        job.notice()
        resume = job.leave()
        assert job.report()["attempt"] == attempt + 1
    job = training(n=2)
    job.open(resume)
    job.complete(resume)
    assert job.report()["steps"]["resumed"] == resume


def test_ranks_that_report_a_path_before_it_is_there(world, training):
    """Where rank 0 writes for all, the other ranks may report its path before rank 0 has written. So only rank 0
    looks; a path at which it finds nothing is no checkpoint."""
    job = training(n=2, train=4)
    first, second = job.clients
    second.tell(f"saved 4 {world.root}/not-yet")
    first.tell(f"saved 4 {job.path(4, 0)}")
    for client in job.clients:
        client.expect("saved 4 continue")
    job.said("step 4 is durable on every rank")
    job.train(5)
    first.tell(f"saved 5 {world.root}/never")
    first.expect("saved 5 continue")
    job.said("rank 0 could not save step 5: there is nothing at ")
    job.complete(4)


@pytest.mark.memcheck
def test_a_rank_that_saves_for_all(training):
    """The other ranks name no path, and get the path of that rank."""
    job = training(n=3, train=4)
    first, second, last = job.clients
    first.tell("saved 4")
    second.tell(f"saved 4 {job.path(4, 1)}")
    last.tell("saved 4")
    for client in job.clients:
        client.expect("saved 4 continue")
    job.complete(4)
    job = training(n=3)
    assert job.open(4) == [job.path(4, 1)] * 3
    job.complete(4)


@pytest.mark.memcheck
def test_a_script_resumes_by_its_environment(training, world):
    """Without libpch; at the first start there is no path at all."""
    script = 'echo "$PCH_RANK: $PCH_RESUME_STEP ${PCH_RESUME_PATH-none} $PCH_ATTEMPT"'

    def start():
        told = world.launch("--checkpoint-dir", world.root / "checkpoints", "-n", "2", "--", "sh",
                            "-c", script, code=0)
        return sorted(told.out.splitlines())
    assert start() == ["0: 0 none 1", "1: 0 none 1"]
    job = training(n=2, train=6)
    job.notice()
    step = job.leave()
    assert start() == [f"{rank}: {step} {job.path(step, rank)} 3" for rank in range(2)]


def test_what_was_not_committed_is_not_offered(training):
    """Saved by one rank of two, and the job failed: the commit before it stands."""
    job = training(n=2, train=5)
    job.saved(5, "continue")
    job.train(10)
    job.clients[0].tell(f"saved 10 {job.path(10, 0)}")
    wait_until(lambda: is_blocked(job.pid(0)), "rank 0 to wait")
    job.kill(1)
    assert job.ended() == (128 + signal.SIGKILL, "failed", 5)
    job = training(n=2)
    assert job.open(5) == [job.path(5, rank) for rank in range(2)]
    job.complete(5)


def test_a_program_that_goes_back_to_an_older_state(training):
    """After a loss that explodes, the program loads an earlier checkpoint by itself. pchrun cannot know which of the
    two states it wants at a restart: the commit stands until its step is passed."""
    job = training(train=10)
    job.saved(10, "continue")
    job.clients[0].step = 3
    job.train(5)
    step = job.preempt()
    assert step < 10
    assert job.result() == (PREEMPTED, "preempted_unsaved", 10)
    assert f"step {step} is not above the last commit, step 10" in job.report()["why"]
    job = training()
    assert job.open(10) == [job.path(10, 0)]
    job.complete(10)


@pytest.mark.parametrize("is_prefix,is_inside", [(False, True), (True, True), (False, False)],
                         ids=["inside", "prefix", "outside"])
def test_a_checkpoint_that_was_removed(training, world, is_prefix, is_inside):
    """A program that keeps only its newest checkpoints removed the committed one, and failed at every start from then
    on. The job resumes at the newest commit that every rank has; the name of a checkpoint may be the prefix of its
    files. It need not lie below checkpoint.dir."""
    suffix = ".index" if is_prefix else ""

    def file(job, step, rank):
        return Path(job.path(step, rank) + suffix)

    def start():
        job = training(n=2)
        job.shelf = job.dir if is_inside else world.root
        return job
    job = start()
    job.open()
    for step in (5, 50, 55):
        for rank in range(2):
            file(job, step, rank).touch()
        job.train(step)
        job.saved(step, "continue")
    job.complete(55)
    file(job, 55, 1).unlink()
    file(job, 50, 0).unlink()
    job = start()
    assert job.open(5) == [job.path(5, rank) for rank in range(2)]
    job.said(f"step 55 is committed, but {job.path(55, 1)} is missing: the job resumes at step 5,")
    for rank in range(2):
        file(job, 7, rank).touch()
    job.train(7)
    job.saved(7, "continue")
    job.complete(7)
    # There is no file of any step any more: then nothing is taken for missing.
    for rank in range(2):
        file(job, 5, rank).unlink()
        file(job, 7, rank).unlink()
    job = start()
    job.open(7)
    job.complete(7)
    assert "is missing: the job resumes" not in job.job.err


def test_another_job_does_not_take_the_record(training, world):
    """Two jobs in one directory would resume from each other's checkpoints."""
    job = training("--job", "one", train=2)
    job.saved(2, "continue")
    job.complete(2)
    world.refused('"one"', '"two"', options=["--job", "two", "--checkpoint-dir", job.dir])
    world.refused('this start is of job "pchrun" ("pchrun": none was given)', "add --job one",
                  options=["--checkpoint-dir", job.dir])


@pytest.mark.memcheck
@pytest.mark.parametrize("harm", ["cut", "garbage", "empty"])
def test_a_damaged_record_is_not_a_fresh_start(training, world, harm):
    """A start at step 0 would lose the training so far. The error says so, and nothing is started."""
    job = training(train=2)
    job.saved(2, "continue")
    job.complete(2)
    path = job.dir / ".pchrun" / "commit.json"
    whole = path.read_bytes()
    path.write_bytes({"cut": whole[:len(whole) // 2], "garbage": b"\0" * len(whole),
                      "empty": b""}[harm])
    world.refused("commit.json", options=["--checkpoint-dir", job.dir])


def test_old_records_are_forgotten(training):
    """A job of a year must not end with a record of a year. Numbers may get more digits: the time of a start is not
    known at once."""
    job = training("--checkpoint-keep-records", "2", train=0)
    sizes = []
    for step in range(10, 20):
        job.train(step)
        job.saved(step, "continue")
        sizes.append(sum(len(re.sub(r"\d+", "0", p.read_text())) for p in (job.dir / ".pchrun").glob("*.json")))
    assert sizes[0] < sizes[3] == max(sizes[4:])
    job.complete(19)


# --- the file system at the moment of the commit --------------------------------------------------

def remove(job):
    job.dir.rename(job.dir.with_name("moved"))


def put_a_file_there(job):
    remove(job)
    job.dir.touch()


def put_a_file_for_the_state(job):
    (job.dir / ".pchrun").rename(job.dir / "moved")
    (job.dir / ".pchrun").touch()


@pytest.mark.parametrize("harm", [remove, put_a_file_there, put_a_file_for_the_state])
def test_the_directory_is_gone_at_the_commit(training, harm):
    """Every rank has saved, but the record cannot be written: there is no commit, and the report says why."""
    job = training(n=2, train=3)
    step = job.reach_by_notice()
    harm(job)
    job.saved(step, "exit")
    assert job.result() == (PREEMPTED, "preempted_unsaved", None)
    assert "cannot open the directory" in job.report()["why"]
    assert f"{job.dir}/.pchrun" in job.job.err


@pytest.fixture
def small_disk(training, world):
    """A function that starts training on a file system of its own, of 64 KiB."""
    needs_namespace("--mount")
    mount = 'mount -t tmpfs -o size=64k tmpfs "$0" && exec "$@"'

    def start(**more):
        return training(wrap=["unshare", "-m", "sh", "-c", mount, world.root / "checkpoints"],
                        **more)
    return start


def inside(job, path):
    return f"/proc/{job.job.pid}/root{job.dir}/{path}"


def fill(job):
    with open(inside(job, "fill"), "wb", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(b"x" * 4096)


def make_read_only(job):
    subprocess.run([*entering(job.job.pid, "--mount"), "mount", "-o", "remount,ro", job.dir], check=True)


@pytest.mark.parametrize("harm, text", [(fill, "No space left on device"),
                                        (make_read_only, "Read-only file system")],
                         ids=["full", "read-only"])
def test_the_disk_takes_no_record(small_disk, harm, text):
    """The earlier commit stands, on disk and in the outcome."""
    job = small_disk(n=2)
    job.open()
    job.train(3)
    job.saved(3, "continue")
    step = job.reach_by_notice()
    state = os.open(inside(job, ".pchrun"), os.O_RDONLY | os.O_DIRECTORY)  # lives as long as we
    harm(job)
    job.saved(step, "exit")
    assert job.result() == (PREEMPTED, "preempted_unsaved", 3)
    assert text in job.report()["why"] and f"{job.dir}/.pchrun" in job.job.err
    record = json.loads(Path(f"/proc/self/fd/{state}/commit.json").read_text())
    assert [commit["step"] for commit in record["commits"]] == [3]
    os.close(state)


def test_a_disk_that_was_full_for_a_while(small_disk):
    """An own save that was not committed does not end the job; the next own save is committed."""
    job = small_disk(n=2)
    job.open()
    job.train(3)
    fill(job)
    job.saved(3, "continue")
    job.said("step 3 cannot be recorded: .*No space left on device")
    os.unlink(inside(job, "fill"))
    job.train(6)
    job.saved(6, "continue")
    job.complete(6)


@pytest.mark.killed
def test_saves_that_are_not_committed_do_not_push_out_the_one_that_was(training, world):
    """Later saves of the ranks are recorded as well; the paths of the commit are kept with them."""
    job = training("--checkpoint-keep-records", "1", train=5)
    job.saved(5, "continue")
    commit = job.dir / ".pchrun" / "commit.json"
    whole = commit.read_bytes()
    commit.unlink()
    commit.mkdir()  # nothing can be renamed over it
    for step in range(6, 16):
        job.train(step)
        job.saved(step, "continue")
        job.said(f"step {step} was not committed")
    job.job.kill()
    wait_until(lambda: not marked(world.mark), "the end of all")
    commit.rmdir()
    commit.write_bytes(whole)
    job = training("--checkpoint-keep-records", "1")
    assert job.open(5) == [job.path(5, 0)]
    job.complete(5)


@pytest.mark.parametrize("name", ["commit.json", "ranks.0.json"])
@pytest.mark.parametrize("first", [5, None], ids=["one before", "none before"])
def test_a_success_whose_last_saves_were_not_committed(training, name, first):
    """The last line names the save that was not committed, because the user must know which of the checkpoints
    counts."""
    job = training(train=5)
    if first:
        job.saved(5, "continue")
    (job.dir / ".pchrun" / name).unlink(missing_ok=True)
    (job.dir / ".pchrun" / name).mkdir()
    for step in (6, 7):
        job.train(step)
        job.saved(step, "continue")
    job.done()
    assert job.result()[:2] == (0, "completed")
    last = job.job.err_lines[-1]
    assert " end: completed, exit code 0: " in last and "up to step 7 were not committed" in last
    assert ("the last commit is of step 5" if first else "nothing is committed") in last


def test_saves_in_quick_succession(training):
    """Saves come faster than records can be written. Not every save is committed, but the paths of committed saves
    stay, whatever saves follow."""
    job = training("--stop-exit-wait", "1s", train=0)
    client, = job.clients
    for step in range(1, 500):
        client.tell(f"step {step}")
        client.tell(f"aside durable {step} {job.path(step, 0)}")
    for step in range(1, 500):
        client.expect(f"step {step} continue")
        client.expect(f"durable {step}")
    job.done()
    code, outcome, step = job.result()
    assert (code, outcome) == (0, "completed") and step > 0
    job = training()
    assert job.open(step) == [job.path(step, 0)]
    job.complete(step)


def test_the_last_save_of_a_program_that_ends_at_once(training):
    """The record of the last save takes longer than the end of the program."""
    job = training(n=2, train=3)
    for client in job.clients:
        for step in range(4, 24):
            client.tell(f"step {step}")
            client.tell(f"aside durable {step} {job.path(step, client.rank)}")
        client.tell("done")
    assert job.result() == (0, "completed", 23)


# --- a dead file system ---------------------------------------------------------------------------

@pytest.mark.timing
@pytest.mark.parametrize("file, why", [("commit.json", "every rank has saved, but the record is not written"),
                                       ("ranks.0.json", "not all ranks saved: node 0")])
def test_a_record_that_is_not_written_by_the_deadline(training, world, file, why):
    """The file system of the record has died. A write may take 10 s, but not longer than the notice lets it."""
    job = training("--grace", "4s", env=world.shim("stuck", SHIM_DIR=world.root,
                                                   SHIM_STUCK=world.root / "checkpoints/.pchrun" / file), train=3)
    (world.root / "stuck").touch()
    step = job.reach_by_notice()
    job.clients[0].tell(f"saved {step} {job.path(step, 0)}")  # at the deadline: answered, then killed
    assert job.result() == (PREEMPTED, "preempted_unsaved", None)
    assert why in job.report()["why"]
    lines = job.job.err.splitlines()
    (noticed,) = [line for line in lines if " notice: SIGTERM" in line]
    # The write begins after the notice, so a pchrun that gives the write its own 10 s ends later than this.
    assert seconds_of(lines[-1]) - seconds_of(noticed) < 10, job.job.err


# --- killed at any instant ------------------------------------------------------------------------

def resume_of(client):
    client.tell("open")
    return int(client.expect(r"open supervised=1 same=1 resume=(\d+) path=.*")[1])


def kill_in_a_save(job, step, delay, world):
    """Every rank reports the save; returns whether a rank got the answer that it is committed."""
    for client in job.clients:
        client.step = step - 1
    job.train(step)
    for client in job.clients:
        client.tell(f"saved {step} {job.path(step, client.rank)}")
    time.sleep(delay)
    job.job.kill()
    wait_until(lambda: not marked(world.mark), "the end of all")
    # "exit": the rank has noticed that pchrun is gone
    told = [client.expect(f"saved {step} (continue|exit)")[1] for client in job.clients
            if not client.is_silent()]
    job.close()
    return "continue" in told


@pytest.mark.killed
def test_the_record_survives_our_death_at_any_instant(training, world):
    """The record has the old commit or the new one. A commit stays once a rank has learned of it."""
    job = training(n=2, train=1)
    begin = time.monotonic()
    job.saved(1, "continue")
    took = time.monotonic() - begin
    job.complete(1)
    certain = possible = 1
    for instant in range(20):
        job = training(n=2)
        found = resume_of(job.clients[0])
        assert found in (certain, possible) and resume_of(job.clients[1]) == found
        possible = found + 1
        told = kill_in_a_save(job, possible, took * 1.5 * instant / 20, world)
        certain = possible if told else found
    job = training(n=2)
    assert resume_of(job.clients[0]) in (certain, possible)
    job.done()
    assert job.result()[:2] == (0, "completed")


# --- attempts that come to nothing ----------------------------------------------------------------

def preempted_unsaved(training, *options, resume=0):
    """An attempt whose ranks cannot save."""
    job = training(*options)
    job.open(resume)
    job.train(resume + 3)
    step = job.reach_by_notice()
    client, = job.clients
    client.ask(f"failed {step} the shelf is full", f"failed {step}")
    client.ask(f"step {step + 1}", f"step {step + 1} exit")
    return job.result()


def test_three_attempts_without_a_commit(training):
    """Preempted, started, preempted: without a limit this would go on for ever, unnoticed."""
    lost = (PREEMPTED, "preempted_unsaved", None)
    assert preempted_unsaved(training) == lost
    assert preempted_unsaved(training) == lost
    assert preempted_unsaved(training) == (NO_PROGRESS, "no_progress", None)
    assert preempted_unsaved(training) == (NO_PROGRESS, "no_progress", None)


def test_a_commit_is_progress(training):
    """A commit begins the count anew. Attempts without a commit keep the earlier commit."""
    for _ in range(2):
        assert preempted_unsaved(training)[0] == PREEMPTED
    job = training(train=4)
    job.notice()
    step = job.leave()
    for _ in range(2):
        assert preempted_unsaved(training, resume=step) == (PREEMPTED, "preempted_unsaved", step)
    assert preempted_unsaved(training, resume=step) == (NO_PROGRESS, "no_progress", step)


def test_a_program_that_asks_for_a_restart_is_counted(training):
    """Its own exit code 42 makes the scheduler start the job again, as a preemption does."""
    for wanted in [(PREEMPTED, "failed", None)] * 2 + [(NO_PROGRESS, "no_progress", None)]:
        job = training(train=3)
        job.clients[0].tell(f"exit {PREEMPTED}")
        assert job.result() == wanted
    assert "3 attempts in a row ended without a new commit; the last: " in job.job.err


def test_attempts_without_a_limit(training):
    """A limit of 0 switches the count off."""
    for _ in range(4):
        assert preempted_unsaved(training, "--exit-no-progress-after", "0")[0] == PREEMPTED


@pytest.mark.parametrize("attaches", [False, True])
def test_preemptions_before_the_first_step_do_not_count(training, attaches):
    """A spot storm while a large model is loaded says nothing of the job's progress. The attempts that
    have trained count all the same, also across such a storm."""
    job = training(train=3)
    job.saved(3, "continue")
    job.complete(3)
    for _ in range(2):
        assert preempted_unsaved(training, resume=3) == (PREEMPTED, "preempted_unsaved", 3)
    for _ in range(4):
        job = training()
        if attaches:
            job.open(3)
        wait_until(lambda: commands_of(job.job.pid), "its start")
        job.notice()
        assert job.job.finish() == PREEMPTED
        record = json.loads((job.dir / ".pchrun" / "commit.json").read_text())
        assert record["attempts_without_commit"] == 2
    assert preempted_unsaved(training, resume=3) == (NO_PROGRESS, "no_progress", 3)


def test_a_failure_before_the_first_step_is_a_failure(training, world):
    """A notice whose deadline is far away does not turn a failure into a preemption, however often the job fails."""
    notice = '{"type":"terminate","id":"e-1","deadline_seconds":900}'
    watcher = world.file("watcher", f"#!/bin/sh\necho '{notice}'; exec sleep 1000\n", 0o755)
    codes = []
    for _ in range(3):
        job = training("--notices", f"command:{watcher}", "--notices-repeat", "0", train=0)
        job.said("notice: watcher")
        job.kill(0)
        codes.append(job.job.finish())
    assert codes == [128 + signal.SIGKILL] * 3


def test_a_program_that_does_not_attach_is_not_counted(training, world):
    """pchrun cannot know the progress of such a program."""
    for _ in range(4):
        job = world.act("record TERM say ready until TERM exit 0",
                        options=["--checkpoint-dir", world.root / "checkpoints"])
        world.events.wait("ready", ppid=job.pid)
        job.end_by(signal.SIGTERM, PREEMPTED)
