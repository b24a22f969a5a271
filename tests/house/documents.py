#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""documents: checks that what README, CONTRIBUTING, DESIGN and pchrun(1) say is true.

usage: documents.py USR              the usr folder of an installation, as `meson install` made it
       documents.py --pages FOLDER   the folder of documents of a package: only whether their links lead to a file there

README has the right parts in their order; DESIGN is not too long. README's C compiles against the installed pch.h, the
installed pchrun accepts its JSON, and its difference is a short one between two programs. All files, settings and flags that the pages name exist; the settings are those of the
schema that pchrun prints. Both tables of exit codes have the same rows, with the default codes. The links of these pages,
of docs and of contrib lead somewhere. Prints each fault; the exit status is 1 if there is one.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README_ADDED_MAX = 8  # a difference that a reader takes in at once
DESIGN_LINES_MAX = 350
README_PARTS = ["pchrun", "Install", "The difference", "Without any change", "A preemption, tried", "Several nodes", "Slurm",
                "Kubernetes", "When something fails", "Instead of", "Limits", "Exit codes", "In C",
                "Try it, test it", "Read on"]
PLACES = r"(?:src|include|tests|man|contrib|docs)(?:/[\w.-]+)+"
OTHERS_FLAGS = {"acknowledge", "armor", "atomic", "cflags", "detach-sign", "full", "kill-on-bad-exit", "libs", "long",
                "newversion", "nodes", "ntasks-per-node", "only", "open-mode", "release", "shared", "signal"}

LOOP = """#include <pch.h>
uint64_t load_checkpoint(const char *path);
void train_one_step(void);
void save_checkpoint(const char *path, uint64_t step);
int train(const char *path, uint64_t last_step);
int train(const char *path, uint64_t last_step)
{
%s    return 0;
}
"""


def block(text, language):
    return re.search(rf"^```{language}\n(.*?)^```", text, re.S | re.M)[1]


def readme_shape(readme):
    parts = re.findall(r"^#+ (.*)", re.sub(r"^```.*?^```", "", readme, flags=re.S | re.M), re.M)
    if parts != README_PARTS:
        yield f"README.md has the parts {parts}, not {README_PARTS}"


def both_sides(difference):
    """(the text before, the text after) of a difference without its headers, or of one hunk."""
    lines = difference.splitlines(keepends=True)
    return ["".join(line[1:] or "\n" for line in lines if line[0] != sign) for sign in "+-"]


def readme_difference(readme):
    added = re.findall(r"^\+.", block(readme, "diff"), re.M)
    if len(added) > README_ADDED_MAX:
        yield f"README.md's difference adds {len(added)} lines, more than {README_ADDED_MAX}"
    for program in both_sides(block(readme, "diff")):
        try:
            compile(program, "train.py", "exec")
        except SyntaxError as error:
            yield f"README.md's difference is not Python on both sides: {error}"


def readme_code(readme, include):
    """Compiles README's loop in C, and where there is g++ in C++, with all warnings."""
    for language in ["c", *(["c++"] if shutil.which("g++") else [])]:
        compiled = subprocess.run(
            ["gcc", f"-x{language}", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only",
             f"-I{include}", "-"], input=LOOP % block(readme, "c"), text=True, capture_output=True,
            check=False)
        if compiled.returncode:
            yield f"README.md's loop does not compile as {language}:\n{compiled.stderr}"


def readme_config(readme, pchrun):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as config:
        config.write(block(readme, "json"))
        config.flush()
        shown = subprocess.run([pchrun, "-c", config.name, "--node-rank", "0", "--print-config"],
                               text=True, capture_output=True, check=False)
    if shown.returncode:
        yield f"pchrun refuses README.md's configuration: {shown.stderr}"


def places_exist(name, text):
    for place in sorted(set(re.findall(rf"\b{PLACES}", text))):
        if not (ROOT / place.rstrip(".")).exists():
            yield f"{name} names {place}, which does not exist"


