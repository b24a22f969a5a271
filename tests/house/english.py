#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""english: finds the riddles in the tree's English. There may be none.

A riddle is a sentence that begins with "Who", "What" or "One that", or one of the words "whoever", "somebody"
and "nobody". It does not name the rank, node or user that it means. Comments, documents, manuals and texts of
two words or more are searched; questions, headings, quotations and code are not.

Prints each riddle with its place. The exit status is 1 if there is one.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

RIDDLE = re.compile(r"\b(?:(?:Who|What|One\s+that)\b(?!(?:[^.?!\n]|\n(?!\s*\n)|\.(?=\S))*\?)"
                    r"|(?i:whoever|somebody|nobody)\b)")
QUOTATION = re.compile(r"`[^`]+`|\"[^\"]{1,200}\"|(?<!\w)'[^'\n]{1,80}'(?!\w)|\\\(lq.*?\\\(rq", re.S)
DECORATION = re.compile(r"^\s*(?:/?\*+/?|//|#+)|\*/$", re.M)
IGNORED = {"build", "dist", "__pycache__"}

# How to find the comments and the texts of a file: adjacent texts are one, as the compiler sees it.
DOUBLE, SINGLE = r'"(?:\\.|[^"\\\n])*"', r"'(?:\\.|[^'\\\n])*'"
LONG = r'"""(?:\\.|[^\\])*?"""'


def pieces_of(comment, text, other):
    text = rf"[bf]?(?:{text})"
    return re.compile(rf"(?P<comment>{comment})|(?P<texts>{text}(?:\s*{text})*)|{other}", re.S | re.M)


C = pieces_of(r"/\*.*?\*/|(?:^\s*//[^\n]*\n?)+|//[^\n]*", DOUBLE, SINGLE)
PYTHON = pieces_of(r"(?:^[ \t]*#[^\n]*\n?)+|#[^\n]*", f"{LONG}|{DOUBLE}|{SINGLE}",
                   rf"\b[rbf]+(?:{LONG}|{DOUBLE}|{SINGLE})")
SCRIPT = pieces_of(r"(?:^[ \t]*#[^\n]*\n?)+|(?<=\s)#\s[^\n]*", DOUBLE, "$^")
MARKDOWN = re.compile(r"^ *```.*?^ *```|^#+ [^\n]*", re.S | re.M)
MANUAL = re.compile(r'^\.Bd -literal.*?^\.Ed|^\.S[hs] [^\n]*|^\.(?:Dq|Ql|Li) [^\n]*', re.S | re.M)
KINDS = {"c": C, "h": C, "pml": C, "py": PYTHON, "md": MARKDOWN, "1": MANUAL, "3": MANUAL, "5": MANUAL, "7": MANUAL,
         "sh": SCRIPT, "build": SCRIPT, "yaml": SCRIPT, "sbatch": SCRIPT, "in": SCRIPT, "control": SCRIPT,
         "rules": SCRIPT, "run": SCRIPT}


def blank(match):
    """Spaces in place of the match, so that places and lines stay."""
    return re.sub(r"[^\n]", " ", match[0])


def bare(text):
    """The characters of adjacent string literals, without what is between them."""
    parts = re.findall(rf"{LONG}|{DOUBLE}|{SINGLE}", text, re.S)
    inside = "".join(part[3:-3] if part.startswith('"""') else part[1:-1] for part in parts)
    return inside.replace(r"\n", "  ").replace(r"\"", '"')


def pieces(name, text):
    """(line, English) of each comment, text or page."""
    kind = KINDS.get(name.rpartition("/")[2].rpartition(".")[2])
    if kind in (MARKDOWN, MANUAL):
        yield 1, kind.sub(blank, text)
    elif kind:
        for match in kind.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            if match["comment"]:
                yield line, DECORATION.sub(blank, match["comment"])
            elif match["texts"] and re.search(r"\S\s", bare(match["texts"])):
                yield line, bare(match["texts"])


def riddles(name, text):
    """(line, words) of each riddle in a file's text."""
    for line, piece in pieces(name, text):
        for match in RIDDLE.finditer(QUOTATION.sub(blank, piece)):
            words = piece[match.start():match.start() + 60].split("\n\n")[0]
            yield line + piece.count("\n", 0, match.start()), " ".join(words.split())


def tree(root):
    """(name, text) of each file that is searched."""
    for part in ("src", "include", "man", "contrib", "docs", "tests", "debian", ".ci"):
        for path in sorted((root / part).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.is_file() and not IGNORED & set(path.parts) and path.name.rpartition(".")[2] in KINDS:
                yield name, path.read_text(errors="replace")
    for path in sorted(root.glob("*.md")):
        yield path.name, path.read_text()


def found(root=ROOT):
    """The place and the first words of each riddle in the tree."""
    for name, text in tree(root):
        for line, words in riddles(name, text):
            yield f"{name}:{line}: {words}"


def main():
    faults = list(found())
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
