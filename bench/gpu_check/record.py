# What has been done, kept so that a run that was cut off goes on where it was.
# SPDX-License-Identifier: Apache-2.0
import hashlib
import json
import os
import pathlib
import threading

PASSED, FAILED, SKIPPED, LEFT = "passed", "failed", "skipped", "not reached"
SOURCES = ("bench", "graphs", "include", "planner", "runtime", "simulator", "tests",
           "meson.build", "meson_options.txt")


def files_of(root):
    for name in SOURCES:
        path = root / name
        if path.is_file():
            yield path
        for at, folders, names in os.walk(path):
            folders[:] = sorted(f for f in folders if f != "__pycache__")
            yield from (pathlib.Path(at) / n for n in sorted(names) if not n.endswith(".pyc"))


def source_hash(root):
    """Of every source file: there may be no git where this runs."""
    total = hashlib.sha256()
    for path in files_of(root):
        content = path.read_bytes()
        total.update(f"{path.relative_to(root)} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()[:16]


class Record:
    """Outcomes by step.  They count for one source, compiled for one architecture: with another
    `key` everything is done anew; on another `machine` all but `lasting` steps are."""

    def __init__(self, path, key, machine="", lasting=()):
        self.path, self.key, self.machine, self.steps = pathlib.Path(path), key, machine, {}
        self.lock = threading.Lock()
        try:
            old = json.loads(self.path.read_text())
            if old["key"] == key:
                self.steps = {name: step for name, step in old["steps"].items()
                              if old["machine"] == machine or name in lasting}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass  # none yet, or torn

    def done(self, name):
        """Only what passed is not done again."""
        return self.steps.get(name, {}).get("status") == PASSED

    def put(self, name, status, seconds, figure):
        with self.lock:
            self.steps[name] = {"status": status, "seconds": round(seconds, 1), "figure": figure}
            self.save()

    def forget(self, name):
        with self.lock:
            self.steps.pop(name, None)
            self.save()

    def save(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps({"key": self.key, "machine": self.machine, "steps": self.steps}, indent=1))
        os.replace(fresh, self.path)  # whole or not at all

    def table(self, names):
        rows = [f"{'step':26} {'':11} {'seconds':>8}  figure"]
        for name in names:
            s = self.steps.get(name, {"status": LEFT, "seconds": 0, "figure": ""})
            rows.append(f"{name:26} {s['status']:11} {s['seconds']:8.1f}  {s['figure']}")
        return "\n".join(row.rstrip() for row in rows)

    def count(self, names, status):
        return sum(self.steps.get(n, {"status": LEFT})["status"] == status for n in names)
