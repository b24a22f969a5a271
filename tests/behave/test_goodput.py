# SPDX-License-Identifier: Apache-2.0
"""pchctl goodput: where the hours of a job went, from the ledger that node 0 keeps."""

import datetime
import json
import os
import random
import re
import signal
import time

import pytest

from harness import PREEMPTED, SLACK, wait_until
from nodes import SAVING, nodes  # noqa: F401
from pchctl import ctl  # noqa: F401

DONE, FAILED, USAGE = 0, 1, 2
STEP_S = 0.04
SHARE = r"(<0\.1|\d+\.\d)"


def shown(ctl, *words, code=DONE, **more):  # noqa: F811
    done = ctl("goodput", *words, everywhere=True, **more)
    assert done.returncode == code, done.stderr
    return done.stdout if code == DONE else done.stderr


def figures(ctl, *words):  # noqa: F811
    got = json.loads(shown(ctl, "--json", *words))
    for part in (got, *got["attempts"]):
        assert sum(ms for kind, ms in part["ms"].items() if kind != "excluded") == part["wall_ms"]
    assert sum(span["ms"] for span in got["spans"]) == got["wall_ms"] + got["ms"]["excluded"]
    return got


def kinds(attempt):
    return {kind for kind, ms in attempt["ms"].items() if ms}


def load(client, takes):
    client.ask("load 1", "load 1")
    time.sleep(takes)
    client.ask("load 0", "load 0")


class Truth:
    """A rank that the test leads. It notes how long it did what, since the end of the last thing that it did, and at
    which step the next start resumes."""

    def __init__(self, training):
        self.training = training
        self.runs, self.ends, self.lost = [], [], []
        self.at = self.resume = 0
        self.launched = datetime.datetime.now(datetime.timezone.utc)

    def begin(self):
        self.lost.append(0)
        self.run = self.training("--signals", "TERM=preempt,USR2=checkpoint", "--restart-max", "3",
                                 "--restart-window", "1ms", "--restart-startup", "0", "--exit-no-progress-after", "0")
        now = time.monotonic()
        self.runs.append({"queued": now - self.at} if self.at else {})
        self.at, self.rounds = now, 0

    def spent(self, kind):
        now = time.monotonic()
        self.runs[-1][kind] = self.runs[-1].get(kind, 0) + now - self.at
        self.at = now

    def steps(self, count, kind):
        """In a third of them the rank also waits for data."""
        client = self.run.clients[0]
        for _ in range(count):
            time.sleep(STEP_S)
            client.train(client.step + 1)
            self.spent(kind)
            if client.step % 3 == 0:
                load(client, STEP_S)
                self.spent("loading" if kind == "training_kept" else kind)

    def boot(self, takes):
        """Up to the end of the first step."""
        self.run.open(self.resume)
        time.sleep(takes)
        self.runs[-1]["booted"] = self.runs[-1].get("booted", 0) + takes
        self.steps(1, "starting")

    def save(self, takes, then):
        self.rounds += 1
        self.resume = self.run.agreed(self.rounds)
        self.run.clients[0].reach(self.resume)
        self.spent("training_kept")
        time.sleep(takes)
        self.run.saved(self.resume, then)
        self.spent("saving")

    def lose(self, count):
        self.steps(count, "training_lost")
        self.lost[-1] += self.run.clients[0].step - self.resume

    def end(self, code, outcome):
        assert self.run.finish() == code
        self.spent("stopping")
        self.ends.append(outcome)

    def preemption(self, draw):
        self.steps(draw(20, 60), "training_kept")
        self.run.notice()
        self.save(draw(10, 40) / 100, "exit")
        self.end(PREEMPTED, "preempted")

    def save_that_goes_on(self, draw):
        self.steps(draw(10, 40), "training_kept")
        self.run.notice(signal.SIGUSR2)
        self.save(draw(10, 40) / 100, "continue")

    def crash(self, draw):
        """The generation ends, and the next one begins in place."""
        self.lose(draw(20, 50))
        generation = self.runs[-1].get("generation", 0) + 1
        os.kill(int(self.run.said(r"attach: rank 0 of 1 is process (\d+)$", generation)[1]), signal.SIGKILL)
        self.run.said(r"generation \d+ begins", generation)
        self.runs[-1]["generation"] = generation
        self.spent("restarting")
        self.boot(draw(20, 80) / 100)

    def kill(self, draw):
        """pchrun is killed. The ledger has nothing of what has happened since its last line, and says so."""
        since = time.monotonic()
        self.steps(draw(5, 20), "unknown")
        os.kill(self.run.job.pid, signal.SIGKILL)
        self.run.finish()
        self.ends.append("killed")
        self.at = since
        del self.runs[-1]["unknown"]

    def completion(self, draw):
        self.steps(draw(20, 40), "training_kept")
        self.run.done()
        self.end(0, "completed")


