"""Two emulated hosts (./run cluster): ffrun trains there as on one, a rank that is killed is told
of by its host's name, and nothing is left of the hosts, however they end.
usage: test_cluster.py CLUSTER TOOLS FFZOO FFSEARCH FFRUN FFPROF hosts|links  SPDX-License-Identifier: Apache-2.0"""
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

CLUSTER, TOOLS, FFZOO, FFSEARCH, FFRUN, FFPROF = (os.path.realpath(a) for a in sys.argv[1:7])
BURST = 18100  # bytes that tbf lets through at once after a pause
TWO_NODES = {
    "format": "ffsoap-machine", "version": 1, "name": "two", "overlap": False,
    "kinds": [{"name": "cpu", "flops_per_s": 1e11, "memory_bytes_per_s": 2e10,
               "memory_bytes": 8589934592}],
    "nodes": [{"count": 2, "devices": 1, "kind": "cpu",
               "network": {"latency_us": 30, "bytes_per_s": 1.2e8}}],
}
number = 0
failed = False


def check(name, holds, said=""):
    global number, failed
    number += 1
    failed |= not holds
    print(f"{'ok' if holds else 'not ok'} {number} - {name}", flush=True)
    if not holds:
        print("".join(f"# {line}\n" for line in str(said).splitlines()), end="")


def cluster(*command, bandwidth="1gbit", latency="0", hosts=2):
    return [CLUSTER, TOOLS, str(hosts), bandwidth, latency, "--", *command]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=1800)


