# SPDX-License-Identifier: Apache-2.0
"""test_completions: what bash, zsh and fish offer after pchrun and the programs beside it.

The expected words come from the programs: from --help all and from the schema. COMPLETIONS is the build's folder
of completions; PCHRUN, PCHCTL, PCHRUN_WATCH and PCHRUN_WEB are the programs.
"""

import json
import os
import re
import subprocess

import pytest
import shells

COMPLETIONS = os.environ["COMPLETIONS"]
PROGRAMS = {"pchrun": os.environ["PCHRUN"], "pchctl": os.environ["PCHCTL"],
            "pchrun-watch": os.environ["PCHRUN_WATCH"], "pchrun-web": os.environ["PCHRUN_WEB"]}


def said(program, *arguments):
    return subprocess.run([PROGRAMS[program], *arguments], text=True, capture_output=True, check=True).stdout


def flags_of(program):
    """Every name in the left column of --help all, and every name after "also"."""
    names = set()
    for row in said(program, "--help", "all").split("\n"):
        left = re.match(r"  (?=-)(?:-(\w), )?--(\[no-\])?([a-z-]+)", row)
        if left:
            letter, no, name = left.groups()
            names |= {f"--{name}"} | ({f"-{letter}"} if letter else set()) | ({f"--no-{name}"} if no else set())
    text = re.sub(r"\s+", " ", said(program, "--help", "all"))
    return names | set(re.findall(r"; also (--[a-z-]+)", text))


def schema_rows(node, prefix="-"):
    for key, value in node["properties"].items():
        if key.startswith("$"):
            continue
        name = f"{prefix}-{key.replace('_', '-')}"
        is_group = value.get("type") == "object" and "properties" in value
        yield from schema_rows(value, name) if is_group else [(name, value)]


@pytest.fixture(params=sorted(shells.SHELLS))
def offers(request, tmp_path):
    """offers(line, ...): what the shell offers at the end of each line. The shell's folder has two files and a
    directory; the command probe is in the PATH."""
    if not shells.is_there(request.param):
        pytest.skip(f"{request.param} is not installed")
    for name in ("train.py", "train.json"):
        (tmp_path / name).touch()
    (tmp_path / "trained").mkdir()
    (tmp_path / "bin").mkdir()
    probe = tmp_path / "bin" / "probe"
    probe.write_text("#!/bin/sh\n")
    probe.chmod(0o755)

    def ask(*lines):
        found = shells.SHELLS[request.param](lines, COMPLETIONS, tmp_path)
        # A shell may show a directory with its slash, and a flag with its "=".
        return [{offer.rstrip("/=") for offer in answer} for answer in found]

    ask.shell = request.param
    return ask


def test_every_flag_is_offered(offers):
    programs = list(PROGRAMS)
    for program, offered in zip(programs, offers(*(f"{program} -" for program in programs))):
        assert offered == flags_of(program)


def test_the_flags_are_those_of_the_schema(offers):
    rows = dict(schema_rows(json.loads(said("pchrun", "--print-schema"))))
    assert len(rows) > 70
    [offered] = offers("pchrun -v --")
    assert set(rows) <= offered


def words(offered, line):
    """The values alone: some shells repeat the flag before them."""
    return {offer.removeprefix(line.split(" ")[-1].rpartition("=")[0] + "=") for offer in offered}


def test_values_that_are_words_are_offered(offers):
    rows = dict(schema_rows(json.loads(said("pchrun", "--print-schema"))))
    choices = {name: set(row["enum"]) - {None} for name, row in rows.items() if "enum" in row}
    assert {"--log-format", "--log-level", "--save-mode"} <= set(choices)
    lines = [f"pchrun {name}{between}" for name in choices for between in " ="]
    answers = dict(zip(lines, offers(*lines)))
    for line, offered in answers.items():
        assert words(offered, line) == choices[re.search("--[a-z-]+", line)[0]], line