def play(training, plan, draw):
    """A job whose attempts do what the plan says."""
    truth = Truth(training)
    for attempt in plan:
        truth.begin()
        truth.boot(draw(20, 100) / 100)
        for deed in attempt:
            deed(truth, draw)
        time.sleep(draw(1, 50) / 100)
    return truth


# Their borders are moments within pchrun, which the rank does not see.
OUTER = {"starting", "stopping", "queued"}


def compare(truth, got):
    near = 0.01 * got["wall_ms"]
    for attempt, true in zip(got["attempts"], truth.runs, strict=True):
        assert attempt["generations"] == 1 + true.pop("generation", 0)
        assert attempt["ms"]["starting"] > 1000 * true.pop("booted")
        for kind in set(attempt["ms"]) - OUTER:
            assert abs(attempt["ms"][kind] - 1000 * true.get(kind, 0)) < near, (kind, attempt, true)
    # The ledger begins when the first pchrun has begun, and ends before the last one does.
    before = datetime.datetime.fromisoformat(got["attempts"][0]["from"]) - truth.launched
    edges = 1000 * (before.total_seconds() + truth.runs[-1]["stopping"])
    assert 0 < before.total_seconds() < SLACK
    for kinds in (OUTER, {"training_kept"}, {"training_lost"}, {"loading"}, {"saving"}, {"restarting"}):
        true = 1000 * sum(true.get(kind, 0) for true in truth.runs for kind in kinds)
        found = sum(got["ms"][kind] for kind in kinds) + (edges if kinds == OUTER else 0)
        assert abs(found - true) < near, (kinds, found, true, truth.runs)
    assert [attempt["end"] for attempt in got["attempts"]] == truth.ends
    assert [attempt["lost_steps"] for attempt in got["attempts"]] == truth.lost
    assert not got["running"]


# Two preemptions, a crash that is restarted in place, and a pchrun that is killed, twice.
FIXED = [[Truth.preemption], [Truth.save_that_goes_on, Truth.crash, Truth.preemption], [Truth.kill],
         [Truth.save_that_goes_on, Truth.kill], [Truth.completion]]


def drawn(rng):
    """Five attempts."""
    plan = []
    for _ in range(4):
        deeds = rng.choices([Truth.save_that_goes_on, Truth.crash], k=rng.randint(0, 2))
        plan.append([*deeds, rng.choice([Truth.preemption, Truth.kill])])
    return [*plan, [Truth.completion]]


@pytest.mark.killed
@pytest.mark.timing
@pytest.mark.parametrize("seed", range(1 + int(os.environ.get("GOODPUT_JOBS", "0"))))
def test_the_figures_are_true(training, ctl, seed):  # noqa: F811
    """Each within one in a hundred of the job's time. Only seed 0 has the fixed plan."""
    rng = random.Random(seed)
    truth = play(training, drawn(rng) if seed else FIXED, rng.randint)
    compare(truth, figures(ctl, truth.run.dir))


def has_trained(ledger):
    """Did the training last a millisecond by now? The ledger counts in whole ones."""
    begin = ledger.exists() and re.search(r'^\{"at_ms": (\d+), .*"mark": "training"', ledger.read_text(), re.M)
    return begin and 1000 * time.time() >= int(begin[1]) + 2