def headings(page):
    """The anchors of a page, as GitHub makes them of its headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)", text, re.M)}


def links_lead(page, text):
    for link in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in headings(target)):
            yield f"{page} has a link to {link}, which does not exist"


def settings(schema, prefix=""):
    """Every key of the configuration, "a.b_c"."""
    for name, value in schema.get("properties", {}).items():
        yield prefix + name
        yield from settings(value, f"{prefix}{name}.")


def settings_exist(name, text, known, flags):
    groups = {key.split(".")[0] for key in known if "." in key}
    for key in sorted(set(re.findall(r"\b([a-z]+\.[a-z_]+)\b(?!\()", text))):
        if key.split(".")[0] in groups and key not in known:
            yield f"{name} names the setting {key}, which does not exist"
    for flag in sorted(set(re.findall(r"(?:[ `(]-|Fl )-([a-z][a-z-]+)", text)) - OTHERS_FLAGS):
        if flag not in flags:
            yield f"{name} names the flag --{flag}, which does not exist"


def exit_codes(readme, manual, schema):
    """README names the setting in brackets, pchrun(1) in a column."""
    tables = {
        "README.md": re.findall(r"^\| (\d+)(?:, \d+)? \|(?:.*`(exit\.\w+)`)?", readme, re.M),
        "pchrun(1)": re.findall(r'^\.It (\d+) Ta (?:Cm (\S+)|"") Ta', manual, re.M),
    }
    group = schema["properties"]["exit"]["properties"]
    known = {f"exit.{name}": str(value["default"]) for name, value in group.items()}
    for name, rows in tables.items():
        for code, setting in rows:
            if setting and known.get(setting) != code:
                yield f"{name} says that {setting} is {code}; its default is {known.get(setting)}"
    ours, theirs = (set(rows) for rows in tables.values())
    for code, setting in sorted(ours ^ theirs - {("127", "")}):
        yield f"the exit code {code} {setting} is in only one of README.md and pchrun(1)"


def pages_lead(folder):
    """The faults of the pages of a package, which has other files than the sources."""
    pages = sorted(folder.glob("**/*.md"))
    if not {"README.md", "NEWS.md", "SECURITY.md", "docs/FAQ.md"} <= {str(page.relative_to(folder)) for page in pages}:
        yield f"{folder} has only these pages: {pages}"
    for page in pages:
        yield from links_lead(page, page.read_text())


def main():
    if sys.argv[1:2] == ["--pages"] and len(sys.argv) == 3:
        sys.exit("\n".join(pages_lead(Path(sys.argv[2]))) or 0)
    if len(sys.argv) != 2:
        sys.exit(__doc__.split("\n\n")[1])
    usr = Path(sys.argv[1])
    pchrun = usr / "bin/pchrun"
    if not pchrun.exists():
        sys.exit(f"{pchrun} does not exist: the documents cannot be checked")
    names = ("README.md", "CONTRIBUTING.md", "DESIGN.md", "SECURITY.md", "man/pchrun.1")
    texts = {name: (ROOT / name).read_text() for name in names}
    readme = texts["README.md"]
    faults = [*readme_shape(readme), *readme_difference(readme), *readme_code(readme, usr / "include"), *readme_config(readme, pchrun)]
    if texts["DESIGN.md"].count("\n") > DESIGN_LINES_MAX:
        faults.append(f"DESIGN.md has more than {DESIGN_LINES_MAX} lines")
    schema = subprocess.run([pchrun, "--print-schema"], text=True, capture_output=True, check=True)
    schema = json.loads(schema.stdout)
    known = set(settings(schema))
    faults += exit_codes(readme, texts["man/pchrun.1"], schema)
    helped = subprocess.run([pchrun, "--help", "all"], text=True, capture_output=True, check=True)
    flags = set(re.findall(r"--(?:\[no-\])?([a-z][a-z-]+)", helped.stdout))
    for name, text in texts.items():
        faults += [*places_exist(name, text), *settings_exist(name, text, known, flags)]
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("contrib/**/*.md")]:
        name, text = str(page.relative_to(ROOT)), page.read_text()
        faults += [*links_lead(page, text), *([] if name in texts else places_exist(name, text))]
    with tempfile.TemporaryDirectory() as packaged:
        subprocess.run([ROOT / "docs/pages.sh", packaged], check=True)
        faults += pages_lead(Path(packaged))
    print("\n".join(faults) or "the documents agree with the programs in all that is checked")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
