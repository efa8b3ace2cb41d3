# ffpack: folders of images become the arrays that they should, and ffrun trains on them.
# Usage: test_pack.py FFPACK FFZOO FFRUN.  SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tap import finish, say  # noqa: E402

ffpack, ffzoo, ffrun = (os.path.abspath(p) for p in sys.argv[1:4])
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
os.environ["OMP_NUM_THREADS"] = "1"
draw = np.random.default_rng(3)
try:
    from PIL import Image
except ImportError:
    Image = None


def pack(*options):
    return subprocess.run([ffpack, *map(str, options)], capture_output=True, text=True)


def contents(folder):
    return {str(p): os.readlink(p) if p.is_symlink() else p.read_bytes() if p.is_file() else None
            for p in sorted(folder.rglob("*"))}


def refused(name, why, *options):
    before = contents(folder)
    done = pack(*options)
    say(done.returncode == 2 and done.stderr.count("\n") == 1 and why in done.stderr and
        contents(folder) == before, name, done.stderr)


def pnm(path, pixels, comment=b""):
    kind = b"P6" if pixels.ndim == 3 else b"P5"
    path.write_bytes(kind + b"\n" + comment + b"%d %d\n255\n" % pixels.shape[1::-1] +
                     pixels.tobytes())


def png(path, pixels):
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))
    height, width = pixels.shape[:2]
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    colour = {2: 0, 3: 2, 4: 6}[pixels.ndim if pixels.ndim == 2 else pixels.shape[2]]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" +
                     chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def square(pixels, size):
    """What ff_image_square says, in double precision."""
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, 2)
    x = pixels.astype(np.float64)
    scale = min(x.shape[:2]) / size
    for axis in (0, 1):
        length = x.shape[axis]
        offset = np.floor((length / scale - size) / 2)
        centre = (offset + np.arange(size)[:, None] + 0.5) * scale
        weight = np.maximum(0, 1 - abs(np.arange(length) + 0.5 - centre) / max(scale, 1))
        x = np.moveaxis(np.tensordot(weight / weight.sum(1, keepdims=True), x, (1, axis)), 0, axis)
    return np.moveaxis(x, 2, 0)


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    for name in ("cat", "ant", "bee"):
        (folder / "in" / name).mkdir(parents=True)
    colours, grey = (draw.integers(0, 256, s, np.uint8) for s in ((9, 12, 3), (8, 8)))
    wide, tall = (draw.integers(0, 256, s, np.uint8) for s in ((8, 31, 3), (50, 16, 3)))
    pnm(folder / "in" / "cat" / "b.ppm", colours)
    pnm(folder / "in" / "cat" / "a.PGM", grey, b"# grey\n")
    png(folder / "in" / "bee" / "x.png", wide)
    png(folder / "in" / "bee" / "y.png", grey)
    pnm(folder / "in" / "ant" / "one.pnm", tall)
    (folder / "in" / "ant" / "notes.txt").write_text("no image")
    (folder / "in" / ".hidden").mkdir()
    files = [tall, wide, grey, grey, colours]  # by class and name
    done = pack(folder / "in", "-o", folder / "out", "--size", 8)
    say(done.returncode == 0 and done.stdout ==
        "3 classes, 5 images for training, 0 for testing\n", "packed", done.stderr)
    data = np.load(folder / "out" / "train" / "data.npy")
    labels = np.load(folder / "out" / "train" / "labels.npy")
    say(data.dtype == np.uint8 and data.shape == (5, 3, 8, 8) and labels.dtype == np.int32,
        "NumPy loads it", (data.dtype, data.shape, labels.dtype))
    say(labels.tolist() == [0, 1, 1, 2, 2] and
        (folder / "out" / "classes.txt").read_text() == "ant\nbee\ncat\n", "classes by name", labels.tolist())
    say((data[2] == grey).all() and (data[3] == grey).all(), "what fits is as it was")
    for i, pixels in enumerate(files):
        apart = abs(data[i] - square(pixels, 8)).max()
        say(apart < 0.5 + 1e-3, f"image {i} is scaled and cut", apart)
    for size in (3, 1, 20):
        pack(folder / "in", "-o", folder / "out", "--size", size)
        data = np.load(folder / "out" / "train" / "data.npy")
        apart = max(abs(data[i] - square(x, size)).max() for i, x in enumerate(files))
        say(apart < 0.5 + 1e-3, f"to {size} pixels", apart)

    # into training and testing
    for i in range(100):
        pnm(folder / "in" / "cat" / f"{i}.ppm", colours)
        pnm(folder / "in" / "ant" / f"{i}.ppm", tall)
    pack(folder / "in", "-o", folder / "out", "--size", 12, "--test", 20)
    parts = [np.load(folder / "out" / s / "labels.npy") for s in ("train", "test")]
    say(len(parts[0]) + len(parts[1]) == 205 and 25 < len(parts[1]) < 57 and
        set(parts[1]) >= {0, 2}, "a fifth for testing", len(parts[1]))
    subprocess.run([ffzoo, "mlp", "--batch", "8", "--set", "image=12", "--set", "channels=3",
                    "--set", "hidden=8", "--set", "layers=1", "-o", folder / "net.json"])
    done = subprocess.run([ffrun, folder / "net.json", "single", "--data", folder / "out",
                           "--epochs", "2", "--test"], capture_output=True, text=True)
    say(done.returncode == 0 and "test accuracy" in done.stdout, "ffrun trains on it", done.stderr)
    os.rename(folder / "in", folder / "train")
    (folder / "both").mkdir()
    os.rename(folder / "train", folder / "both" / "train")
    (folder / "both" / "val" / "bee").mkdir(parents=True)
    png(folder / "both" / "val" / "bee" / "x.png", wide)
    done = pack(folder / "both", "-o", folder / "out", "--size", 8, "--data", "x", "--labels", "y")
    say(done.returncode == 0 and np.load(folder / "out" / "test" / "y.npy").tolist() == [1] and
        np.load(folder / "out" / "train" / "x.npy").shape[0] == 205, "folders of their own",
        done.stderr)
    refused("which are not divided", "has a folder val of its own", folder / "both", "-o",
            folder / "out", "--test", 3)

    # what was there goes, and nothing else; a failure changes nothing
    say(set(contents(folder / "out")) == {str(folder / "out" / p) for p in (
        "train", "train/x.npy", "train/y.npy", "test", "test/x.npy", "test/y.npy", "classes.txt")},
        "arrays of an earlier set are gone", sorted(contents(folder / "out")))
    done = pack(folder / "both" / "train", "-o", folder / "out", "--size", 8)
    say(done.returncode == 0 and not (folder / "out" / "test").exists() and
        not list(folder.glob(".ff-*")), "and those for testing", done.stderr)
    (folder / "empty").mkdir(0o700)
    os.symlink("empty", folder / "link")
    done = pack(folder / "both", "-o", folder / "link/", "--size", 8)
    say(done.returncode == 0 and (folder / "link").is_symlink() and
        (folder / "empty" / "test" / "data.npy").exists() and
        (folder / "empty").stat().st_mode & 0o777 == 0o700, "into an empty folder, by a link",
        done.stderr)
    (folder / "empty" / "test" / "mine.txt").write_text("precious")
    refused("not over what others wrote", "has mine.txt, which ffpack did not write",
            folder / "both", "-o", folder / "empty", "--size", 8)
    os.remove(folder / "empty" / "test" / "mine.txt")
    os.rename(folder / "empty" / "test" / "data.npy", folder / "moved.npy")
    os.symlink("../../moved.npy", folder / "empty" / "test" / "data.npy")
    refused("nor over what a link names", "has data.npy", folder / "both", "-o", folder / "empty")
    os.remove(folder / "empty" / "classes.txt")
    os.remove(folder / "empty" / "test" / "data.npy")
    refused("nor over other arrays", "has no classes.txt", folder / "both", "-o", folder / "empty")
    (folder / "file").write_text("precious")
    refused("nor over a file", "is no folder", folder / "both", "-o", folder / "file")
    for where in (folder / "both", folder / "both" / "new", folder / "both" / "train" / "cat",
                  f"{folder}/out/../both/new/"):
        refused("nor among images", "which is read", folder / "both", "-o", where)
    refused("one name for images and labels", "--data and --labels are the same, labels",
            folder / "both", "-o", folder / "out", "--data", "labels")
    for name in ("../../x", "a/b", "/x", "", "a\nb"):
        for option in ("--data", "--labels"):
            words = f"{option} " if name else f"{option}: expected NAME"
            refused(f"{option} {name!r}", words, folder / "both", "-o", folder / "out", option, name)
    for name in ("a\nb", "a\rb", "\x1b[31m"):
        (folder / "both" / "train" / name).mkdir()
        png(folder / "both" / "train" / name / "x.png", wide)
        refused(f"class {name!r}", "has a line break or control character", folder / "both", "-o",
                folder / "new")
        os.remove(folder / "both" / "train" / name / "x.png")
        os.rmdir(folder / "both" / "train" / name)
    (folder / "both" / "val" / "wasp").mkdir()
    refused("a class for testing alone", "has class wasp, which is not among those for training",
            folder / "both", "-o", folder / "new")
    os.rmdir(folder / "both" / "val" / "wasp")
    (folder / "lone" / "c").mkdir(parents=True)
    pnm(folder / "lone" / "c" / "0.ppm", colours)
    few = [pack(folder / "lone", "-o", folder / "lone-out", "--test", 99, "--seed", s, "--size", 4)
           for s in range(3)]
    say(all(d.returncode == 2 and "none is for training" in d.stderr for d in few) and
        not (folder / "lone-out").exists(), "nothing left for training", few[0].stderr)
    before = contents(folder)
    (folder / "both" / "train" / "cat" / "zzz.ppm").write_bytes(b"P6 nothing")
    done = pack(folder / "both", "-o", folder / "out", "--size", 8)
    os.remove(folder / "both" / "train" / "cat" / "zzz.ppm")
    say(done.returncode == 2 and "zzz.ppm" in done.stderr and contents(folder) == before,
        "the last image is spoilt: the old set is whole", done.stderr)
    limit = ["prlimit", "--fsize=20000", ffpack, folder / "both", "-o", folder / "out", "--size", "32"]
    done = subprocess.run(limit, capture_output=True, text=True, preexec_fn=lambda: signal.signal(
        signal.SIGXFSZ, signal.SIG_IGN))
    say(done.returncode == 1 and "cannot be written: File too large" in done.stderr and
        contents(folder) == before, "no room: the old set is whole", done.stderr)
    os.mkfifo(folder / "both" / "train" / "cat" / "zzz.png")
    refused("a pipe is no image", "zzz.png: is no regular file", folder / "both", "-o",
            folder / "new")
    os.remove(folder / "both" / "train" / "cat" / "zzz.png")

    # what is no image
    bad = folder / "bad" / "c"
    bad.mkdir(parents=True)
    refused("no images", "has no images", folder / "bad", "-o", folder / "out")
    refused("no classes", "has no folders", bad, "-o", folder / "out")
    refused("no folder", "No such file", folder / "none", "-o", folder / "out")
    refused("nowhere to go", "expected -o", folder / "bad")
    png(bad / "a.png", wide)
    pnm(bad / "b.ppm", colours)
    whole = {n: (bad / n).read_bytes() for n in ("a.png", "b.ppm")}
    if Image:
        Image.fromarray(draw.integers(0, 256, (16, 16, 3), np.uint8)).save(bad / "c.jpg")
        whole["c.jpg"] = (bad / "c.jpg").read_bytes()
        done = pack(folder / "bad", "-o", folder / "out", "--size", 16)
        data = np.load(folder / "out" / "train" / "data.npy")
        with Image.open(bad / "c.jpg") as image:
            apart = abs(data[2].astype(int) - np.moveaxis(np.array(image), 2, 0)).max()
        say(done.returncode == 0 and apart <= 1, "JPEG as Pillow reads it", apart)
    dice, odd = random.Random(5), []
    for name, good in whole.items():
        for trial in range(60):
            spoilt = bytearray(good)
            spoilt[dice.randrange(len(spoilt))] = dice.randrange(256)
            if trial % 2:
                del spoilt[dice.randrange(len(spoilt)):]
            (bad / name).write_bytes(spoilt)
            done = pack(folder / "bad", "-o", folder / "out", "--size", 8)
            if done.returncode not in (0, 2) or (
                    done.returncode and (done.stderr.count("\n") != 1 or name not in done.stderr)):
                odd.append((name, done.returncode, done.stderr))
        (bad / name).write_bytes(good)
    say(not odd, f"{60 * len(whole)} spoilt images", odd[:3])

finish()