def preempted(training, to=5):
    """A first attempt, which is preempted after `to` steps; returns its directory."""
    run = training(train=to)
    wait_until(lambda: has_trained(run.dir / ".pchrun/ledger"), "the training to take time")
    run.preempt()
    assert run.finish() == PREEMPTED
    return run.dir


def test_the_table(training, ctl):  # noqa: F811
    """Beside a slow start the training is less than a thousandth of the time."""
    text = shown(ctl, preempted(training))
    assert re.match(rf"job cwd, \d{{4}}-\d\d-\d\d [\d:]{{5}} to .* UTC\ngoodput {SHARE} %: \d+\.\d s of ", text), text
    assert re.search(rf"^training, kept +\d+\.\d s +{SHARE}$", text, re.M), text
    assert "training, lost" not in text and "note:" not in text
    assert re.search(r"\n\nin % of the time of each attempt:\nATTEMPT +TIME  KEPT .* END\n1 +\d+\.\d s .*  preempted\n"
                     r"all +\d+\.\d s [ \d.<-]+\n\Z", text), text
    assert max(map(len, text.splitlines())) <= 80


def test_twelve_attempts(world, ctl):  # noqa: F811
    """Each has a row; also those that ended at their start."""
    options = ["--checkpoint-dir", world.root, "--exit-no-progress-after", "0"]
    for _ in range(12):
        world.act("exit 3", options=options, code=3)
    text = shown(ctl, world.root)
    assert [line.split()[0] for line in text.partition("\nATTEMPT ")[2].splitlines()[1:]] == [
        *map(str, range(1, 13)), "all"]
    got = figures(ctl, world.root)
    assert len(got["attempts"]) == 12 and kinds(got) <= {"starting", "stopping", "queued"}


def test_the_scheduler_s_start_splits_the_queue(world, ctl):  # noqa: F811
    """Slurm says when it started the job. Until then the job was queued; from then on its machines were held."""
    options = ["--preset", "none", "--checkpoint-dir", world.root, "--exit-no-progress-after", "0"]
    start = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0) - datetime.timedelta(seconds=10)
    for more in (0, 1000):
        slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_START_TIME": f"{start.timestamp() - more:.0f}"}
        world.act("exit 3", options=options, code=3, env=slurm)
    first, second = (json.loads(line) for line in (world.root / ".pchrun/ledger").read_text().splitlines()
                     if '"job_start_ms"' in line)
    assert first["job_start_ms"] == 1000 * start.timestamp()
    got = figures(ctl, world.root)
    assert got["spans"][0]["kind"] == "preparing" and got["spans"][0]["from"] == start.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    assert got["attempts"][0]["ms"]["preparing"] == first["at_ms"] - first["job_start_ms"] >= 10000
    # The second pchrun is of the same start of the job, so its machines were held all the time.
    assert got["attempts"][1]["ms"]["preparing"] > 0 == got["ms"]["queued"]
    assert second["at_ms"] > first["at_ms"]
    assert re.search(r"^preparing: before pchrun +\d+\.\d s +\d", shown(ctl, world.root), re.M)


def test_while_the_job_runs(training, ctl):  # noqa: F811
    run = training()
    run.open()
    run.train(3)
    wait_until((run.dir / ".pchrun/ledger").exists, "the ledger")
    wait_until(lambda: "training_kept" in kinds(figures(ctl, run.dir)), "the first step")
    got = figures(ctl, run.dir)
    assert got["running"] and got["uncommitted_ms"] == got["ms"]["training_kept"]
    assert got["attempts"][0]["end"] == "running"
    assert ", still running\n" in shown(ctl, run.dir)
    assert "of it not committed yet" in shown(ctl, run.dir)
    before = got["wall_ms"]
    wait_until(lambda: figures(ctl, run.dir)["wall_ms"] > before, "the time to go on")
    run.complete()
    assert not figures(ctl, run.dir)["running"]


