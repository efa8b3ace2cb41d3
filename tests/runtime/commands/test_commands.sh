#!/bin/sh
# ffrun as a command: ranks, files, exit status.  (ffprof: test_profiles.sh.)
# Usage: test_commands.sh FFZOO FFRUN.  SPDX-License-Identifier: Apache-2.0
ffzoo=$(realpath "$1")
ffrun=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
. "$here/../../check.sh"
. "$here/status.sh"

plan_for() { # plan_for MACHINE DEVICES: a strategy for tiny.json, all on device 0
	cat <<TXT
{"format": "ffsoap-strategy", "version": 2, "graph": "mlp", "graph_hash": "$tiny_hash",
 "machine": "$1", "devices": $2, "operators": [
 {"name": "flatten", "degrees": {}, "devices": [0]}, {"name": "fc1", "degrees": {}, "devices": [0]},
 {"name": "act1", "degrees": {}, "devices": [0]}, {"name": "fc2", "degrees": {}, "devices": [0]},
 {"name": "loss", "degrees": {}, "devices": [0]}]}
TXT
}

"$ffzoo" lenet --batch 16 -o lenet.json
"$ffzoo" mlp --batch 12 --set hidden=32 --set layers=2 -o mlp.json
"$ffzoo" mlp --batch 4 --set image=4 --set hidden=8 --set layers=1 -o tiny.json
"$ffzoo" branchnet --batch 6 --set image=12 --set width=4 --set blocks=1 -o branch.json
data="--data synthetic:64"

# --- what works
# where the processor has no bfloat16, and perhaps where it has
"$ffzoo" lenet --batch 16 --set dtype=bfloat16 -o half.json
check 'bfloat16 without AVX-512' refused 'does not compute in bfloat16 on this processor' \
	env ONEDNN_MAX_CPU_ISA=AVX2 "$ffrun" half.json single --data synthetic:64 --steps 1
check 'prefetch is on or off' refused 'FF_PREFETCH=yes: expected 0 or 1' \
	ranks env FF_PREFETCH=yes "$ffrun" lenet.json data-parallel --devices 2 $data --steps 1
if "$ffrun" half.json single --data synthetic:64 --steps 1 >/dev/null 2>&1; then
	check 'bfloat16 on 3 ranks' status 0 ranks "$ffrun" half.json data-parallel --devices 3 \
		$data --steps 4 --verify --compare --against single --report half-report.json
	check 'is verified by length' said 'of their length'
	check 'bfloat16 dumped' status 0 "$ffrun" half.json single $data --dump half.st
	check 'as float32' test "$(grep -c BF16 half.st)" -eq 0
fi
"$ffzoo" densenet121 --batch 4 --set image=32 -o deep.json
check 'rounding that a network enlarges is measured' status 0 ranks "$ffrun" deep.json \
	data-parallel --devices 2 $data --verify
check 'and told' said 'rounding the weights alone moves them by'
check 'unless a tolerance is given' status 1 ranks "$ffrun" deep.json data-parallel --devices 2 \
	$data --verify --tolerance 1e-4

check 'one device' status 0 "$ffrun" lenet.json single $data --steps 5 --verify
check 'is verified' said 'verified on one device'
for ranks in 2 4; do
	for graph in lenet mlp branch; do
		check "$graph on $ranks ranks" status 0 ranks "$ffrun" $graph.json data-parallel \
			--devices $ranks $data --steps 4 --verify --report report.json
		check 'is verified' said 'verified on one device'
		check 'has a report' grep -q '"format": "ffsoap-run-report"' report.json
	done
done
check 'without arithmetic' status 0 ranks "$ffrun" branch.json data-parallel --devices 3 \
	--device null $data --steps 3
check 'compared in turns' status 0 ranks "$ffrun" lenet.json single --devices 2 $data --steps 6 \
	--compare --test --report report.json --trace trace.json --schedule cosine
