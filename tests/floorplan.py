#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""floorplan: the rules of the house, checked.

The rooms table in src/meson.build is the one source of truth for which folder of src may use which; the other rules
are the tables at the head of this file. Each rule is a function that yields its faults, and each has self-tests
(tests/house/badtrees.py): a small tree with that one fault, which the rule must find. Prints a line per fault, then
the medians; exit status 1 if there is a fault.
"""

import argparse
import re
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "house"))
import cscan  # noqa: E402

FUNCTION_LINES_MAX = 80
FILE_LINES_MAX = 600
ROOM_FILES_MAX = 20
TEST_LINES_MAX = 1000  # a module's tests stay in one file
PARAMETERS_MAX = 5
MEDIAN_WANTED, MEDIAN_MAX = 15, 20

# Function names that several files of src define, and how many functions have them. A commit that gives functions
# their module's name lowers both numbers; no commit raises them. tests/house/test_house.py compares.
SHARED_NAMES, SHARED_FUNCTIONS = 11, 26

# Files that lie in src itself, and the rooms they may use; and how long they may be.
FRONT = {"src/main.c": {"base", "config", "doctor", "peers", "run", "status"}, "src/pchrun_watch.c": {"base", "watch"},
         "src/pchctl.c": {"base", "ctl", "top"}, "src/pchrun_web.c": {"base", "web"}, "src/check.c": set()}
FRONT_LINES_MAX = {"src/main.c": 150, "src/pchrun_watch.c": 150, "src/pchctl.c": 150,
                   "src/pchrun_web.c": 150}

# include/pch.h is libpch's face: no other room may use it.
PUBLIC_HEADERS = {"pch.h": "libpch"}

# A library, how its headers and its name in src/meson.build begin, and where it may be used: a room
# or the first letters of a path.
LIBRARIES = [
    ("libevent", ("event2/", "event.h", "evutil.h"), "libevent", ("src/loop/", "src/net/", "src/peers/", "src/procs/",
                                                             "src/status/", "src/web/")),
    ("jansson", ("jansson",), "jansson", ("src/json/",)),
    ("ncurses", ("curses.h", "ncurses", "term.h"), "ncurses", ("src/top/screen",)),
    ("OpenSSL", ("openssl/",), "openssl", ("src/net/tls",)),
    ("libcurl", ("curl/",), "libcurl", ("src/watch/",)),
]

# A call, where in src it may stand, and why.
CALLS = [
    (("wait", "wait3", "wait4", "waitpid", "waitid"), ("src/os/reap.c",),
     "os/reap.c alone waits for processes"),
    (("exit", "quick_exit"), ("src/main.c",), "main alone ends the program; return the error"),
    (("kill", "killpg", "tgkill", "tkill", "pidfd_send_signal"), ("src/os/",),
     "use proc_kill(), which refuses pids <= 1"),
    (("system", "popen"), (), "the reaper would take its child; use os/spawn"),
]

# A pure room includes these system headers alone, and never calls the functions of PURE_NEVER: it gets the time with
# its events, and writes through its actions.
PURE_ROOMS = ("core", "wire", "watch/answers", "goodput", "top/view")
PURE_HEADERS = {
    "assert.h", "ctype.h", "endian.h", "errno.h", "inttypes.h", "limits.h", "signal.h", "stdalign.h",
    "stdarg.h", "stdatomic.h", "stdbool.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h",
    "string.h", "strings.h", "sys/types.h", "sys/wait.h", "wchar.h",
}
PURE_NEVER = {
    "clock_now_ns", "clock_real_ns", "clock_gettime", "time", "log_line", "log_error", "log_warn",
    "log_notice", "log_info", "log_debug", "printf", "fprintf", "puts", "fputs", "fopen", "open",
    "read", "write", "getenv", "setenv", "rand", "random", "signal", "raise", "sigaction", "abort",
}
ALLOCATORS = {"malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "strdup", "strndup",
              "asprintf", "vasprintf"}


@dataclass
class Fault:
    rule: str
    place: str
    text: str

    def __str__(self):
        return f"{self.place}: {self.text} [{self.rule}]"


class Tree:
    """The tree that the rules look at: the rooms table and every C file, scanned once."""

    def __init__(self, root):
        self.root = Path(root)
        self.rooms = read_rooms(self.root / "src/meson.build")
        self.sources = {}
        for folder in ("src", "include", "man", "tests", "contrib"):
            for path in sorted((self.root / folder).rglob("*.[ch]")):
                name = path.relative_to(self.root).as_posix()
                self.sources[name] = cscan.scan(name, path.read_text())
        self.scripts = {p.relative_to(self.root).as_posix(): p.read_text()
                        for folder in ("tests", "contrib") for ending in ("*.py", "*.sh")
                        for p in sorted((self.root / folder).rglob(ending))}

    def under(self, *prefixes):
        return [s for name, s in self.sources.items() if name.startswith(prefixes)]


def read_rooms(path):
    """{room: (rooms it may use, its own libraries)} in the order of the table."""
    table = re.search(r"^rooms = \[\n(.*?)^\]", path.read_text(), re.S | re.M)
    if not table:
        sys.exit(f"floorplan: {path}: there is no table `rooms = [`")
    rows = re.sub(r"#[^\n]*", "", table[1])
    rooms = {}
    for name, uses, libraries in re.findall(
            r"\[\s*'([\w/]+)'\s*,\s*\[([^]]*)\]\s*,\s*\[([^]]*)\]\s*\]", rows):
        if name in rooms:
            sys.exit(f"floorplan: {path}: two rows for the room '{name}'")
        rooms[name] = (re.findall(r"'([\w/]+)'", uses), re.findall(r"\w+", libraries))
    left = re.sub(r"\[[^][]*(?:\[[^]]*\][^][]*)*\],?\s*", "", rows).strip()
    if left or not rooms:
        sys.exit(f"floorplan: {path}: not understood in the rooms table: {left or 'it is empty'}")
    return rooms


def room_of(path):
    """"src/core/node/round.c" -> "core/node", "base/err.h" -> "base"; None for a file in src itself."""
    return path.removeprefix("src/").rpartition("/")[0] or None


def target_of(include):
    """The room that an include reaches into; None if the path names no room."""
    return PUBLIC_HEADERS.get(include.path) or room_of(include.path)


# ---- the rules: name -> function(tree) that yields (place, text) ----

RULES = {}


def rule(function):
    RULES[function.__name__.replace("_", "-")] = function
    return function


@rule
def rooms_listed(tree):
    """every folder of src is in the rooms table; a file in src itself is known"""
    for name in sorted({room_of(source.path) for source in tree.under("src/")} - {None, *tree.rooms}):
        yield f"src/{name}", "this room is not in the table in src/meson.build"
    for name in tree.rooms:
        if not (tree.root / "src" / name).is_dir():
            yield "src/meson.build", f"the table has a room '{name}', src has no such folder"
    for source in tree.under("src/"):
        if room_of(source.path) is None and source.path not in FRONT:
            yield source.path, "belongs to no room"


@rule
def room_size(tree):
    """no room has more than 20 C files; a room's meson.build begins with what the room promises"""
    for room in tree.rooms:
        folder = tree.root / "src" / room
        files = len(list(folder.glob("*.c")))
        if files > ROOM_FILES_MAX:
            yield f"src/{room}", f"{files} C files, more than {ROOM_FILES_MAX}: make two rooms of it"
        build = folder / "meson.build"
        if not build.exists() or not build.read_text().startswith("# "):
            yield f"src/{room}/meson.build", "does not begin with what the room promises"


