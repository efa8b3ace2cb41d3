#!/bin/sh
# clang-format and clang-tidy over the whole tree; started by ./run lint.
# usage: bench/lint.sh [BUILD]: a configured build folder, build/ if none is named
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}

for tool in clang-format clang-tidy; do
	if ! command -v "$tool" >/dev/null; then
		echo "lint: $tool is not installed (./run lint installs it)" >&2
		exit 1
	fi
done
if [ ! -f "$build/compile_commands.json" ]; then
	echo "lint: no compile_commands.json in $build (./run build makes it)" >&2
	exit 1
fi

# BUILD FILE: findings of one file stay together; what clang-tidy says of clean
# files (how many warnings in system headers it dropped) is left out
analyse='said=$(clang-tidy --quiet -p "$0" "$1" 2>&1) || {
	printf "%s\n" "$said"
	printf "%s\n" "$said" | grep -qE ":[0-9]+:[0-9]+: (error|warning): " ||
		printf "%s:0:0: error: clang-tidy failed\n" "$1"
}'
# "FILE: what [check]" of findings, each place once, without the place in it, which moves
name_findings() {
	grep -E '^[^ ]+:[0-9]+:[0-9]+: (error|warning): ' |
		sed -E 's#^[^ ]*/(graphs|include|planner|runtime|simulator)/#\1/#' | LC_ALL=C sort -u |
		sed -E 's#:[0-9]+:[0-9]+: (error|warning): #: #' | LC_ALL=C sort
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
find bench graphs include planner runtime simulator tests -name '*.[ch]' \
	! -path 'tests/data/*' | LC_ALL=C sort |
	xargs clang-format --dry-run --Werror || status=1
find graphs planner runtime simulator -name '*.c' | LC_ALL=C sort |
	xargs -n 1 -P "${FF_JOBS:-$(nproc)}" sh -c "$analyse" "$build" >"$work/said" || status=1
name_findings <"$work/said" >"$work/found"
grep -v '^#' bench/lint.known | LC_ALL=C sort >"$work/known"
LC_ALL=C comm -23 "$work/found" "$work/known" >"$work/new"
if [ -s "$work/new" ]; then
	cat "$work/said"
	echo "lint: not known before:" >&2
	cat "$work/new" >&2
	status=1
fi
LC_ALL=C comm -13 "$work/found" "$work/known" | sed 's/^/lint: gone, take it out of bench\/lint.known: /' >&2
if [ "$status" = 0 ]; then
	echo "lint: nothing new, $(wc -l <"$work/found") known findings"
else
	echo "lint: findings, see above" >&2
fi
exit "$status"
