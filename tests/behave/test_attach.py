# SPDX-License-Identifier: Apache-2.0
"""One node, and ranks that attach through libpch: the attaching, the notice, the save, the end."""

import os
import re
import resource
import shutil
import signal
import subprocess
import time

import pytest

from harness import APART, OWN_ERROR, PREEMPTED, SLACK, commands_of, is_alive, is_blocked, marked, wait_until
from training import CHILD, CLIENT, GRANDCHILD, LAUNCHER



# --- attaching ------------------------------------------------------------------------------------

started = pytest.mark.parametrize("start, n", [(CHILD, 1), (GRANDCHILD, 1), (CHILD, 3), (LAUNCHER, 3)],
                                  ids=["child", "grandchild", "three", "launcher"])


@started
def test_ranks_attach_train_and_end(training, start, n):
    """Without a notice nothing is asked of the ranks, and nothing is written."""
    job = training(n=n, start=start)
    assert job.open() == ["-"] * n
    ours = commands_of(job.job.pid)
    assert all((job.pid(rank) in ours) == (start == CHILD) for rank in range(n))
    job.train(20)
    job.complete()
    assert job.report()["steps"] == {"resumed": 0, "last": 20, "lost": 0}, "none is needed again"


@started
def test_a_notice_saves_commits_and_leaves(training, start, n):
    """The whole round: all ranks save one step, each gets its answer when all saves are durable, exit code 42."""
    job = training(n=n, start=start, train=7)
    step = job.preempt()
    assert step > 7
    assert job.result() == (PREEMPTED, "preempted", step)
    report = job.report()
    assert report["notice"]["source"] == "SIGTERM" and report["notice"]["node_rank"] == 0
    assert report["round"]["save_step"] == step
    times = [report["round"][key] for key in ("decided_ms", "saved_ms", "committed_ms")]
    assert all(t is not None for t in times) and 0 <= times[0] <= times[1] <= times[2]
    assert report["steps"] == {"resumed": 0, "last": step, "lost": 0}
    assert report["commit"]["path"] == job.path(step, 0)
    assert [rank["saved_step"] for rank in report["ranks"]] == [step] * n
    job.said(r"notice: SIGTERM, \S+ s left$")
    job.said(rf"commit: step {step} is durable on every rank$")


def test_a_notice_waits_for_ranks_that_are_still_starting(training):
    """Ranks attach when they have loaded their data; until then the attached ranks train on."""
    job = training(n=3)
    first, second, last = job.clients
    first.open()
    first.train(2)
    second.open()
    job.notice(said="notice: SIGTERM")
    first.train(5)
    second.train(3)
    last.open()
    step = job.agreed()
    assert step > 5
    job.serve(step, "exit")
    assert job.result() == (PREEMPTED, "preempted", step)


def test_a_notice_that_no_save_can_follow(training):
    """One rank has trained to its end, and another goes on. The log says so at once, and only once."""
    job = training("--grace", "20s", n=2, train=10)
    job.clients[0].ask("done", "done")
    job.clients[0].ask("scratch", "scratch .*")  # this answer comes later: pchrun knows by then
    job.notice(said="notice: no save can be agreed on, since a rank has ended on node 0;")
    job.clients[1].train(12)
    job.clients[1].ask("done", "done")
    assert job.result() == (0, "completed", None)
    assert job.job.err.count("no save can be agreed on") == 1


def test_a_rank_that_never_attaches(training):
    """The round's deadline is before the platform's; nothing is committed."""
    job = training("--grace", "1s", n=2)
    job.clients[0].open()
    job.clients[0].train(3)
    job.notice()
    assert job.ended() == (PREEMPTED, "preempted_unsaved", None)
    assert job.report()["why"] == (
        "not every rank had attached in time: node 0 (1 of 2 ranks)")
    assert job.report()["steps"]["lost"] == 3


@pytest.mark.parametrize("attached", [0, 1, 2])
def test_a_notice_before_the_first_step(training, attached):
    """There is nothing to save, so no rank waits for the deadline."""
    job = training(n=2)
    for client in job.clients[:attached]:
        client.open()
    wait_until(lambda: len(commands_of(job.job.pid)) == 2, "two commands")
    begin = time.monotonic()
    job.notice()
    job.job.finish()
    assert time.monotonic() - begin < SLACK  # the grace is 25 s
    code, outcome, step = job.result()
    assert code == PREEMPTED and step is None
    assert outcome == ("preempted" if attached else "preempted_unknown")


