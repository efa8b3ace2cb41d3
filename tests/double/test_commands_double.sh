#!/bin/sh
# ffrun --device cuda on the host double: trains, on ranks too, and computes what the CPU does.
# Usage: test_commands_double.sh FFZOO FFRUN MODULE.  SPDX-License-Identifier: Apache-2.0
ffzoo=$(realpath "$1")
ffrun=$(realpath "$2")
FF_CUDA_MODULE=$(realpath "$3")
OMP_NUM_THREADS=1
export FF_CUDA_MODULE OMP_NUM_THREADS
. "$(dirname "$(realpath "$0")")/../check.sh"
verdict() { "$@" >out 2>err; }

loss() { # loss COMMAND...: prints the last steps' loss
	"$@" | sed -n 's/^ *loss, last steps *\([0-9.]*\).*/\1/p'
}
near() { # near A B SHARE: both are numbers, and apart by that share at most
	awk -v a="$1" -v b="$2" -v s="$3" \
		'BEGIN { d = a - b; exit !(a > 0 && b > 0 && d * d <= s * s * b * b) }'
}
train() { # train DEVICE GRAPH ARGUMENT...
	on=$1
	shift
	loss "$ffrun" "$@" --device "$on" --data synthetic:64 --steps 6
}

"$ffzoo" lenet --batch 16 -o lenet.json
"$ffzoo" lenet --batch 16 --set dtype=bfloat16 -o half.json
"$ffzoo" mlp --batch 12 --set hidden=32 --set layers=2 -o mlp.json

ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
export ASAN_OPTIONS
whole=$(train cuda lenet.json single)
check 'lenet as the CPU' near "$whole" "$(train cpu lenet.json single)" 0.001
check 'the same again' test "$whole" = "$(train cuda lenet.json single)"
check 'in bfloat16' near "$(train cuda half.json single)" "$whole" 0.02
check 'one device is verified' "$ffrun" lenet.json single --device cuda --data synthetic:64 \
	--steps 3 --verify
check 'ranks are verified' "$ffrun" mlp.json data-parallel --device cuda --devices 2 \
	--data synthetic:64 --steps 3 --verify
check 'NCCL: the CPU'"'"'s loss on two ranks' near "$(FF_NCCL=1 train cuda lenet.json data-parallel --devices 2)" \
	"$(train cpu lenet.json data-parallel --devices 2)" 0.001
alone() { # alone COMMAND...: where no two processes may have one device
	FF_DOUBLE_EXCLUSIVE=1 FF_DOUBLE_FOLDER=$dir "$@"
}
for nccl in 0 1; do
	check "a device each, which nobody else enters (FF_NCCL=$nccl)" alone env FF_NCCL=$nccl "$ffrun" \
		mlp.json data-parallel --device cuda --devices 2 --data synthetic:64 --steps 3 --verify
done
check 'one process, one device' alone "$ffrun" mlp.json single --data synthetic:64 --steps 3
export FF_NCCL=1
check 'NCCL: ranks are verified' "$ffrun" mlp.json data-parallel --device cuda --devices 2 \
	--data synthetic:64 --steps 3 --verify
mv out before
check 'NCCL: and it is said' grep -q '^communication: nccl 2' before
# two nodes of two devices each
cat >nodes.json <<TXT
{"format": "ffsoap-machine", "version": 1, "name": "nodes", "overlap": true,
 "kinds": [{"name": "gpu", "flops_per_s": 1e13, "memory_bytes_per_s": 1e12, "memory_bytes": 1e9}],
 "nodes": [{"count": 2, "devices": 2, "kind": "gpu", "inside": {"latency_us": 5, "bytes_per_s": 1e10},
  "network": {"latency_us": 10, "bytes_per_s": 1e9}}]}
TXT
export FF_NCCL_NODES=1
check 'by nodes: ranks are verified' "$ffrun" mlp.json data-parallel --machine ./nodes.json \
	--device cuda --data synthetic:64 --steps 3 --verify
