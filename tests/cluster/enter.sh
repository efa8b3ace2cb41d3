#!/bin/sh
# Runs a command on an emulated host: with --shell mpirun's plm_rsh_agent, in the place of ssh.
# usage: enter [--shell] HOST COMMAND...; --shell: a shell takes the words, as behind ssh
# It stands beside the files that say where hosts are.
# SPDX-License-Identifier: Apache-2.0
set -eu

shell=
if [ "$1" = --shell ]; then
	shell=yes
	shift
fi
read -r pid cores <"$(dirname "$0")/$1"
shift
[ -z "$shell" ] || set -- sh -c "$*"
exec taskset --cpu-list "$cores" nsenter --target "$pid" --net --uts -- "$@"
