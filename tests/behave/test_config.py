# SPDX-License-Identifier: Apache-2.0
"""Bad configuration: exit 125 with one clear line, and nothing started."""

import json
import os
import signal

import pytest


def refused(world, *words, args=None, env=None, text=None):
    """pchrun refuses, with this text in its file."""
    args = list(args or [])
    if text is not None:
        path = world.root / "config.json"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        args = ["-c", path, *args]
    world.refused(*words, options=args, env=env)


# Reading a FIFO would wait for ever. PCHRUN_* is configuration and nothing else, so a typing error there is an error,
# too.
@pytest.mark.parametrize("args, env, words", [
    (["-c", "/no/such/file.json"], {}, ["configuration file", "/no/such/file.json", "No such file"]),
    ([], {"PCHRUN_CONFIG": "/no/such/file.json"}, ["/no/such/file.json"]),
    (["-c", "FOLDER"], {}, ["FOLDER"]), (["-c", "FOLDER/fifo"], {}, ["fifo"]),
    (["-c", "/dev/zero"], {}, ["/dev/zero"]),
    (["--grase", "1s"], {}, ["--grase", "--grace"]),
    ([], {"PCHRUN_GRASE": "1s"}, ["PCHRUN_GRASE", "PCHRUN_GRACE"]),
    (["--preset", "kubflow"], {}, ["--preset", "kubflow", "kubeflow", "tensorflow-gce"]),  # all presets are listed
], ids=["missing", "missing, by the environment", "folder", "pipe", "grows for ever", "flag", "variable", "preset"])
def test_a_file_or_name_that_is_none(world, args, env, words):
    """The error has the path as the user wrote it and the reason, or the nearest known name."""
    os.mkfifo(world.root / "fifo")
    refused(world, *(word.replace("FOLDER", str(world.root)) for word in words), env=env,
            args=[word.replace("FOLDER", str(world.root)) for word in args])


@pytest.mark.parametrize("text,where,advice", [
    ('{"grace": "1s",}', ":1:16: string or '}' expected near '}'", "none after the last"),
    ('{"grace": "1s" // why\n}', ":1:16: '}' expected near '/'", "no comment"),
    ('{"grace": "1s"\n"job": "x"}', ":2:5: '}' expected near '\"job\"'", "a comma between two values"),
    ('{\n  "grace": oops\n}', ":2:15: invalid token near 'oops'", 'each string in "double quotes"'),
    ('{\n\n  "job": "x"', ":3:12: '}' expected near end of file", "close each quote and bracket"),
    ("", ":1:1: '[' or '{' expected near end of file", "at least {}"),
    ("{} {}", ":1:4: end of file expected near '{'", "remove all that follows the last bracket"),
    ('{"job": "\\u12"}', ":1:14: invalid escape near", "double quotes"),
    ("{'single': 1}", ":1:2: string or '}' expected near", 'each string in "double quotes"'),
    ('{\n"job": "a\nb"}', ":2:9: unexpected newline near", "double quotes"),
], ids=["comma", "comment", "no comma", "word", "unfinished", "empty", "two values", "escape", "quotes", "line break"])
def test_not_json(world, text, where, advice):
    """The error has line and column, as a compiler's, and says what to do."""
    refused(world, "config.json" + where, advice, text=text)


@pytest.mark.parametrize("text", [b'{"job": "\xff"}', b'{"job": "a\0b"}', b"\x7fELF\x01\x02"],
                         ids=["not UTF-8", "NUL", "a program"])
def test_not_text(world, text):
    refused(world, "config.json:1:", text=text)


# A file over one mebibyte is no configuration, and must not be read whole to find that out. Deep nesting must not
# overflow the stack.
@pytest.mark.parametrize("text", ["[]", '"grace"', "3", "null", "true", '{"job": "' + "x" * (1 << 20) + '"}',
                                  "[" * 500_000],
                         ids=["list", "text", "number", "null", "true", "over one mebibyte", "deep"])
def test_not_an_object(world, text):
    refused(world, "config.json", text=text)


@pytest.mark.parametrize("text,unknown,nearest", [
    ('{"gracee": "1s"}', "gracee", "grace"),
    ('{"stop": {"termwait": "1s"}}', "termwait", "stop.term_wait"),
    ('{"checkpoints": {}}', "checkpoints", "checkpoint"),
    ('{"exit": {"preemted": 1}}', "preemted", "exit.preempted"),
], ids=["top", "inside", "object", "letter"])
def test_an_unknown_key_with_the_nearest(world, text, unknown, nearest):
    """Without an error the user would notice a misspelt key at the preemption, too late."""
    refused(world, unknown, nearest, text=text)


