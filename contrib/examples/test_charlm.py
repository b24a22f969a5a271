# SPDX-License-Identifier: Apache-2.0
#
# The example without a supervisor: the same weights from every run and from every resume, and a clear
# line for each thing that can go wrong. CHARLM names the program. Every wait has a deadline, and no
# test leaves a process behind.

import os
import re
import resource
import signal
import socket
import struct
import subprocess
import time

import pytest

CHARLM = os.environ["CHARLM"]
DEADLINE_S = 30
STEPS = ["--steps", "60", "--log-every", "10", "--join-timeout", "20"]
# struct state: magic, digest, text, world, step; weights, mean and variance; rank, rng.
FRONT, BACK = 5 * 8, 2 * 8


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Job:
    """All ranks of one job, started at once."""

    def __init__(self, ranks, directory, *options, start=None, **popen):
        self.port = free_port()
        self.procs = {}
        for rank in range(ranks) if start is None else start:
            env = {k: v for k, v in os.environ.items() if not k.startswith("PCH_")}
            env.update(RANK=str(rank), WORLD_SIZE=str(ranks))
            self.procs[rank] = subprocess.Popen(
                [CHARLM, *STEPS, "--dir", directory, "--port", str(self.port), *options], env=env,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                **popen)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for proc in self.procs.values():
            if proc.poll() is None:
                proc.kill()
            proc.communicate()

    def wait(self):
        """{rank: (exit status, stdout, stderr)}"""
        end = time.monotonic() + DEADLINE_S
        done = {}
        for rank, proc in self.procs.items():
            out, err = proc.communicate(timeout=max(0.1, end - time.monotonic()))
            done[rank] = (proc.returncode, out, err)
        return done


def run(ranks, directory, *options, **popen):
    with Job(ranks, str(directory), *options, **popen) as job:
        return job.wait()


def digest(done):
    assert [code for code, _, _ in done.values()] == [0] * len(done), done
    return re.search(r"^digest ([0-9a-f]{16})$", done[0][1], re.M).group(1)


def refused(done, rank, text):
    code, _, err = done[rank]
    assert code == 1, done
    lines = [line for line in err.splitlines() if not re.search(r"saved step", line)]
    assert len(lines) == 1 and lines[0].startswith(f"charlm[{rank}]: ") and text in lines[0], err


def checkpoint(directory, step, rank=0, ranks=1):
    return directory / f"step-{step:08}.rank-{rank}-of-{ranks}"


@pytest.mark.parametrize("ranks", [1, 3])
def test_two_runs_end_with_equal_weights(tmp_path, ranks):
    first, second = (run(ranks, tmp_path / d) for d in "ab")
    assert digest(first) == digest(second)
    losses = [float(x) for x in re.findall(r"^step \d+ loss ([\d.]+)", first[0][1], re.M)]
    assert len(losses) == 6 and losses[-1] < losses[0] - 0.8
    assert all(out == "" for rank, (_, out, _) in first.items() if rank > 0)
    ends = [checkpoint(tmp_path / d, 60, rank, ranks).read_bytes() for d in "ab"
            for rank in range(ranks)]
    assert len({end[FRONT:-BACK] for end in ends}) == 1
    assert len({end[-BACK:] for end in ends}) == ranks


def test_ranks_and_text_matter(tmp_path):
    text = tmp_path / "text"
    text.write_text("the quick brown fox jumps over the lazy dog\n" * 20)
    done = [run(1, tmp_path / "a"), run(3, tmp_path / "b"), run(1, tmp_path / "c", "--text", str(text))]
    assert len({digest(d) for d in done}) == 3


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_resumed_run_ends_with_the_same_weights(tmp_path, ranks):
    whole = digest(run(ranks, tmp_path / "whole"))
    assert digest(run(ranks, tmp_path / "saved", "--save-every", "25")) == whole
    names = sorted(p.name for p in (tmp_path / "saved").iterdir())
    assert names == sorted(checkpoint(tmp_path, s, r, ranks).name for s in (25, 50, 60)
                           for r in range(ranks))
    for step in (25, 50, 60):
        done = run(ranks, tmp_path / "saved", "--resume", str(step))
        assert digest(done) == whole
        assert f"from step {step} to 60" in done[0][1]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved")
    digest(run(1, directory, "--save-every", "30"))
    return directory


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1:]