def test_a_job_of_two_nodes(world, nodes, ctl):  # noqa: F811
    """Node 0 waits for the other, and it alone keeps the ledger. Both nodes must have stepped."""
    job = nodes(2, *SAVING, "--checkpoint-dir", world.root)
    client = world.client("open\ntrain 0 1000000 2 at://ckpt 0\n")
    job.jobs[0] = job.launch(0, *client)
    wait_until(lambda: (world.root / ".pchrun/ledger").exists(), "the ledger")
    job.jobs[1] = job.launch(1, *client)
    job.say(0, "start: all 4 ranks on 2 nodes have attached")
    wait_until(lambda: "training_kept" in kinds(figures(ctl, world.root)), "the first steps")
    job.jobs[1].send(signal.SIGTERM)
    assert job.finish() == PREEMPTED
    got = figures(ctl, world.root)
    assert got["ms"]["waiting"] > 0 and got["ms"]["training_lost"] == 0
    assert len(got["attempts"]) == 1 and got["attempts"][0]["commit_step"] == got["attempts"][0]["last_step"] > 0


def test_data_loading(training, ctl):  # noqa: F811
    """The rank that waits longest counts, also while it waits. Before its first step that is part of the start."""
    run = training("--signals", "TERM=preempt,USR2=checkpoint", n=2)
    run.open()
    load(run.clients[1], 1)
    run.train(2)
    run.notice(signal.SIGUSR2)
    run.save("continue")
    load(run.clients[0], 0.3)
    load(run.clients[1], 0.4)
    before = time.monotonic()
    run.clients[1].ask("load 1", "load 1")
    run.train(run.clients[0].step + 3)
    time.sleep(0.3)
    run.notice()
    run.save("exit", 2)
    open_ms = 1000 * (time.monotonic() - before)
    assert run.finish() == PREEMPTED
    got = figures(ctl, run.dir)
    assert 700 <= got["ms"]["loading"] <= 400 + open_ms + 200, (got, open_ms)
    assert got["ms"]["starting"] > 1000
    loading = sum(span["loading_ms"] for span in got["spans"])
    assert loading == got["ms"]["loading"] and {span["kind"] for span in got["spans"] if span["loading_ms"]} == {"training_kept"}
    assert re.search(r"^training, waiting for data +\d+\.\d s +\d+\.\d$", shown(ctl, run.dir), re.M)
    assert re.search(r"^ATTEMPT .* DATA ", shown(ctl, run.dir), re.M)


def test_a_hang(training, ctl):  # noqa: F811
    """The hang counts from the last step on, not from when it was found."""
    run = training("--watchdog-train", "1s")
    run.open()
    run.train(4)
    assert run.job.finish() == PREEMPTED
    run.close()
    got = figures(ctl, run.dir)
    assert got["ms"]["hung"] >= 1000 and got["attempts"][0]["end"] == "hang", got
    assert got["ms"]["training_kept"] == 0


def test_a_damaged_ledger(training, ctl):  # noqa: F811
    ledger = preempted(training) / ".pchrun/ledger"
    whole = ledger.read_bytes()
    lines = whole.splitlines(keepends=True)
    ledger.write_bytes(whole.replace(lines[1], b"\0\xff" + lines[1][2:]) + b'{"at_ms": 17')
    text = shown(ctl, ledger)
    assert "note: the last line is cut, and does not count\n" in text
    assert "note: 1 line is damaged, and does not count\n" in text
    run = training()
    run.open(resume=figures(ctl, ledger)["attempts"][0]["commit_step"])
    run.complete(run.report()["commit"]["step"])
    got = figures(ctl, ledger)
    assert [attempt["end"] for attempt in got["attempts"]] == ["preempted", "completed"]
    assert got["notes"] == ["2 lines are damaged, and do not count"]


@pytest.mark.parametrize("make, says", [
    (lambda path: None, "cannot look for the record of a job's time in {}: No such file or directory"),
    (lambda path: path.mkdir(), "{} has no record of a job's time (the file ledger); give the job's checkpoint.dir or state_dir: "
     "pchctl goodput DIR (a job without these directories keeps no record)"),
    (lambda path: path.write_text("some\nother\nfile\n"),
     "{} is not a ledger of pchrun, or is damaged: none of its lines can be read"),
    (lambda path: path.write_text(""), "{} has no attempt yet"),
])
def test_what_is_no_ledger(world, ctl, make, says):  # noqa: F811
    path = world.root / "that"
    make(path)
    assert shown(ctl, path, code=FAILED) == f"pchctl: {says.format(path)}\n"