check 'says how they compare' said 'median of the ratios'
check 'reports the comparison' grep -q '"speedup"' report.json
check 'has a trace' grep -q '"traceEvents"' trace.json
check 'traces the sync of gradients or none' grep -q 'conv1 forward' trace.json
check 'epochs' status 0 ranks "$ffrun" mlp.json data-parallel --devices 2 $data --epochs 2 --report e.json
check 'has all their steps' grep -q '"steps": 10' e.json
check 'dumps a step' status 0 ranks "$ffrun" lenet.json data-parallel --devices 2 $data --dump dump.st
check 'as safetensors' grep -q '"grad.conv1.weight"' dump.st
check 'help' status 0 "$ffrun" --help
check 'no mpirun' status 1 env PATH=/nowhere "$ffrun" mlp.json data-parallel --devices 2 $data --steps 1
check 'is said once' one_sentence 'mpirun, which starts the 2 ranks, cannot be run'
check 'a network under mpirun' status 0 ranks mpirun -q --allow-run-as-root --oversubscribe \
	--bind-to none -n 2 "$ffrun" lenet.json data-parallel $data --steps 2
check 'same seed' status 0 ranks "$ffrun" lenet.json data-parallel --devices 2 $data --dump a.st --seed 7
check 'same seed again' status 0 ranks "$ffrun" lenet.json data-parallel --devices 2 $data --dump b.st \
	--seed 7
check 'gives the same bytes' cmp a.st b.st

# --- what is refused before any rank starts
check 'no operands' refused '2 operands' "$ffrun"
check 'no data' refused '--data' "$ffrun" lenet.json single --steps 1
check 'no steps' refused '--steps N or --epochs N' "$ffrun" lenet.json single $data
check 'steps and epochs' refused 'exclude' "$ffrun" lenet.json single $data --steps 1 --epochs 1
check 'unknown option' refused '--step' "$ffrun" lenet.json single $data --step 1
check 'no such graph' refused 'none.json' "$ffrun" none.json single $data --steps 1
check 'no such strategy' refused 'none.json' "$ffrun" lenet.json none.json $data --steps 1
printf '{"format": "ffsoap-graph", "version": 2' >cut.json
check 'cut graph' refused 'cut.json' "$ffrun" cut.json single $data --steps 1
check 'graph as strategy' refused 'mlp.json' "$ffrun" lenet.json mlp.json $data --steps 1
printf 'garbage' >garbage.json
check 'garbage as strategy' refused 'garbage.json' "$ffrun" lenet.json garbage.json $data --steps 1
check 'no such machine' refused 'nowhere' "$ffrun" lenet.json data-parallel --machine nowhere \
	$data --steps 1
check 'too many devices' refused '2 devices' "$ffrun" lenet.json data-parallel --machine cpu2 \
	--devices 3 $data --steps 1
check 'one device is one' refused 'cpu1 has 1 device, 2 were asked for' "$ffrun" lenet.json data-parallel \
	--machine cpu1 --devices 2 $data --steps 1
check 'far too many devices' refused 'at most' "$ffrun" lenet.json data-parallel \
	--devices 99999999999 $data --steps 1
check 'no such backend' refused 'expected cpu, cuda or null' "$ffrun" lenet.json single \
	--device tpu $data --steps 1
check 'no CUDA module' refused 'CUDA device 0 cannot be opened: ./none.so: cannot open' \
	env FF_CUDA_MODULE=./none.so "$ffrun" lenet.json single --device cuda $data --steps 1
check 'then the CPU is the preset' status 0 \
	env FF_CUDA_MODULE=./none.so "$ffrun" lenet.json single $data --steps 1
check 'and is said to be' said 'on 1 cpu device,'
check 'no CUDA backend in the module' refused 'is not of this version' \
	env FF_CUDA_MODULE=libm.so.6 "$ffrun" lenet.json single --device cuda $data --steps 1
check 'no such data' refused 'No such file' "$ffrun" lenet.json single --data none --steps 1
check 'too little data' refused 'fewer than' "$ffrun" lenet.json single --data synthetic:3 --steps 1
check 'bad schedule' refused 'constant, step or cosine' "$ffrun" lenet.json single $data --steps 1 \
	--schedule linear
