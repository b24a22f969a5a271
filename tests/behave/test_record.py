# SPDX-License-Identifier: Apache-2.0
"""The files that outlive a run: commit.json and ranks.<node>.json in the state directory, and what the next
start makes of them. The processes are pchclients, which call libpch as the test tells them."""

import contextlib
import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from harness import Watch, children_of, is_alive, needs_disk, needs_namespace, wait_until
from nodes import free_port
from pchctl import ctl  # noqa: F401
from training import Client

IMPATIENT = ["--stop-term-wait", "200ms", "--stop-exit-wait", "200ms"]


class Run:
    """One start of the job: pchrun over `count` pchclients, which the test leads."""

    def __init__(self, world, count, options, before, env):
        self.folder = world.root / f"run{len(world.jobs)}"
        self.folder.mkdir()
        self.clients = [Client(self.folder, rank) for rank in range(count)]
        script = (f'{before}\nprintf %s "$PCH_RESUME_PATH" >"$1/path.$PCH_LOCAL_RANK"\n'
                  'exec "$0" <"$1/in.$PCH_LOCAL_RANK" >"$1/out.$PCH_LOCAL_RANK"')
        self.job = world.launch("-n", count, *options, "--", "sh", "-c", script, world.pchclient, self.folder,
                                env=env)

    def all(self, *lines):
        """Gives each rank its command (or one command to all), and returns all answers."""
        for rank, client in enumerate(self.clients):
            client.tell(lines[rank % len(lines)])
        return [client.line() for client in self.clients]

    def begin(self):
        """The clients attach and finish a step; returns what each is to resume from."""
        told = self.all("open")
        self.all("step 1")
        return told

    def resume_path(self, rank):
        return os.fsdecode((self.folder / f"path.{rank}").read_bytes())

    def ended(self):
        """The exit code, when the clients have come to the end of their input."""
        for client in self.clients:
            client.end_input()
        return self.job.finish()

    def complete(self):
        self.all("done")
        assert self.ended() == 0

    def close(self):
        for client in self.clients:
            client.close()


class Records:
    def __init__(self, world):
        self.world = world
        self.dir = world.root / "ckpt"
        self.state = self.dir / ".pchrun"
        self.runs = []

    def run(self, *options, count=2, before=":", has_dir=True, env=None):
        place = ["--checkpoint-dir", self.dir] if has_dir else []
        self.runs.append(Run(self.world, count, [*place, *options], before, env))
        return self.runs[-1]

    def begun(self, *options, **more):
        """A run whose ranks have all finished a step."""
        run = self.run(*options, **more)
        run.begin()
        return run

    def saved(self, *saves, **more):
        """A run that makes these saves and completes. A save is one command for all ranks, or a list with a command
        for each."""
        run = self.begun(**more)
        for lines in saves:
            run.all(*([lines] if isinstance(lines, (str, bytes)) else lines))
        run.complete()

    def refused(self, *words, options=None, **more):
        """A start that is refused: with this directory, or these options."""
        options = options or ["--checkpoint-dir", self.dir]
        return self.world.refused(" end: not_started, exit code 125: ", *words, options=options, **more)

    def commit(self):
        return json.loads((self.state / "commit.json").read_text())

    def write(self, name, record):
        (self.state / name).write_text(json.dumps(record))

    def steps(self):
        return [commit["step"] for commit in self.commit()["commits"]]

    def saves(self, node=0):
        return json.loads((self.state / f"ranks.{node}.json").read_text())["saves"]


@pytest.fixture
def records(world, request):
    records = Records(world)
    yield records
    for run in records.runs:
        run.close()
    if records.state.is_dir() and not request.node.get_closest_marker("killed"):  # later pchruns sweep it
        assert not list(records.state.glob("*.tmp")), "a temporary file is left"


def preempted(records, *options, step=1):
    """The exit code and the log of a run that is preempted after this step and cannot save: no rank finishes another
    step. Without a step, it is preempted while its ranks start."""
    run = records.run("--grace", "400ms", *IMPATIENT, *options)
    run.all("open")
    for finished in (1, step) if step else ():
        run.all(f"step {finished}")
    os.kill(run.job.pid, signal.SIGTERM)
    return run.job.finish(), run.job.err


def test_the_next_start_resumes_at_the_last_commit(records):
    """Every rank resumes with its own path, in libpch and in the environment."""
    run = records.run()
    assert run.begin() == ["open supervised=1 same=1 resume=0 path=-"] * 2
    run.all("saved 10 at:///ckpt/10-a", "saved 10 at:///ckpt/10-b")
    run.all("saved 20 at:///ckpt/20-a", "saved 20 at:///ckpt/20-b")
    run.complete()
    assert records.steps() == [10, 20]
    run = records.run()
    assert run.begin() == [f"open supervised=1 same=1 resume=20 path=at:///ckpt/20-{end}" for end in "ab"]
    assert [run.resume_path(rank) for rank in (0, 1)] == ["at:///ckpt/20-a", "at:///ckpt/20-b"]
    run.complete()


def begins(said):
    """Where the attempt begins, as the log has it."""
    return re.findall(r" start: job .*?, 1 node, 2 ranks: (.*)$", said, re.M)