mv out before
check 'by nodes: and it is said' grep -q '^communication: nccl 2.* by nodes' before
whole=$(train cuda lenet.json data-parallel --machine ./nodes.json)
check 'by nodes: the CPU'"'"'s loss' near "$whole" "$(FF_NCCL=0 train cpu lenet.json data-parallel --devices 4)" 0.001
check 'by nodes: the same again' test "$whole" = "$(train cuda lenet.json data-parallel --machine ./nodes.json)"
FF_NCCL_NODES=2 "$ffrun" mlp.json data-parallel --machine ./nodes.json --device cuda \
	--data synthetic:64 --steps 1 >before 2>&1
check 'by nodes, or not' grep -q 'FF_NCCL_NODES=2: expected 0 or 1' before
unset FF_NCCL FF_NCCL_NODES
# ranks that were told otherwise: what the first one is told counts
apart() { # apart FIRST SECOND
	timeout 600 mpirun -q --allow-run-as-root --oversubscribe \
		-n 1 env FF_NCCL="$1" "$ffrun" mlp.json data-parallel --device cuda --data synthetic:64 --steps 1 : \
		-n 1 env FF_NCCL="$2" "$ffrun" mlp.json data-parallel --device cuda --data synthetic:64 --steps 1
}
apart 0 1 >before 2>&1
check 'the first rank refuses NCCL' grep -q '^communication: mpi' before
apart 1 0 >before 2>&1
check 'the first rank insists on NCCL' grep -q '^communication: nccl 2' before
for switch in FF_CUDA_TF32 FF_CUDA_SDPA FF_CUDA_PERSISTENT; do
	env $switch=2 "$ffrun" mlp.json single --device cuda --data synthetic:64 --steps 1 >before 2>&1
	check "$switch is 0 or 1" grep -q "$switch=2: expected 0 or 1" before
done
FF_DOUBLE_DEVICES=1 "$ffrun" mlp.json data-parallel --device cuda --devices 2 --data synthetic:64 \
	--steps 1 >before
check 'ranks that share a GPU communicate over MPI' grep -q '^communication: mpi' before
case $FF_CUDA_MODULE in
*double*)
	capability() { # capability NUMBER [ARGUMENT...]: a step on a device of that compute capability
		number=$1
		shift
		FF_DOUBLE_CAPABILITY=$number "$ffrun" mlp.json single --data synthetic:64 --steps 1 "$@"
	}
	refused_capability() { # refused_capability NUMBER MAJOR.MINOR
		capability "$1" --device cuda 2>refused
		test $? -eq 2 && cat refused >&2 &&
			grep -q "^ffrun: CUDA device 0 has compute capability $2, for which" refused
	}
	for number in 80 86 90 100 120; do
		check "compute capability $number" capability $number --device cuda
	done
	check 'there are no kernels for 7.5' refused_capability 75 7.5
	check 'nor for 7.0' refused_capability 70 7.0
	check 'so the CPU computes, where nothing is said' capability 75
	mv out before
	check 'and it is said' grep -q 'on 1 cpu device,' before
	FF_DOUBLE_LACKS=choices "$ffrun" mlp.json single --device cuda --data synthetic:64 --steps 1 >before 2>&1
	check 'why cuBLASLt chooses nothing' \
		grep -q 'cuBLAS failed to choose a matrix product' before
	products() { # FF_CUDA_PERSISTENT, hidden features: products that a recurrence is launched with
		"$ffzoo" rnnlm --batch 16 --set steps=4 --set layers=1 --set vocabulary=20 --set hidden="$2" \
			-o recurrence.json
		FF_CUDA_PERSISTENT=$1 FF_DOUBLE_COUNTS=counts "$ffrun" recurrence.json single --device cuda \
			--data synthetic:16 --steps 1 >/dev/null
		sed -n 's/ a product$//p' counts
	}
	check 'a recurrence of short steps is one kernel' test "$(products 1 256)" -lt "$(products 0 256)"
	check 'one of long steps is not' test "$(products 1 1024)" -eq "$(products 0 1024)"
	# on a GPU both ranks would share it
	"$ffrun" mlp.json data-parallel --device cuda --devices 2 --data synthetic:64 --steps 1 >before
	check 'others over NCCL' grep -q '^communication: nccl' before
	;;
