# SPDX-License-Identifier: Apache-2.0
"""cscan: reads as much of C as the floor plan needs: includes, functions, calls, names, the header comment.

It reads one file's text without preprocessing. It removes directives with their continuation lines, blanks
comments and literals, and splits the rest into words and braces. It expects text that clang-format has
formatted and gcc accepts. Where braces do not balance (a block split over an #if), it raises ScanError with
the line; the file must then be rewritten. Owns nothing.
"""

import re
from dataclasses import dataclass, field

COMMENT_OR_LITERAL = re.compile(
    r"""/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'""", re.S | re.X)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)
WORD = re.compile(r"[A-Za-z_]\w*|->|[^\s\w]|\d\w*")
ATTRIBUTES = {"__attribute__", "PRINTF_LIKE", "__asm__", "_Alignas"}
NOT_FUNCTIONS = {"if", "for", "while", "switch", "return", "sizeof", "typeof", "defined"}


class ScanError(Exception):
    """The file cannot be understood; the text says where."""


@dataclass
class Include:
    line: int
    path: str
    is_system: bool


@dataclass
class Function:
    name: str
    line: int  # the line of the name
    end: int  # the line of the closing brace
    parameters: int  # "..." is not one
    is_static: bool

    @property
    def length(self):
        return self.end - self.line + 1


@dataclass
class Call:
    line: int
    name: str


@dataclass
class Source:
    path: str
    text: str
    includes: list = field(default_factory=list)
    functions: list = field(default_factory=list)
    calls: list = field(default_factory=list)
    names: set = field(default_factory=set)  # all names but those of members

    @property
    def lines(self):
        return self.text.count("\n") + (not self.text.endswith("\n") and self.text != "")

    @property
    def header(self):
        """The comment at the beginning of the file, or None."""
        match = re.match(r"/\*(.*?)\*/", self.text, re.S)
        if not match:
            return None
        return [line.strip().removeprefix("*").strip() for line in match[1].splitlines()]


def scan(path, text):
    source = Source(path, text)
    bare = COMMENT_OR_LITERAL.sub(_blank_comment, text)
    for match in INCLUDE.finditer(bare):
        source.includes.append(Include(_line(bare, match.start()), match[2], match[1] == "<"))
    code = COMMENT_OR_LITERAL.sub(_blank_all, bare)
    for match in DIRECTIVE.finditer(code):
        words = _words(match[0], _line(code, match.start()))
        source.calls += _calls(words)
        source.names |= _names(words)
    words = _words(DIRECTIVE.sub(_blank_all, code), 1)
    source.calls += _calls(words)
    source.names |= _names(words)
    source.functions = _functions(path, words)
    return source


def _line(text, position):
    return text.count("\n", 0, position) + 1


def _blank_comment(match):
    return _blank_all(match) if match[0].startswith("/") else match[0]


def _blank_all(match):
    word = "0" if match[0][0] in "\"'" else " "
    return word + "\n" * match[0].count("\n")


def _words(code, first_line):
    words, line, at = [], first_line, 0
    for match in WORD.finditer(code):
        line += code.count("\n", at, match.start())
        at = match.start()
        words.append((match[0], line))
    return words


def _calls(words):
    """Each name before a "(" that is not a member. A declaration looks the same. That is intended: a file
    that declares wait() is about to call it."""
    before = ""
    for (word, line), (following, _) in zip(words, words[1:]):
        if following == "(" and before not in ("->", ".") and re.match(r"[A-Za-z_]", word):
            yield Call(line, word)
        before = word


def _names(words):
    """Each name that is not a member. It includes functions that are not called but put into a table."""
    return {word for (before, _), (word, _) in zip([("", 0), *words], words)
            if before not in ("->", ".") and re.match(r"[A-Za-z_]", word)}


def _functions(path, words):
    """A function has a brace at the top level after "name(...)"."""
    found, statement, depth, current = [], [], 0, None
    for word, line in words:
        if word == "{":
            if depth == 0:
                current = _signature(statement)
            depth += 1
        elif word == "}":
            depth -= 1
            if depth < 0:
                raise ScanError(f"{path}:{line}: there is a closing brace too many")
            if depth == 0:
                if current:
                    name, start, parameters = current
                    head = [word for word, _ in statement]
                    is_static = "static" in head[:head.index(name)]
                    found.append(Function(name, start, line, parameters, is_static))
                    statement = []
                current = None
        elif depth == 0:
            statement = [] if word == ";" else statement + [(word, line)]
    if depth:
        raise ScanError(f"{path}: {depth} braces are not closed; is a block split over an #if?")
    return found


def _signature(statement):
    """(name, line, number of parameters) of a function's head; None for a struct, enum or table."""
    words = _without_attributes(statement)
    if not words or words[-1][0] != ")" or _is_initialiser(words):
        return None
    depth, start = 0, len(words)
    while start > 0:
        start -= 1
        depth += {")": 1, "(": -1}.get(words[start][0], 0)
        if depth == 0:
            break
    inside = [word for word, _ in words[start + 1:-1]]
    if start == 0:
        return None
    name, line = words[start - 1]
    if name == ")":  # static void (*choose(int what))(int): the inner pair is the function's
        inner = words[:start - 1]
        opening = next(i for i, (word, _) in enumerate(inner) if word == "(")
        return _signature(inner[opening + 1:])
    if name in NOT_FUNCTIONS or not re.match(r"[A-Za-z_]", name):
        return None
    return name, line, _count_parameters(inside)


def _is_initialiser(words):
    depth = 0
    for word, _ in words:
        depth += {"(": 1, ")": -1}.get(word, 0)
        if word == "=" and depth == 0:
            return True
    return False


def _without_attributes(words):
    kept, depth, skipping = [], 0, False
    for word, line in words:
        if not skipping and word in ATTRIBUTES:
            skipping, depth = True, 0
        elif skipping:
            depth += {"(": 1, ")": -1}.get(word, 0)
            skipping = depth > 0
        else:
            kept.append((word, line))
    return kept


def _count_parameters(inside):
    if inside in ([], ["void"]):
        return 0
    depth, count, text = 0, 1, "".join(inside)
    for word in inside:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(word, 0)
        count += word == "," and depth == 0
    return count - text.endswith("...")