def test_a_notice_after_some_have_finished(training):
    """In the last steps of a training there is no step left to save: the training just ends."""
    job = training(n=3, train=10)
    for client in job.clients[:2]:
        client.ask("done", "done")
        client.end_input()
    wait_until(lambda: len(commands_of(job.job.pid)) == 1, "the end of two ranks")
    job.notice(said="notice: SIGTERM")
    job.clients[2].train(11)
    job.clients[2].ask("done", "done")
    assert job.result() == (0, "completed", None)


def test_the_training_ends_below_the_save_step(training):
    """The save step is agreed on, and then all ranks report that they are done: completed, not preempted."""
    job = training(n=2, train=4)
    job.notice()
    assert job.agreed() > 4
    job.complete()


def test_a_declared_last_step_is_the_latest_save_step(training):
    """The ranks would not reach a later save step."""
    job = training(n=2)
    for client in job.clients:
        client.open("last=10")
    job.train(9)
    assert job.preempt() == 10
    assert job.result() == (PREEMPTED, "preempted", 10)


def test_ranks_that_leave_without_a_word(training):
    """The ranks ended with 0 after the notice, but neither saved nor were done: this is no success."""
    job = training(n=2, train=4)
    job.notice()
    job.agreed()
    assert job.result() == (PREEMPTED, "preempted_unsaved", None)


def test_ranks_that_are_forked_after_a_look(training):
    """The program opens the job to see where it resumes, closes it, and forks its two ranks."""
    job = training(start=LAUNCHER, train=0)
    job.clients[0].ask("close", "close supervised=0 .*")
    for rank in range(2):
        job.clients[0].tell(f"forkopen rank={rank} world=2 local_world=2")
        job.clients[0].expect("open supervised=1 same=1 resume=0 path=-")
        job.clients[0].expect("forked step 1 continue")
        job.clients[0].expect("forkopen")
    assert job.result() == (0, "completed", None)
    job.said(r"attach: rank 1 of 2 is process \d+$")
    job.said(r"attach: rank \d \(process \d+\) has detached at step 1 without pch_done \(in Python: done\)$", count=2)


# --- ends without pch_done or pch_close -----------------------------------------------------------

def expect_disbelieved(job, rank, step):
    """A rank that ends without pch_done has not succeeded: the exit code says so, and the text names the rank."""
    assert job.result() == (OWN_ERROR, "failed", None)
    cause = job.report()["first_cause"]
    assert cause["rank"] == rank and cause["code"] == OWN_ERROR
    assert f"at step {step} without pch_done or pch_close" in cause["text"]


@pytest.mark.parametrize("start", [CHILD, GRANDCHILD], ids=["child", "grandchild"])
def test_a_rank_that_closes_all_descriptors(training, start):
    """As daemons do. pchrun cannot reach the rank any more; the rank leaves its loop and ends with 0."""
    job = training(n=2, start=start, train=4)
    job.clients[1].ask("closefds", "closefds")
    job.said(r"attach: rank 1 \(process \d+\) has ended at step 4 without pch_done or pch_close \(in Python: done or close\)$")
    job.clients[1].ask("step 5", "step 5 exit")
    job.said("rank 1: this program has closed libpch's connection to pchrun; the training ends")
    job.clients[0].ask("done", "done")
    expect_disbelieved(job, 1, 4)


def test_closed_it_has_left_nothing_open(training):
    """A library that costs its host a descriptor costs a long run all of them."""
    job = training(n=2, train=2)
    pid = job.pid(1)
    assert len(os.listdir(f"/proc/{pid}/fd")) > 3
    job.clients[1].ask("close", "close supervised=0 .*")
    assert set(os.listdir(f"/proc/{pid}/fd")) == {"0", "1", "2"}
    job.clients[0].ask("close", "close supervised=0 .*")
    for client in job.clients:
        client.end_input()
    assert job.job.finish() == 0


def test_a_rank_that_ends_without_running_its_exit_handlers(training):
    job = training(train=3)
    job.clients[0].tell("_exit 0")
    expect_disbelieved(job, 0, 3)


