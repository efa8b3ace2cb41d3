#!/bin/sh
# compile.sh USAGE NVCC ARGUMENTS: compiles, and keeps in USAGE what ptxas says of every kernel's
# registers, memory and spills.  SPDX-License-Identifier: Apache-2.0
usage=$1
shift
"$@" -Xptxas -v 2>"$usage"
code=$?
grep -v -e '^ptxas info' -e ' bytes stack frame' -e '^$' "$usage" >&2
exit $code
