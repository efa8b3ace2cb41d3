"""Documents against their JSON Schemas, in lines of TAP.  SPDX-License-Identifier: Apache-2.0"""
import json
import sys

from tap import say

try:
    import jsonschema
except ImportError:
    print("1..0 # SKIP python3-jsonschema is not installed")
    sys.exit(0)


def validator(path):
    schema = json.loads(path.read_text())
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


def accepts(v, document, name):
    errors = [f"{'/'.join(map(str, e.path))}: {e.message}" for e in v.iter_errors(document)]
    say(not errors, name, "\n".join(errors[:3]))


def rejects(v, document, name):
    say(not v.is_valid(document), name)
