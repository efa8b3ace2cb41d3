# docs/operators.md against what ffzoo --operators says: the table, and that what is empty has a
# reason.  Usage: test_operators.py FFZOO SOURCE_ROOT.  SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from tap import finish, say  # noqa: E402

ffzoo, root = sys.argv[1], pathlib.Path(sys.argv[2])
page = (root / "docs/operators.md").read_text()


def output(*args):
    return subprocess.run([ffzoo, "--operators", *args], check=True, capture_output=True,
                          text=True).stdout


table = page.partition("<!-- ffzoo --operators -->\n")[2].partition("<!-- end -->")[0]
say(table == output(), "docs/operators.md has the table that ffzoo --operators prints")

known = json.loads(output("--json"))
reasons = {}  # (operator, "no A"): how often
for columns, names in re.findall(r"^- ((?:no [APR]|whole)(?:, (?:no [APR]|whole))*): ((?:`\w+`\s*)+):\s+\S", page, re.M):
    for name in re.findall(r"`(\w+)`", names):
        for column in columns.split(", "):
            reasons[name, column] = reasons.get((name, column), 0) + 1
firsts = set(re.findall(r"^\| `(\w+)`", table, re.M))  # of each row; what is said of one goes for its row
empty = set()
for op in known["operators"]:
    if op["op"] not in firsts:
        continue
    have = {dim["label"] for dim in op["dims"]}
    empty |= {(op["op"], f"no {label}") for label in "APR" if label not in have}
    if op["whole"]:
        empty.add((op["op"], "whole"))
missing = sorted(empty - reasons.keys())
surplus = sorted(reasons.keys() - empty) + sorted(k for k in reasons if reasons[k] > 1)
say(not missing, "what is empty has its reason", " ".join(map(str, missing[:5])))
say(not surplus, "what has a reason is empty, and has one", " ".join(map(str, surplus[:5])))
cells = sum(len(op["dims"]) for op in known["operators"])
say(cells > 100, "operators have dims")

try:
    import jsonschema
    schema = json.loads((root / "docs/schema/operators.schema.json").read_text())
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    errors = [e.message for e in kind(schema).iter_errors(known)]
    say(not errors, "--json keeps its schema", "; ".join(errors[:3]))
except ImportError:
    say(True, "--json keeps its schema # SKIP python3-jsonschema is not installed")
plain = subprocess.run([ffzoo, "--json"], capture_output=True, text=True)
say(plain.returncode == 2 and "--operators" in plain.stderr, "--json alone is refused")
finish()