def test_a_start_says_where_it_resumes_and_how_to_begin_anew(records):
    """A new experiment in the directory of an old one went on at step 91, and no line said so."""
    anew = f"; to begin anew, stop the job and move {records.state} away"
    assert begins(preempted(records)[1]) == ["attempt 1 begins at step 0"]  # there is no earlier attempt
    second = records.begun()
    second.all("saved 10 at:///ckpt/10-a", "saved 10 at:///ckpt/10-b")
    second.all("step 12")
    second.complete()
    assert begins(second.job.err) == [f"attempt 2 begins at step 0: no earlier attempt has committed a save"]
    resumes = "resumes at step 10 of at:///ckpt/10-a"
    longer = "; steps 11 to 12 are trained again: a save at the program's end prevents that"
    assert begins(preempted(records, step=11)[1]) == [
        f"attempt 2 completed this job at step 12; attempt 3 {resumes}{longer}{anew}"]
    fourth = records.begun()
    fourth.complete()
    assert begins(fourth.job.err) == [f"attempt 4 {resumes}{anew}"]


def test_a_start_behind_a_save_at_the_end_says_how_to_train_longer(records):
    """Only such a job has nothing left to train."""
    first = records.begun()
    first.all("saved 10 at:///ckpt/10-a", "saved 10 at:///ckpt/10-b")
    first.all("step 10")
    first.complete()
    run = records.begun()
    run.complete()
    line, = begins(run.job.err)
    assert line.startswith("attempt 1 completed this job at step 10; attempt 2 resumes at step 10 of at:///ckpt/10-a; "
                           "to train longer, give the program more steps; to begin anew, ")


def test_a_removed_state_directory_begins_anew(records):
    """The line at the start of attempt 2 advises to move the directory away."""
    records.saved("saved 10 at:///ckpt/all")
    shutil.move(records.state, records.dir / "old")
    run = records.run()
    assert run.begin() == ["open supervised=1 same=1 resume=0 path=-"] * 2
    run.complete()
    assert begins(run.job.err) == ["attempt 1 begins at step 0"]


def test_a_checkpoint_at_a_url(records, ctl):  # noqa: F811
    """Only the program can look into an object store. The URL is kept as it is, also when checkpoint.dir has moved and an
    older checkpoint is gone."""
    urls = [f"s3://bucket/run7/step-20/{rank}?version=a b" for rank in range(2)]
    run = records.begun("--checkpoint-keep-records", "2")
    (records.dir / "step-10").touch()
    run.all(f"saved 10 {records.dir}/step-10")
    run.all(*(f"saved 20 {url}" for url in urls))
    run.complete()
    assert {rank["rank"]: rank["path"] for rank in records.saves()[-1]["ranks"]} == dict(enumerate(urls))
    assert f"\nnext      resumes at step 20 of {urls[0]}\n" in ctl("status", records.dir, everywhere=True).stdout
    (records.dir / "step-10").unlink()
    records.dir = records.dir.rename(records.world.root / "moved")
    records.state = records.dir / ".pchrun"
    run = records.run("--checkpoint-keep-records", "2")
    assert [told.split("path=")[1] for told in run.begin()] == urls
    assert [run.resume_path(rank) for rank in range(2)] == urls
    run.all(*(f"durable 30 {url}" for url in urls))
    wait_until(lambda: records.steps() == [20, 30], "the commit of step 30")
    run.complete()
    assert "missing" not in run.job.err
    assert [path.name for path in (*records.world.cwd.iterdir(), *records.dir.iterdir())] == [".pchrun"]


def test_one_rank_saves_for_all(records):
    """The others report no path, and get the path of the rank that does."""
    records.saved(["saved 10 at:///ckpt/all", "saved 10"])
    run = records.begun()
    assert [run.resume_path(rank) for rank in (0, 1)] == ["at:///ckpt/all"] * 2
    run.complete()


def start_two(records, *options):
    """One command on each of two nodes."""
    entries = ",".join(f"127.0.0.{i + 1}:{free_port()}" for i in range(2))
    return [records.run("--cluster-nodes", entries, "--node-rank", node, *options, count=1)
            for node in range(2)]


def open_two(runs, *ranks):
    """One process on each of two nodes, with these ranks."""
    for run, rank in zip(runs, ranks):
        run.clients[0].tell(f"open rank={rank} world=2 local_world=1")
    return runs


def two_nodes(records, *ranks):
    """One process on each of two nodes, with these ranks; returns what they resume from."""
    runs = open_two(start_two(records), *ranks)
    return runs, [run.clients[0].line().split("path=")[1] for run in runs]


def complete(runs):
    """Completes the runs of one job, which end together."""
    for run in runs:
        run.all("done")
        run.clients[0].end_input()
    assert [run.job.finish() for run in runs] == [0, 0]


def commit_on_two(records, between=lambda first, state: None, first=0):
    """A step that two nodes have saved, a path on each. `between`: what happens when the first node has saved."""
    runs, told = two_nodes(records, 0, 1)
    assert told == ["-", "-"]
    for run in runs:
        run.all("step 1")
    for rank in (first, 1 - first):
        runs[rank].clients[0].tell(f"saved 10 at:///ckpt/rank{rank}")
        if rank == first:
            between(first, records.state)
    assert [run.clients[0].line() for run in runs] == ["saved 10 continue"] * 2
    complete(runs)
    assert records.steps() == [10]
    assert [records.saves(node)[-1]["ranks"][0]["rank"] for node in (0, 1)] == [0, 1]
    return runs


def remove(first, state):
    """The state directory, when the first node has its record there."""
    wait_until((state / f"ranks.{first}.json").exists, "the record of the first node")
    while state.exists():  # a report may be written into it meanwhile
        shutil.rmtree(state, ignore_errors=True)