def start(*command, mark):
    """A process that is known by MARK in its environment, as are all that it starts."""
    return subprocess.Popen(command, env=dict(os.environ, FF_MARK=mark), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def read(path):
    """Nothing where a process has gone."""
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def marked(mark):
    """Who is alive of those, with the network namespace that each is in."""
    alive = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if f"FF_MARK={mark}\0".encode() in read(f"/proc/{pid}/environ"):
                alive[int(pid)] = os.readlink(f"/proc/{pid}/ns/net")
    return alive


def until(holds, seconds=240):
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    return holds()


def make_files():
    run(FFZOO, "mlp", "--batch", "32", "--set", "hidden=64", "--set", "layers=2", "-o", "m.json")
    with open("two.json", "w") as f:
        json.dump(TWO_NODES, f)
    run(FFSEARCH, "m.json", "--machine", "./two.json", "--costs", "peak",
        "--simulate", "data-parallel", "-o", "dp.json")
    with open("dp.json") as f:
        plan = json.load(f)
    for op in plan["operators"]:
        if op["name"] in ("fc1", "fc2", "fc3"):
            op["degrees"] = {"in_feature" if op["name"] == "fc2" else "out_feature": 2}
    with open("pr.json", "w") as f:
        json.dump(plan, f)


def train(strategy, report, hosts):
    command = [FFRUN, "m.json", strategy, "--devices", "2", "--data", "synthetic:256", "--steps",
               "20", "--verify", "--report", report]
    return run(*cluster(*command)) if hosts else run(*command)


def test_training():
    for strategy in "data-parallel", "pr.json":
        one, two = train(strategy, "1.json", False), train(strategy, "2.json", True)
        check(f"{strategy}: runs on one host and on two", (one.returncode, two.returncode) == (0, 0),
              one.stderr + two.stderr)
        check(f"{strategy}: is verified there", "verified on one device" in two.stdout, two.stdout)
        losses, names = [], []
        for name in "1.json", "2.json":
            with open(name) as f:
                report = json.load(f)
            losses.append(report["loss"])
            names.append(report["communication"])
        check(f"{strategy}: in memory on one host, by rings between two", names == ["mpi shared", "mpi rings"], names)
        check(f"{strategy}: has the same losses to the bit", len(losses[0]) == 20 and
              losses[0] == losses[1], losses)


def test_hosts():
    r = run(*cluster("sh", "-c", "hostname; mpirun -n 2 hostname; exit 7"))
    check("a command runs on node0, ranks on both, and its status is the cluster's",
          (sorted(r.stdout.split()), r.returncode) == (["node0", "node0", "node1"], 7),
          r.stdout + r.stderr)
    r = run(*cluster("mpirun", "-n", "3", "hostname", hosts=3, bandwidth="200mbit", latency="1ms"))
    check("three hosts with a latency", sorted(r.stdout.split()) == ["node0", "node1", "node2"],
          r.stdout + r.stderr)
    words = r.stderr.split()
    us = float(words[words.index("us", words.index("once,")) - 1]) if "once," in words else 0
    # a tenth of it where nobody asked; the longer, the busier the machine
    check("which is what was asked for, or more", us > 500, r.stderr)
    for bad in (["5", "1gbit", "0"], ["2", "fast", "0"], ["2", "1gbit", "-1"], ["2", "1gbit"]):
        for command in [CLUSTER, TOOLS], [os.path.join(os.path.dirname(CLUSTER), "../../run"), "cluster"]:
            r = run(*command, *bad, "--", "true")  # the latter before it builds
            check(f"{' '.join(bad)}: refused", r.returncode == 2 and r.stderr.count("\n") == 1 and not r.stdout,
                  r.stdout + r.stderr)
    r = run(CLUSTER, "-", "2", "1gbit", "50us", "--", "false")
    check("arguments alone are checked", (r.returncode, r.stderr) == (0, ""), r.stderr)


def test_saved_up():
    """Links let BURST bytes through at once after a pause, and none behind other messages: ffprof on two
    hosts, one rank each, where 4 KiB take 328 us, or 11 after a pause."""
    run(FFZOO, "mlp", "--batch", "8", "--set", "hidden=16", "--set", "layers=1", "-o", "s.json")
    r = run(*cluster("mpirun", "-q", "--map-by", "ppr:1:node", "-n", "2", FFPROF, "s.json",
                     "--machine", "cpu2", "--write-machine", "pair.json", "--largest", "4K",
                     "-o", "saved.json", bandwidth="100mbit"))
    check("ffprof measures two hosts", r.returncode == 0, r.stdout + r.stderr)
    if r.returncode:
        return
    with open("saved.json") as f:
        us = {t["kind"]: t["us"][-1] for t in json.load(f)["comm"]}
    # where ranks must wait for a core in between, some is saved up for one or the other
    check("messages have nothing of what links save up in pauses", max(us.values()) > 100, us)


def test_links():
    """ffprof on two hosts with two ranks each, whose cards give 12.5 bytes a microsecond."""
    run(FFZOO, "mlp", "--batch", "8", "--set", "hidden=16", "--set", "layers=1", "-o", "s.json")
    profile = [FFPROF, "s.json", "--machine", "cpu4", "--largest", "64K"]
    ranks = ["mpirun", "-q", "--oversubscribe", "--map-by", "ppr:2:node", "-n", "4"]
    r = run(*cluster(*ranks, *profile, "-o", "no.json", bandwidth="100mbit"))
    check("ranks that lie otherwise than the machine's devices are refused",
          r.returncode == 2 and "ranks 1 and 2 are on two hosts, devices 1 and 2" in r.stderr, r.stderr)
    r = run(*cluster(*ranks, *profile, "-o", "c.json", "--write-machine", "four.json",
                     bandwidth="100mbit"))
    check("ffprof measures links between hosts", r.returncode == 0, r.stdout + r.stderr)
    if r.returncode:
        return
    check("and tells that ranks share cores", os.cpu_count() > 2 or
          "ffprof: warning: ranks 0 and 1 on node0 " in r.stderr, r.stderr)
    with open("c.json") as f:
        tables = {(t["kind"], t["ranks"], t.get("nodes", 1), t.get("one_way", False)):
                  dict(zip(t["bytes"], t["us"])) for t in json.load(f)["comm"]}
    kinds = ["point-to-point", "all-gather", "reduce-scatter", "all-reduce"]
    shapes = {(k, n, m, False) for k in kinds for n, m in ((2, 1), (2, 2), (4, 2))}
    shapes |= {("point-to-point", 2, m, True) for m in (1, 2)} | {("all-to-all", 4, 2, False)}
    check("by kind, group and way", set(tables) == shapes, sorted(set(tables) ^ shapes))
    one = tables["point-to-point", 2, 2, True][65536]
    pairs = tables["point-to-point", 4, 2, False][65536]
    check("one pair has the card for itself", (65536 - BURST) / 12.5 < one < 50 * 65536 / 12.5, one)
    check("two pairs share it", pairs > (2 * 65536 - BURST) / 12.5, pairs)
    check("which inside a node is another matter", tables["point-to-point", 2, 1, False][65536] < one,
          tables)
    with open("four.json") as f:
        machine = json.load(f)
    nodes = [(n.get("count", 1), n["devices"]) for n in machine["nodes"]]
    check("the machine is as ranks lie", nodes == [(2, 2)] and machine["name"] == "four", machine)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    check("which share the memory of their hosts", 0 < machine["kinds"][0]["memory_bytes"] <= memory / 2, machine)
    r = run(*cluster(*ranks, FFPROF, "--topology"))
    check("what hosts are made of is told of each", r.returncode == 0 and "node0: ranks 0 and 1, " in r.stdout and
          "node1: ranks 2 and 3, " in r.stdout and "fingerprint 2h" in r.stdout, r.stdout + r.stderr)
    network = machine["nodes"][0]["network"]["bytes_per_s"]
    # a fit of noisy times, but nowhere near what memory gives, which is gigabytes
    check("with a bandwidth of the card's kind", 12.5e6 / 100 < network < 12.5e6 * 20, network)
    r = run(FFSEARCH, "s.json", "--machine", "./four.json", "--costs", "c.json", "--simulate",
            "data-parallel", "--report", "r.json")
    check("a search takes both", r.returncode == 0, r.stderr)
    if r.returncode:
        return
    with open("r.json") as f:
        predicted = json.load(f)["predicted_us"]
    least = tables["all-reduce", 4, 2, False][16384]  # gradients are 50 KB
    check("whose gradients take what was measured", predicted > least, (predicted, least))


def test_rank_killed():
    p = start(*cluster(FFRUN, "m.json", "data-parallel", "--devices", "2", "--data",
                       "synthetic:256", "--steps", "1000000"), mark="killed")
    victim = []

    def is_at_work():
        """A rank is two processes: the one that works, and the one that waits for it."""
        both = [pid for pid in marked("killed")
                if b"OMPI_COMM_WORLD_RANK=1\0" in read(f"/proc/{pid}/environ")]
        works = [pid for pid in both if not read(f"/proc/{pid}/task/{pid}/children")]
        victim[:] = works if len(both) == 2 and len(works) == 1 else []
        return bool(victim)

    check("a rank is at work on node1", until(is_at_work))
    time.sleep(1)
    if victim:
        os.kill(victim[0], signal.SIGKILL)
    _, said = p.communicate(timeout=240)
    check("killed, it is told of with its host", "rank 1 on node1 was ended by signal 9" in said
          and p.returncode == 1, f"{p.returncode} {said}")


def hub_of(mark):
    """The process that owns the network between the hosts of a cluster."""
    for pid in marked(mark):
        words = read(f"/proc/{pid}/cmdline").split(b"\0")
        if b"hub" in words[:5]:
            return pid
    return None


def link(mark, there, host=1):
    """Takes a host's card off the network between the hosts, or puts it back: nobody is told."""
    subprocess.run(["nsenter", "--target", str(hub_of(mark)), "--net", "ip", "link", "set", f"port{host}",
                    *(("master", "bridge") if there else ("nomaster",))], check=True)


def test_link_drops():
    """For three seconds, which the training outlasts; and for good, which one rank tells."""
    train = [FFRUN, "m.json", "data-parallel", "--devices", "2", "--data", "synthetic:256",
             "--checkpoint", "kept", "--every", "50"]
    kept = os.path.join("kept", "checkpoint.safetensors")
    p = start(*cluster(*train, "--steps", "100000000", "--timeout", "240s"), mark="drops")
    check("a training over a link", until(lambda: os.path.exists(kept)))
    link("drops", False)
    before = os.stat(kept).st_mtime_ns
    time.sleep(3)
    stood = os.stat(kept).st_mtime_ns
    time.sleep(0.2)
    check("stands while the link is gone", os.stat(kept).st_mtime_ns == stood, (before, stood))
    link("drops", True)
    check("goes on when it is back", until(lambda: os.stat(kept).st_mtime_ns != stood, 120))
    link("drops", False)
    p.send_signal(signal.SIGKILL)
    p.communicate()
    for limit in "3s", "15s", "75s":  # the longer where ranks are late on their own, so that one had enough of it
        p = start(*cluster(*train, "--steps", "100000000", "--timeout", limit, "--resume"), mark="gone")
        stood = os.stat(kept).st_mtime_ns
        went_on = until(lambda: os.stat(kept).st_mtime_ns != stood or p.poll() is not None)
        if p.poll() is None:
            break
    check("went on from there", went_on and p.poll() is None, p.returncode and p.communicate()[1])
    link("gone", False)
    try:
        _, said = p.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        p.kill()
        said = "it hangs"
    lines = [x for x in said.splitlines() if x.startswith("ffrun: ")]
    check("gone for good, one rank says so with its host, and that ends it", p.returncode == 1 and
          len(lines) == 1 and " on node" in lines[0] and "has waited for other ranks for" in lines[0],
          f"{p.returncode} {said}")
    with open(kept, "rb") as f:
        text = f.read(100000)
    at = text.index(b'"step"') + len(b'"step"')
    steps = str(int(text[at:at + 30].split(b'"')[1]) + 5)
    on = run(*train, "--steps", steps, "--resume", "--save", "on")
    straight = run(*train[:-4], "--steps", steps, "--save", "straight")
    check("what it kept is gone on from to the bit", (on.returncode, straight.returncode) == (0, 0) and
          read("on") == read("straight"), on.stderr + straight.stderr)


def test_own_link_is_gone():
    """Of a host that ffrun was called on and that has no rank."""
    with open("others", "w") as f:
        f.write("node1 slots=1\nnode2 slots=1\n")
    mca = "OMPI_MCA_oob_tcp_keepalive_"  # the preset is half a minute and more
    p = start(*cluster("env", f"OMPI_MCA_orte_default_hostfile={os.path.realpath('others')}", f"{mca}time=1",
                       f"{mca}intvl=1", f"{mca}probes=2", FFRUN, "m.json", "data-parallel", "--devices", "2",
                       "--data", "synthetic:256", "--steps", "100000000", "--checkpoint", "apart", "--every", "50",
                       hosts=3), mark="apart")
    check("a training on other hosts", until(lambda: os.path.exists("apart/checkpoint.safetensors")))
    link("apart", False, host=0)
    try:
        _, said = p.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        p.kill()
        said = "it hangs"
    lines = [x for x in said.splitlines() if not x.startswith(("[", "cluster:"))]
    check("which cannot be reached any more: said in a sentence", p.returncode == 1 and lines == [
        "ffrun: mpirun on node0 has lost its connection to a host that ranks run on"], f"{p.returncode} {said}")


def test_ends():
    """Two clusters at once, which end by a signal: nobody is left in their namespaces."""
    for name, how in ("by Ctrl-C", signal.SIGINT), ("by SIGTERM", signal.SIGTERM), \
            ("by a crash", signal.SIGKILL):
        pair = [start(*cluster("sh", "-c", "mpirun -n 2 sleep 1000"), mark=f"end{i}")
                for i in range(2)]
        here = os.readlink("/proc/self/ns/net")

        def sleeps(i):
            return sum(1 for pid in marked(f"end{i}")
                       if read(f"/proc/{pid}/comm") == b"sleep\n") >= 4

        apart = until(lambda: all(sleeps(i) for i in range(2)))
        spaces = [set(marked(f"end{i}").values()) - {here} for i in range(2)]
        check(f"{name}: two clusters at once have networks of their own",
              apart and len(spaces[0]) == 3 and not spaces[0] & spaces[1], spaces)
        for i, p in enumerate(pair):
            if how == signal.SIGINT:  # a terminal's goes to all
                for pid in marked(f"end{i}"):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, how)
            else:
                p.send_signal(how)
        gone = until(lambda: not any(marked(f"end{i}") for i in range(2)))
        check(f"{name}: and leave nothing", gone, [marked(f"end{i}") for i in range(2)])
        for p in pair:
            p.communicate()


# links are measured, and waited for some seconds, on a machine where nothing else makes them late
TESTS = {"hosts": [test_hosts, test_training, test_rank_killed, test_ends],
         "links": [test_saved_up, test_links, test_link_drops, test_own_link_is_gone]}


def main():
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["ASAN_OPTIONS"] = "detect_leaks=0"
    r = run(*cluster("true"))
    if r.returncode == 77:
        print(f"1..0 # SKIP {r.stderr.strip()}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["TMPDIR"] = folder  # clusters that crash leave a folder
        make_files()
        for test in TESTS[sys.argv[7]]:
            test()
    print(f"1..{number}")
    return failed


sys.exit(main())
