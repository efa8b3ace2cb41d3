# No command writes over what it reads, or twice over one file, however the path is spelt.
# Usage: test_lost.py FFZOO FFSEARCH FFPROF FFRUN FFPACK [FFIMPORT].  SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tap import finish, say  # noqa: E402

ffzoo, ffsearch, ffprof, ffrun, ffpack, *rest = (os.path.abspath(p) for p in sys.argv[1:])
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
os.environ["OMP_NUM_THREADS"] = "1"

# What is read: a command line, and the file that each option or operand of it names.
READ = {
    ffsearch: ("net.json --machine machine.json --costs costs.json {} --proposals 1",
               {"GRAPH": "net.json", "--machine": "machine.json", "--costs": "costs.json"},
               ("-o", "--report", "--trace", "--html")),
    ffprof: ("net.json --machine machine.json --strategy plan.json --strategy other.json "
             "--data numpy:set {}",
             {"GRAPH": "net.json", "--machine": "machine.json", "--strategy": "other.json",
              "--data": "set/train/x.npy"},
             ("-o", "--write-machine")),
    ffrun: ("net.json plan.json --against other.json --compare --machine machine.json --trace t "
            "--beside beside.json --weights weights --data numpy:set --steps 1 {}",
            {"GRAPH": "net.json", "STRATEGY": "plan.json", "--against": "other.json",
             "--machine": "machine.json", "--beside": "beside.json", "--weights": "weights",
             "--data": "set/train/x.npy"},
            ("--report", "--trace", "--html", "--dump", "--save", "--metrics")),
}
MUST = {ffsearch: "-o", ffprof: "-o"}  # what each wants to be told
DATA = {"idx": "train-labels-idx1-ubyte.gz", "cifar10": "data_batch_3.bin", "tokens": "val.bin",
        "numpy": "test.npz"}
if rest:
    READ[rest[0]] = ("model.onnx {}", {"MODEL": "model.onnx", "MODEL's data": "model.onnx.data"},
                     ("-o", "--weights"))


def field(number, data):
    """Of a protobuf message: a number, or bytes."""
    if isinstance(data, int):
        return bytes([number << 3, data])
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def model():
    """y = relu(x + w), as ONNX, the elements of w in a file of their own."""
    def entry(key, value):
        return field(1, key) + field(2, value)

    def info(name, *shape):
        dims = b"".join(field(1, field(1, n)) for n in shape)
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))
    weight = (field(1, 4) + field(2, 1) + field(8, b"w") + field(14, 1) +
              field(13, entry(b"location", b"model.onnx.data")))
    add = field(1, b"x") + field(1, b"w") + field(2, b"s") + field(4, b"Add")
    relu = field(1, b"s") + field(2, b"y") + field(4, b"Relu")
    graph = (field(1, add) + field(1, relu) + field(5, weight) + field(11, info(b"x", 2, 4)) +
             field(12, info(b"y", 2, 4)))
    return field(1, 8) + b"\x3a" + bytes([len(graph) & 127 | 128, len(graph) >> 7]) + graph + field(8, field(2, 17))


def contents():
    return {str(p): p.read_bytes() for p in sorted(pathlib.Path(".").rglob("*")) if p.is_file()}


def run(command, words):
    return subprocess.run([command, *words], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=600)


def refused(command, words, what, *names):
    before = contents()
    done = run(command, words)
    say(done.returncode == 2 and done.stderr.count("\n") == 1 and not done.stdout and
        all(n in done.stderr for n in names) and contents() == before,
        f"{os.path.basename(command)}: {what}", (done.returncode, done.stderr, done.stdout))


def spellings(path):
    """The same file otherwise, and what is made for it."""
    yield path, None
    yield f"./{path}", None
    yield os.path.abspath(path), None
    os.symlink(path, "symbolic")
    yield "symbolic", "symbolic"
    os.link(path, "hard")
    yield "hard", "hard"


def command_line(command, option, path, *more):
    """Options that the one at hand is without, and those that the command insists on."""
    words = READ[command][0].format("").split()
    if option in words:
        at = words.index(option)
        del words[at:at + 2]
    words += [option, path, *more]
    must = MUST.get(command)
    return words + ([must, "fresh"] if must and must not in words else [])


def prepare():
    os.makedirs("set/train")
    for path in ("net.json", "machine.json", "costs.json", "plan.json", "other.json",
                 "beside.json", "weights", "set/train/x.npy"):
        pathlib.Path(path).write_bytes(b"precious")
    pathlib.Path("model.onnx").write_bytes(model())
    pathlib.Path("model.onnx.data").write_bytes(b"\0\0\x80\x3f" * 4)


def inputs_stay():
    for command, (_, read, written) in READ.items():
        for name, path in read.items():
            for option in written:
                for other, made in spellings(path):
                    refused(command, command_line(command, option, other),
                            f"{option} over {name}, {os.path.basename(other)}", option, name)
                    if made:
                        os.unlink(made)


def outputs_are_apart():
    for command, (_, _, written) in READ.items():
        for i, a in enumerate(written):
            for b in written[:i]:
                refused(command, command_line(command, a, "new", b, "./new"), f"{a} over {b}", a, b)
    os.mkdir("kept")
    words = "net.json single --data synthetic --steps 1 --checkpoint kept --save kept/./checkpoint.safetensors"
    refused(ffrun, words.split(), "--save over --checkpoint", "--save", "--checkpoint")


def machines_by_name():
    os.makedirs("machines")
    os.environ["FF_MACHINES"] = os.path.abspath("machines")
    pathlib.Path("machines/ours.json").write_text("precious")
    for command in ffsearch, ffprof, ffrun:
        option = READ[command][2][1]
        words = ["ours" if w == "machine.json" else w
                 for w in command_line(command, option, "machines/ours.json")]
        refused(command, words, f"{option} over a machine's name", option, "--machine")
    words = "net.json --machine machine.json --costs costs.json --simulate plan.json"
    for option in "-o", "--report", "--trace", "--html":
        refused(ffsearch, [*words.split(), option, "plan.json"], f"{option} over --simulate",
                option, "--simulate")


def sets_of_every_format():
    for name, file in DATA.items():
        os.makedirs(name)
        pathlib.Path(name, file).write_text("precious")
        for data in f"{name}:{name}", *([f"{name}:{name}/{file}"] if name != "idx" else []):
            words = f"net.json single --data {data} --steps 1 --save {name}/{file}"
            refused(ffrun, words.split(), f"--save over --data {data}", "--save", "--data")


def what_may_be_replaced():
    run(ffzoo, "mlp --batch 4 --set hidden=4 --set layers=1 -o mlp.json".split())
    run(ffrun, "mlp.json single --data synthetic:8 --steps 1 --save trained --checkpoint kept".split())
    for words, options in (("--weights trained --save trained", ("--save", "--weights")),
                           ("--weights kept/checkpoint.safetensors --checkpoint kept",
                            ("--checkpoint", "--weights"))):
        refused(ffrun, f"mlp.json single --data synthetic:8 --steps 1 {words}".split(), f"ffrun: {words}", *options)
    done = run(ffrun, "mlp.json single --data synthetic:8 --steps 1 --save set/train/notes".split())
    say(done.returncode == 0, "ffrun: beside the data set's files", done.stderr)


with tempfile.TemporaryDirectory(prefix="fflost") as keep:
    os.chdir(keep)
    prepare()
    inputs_stay()
    outputs_are_apart()
    machines_by_name()
    sets_of_every_format()
    what_may_be_replaced()
    os.chdir("/")
finish()
