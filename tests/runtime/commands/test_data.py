# Data sets in files, end to end: what ffrun trains on is what the files hold, and what they hold
# wrong is told in a sentence.
# Usage: test_data.py FFZOO FFRUN.  SPDX-License-Identifier: Apache-2.0
import gzip
import json
import os
import pathlib
import random
import resource
import struct
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tap import finish, say  # noqa: E402

ffzoo, ffrun = (os.path.abspath(p) for p in sys.argv[1:3])
# leaks of Open MPI's modules are not ours
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
os.environ["OMP_NUM_THREADS"] = "1"
draw = np.random.default_rng(3)


def run(*options, stdin=None):
    return subprocess.run([ffrun, *map(str, options)], capture_output=True, text=True, input=stdin)


def refused(name, why, *options, stdin=None):
    """Exit status 2 and one sentence with `why`."""
    done = run(*options, stdin=stdin)
    say(done.returncode == 2 and done.stderr.count("\n") == 1 and why in done.stderr and
        not done.stdout, name, done.stderr)


def graph(path, inputs, middle):
    """`inputs` by name: shape and classes (None: float32); `middle` makes logits of them."""
    nodes = [{"name": k, "op": "input", "shape": shape,
              **({"dtype": "int32", "classes": classes} if classes else {})}
             for k, (shape, classes) in inputs.items()]
    nodes += middle + [{"name": "loss", "op": "softmax_cross_entropy",
                        "in": [middle[-1]["name"], "labels"]}]
    path.write_text(json.dumps({"format": "ffsoap-graph", "version": 2, "name": path.stem,
                                "nodes": nodes}))
    return path


def batch(net, data, plan=("single",)):
    """The inputs of the first step, by name; or why there are none."""
    dump = net.with_suffix(".dump")
    done = run(net, *plan, "--data", data, "--dump", dump)
    if done.returncode:
        return done.stderr
    raw = dump.read_bytes()
    size, = struct.unpack("<Q", raw[:8])
    header, body = json.loads(raw[8:8 + size]), raw[8 + size:]
    return {k[6:]: np.frombuffer(body[slice(*v["data_offsets"])],
                                 {"F32": "<f4", "I32": "<i4"}[v["dtype"]]).reshape(v["shape"])
            for k, v in header.items() if k.startswith("input.")}


def rows_of(got, whole):
    """Which samples of `whole` the batch `got` is, alike in all inputs; None: it is none of them."""
    if isinstance(got, str):
        return got
    found = []
    for row in range(len(next(iter(got.values())))):
        same = [i for i in range(len(next(iter(whole.values()))))
                if all(np.allclose(got[k][row].ravel(), whole[k][i].ravel(), rtol=1e-6, atol=1e-6)
                       for k in whole)]
        if not same:
            return None
        found.append(same[0])
    return found


def holds(name, net, data, whole):
    rows = rows_of(batch(net, data), whole)
    say(isinstance(rows, list) and len(set(rows)) == len(rows), name, rows)