@rule
def table_upward(tree):
    """a row of the table names only rooms above it"""
    above = set()
    for name, (uses, _) in tree.rooms.items():
        for used in uses:
            if used not in above:
                yield "src/meson.build", f"room '{name}' may not use '{used}': it is no row above"
        above.add(name)


@rule
def include_listed(tree):
    """a room includes itself and the rooms of its row"""
    for source in tree.under("src/"):
        room = room_of(source.path)
        if room is not None and room not in tree.rooms:
            continue  # rooms-listed says so
        allowed = {room, *tree.rooms[room][0]} if room else FRONT.get(source.path, set())
        for include in source.includes:
            if include.is_system:
                continue
            target = target_of(include)
            if target is None:
                yield (f"{source.path}:{include.line}",
                       f'"{include.path}" names no room; include by the path from src')
            elif target not in allowed:
                yield (f"{source.path}:{include.line}",
                       f"{room or 'main'} may not include {target} (\"{include.path}\")")


@rule
def include_cycle(tree):
    """no cycle between modules (x.c and x.h are one) or between rooms"""
    modules, rooms = {}, {}
    for source in tree.under("src/"):
        module = source.path.removeprefix("src/").rsplit(".", 1)[0]
        for include in source.includes:
            if not include.is_system:
                modules.setdefault(module, set()).add(include.path.rsplit(".", 1)[0])
                rooms.setdefault(room_of(source.path) or source.path, set()).add(
                    target_of(include) or include.path)
    for what, graph in (("modules", modules), ("rooms", rooms)):
        for knot in knots(graph):
            edges = [f"{node} -> {' '.join(sorted(graph[node] & set(knot) - {node}))}" for node in knot]
            yield "src", f"{what} include each other: {'; '.join(edges)}"