refused_rates() { # refused_rates SENTENCE OPTION...
	sentence=$1
	shift
	check "rates: $*" refused "$sentence" "$ffrun" lenet.json single $data --steps 3 "$@"
}
refused_rates 'expected --step-size N with it' --schedule step
refused_rates 'expected --schedule step with it' --schedule cosine --step-size 3
refused_rates 'expected --schedule step with it' --gamma 0.5
refused_rates 'expected --schedule cosine with it' --floor 0.001
refused_rates 'expected --ramp N with it' --ramp-from 0.5
refused_rates 'from 0 to 1, not 2' --ramp 2 --ramp-from 2
refused_rates 'option --floor: expected a number from 0, not -1' --schedule cosine --floor -1
refused_rates 'there are no more than 3 steps' --ramp 4
refused_rates 'as in norm,bias:decay=0, with a colon' --group bias
refused_rates 'with something to select' --group :decay=0
refused_rates 'and = behind each name' --group bias:decay
refused_rates 'and a number for each name' --group bias:decay=x
refused_rates 'where NAME is factor or a setting' --group bias:size=1
refused_rates 'and a factor from 0' --group bias:factor=-1
refused_rates 'group bias:beta1=0.5: beta1: optimizer momentum has no such' --group bias:beta1=0.5
refused_rates 'group conv1.*:decay=1,rate=-1: rate: expected a number from 0' --group 'conv1.*:decay=1,rate=-1'
refused_rates 'group norm:decay=0: it selects none' --group norm:decay=0
check 'groups and rates' status 0 ranks "$ffrun" lenet.json data-parallel --devices 2 $data --steps 4 \
	--group bias:decay=0 --group 'fc*:factor=2,decay=0.1' --schedule step --step-size 2 --ramp 1
check 'names the groups' said 'but fc*:factor=2,decay=0.1'
check 'and what becomes of the rate' said 'rate: from 0.333333 of it in 1 steps, then step, times 0.1 every 2 steps'
check 'bad momentum' refused '--momentum' "$ffrun" lenet.json single $data --steps 1 --momentum 1
check 'negative rate' refused '--rate: expected a number from 0, not -1' "$ffrun" lenet.json single \
	$data --steps 1 --rate -1
check 'no such optimizer' refused '--optimizer: expected sgd, momentum, nesterov, adam or adamw, not "ada"' \
	"$ffrun" lenet.json single $data --steps 1 --optimizer ada
check 'momentum of sgd' refused '--momentum: optimizer sgd has no such setting' "$ffrun" lenet.json \
	single $data --steps 1 --optimizer sgd --momentum 0.9
check 'beta of the preset' refused '--beta1: optimizer momentum has' "$ffrun" lenet.json single \
	$data --steps 1 --beta1 0.9
check 'bad beta' refused '--beta2: expected a number from 0 and below 1, not 1' "$ffrun" lenet.json \
	single $data --steps 1 --optimizer adamw --beta2 1
check 'bad epsilon' refused '--epsilon' "$ffrun" lenet.json single $data --steps 1 \
	--optimizer adamw --epsilon -1e-8
check 'no step left' refused '--warmup' "$ffrun" lenet.json single $data --steps 3 --warmup 3
check 'too many steps' refused '--steps' "$ffrun" lenet.json single $data --steps 99999999999
cat >foreign.json <<TXT
{"format": "ffsoap-strategy", "version": 2, "graph": "mlp", "graph_hash": "0000000000000000",
 "machine": "cpu2", "devices": 2, "operators": []}
TXT
check 'strategy for another graph' refused 'foreign.json' "$ffrun" lenet.json foreign.json $data \
	--steps 1
"$ffrun" tiny.json foreign.json $data --steps 1 2>err # names the graph's hash
tiny_hash=$(sed -n 's/.*not for this graph .*(hash \([0-9a-f]*\)).*/\1/p' err)