def test_other_values(offers):
    lines = ["pchrun --save-signal ", "pchrun --notices gce,az", "pchrun -c train", "pchrun --config=train",
             "pchrun --run-dir tr", "pchrun --exit-hook pro", "pchrun-watch --log-format ",
             "pchrun-watch --mild ", "pchctl --run-dir tr", "pchrun --preset sge,unr", "pchrun --help ", "pchrun -v -h ",
             "pchctl status tr", "pchrun-web --token-file train", "pchrun-web --job x --run-dir tr"]
    answers = dict(zip(lines, offers(*lines)))
    of = {line: {word.rpartition(",")[2] for word in words(offered, line)} for line, offered in answers.items()}
    assert {"USR1", "TERM"} <= of[lines[0]]
    assert of[lines[1]] == {"azure"}
    assert of[lines[2]] == of[lines[3]] == {"train.py", "train.json", "trained"}
    assert of[lines[4]] == of[lines[8]] == {"trained"}
    assert "probe" in of[lines[5]]
    assert of[lines[6]] == {"text", "json"}
    assert of[lines[7]] == {"log", "checkpoint"}
    assert of[lines[9]] == {"unreliable"}
    assert of[lines[10]] == of[lines[11]] == {"all"}
    assert "trained" in of[lines[12]]
    assert of[lines[13]] == {"train.py", "train.json", "trained"} and of[lines[14]] == {"trained"}


def test_nothing_is_offered_for_a_time_or_a_name(offers):
    lines = ["pchrun --grace ", "pchrun --grace=", "pchrun --job ", "pchrun -n ", "pchrun -vn ",
             "pchrun --drill ", "pchctl --in ", "pchrun-watch --lead ", "pchrun-web --listen "]
    assert offers(*lines) == [set()] * len(lines)


def test_a_command_is_completed_as_its_own(offers):
    lines = ["pchrun prob", "pchrun -- prob", "pchrun -v -n 8 --log-format=text --grace 5s prob",
             "pchrun --exit-reraise --config train.json -- prob"]
    for offered in offers(*lines):
        assert "probe" in offered
        assert not {offer for offer in offered if offer.startswith("-")}
    if offers.shell == "bash":  # probe has no completion of its own, so the shell offers files
        assert offers("pchrun -- probe tr", "pchrun -n 8 probe tr") == [{"train.py", "train.json", "trained"}] * 2
        return
    lines = ["pchrun -- probe pr", "pchrun probe pr", "pchrun -n 8 --cluster-bind n0:14 -- probe x pr",
             "pchrun --cluster-nodes n0:1,n1:2 probe pr"]
    assert offers(*lines) == [{"probe-one", "probe-two"}] * len(lines)


def test_no_flag_of_ours_stands_behind_the_command(offers):
    for offered in offers("pchrun -- probe --lo", "pchrun probe --lo", "pchrun -n 8 probe -"):
        assert not offered & flags_of("pchrun")


def test_a_program_without_arguments_has_none_offered(offers):
    assert offers("pchrun-web ", "pchrun-web --node 1 pro", "pchrun-web -- pro") == [set()] * 3


def takers(program, known):
    """The words that take a flag, from --help's "(status, stop)"; all words where there is no such list."""
    rows = re.findall(r"^  (?:-\w, )?(--[a-z-]+).*?(?: \(([a-z, ]+)\))?$", said(program, "--help"), re.M)
    return {name: set(only.split(", ")) if only and set(only.split(", ")) <= known else known
            for name, only in rows}


@pytest.mark.parametrize("program, known", [
    ("pchctl", {"status", "top", "checkpoint", "drain", "stop", "events", "goodput", "timeline"}),
    ("pchrun-watch", {"gce", "aws", "azure", "alibaba", "tencent", "slurm", "file",
                      "kubernetes", "pod", "trainjob"})])
def test_words_and_the_flags_that_go_with_them(offers, program, known):
    order = sorted(known)
    assert offers(f"{program} ", f"{program} --help ") == [known, known]
    wanted = takers(program, known)
    for word, offered in zip(order, offers(*(f"{program} {word} --" for word in order))):
        assert offered == {name for name in wanted if word in wanted[name]}, word


def test_a_source_that_is_a_file_is_followed_by_one(offers):
    files, none = offers("pchrun-watch file tr", "pchrun-watch gce tr")
    assert files == {"train.py", "train.json", "trained"}
    assert none == set()
