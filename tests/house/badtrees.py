# SPDX-License-Identifier: Apache-2.0
"""badtrees: the floor plan's self-tests: a small tree that keeps all rules, and for each rule trees that break it.

A case is ("rule …", {path: text}): the files replace those of the small tree (None removes a file). The named
rules must find a fault, and no other rule may.
"""

HEAD = "/* SPDX-License-Identifier: Apache-2.0\n *\n * {}: a file of the small tree, to be looked at.\n */\n"

TABLE = """threads = dependency('threads')
rooms = [
  ['base', [], [threads]],  # a comment
  ['wire', ['base'], []],
  ['json', ['base'], [jansson]],
  ['core', ['base', 'wire'], []],
  ['config', ['base', 'json'], []],
  ['os', ['base'], []],
  ['net', ['base', 'wire', 'os'], [libevent, openssl]],
  ['run', ['base', 'wire', 'core', 'config', 'os', 'net'], []],
  ['libpch', ['base', 'wire'], []],
]
"""


def c(name, *lines):
    return HEAD.format(name) + "\n".join(lines) + "\n"


def function(lines, head="int f(void)"):
    return "\n".join([head, "{", *["    work();"] * (lines - 3), "}"])


SOUND = {
    "src/meson.build": TABLE,
    **{f"src/{room}/meson.build": "# It promises to be small.\n"
       for room in ("base", "wire", "json", "core", "config", "os", "net", "run", "libpch")},
    "src/main.c": c("main", '#include "config/config.h"', '#include "run/run.h"',
                    "int main(void)\n{\n    exit(run());\n}"),
    "src/check.c": c("check", "int main(void)\n{\n    return 0;\n}"),
    "src/base/err.h": c("err", "struct err {\n    int code;\n};"),
    "src/base/err.c": c("err", '#include "base/err.h"', "#include <time.h>", function(4)),
    "src/wire/gate.h": c("gate", "#include <stdint.h>"),
    "src/json/json.c": c("json", "#include <jansson.h>", '#include "base/err.h"'),
    "src/core/core.c": c("core", '#include "wire/gate.h"', "#include <stdlib.h>",
                         "struct core *core_new(void)\n{\n    return calloc(1, 1);\n}",
                         "/* malloc() and kill(1, 2) in a comment, and in a string: */",
                         'const char *const text = "waitpid(-1) // exit(1)";'),
    "src/config/config.h": c("config", '#include "base/err.h"'),
    "src/os/reap.c": c("reap", "void reap(struct x *x, int sweep)\n{\n    waitpid(sweep, 0, 0);\n    kill(2, 9);\n"
                       "    x->tree_end(x); /* which is not the tree_end() of tree.c */\n}"),
    "src/os/tree.c": c("tree", "static void look(void)\n{\n    sweep();\n}",
                       "static void sweep(void)\n{\n    work();\n}",
                       "void tree_end(void)\n{\n    look();\n    reap(0, 1);\n}"),
    "src/os/signals.c": c("signals", "void look(void)\n{\n    tree_end();\n}"),
    "src/net/peers.c": c("peers", "#include <event2/event.h>", '#include "wire/gate.h"',
                          "void f(struct x *x)\n{\n    x->kill(x);\n    x->ops.exit(x);\n}"),
    "src/net/tls.c": c("tls", "#include <openssl/ssl.h>"),
    "src/run/run.h": c("run", "int run(void);"),
    "src/run/run.c": c("run", '#include "run/run.h"', '#include "core/core.h"',
                       function(80, "int g(a, int b, char *c, d, e, ...)")),
    "src/libpch/pch.c": c("pch", '#include "pch.h"', '#include "wire/page.h"'),
    "include/pch.h": c("pch", "int pch_step(void);"),
    "tests/unit/test_reap.c": c("test_reap", "void f(void)\n{\n    wait(0);\n    exit(kill(1, 2));\n}"),
    "tests/run.sh": "#!/bin/bash\n# SPDX-License-Identifier: Apache-2.0\n#\n# run: runs.\n",
}

