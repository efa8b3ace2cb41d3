#!/bin/sh
# The CUDA backend as it is built: it loads, and where no GPU answers it says so.
# Usage: test_module.sh FFZOO FFRUN MODULE.  SPDX-License-Identifier: Apache-2.0
ffzoo=$(realpath "$1")
ffrun=$(realpath "$2")
FF_CUDA_MODULE=$(realpath "$3")
export FF_CUDA_MODULE
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

"$ffzoo" mlp --batch 4 --set image=4 --set hidden=8 --set layers=1 -o tiny.json
echo '1..1'
"$ffrun" tiny.json single --device cuda --data synthetic:64 --steps 2 >out 2>err
code=$?
if [ $code = 0 ] && grep -q 'on 1 cuda device,' out; then
	echo 'ok 1 - trains on the GPU that is here'
elif [ $code = 2 ] && [ "$(wc -l <err)" = 1 ] && grep -q 'no CUDA device answers: ' err; then
	echo 'ok 1 - loads, and says that no GPU answers'
else
	echo "not ok 1 - status $code"
	sed 's/^/# /' err
	exit 1
fi
