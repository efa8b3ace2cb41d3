"""What came of tests: a line for each subtest that failed, then how many passed, failed and were
skipped.  A test that failed with no subtest to show for it, as it crashed, was too slow or met a
sanitizer, is a line too and counts as one.
usage: totals.py FOLDER...: build folders, in each of which `meson test` left its logs
SPDX-License-Identifier: Apache-2.0"""
import json
import pathlib
import sys
import xml.etree.ElementTree as tree

BAD = ("FAIL", "ERROR", "TIMEOUT", "INTERRUPT", "UNEXPECTEDPASS")


def failures(cases):
    """Names of what failed of a test."""
    return [case.get("name") for case in cases
            if case.find("failure") is not None or case.find("error") is not None]


def end_of(test):
    """How a test ended, in words; what a sanitizer said of it."""
    code = test["returncode"]
    how = "timed out" if test["result"] == "TIMEOUT" else \
        f"ended by signal {-code}" if code < 0 else f"{test['result'].lower()}, exit status {code}"
    said = [line.strip() for line in test.get("stderr", "").splitlines()
            if "ERROR: " in line or "runtime error: " in line]
    return f"({how})" + (f" {said[0][:200]}" if said else "")


def read(folder):
    """By test its subtests; the tests as they ended."""
    logs = sorted((pathlib.Path(folder) / "meson-logs").glob("testlog*.junit.xml"))
    if not logs:
        raise FileNotFoundError
    cases, tests = {}, []
    for path in logs:  # one a run: of tests side by side, of those that need a quiet machine
        for suite in tree.parse(path).getroot().iter("testsuite"):
            for case in suite.iter("testcase"):
                # a test without subtests is a case of its project's suite
                project, _, name = case.get("classname").partition(".")
                cases.setdefault(name or case.get("name"), []).append(case)
        with open(str(path).replace(".junit.xml", ".json")) as log:
            tests += [json.loads(line) for line in log]
    return cases, tests


def main(folders):
    total = failed = skipped = 0
    for folder in folders:
        try:
            cases, tests = read(folder)
        except FileNotFoundError:
            print(f"{folder}: no test was run to its end")
            failed += 1
            total += 1
            continue
        total += sum(map(len, cases.values()))
        skipped += sum(case.find("skipped") is not None for of in cases.values() for case in of)
        for test in tests:
            name, own = test["name"], cases.get(test["name"], [])
            lone = [case.get("name") for case in own] == [name]
            wrong = [] if lone else failures(own)
            where = f"{folder}  {name.partition(':')[2] or name}"
            failed += len(wrong)
            for each in wrong:
                print(f"{where}  {each}")
            if test["result"] in BAD and (not wrong or test["returncode"] < 0):
                print(f"{where}  {end_of(test)}")
                failed += not wrong
                total += not wrong and not lone
    print(f"{total - failed - skipped} passed, {failed} failed, {skipped} skipped")


main(sys.argv[1:])
