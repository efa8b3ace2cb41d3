#!/usr/bin/env python3
"""Makes a C file of the report's page, for ff_html_save.

usage: embed.py PAGE OUT.  SPDX-License-Identifier: Apache-2.0
"""
import sys

ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "?": "\\?"}

with open(sys.argv[1], encoding="ascii") as f:
    lines = f.readlines()
with open(sys.argv[2], "w", encoding="ascii") as f:
    f.write('/* Made from report.html by embed.py. */\n#include "html/parts.h"\n\nconst char ff_html_text[] =\n')
    for line in lines:
        f.write('\t"%s"\n' % "".join(ESCAPES.get(c, c) for c in line))
    f.write("\t;\n")