def normal(pixels, axes):
    x = pixels.astype(np.float64) / 255
    return ((x - x.mean(axes, keepdims=True)) / x.std(axes, keepdims=True)).astype(np.float32)


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    flat = {"name": "flat", "op": "reshape", "shape": [0, -1]}
    images = graph(folder / "images.json", {"data": ([4, 3, 32, 32], None), "labels": ([4], 10)},
                   [{**flat, "in": ["data"]},
                    {"name": "fc", "op": "linear", "in": ["flat"], "out_features": 10}])

    # CIFAR-10
    cifar = folder / "cifar"
    cifar.mkdir()
    label = draw.integers(0, 10, 30, np.uint8)
    pixels = draw.integers(0, 256, (30, 3, 32, 32), np.uint8)
    pixels[:, 1] //= 3
    records = np.concatenate([label[:, None], pixels.reshape(30, -1)], 1)
    (cifar / "data_batch_1.bin").write_bytes(records[:7].tobytes())
    (cifar / "data_batch_2.bin").write_bytes(records[7:].tobytes())
    (cifar / "test_batch.bin").write_bytes(records[:6].tobytes())
    whole = {"data": normal(pixels, (0, 2, 3)), "labels": label}
    holds("CIFAR-10", images, cifar, whole)
    plain = rows_of(batch(images, f"cifar10:{cifar}"), whole)
    say(plain == rows_of(batch(images, cifar, ["data-parallel", "--devices", "3"]), whole),
        "in the same order on three devices", plain)
    done = run(images, "single", "--data", cifar, "--epochs", 2, "--test")
    say(done.returncode == 0 and "test accuracy" in done.stdout, "trained and tested", done.stderr)
    (cifar / "data_batch_2.bin").write_bytes(records[7:].tobytes()[:-1])
    refused("a cut batch", "data_batch_2.bin: has 70678 bytes, expected whole records of 3073",
            images, "single", "--data", cifar, "--steps", 1)
    records[9, 0] = 10
    (cifar / "data_batch_2.bin").write_bytes(records[7:].tobytes())
    refused("a wrong label", "data_batch_2.bin: byte 6146: label 10, but the graph has 10 classes",
            images, "single", "--data", cifar, "--steps", 1)
    (cifar / "test_batch.bin").rename(folder / "away.bin")
    refused("no file for testing", "test_batch.bin: No such file", images, "single", "--data",
            f"cifar10:{cifar}", "--steps", 1)
    (folder / "away.bin").rename(cifar / "test_batch.bin")
    records[9, 0] = 1
    (cifar / "data_batch_2.bin").write_bytes(records[7:].tobytes())

    # NumPy: several inputs, labels with an axis, every type
    several = graph(
        folder / "several.json",
        {"words": ([4, 5], 20), "left": ([4, 5, 6], None), "scale": ([4, 5, 6], None),
         "labels": ([4, 5], 7)},
        [{"name": "embed", "op": "embedding", "in": ["words"], "vocabulary": 20, "features": 6},
         {"name": "sum", "op": "add", "in": ["embed", "left", "scale"]},
         {"name": "fc", "op": "linear", "in": ["sum"], "out_features": 7},
         {"name": "turn", "op": "transpose", "in": ["fc"], "perm": [0, 2, 1]}])
    whole = {"words": draw.integers(-1, 20, (12, 5)), "left": draw.normal(size=(12, 5, 6)),
             "scale": draw.normal(size=(12, 5, 6)), "labels": draw.integers(-1, 7, (12, 5))}
    sets = folder / "sets"
    for kind in ("stored", "packed", "folder"):
        for ids in (np.int32, np.int64):
            for values in (np.float32, np.float64):
                typed = {k: v.astype(ids if v.dtype.kind == "i" else values)
                         for k, v in whole.items()}
                (sets / "train").mkdir(parents=True, exist_ok=True)
                for file in [*sets.glob("*.npz"), *sets.glob("train/*")]:
                    file.unlink()
                if kind == "stored":
                    np.savez(sets / "train.npz", **typed)
                elif kind == "packed":
                    np.savez_compressed(sets / "train.npz", extra=typed["left"], **typed)
                else:
                    for k, v in typed.items():
                        np.save(sets / "train" / f"{k}.npy", v)
                holds(f"{kind}, {ids.__name__} and {values.__name__}", several, sets, whole)
    np.savez(folder / "one.npz", **whole)
    holds("an archive alone", several, folder / "one.npz", whole)
    refused("without samples for testing", "has no samples for testing", several, "single",
            "--data", folder / "one.npz", "--steps", 1, "--test")
    refused("nor on the way", "--test-every: data", several, "single", "--data",
            folder / "one.npz", "--steps", 1, "--test-every", 1)
    done = run(several, "data-parallel", "--devices", 2, "--data", folder / "one.npz", "--epochs",
               2, "--verify")
    say(done.returncode == 0 and "verified" in done.stdout, "trained on two devices", done.stderr)
    os.environ["FF_PREFETCH"] = "1"
    done = run(several, "single", "--data", folder / "one.npz", "--epochs", 2)
    say(done.returncode == 0, "prefetched", done.stderr)
    del os.environ["FF_PREFETCH"]

    def bad(name, why, **change):
        np.savez(folder / "bad.npz", **{**whole, **change})
        refused(name, why, several, "single", "--data", folder / "bad.npz", "--steps", 1)

    bad("another shape", "bad.npz: left.npy: samples are 6x5, the graph's input left wants 5x6",
        left=np.zeros((12, 6, 5)))
    bad("another number of samples", "left.npy: has 11 samples, but", left=np.zeros((11, 5, 6)))
    bad("floats as ids", "words.npy: is float64, but input words of graph several wants whole",
        words=np.zeros((12, 5)))
    bad("columns first", "expected False: C order", left=np.asfortranarray(whole["left"]))
    bad("big endian", "expected |u1, <u2", left=whole["left"].astype(">f4"))
    bad("records", "expected a text in quotes", left=np.zeros(12, [("a", "<f4")]))
    bad("no axis", "expected an axis of samples", left=np.float32(3))
    wrong = whole["labels"].copy()
    wrong[3, 2] = 7
    bad("no class", "label 7, but the graph has 7 classes in input labels", labels=wrong)
    wrong = whole["words"].copy()
    wrong[3, 2] = -2
    bad("no id", "id -2, but the graph has 20 classes in input words", words=wrong)
    np.savez(folder / "bad.npz", words=whole["words"], other=whole["left"])
    refused("a missing input", "bad.npz: has no left.npy for input left of graph several; it has "
            "words.npy, other.npy", several, "single", "--data", folder / "bad.npz", "--steps", 1)
    np.savez_compressed(folder / "bad.npz", **whole)
    good = bytearray((folder / "bad.npz").read_bytes())
    dice, crashes = random.Random(4), []
    for trial in range(150):
        spoilt = bytearray(good)
        for _ in range(dice.randrange(1, 4)):
            spoilt[dice.randrange(len(spoilt))] = dice.randrange(256)
        if trial % 3 == 0:
            del spoilt[dice.randrange(len(spoilt)):]
        (folder / "bad.npz").write_bytes(spoilt)
        done = run(several, "single", "--data", folder / "bad.npz", "--steps", 1)
        if done.returncode not in (0, 2) or (done.returncode and done.stderr.count("\n") != 1):
            crashes.append((done.returncode, done.stderr))
    say(not crashes, "150 spoilt archives", crashes)

    # targets with gaps, labels of which some class is ignored; the last test batch is not full
    def targets(labels, ignored):
        inputs = [("data", {"shape": [4, 6]}), ("numbers", {"shape": [4, 3]}),
                  ("bits", {"shape": [4, 3]}),
                  ("labels", {"shape": [4], "dtype": "int32", "classes": 3})]
        path = folder / "targets.json"
        path.write_text(json.dumps({"format": "ffsoap-graph", "version": 2, "name": "targets", "nodes": [
            *({"name": k, "op": "input", **v} for k, v in inputs),
            {"name": "fc", "op": "linear", "in": ["data"], "out_features": 3},
            {"name": "far", "op": "mse", "in": ["fc", "numbers"], "weight": 0.5},
            {"name": "set", "op": "bce_with_logits", "in": ["fc", "bits"], "weight": 2},
            {"name": "kind", "op": "softmax_cross_entropy", "in": ["fc", "labels"],
             "ignore_index": ignored},
            {"name": "again", "op": "linear", "in": ["fc"], "out_features": 6},
            {"name": "self", "op": "mse", "in": ["again", "data"]}]}))
        whole = {"data": draw.normal(size=(10, 6)).astype(np.float32),
                 "numbers": draw.normal(size=(10, 3)), "labels": labels,
                 "bits": draw.integers(0, 2, (10, 3)).astype(np.float32)}
        whole["numbers"][draw.random((10, 3)) < 0.3] = np.nan
        whole["bits"][[2, 5], [0, 1]] = np.nan
        (folder / "targets").mkdir(exist_ok=True)
        for part in ("train", "test"):
            np.savez(folder / "targets" / f"{part}.npz", **whole)
        return path, whole

    def tensors_of(path):
        raw = path.read_bytes()
        size, = struct.unpack("<Q", raw[:8])
        return {k: np.frombuffer(raw[slice(8 + size + v["data_offsets"][0],
                                           8 + size + v["data_offsets"][1])],
                                 {"F32": "<f4", "I32": "<i4"}[v["dtype"]]).reshape(v["shape"])
                for k, v in json.loads(raw[8:8 + size]).items() if k != "__metadata__"}

    def defined(w, whole, ignored):
        """Losses and accuracies by NumPy, in the order of the graph."""
        x = whole["data"] @ w["fc.weight"].T + w["fc.bias"]
        t, b, labels = whole["numbers"], whole["bits"], whole["labels"]
        counts = labels != ignored
        logs = x - np.log(np.exp(x).sum(1, keepdims=True))
        own = logs[np.arange(len(labels)), np.where(counts, labels, 0)]
        back = x @ w["again.weight"].T + w["again.bias"]
        return [(np.nanmean((x - t) ** 2), None),
                (np.nanmean(np.log1p(np.exp(x)) - x * b),
                 ((x > 0) == (b > 0.5))[~np.isnan(b)].mean()),
                (-own[counts].mean(), (x.argmax(1) == labels)[counts].mean()),
                (np.mean((back - whole["data"]) ** 2), None)]

    for ignored, labels in ((-100, np.where(draw.random(10) < 0.3, -100, draw.integers(0, 3, 10))),
                            (1, draw.integers(0, 3, 10).astype(np.uint8)),
                            (255, np.array([0, 255, 1, 2, 255, 1, 0, 2, 2, 1], np.int64))):
        path, whole = targets(labels, ignored)
        for plan in (["single"], ["data-parallel", "--devices", "3"]):
            # a rate of zero: what was trained is what is tested
            done = run(path, *plan, "--data", folder / "targets", "--steps", 2, "--rate", 0,
                       "--test", "--report", folder / "report", "--save", folder / "weights")
            if done.returncode:
                say(False, f"targets, {ignored} ignored", done.stderr)
                continue
            told = json.loads((folder / "report").read_text())
            want = defined(tensors_of(folder / "weights"), whole, ignored)
            near = [abs(l["test_loss"] / w[0] - 1) < 1e-5 and
                    (l["accuracy"] is None if w[1] is None else abs(l["accuracy"] - w[1]) < 1e-6)
                    for l, w in zip(told["losses"], want)]
            say(len(near) == 4 and all(near), f"targets with gaps, {ignored} ignored, {plan[0]}",
                [near, want, told["losses"]] if not all(near) else "")
            both = sum(l["weight"] * np.array(l["loss"]) for l in told["losses"])
            say(np.allclose(both, told["loss"], rtol=1e-6), "their sum is trained")
    path, whole = targets(np.full(10, -1), 255)
    refused("a label that is not ignored", "label -1, but the graph has 3 classes in input labels",
            path, "single", "--data", folder / "targets", "--steps", 1)

    # pixels of NumPy are normalised by channel
    np.savez(folder / "pixels.npz", data=pixels, labels=label)
    holds("pixels", images, folder / "pixels.npz",
          {"data": normal(pixels, (0, 2, 3)), "labels": label})

    # tokens: a window and the tokens behind it
    text = draw.integers(0, 50, 1003)
    sequence = graph(
        folder / "sequence.json", {"words": ([4, 8], 50), "labels": ([4, 8], 50)},
        [{"name": "embed", "op": "embedding", "in": ["words"], "vocabulary": 50, "features": 6},
         {"name": "fc", "op": "linear", "in": ["embed"], "out_features": 50},
         {"name": "turn", "op": "transpose", "in": ["fc"], "perm": [0, 2, 1]}])
    following = graph(
        folder / "following.json", {"words": ([4, 8], 50), "labels": ([4], 50)},
        [{"name": "embed", "op": "embedding", "in": ["words"], "vocabulary": 50, "features": 6},
         {**flat, "in": ["embed"]},
         {"name": "fc", "op": "linear", "in": ["flat"], "out_features": 50}])

    def windows(stride, ahead):
        at = range(0, len(text) - 8, stride)
        return {"words": np.stack([text[i:i + 8] for i in at]),
                "labels": np.stack([text[i + 1:i + 9] if ahead == 1 else text[i + 8:i + 9]
                                    for i in at])}

    for kind in ("uint8", "uint16", "uint32"):
        file = folder / f"{kind}.bin"
        file.write_bytes(text.astype(kind).tobytes())
        for stride in (8, 1, 3, 20):
            spec = f"tokens,type={kind},stride={stride}:{file}"
            holds(f"tokens of {kind}, every {stride}", sequence, spec, windows(stride, 1))
        holds(f"the token behind, {kind}", following, f"tokens,type={kind}:{file}", windows(8, 8))
    file.with_suffix(".gz").write_bytes(gzip.compress(text.astype("uint32").tobytes()))
    holds("packed tokens", sequence, f"tokens,type=uint32:{file.with_suffix('.gz')}", windows(8, 1))
    corpus = folder / "corpus"
    corpus.mkdir()
    (corpus / "train.bin").write_bytes(text.astype("uint16").tobytes())
    holds("a folder", sequence, corpus, windows(8, 1))
    refused("nothing to test with", "has no samples for testing", sequence, "single", "--data",
            corpus, "--steps", 1, "--test")
    (corpus / "val.bin").write_bytes(text[:20].astype("uint16").tobytes())
    done = run(sequence, "single", "--data", corpus, "--steps", 1, "--test")
    say(done.returncode == 0 and "test accuracy" in done.stdout, "tested with val.bin", done.stderr)
    done = run(sequence, "data-parallel", "--devices", 2, "--data",
               f"tokens,test=10:{corpus / 'train.bin'}", "--steps", 9, "--test", "--report",
               folder / "report")
    report = json.loads((folder / "report").read_text())
    say(done.returncode == 0 and 0 <= report["accuracy"] < 0.2, "a tenth is for testing",
        done.stderr)
    (corpus / "train.bin").write_bytes(text.astype("uint16").tobytes()[:-1])
    refused("half a token", "train.bin: has 2005 bytes, no whole number of uint16", sequence,
            "single", "--data", corpus, "--steps", 1)
    text[77] = 50
    (corpus / "train.bin").write_bytes(text.astype("uint16").tobytes())
    refused("no token", "train.bin: byte 154: ", sequence, "single", "--data", corpus, "--steps", 1)
    text[77] = 0
    (corpus / "train.bin").write_bytes(text[:40].astype("uint16").tobytes())
    refused("too few", "has 2 training samples, fewer than the graph's batch of 4", sequence,
            "single", "--data", f"tokens,stride=30:{corpus / 'train.bin'}", "--steps", 1)
    for why, spec in {
            "tokens has no option size; it has type, stride, test": f"tokens,size=3:{corpus}",
            "option stride: expected a number from 1 to": f"tokens,stride=0:{corpus}",
            "option type: expected uint8, uint16 or uint32": f"tokens,type=int8:{corpus}",
            "option stride: expected stride=VALUE": f"tokens,stride:{corpus}",
            "option test is for a single file": f"tokens,test=10:{corpus}",
            "has tokens and those behind them, but graph images has an input data": None,
            "nothing is named": "tokens"}.items():
        refused(f"refused: {why}", why, sequence if spec else images, "single", "--data",
                spec or corpus, "--steps", 1)

    # files that nobody reads as a whole
    large = folder / "large.bin"
    with open(large, "wb") as file:
        file.truncate(2 << 30)
    done = run(sequence, "single", "--data", f"tokens,stride=5000:{large}", "--steps", 3)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    say(done.returncode == 0 and most < 1000, "2 GiB of tokens", f"{done.stderr} {most} MiB")
    large.write_bytes(np.full(17_000_000, 60, "<u2").tobytes())
    done = run(sequence, "single", "--data", f"tokens,stride=1:{large}", "--steps", 1)
    say(done.returncode == 2 and "id 60, but the graph has 50 classes" in done.stderr and
        done.stderr.count("\n") == 1, "what is wrong is found when it is read", done.stderr)
    large.unlink()

    # fetched ahead or not, the same samples
    for name, net, spec in (("archive", several, folder / "one.npz"), ("CIFAR-10", images, cifar),
                            ("tokens", sequence, f"tokens,type=uint8:{folder / 'uint8.bin'}")):
        saved = []
        for fetch in "01":
            os.environ["FF_PREFETCH"] = fetch
            run(net, "data-parallel", "--devices", 2, "--data", spec, "--steps", 8, "--save",
                folder / "saved")
            saved.append((folder / "saved").read_bytes())
            (folder / "saved").unlink()
        say(saved[0] == saved[1], f"{name} is fetched ahead")
    del os.environ["FF_PREFETCH"]

    # a run that goes on goes on in the middle of its epoch
    at = [images, "single", "--data", folder / "pixels.npz", "--rate", "1e-3"]
    straight, kept = folder / "straight", folder / "kept"
    run(*at, "--steps", 17, "--save", straight)
    for steps in (3, 9, 17):
        done = run(*at, "--steps", steps, "--checkpoint", kept, "--resume", "--save",
                   folder / "resumed")
    say(straight.read_bytes() == (folder / "resumed").read_bytes(),
        "stopped in two epochs and gone on", done.stderr)

    # what several ranks are to read they must be able to read
    text = images.read_text()
    done = run("/dev/stdin", "single", "--data", folder / "pixels.npz", "--steps", 1, stdin=text)
    say(done.returncode == 0, "a graph from a pipe", done.stderr)
    refused("but not for two ranks", "/dev/stdin: is no regular file, so that not each of 2 ranks "
            "could read it", "/dev/stdin", "data-parallel", "--devices", 2, "--data",
            folder / "pixels.npz", "--steps", 1, stdin=text)

finish()
