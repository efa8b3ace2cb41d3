# shellcheck shell=sh
# What tests in shell have in common: a folder of their own that goes with them, and lines of TAP.
# To be sourced, after paths were made absolute.  SPDX-License-Identifier: Apache-2.0
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
n=0
failed=0

verdict() { "$@"; } # a script may have another
check() { # check NAME COMMAND...: does the command succeed?
	name=$1
	shift
	n=$((n + 1))
	if verdict "$@"; then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name"
		sed 's/^/# /' err
		failed=1
	fi
}
finish() {
	echo "1..$n"
	exit $failed
}
