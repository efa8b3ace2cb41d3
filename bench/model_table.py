#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the table of docs/device-models.md that says of which kinds of devices which classes of kernels were measured.

It is made of what the files of models say (graphs/machines/models).  Kinds share a column where all is alike.  A cell names the chip that a class is inferred from, with a star if in another
type."""
import argparse
import json
import re
import sys
from pathlib import Path

MODELS = Path(__file__).resolve().parent.parent / "graphs/machines/models"


def short(kind):
    """Without the size of its memory, or the board of DGX-2."""
    return re.sub(r"(-SXM3)?-\d+GB$", "", kind)


def said(basis, backward):
    """What a cell says of a class."""
    if basis == "measured":
        return "forward" if backward else "yes"
    rest = basis[len("inferred from "):]
    if rest.endswith("what such kernels do"):
        return rest.split()[0] if " kernels, " in rest else "-"
    kind, _, partly = rest.partition(", but for ")
    kind, _, other_type = kind.partition(" in ")
    return kind.split("-")[0] + "*" * bool(other_type) + (f", not {partly.replace(' ', '')[:3]}" if partly else "")


def column(model):
    return tuple((name, said(c["basis"], "backward" in c)) for name, c in model["classes"].items())


def table(models):
    """`models` by name, in the order in which their columns come."""
    columns = {}
    for model in models:
        kinds = columns.setdefault(column(model), [])
        if short(model["name"]) not in kinds:
            kinds.append(short(model["name"]))
    names = list(dict.fromkeys(name for cells in columns for name, _ in cells))
    rows = [[""] + [", ".join(kinds) for kinds in columns.values()]]
    for name in names:
        rows.append([name.replace("bfloat16", "bf16").replace("float32", "f32").replace(".", ", ")] +
                    [dict(cells).get(name, "") for cells in columns])
    text = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([text[0], "|---" * len(rows[0]) + "|"] + text[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=MODELS, type=Path, metavar="FOLDER", help="of models")
    options = parser.parse_args()
    models = [json.loads(path.read_text()) for path in options.models.glob("*.json")]
    print(table(sorted(models, key=lambda m: (m["flops_per_s"], m["memory_bytes_per_s"], m["name"]))))


if __name__ == "__main__":
    sys.exit(main())