# Which of two equal keys holds is a guess; most readers take the last.
@pytest.mark.parametrize("text, key", [
    ('{"grace": 25}', "grace"), ('{"grace": null}', "grace"), ('{"grace": ["1s"]}', "grace"),
    ('{"procs": 4}', "procs"), ('{"procs": {"count": "4"}}', "procs.count"),
    ('{"procs": {"count": 4.5}}', "procs.count"), ('{"checkpoint": {"shared": 1}}', "shared"),
    ('{"signals": ["TERM"]}', "signals"), ('{"signals": {"TERM": 3}}', "TERM"),
    ('{"job": 7}', "job"), ('{"stop": {"leftovers": true}}', "leftovers"),
    ('{"signals": {"KILL": "ignore"}}', "KILL"), ('{"signals": {"TREM": "ignore"}}', "TERM"),
    ('{"signals": {"USR1": "explode"}}', "explode"), ('{"stop": {"leftovers": "keep"}}', "keep"),
    ('{"signals": {"USR1": {"grace": "1s"}}}', "USR1"),
    ('{"grace": "800d"}', "grace"), ('{"exit": {"preempted": 0}}', "preempted"),
    ('{"exit": {"preempted": 256}}', "preempted"), ('{"procs": {"count": 0}}', "count"),
    ('{"procs": {"count": 99999999999999999999}}', ""), ('{"cluster": {"port": 65536}}', "port"),
    ('{"cluster": {"heartbeat_interval": "99999999999999999h"}}', "heartbeat_interval"),
    ('{"grace": "1s", "grace": "2s"}', "grace"), ('{"stop": {"term_wait": "1s", "term_wait": "1s"}}', "term_wait"),
])
def test_a_wrong_type_or_word_or_range_or_a_duplicate(world, text, key):
    refused(world, key, text=text)


@pytest.mark.parametrize("value", ["25", "25 parsecs", "s", "-1s", "1e3s", "", "25s ", "0x1s"])
def test_a_wrong_unit(world, value):
    """A duration without its unit has been seconds in one program and milliseconds in the next."""
    refused(world, "grace", text=json.dumps({"grace": value}))


@pytest.mark.parametrize("how", [
    {"args": ["--checkpoint-dir", ""]}, {"env": {"PCHRUN_CHECKPOINT_DIR": ""}},
    {"text": '{"checkpoint": {"dir": ""}}'},
], ids=["flag", "environment", "file"])
def test_an_empty_value(world, how):
    """--checkpoint-dir "$SCRATCH/run7" without SCRATCH must not train for a day without a record."""
    refused(world, "empty", "null", **how)


def test_null_is_a_word(world):
    """null takes back a setting of the file."""
    path = world.file("config.json", '{"checkpoint": {"dir": "/ckpt"}, "report": "/r"}')
    job = world.launch("-c", path, "--checkpoint-dir", "null", "--print-config",
                       env={"PCHRUN_REPORT": "null"}, code=0)
    shown = json.loads(job.out)
    assert shown["checkpoint"]["dir"] is None and shown["report"] is None


def test_a_flag_given_twice_is_the_last(world):
    """As with other programs: a script adds its own flag behind the user's."""
    job = world.launch("--grace", "1s", "--grace", "2s", "--print-config", code=0)
    assert json.loads(job.out)["grace"] == "2s"


def test_precedence_and_its_sources(world):
    """Flag, environment, file, default; --print-config names the source of each value."""
    path = world.file("config.json",
                      '{"grace": "3s", "stop": {"term_wait": "3s", "exit_wait": "3s"}}')
    job = world.launch("-c", path, "--grace", "1s", "--print-config",
                       env={"PCHRUN_GRACE": "2s", "PCHRUN_STOP_TERM_WAIT": "2s"}, code=0)
    shown = json.loads(job.out)
    sources = shown["$sources"]
    assert shown["grace"] == "1s" and "flag" in sources["grace"]
    assert shown["stop"]["term_wait"] == "2s"
    assert "PCHRUN_STOP_TERM_WAIT" in sources["stop.term_wait"]
    assert shown["stop"]["exit_wait"] == "3s" and str(path) in sources["stop.exit_wait"]
    assert shown["stop"]["kill_wait"] == "5s" and sources["stop.kill_wait"] == "default"


