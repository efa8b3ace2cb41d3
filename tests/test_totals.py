"""./run test's last lines (totals.py), of a project with tests that fail in every way.
usage: test_totals.py TOTALS MESON  SPDX-License-Identifier: Apache-2.0"""
import os
import pathlib
import subprocess
import sys
import tempfile

totals, meson = map(os.path.abspath, sys.argv[1:3])
# script of a test, and how its lines go on behind the folder
TESTS = {
    "fine": ("echo ok 1 - a; echo ok 2 - b; echo 1..2", []),
    "skips": ("echo 'ok 1 - a # SKIP none'; echo ok 2 - b; echo 1..2", []),
    "wrong": ("echo not ok 1 - a; echo ok 2; echo not ok 3 - c; echo 1..3; exit 1", ["1 - a", "3 - c"]),
    "crash": ("echo ok 1 - a; kill -SEGV $$", ["(ended by signal 11)"]),
    "both": ("echo not ok 1 - a; kill -SEGV $$", ["1 - a", "(ended by signal 11)"]),
    "slow": ("echo ok 1 - a; sleep 600", ["(timed out)"]),
    "mute": ("sleep 600", ["(timed out)"]),
    "few": ("echo ok 1 - a; echo 1..3", ["(error, exit status 0)"]),
    "leak": ("echo ok 1 - a; echo 1..1; echo '==7==ERROR: LeakSanitizer: detected' >&2; exit 23",
             ["(error, exit status 23) ==7==ERROR: LeakSanitizer: detected"]),
    "none": ("exit 3", ["(error, exit status 3)"]),
}
TOTALS = "8 passed, 10 failed, 1 skipped"
count = failed = 0


def check(name, good, note=""):
    global count, failed
    count, failed = count + 1, failed + (not good)
    print(f"{'ok' if good else 'not ok'} {count} - {name}", flush=True)
    for line in [] if good else str(note).splitlines():
        print(f"# {line}")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    build = ["project('p')", "sh = find_program('sh')"]
    for name, (script, _) in TESTS.items():
        pathlib.Path(name).write_text(script)
        limit = 5 if "sleep" in script else 60
        suite = "t" if name == "fine" else "s"  # meson names suites where there are several
        build.append(f"test('{name}', sh, args: files('{name}'), protocol: 'tap', suite: '{suite}', timeout: {limit})")
    build.append("add_test_setup('some', exclude_suites: ['s'])")
    pathlib.Path("meson.build").write_text("\n".join(build) + "\n")
    subprocess.run([meson, "setup", "b"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([meson, "test", "-C", "b", "--no-rebuild"], stdout=subprocess.DEVNULL)
    out = subprocess.run([sys.executable, totals, "b", "elsewhere"], capture_output=True, text=True)
    lines = out.stdout.splitlines()
    for name, (_, ends) in TESTS.items():
        head = f"b  s / {name}  "
        said = [line[len(head):] for line in lines if line.startswith(head)]
        check(f"{name}: {len(ends)} lines", said == ends, out.stdout + out.stderr)
    check("no logs", "elsewhere: no test was run to its end" in lines, out.stdout)
    check("the sums are last", lines[-1:] == [TOTALS], out.stdout)
    for log in pathlib.Path("b/meson-logs").glob("testlog*"):
        log.unlink()
    subprocess.run([meson, "test", "-C", "b", "--no-rebuild", "--setup", "some"], stdout=subprocess.DEVNULL)
    out = subprocess.run([sys.executable, totals, "b"], capture_output=True, text=True)
    check("of a setup", out.stdout == "2 passed, 0 failed, 0 skipped\n", out.stdout + out.stderr)
    subprocess.run([meson, "test", "-C", "b", "--no-rebuild", "--logbase", "testlog-more", "skips", "wrong"],
                   stdout=subprocess.DEVNULL)
    out = subprocess.run([sys.executable, totals, "b"], capture_output=True, text=True)
    check("of two runs", out.stdout == "b  s / wrong  1 - a\nb  s / wrong  3 - c\n4 passed, 2 failed, 1 skipped\n",
          out.stdout + out.stderr)
print(f"1..{count}")
sys.exit(failed > 0)