DAMAGE = {
    "empty": lambda d: b"",
    "a byte short": lambda d: d[:-1],
    "cut in the middle": lambda d: d[:len(d) // 2],
    "longer": lambda d: d + b"x",
    "zeros in the middle": lambda d: d[:5000] + bytes(4096) + d[9096:],
    "first weight": lambda d: flip(d, FRONT),
    "last byte": lambda d: flip(d, len(d) - 1),
    "zeros": lambda d: bytes(len(d)),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_checkpoint_is_refused(tmp_path, saved, how):
    whole = checkpoint(saved, 30).read_bytes()
    checkpoint(tmp_path, 30).write_bytes(DAMAGE[how](whole))
    refused(run(1, tmp_path, "--resume", "30"), 0, "damaged")


def test_no_byte_beside_the_weights_may_change(tmp_path, saved):
    whole = checkpoint(saved, 30).read_bytes()
    for at in [*range(FRONT), *range(len(whole) - BACK, len(whole))]:
        checkpoint(tmp_path, 30).write_bytes(flip(whole, at))
        refused(run(1, tmp_path, "--resume", "30"), 0, "damaged")


def test_another_jobs_checkpoint_is_refused(tmp_path, saved):
    def resume(*options):
        return run(1, tmp_path, "--resume", "30", *options)
    whole = checkpoint(saved, 30).read_bytes()
    text = tmp_path / "text"
    text.write_bytes(open("/usr/share/common-licenses/GPL-3", "rb").read() + b"\n")
    checkpoint(tmp_path, 30).write_bytes(whole)
    refused(resume("--text", str(text)), 0, "another --text")
    checkpoint(tmp_path, 30).write_bytes(checkpoint(saved, 60).read_bytes())
    refused(resume(), 0, "of step 60, and the job resumes at step 30")
    checkpoint(tmp_path, 30).unlink()
    refused(resume(), 0, "No such file")
    checkpoint(tmp_path, 30, 1, 2).write_bytes(whole)
    with Job(2, str(tmp_path), "--resume", "30", start=[1]) as job:
        refused(job.wait(), 1, "of rank 0 of 1, and this is rank 1 of 2")


def test_a_save_that_fails_is_told_and_leaves_no_trace(tmp_path):
    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
    done = run(1, tmp_path, "--save-every", "30", preexec_fn=small_files, restore_signals=False)
    code, out, err = done[0]
    assert code == 1 and "digest" not in out
    assert err.count("cannot write checkpoint") == 2 and err.count("File too large") == 2
    assert err.splitlines()[-1].endswith("the result could not be saved")
    assert list(tmp_path.iterdir()) == []


def test_a_lost_rank_ends_all_others(tmp_path):
    with Job(3, str(tmp_path), "--steps", "1000000") as job:
        assert job.procs[0].stdout.readline().startswith("charlm: 3 ranks")
        assert job.procs[0].stdout.readline().startswith("step ")
        job.procs[2].kill()
        done = job.wait()
    refused(done, 0, "lost rank 2")
    refused(done, 1, "lost rank 0")
    assert done[2][0] == -signal.SIGKILL


def test_missing_ranks_are_named(tmp_path):
    with Job(4, str(tmp_path), "--join-timeout", "1", start=[0, 2]) as job:
        refused(job.wait(), 0, "only 2 of 4 ranks are here")
    with Job(2, str(tmp_path), "--join-timeout", "1", start=[1]) as job:
        refused(job.wait(), 1, f"no rank 0 at 127.0.0.1 port {job.port} within 1 s: Connection refused")


def test_ranks_that_do_not_fit_are_refused(tmp_path):
    with Job(2, str(tmp_path), start=[0]) as job:
        env = dict(os.environ, RANK="1", WORLD_SIZE="2")
        other = subprocess.run(
            [CHARLM, *STEPS, "--dir", str(tmp_path), "--port", str(job.port), "--text", __file__], env=env,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=DEADLINE_S)
        refused(job.wait(), 0, "rank 1 cannot join")
    refused({1: (other.returncode, "", other.stderr)}, 1, "lost rank 0")


def test_a_stranger_does_no_harm(tmp_path):
    with Job(2, str(tmp_path), start=[0]) as job:
        end = time.monotonic() + DEADLINE_S
        while True:
            try:
                stranger = socket.create_connection(("127.0.0.1", job.port))
                break
            except ConnectionRefusedError:
                assert time.monotonic() < end
                time.sleep(0.01)
        with stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try:
                assert stranger.recv(100) == b""
            except ConnectionResetError:
                pass
        env = dict(os.environ, RANK="1", WORLD_SIZE="2")
        subprocess.run([CHARLM, *STEPS, "--dir", str(tmp_path), "--port", str(job.port)], env=env,
                       check=True, stderr=subprocess.DEVNULL, timeout=DEADLINE_S)
        digest(job.wait())


def test_bad_input_has_a_clear_line(tmp_path):
    short = tmp_path / "short"
    short.write_text("12345678")
    d = tmp_path / "d"
    refused(run(1, d, "--text", "/no/such/file"), 0, "/no/such/file (--text): No such file")
    refused(run(1, d, "--text", str(tmp_path)), 0, "Is a directory")
    refused(run(1, d, "--text", str(short)), 0, "too short: it needs more than 8 letters")
    refused(run(1, short / "x"), 0, "cannot make or open the checkpoint directory")
    refused(run(2, d, "--root", "nonsense"), 0, "--root nonsense --port")


@pytest.mark.parametrize("env, text", [
    ({"RANK": "2", "WORLD_SIZE": "2"}, "not a number from 0 to 1"),
    ({"RANK": "x", "WORLD_SIZE": "2"}, "is x: not a number"),
    ({"RANK": "0", "WORLD_SIZE": "0"}, "is 0: not a number"),
    ({"PCH_RANK": "5", "PCH_WORLD_SIZE": "3", "RANK": "0", "WORLD_SIZE": "1"}, "PCH_RANK (or RANK) is 5"),
])
def test_a_bad_place_is_refused(tmp_path, env, text):
    done = subprocess.run([CHARLM, "--dir", str(tmp_path)], env=dict(os.environ, **env),
                          capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 1 and text in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("options", [["--steps", "x"], ["--steps", "0"], ["--steps", "-1"],
                                     ["--steps", "1e9"],
                                     ["--steps"], ["--nonsense"], ["extra"], ["--text", ""],
                                     ["--steps", "0x10"]])
def test_wrong_options(options):
    done = subprocess.run([CHARLM, *options], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done


def test_help():
    done = subprocess.run([CHARLM, "--help"], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0 and "--save-every" in done.stdout and done.stderr == ""
