# SPDX-License-Identifier: Apache-2.0
"""Several commands on one node (-n): their variables, and what one's end means for the others."""

import json
import os
import signal

import pytest

from harness import DOCUMENTED, DOCUMENTED_RANKS, is_alive, marked, wait_until


def environments(world, *options, count, env=None):
    """The variables of each rank, by rank; mirror is started by a shell that knows PCH_RANK."""
    world.launch(*options, "--", "sh", "-c",
                 f'exec "{world.mirror}" "{world.root}/rank$PCH_RANK"', env=env, code=0)
    pictures = [json.loads((world.root / f"rank{n}").read_text()) for n in range(count)]
    assert not (world.root / f"rank{count}").exists()
    return [dict(entry.split("=", 1) for entry in picture["env"]) for picture in pictures]


@pytest.mark.parametrize("option", [["-n", "4"], ["--nproc-per-node", "4"], ["--procs-count=4"]],
                         ids=["-n", "--nproc-per-node", "--procs-count"])
def test_each_rank_has_its_variables(world, option):
    """The variables of torch.distributed's env://, and pchrun's own."""
    for rank, env in enumerate(environments(world, *option, count=4)):
        assert env["RANK"] == env["LOCAL_RANK"] == env["PCH_RANK"] == env["PCH_LOCAL_RANK"] \
            == str(rank)
        assert env["WORLD_SIZE"] == env["LOCAL_WORLD_SIZE"] == env["PCH_WORLD_SIZE"] == "4"
        assert env["PCH_NODE_RANK"] == "0" and env["PCH_NNODES"] == "1"


def test_one_process_by_name_is_a_rank(world):
    """-n 1 is not the same as no -n: the user asked for ranks."""
    env, = environments(world, "-n", "1", count=1)
    assert env["RANK"] == "0" and env["WORLD_SIZE"] == "1"


def test_without_n_an_outer_launchers_ranks_stay(world):
    """Under srun or torchrun the program's RANK is the launcher's."""
    env, = environments(world, "--cluster-discovery", "none", count=1, env={"RANK": "5", "WORLD_SIZE": "8"})
    assert env["RANK"] == "5" and env["WORLD_SIZE"] == "8"


def test_with_n_an_outer_launchers_ranks_are_replaced(world):
    """Left over from the shell that started us, they would make every process rank 5."""
    outer = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "5", "PCH_RANK": "5"}
    for rank, env in enumerate(environments(world, "-n", "2", "--cluster-discovery", "none", count=2, env=outer)):
        assert env["RANK"] == env["PCH_RANK"] == str(rank) and env["WORLD_SIZE"] == "2"


def test_ranks_differ_in_nothing_else(world):
    """One environment for all but the documented names."""
    several = environments(world, "-n", "3", count=3)
    for env in several:
        for name in DOCUMENTED | DOCUMENTED_RANKS:
            env.pop(name, None)
        env.pop("_", None)  # sh
    assert several[0] == several[1] == several[2]


def start_ranks(world, count, script, options=""):
    """Every rank is the actor that its number chooses: {"0": verbs, …, "": verbs of the others}. Returns the job, and
    the pids of those that say `ready`."""
    cases = "".join(f'{rank or "*"}) exec "{world.actor}" {" ".join(world.words(verbs))};; '
                    for rank, verbs in script.items())
    job = world.launch("-n", count, *world.words(options), "--", "sh", "-c", f"case $RANK in {cases} esac")
    ready = sum("say ready" in script.get(str(rank), script[""]) for rank in range(count))
    if ready:
        world.events.wait("ready", count=ready)
    return job, [event["pid"] for event in world.events.all("ready")]


@pytest.mark.parametrize("count, ends, others, code", [
    (4, "exit 9", "say ready pause", 9),
    (4, "die ABRT", "record TERM say ready until TERM exit 77", 128 + signal.SIGABRT),
    (3, "exit 9", "ignore TERM say ready pause", 9)], ids=["exit", "death", "others that ignore TERM"])
def test_one_failure_ends_the_others(world, count, ends, others, code):
    """A collective without one of its ranks hangs until a timeout of minutes. The others die of our SIGTERM, or of
    the broken connection: consequences, not causes. The ladder is for each of them. A rung that waits for something
    else than the end of the others would take an hour."""
    options = f"--stop-exit-wait 300ms --stop-kill-wait 1h --stop-term-wait {'300ms' if 'ignore' in others else '1h'}"
    job, _ = start_ranks(world, count, {"1": f"hold fail {ends}", "": others}, options)
    world.let_end(job, code, name="fail")
    assert not marked(world.mark)


def test_a_killed_rank_ends_the_others(world):
    """By the OOM killer, say."""
    job = world.act("say ready pause", options="-n 4 --stop-exit-wait 300ms --stop-term-wait 1h")
    os.kill(job.actors[3], signal.SIGKILL)
    assert job.finish() == 128 + signal.SIGKILL


def test_ranks_may_end_one_by_one(world):
    """Ending with 0 is no failure: the others train on."""
    job, pids = start_ranks(world, 3, {"0": "exit 0", "": "record USR1 say ready until USR1 exit 0"})
    os.kill(pids[0], signal.SIGUSR1)
    wait_until(lambda: not is_alive(pids[0]), "the second end")
    assert is_alive(pids[1]) and job.process.poll() is None
    os.kill(pids[1], signal.SIGUSR1)
    assert job.finish() == 0


def test_a_late_failure_counts(world):
    """Three succeed, the last fails: the job has failed."""
    job, _ = start_ranks(world, 4, {"3": "spin 100 exit 6", "": "exit 0"})
    assert job.finish() == 6


def test_a_notice_reaches_every_rank_once(world):
    """Each rank gets the signal once, by its pid; the outcome holds for all."""
    job = world.act("record TERM say ready until TERM spin 50 exit 1", options="-n 4 --grace 20s")
    job.end_by(signal.SIGTERM, 42)
    assert len(world.events.all("signal", name="TERM")) == 4


def test_one_rank_that_ends_first_does_not_cut_the_others_short(world):
    """After a notice a rank that has saved leaves; the slower ones still save."""
    job, _ = start_ranks(world, 3, {"0": "record TERM say ready until TERM exit 1",
                                    "": "record TERM say ready until TERM hold save say saved"}, "--grace 20s")
    os.kill(job.pid, signal.SIGTERM)
    world.events.wait("signal", count=3)
    world.let_end(job, 42, name="save")
    assert len(world.events.all("saved")) == 2


def test_other_signals_reach_every_rank_once(world):
    """Every command gets a forwarded signal."""
    job = world.act("record all say ready until USR1 spin 30 exit 0", options="-n 4")
    job.end_by(signal.SIGUSR1, 0)
    assert world.events.signals() == ["USR1"] * 4


@pytest.mark.parametrize("count", ["0", "-1", "257", "1000000000000", "2x"])
def test_an_impossible_count_is_refused(world, count):
    """The error says so, and nothing is started."""
    world.refused(options=["-n", count])