def test_a_shell_that_hides_the_death_of_its_rank(training):
    job = training(start=f"{CLIENT}; exit 0", train=3)
    job.kill(0)
    expect_disbelieved(job, 0, 3)


@pytest.mark.parametrize("is_done", [False, True], ids=["training", "done"])
def test_a_rank_that_outlives_its_command(training, is_done):
    """The rank is left alive, as the option asks. The exit code 0 of its command says nothing about the rank."""
    job = training("--stop-leftovers", "leave", start=f"{CLIENT} & sleep 1", train=3)
    pid = job.pid(0)
    if is_done:
        job.clients[0].ask("done", "done")
    code = job.job.finish()
    assert code == (0 if is_done else OWN_ERROR)
    cause = job.report()["first_cause"]
    assert is_done or "still attached at step 3 without pch_done" in cause["text"]
    job.clients[0].tell("exit 0")
    wait_until(lambda: not is_alive(pid), "the end of the rank")


def test_a_launcher_that_starts_a_dead_rank_again(training):
    """The second process of the rank counts, not the first."""
    job = training(start=f"{CLIENT}; {CLIENT}", train=3)
    job.kill(0)
    job.said(r"attach: rank 0 \(process \d+\) has ended at step 3")
    job.open()
    job.complete()


@pytest.mark.parametrize("goodbye", ["done", "close", "exit 0"])
def test_a_rank_that_says_goodbye(training, goodbye):
    """The program alone knows whether its training is over."""
    job = training(train=3)
    job.clients[0].tell(goodbye)
    assert job.result() == (0, "completed", None)
    assert "has ended at step" not in job.job.err
    early = re.search(r"attach: rank 0 \(process \d+\) has detached at step 3 without pch_done \(in Python: done\)$",
                      job.job.err, re.M)
    assert bool(early) == (goodbye != "done")


@pytest.mark.parametrize("start", [CHILD, GRANDCHILD, LAUNCHER],
                         ids=["child", "grandchild", "launcher"])
def test_a_rank_that_says_why_it_fails(training, start):
    """The rank's reason is the cause. The exit code is that of the process, or of its launcher."""
    job = training(n=2, start=start, train=5)
    job.clients[1].ask("error 9 out of memory", "error 9")
    job.said("process: rank 1 says why it fails: out of memory$")
    job.train(6)
    job.clients[0].ask("done", "done")
    job.clients[1].tell("exit 4")
    assert job.result() == (4, "failed", None)
    cause = job.report()["first_cause"]
    assert cause["rank"] == 1 and cause["text"].endswith(": out of memory")


def test_a_rank_that_says_why_it_fails_and_does_not(training):
    job = training(train=5)
    job.clients[0].ask("error 9 out of memory", "error 9")
    job.complete()


@pytest.mark.parametrize("hide", [f"{CLIENT} || true", f"{CLIENT} | cat >/dev/null",
                                  f"{CLIENT} & wait"], ids=["or", "pipe", "wait"])
def test_a_command_that_hides_the_failure_of_its_rank(training, hide):
    """The process has reported its exit code. Another code of its command does not replace it."""
    job = training(n=2, start=f'if [ "$PCH_RANK" = 1 ]; then {hide}; '
                              f'else {CLIENT}; fi; exit 0', train=5)
    job.clients[0].ask("done", "done")
    job.clients[1].tell("exit 3")
    job.said(r"attach: rank 1 \(process \d+\) has exited with 3 at step 5$")
    assert job.result() == (3, "failed", None)
    cause = job.report()["first_cause"]
    assert cause["rank"] == 1 and cause["code"] == 3
    assert "exited with 3 at step 5, and its command with 0" in cause["text"]


def test_a_save_at_a_step_that_no_training_reaches(training):
    """The program's step overflowed. The log says so; the rank stays connected."""
    job = training(train=3)
    job.clients[0].ask(f"saved {2**64 - 1}", f"saved {2**64 - 1} continue")
    job.said(f"save: rank 0 could not save step {2**64 - 1}: this step number is too high$")
    assert job.preempt() > 3
    job.result()


# --- deaths ---------------------------------------------------------------------------------------