@pytest.mark.parametrize("first, ranks", [(0, (0, 1)), (1, (1, 0))], ids=["0", "1, and the ranks move"])
def test_a_directory_that_is_removed_within_a_save(records, first, ranks):
    """One node has recorded what its rank saved, and the directory is removed before the other node has. The next
    start would miss the first node's file. Slurm may give that start its nodes in another order: each rank still finds
    its own save."""
    runs = commit_on_two(records, remove, first)
    emptied = f"{records.state} was emptied while the job ran, and is written again"
    assert runs[0].job.err.count(emptied) == (first != 0)
    runs, told = two_nodes(records, *ranks)
    assert told == [f"at:///ckpt/rank{rank}" for rank in ranks]
    complete(runs)


def refused_by_all(runs):
    """No node can start; returns what the nodes say, and what their processes do."""
    assert [run.job.finish() for run in runs] == [125, 125]
    return [run.job.err for run in runs], [run.clients[0].rest() for run in runs]


def refused_on_two(records, *options):
    """Nothing trains, on no node; node 1 says which file it has looked for."""
    runs = start_two(records, *options)
    (chief, member), told = refused_by_all(runs)
    assert f"{records.state}/ranks.1.json does not tell" in member
    assert "step 10 is committed" in member and "put that file back" in member
    assert " end: not_started, exit code 125: node 1: rank 1, step 10 is committed" in chief, "the chief tells it, too"
    assert told == ["", ""]


@pytest.mark.parametrize("what", ["missing", "another step's", "not shared"])
def test_a_node_without_its_file_does_not_start_from_scratch(records, what):
    """The node's disk was replaced. A program without a path would train from step 0 while the others resume."""
    commit_on_two(records)
    file = records.state / "ranks.1.json"
    if what == "another step's":
        file.write_text(file.read_text().replace('"step": 10', '"step": 9'))
    else:
        file.unlink()
    refused_on_two(records, *(["--no-checkpoint-shared"] if what == "not shared" else []))
    assert records.steps() == [10]


@pytest.mark.parametrize("node", [0, 1], ids=["its own", "another node's"])
def test_saves_without_the_record_of_commits(records, node):
    """It is unknown which of these saves were committed. pchrun must not decide to train over them from step 0."""
    commit_on_two(records)
    (records.state / "commit.json").unlink()
    (records.state / f"ranks.{1 - node}.json").unlink()
    records.refused(records.state / f"ranks.{node}.json", "commit.json is missing", "move the directory away")
    assert not (records.state / "commit.json").exists()


def test_a_member_with_saves_of_attempts_that_node_0_knows_nothing_of(records):
    """Node 0's disk was replaced, and the other nodes have disks of their own."""
    commit_on_two(records)
    (records.state / "commit.json").unlink()
    (records.state / "ranks.0.json").unlink()
    (records.state / "ranks.1.json").rename(records.dir / "ranks.1.json")
    away = ["--no-checkpoint-shared", "--state-dir", records.dir]
    port = free_port()
    runs = [records.run("--cluster-nodes", f"127.0.0.1:{port},127.0.0.2", "--node-rank", rank, *IMPATIENT,
                        *(away if rank else away[:1]), count=1) for rank in (0, 1)]
    (chief, member), told = refused_by_all(runs)
    assert "ranks.1.json was written by attempt 1" in member
    assert "has lost its commit.json; put that file back" in chief, "long paths cut the middle out"
    assert told == ["", ""]


def test_a_rank_of_a_launcher_whose_save_is_lost(records):
    """pchrun learns the rank when it attaches; such a rank does not train either."""
    commit_on_two(records)
    file = records.state / "ranks.1.json"
    file.write_text(file.read_text().replace('"rank": 1', '"rank": 0'))
    runs = open_two(start_two(records, *IMPATIENT, "--procs-count", "null"), 0, 1)
    (_, member), told = refused_by_all(runs)
    assert "ranks.1.json does not tell where rank 1 of 2 saved it" in member and "resume=" not in told[1]


def test_a_save_without_paths_needs_none(records):
    """The program finds its checkpoint by the step alone; all the ranks have said so."""
    records.saved("saved 10")
    run = records.run()
    assert run.begin() == ["open supervised=1 same=1 resume=10 path=-"] * 2
    run.complete()


def test_a_rank_that_is_new_finds_the_save_for_all(records):
    """The job has more ranks than when it saved."""
    records.saved(["saved 10 at:///ckpt/all", "saved 10"])
    run = records.run(count=3)
    assert all(told.endswith("path=at:///ckpt/all") for told in run.begin())
    run.complete()


@pytest.mark.parametrize("count,lines,path", [
    (1, ["saved 10 at:///ckpt/0"], "at:///ckpt/0"),
    (2, ["saved 10 at:///ckpt/0", "saved 10 at:///ckpt/1"], "-"),
    (2, ["saved 10 at:///ckpt", "saved 10 at:///ckpt"], "at:///ckpt"),
], ids=["one rank", "each its own", "one name"])
def test_a_rank_that_is_new_gets_no_other_rank_s_part(records, count, lines, path):
    """None of several paths is the whole save. Without a path the program sees that it cannot resume."""
    records.saved(lines, count=count)
    run = records.run(count=3)
    told = run.begin()
    assert told[2].endswith(f" resume=10 path={path}")
    assert run.resume_path(2) == ("" if path == "-" else path)
    is_told = "rank 2 had no part in the save of step 10" in run.job.err
    assert is_told == (path == "-")
    for rank in range(count):
        assert told[rank].endswith(lines[rank].partition("saved 10 ")[2])
    run.complete()


