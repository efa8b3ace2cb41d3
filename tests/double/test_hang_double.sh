#!/bin/sh
# ffrun on two ranks over NCCL, on the host double or on a GPU that they share, one of which stops:
# the job ends by itself.
# Usage: test_hang_double.sh FFZOO FFRUN MODULE.  SPDX-License-Identifier: Apache-2.0
ffzoo=$(realpath "$1")
ffrun=$(realpath "$2")
FF_CUDA_MODULE=$(realpath "$3")
. "$(dirname "$(realpath "$0")")/../check.sh"
OMP_NUM_THREADS=1
FF_NCCL=1
FF_DOUBLE_FOLDER=$dir
FF_CUDA_GRAPH=0 # the double waits in the middle of a graph, where nobody can ask it
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
export FF_CUDA_MODULE FF_CUDA_GRAPH FF_NCCL FF_COMM_TIMEOUT FF_DOUBLE_FOLDER OMP_NUM_THREADS ASAN_OPTIONS

rank() { # rank R: its process that works, of this test's job; another waits for that
	for p in $(grep -l -s -z -x -F "FF_DOUBLE_FOLDER=$dir" /proc/[0-9]*/environ); do
		p=${p%/environ}
		if grep -q -s -z -x -F "OMPI_COMM_WORLD_RANK=$1" "$p/environ" &&
			test -z "$(cat "$p"/task/*/children 2>/dev/null)"; then
			echo "${p#/proc/}"
			return
		fi
	done
}

"$ffzoo" mlp --batch 12 --set hidden=32 --set layers=2 -o mlp.json
for FF_COMM_TIMEOUT in 3 12 48; do # more where a rank was so late on its own that the other had enough of it
	"$ffrun" mlp.json data-parallel --device cuda --devices 2 --data synthetic:64 --steps 1000000 \
		--checkpoint kept --every 3 >out 2>err &
	job=$!
	tries=0
	while ! test -e kept/checkpoint.safetensors && kill -0 $job 2>/dev/null && test $tries -lt 3000; do
		sleep 0.1
		tries=$((tries + 1))
	done
	other=$(rank 1)
	test -n "$other" && kill -STOP "$other"
	wait $job
	status=$?
	grep -q "rank 1 has waited" err || break # else rank 0 was late before rank 1 was stopped
	rm -rf kept
done
check 'two ranks are at work' test -n "$other"
check 'one stops, and the job ends' test $status -eq 1
check 'with a sentence' grep -q "rank 0 has waited $FF_COMM_TIMEOUT s " err
check 'that tells what to do' grep -q 'FF_COMM_TIMEOUT' err
check 'which waits for no graph in turn' sh -c '! grep -q "waits in vain for graphs" err'
check 'nobody is left behind' test -z "$(rank 1)"
FF_COMM_TIMEOUT=soon "$ffrun" mlp.json data-parallel --device cuda --devices 2 \
	--data synthetic:64 --steps 1 >out 2>err
status=$?
check 'a limit that is none' test $status -eq 2
check 'is told' grep -q 'FF_COMM_TIMEOUT=soon: expected seconds' err
finish
