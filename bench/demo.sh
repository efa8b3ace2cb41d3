#!/bin/sh
# The main job on real data: profile this machine, search a plan, train it beside data
# parallelism; for a convolutional network and for one with large linear layers.
# usage: bench/demo.sh full|short DATA   (started by ./run demo, which builds first)
# SPDX-License-Identifier: Apache-2.0
set -eu
mode=$1
data=$2
out=out
build=build
mkdir -p "$out"

case $mode in
full) conv="--epochs 3" mlp="--epochs 1" budget=20s goal=0.88 ;;
short) conv="--steps 100" mlp="--steps 100" budget=5s goal=0 ;; # too short to learn much
*)
	echo "demo: expected full or short, not $mode" >&2
	exit 2
	;;
esac

say() { printf '\n== %s\n' "$*"; }

# job NAME LENGTH RATE: one network from graph to trained weights
job() {
	name=$1 length=$2 rate=$3
	say "$name: measure its kernels and this machine's links"
	"$build/runtime/ffprof" "$out/$name.json" --machine cpu2 --data "$data" \
		-o "$out/costs.json" --replace
	say "$name: search a plan for 2 ranks"
	"$build/planner/ffsearch" "$out/$name.json" --machine cpu2 --costs "$out/costs.json" \
		--budget "$budget" --seed 1 -o "$out/$name.plan.json" \
		--report "$out/$name.search.json" --trace "$out/$name.predicted.trace.json"
	"$build/planner/ffsearch" "$out/$name.json" --machine cpu2 --costs "$out/costs.json" \
		--simulate data-parallel -o "$out/$name.data-parallel.json" >"$out/$name.data-parallel.txt"
	say "$name: the same loss at every step (30 steps, too slow for rounding to grow)"
	"$build/runtime/ffrun" "$out/$name.json" "$out/$name.plan.json" --machine cpu2 \
		--data "$data" --steps 30 --rate 1e-4 --compare --verify >"$out/$name.same.txt"
	grep -E 'verified|losses' "$out/$name.same.txt"
	say "$name: train the plan, and data parallelism in turns with it"
	# word splitting is meant: an option and its value
	"$build/runtime/ffrun" "$out/$name.json" "$out/$name.plan.json" --machine cpu2 \
		--data "$data" $length --rate "$rate" --schedule cosine \
		--decay 5e-4 --compare --against "$out/$name.data-parallel.json" --test \
		--report "$out/$name.run.json" --trace "$out/$name.executed.trace.json"
}

# AlexNet's relative for 28x28 images, and a network of two hidden layers of 4096
# features, as wide as AlexNet's own; batches that one would train them with.
"$build/graphs/ffzoo" alexnet --set image=28 --batch 128 -o "$out/alexnet28.json"
"$build/graphs/ffzoo" mlp --set hidden=4096 --set layers=2 --batch 128 -o "$out/mlp.json"

# reached NAME GOAL: the plan's test accuracy, the first in the report, is enough
reached() {
	sed -n 's/.*"accuracy": \([0-9.]*\).*/\1/p' "$out/$1.run.json" |
		awk -v goal="$2" 'NR == 1 { ok = $1 >= goal } END { exit !ok }' && return
	echo "demo: $1 trained to less than $2 of the test images" >&2
	exit 1
}

job alexnet28 "$conv" 0.02
reached alexnet28 "$goal"
job mlp "$mlp" 0.02

say "files"
for name in alexnet28 mlp; do
	echo "$name: plan $out/$name.plan.json, reports $out/$name.search.json $out/$name.run.json,"
	echo "  timelines $out/$name.predicted.trace.json $out/$name.executed.trace.json" \
		"(open them at https://ui.perfetto.dev)"
done