def test_the_lock_names_its_holder(records):
    """The record does not name an attempt that has just begun."""
    run = records.begun(count=1)
    (records.state / "commit.json").unlink()
    second = records.world.launch("--checkpoint-dir", records.dir, "--checkpoint-lock-wait", "0", "--", "true")
    assert second.finish() == 125
    assert second.err.count(f"process {run.job.pid} on {os.uname().nodename} still holds the state directory") == 2
    run.complete()


def test_the_directory_has_moved(records):
    """It is mounted elsewhere at the next start."""
    run = records.begun()
    for rank in range(2):
        (records.dir / f"part{rank}").touch()
    run.all(*(f"saved 10 {records.dir}/part{rank}" for rank in range(2)))
    run.complete()
    records.dir = records.dir.rename(records.world.root / "moved")
    records.state = records.dir / ".pchrun"
    run = records.run()
    assert [told.split("path=")[1] for told in run.begin()] == [f"{records.dir}/part{rank}" for rank in range(2)]
    assert "missing" not in run.job.err
    run.complete()


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_the_only_checkpoint_is_missing(records, where):
    """There is nothing to go back to. The ranks are sent to a path that is not there, so the log names it."""
    run = records.begun(count=1)
    part = (records.dir if where == "inside" else records.world.root) / "part"
    part.touch()
    run.all(f"saved 10 {part}")
    run.complete()
    part.unlink()
    run = records.run(count=1)
    assert run.begin()[0].endswith(f"path={part}")
    assert f"step 10 is committed, but {part} is missing, " in run.job.err
    assert (f"not below checkpoint.dir, {records.dir}" in run.job.err) == (where == "outside")
    run.complete()


OWN_DISK, OWN_RECORDS, SAID = "--checkpoint-dir={disk}", "--state-dir={disk}", "--no-checkpoint-shared"


@pytest.mark.parametrize("options, is_blind", [
    ([[OWN_DISK], [OWN_DISK]], True), ([[OWN_DISK, SAID], [OWN_DISK, SAID]], False),
    ([[OWN_RECORDS], [OWN_RECORDS]], False), ([[], [OWN_RECORDS]], False),
], ids=["not said", "said", "only the records", "only the records of node 1"])
def test_one_rank_saves_for_all_where_the_other_node_cannot_see_it(records, options, is_blind):
    """Each node has a disk of its own. The save was committed, and the rank on node 1 failed at each start. But a program
    may load on one rank, and send what it has loaded to the others; its user says so. It is no matter where the nodes
    share the checkpoints, and not the records."""
    needs_disk(records.world.root)
    entries = ",".join(f"127.0.0.{i + 1}:{free_port()}" for i in range(2))
    disks = [records.world.root / f"disk{node}" for node in range(2)]
    runs = [records.run("--cluster-nodes", entries, "--node-rank", node, *IMPATIENT,
                        *[option.format(disk=disk) for option in options[node]],
                        has_dir=OWN_DISK not in options[node], count=1)
            for node, disk in enumerate(disks)]
    for run in open_two(runs, 0, 1):
        assert "resume=0" in run.clients[0].line()
    for run in runs:
        run.all("step 1")
    if SAID not in options[0]:
        wait_until(lambda: "node 1 does not have node 0's" in runs[0].job.err, "node 0 to name node 1")
    file = (disks[0] if OWN_DISK in options[0] else records.dir) / "step-10"
    file.touch()
    runs[0].clients[0].tell(f"saved 10 {file}")
    runs[1].clients[0].tell("saved 10")
    assert [run.clients[0].line() for run in runs] == ["saved 10 continue"] * 2
    assert ("step 10 is durable on every rank" in runs[0].job.err) != is_blind
    assert ("step 10 is not committed: node 1 cannot see it: " in runs[0].job.err) == is_blind
    complete(runs)


OWN = [f"saved 10 at:///ckpt/{rank}" for rank in range(4)]
FEWER = "step 10 was saved by 4 ranks, each to its own path; this job has 2; "


def test_fewer_ranks_than_saved(records):
    """The parts of ranks 2 and 3 would be left out: the training would go on from half a state."""
    records.saved(OWN, count=4)
    records.refused(FEWER, "record.shrink", options=["--checkpoint-dir", records.dir, "-n", "2"])
    run = records.run("--record-shrink", "allow")
    assert [told.split("path=")[1] for told in run.begin()] == ["at:///ckpt/0", "at:///ckpt/1"]
    run.complete()


def test_fewer_nodes_than_saved(records):
    """Node 0 has no file of the ranks that are missing but those of the other nodes."""
    commit_on_two(records)
    records.refused("step 10 was saved by 2 ranks, each to its own path; this job has 1; ",
                    options=["--checkpoint-dir", records.dir, "-n", "1"])


def test_fewer_ranks_of_a_launcher_than_saved(records):
    """Only its processes tell how many there are. A process that looks for the resume step, and leaves, is no rank."""
    records.saved(OWN, count=4)
    look = 'printf "open rank=0 world=1\\n" | "$0" >"$1/looked"'
    run = records.run("--procs-count", "null", *IMPATIENT, count=1, before=look)
    run.clients[0].tell("open rank=0 world=1")
    assert run.clients[0].line().endswith("path=at:///ckpt/0")
    assert (run.folder / "looked").read_text().endswith("path=at:///ckpt/0\n")
    assert "each to its own path" not in run.job.err
    run.clients[0].tell("step 11")
    assert run.job.finish() == 125
    assert "end: failed, exit code 125: step 10 was saved by 4 ranks, each to its own path; this job has 1" in run.job.err
    assert records.steps() == [10]