def test_where_it_looks(training, ctl):  # noqa: F811
    where = preempted(training)
    (where.parent / "link").symlink_to(where / ".pchrun/ledger")
    for words, more in [([where / ".pchrun"], {}), ([where.parent / "link"], {}), ([], {"cwd": where}),
                        ([], {"env": {"PCHRUN_CHECKPOINT_DIR": str(where)}}), (["--job", "cwd", where], {})]:
        assert shown(ctl, *words, **more).startswith("job cwd, "), words
    assert "is the ledger of job cwd, not of job other" in shown(ctl, "--job", "other", where, code=FAILED)
    assert "goodput reads files; name the checkpoint directory" in shown(ctl, "--run-dir", where, code=USAGE)


def test_a_part_of_the_time(training, ctl):  # noqa: F811
    where = preempted(training)
    whole = figures(ctl, where)
    assert figures(ctl, where, "--since", "24h")["wall_ms"] == whole["wall_ms"]
    assert figures(ctl, where, "--since", "2200-01-01T00:00:00Z")["wall_ms"] == 0
    assert shown(ctl, where, "--since", "0") == "job cwd: nothing has happened since then\n"
    middle = whole["spans"][1]["from"]
    later = figures(ctl, where, "--since", middle)
    assert later["wall_ms"] == whole["wall_ms"] - whole["spans"][0]["ms"]
    out = ["--exclude", f"2000-01-01T00:00:00Z..{middle}=the disk was full"]
    got = figures(ctl, where, *out)
    assert got["wall_ms"] == later["wall_ms"] and got["ms"]["excluded"] == whole["spans"][0]["ms"]
    assert [(e["reason"], e["ms"]) for e in got["excluded"]] == [("the disk was full", whole["spans"][0]["ms"])]
    assert re.search(r"^not counted \(dates in UTC\):\nthe disk was full  +\d+\.\d s  2000-01-01 00:00 to ",
                     shown(ctl, where, *out), re.M)


@pytest.mark.parametrize("words, says", [
    (["--since", "99999d"], '--since: "99999d" is out of range (0s to 36500d)'),
    (["--since", "9999999999d"], '--since: "9999999999d" is out of range '),
    (["--since", "yesterday"], '--since: "yesterday" is neither a time, such as 24h, nor a date with its zone, such as '
     "2026-11-28T10:00:00Z"),
    (["--exclude", "2026-11-28T10:00:00Z"], "FROM..TO=REASON, with FROM before TO"),
    (["--exclude", "2026-11-28T10:00:00Z..2026-11-28T10:00:00Z"], "FROM..TO=REASON, with FROM before TO"),
    (["--exclude", "2026-11-28T10:00:00..2026-11-28T11:00:00Z=x"], "FROM..TO=REASON, with FROM before TO"),
    (["--exclude", "=.."], "FROM..TO=REASON, with FROM before TO"),
])
def test_wrong_times(ctl, words, says):  # noqa: F811
    assert says in shown(ctl, *words, code=USAGE)


def test_a_ledger_that_cannot_be_written(world, ctl):  # noqa: F811
    """The job goes on, and says it once."""
    (world.root / ".pchrun/ledger").mkdir(parents=True)
    job = world.act("exit 0", options=["--checkpoint-dir", world.root], code=0)
    assert job.err.count("; pchctl goodput will lack some hours\n") == 1, job.err


def test_a_drill_is_no_attempt(world):
    folder = world.root / "kept"
    client = world.client("open\ntrain 0 1000000 2 at://ckpt 0\n")
    world.launch("--drill", "12s", "--checkpoint-dir", folder, "--", *client, code=0)
    assert {path.name for path in (folder / ".pchrun").iterdir()} >= {"report.0.json"}
    assert not (folder / ".pchrun/ledger").exists()