CASES = [
    ("rooms-listed", {"src/attic/a.c": c("a")}),
    ("rooms-listed", {"src/loose.c": c("loose")}),
    ("rooms-listed room-size", {"src/json/json.c": None, "src/json/meson.build": None}),
    ("room-size", {"src/os/meson.build": "sources += {}\n"}),
    ("room-size", {f"src/os/a{number}.c": c(f"a{number}") for number in range(20)}),
    ("table-upward", {"src/meson.build": TABLE.replace("['wire', ['base']", "['wire', ['run']")}),
    ("include-listed", {"src/base/err.c": c("err", '#include "wire/gate.h"')}),
    ("include-listed", {"src/core/core.c": c("core", '#include "os/reap.h"')}),
    ("include-listed", {"src/core/core.c": c("core", '  #  include "json/json.h"')}),
    ("include-listed", {"src/main.c": c("main", '#include "net/peers.h"')}),
    ("include-listed", {"src/run/run.c": c("run", '#include "pch.h"')}),
    ("include-listed", {"src/run/run.c": c("run", '#include "run.h"')}),
    ("include-cycle", {"src/os/a.h": c("a", '#include "os/b.h"'),
                       "src/os/b.c": c("b", '#include "os/a.h"')}),
    ("include-cycle", {"src/os/a.h": c("a", '#include "os/b.h"'),
                       "src/os/b.h": c("b", '#include "os/d.h"'),
                       "src/os/d.h": c("d", '#include "os/a.h"')}),
    ("include-cycle table-upward", {
        "src/meson.build": TABLE.replace("['wire', ['base']", "['wire', ['base', 'run']"),
        "src/wire/a.c": c("a", '#include "run/run.h"')}),
    ("call-cycle", {"src/os/a.c": c("a", "void a(void)\n{\n    b();\n}"),
                    "src/os/b.c": c("b", "void b(void)\n{\n    if (1)\n        a();\n}")}),
    ("call-cycle", {"src/os/a.c": c("a", "void a(void)\n{\n    b();\n}"),
                    "src/os/b.c": c("b", "handler *const table[] = {d};", "void b(void)\n{\n}"),
                    "src/os/d.c": c("d", "void d(void)\n{\n    a();\n}")}),
    ("call-cycle", {"src/os/a.c": c("a", "#define WITH(x) a(x)", "void b(void)\n{\n}"),
                    "src/os/b.c": c("b", "void a(void)\n{\n    b();\n}")}),
    ("call-cycle", {"contrib/examples/a.c": c("a", "void a(void)\n{\n    b();\n}"),
                    "contrib/examples/b.c": c("b", "void b(void)\n{\n    a();\n}")}),
    ("library-room", {"src/os/a.c": c("a", "#include <event2/event.h>")}),
    ("library-room", {"src/config/a.c": c("a", "#include <jansson.h>")}),
    ("library-room", {"src/net/peers.c": c("peers", "#include <openssl/ssl.h>")}),
    ("library-room", {"src/run/a.c": c("a", "#include <curl/curl.h>")}),
    ("library-room", {"src/meson.build": TABLE.replace("['os', ['base'], []]",
                                                       "['os', ['base'], [libevent]]")}),
    ("pure-rooms", {"src/core/a.c": c("a", "#include <unistd.h>")}),
    ("pure-rooms", {"src/core/a.c": c("a", "int f(void)\n{\n    return clock_now_ns();\n}")}),
    ("pure-rooms", {"src/wire/a.c": c("a", "#define SAY(text) log_info(0, text)")}),
    ("core-memory", {"src/core/a.c": c("a", "void *f(void)\n{\n    return malloc(1);\n}")}),
    ("core-memory", {"src/core/a.c": c("a", "#define NEW(size) \\\n    realloc(0, size)")}),
    ("calls", {"src/net/a.c": c("a", "void f(void)\n{\n    if (waitpid (1, 0, 0))\n        f();\n}")}),
    ("calls", {"src/os/a.c": c("a", "void f(void)\n{\n    waitid(0, 0, 0, 0);\n}")}),
    ("calls", {"src/run/a.c": c("a", "void f(void)\n{\n    exit(1);\n}")}),
    ("calls", {"src/run/a.c": c("a", "void f(void)\n{\n    kill(1, 9);\n}")}),
    ("calls", {"src/os/a.c": c("a", 'void f(void)\n{\n    system("true");\n}')}),
    ("function-length", {"src/run/a.c": c("a", function(81))}),
    ("function-length", {"src/run/a.c": c("a", "MUST_CHECK static int (*f(int a))(int)",
                                          function(82, "__attribute__((x(1)))").split("\n", 1)[1])}),
    ("function-length", {"tests/unit/a.c": c("a", function(81, "Test(unit, a, .timeout = 5)"))}),
    ("file-length", {"src/run/a.c": c("a", *["int a;"] * 597)}),
    ("file-length", {"tests/unit/a.c": c("a", *["int a;"] * 997)}),
    ("file-length", {"src/main.c": c("main", *["int a;"] * 147)}),
    ("parameters", {"src/run/a.c": c("a", function(4, "int f(int a, b, c, void (*d)(int, int), e, g)"))}),
    ("test-names", {"tests/unit/test_gone.c": c("test_gone", function(4))}),
    ("header-comment", {"src/run/a.c": "int a;\n"}),
    ("header-comment", {"src/run/a.c": "/* a: a comment that does not name the licence. */\n"}),
    ("header-comment", {"src/run/a.c": "/* SPDX-License-Identifier: Apache-2.0 */\nint a;\n"}),
    ("header-comment", {"src/run/a.c": "/* SPDX-License-Identifier: Apache-2.0\n * See gone.h.\n */\n"}),
    ("header-comment", {"tests/run.sh": "#!/bin/sh\ntrue\n"}),
    ("median-length", {"src/base/err.c": c("err", *[function(21)] * 20)}),
    ("scan", {"src/run/a.c": c("a", "#if X\nvoid f(void)\n{\n#else\nvoid g(void)\n{\n#endif\n}")}),
]


def build(root, changes):
    for path, text in {**SOUND, **changes}.items():
        if text is not None:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
