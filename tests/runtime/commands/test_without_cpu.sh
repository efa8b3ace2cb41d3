#!/bin/sh
# A build without oneDNN: the null backend runs, the CPU says in a sentence that it does not.
# Usage: test_without_cpu.sh FFZOO FFRUN.  SPDX-License-Identifier: Apache-2.0
ffzoo=$(realpath "$1")
ffrun=$(realpath "$2")
. "$(dirname "$(realpath "$0")")/../../check.sh"

train() { # train EXPECTED DEVICE
	"$ffrun" net.json single --device "$2" --data synthetic:64 --steps 2 >out 2>err
	test $? -eq "$1"
}

"$ffzoo" mlp --batch 4 --set image=4 --set hidden=8 --set layers=1 -o net.json
check 'the null backend runs' train 0 null
check 'the CPU does not' train 2 cpu
check 'and it is said' sh -c 'test $(wc -l <err) -eq 1 && grep -q "built without oneDNN" err'
finish
