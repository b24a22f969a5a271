# SPDX-License-Identifier: Apache-2.0
"""test_options: pchrun.json(5) has each option and each preset, and what it says of them is what the program does."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "man/pchrun.json.5").read_text()
# For each kind of value, one that is above every limit, and how the schema shows the kind.
TOO_LARGE = {"9999999999": '"minimum"', "9999d": "|ms|s|m|h|d)", "9999999T": "[BKMGT]"}
ENV = {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}


def pchrun(*args):
    return subprocess.run([os.environ["PCHRUN"], *args], env=ENV, text=True, capture_output=True, check=False)


def part(title):
    return re.search(rf"^\.Sh {title}\n(.*?)(?=^\.Sh )", PAGE, re.S | re.M)[1]


def items(text, macro):
    """{name: the text below it}"""
    pieces = re.split(rf"^\.It {macro} (\S+).*\n", text, flags=re.M)
    return dict(zip(pieces[1::2], pieces[2::2]))


def rows(schema, prefix=""):
    for name, row in schema["properties"].items():
        if "properties" in row:
            yield from rows(row, f"{name}.")
        elif not name.startswith("$"):
            yield prefix + name, row


OPTIONS = dict(rows(json.loads(pchrun("--print-schema").stdout)))
MANUAL = items(part("OPTIONS"), "Cm")


def default_of(row):
    value = row["default"]
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ",".join(f"{key}={word}" for key, word in value.items())
    return ",".join(value) if isinstance(value, list) else str(value)


def binding():
    """The options that must be the same on all nodes, by the rows of the option table."""
    table = (ROOT / "src/config/options.c").read_text()
    for row in re.findall(r"^\{\n(.*?)^\},", table, re.S | re.M):
        key = re.search(r'key = "(\S+)"', row) or re.search(r"EXIT_(CODE)\((\w+)", row) or re.search(r"\(([\w.]+)", row)
        if ".is_binding" in row or key[1] == "CODE":
            yield f"exit.{key[2]}" if key[1] == "CODE" else key[1]


def other_names():
    """{key: [letter, second name]}, as --help shows them."""
    keys = {key.replace(".", "-").replace("_", "-"): key for key in OPTIONS}
    text = re.sub(r"\n {10,}", " ", pchrun("--help", "all").stdout)
    for letter, flag, rest in re.findall(r"^  (?:-(\w), )?--(?:\[no-\])?([\w-]+)(.*)", text, re.M):
        if flag in keys:
            yield keys[flag], [name for name in (letter, *re.findall(r"also -(-\S+)", rest)) if name]


def test_every_option_is_there():
    assert list(MANUAL) == list(OPTIONS)


@pytest.mark.parametrize("key", OPTIONS)
def test_its_values(key):
    row, kinds = OPTIONS[key], json.dumps(OPTIONS[key])
    value, default = re.search(r"^\.br\nValue: (.*?)\.\nDefault:\s(.*?) ?\.$", MANUAL[key], re.S | re.M).groups()
    limits = set()
    for large, sign in TOO_LARGE.items():
        said = pchrun(f"--{key.replace('.', '-').replace('_', '-')}={large}").stderr if sign in kinds else ""
        limits |= set(re.findall(r"out of range \((\S+ to \S+)\)", said))
    assert set(re.findall(r"\d\w* to \w+", value)) == limits
    assert value.endswith(", or null") == ("null" in row["type"])
    if "enum" in row:
        assert value == re.sub(", ([^,]+)$", r" or \1", ", ".join(row["enum"]))
    wanted = "null" if row["default"] is None else default_of(row)
    assert default == ("none" if not wanted else wanted if row["default"] is None else f".Li {wanted}")


def test_other_names():
    for key, names in other_names():
        also = re.search(r"^Also\n(.*?\.)$", MANUAL[key], re.S | re.M)
        assert re.findall(r"^\.Fl (\S+)", also[1] if also else "", re.M) == names, key


def test_what_all_nodes_share():
    assert {key for key, text in MANUAL.items() if "Must be the same on all nodes." in text} == set(binding())


@pytest.mark.parametrize("name", OPTIONS["preset"]["pattern"][2:].split(")")[0].split("|"))
def test_preset(name):
    """The settings that the page names are those that the program makes, and so is the source of notices."""
    text = items(part("PRESETS"), "Li")[name]
    sets = dict(re.findall(r"^\.Cm (\S+)\nto\n\.Li (\S+)", text, re.M))
    made = json.loads(pchrun(f"--preset={name}", "--print-config").stdout)
    assert {key for key, source in made["$sources"].items() if f"preset {name}" in source} == set(sets)
    for key, value in sets.items():
        found = made
        for word in key.split("."):
            found = found[word]
        if key == "signals":
            assert set(re.findall(r"(\w+)=", value)) == set(found) - {"TERM"}
        else:
            assert str(found) == value
    source = re.search(r"^In\n\.Cm notices\nits\n\.Li auto\nis\n\.Li (\w+)", text, re.M)
    if name != "auto" and name != "unreliable":
        assert made["$platform"]["notices"] == ([source[1]] if source else [])