@pytest.mark.parametrize("lines", [["saved 10 at:///ckpt"], ["saved 10 at:///ckpt", "saved 10"],
                                   ["saved 10 at:///ckpt/0", "saved 10 at:///ckpt/1"]],
                         ids=["one name", "one rank", "two groups"])
def test_fewer_ranks_that_have_all_parts(records, lines):
    """Every path was named by a rank that is still there, or all ranks named one."""
    records.saved(lines, count=4)
    run = records.run()
    paths = [(lines * 2)[rank].partition("saved 10 ")[2] or "at:///ckpt" for rank in range(2)]
    assert [told.split("path=")[1] for told in run.begin()] == paths
    run.complete()


@pytest.mark.parametrize("path", [b"/latin-\xfc", b"/\xff\xfe", b"/gr\xc3\xbc n \\\"x\"", b"/\x01\x7f"],
                         ids=["latin-1", "no text", "utf-8", "control"])
def test_a_path_is_any_bytes(records, path):
    """JSON is not."""
    path = os.fsdecode(os.fsencode(records.world.root) + path)
    with open(path, "wb"):
        records.saved(f"saved 10 {path}", count=1)
    run = records.run(count=1)
    assert path in run.begin()[0]
    assert run.resume_path(0) == path
    run.complete()


def test_a_save_that_one_rank_lacks_is_not_committed(records):
    """Half a checkpoint does not count."""
    run = records.begun("--grace", "400ms", *IMPATIENT)
    run.all("saved 10 at:///ckpt/a", "saved 10 at:///ckpt/b")
    run.clients[0].tell("saved 20 at:///ckpt/c")
    wait_until(lambda: [save["step"] for save in records.saves()] == [10], "the first record")
    run.job.end_by(signal.SIGTERM, 42)
    assert records.steps() == [10]
    run = records.begun()
    assert run.resume_path(0) == "at:///ckpt/a"
    run.complete()


def test_as_many_records_are_kept_as_were_asked_for(records):
    run = records.begun("--checkpoint-keep-records", "2")
    for step in range(10, 60, 10):
        run.all(f"saved {step} at:///ckpt/{step}")
    run.complete()
    assert records.steps() == [40, 50]
    kept = [save["step"] for save in records.saves()]
    assert kept[-2:] == [40, 50] and len(kept) <= 3


def test_fewer_records_than_there_were(records):
    """A smaller keep_records applies to the records that are there already."""
    records.saved(*(f"saved {step} at:///ckpt/{step}" for step in range(10, 60, 10)), count=1)
    assert records.steps() == [10, 20, 30, 40, 50]
    run = records.begun("--checkpoint-keep-records", "1", count=1)
    run.all("saved 60 at:///ckpt/60")
    run.complete()
    assert records.steps() == [60]


def test_every_start_is_counted(records):
    """Attempts in a row without a commit are counted, whatever their end; a commit starts anew."""
    counts = []
    for line in ("exit 3", "done", "saved 10", "done"):
        run = records.begun(count=1)
        run.clients[0].tell(line)
        if line.startswith("saved"):
            run.clients[0].line()
        run.ended()
        counts.append((records.commit()["attempt"], records.commit()["attempts_without_commit"]))
    assert counts == [(1, 1), (2, 2), (3, 0), (4, 1)]


def test_three_attempts_without_a_commit_are_enough(records):
    """Without a limit the scheduler would start the job for ever; an administrator must look."""
    assert [preempted(records)[0] for _ in range(3)] == [42, 42, 43]
    records.saved(["saved 10 at:///a", "saved 10 at:///b"])
    assert records.commit()["attempts_without_commit"] == 0
    assert [preempted(records, step=11)[0] for _ in range(3)] == [42, 42, 43]
    assert preempted(records, "--exit-no-progress-after", "0", step=11)[0] == 42


def test_a_hundred_preemptions_before_the_first_step_are_enough(records):
    """A source that always says "now", or a start that is longer than the time limit: none of the attempts counts,
    and the scheduler would start the job for ever. A step begins the count anew."""
    assert preempted(records, step=0)[0] == 42
    assert (records.commit()["attempts_without_commit"], records.commit()["attempts_without_step"]) == (0, 1)
    records.write("commit.json", {**records.commit(), "attempts_without_step": 98})
    assert preempted(records, step=0)[0] == 42
    assert records.commit()["attempts_without_step"] == 99
    assert preempted(records, "--exit-no-progress-after", "0", step=0)[0] == 42
    assert records.commit()["attempts_without_step"] == 100
    code, said = preempted(records, step=0)
    assert code == 43
    assert "101 attempts in a row were preempted before the first step (is a notice never over, or the start " in said
    records.write("commit.json", {**records.commit(), "attempts_without_commit": 0, "attempts_without_step": 99})
    assert preempted(records)[0] == 42
    assert records.commit()["attempts_without_step"] == 0


def test_files_are_replaced_as_a_whole(records):
    """A reader sees a whole record at any instant, the old or the new one."""
    records.state.mkdir(parents=True)
    watch = Watch(records.state)
    run = records.begun()
    seen = set()
    for step in (10, 20, 30):
        run.all(f"saved {step} at:///ckpt/{step}")
        seen.add((records.state / "commit.json").stat().st_ino)
    run.complete()
    events = watch.next(0)
    watch.close()
    ours = [(mask, name) for mask, name in events if name in ("commit.json", "ranks.0.json")]
    assert {mask for mask, _ in ours} == {Watch.MOVED_TO}
    assert [name for _, name in ours].count("ranks.0.json") == 3
    assert len(seen) > 1


