#!/bin/sh
# ffprof as a command: files, what is measured again, what is refused.
# Usage: test_profiles.sh FFZOO FFPROF [sanitized].  SPDX-License-Identifier: Apache-2.0
ffzoo=$(realpath "$1")
ffprof=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
. "$here/../../check.sh"
. "$here/status.sh"

"$ffzoo" lenet --batch 16 -o lenet.json
"$ffzoo" mlp --batch 4 --set image=4 --set hidden=8 --set layers=1 -o tiny.json
check 'profile for a moment' status 0 ranks "$ffprof" tiny.json --machine cpu2 --budget 0.001s \
	-o costs.json
check 'says that there is more' said 'goes on from here'
# large copies, updates and messages take long and show nothing more
small="--largest 16K"
check 'profile' status 0 ranks "$ffprof" tiny.json --machine cpu2 -o costs.json $small
check 'makes a cost file' grep -q '"format": "ffsoap-costs"' costs.json
cp costs.json before.json
for rate in update update_sgd update_nesterov update_adam update_adamw encode_bfloat16 \
	encode_ternary decode_bfloat16 decode_ternary; do
	check "with a rate of $rate" grep -q "\"$rate\": \[" costs.json
done
# costs from before there was a choice are completed
python3 - <<TXT
import json
costs = json.load(open("costs.json"))
del costs["rates"]["update_sgd"], costs["rates"]["update_adamw"]
json.dump(costs, open("four.json", "w"))
TXT
check 'profile what a file of five rates lacks' status 0 ranks "$ffprof" tiny.json --machine cpu2 \
	-o four.json $small
check 'no kernel' said '0 of 0 missing kernels'
check 'but rates' grep -q '"update_adamw": \[' four.json
check 'profile again' status 0 ranks "$ffprof" tiny.json --machine cpu2 -o costs.json
check 'finds nothing to do' said '0 of 0 missing kernels'
check 'and changes nothing' cmp costs.json before.json
check 'says how quiet it was' grep -q '"reference_spread"' costs.json
# every kernel, as if nothing better had been had
sed '/"disturbed": [0-9]*,$/d; s/"samples": \([0-9]*\),$/"samples": \1, "disturbed": \1,/' before.json >marked.json
check 'marked as disturbed' grep -q '"samples": [0-9]*, "disturbed"' marked.json
check 'profile that' status 0 ranks "$ffprof" tiny.json --machine cpu2 -o marked.json
check 'is nothing to do either' said '0 of 0 missing kernels'
check 'unless asked to' status 0 ranks "$ffprof" tiny.json --machine cpu2 -o marked.json --again $small
check 'do it again' said '38 of 38 missing kernels'
check 'in rounds' status 0 ranks "$ffprof" tiny.json --machine cpu2 -o rounds.json --rounds 3 $small
check 'each kernel counts once' said '38 of 38 missing kernels'
check 'with samples of a round' sh -c "! grep -q '\"samples\": [1-9][0-9],' rounds.json"
check 'too many of them' status 2 "$ffprof" tiny.json --machine cpu2 -o rounds.json --rounds 101
cat >least.json <<TXT
{"format": "ffsoap-graph", "version": 2, "name": "least", "nodes": [
 {"name": "x", "op": "input", "shape": [1, 4]},
 {"name": "y", "op": "input", "shape": [1], "dtype": "int32", "classes": 2},
 {"name": "fc", "op": "linear", "in": ["x"], "out_features": 2},
 {"name": "loss", "op": "softmax_cross_entropy", "in": ["fc", "y"]}]}
TXT
cat >apart.json <<TXT
{"format": "ffsoap-machine", "version": 1, "name": "apart", "overlap": false,
 "kinds": [{"name": "cpu", "flops_per_s": 1e10, "memory_bytes_per_s": 1e10, "memory_bytes": 1e9}],
 "nodes": [{"devices": 2, "kind": "cpu", "inside": {"latency_us": 1, "bytes_per_s": 1e10},
            "network": {"latency_us": 20, "bytes_per_s": 1e9}},
           {"devices": 1, "kind": "cpu", "inside": {"latency_us": 1, "bytes_per_s": 1e10},
            "network": {"latency_us": 20, "bytes_per_s": 1e9}}]}
TXT
check 'profile two nodes' status 0 ranks mpirun -q --allow-run-as-root --oversubscribe \
	--bind-to none -n 3 "$ffprof" least.json --machine ./apart.json --largest 1K -o apart-costs.json
check 'tables within and between them' python3 - <<TXT
import json
with open("apart-costs.json") as file:
    comm = json.load(file)["comm"]
assert all(t["ranks"] == 2 for t in comm), comm
kinds = ["all-gather", "all-reduce", "point-to-point", "reduce-scatter"]
shapes = [(k, n, False) for k in kinds for n in (1, 2)] + [("point-to-point", n, True) for n in (1, 2)]
assert sorted((t["kind"], t.get("nodes", 1), t.get("one_way", False)) for t in comm) == sorted(shapes), comm
TXT
check 'what hosts are made of' status 0 ranks mpirun -q --allow-run-as-root --oversubscribe \
	--bind-to none -x HWLOC_SYNTHETIC='package:2 numa:1 core:2 pu:1' -n 2 "$ffprof" --topology
