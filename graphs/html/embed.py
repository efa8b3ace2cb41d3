#!/usr/bin/env python3
"""Makes a C file of the report's page, for ff_html_save.

A line "@include FILE" of the page stands for that file, beside it.
usage: embed.py PAGE OUT.  SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import sys

ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "?": "\\?"}

page = pathlib.Path(sys.argv[1])
lines = []
for said in page.read_text(encoding="ascii").splitlines(keepends=True):
    word, *name = said.split()[:2] or [""]
    lines += (page.parent / name[0]).read_text(encoding="ascii").splitlines(keepends=True) if word == "@include" else [said]
with open(sys.argv[2], "w", encoding="ascii") as f:
    f.write('/* Made from report.html by embed.py. */\n#include "html/parts.h"\n\nconst char ff_html_text[] =\n')
    for line in lines:
        f.write('\t"%s"\n' % "".join(ESCAPES.get(c, c) for c in line))
    f.write("\t;\n")