def test_a_rank_dies_before_it_attaches(training):
    """A failure like any other program's."""
    job = training(n=2)
    job.clients[0].open()
    wait_until(lambda: len(commands_of(job.job.pid)) == 2, "two commands")
    victim, = (pid for pid in commands_of(job.job.pid) if pid != job.pid(0))
    os.kill(victim, signal.SIGKILL)
    assert job.ended() == (128 + signal.SIGKILL, "failed", None)
    assert job.report()["first_cause"]["pid"] == victim


def test_a_rank_dies_between_two_steps(training):
    """Without a notice this is a failure, even if the other ranks could have gone on."""
    job = training(n=2, train=3)
    job.kill(1)
    assert job.ended() == (128 + signal.SIGKILL, "failed", None)
    assert job.report()["first_cause"]["rank"] == 1


def die_before_the_gate(job, step):
    job.clients[0].reach(step)


def die_in_the_save(job, step):
    job.reach(step)


def die_while_waiting_for_the_commit(job, step):
    job.reach(step)
    job.clients[1].tell(f"saved {step} {job.path(step, 1)}")
    job.expect_waiting(1)


@pytest.mark.parametrize("until", [die_before_the_gate, die_in_the_save,
                                   die_while_waiting_for_the_commit])
def test_a_rank_dies_in_a_round(training, until):
    """A rank dies at any instant of a round: nothing is committed, the last commit stands, and the report names the
    rank."""
    job = training(n=2, train=3)
    job.saved(3, "continue")
    job.notice()
    step = job.agreed()
    until(job, step)
    victim = job.pid(1)
    job.kill(1)
    assert job.ended() == (PREEMPTED, "preempted_unsaved", 3)
    assert f"process {victim} ended with signal 9" in job.report()["why"]
    assert job.report()["first_cause"]["rank"] == 1


# --- saves ----------------------------------------------------------------------------------------

def test_own_saves_are_committed_when_every_rank_has_reported(training):
    """Also where one rank reports from another thread and does not wait."""
    job = training(n=3, train=10)
    first, second, last = job.clients
    first.tell(f"saved 10 {job.path(10, 0)}")
    second.ask(f"aside durable 10 {job.path(10, 1)}", "durable 10")
    second.train(12)
    wait_until(lambda: is_blocked(job.pid(0)), "rank 0 to wait")
    assert first.is_silent() and "durable on every rank" not in job.job.err
    job.saved(10, "continue", [last])
    first.expect("saved 10 continue")
    job.said("commit: step 10 is durable on every rank")
    job.train(20)
    job.saved(20, "continue")
    job.complete(20)


def test_own_saves_at_different_steps_are_no_commit(training):
    """A rank that waits for a step that another rank has passed goes on. Neither rank is kept from the round of a
    notice."""
    job = training(n=2, train=10)
    first, second = job.clients
    second.train(11)
    first.tell(f"saved 10 {job.path(10, 0)}")
    job.expect_waiting(0)
    second.tell(f"saved 11 {job.path(11, 1)}")
    first.expect("saved 10 continue")
    job.said("step 10 is not committed: rank 1 has not saved it; that rank waits for the commit of its step 11")
    job.expect_waiting(1)
    job.notice()
    second.expect("saved 11 continue")
    job.leave()


def test_asynchronous_saves(training):
    """A rank that has begun its save waits at its next step, so that all ranks leave after the same one."""
    job = training(n=2, train=5)
    step = job.reach_by_notice()
    first, second = job.clients
    first.ask(f"aside durable {step} {job.path(step, 0)}", f"durable {step}")
    first.tell(f"step {step + 1}")
    job.expect_waiting(0)
    second.ask(f"aside durable {step} {job.path(step, 1)}", f"durable {step}")
    second.ask(f"step {step + 1}", f"step {step + 1} exit")
    first.expect(f"step {step + 1} exit")
    assert job.result() == (PREEMPTED, "preempted", step)


def test_an_own_save_that_fails(training):
    """The ranks do not wait for a commit that is impossible, and the next save can be committed."""
    job = training(n=3, train=5)
    first, second, last = job.clients
    first.tell(f"saved 5 {job.path(5, 0)}")
    second.ask("failed 5 the shelf is full", "failed 5")
    job.saved(5, "continue", [last])
    first.expect("saved 5 continue")
    job.said("save: rank 1 could not save step 5: the shelf is full")
    job.train(7)
    job.saved(7, "continue")
    job.complete(7)
    assert "step 5 is durable" not in job.job.err


