#!/bin/sh
# ffprof --device cuda on the host double: its cost files are whole, and ffsearch plans with them.
# Their figures are those of a host and mean nothing.
# Usage: test_prof_double.sh FFZOO FFPROF FFSEARCH BENCH_KERNELS MODULE SCHEMAS.
# SPDX-License-Identifier: Apache-2.0
ffzoo=$(realpath "$1")
ffprof=$(realpath "$2")
ffsearch=$(realpath "$3")
kernels=$(realpath "$4")
FF_CUDA_MODULE=$(realpath "$5")
schemas=$(realpath "$6")
OMP_NUM_THREADS=1
FF_NCCL=0 # ranks by way of the host
FF_DOUBLE_STEADY=1 # the host's times would only be taken again and again
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
export FF_CUDA_MODULE FF_NCCL FF_DOUBLE_STEADY OMP_NUM_THREADS ASAN_OPTIONS schemas
. "$(dirname "$(realpath "$0")")/../check.sh"
verdict() { "$@" >out 2>err; }

told() { # told TEXT COMMAND...: does it fail with one sentence that has TEXT?
	text=$1
	shift
	if "$@" 2>told; then
		return 1
	fi
	cat told >&2
	test "$(wc -l <told)" -eq 1 && grep -q -F -e "$text" told
}
machine() { # machine DEVICES: of one node
	cat <<TXT
{"format": "ffsoap-machine", "version": 1, "name": "gpus", "overlap": true,
 "kinds": [{"name": "gpu", "flops_per_s": 1e13, "memory_bytes_per_s": 1e12, "memory_bytes": 1e9}],
 "nodes": [{"devices": $1, "kind": "gpu", "inside": {"latency_us": 5, "bytes_per_s": 1e10}}]}
TXT
}

"$ffzoo" mlp --batch 4 --set image=4 --set hidden=8 --set layers=1 -o tiny.json
cat >least.json <<TXT
{"format": "ffsoap-graph", "version": 2, "name": "least", "nodes": [
 {"name": "x", "op": "input", "shape": [2, 4]},
 {"name": "y", "op": "input", "shape": [2], "dtype": "int32", "classes": 2},
 {"name": "fc", "op": "linear", "in": ["x"], "out_features": 2},
 {"name": "loss", "op": "softmax_cross_entropy", "in": ["fc", "y"]}]}
TXT
sed 's/"name": "least"/"name": "half", "dtype": "bfloat16"/' least.json >half.json
machine 1 >one.json
machine 2 >two.json
prof() { # prof ARGUMENT...: on the double, where larger sizes take long and show nothing more
	"$ffprof" "$@" --device cuda --largest 4K
}

check 'for a moment' prof tiny.json --machine ./one.json --budget 0.001s -o costs.json
check 'goes on' prof tiny.json --machine ./one.json -o costs.json
check 'and is done' prof tiny.json --machine ./one.json -o costs.json
mv out before
check 'with everything' grep -q '^costs.json: 0 of 0 missing kernels' before
check 'says what GPUs are' python3 - <<TXT
import json
c = json.load(open("costs.json"))
m = c["machine"]
assert m["processor"] == "host double" and m["kernels"].startswith("CUDA 13."), m
assert "cuDNN 9" in m["kernels"] and "cuBLAS" in m["kernels"] and "CUDA 13." in m["driver"], m
assert m["clock_mhz"] == 1000 and m["memory_clock_mhz"] == 1000, m
assert c["launch"]["alone_us"] > 0 and c["launch"]["host_us"] > 0, c["launch"]
assert {"copy", "add", "accumulate", "load", "update", "upload", "download"} <= set(c["rates"]), c
assert all(e["median_us"] > 0 and e["samples"] >= 5 for e in c["entries"])
assert c["steadiness"]["disturbed"] == 0, c["steadiness"]
# products ask for scratch, as cuBLASLt's heuristics do
assert any(e["workspace_bytes"] for e in c["entries"] if e["key"].startswith("linear")), c
TXT
check 'by the schema' python3 - <<TXT
import json, os
try:
    import jsonschema
except ImportError:
    raise SystemExit
schema = json.load(open(os.environ["schemas"] + "/costs.schema.json"))
jsonschema.validate(json.load(open("costs.json")), schema)
TXT
check 'ffsearch plans with it' "$ffsearch" tiny.json --machine ./one.json --costs costs.json \
	--budget 0.2s -o plan.json --report report.json
check 'and says where it is from' grep -q '"driver": "CUDA 13' report.json
check 'what the plan needs is there' prof tiny.json --machine ./one.json -o costs.json \
	--strategy plan.json
mv out before
check 'all of it' grep -q '^costs.json: 0 of 0 missing kernels' before
check 'a CPU is elsewhere' told 'was measured elsewhere (processor: "host double"' \
	"$ffprof" tiny.json --machine ./one.json --device cpu -o costs.json
check 'kernels alone are measured' prof least.json --machine ./one.json --kernels -o kernels.json
check 'and nothing else' python3 - <<TXT
import json
c = json.load(open("kernels.json"))
assert {e["key"].split()[0] for e in c["entries"]} >= {"linear.forward", "linear.backward"}, c
assert not c.get("rates") and not c.get("comm"), c
TXT
check 'the rest is added' prof least.json --machine ./one.json -o kernels.json
check 'as ever' grep -q '"copy": \[' kernels.json
check 'links of a machine need messages' told 'option --kernels: --write-machine' "$ffprof" least.json \
	--machine ./one.json --device cuda --kernels --write-machine m.json -o kernels.json
check 'bfloat16' prof half.json --machine ./one.json -o half-costs.json
check 'its updates' grep -q '"update_bfloat16": \[' half-costs.json
check 'two ranks' prof tiny.json --machine ./two.json --budget 1s -o two-costs.json
check 'are two' grep -q '"ranks": 2' two-costs.json
check 'two ranks over NCCL, small sizes, a device each' env FF_NCCL=1 FF_DOUBLE_EXCLUSIVE=1 \
	FF_DOUBLE_FOLDER="$dir" "$ffprof" least.json --machine ./two.json --device cuda --largest 4K -o nccl-costs.json
mv out before
check 'over NCCL it was' grep -q '^communication: nccl 2' before
check 'its tables' python3 - <<TXT
import json
c = json.load(open("nccl-costs.json"))
tables = {(t["kind"], t.get("one_way", False)): t for t in c["comm"]}
assert c["machine"]["communication"].startswith("nccl 2."), c["machine"]
assert set(tables) == {(k, False) for k in ("point-to-point", "all-gather", "reduce-scatter",
                                        "all-reduce")} | {("point-to-point", True)}, c["comm"]
assert all(t["ranks"] == 2 and t["bytes"] == [1024, 4096] for t in tables.values()), tables
assert all(u > 0 for t in tables.values() for u in t["us"]) and c["link"]["bytes_per_s"] > 0, c
TXT
check 'ffsearch takes it' "$ffsearch" least.json --machine ./two.json --costs nccl-costs.json \
	--proposals 100 -o two-plan.json
check 'the plan says for what it is' grep -q '"communication": "nccl 2' two-plan.json
check 'over MPI it is another' told 'communication: "nccl 2' env FF_NCCL=0 "$ffprof" least.json \
	--machine ./two.json --device cuda --largest 4K -o nccl-costs.json
check 'kernels alone' "$kernels" mlp --batch 4 --set image=4 --set hidden=8 --device cuda
mv out before
check 'forward and backward' test "$(grep -c 'linear .*ward' before)" -ge 4
finish
