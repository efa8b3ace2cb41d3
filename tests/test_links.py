"""Relative links and anchors of the pages lead somewhere, and so do pages that sources name.
usage: test_links.py SOURCE_ROOT  SPDX-License-Identifier: Apache-2.0"""
import pathlib
import re
import sys

from tap import finish, say

root = pathlib.Path(sys.argv[1])
pages = sorted([root / "README.md", *(root / "docs").rglob("*.md")])
NAMED = re.compile(r"docs/[\w/-]+\.(?:md|svg|schema\.json)(?:#[\w-]+)?")  # as comments and texts name pages
SOURCES = (".c", ".h", ".inc", ".cu", ".cpp", ".py", ".json", ".html", ".build", ".sh", "run", "NEWS")


def prose(path):
    """A page without its examples, in which brackets are no links."""
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", path.read_text(), flags=re.M | re.S)


def anchors(path):
    """As GitHub makes them of headings: letters, digits, hyphens and underscores of it, blanks as hyphens."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    found = {}
    for heading in re.findall(r"^#+ +(.*?) *$", text, re.M):
        anchor = re.sub(r"[^\w -]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).replace(" ", "-")
        found[anchor] = found.get(anchor, -1) + 1
    return {a if not n else f"{a}-{n}" for a, last in found.items() for n in range(last + 1)}


def missing(source, target):
    """Why a link from a file leads nowhere, or nothing."""
    name, _, anchor = target.partition("#")
    path = (source.parent / name).resolve() if name else source
    if not path.exists():
        return f"no file {name}"
    if anchor and path.suffix == ".md" and anchor not in anchors(path):
        return f"no heading #{anchor} in {path.name}"
    return ""


links = 0
for page in pages:
    targets = [t for t in re.findall(r"\]\(([^)\s]+)\)", prose(page)) if not re.match(r"\w+:", t)]
    links += len(targets)
    bad = [f"{t}: {why}" for t in targets if (why := missing(page, t))]
    say(not bad, f"links of {page.relative_to(root)}", "; ".join(bad))
say(links > 100, "pages have links")
named = 0
bad = []
for folder in ["graphs", "simulator", "planner", "runtime", "include", "python", "tests", "bench", "NEWS", "run"]:
    for path in [root / folder] if (root / folder).is_file() else sorted((root / folder).rglob("*")):
        if path.is_file() and path.name.endswith(SOURCES) and path.name != "test_links.py":
            for target in NAMED.findall(path.read_text(errors="replace")):
                named += 1
                why = missing(root / "README.md", target)
                bad += [f"{path.relative_to(root)}: {why}"] if why else []
say(not bad, "pages that sources name", "; ".join(bad))
say(named > 50, "sources name pages")
# files and folders that pages name by their whole path
FOLDERS = "graphs|simulator|planner|runtime|include|python|tests|bench"
paths = {(p, t) for p in pages for t in re.findall(rf"`((?:{FOLDERS})/[\w./*-]+)`", p.read_text())}
bad = [f"{p.name}: no {t}" for p, t in sorted(paths) if not any(root.glob(t.rstrip("/")))]
say(not bad, "files that pages name", "; ".join(bad))
say(len(paths) > 50, "pages name files")
words = len((root / "README.md").read_text().split())
say(words <= 1200, "README has at most 1200 words", words)
# every page is reached from README
reached, look = set(), [root / "README.md"]
while look:
    page = look.pop()
    if page not in reached:
        reached.add(page)
        look += [(page.parent / t).resolve() for t in re.findall(r"\]\(([^)#\s]+\.md)", prose(page)) if ":" not in t]
lost = [str(p.relative_to(root)) for p in pages if p.resolve() not in {r.resolve() for r in reached}]
say(not lost, "README leads to every page", " ".join(lost))
finish()
