#!/bin/sh
# The CUDA backend built without NCCL, on the host double: ranks communicate over MPI.
# Usage: test_without_nccl.sh FFZOO FFRUN MODULE.  SPDX-License-Identifier: Apache-2.0
ffzoo=$(realpath "$1")
ffrun=$(realpath "$2")
FF_CUDA_MODULE=$(realpath "$3")
OMP_NUM_THREADS=1
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
export FF_CUDA_MODULE OMP_NUM_THREADS ASAN_OPTIONS
. "$(dirname "$(realpath "$0")")/../check.sh"

run() { # run EXPECTED: two ranks for a step
	"$ffrun" mlp.json data-parallel --device cuda --devices 2 --data synthetic:64 --steps 1 \
		--verify >out 2>err
	test $? -eq "$1"
}

"$ffzoo" mlp --batch 12 --set hidden=8 --set layers=1 -o mlp.json
check 'two ranks' run 0
check 'over MPI' grep -q '^communication: mpi' out
FF_NCCL=1
export FF_NCCL
check 'NCCL, insisted on' run 2
check 'is not there' grep -q 'built without NCCL' err
check 'which is said once' test "$(wc -l <err)" -eq 1
finish