# --- presets --------------------------------------------------------------------------------------


def test_what_was_detected_and_why(world):
    """The values of a platform are many: each value says where it comes from."""
    job = world.launch("--print-config", "--exit-hang", "7",
                       env={"PCHRUN_PRESET": "auto", "SLURM_JOB_ID": "17"}, code=0)
    shown = json.loads(job.out)
    assert list(shown)[0] == "$platform"
    assert shown["$platform"]["preset"] == "slurm"
    assert shown["$platform"]["why"] == "detected: SLURM_JOB_ID is set"
    assert shown["$platform"]["notices"][0] == "slurm"
    assert shown["$sources"]["grace"] == "preset slurm, detected: SLURM_JOB_ID is set"
    assert shown["$sources"]["exit.hang"] == "flag --exit-hang"
    assert shown["signals"] == {"TERM": "preempt", "USR1": {"do": "preempt", "grace": "55s"}}
    assert shown["exit"]["preempted"] == 42


def test_nothing_is_detected_without_a_preset(world):
    """none: pchrun in a job of Slurm's is as it is elsewhere."""
    job = world.launch("--print-config", env={"SLURM_JOB_ID": "17"}, code=0)
    shown = json.loads(job.out)
    assert shown["signals"] == {"TERM": "preempt"}
    assert not [text for text in shown["$sources"].values() if text.startswith("preset")]


@pytest.mark.parametrize("options,number,code", [
    (["--preset", "sge"], signal.SIGTERM, 99), (["--preset", "sge"], signal.SIGUSR2, 99),
    (["--preset", "sge", "--exit-preempted", "7"], signal.SIGUSR2, 7),
    (["--preset", "auto"], signal.SIGUSR1, 42),
    (["--preset", "auto", "--signals", "USR1=forward"], signal.SIGUSR1, 128 + signal.SIGUSR1),
], ids=["code", "signal", "code of the user's", "detected", "signal of the user's"])
def test_a_presets_codes_and_signals(world, options, number, code):
    """The preset has the scheduler's signals and codes on any machine; the user can replace each of them."""
    job = world.act("say ready pause", options=options, env={"SLURM_JOB_ID": "17"})
    job.end_by(number, code)
    assert ("preempted" in job.err) == (code < 128), job.err


def test_a_good_file_is_used(world):
    """A correct file takes effect, also with the key "$schema"."""
    path = world.file("config.json", json.dumps({
        "$schema": "pchrun.schema.json", "job": "run7", "procs": {"count": 2},
        "signals": {"USR1": {"do": "preempt", "grace": "20s"}}, "exit": {"preempted": 77,
                                                                     "preempted_unsaved": 77}}))
    job = world.act("record USR1 say ready until USR1", options=["-c", path])
    job.end_by(10, 77)


@pytest.mark.parametrize("options,written,where", [
    ({"cluster": {"nodes": ["a", "b"], "node_rank": 0, "key_file": "key.pem"}}, "key.pem", "key.pem"),
    ({"checkpoint": {"dir": "./no/such"}}, "./no/such", "no/such"),
    ({"logs": {"dir": "no/logs"}}, "no/logs", "no/logs"),
    ({"run_dir": "no/run"}, "no/run", "no/run"),
    ({"exit": {"hook": ["bin/hook.sh", "now"]}}, "bin/hook.sh", "bin/hook.sh"),
    ({"notices": [{"name": "rack", "command": ["bin/rack"]}]}, "bin/rack", "bin/rack"),
    ({"state_dir": "no/state"}, "no/state", "no/state"),
    ({"watchdog": {"diagnose": ["bin/spy"]}}, "bin/spy", "bin/spy"),
], ids=["key", "checkpoints", "logs", "run_dir", "hook", "notices", "state_dir", "diagnose"])
def test_a_path_that_is_relative_in_the_file(world, options, written, where):
    """The error has the path that was tried, and the one that the user wrote. Only a relative one has two."""
    path = world.root / "run7.json"
    path.write_text(json.dumps(options))
    job = world.launch("-c", path, "--", "true")
    assert job.finish() == 125
    assert str(world.root / where) in job.err
    assert job.err.rstrip().endswith(f' (file {path} has "{written}", which is relative to it)')
    path.write_text(json.dumps(options).replace(written, str(world.root / where)))
    job = world.launch("-c", path, "--", "true")
    assert job.finish() == 125 and str(world.root / where) in job.err and "which is relative" not in job.err