def test_a_save_that_fails(training):
    """The rank says why its save fails. Nothing is committed, and all ranks leave with the earlier commit."""
    job = training(n=2, train=5)
    job.saved(5, "continue")
    step = job.reach_by_notice()
    first, second = job.clients
    first.ask(f"failed {step} the shelf is full", f"failed {step}")
    first.ask(f"step {step + 1}", f"step {step + 1} exit")
    second.ask(f"saved {step} {job.path(step, 1)}", f"saved {step} exit")
    assert job.result() == (PREEMPTED, "preempted_unsaved", 5)
    assert f"rank 0 could not save step {step}: the shelf is full" in job.report()["why"]
    assert job.report()["steps"]["lost"] == job.report()["steps"]["last"] - 5


def test_a_save_on_demand(training):
    """SIGUSR2 as the user has set it: the ranks save, commit and go on, twice. Then a notice comes."""
    job = training("--signals", "USR2=checkpoint", n=2, train=3)
    for rounds in (1, 2):
        job.notice(signal.SIGUSR2)
        step = job.save("continue", rounds)
        job.train(step + 2)
        wait_until(lambda: (job.report()["commit"] or {}).get("step") == step, "the report of it")
    job.notice()
    last = job.agreed(3)
    assert last > step
    job.serve(last, "exit")
    assert job.result() == (PREEMPTED, "preempted", last)


def test_a_notice_while_a_save_on_demand_is_being_made(training):
    """One save serves the request and the notice."""
    job = training("--signals", "USR2=checkpoint", n=2, train=3)
    job.notice(signal.SIGUSR2)
    step = job.agreed()
    job.reach(step)
    job.notice(said="notice: SIGTERM")
    job.saved(step, "exit")
    assert job.result() == (PREEMPTED, "preempted", step)


# --- notices --------------------------------------------------------------------------------------

def test_a_second_term_within_a_second_is_the_same_notice(training):
    """Slurm sends two, 20 ms apart."""
    job = training(train=3)
    job.notice()
    step = job.reach_by_notice()
    job.notice()
    job.saved(step, "exit")
    assert job.result() == (PREEMPTED, "preempted", step)
    assert "again" not in job.job.err


def test_a_later_term_does_not_cut_a_save(training):
    """A second SIGTERM asks for haste. The save goes on, and no further step is trained."""
    job = training(train=3)
    step = job.reach_by_notice()
    time.sleep(APART)
    job.notice(said="notice: SIGTERM again: saving now, without more training")
    job.saved(step, "exit")
    assert job.result() == (PREEMPTED, "preempted", step)


def test_a_third_term_does_not_wait_for_the_save(training):
    """The third SIGTERM ends the wait for the save."""
    job = training(train=3)
    job.notice()
    job.reach(job.agreed())
    for text in ("SIGTERM again: saving now", "third SIGTERM: giving up the save"):
        time.sleep(APART)
        job.notice(said=f"notice: {text}")
    assert job.ended() == (PREEMPTED, "preempted_unsaved", None)


def test_a_term_that_is_sent_to_a_rank_is_a_notice(training):
    """Schedulers signal all processes of a step; the program must not die of the signal before its save."""
    job = training(n=2, start=GRANDCHILD, train=3)
    os.kill(job.pid(1), signal.SIGTERM)
    job.said("notice: SIGTERM sent to a training process")
    job.leave()
    assert "training process" in job.report()["notice"]["text"]


def test_a_notice_that_is_sent_to_all_processes(training):
    """As with Slurm's --signal=USR1 if Slurm finds processes by their parents (proctrack/linuxproc). The ranks
    live, whichever process gets the signal first, and the grace is that of the signal."""
    job = training("--signals", "USR1=preempt:3h", n=2, start=GRANDCHILD, train=3)
    for pid in (job.pid(0), job.pid(1), job.job.pid):
        os.kill(pid, signal.SIGUSR1)
    job.said("notice: SIGUSR1")
    job.leave()
    assert job.report()["notice"]["source"] == "SIGUSR1"