# --- the machine that a strategy was made for
plan_for cpu2 1 >plan.json
check 'a known machine' status 0 "$ffrun" tiny.json plan.json $data --steps 1
check 'needs no note' test ! -s err
plan_for nowhere 1 >plan.json
check 'an unknown machine' status 0 "$ffrun" tiny.json plan.json $data --steps 1
check 'is noted' grep -q 'machine "nowhere", which is not known here; this computer' err
check 'in one line' test "$(wc -l <err)" -eq 1
plan_for nowhere 2 >plan.json
check 'an unknown machine, two ranks' status 0 ranks "$ffrun" tiny.json plan.json $data --steps 1
check 'is noted once' test "$(grep -c 'this computer is assumed' err)" -eq 1
plan_for cpu1 1 >plan.json
check 'too small a machine' status 0 ranks "$ffrun" tiny.json plan.json --devices 2 $data --steps 1
check 'is noted once too' test "$(grep -c 'has 1 of the 2 devices' err)" -eq 1
plan_for cpu2 1 | sed 's/"devices": 1,/&"predicted_us": 9, "steadiness": 0.25,/' >plan.json
check 'predicted from disturbed samples' status 0 "$ffrun" tiny.json plan.json $data --steps 1
check 'is noted as well' grep -q 'plan.json: 75 % of the costs behind its prediction' err
plan_for cpu2 1 | sed 's/"devices": 1,/&"predicted_us": 9, "steadiness": 0.95,/' >plan.json
check 'from few' status 0 "$ffrun" tiny.json plan.json $data --steps 1
check 'is not' test ! -s err
plan_for cpu2 2 | sed 's/"devices": 2,/&"communication": "nccl 2.28.9",/' >plan.json
check 'planned for NCCL' status 0 ranks "$ffrun" tiny.json plan.json $data --steps 1
check 'is noted once' test "$(grep -c 'plan.json was planned for ranks that communicate over nccl 2.28.9, but these do over mpi' err)" -eq 1
plan_for cpu2 2 | sed 's/"devices": 2,/&"communication": "mpi shared",/' >plan.json
check 'planned for MPI and shared memory' status 0 ranks "$ffrun" tiny.json plan.json $data --steps 1
check 'those it is' test ! -s err
plan_for cpu2 2 | sed 's/"devices": 2,/&"communication": "mpi rings",/' >plan.json
check 'planned for several hosts' status 0 ranks "$ffrun" tiny.json plan.json $data --steps 1
check 'is noted' grep -q 'communicate over mpi rings, but these do over mpi shared, so' err
printf '{"format": "ffsoap-machine", "version": 1' >torn
plan_for torn 1 >plan.json
check 'a machine file that is broken' refused 'torn' "$ffrun" tiny.json plan.json $data --steps 1
plan_for ./garbage.json 1 >plan.json
check 'or none at all' refused 'garbage.json' "$ffrun" tiny.json plan.json $data --steps 1

# --- tasks by class, beside what was predicted of them
plan_for cpu2 2 | sed 's/"devices": 2,/&"predicted_us": 9, "predicted_tasks": {"linear forward": 1e6, "update": 2},/' >plan.json
check 'profiled' status 0 ranks "$ffrun" tiny.json plan.json $data --steps 8 --profile 3 --report r.json
check 'says of how many steps' said 'median of 3 steps; furthest from what was predicted first'
check 'the furthest first' awk '/^tasks by class/ { getline; getline; exit !/^  linear forward/ }' out
check 'reports all of them' python3 - <<TXT
import json
report, graph = (json.load(open(f)) for f in ("r.json", "tiny.json"))
tasks = {t["class"]: t for t in report["tasks"]}
assert report["profiled_steps"] == 3
assert {k: t["predicted_us"] for k, t in tasks.items() if t["predicted_us"] is not None} == {
    "linear forward": 1e6, "update": 2}
linears = sum(n["op"] == "linear" for n in graph["nodes"])
assert tasks["linear forward"]["runs"] == tasks["linear backward"]["runs"] == linears == 2, tasks
assert "gradient all-reduce" not in tasks
assert all(0 < t["measured_us"] < 60e6 for t in tasks.values()), tasks
TXT
check 'on two devices' status 0 ranks "$ffrun" tiny.json data-parallel --devices 2 $data --steps 8 \
	--profile 3 --report r.json
check 'all of both' python3 - <<TXT
import json
tasks = {t["class"]: t for t in json.load(open("r.json"))["tasks"]}
assert tasks["linear forward"]["runs"] == tasks["linear backward"]["runs"] == 4, tasks
assert tasks["gradient all-reduce"]["runs"] == tasks["update"]["runs"] == 2, tasks
assert all(t["predicted_us"] is None and t["measured_us"] > 0 for t in tasks.values()), tasks
TXT
check 'more steps than are measured' status 0 "$ffrun" tiny.json single $data --steps 8 --warmup 6 \
	--profile 100 --report r.json