esac
FF_NCCL=0 "$ffrun" mlp.json data-parallel --device cuda --devices 2 --data synthetic:64 \
	--steps 1 >before
check 'unless told otherwise' grep -q '^communication: mpi' before
"$ffrun" lenet.json single --device cuda --data synthetic:64 --steps 6 >before
check 'steps are launched' grep -q '^steps: each as a CUDA graph' before
check 'and are what they are without' test "$whole" = "$(FF_CUDA_GRAPH=0 train cuda lenet.json single)"
"$ffrun" lenet.json single --device cuda --data synthetic:64 --steps 3 --compare >before
check 'in turns too' grep -q '^steps: each as a CUDA graph' before
FF_NCCL=0 "$ffrun" mlp.json data-parallel --device cuda --devices 2 --data synthetic:64 \
	--steps 2 >before
check 'not where the host communicates' \
	grep -q '^steps: task by task, as communication over mpi shared needs the host' before
cat >norm.json <<TXT
{"format": "ffsoap-graph", "version": 2, "name": "norm", "nodes": [
 {"name": "data", "op": "input", "shape": [8, 3, 6, 6]},
 {"name": "label", "op": "input", "shape": [8], "dtype": "int32", "classes": 4},
 {"name": "conv", "op": "conv2d", "in": ["data"], "out_channels": 4, "kernel": 3, "bias": false},
 {"name": "norm", "op": "batch_norm", "in": ["conv"]},
 {"name": "flat", "op": "reshape", "in": ["norm"], "shape": [0, -1]},
 {"name": "fc", "op": "linear", "in": ["flat"], "out_features": 4},
 {"name": "loss", "op": "softmax_cross_entropy", "in": ["fc", "label"]}]}
TXT
for word in 0 1; do
	FF_CUDA_GRAPH=$word "$ffrun" norm.json single --device cuda --data synthetic:64 --dump norm$word \
		>/dev/null
done
check 'a step that is dumped updates running statistics once' cmp norm0 norm1
graphs() { # graphs WORD WORD: two ranks with these FF_CUDA_GRAPH
	for word in "$1" "$2"; do
		set -- "$@" -n 1 env FF_NCCL=1 ${word:+"FF_CUDA_GRAPH=$word"} "$ffrun" mlp.json data-parallel --device cuda \
			--data synthetic:64 --steps 3 --report graphs.json :
	done
	shift 2
	mpirun -q --allow-run-as-root --oversubscribe --bind-to none "$@"
}
refused_by_rank() { # refused_by_rank RANK WORD WORD
	graphs "$2" "$3" 2>refused
	test $? -eq 2 && cat refused >&2 &&
		test "$(cat refused)" = "ffrun: FF_CUDA_GRAPH=1, but rank $1 captures nothing: FF_CUDA_GRAPH=0"
}
check 'two ranks insist on captured steps' graphs 1 1
check 'and have them' grep -q '"captured": true' graphs.json
check 'one refuses what the other insists on' refused_by_rank 0 0 1
check 'likewise' refused_by_rank 1 1 0
check 'one refuses, and none insists' graphs 0 ""
check 'so there are none' grep -q '"not_captured": "FF_CUDA_GRAPH=0"' graphs.json
FF_CUDA_GRAPH=1 "$ffrun" lenet.json single --device cpu --data synthetic:64 --steps 1 2>before
check 'nor on a CPU, whoever insists' test $? = 2
check 'a test pass' "$ffrun" lenet.json single --device cuda --data synthetic:64 --epochs 1
check 'the preset, where a device answers' "$ffrun" lenet.json single --data synthetic:64 --steps 1
mv out before
check 'and it is said' grep -q 'on 1 cuda device,' before
finish
