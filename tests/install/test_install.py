#!/usr/bin/env python3
"""What meson install makes, in a scratch folder: commands, pages for man, completion, and a library against which
a C program outside builds.  Prints TAP.

usage: test_install.py MESON BUILD EXAMPLE.  SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from tap import finish, say  # noqa: E402


def run(*args, **kw):
    p = subprocess.run([str(a) for a in args], capture_output=True, text=True, check=False, timeout=600, **kw)
    return p.returncode, p.stdout, p.stderr


def shell_says(shell, *args):
    if not shutil.which(shell):
        return None
    code, out, err = run(shell, *args)
    return out if code == 0 and not err else f"status {code}: {err}"


def man_pages(there):
    pages = sorted((there / "share/man/man1").glob("*.1"))
    names = {p.name for p in pages}
    say({"ffcheck.1", "ffplan.1", "ffrun.1", "ffsearch.1", "ffzoo.1"} <= names, "pages for man", names)
    for page in pages:
        command = there / "bin" / page.stem
        options = set(re.findall(r"^  (-{1,2}[a-z][a-z0-9-]*)", run(command, "--help")[1], re.M)) - {"-h"}
        told = {o.replace("\\", "") for o in re.findall(r"^\.TP\n\\fB(\\-[^ ]*?)\\fR", page.read_text(), re.M)}
        say(options - {"--help"} <= told, f"{page.name} has every option", options - told)
    if shutil.which("groff"):
        for page in pages:
            code, _, err = run("groff", "-man", "-Tutf8", "-ww", page)
            say(code == 0 and not err, f"groff reads {page.name}", err)


# what is typed behind ffplan, and the only word that it can become
COMPLETED = (("re", "rebase"), ("--g", "--graph"), ("--machine dgx-a100-8", "dgx-a100-80"), ("--costs ana", "analytic"),
             ("as torcht", "torchtitan"))


def in_fish(there, share):
    if not shutil.which("fish"):
        say(True, "fish completes # SKIP no fish here (Debian: fish)")
        return
    script = share / "fish/vendor_completions.d/ffplan.fish"
    for words, wanted in COMPLETED:
        out = shell_says("fish", "--no-config", "-c", f"set -x PATH {there}/bin $PATH; source {script}; "
                         f"complete -C 'ffplan {words}'")
        say([line.split("\t")[0] for line in out.splitlines()] == [wanted], f"fish completes {words}", out)


# A terminal of its own, as zsh completes in one alone; Tab, and what stands in the line then.
ZSH = """zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PS1=; PATH=%s/bin:$PATH; fpath=(%s/zsh/site-functions $fpath); autoload -U compinit; compinit -u -D'
zpty -w z 'show() { print "LINE:$BUFFER:"; zle .kill-whole-line }; zle -N show; bindkey "^X" show; print READY:'
while zpty -r z line && [[ $line != *READY:* || $line == *print* ]]; do :; done
for words in "${@}"; do
  zpty -n -w z "ffplan $words"$'\\t\\x18'
  while zpty -r z line && [[ $line != *LINE:*:* ]]; do :; done
  print -r -- "${${line##*LINE:}%%%%:*}"
done
zpty -d z
"""


def in_zsh(there, share):
    if not shutil.which("zsh"):
        say(True, "zsh completes # SKIP no zsh here (Debian: zsh)")
        return
    script = share / "completed.zsh"
    script.write_text(ZSH % (there, share))
    out = shell_says("timeout", "300", "zsh", "-f", script, *(words for words, _ in COMPLETED))
    lines = [line.strip() for line in out.splitlines()]
    for (words, wanted), got in zip(COMPLETED, lines + len(COMPLETED) * ["nothing"]):
        say(got.rstrip("=") == " ".join(["ffplan", *words.split()[:-1], wanted]), f"zsh completes {words}", out)


def completion(there):
    share = there / "share"
    script = share / "bash-completion/completions/ffplan.bash"
    path = f"PATH={there}/bin:$PATH; "
    os.chdir(share)  # no file there is called so

    def completed(words):
        return shell_says("bash", "-c", f"{path} source {script}; COMP_WORDS=(ffplan {words}); "
                          "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _ffplan; echo \"${COMPREPLY[@]}\"")
    for words, wanted in COMPLETED:
        say(completed(words) == wanted + "\n", f"bash completes {words}", completed(words))
    in_fish(there, share)
    in_zsh(there, share)
    for shell, files in (("bash", share.glob("bash-completion/completions/*")), ("zsh", share.glob("zsh/*/_*")),
                         ("fish", share.glob("fish/*/*"))):
        files = list(files)
        say(len(files) >= 6, f"completion for {shell}", files)
        if shutil.which(shell):
            for f in files:
                said = shell_says(shell, "-n", f)
                say(said == "", f"{shell} reads {f.name}", said)


def program(there, example, folder):
    """The library and its headers, by pkg-config alone."""
    pc, = there.glob("lib*/**/pkgconfig/ffsoap.pc")
    text = pc.read_text()
    pc.write_text(re.sub(r"^prefix=.*", f"prefix={there}", text, flags=re.M))  # it was moved here
    env = dict(os.environ, PKG_CONFIG_PATH=str(pc.parent))
    code, flags, err = run("pkg-config", "--static", "--cflags", "--libs", "ffsoap", env=env)
    say(code == 0, "pkg-config knows it", err)
    code, _, err = run("cc", "-Wall", "-Wextra", "-Werror", example, *flags.split(), "-o", folder / "example")
    say(code == 0, "a program outside builds", err)
    run(there / "bin/ffzoo", "mlp", "-o", folder / "g.json")
    code, out, err = run(there / "bin/ffsearch", folder / "g.json", "--machine", "p100x16", "--costs", "analytic",
                         "--simulate", "data-parallel", "--report", folder / "r.json")
    say(code == 0, "the installed ffsearch runs", err)
    report = json.loads((folder / "r.json").read_text())
    code, out, err = run(folder / "example", folder / "g.json", "p100x16")
    say(code == 0 and 0.5 < float(out) / report["predicted_us"] < 2, "and predicts", (out, err, report["predicted_us"]))
    code, out, err = run(folder / "example", folder / "r.json", "p100x16")
    say(code == 2 and "ffsoap-graph" in err, "or says why not", err)
    for header in (there / "include/ff").glob("*.h"):
        text = header.read_text()
        for wanted in re.findall(r'#include "ff/([^"]+)"', text):
            if not (there / "include/ff" / wanted).exists():
                say(False, f"{header.name} needs {wanted}")


meson, build, example = sys.argv[1], *map(os.path.abspath, sys.argv[2:4])
with tempfile.TemporaryDirectory() as scratch:
    code, out, err = run(meson, "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", scratch)
    say(code == 0, "meson install", err or out)
    bins, = pathlib.Path(scratch).glob("**/bin")
    code, out, err = run(bins / "ffsearch", "--version")
    say(out.startswith("ffsearch ") and "built with Open MPI" in out, "--version names libraries", out)
    man_pages(bins.parent)
    completion(bins.parent)
    program(bins.parent, example, pathlib.Path(scratch))
    os.chdir("/")
finish()