check 'are as many as there are' grep -q '"profiled_steps": 2' r.json
check 'and nothing predicted' said 'nothing was predicted of them'
check 'for another optimizer' status 0 ranks "$ffrun" tiny.json plan.json $data --steps 4 --profile 3 \
	--optimizer sgd
check 'neither' said 'nothing was predicted of them'

# --- the optimizer that a strategy was made for
plan_for cpu2 1 | sed 's/"devices": 1,/&"optimizer": "adamw", "predicted_us": 9,/' >plan.json
check 'as the plan says' status 0 "$ffrun" tiny.json plan.json $data --steps 1
check 'is reported' said 'optimizer: adamw, rate 0.001, beta1 0.9, beta2 0.999, epsilon 1e-08, decay 0.01'
check 'and needs no note' test ! -s err
check 'told the same' status 0 "$ffrun" tiny.json plan.json $data --steps 1 --optimizer adamw --rate 1e-4
check 'sets what is told' said 'optimizer: adamw, rate 0.0001, beta1'
check 'needs none either' test ! -s err
check 'told another' status 0 "$ffrun" tiny.json plan.json $data --steps 1 --optimizer sgd
check 'is reported as well' said 'optimizer: sgd, rate 0.01, decay 0'
check 'predicts no time' grep -q 'predicted step time  *- *$' out
check 'is noted' grep -q 'plan.json was searched for optimizer adamw: with sgd neither' err
check 'in one line' test "$(wc -l <err)" -eq 1
check 'against another' status 0 "$ffrun" tiny.json single $data --steps 2 --compare --against plan.json
check 'that is the preset' said 'optimizer: momentum, rate 0.01, momentum 0.9, decay 0'
check 'is noted too' test "$(grep -c 'searched for optimizer adamw: with momentum' err)" -eq 1
plan_for cpu2 1 >plan.json
check 'by hand' status 0 "$ffrun" tiny.json plan.json $data --steps 1 --optimizer adamw
check 'predicts nothing, so nothing is noted' test ! -s err
plan_for cpu2 1 | sed 's/"devices": 1,/&"clip": true, "predicted_us": 9,/' >plan.json
check 'clipped as the plan says' status 0 "$ffrun" tiny.json plan.json $data --steps 1 --clip 1
check 'it needs no note' test ! -s err
check 'not clipped' status 0 "$ffrun" tiny.json plan.json $data --steps 1
check 'that is noted' grep -q 'plan.json was searched for gradients that are clipped.*(search without --clip)' err
check 'and no time predicted' grep -q 'predicted step time  *- *$' out
plan_for cpu2 1 | sed 's/"devices": 1,/&"predicted_us": 9,/' >plan.json
check 'clipped where the plan is of none' status 0 "$ffrun" tiny.json plan.json $data --steps 1 --clip 1
check 'that too' grep -q 'plan.json was searched for gradients that are not clipped.*(search with --clip)' err
check 'a --top that is too large' refused 'option --top: expected at most' "$ffrun" tiny.json single \
	$data --steps 1 --test --top 2147483648
plan_for cpu2 1 | sed 's/"devices": 1,/&"optimizer": "ada",/' >plan.json
check 'an unknown one' refused 'plan.json: optimizer: expected sgd, momentum, nesterov, adam or adamw' "$ffrun" \
	tiny.json plan.json $data --steps 1
for optimizer in sgd momentum adamw; do
	check "$optimizer on two ranks" status 0 ranks "$ffrun" mlp.json data-parallel --devices 2 \
		$data --steps 3 --optimizer $optimizer --verify --report $optimizer.json
	check 'without arithmetic' status 0 ranks "$ffrun" mlp.json data-parallel --devices 2 \
		$data --steps 3 --optimizer $optimizer --device null
done