@rule
def call_cycle(tree):
    """no circle of calls between the files of a folder: each file calls only files below it"""
    # The rule reads names, so a local that is called like another file's function counts as its use.
    folders = {}
    for source in tree.under("src/", "contrib/"):
        if source.path.endswith(".c"):
            folders.setdefault(source.path.rpartition("/")[0], []).append(source)
    for folder, sources in folders.items():
        homes = {f.name: s.path for s in sources for f in s.functions if not f.is_static}
        graph = {}
        for source in sources:
            own = {f.name for f in source.functions}
            for name in source.names & homes.keys() - own:
                graph.setdefault(source.path, {}).setdefault(homes[name], set()).add(name)
        for knot in knots(graph):
            uses = [f"{Path(path).name} -> {Path(home).name} ({' '.join(sorted(names)[:3])})"
                    for path in knot for home, names in sorted(graph[path].items()) if home in knot]
            yield folder, f"files call each other: {'; '.join(uses)}"


def knots(graph):
    """Groups of nodes that reach each other, each sorted; a single node is no group."""
    reach = {node: reachable(graph, node) for node in graph}
    groups = {tuple(sorted(m for m in reach[n] if n in reach.get(m, ()))) for n in graph
              if n in reach[n]}
    return sorted(g for g in groups if len(g) > 1)


def reachable(graph, start):
    seen, todo = set(), list(graph.get(start, ()))
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += graph.get(node, ())
    return seen


@rule
def library_room(tree):
    """each library is used in its own rooms only, in the sources and in the table"""
    for library, headers, variable, homes in LIBRARIES:
        for source in tree.under("src/", "include/"):
            for include in source.includes:
                if (include.is_system and include.path.startswith(headers)
                        and not source.path.startswith(homes)):
                    yield f"{source.path}:{include.line}", f"{library} belongs to {' '.join(homes)}"
        for name, (_, libraries) in tree.rooms.items():
            if any(own.startswith(variable) for own in libraries):
                if not any(home.startswith(f"src/{name}/") for home in homes):
                    yield "src/meson.build", f"room '{name}' lists {library}, not its own"


@rule
def pure_rooms(tree):
    """a pure room touches neither clock nor world"""
    for room in PURE_ROOMS:
        for source in tree.under(f"src/{room}/"):
            for include in source.includes:
                if include.is_system and include.path not in PURE_HEADERS:
                    yield f"{source.path}:{include.line}", f"<{include.path}> in a pure room"
            for call in source.calls:
                if call.name in PURE_NEVER:
                    yield f"{source.path}:{call.line}", f"{call.name}() in a pure room"


@rule
def core_memory(tree):
    """src/core allocates only in the files of core_new() and spare_new()"""
    core = tree.under("src/core/")
    makers = {"core_new", "spare_new"}
    home = {s.path for s in core if any(f.name in makers for f in s.functions)}
    for source in core:
        for call in source.calls:
            if call.name in ALLOCATORS and source.path not in home:
                yield f"{source.path}:{call.line}", f"{call.name}() outside the files of core_new() and spare_new()"


@rule
def calls(tree):
    """waiting, signalling and ending belong to one place each"""
    for names, homes, why in CALLS:
        for source in tree.under("src/"):
            for call in source.calls:
                if call.name in names and not source.path.startswith(homes):
                    yield f"{source.path}:{call.line}", f"{call.name}(): {why}"


@rule
def function_length(tree):
    """no function over 80 lines"""
    for source in tree.sources.values():
        for function in source.functions:
            if function.length > FUNCTION_LINES_MAX:
                yield (f"{source.path}:{function.line}", f"{function.name}() has {function.length} "
                       f"lines, more than {FUNCTION_LINES_MAX}")


@rule
def file_length(tree):
    """no file over 600 lines, main.c no longer than 150, a test's no longer than 1000"""
    for source in tree.sources.values():
        usual = TEST_LINES_MAX if source.path.startswith("tests/") else FILE_LINES_MAX
        limit = FRONT_LINES_MAX.get(source.path, usual)
        if source.lines > limit:
            yield source.path, f"{source.lines} lines, more than {limit}"


@rule
def test_names(tree):
    """a unit test is named after a module or a room of src, or begins with such a name"""
    files = [Path(source.path) for source in tree.under("src/")]
    names = {path.stem for path in files} | {path.parent.name for path in files}
    for source in tree.under("tests/unit/test_"):
        if source.path.endswith(".c"):
            words = Path(source.path).stem.split("_")[1:]
            if not names & {"_".join(words[:n + 1]) for n in range(len(words))}:
                yield source.path, "named after no module and no room"


@rule
def parameters(tree):
    """at most 5 parameters"""
    for source in tree.under("src/", "include/"):
        for function in source.functions:
            if function.parameters > PARAMETERS_MAX:
                yield (f"{source.path}:{function.line}", f"{function.name}() has "
                       f"{function.parameters} parameters, more than {PARAMETERS_MAX}")


