#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed: writes the files of the page as C, for page.h: embed.py OUTPUT FILE..."""

import sys
from pathlib import Path

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8"}


def rows(data):
    for at in range(0, len(data), 24):
        yield "    " + ",".join(map(str, data[at:at + 24])) + ","


def main(output, *names):
    out, table = ['#include "web/page.h"', ""], []
    for number, name in enumerate(names):
        path = Path(name)
        data = path.read_bytes()
        place = "/" if path.name == "index.html" else f"/{path.name}"
        out += [f"static const unsigned char file{number}[] = {{", *rows(data), "};", ""]
        table.append(f'    {{"{place}", "{TYPES[path.suffix]}", file{number}, sizeof file{number}}},')
    out += ["const struct page_file page_files[] = {", *table, "    {0},", "};", ""]
    Path(output).write_text("\n".join(out))


main(*sys.argv[1:])