# --- memory
need_of() { # need_of OPTIMIZER: bytes of one device
	"$ffrun" tiny.json single $data --steps 1 --optimizer "$1" --report r.json >out 2>err
	tr -d ' \n' <r.json | sed -n 's/.*"memory_bytes":\[\([0-9]*\).*/\1/p'
}
plain=$(need_of sgd)
check 'each state is as much again' test $(($(need_of adamw) - plain)) -eq $((2 * ($(need_of momentum) - plain)))
# weights 16x8, 8, 8x10, 10, each from a multiple of 64 bytes
check 'as the weights' test $(($(need_of momentum) - plain)) -eq $((512 + 64 + 320 + 64))
machine_of() { # machine_of BYTES: two devices with that much memory each
	cat <<TXT
{"format": "ffsoap-machine", "version": 1, "name": "small", "overlap": false,
 "kinds": [{"name": "cpu", "flops_per_s": 1e11, "memory_bytes_per_s": 1e10, "memory_bytes": $1}],
 "nodes": [{"devices": 2, "kind": "cpu", "inside": {"latency_us": 1, "bytes_per_s": 1e9}}]}
TXT
}
"$ffrun" tiny.json single $data --steps 1 --report r.json >out 2>err
need=$(tr -d ' \n' <r.json | sed -n 's/.*"memory_bytes":\[\([0-9]*\).*/\1/p')
machine_of "$need" >small.json
check 'just enough memory' status 0 ranks "$ffrun" tiny.json single --machine small.json $data \
	--steps 1
machine_of $((need - 1)) >small.json
check 'a byte too little' status 3 ranks "$ffrun" tiny.json single --machine small.json $data \
	--steps 1
check 'says where and how much' one_sentence \
	"strategy single does not fit: device 0 needs $need bytes and has $((need - 1))"
plan_for small 1 | sed 's/"devices": 1,/& "predicted_us": 9,/' >clipless.json
check 'of a plan, too' status 3 "$ffrun" tiny.json clipless.json --machine small.json $data --steps 1 --clip 1
check 'whatever else there is to say of it' one_sentence 'clipless.json does not fit: device 0 needs'
check 'on two ranks' status 3 ranks "$ffrun" tiny.json single --devices 2 --machine small.json \
	$data --steps 1
check 'one of them says so' one_sentence 'device 0 needs'
machine_of $((need * 2 - 1)) >small.json
check 'compared with itself, too little for both' status 3 ranks "$ffrun" tiny.json single \
	--machine small.json $data --steps 2 --compare --against single
check 'says that it is both' one_sentence 'beside the one it is compared with: device 0'
machine_of $((need * 2)) >small.json
check 'enough for both' status 0 ranks "$ffrun" tiny.json single --machine small.json $data \
	--steps 2 --compare --against single
"$ffzoo" mlp --batch 4 --set image=4 --set hidden=500000 --set layers=2 -o huge.json
check 'more than this computer has' status 3 "$ffrun" huge.json single $data --steps 1
check 'is not tried' one_sentence 'strategy single does not fit: device 0 needs'
check 'ranks that do not fit' status 2 ranks mpirun -q --allow-run-as-root --oversubscribe \
	--bind-to none -n 2 "$ffrun" lenet.json data-parallel --devices 3 $data --steps 2
check 'one rank says so' one_sentence 'expected the number of ranks that were started, 2'

# --- what fails while it runs
check 'a report that cannot be written' status 1 ranks "$ffrun" lenet.json data-parallel --devices 2 \
	$data --steps 2 --report none/report.json
check 'names the file' grep -q 'none/report.json' err
check 'in one line' test "$(wc -l <err)" -eq 1
printf before >kept.st
check 'a dump that breaks off' status 1 sh -c \
	"trap '' XFSZ; ulimit -f 2; exec \"$ffrun\" lenet.json single $data --dump kept.st"
check 'names the file' one_sentence 'kept.st: cannot be written: File too large'
check 'leaves what was there' test "$(cat kept.st)" = before
check 'and nothing beside it' test -z "$(find . -name ".*.ff-*" -o -name '*.part')"
check 'a tolerance that nothing meets' status 1 ranks "$ffrun" lenet.json data-parallel --devices 2 \
	$data --verify --tolerance 1e-12
check 'says what differs' one_sentence 'one device'

finish