def test_a_checkpoint_that_is_asked_of_all_processes(training):
    """The signal is a request to pchrun alone: a rank does not die of it. A signal without an action does kill."""
    job = training("--signals", "USR1=checkpoint", n=2, train=3)
    for pid in (job.pid(0), job.pid(1), job.job.pid):
        os.kill(pid, signal.SIGUSR1)
    job.save("continue")
    os.kill(job.pid(0), signal.SIGUSR2)
    assert job.job.finish() == 128 + signal.SIGUSR2


def test_the_save_takes_too_long(training):
    """At the platform's deadline no process may be left, and the outcome must be logged."""
    job = training("--grace", "2s", *(f"--stop-{wait}-wait=1h" for wait in ("exit", "term", "kill")), n=2, train=3)
    step = job.reach_by_notice()
    job.clients[0].tell(f"saved {step} {job.path(step, 0)}")
    code = job.job.finish()  # nothing else ends this before an hour has passed
    assert (code, job.report()["outcome"]) == (PREEMPTED, "preempted_unsaved")
    assert job.report()["commit"] is None
    assert job.report()["why"] == (
        "the save was not committed in time: not all ranks saved: node 0 (1 of 2 ranks)")
    assert (f" save: rank 1 had not reported a save of step {step}: the save is too slow, or is never reported; "
            "every rank has to call pch_saved (in Python: job.saved), without a path if it writes nothing; if rank 0 writes all, all can attach with PCH_NEEDS_RANK0 (needs='rank0')\n"
            ) in job.job.err


def test_an_evaluation_that_lasts_beyond_the_deadline(training):
    """Ranks that never come to the save step are not slow savers. The log names the phase that the first one is in."""
    job = training("--grace", "2s", *(f"--stop-{wait}-wait=1h" for wait in ("exit", "term", "kill")), n=3, train=3)
    for client in job.clients[1:]:
        client.ask("phase 2", "phase.*")
    job.notice()
    step = job.agreed()
    job.clients[0].reach(step)
    assert job.job.finish() == PREEMPTED
    assert f" save: rank 0 had not reported a save of step {step}: the save is too slow, or is never reported; " in job.job.err
    assert (f" save: ranks 1, 2 had not come to step {step}, which every rank saves: rank 1 stood at step 3, phase eval\n"
            ) in job.job.err


def test_no_rank_comes_to_the_save_step(training):
    """The end does not read as a slow save either."""
    job = training("--grace", "2s", n=2, train=3)
    for client in job.clients:
        client.ask("phase 2", "phase.*")
    job.notice()
    step = job.agreed()
    assert job.job.finish() == PREEMPTED
    assert job.report()["why"] == ("the save was not committed in time: not all ranks saved, and none had come to the step: "
                                   "node 0 (0 of 2 ranks)")
    assert f" save: ranks 0, 1 had not come to step {step}, which every rank saves: rank 0 stood at step 3, phase eval\n" in (
        job.job.err)
    assert "had not reported a save" not in job.job.err


# --- ranks that do not fit ------------------------------------------------------------------------

@pytest.mark.parametrize("first, second, text", [
    ("rank=0 world=2", "rank=0 local_rank=1 world=2", "rank 0 is attached already, by process"),
    ("rank=0 world=2", "rank=1 world=3", "says that the world has 3 ranks; earlier ranks said 2"),
    ("rank=0 world=2", "rank=5 world=2", "rank 5 is out of range: the world has 2 ranks"),
    ("rank=0 world=3", "rank=2 world=3", "rank 1 is missing"),
    ("rank=0 world=2", "rank=1 world=2 local_world=4", "says that this node has 4 ranks; 2 are"),
    ("rank=0 world=2 stride=4", "rank=1 world=2 stride=4 first=2", "can save at none of these"),
    ("rank=0 world=2", f"rank=1 world=2 first={2**64 - 1}", "which is too high"),
], ids=["twice", "other world", "outside", "hole", "other count", "no common step", "no step"])
def test_ranks_that_do_not_fit_together(training, first, second, text):
    """Such ranks never fit, and half a job must not train. The job fails, and says which rank and why."""
    job = training(n=2)
    job.clients[0].ask(f"open {first}", "open supervised=1 .*")
    job.clients[1].tell(f"open {second}")
    job.said(text)
    assert job.ended() == (OWN_ERROR, "failed", None)
    assert text in job.report()["why"]