check 'is told' grep -q 'fingerprint 1h2p2n4c4t-' out
check 'and that ranks are not bound' grep -q 'ffprof: warning: ranks 0 and 1 may run on several NUMA nodes' err
check 'profile where caches are small' status 0 ranks mpirun -q --allow-run-as-root --oversubscribe \
	--bind-to none -x HWLOC_SYNTHETIC='package:1 l3:1(size=32768) core:2 pu:1' -n 2 "$ffprof" lenet.json \
	--machine cpu2 --micro-batches 2 -o small.json $small
check 'soon keep nothing' python3 - <<TXT
import json
passed = {e["reuse_bytes"] for e in json.load(open("small.json"))["entries"]}
assert passed == {65536}, passed
TXT
check 'where those of ranks differ' status 0 ranks mpirun -q --allow-run-as-root --oversubscribe \
	--bind-to none -n 2 sh -c 'HWLOC_SYNTHETIC="package:1 l3:1(size=$((32768 << 2 * OMPI_COMM_WORLD_RANK))) \
core:2 pu:1" exec "$@"' sh "$ffprof" lenet.json --machine cpu2 -o differ.json --largest 4K
check 'all measure as for the largest' python3 - <<TXT
import json
passed = {e["reuse_bytes"] for e in json.load(open("differ.json"))["entries"]}
assert max(passed) == 262144, passed
TXT
check 'of the ranks of a machine' status 0 ranks "$ffprof" --topology --machine cpu2
check 'that are two' grep -q ': ranks 0 and 1, ' out
check 'and nothing is measured then' refused 'expected no GRAPH' "$ffprof" tiny.json --topology
check 'on fewer devices' status 2 "$ffprof" tiny.json --machine cpu2 --devices 1 -o costs.json
check 'refuses costs of more' one_sentence 'costs.json: was measured elsewhere ('
check 'and keeps them' cmp costs.json before.json
check 'with other threads' status 2 ranks env OMP_NUM_THREADS=3 "$ffprof" tiny.json --machine cpu2 \
	-o costs.json
check 'says which' one_sentence 'threads a rank: 1, here 3'
check 'unless told to' status 0 "$ffprof" tiny.json --machine cpu2 --devices 1 -o costs.json --replace \
	$small
check 'measure anew' grep -q '"ranks": 1' costs.json
sed 's/"version": 5/"version": 2/' before.json >old.json
check 'costs of version 2' refused 'measure again with ffprof' "$ffprof" tiny.json --machine cpu2 \
	-o old.json
# Kernels behind the loss, which reads whole numbers, must not meet them as reals: denormal
# ones take several times as long.  Those of micro-batches come behind the batch's loss.  What
# sanitizers slow down says nothing of that.
"$ffzoo" lenet --batch 128 -o lenet128.json
cat >eighths.py <<TXT
import json, re
us = {}
for e in json.load(open("micro-costs.json"))["entries"]:
    if e["key"].startswith(("linear.forward", "conv2d.forward")):
        rows = int(re.search(r"in0=(\\d+)x", e["key"]).group(1))
        us[rows] = us.get(rows, 0) + e["p10_us"]
assert 8 * us[16] < 1.8 * us[128], us
TXT
profile_eighths() { # in one of some tries, as others may run beside it
	for try in 1 2 3 4 5 6 7 8; do
		rm -f micro-costs.json
		status 0 "$ffprof" lenet128.json --machine cpu1 --micro-batches 8 $small \
			-o micro-costs.json || return 1
		python3 eighths.py 2>err && return
	done
	return 1
}
[ -n "${3:-}" ] || check 'micro-batches: eighths of a batch are no slower behind labels' profile_eighths
"$ffzoo" mlp --batch 64 --set image=8 --set hidden=64 --set layers=1 --set dtype=bfloat16 -o halftiny.json
check 'bfloat16 without AVX-512' refused 'does not compute in bfloat16 on this processor' \
	env ONEDNN_MAX_CPU_ISA=AVX2 "$ffprof" halftiny.json --machine cpu1 -o none.json
if status 0 "$ffprof" halftiny.json --machine cpu1 -o half-costs.json $small; then
	check 'bfloat16 is profiled with its updates' grep -q '"update_adamw_bfloat16": \[' half-costs.json
else
	check 'bfloat16 is not on every processor' one_sentence 'does not compute in bfloat16 on this processor'
fi

# --- what is refused
check 'no machine' refused '--machine' "$ffprof" lenet.json -o c.json
check 'no file' refused '-o' "$ffprof" lenet.json --machine cpu2
check 'no kernels of null' refused 'cpu or cuda' "$ffprof" lenet.json --machine cpu2 \
	--device null -o c.json
printf 'garbage' >garbage.json
check 'bad cost file' refused 'garbage.json' "$ffprof" lenet.json --machine cpu2 \
	-o garbage.json
cat >other.json <<TXT
{"format": "ffsoap-machine", "version": 1, "name": "small", "overlap": false,
 "kinds": [{"name": "other", "flops_per_s": 1e11, "memory_bytes_per_s": 1e10, "memory_bytes": 1000000000}],
 "nodes": [{"devices": 2, "kind": "other", "inside": {"latency_us": 1, "bytes_per_s": 1e9}}]}
TXT
check 'costs of other devices' refused 'cpu devices' "$ffprof" tiny.json \
	--machine other.json -o costs.json
check 'nothing was written' test ! -e c.json

finish