def test_directories_that_are_missing(records):
    """The checkpoints' directory is made if its parent exists, and so is the state directory in it."""
    assert not records.dir.exists()
    records.saved("saved 10 at:///a", count=1)
    assert records.steps() == [10]


def test_without_a_directory_nothing_is_recorded(records):
    """The log says so once, when a process attaches, and the end names no commit."""
    run = records.begun("--grace", "20s", count=1, has_dir=False)
    run.all("saved 1 at:///a")
    assert run.job.err.count("no checkpoint.dir is set") == 1 and "--checkpoint-dir DIRECTORY" in run.job.err
    save_at_notice(run)
    assert run.job.finish() == 42
    assert "is saved on every rank, but no record says so (no checkpoint.dir)" in run.job.err
    assert "durable" not in run.job.err
    assert "saved without a record (no checkpoint.dir) at step " in run.job.err_lines[-1]
    assert "committed" not in run.job.err


def test_a_directory_that_cannot_be_made(records):
    """Scratch is not mounted: a job that trains there for a day loses that day."""
    inner = records.dir / "run7"
    records.refused(inner, "missing", "mounted", options=["--checkpoint-dir", inner])
    records.refused(inner, "mounted", options=["--state-dir", inner])
    records.refused("/proc/.pchrun", "does not allow it", options=["--checkpoint-dir", "/proc"])
    records.dir.write_text("a file")
    records.refused(records.dir, "Not a directory")
    records.dir.unlink()
    assert not records.dir.exists()


def test_a_member_that_cannot_write(world, records):
    """Every node has a part in the record; so this node starts nothing either."""
    job = world.act("say started", code=125, options=[
        "--cluster-nodes", "127.0.0.1,127.0.0.2", "--node-rank", "1", "--cluster-join-timeout", "1s",
        "--checkpoint-dir", records.dir / "run7"])
    assert "mounted" in job.err_lines[-1] and not world.events.all("started")


def test_a_file_system_that_is_read_only(small_disk):
    """Nothing is started that could not be committed."""
    small_disk.refused(small_disk.dir, "Read-only file system", env={"DISK": "ro"})
    assert not small_disk.state.exists()


def test_a_disk_that_is_full_at_the_start(small_disk):
    small_disk.refused("No space left on device", "nothing is started", env={"DISK": "full"})


def test_a_file_system_that_does_not_answer(world, records):
    """The process that looks hangs in the file system; the start does not."""
    job = world.act("say started", options=["--checkpoint-dir", records.dir], env=world.gates("child-after-fork"))
    assert job.finish(30) == 125
    assert len(job.err_lines) == 1 and "reachable" in job.err and str(records.state) in job.err
    assert not world.events.all("started")


# --- the next start -------------------------------------------------------------------------------

def test_where_the_next_start_resumes(records):
    """After a failure a user wants to know how much is left."""
    def fails(run, text, step, path):
        assert run.ended() == 3
        assert f" next: the next start {text}" in run.job.err_lines[-2] and " end: failed, " in run.job.err_lines[-1]
        assert json.loads((records.state / "report.0.json").read_text())["next_start"] == {"step": step, "path": path}
    run = records.begun(count=1)
    run.clients[0].tell("exit 3")
    fails(run, "begins anew: nothing was committed", 0, None)
    run = records.begun(count=1)
    run.all("saved 10 at:///a")
    run.clients[0].tell("exit 3")
    fails(run, "resumes at step 10 of at:///a", 10, "at:///a")
    fails(records.run(count=1, before="exit 3"), "resumes at step 10 of at:///a", 10, "at:///a")
    run = records.begun(count=1)
    run.complete()
    assert "the next start" not in run.job.err
    assert json.loads((records.state / "report.0.json").read_text())["next_start"] is None


def test_without_a_state_directory_the_next_start_begins_anew(records):
    run = records.begun(count=1, has_dir=False)
    run.all("saved 10 at:///a")
    run.clients[0].tell("exit 3")
    assert run.ended() == 3
    assert run.job.err_lines[-2].endswith(
        " next: the next start begins anew: without checkpoint.dir or state_dir no commit is kept")


# --- two at once ----------------------------------------------------------------------------------

def held_by(run):
    """The text that names the run which holds the directory."""
    return f"attempt 1 (process {run.job.pid} on "


def test_a_replacement_waits_for_the_old_one(records):
    """A scheduler starts the replacement too early. The replacement resumes at the old run's last save."""
    old = records.begun(count=1)
    new = records.run(count=1)
    wait_until(lambda: "waiting for its end" in new.job.err, "the new one to wait")
    assert held_by(old) in new.job.err and str(records.state) in new.job.err
    old.all("saved 10 at:///a")
    old.complete()
    assert "resume=10 path=at:///a" in new.begin()[0]
    new.all("saved 20 at:///b")
    new.complete()
    assert records.steps() == [10, 20] and records.commit()["attempt"] == 2


def test_a_second_start_gives_up(world, records):
    """A user starts a job twice, by mistake. The second start names the first, and leaves the record alone."""
    old = records.begun(count=1)
    job = world.act("say started", options=["--checkpoint-dir", records.dir, "--checkpoint-lock-wait", "200ms"],
                    code=125)
    assert held_by(old) in job.err_lines[-1] and "after 200ms" in job.err_lines[-1]
    assert "commit.lock" in job.err_lines[-1]
    assert not world.events.all("started")
    old.all("saved 10 at:///a")
    old.complete()
    assert records.steps() == [10] and records.commit()["attempt"] == 1