@rule
def header_comment(tree):
    """a file begins with its SPDX line and a comment that says what it is for"""
    for source in tree.sources.values():
        header = source.header
        if not header or header[0] != "SPDX-License-Identifier: Apache-2.0":
            yield f"{source.path}:1", "must begin with /* SPDX-License-Identifier: Apache-2.0"
            continue
        text = " ".join(header[1:]).strip()
        see = re.match(r"See (\w+\.h)\b", text)
        if see and not (tree.root / source.path).with_name(see[1]).exists():
            yield f"{source.path}:1", f"the header comment names {see[1]}, which is not there"
        elif not see and len(text.split()) < 3:
            yield f"{source.path}:1", "the header comment does not say what the file is for"
    for path, text in tree.scripts.items():
        if not re.match(r"(#!.*\n)?# SPDX-License-Identifier: Apache-2.0\n(# |#\n# |[rf]?\"\"\")", text):
            yield f"{path}:1", "must begin with # SPDX-License-Identifier: Apache-2.0 and a comment"


@rule
def median_length(tree):
    """the median function of src has at most 20 lines (15 are wanted)"""
    lengths = [f.length for s in tree.under("src/", "include/") for f in s.functions]
    if lengths and statistics.median(lengths) > MEDIAN_MAX:
        yield "src", f"the median function has {statistics.median(lengths):g} lines"


# ---- names ----


def shared_names(tree):
    """{name: its files} of each function that several files of src define; each program has its main()."""
    homes = {}
    for source in tree.under("src/"):
        for function in source.functions:
            homes.setdefault(function.name, set()).add(source.path)
    return {name: sorted(paths) for name, paths in homes.items() if len(paths) > 1 and name != "main"}


# ---- main ----


def check(root):
    try:
        tree = Tree(root)
    except cscan.ScanError as error:
        return None, [Fault("scan", "src", str(error))]
    return tree, [Fault(name, *found) for name, function in RULES.items() for found in function(tree)]


def self_test():
    """Each bad tree must be caught by the rules named with it and by no other; the sound tree by none."""
    import badtrees
    failures = []
    tested = set()
    for names, changes in [("", {}), *badtrees.CASES]:
        wanted = set(names.split())
        tested |= wanted
        with tempfile.TemporaryDirectory(prefix="floorplan-") as root:
            badtrees.build(Path(root), changes)
            found = {fault.rule for fault in check(root)[1]}
        if found != wanted:
            failures.append(f"self-test of {names or 'the sound tree'} ({', '.join(changes)}): "
                            f"found {sorted(found) or 'nothing'}")
    failures += [f"rule {name} has no self-test" for name in RULES.keys() - tested]
    print("\n".join(failures) or f"floorplan: {len(badtrees.CASES)} bad trees, each caught by its rule")
    return not failures


def report(tree):
    """The figures that DESIGN wants kept small, for src and include."""
    sources = tree.under("src/", "include/")
    lengths = sorted(f.length for s in sources for f in s.functions)
    files = sorted(s.lines for s in sources)
    if not lengths:
        return
    median = statistics.median(lengths)
    print(f"floorplan: {len(files)} files, median {statistics.median(files):g} lines, "
          f"longest {files[-1]}; {len(lengths)} functions, median {median:g} lines, "
          f"p95 {lengths[int(0.95 * (len(lengths) - 1))]}, longest {lengths[-1]}")
    shared = shared_names(tree)
    print(f"floorplan: {len(shared)} function names are shared by {sum(map(len, shared.values()))} functions")
    if median > MEDIAN_WANTED:
        print(f"floorplan: the median function should have at most {MEDIAN_WANTED} lines")


def main():
    parser = argparse.ArgumentParser(description="Check the rules of the house.")
    parser.add_argument("--root", default=Path(__file__).resolve().parent.parent, type=Path,
                        help="the source tree (default: the one this script lies in)")
    parser.add_argument("--self-test", action="store_true",
                        help="show that every rule catches a tree that breaks it")
    parser.add_argument("--shared", action="store_true",
                        help="print each function name that several files define, and those files")
    parser.add_argument("--list", action="store_true", help="name the rules")
    options = parser.parse_args()
    if options.list:
        for name, function in RULES.items():
            print(f"{name:16} {function.__doc__}")
        return 0
    if options.self_test:
        return 0 if self_test() else 1
    if options.shared:
        for name, paths in sorted(shared_names(Tree(options.root)).items()):
            print(f"{name}: {' '.join(paths)}")
        return 0
    tree, faults = check(options.root)
    for fault in faults:
        print(fault)
    if tree:
        report(tree)
    print(f"floorplan: {len(RULES)} rules, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
