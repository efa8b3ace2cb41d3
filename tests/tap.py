"""What tests in Python have in common: lines of TAP.  SPDX-License-Identifier: Apache-2.0"""
import sys

count = failed = 0


def say(good, name, why=""):
    """One line; where it is not good, what there was instead."""
    global count, failed
    count += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {count} - {name}", flush=True)
    for line in [] if good else str(why).splitlines():
        print(f"# {line}", flush=True)


def finish():
    print(f"1..{count}")
    sys.exit(failed > 0)