def test_another_job_has_the_directory(world, records):
    """The error names the other job, and does not advise to remove its lock."""
    old = records.begun(count=1)
    job = world.act("say started",
                    options=["--job", "another", "--checkpoint-dir", records.dir, "--checkpoint-lock-wait", "200ms"],
                    code=125)
    assert held_by(old).replace(" (", ' of job "pchrun" (', 1) in job.err_lines[-1]
    assert job.err_lines[-1].endswith("; give each job a checkpoint.dir or state_dir of its own")
    assert not world.events.all("started")
    old.complete()


@pytest.mark.parametrize("number,code", [(signal.SIGTERM, 42), (signal.SIGINT, -signal.SIGINT)])
def test_a_signal_ends_the_wait(world, records, number, code):
    """Nothing has been started yet."""
    old = records.begun(count=1)
    job = world.act("say started", options=["--checkpoint-dir", records.dir])
    wait_until(lambda: "waiting for its end" in job.err, "it to wait")
    job.end_by(number, code)
    outcome = "preempted, exit code 42" if code == 42 else "interrupted, exit code 130"
    assert f" end: {outcome}: " in job.err_lines[-1]
    assert "nothing was started" in job.err_lines[-1]
    assert not world.events.all("started")
    old.complete()


@pytest.mark.killed
def test_who_is_killed_while_it_waits_waits_no_more(world, records):
    """A waiting helper would take the lock from later starts, without any use."""
    old = records.begun(count=1)
    job = world.act("say started", options=["--checkpoint-dir", records.dir])
    wait_until(lambda: "waiting for its end" in job.err, "it to wait")
    helpers = children_of(job.pid)
    assert helpers
    job.kill()
    wait_until(lambda: not any(is_alive(pid) for pid in helpers), "the end of its helpers", 3)
    old.complete()


@pytest.mark.killed
def test_a_dead_holder_holds_nothing(records):
    old = records.begun(count=1)
    old.all("saved 10 at:///a")
    old.job.kill()
    new = records.run(count=1)
    assert "resume=10 path=at:///a" in new.begin()[0]
    new.complete()


@pytest.mark.parametrize("has_locks", [False, True], ids=["no locks", "removed lock"])
@pytest.mark.parametrize("has_saved", [False, True], ids=["commit", "save"])
def test_the_record_refuses_who_was_replaced(world, records, has_locks, has_saved):
    """Without locks, the old run's commit may come later and must not replace the new run's record. The process
    that gets the refusal ends: its training is lost, and it saves where the new run has its files. A removed
    lock file has the same effect."""
    if not has_locks:
        world.env.update(world.shim("nolocks", SHIM_NO_LOCKS=records.dir))
    old = records.begun(*IMPATIENT, count=1)
    old.all("saved 10 at:///a")
    assert ("cannot be locked: Function not implemented" in old.job.err) == (not has_locks)
    (records.state / "commit.lock").unlink()
    new = records.run(count=1)
    assert "resume=10 path=at:///a" in new.begin()[0]
    if has_saved:
        new.all("saved 20 at:///b")
    old.clients[0].tell("saved 15 at:///old")
    assert old.job.finish() == 125
    last = old.job.err_lines[-1]
    assert " end: failed, exit code 125: " in last
    assert f"attempt 2 (process {new.job.pid} on " in last and "has taken over the job" in last
    steps = [10, 20] if has_saved else [10]
    assert records.commit()["attempt"] == 2 and records.steps() == steps
    assert [save["step"] for save in records.saves()] == (steps if has_saved else [10, 15])
    assert new.all("saved 30 at:///b")
    new.complete()
    assert records.steps() == [*steps, 30]
    assert [save["step"] for save in records.saves()] == [*steps, 30]


def test_the_record_refuses_a_node_0_of_an_older_epoch(records):
    """Another node 0 of the same attempt owns the record. So nothing of the old one may replace it."""
    old = records.begun(*IMPATIENT, count=1)
    old.all("saved 10 at:///a")
    assert records.commit()["epoch"] == 0
    records.write("commit.json", {**records.commit(), "epoch": 1})
    old.clients[0].tell("saved 15 at:///old")
    assert old.job.finish() == 125
    assert "another node 0" in old.job.err_lines[-1] and "of epoch 1, has taken over the job" in old.job.err_lines[-1]
    assert (records.steps(), records.commit()["epoch"]) == ([10], 1)


# --- damage ---------------------------------------------------------------------------------------

# One of each kind: tests/unit/test_record.c has the other ways in which a record is damaged.
DAMAGE = {
    "a later schema": ("commit.json", b'{"schema": 99, "job": "pchrun", "attempt": 1,'
                                      b' "attempts_without_commit": 0, "commits": []}'),
    "no JSON": ("commit.json", bytes(range(256))),
    "ranks, another job's": ("ranks.0.json", b'{"job": "other"}'),
}