# --- steps that cannot be -------------------------------------------------------------------------

def test_steps_that_go_backwards(training):
    """A program may go back to an older state by itself; the save is at its present step."""
    job = training(train=10)
    client, = job.clients
    client.step = 3
    client.train(4)
    step = job.preempt()
    assert step > 4
    assert job.result() == (PREEMPTED, "preempted", step)


def test_a_rank_that_jumps_over_the_save_step(training):
    """The rank saves at a later step than the others, so there is no commit."""
    job = training(n=2, train=3)
    job.notice()
    step = job.agreed()
    first, second = job.clients
    first.reach(step)
    second.ask(f"step {step + 5}", f"step {step + 5} save")
    first.tell(f"saved {step} {job.path(step, 0)}")
    second.ask(f"saved {step + 5} {job.path(step, 1)}", f"saved {step + 5} exit")
    first.expect(f"saved {step} exit")
    assert job.result() == (PREEMPTED, "preempted_unsaved", None)
    assert "different steps" in job.report()["why"]


@pytest.mark.parametrize("harm", ["step 1152921504606846976", "scribble"])
def test_a_step_that_no_training_reaches(training, harm):
    """The page belongs to the process. pchrun does not follow an impossible value in it."""
    job = training(n=2, train=3)
    job.clients[1].ask(harm, ".*")
    job.notice(said="save: called off")
    assert job.result() == (PREEMPTED, "preempted_unsaved", None)
    assert "rank 1" in job.report()["why"] and "has overwritten the memory" in job.report()["why"]


# --- without a supervisor -------------------------------------------------------------------------

@pytest.mark.killed
def test_grandchildren_end_when_pchrun_is_killed(training, world):
    """The kernel ends only our own children for us. The others find out where they are."""
    job = training(n=3, start=GRANDCHILD, train=3)
    saving, training_on, asleep = job.clients
    pids = [job.pid(rank) for rank in range(3)]
    saving.tell(f"saved 3 {job.path(3, 0)}")
    wait_until(lambda: is_blocked(pids[0]), "rank 0 to wait")
    job.job.kill()
    saving.expect("saved 3 exit")
    training_on.ask("step 4", "step 4 exit")
    os.kill(pids[2], signal.SIGTERM)  # the shield is down
    wait_until(lambda: not is_alive(pids[2]), "the end of rank 2")
    saving.end_input()
    training_on.end_input()
    wait_until(lambda: not marked(world.mark), "the end of all")
    assert "pchrun has died" in job.job.err


@pytest.mark.killed
def test_children_end_with_pchrun(training, world):
    """The ranks end without another step: a rank that hangs in a collective would never make one."""
    job = training(n=2, train=0)
    job.job.kill()
    wait_until(lambda: not marked(world.mark), "the end of all")


def test_who_cannot_be_attached_does_not_train_on(world):
    """ulimit -f makes the page impossible. An unsupervised training would be a success that pchrun cannot see."""
    job = world.launch("--", os.environ["CHARLM"], "--steps", "100000", "--step-time", "10", "--dir",
                       world.root, stdout=subprocess.DEVNULL,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048)), code=125)
    assert re.search(r"end: failed, exit code 125: node 0: process \d+ could not be attached: ",
                     job.err), job.err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_another_users_process_is_told_what_to_do(world, open_folder):
    """As with gosu or su in a container: the process trains on, and says why it is unsupervised."""
    client = world.helpers / "pchclient-static"
    if not client.exists():
        pytest.skip("the sanitizers' programs need libraries that the other user may not read")
    job = world.launch("--", "setpriv", "--reuid", "65534", "--clear-groups", "sh", "-c", 'echo open | "$0"',
                       shutil.copy(client, open_folder), code=0)
    assert "Permission denied (start pchrun as the user that trains); this process trains unsupervised" in job.err


def test_a_socket_that_is_not_mounted(world):
    job = world.launch("--", "sh", "-c", 'echo open | PCH_SOCKET=/nowhere/socket "$0"', world.pchclient, code=0)
    assert "No such file or directory (in a container, that directory has to be mounted); " in job.err
