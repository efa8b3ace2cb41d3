# shellcheck shell=sh
# How commands end, for tests that have sourced check.sh.  SPDX-License-Identifier: Apache-2.0
OMP_NUM_THREADS=1
export OMP_NUM_THREADS

status() { # status EXPECTED COMMAND...
	expected=$1
	shift
	"$@" >out 2>err
	test $? -eq "$expected"
}
said() { grep -q -F -e "$1" out; } # said TEXT: on standard output
one_sentence() { # one_sentence TEXT: the only line on standard error has it, nothing else was said
	test "$(wc -l <err)" -eq 1 && grep -q -F -e "$1" err && test ! -s out
}
ranks() { # ranks COMMAND...: starts ranks, where Open MPI's own leaks do not count
	ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 "$@"
}
refused() { # refused TEXT COMMAND...: exit status 2 and one sentence with TEXT
	text=$1
	shift
	status 2 "$@" && one_sentence "$text"
}