@pytest.mark.parametrize("name,data", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_record_stops_the_start(records, name, data):
    """A start from scratch would overwrite the old training: the user must decide that."""
    records.state.mkdir(parents=True)
    (records.state / name).write_bytes(data)
    job = records.refused(records.state / name)
    is_other = b"other" in data
    assert ("move the state directory away" in job.err) != is_other
    assert ("a checkpoint.dir or state_dir of its own" in job.err) == is_other
    assert (records.state / name).read_bytes() == data
    assert {path.name for path in records.state.iterdir()} <= {name, "commit.lock"}


# A record without a name belongs to no other job. The advice to give each job its own directory would not help.
@pytest.mark.parametrize("name, content, text", [
    ("commit.json", "{}", "names no job; it is damaged"), ("commit.json", None, "commit.json"),
    ("ranks.0.json", None, "ranks.0.json")], ids=["no name", "a directory", "ranks, a directory"])
def test_a_directory_or_no_name_in_place_of_the_record(records, name, content, text):
    records.state.mkdir(parents=True)
    if content is None:
        (records.state / name).mkdir()
    else:
        (records.state / name).write_text(content)
    records.refused(text)


@pytest.mark.parametrize("name", ["commit.json", "ranks.0.json"])
def test_a_directory_that_gets_in_the_way(records, name):
    """While the job runs. A save that cannot be recorded is not committed, and the notice ends unsaved."""
    run = records.begun("--grace", "20s", *IMPATIENT, "--exit-preempted-unsaved", "45", count=1)
    wait_until((records.state / "commit.json").exists, "the first record")
    (records.state / name).unlink(missing_ok=True)
    (records.state / name).mkdir()
    save_at_notice(run)
    assert run.job.finish() == 45
    told = [line for line in run.job.err_lines if name in line and " report: " not in line]
    assert len(told) == 3 and all("Is a directory" in line for line in told), run.job.err
    assert " ending: preempted_unsaved: " in told[1]
    assert " end: preempted_unsaved, exit code 45: " in told[2]
    (records.state / name).rmdir()


@pytest.mark.parametrize("restarts, has_dir, code", [("0", False, 42), ("1", False, 42), ("2", False, 43), ("2", True, 42)])
def test_without_a_directory_the_scheduler_counts_the_starts(records, restarts, has_dir, code):
    """Each start begins at step 0 and is preempted: without a limit this would go on for ever. Slurm counts the starts."""
    slurm = {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": restarts}
    run = records.begun("--grace", "20s", count=1, has_dir=has_dir, env=slurm)
    save_at_notice(run)
    assert run.job.finish() == code
    start = f": start {int(restarts) + 1} without checkpoint.dir: no progress is kept"
    assert run.job.err.count(start) == (not has_dir and restarts != "0")
    assert ("3 starts of this job, the last at the first step again" in run.job.err_lines[-1]) == (code == 43)


@pytest.mark.parametrize("step, code", [(5, 43), (5000, 42)])
def test_a_program_that_resumes_by_itself_is_not_ended(records, step, code):
    """It needs no record, and its first step shows that. A start at step 5 has begun anew."""
    run = records.run("--grace", "20s", count=1, has_dir=False,
                      env={"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "2"})
    run.all("open")
    run.all(f"step {step}")
    save_at_notice(run, step + 1)
    assert run.job.finish() == code


def save_at_notice(run, first=2):
    """Trains into the notice's round, and saves there. pchrun reads the steps when it hears of the notice."""
    os.kill(run.job.pid, signal.SIGTERM)
    wait_until(lambda: " notice: " in run.job.err, "pchrun to hear of the notice")
    for step in range(first, first + 1000):
        (heard,) = run.all(f"step {step}")
        if heard.endswith("save"):
            (heard,) = run.all(f"saved {step} at:///ckpt/{step}")
        if heard.endswith("exit"):
            run.clients[0].end_input()
            return
    raise AssertionError("there was no round")


# --- a full disk ----------------------------------------------------------------------------------

@pytest.fixture
def small_disk(world, records):
    """A tmpfs of a few pages over the checkpoints' directory, in a mount namespace of its own."""
    needs_namespace("--mount")
    records.dir.mkdir()
    wrapper = world.file("wrapper", "#!/bin/sh\n"
                         f"mount -t tmpfs -o size=64k none '{records.dir}' || exit 99\n"
                         f"[ \"$DISK\" != full ] || cat /dev/zero >'{records.dir}/fill' 2>&-\n"
                         f"[ \"$DISK\" != ro ] || mount -o remount,ro '{records.dir}' || exit 99\n"
                         f"exec '{world.pchrun}' \"$@\"\n", mode=0o755)
    outer = world.file("outer", f"#!/bin/sh\nexec unshare --mount '{wrapper}' \"$@\"\n", mode=0o755)
    world.pchrun = str(outer)
    return records


def fill_up(run, records):
    """Also the page that a file gives back whose next contents were being written when the disk became full."""
    place = Path(f"/proc/{run.job.pid}/root{records.dir}")

    def is_full():
        with contextlib.suppress(OSError), open(place / "fill", "ab", buffering=0) as fill:
            while True:
                fill.write(bytes(4096))
        return not list(place.rglob("*.tmp")) and os.statvfs(place).f_bavail == 0
    wait_until(is_full, "a full disk")


def test_no_room_for_the_record(small_disk):
    """The save fails, nothing is committed, the log says why, and no half-written file fills the disk."""
    records = small_disk
    run = records.begun("--grace", "20s", *IMPATIENT, "--exit-preempted-unsaved", "45", count=1)
    fill_up(run, records)
    state = os.open(f"/proc/{run.job.pid}/root{records.state}", os.O_RDONLY | os.O_CLOEXEC)
    save_at_notice(run)
    assert run.job.finish() == 45
    told = [line for line in run.job.err_lines if "ranks.0.json" in line]
    assert len(told) == 3, run.job.err
    assert " save: cannot write " in told[0] and "No space left on device" in told[0]
    assert " ending: preempted_unsaved: " in told[1], "the outcome, and why"
    assert " end: preempted_unsaved, exit code 45: " in told[2], "and once more when all have ended"
    assert set(os.listdir(state)) <= {"commit.json", "commit.lock", "report.0.json",
                                      "events.0.jsonl", "ledger"}
    os.close(state)
