#!/bin/sh
# Every measured table, one after the other; started by ./run bench, which builds first.
# usage: bench/bench.sh DATA
# SPDX-License-Identifier: Apache-2.0
set -eu
data=$1
mkdir -p out
printf '== search speed, one core\n'
build/bench/bench-search --seconds 10
printf '\n== kernels, one core\n'
OMP_NUM_THREADS=1 build/bench/bench-kernels
printf '\n== predicted against measured step time, 2 ranks on this machine\n'
bench/accuracy.py --data "$data"
