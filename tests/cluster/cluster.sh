#!/bin/sh
# Runs a command on emulated hosts: namespaces on this machine, joined by shaped links.
# usage: cluster.sh TOOLS N BANDWIDTH LATENCY -- COMMAND...
#   TOOLS      folder with the built programs cable and probe; -: says only what is wrong with the rest
#   N          hosts, 2 to 4, called node0 and so on; COMMAND runs on node0
#   BANDWIDTH  of each host's card, each way: 1gbit, 100mbit
#   LATENCY    of a message of one byte, one way: 50us, 2ms; 0: as short as it gets
# Exit status: COMMAND's; 2 bad usage; 77 where hosts cannot be emulated, and why.
#
# The first process here owns the hub: a network with the bridge, and a mount namespace.  Its
# first child is the first process of a PID namespace, in which all others are.  So whatever
# ends either of them, the kernel ends all that was started and takes the namespaces down.
# SPDX-License-Identifier: Apache-2.0
set -eu

NET=192.0.2 # TEST-NET-1 (RFC 5737): exists only in the namespaces
MTU=9000    # as clusters have it; smaller packets cost the emulation more time than the hosts

fail() { # fail STATUS SENTENCE
	echo "cluster: $2" >&2
	exit "$1"
}

# in_units NUMBER UNITS...: "2ms us 1 ms 1000" is 2000; nothing where it is no such number
in_units() {
	printf '%s\n' "$*" | awk '{
		n = $1
		sub(/[a-z]*$/, "", n)
		unit = substr($1, length(n) + 1)
		if (n !~ /^[0-9]+(\.[0-9]+)?$/)
			exit
		for (i = 2; i < NF; i += 2)
			if (unit == $i)
				printf "%.0f\n", n * $(i + 1)
		if (unit == "" && n == 0)
			print 0
	}'
}

# check: what is asked
check() {
	if [ $# -lt 5 ] || [ "$4" != -- ]; then
		fail 2 "expected N BANDWIDTH LATENCY -- COMMAND..."
	fi
	case $1 in
	[2-4]) ;;
	*) fail 2 "$1 hosts: expected 2 to 4" ;;
	esac
	bits_per_s=$(in_units "$2" kbit 1000 mbit 1000000 gbit 1000000000)
	[ "${bits_per_s:-0}" -gt 0 ] || fail 2 "bandwidth $2: expected a number of kbit, mbit or gbit"
	latency_us=$(in_units "$3" us 1 ms 1000)
	[ -n "$latency_us" ] || fail 2 "latency $3: expected a number of us or ms, or 0"
}

# check_machine: whether it can
check_machine() {
	for tool in ip tc unshare nsenter setpriv taskset mpirun; do
		command -v $tool >/dev/null ||
			fail 77 "hosts cannot be emulated here: $tool is missing (./run deps installs it)"
	done
	for tool in cable probe; do
		[ -x "$tools/$tool" ] ||
			fail 77 "hosts cannot be emulated here: $tools/$tool is not built"
	done
	said=$(unshare --net --mount --pid --uts --fork -- true 2>&1) ||
		fail 77 "hosts cannot be emulated here: no namespaces, which root can make ($said)"
	said=$(unshare --net -- sh -c 'ip link add name v type veth peer name w && ip link add name b type bridge &&
		tc qdisc add dev v root tbf rate 1gbit burst 20k limit 1m' 2>&1) ||
		fail 77 "hosts cannot be emulated here: no veth, bridge or tbf ($said)"
}

# await COMMAND...: until it succeeds, for half a minute or longer
await() {
	tries=0
	until "$@" 2>/dev/null; do
		tries=$((tries + 1))
		[ $tries -lt 3000 ] || fail 1 "waited in vain for: $*"
		sleep 0.01
	done
}

# watch PID: waits for it, whatever signals come meanwhile; its status
watch() {
	code=0
	wait "$1" || code=$?
	while kill -0 "$1" 2>/dev/null; do
		code=0
		wait "$1" || code=$?
	done
	return $code
}

# share HOST N: its cores, of those that are allowed; where there are too few, one of them
share() {
	awk -v host="$1" -v n="$2" '/^Cpus_allowed_list:/ {
		parts = split($2, part, ",")
		for (i = 1; i <= parts; i++) {
			ends = split(part[i], end, "-")
			for (c = end[1]; c <= end[ends]; c++)
				core[cores++] = c
		}
		if (cores < n)
			list = core[host % cores]
		for (i = host; cores >= n && i < cores; i += n)
			list = list (list == "" ? "" : ",") core[i]
		print list
	}' /proc/self/status
}

on() { # on HOST COMMAND...
	"$dir/enter" "$@"
}

is_apart() { # is_apart PID: has it namespaces of its own yet?
	[ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ] &&
		[ "$(readlink "/proc/$1/ns/uts")" != "$(readlink /proc/self/ns/uts)" ]
}

# start_hosts: a process each that holds its namespaces, and files that say where it is
start_hosts() {
	for i in $hosts; do
		unshare --net --uts -- sleep infinity </dev/null >/dev/null 2>&1 &
		await is_apart $!
		printf '%s %s\n' $! "$(share "$i" "$n")" >"$dir/node$i"
		nsenter --target $! --uts hostname "node$i"
		nsenter --target $! --net ip link set lo up
		printf '%s node%s\n' "$NET.$((i + 1))" "$i" >>"$dir/names"
		printf 'node%s slots=%s\n' "$i" "$(share "$i" "$n" | tr , '\n' | wc -l)" >>"$dir/hosts"
	done
	printf '127.0.0.1 localhost\n' >>"$dir/names"
	mount --bind "$dir/names" /etc/hosts
}

# pid_of HOST
pid_of() { cut -d ' ' -f 1 "$dir/node$1"; }

# shape DEVICE: the bandwidth of a card one way.  What tbf lets through at once is two packets,
# so that short messages, too, take the time that they would on a wire; where packets take less
# than a timer may be late, it is what goes by in that time.
shape() {
	burst=$((bits_per_s / 8 / 8000))
	[ "$burst" -gt $((2 * MTU)) ] || burst=$((2 * MTU + 100))
	tc qdisc add dev "$1" root handle 1: tbf rate "${bits_per_s}bit" burst "$burst" \
		limit 4m
	[ "$delay" != netem ] ||
		tc qdisc add dev "$1" parent 1:1 handle 2: netem delay 0us limit 100000
}

# join_hosts: eth0 of each is joined to the bridge, by veth or by the cable
join_hosts() {
	ip link set lo up
	ip link add name bridge type bridge
	ip link set bridge up
	if [ "$delay" = cable ]; then
		mkfifo "$dir/delay" "$dir/ready"
		"$tools/cable" "$n" <"$dir/delay" >"$dir/ready" &
		exec 4>"$dir/delay"
		read -r _ <"$dir/ready" || fail 77 "hosts cannot be emulated here: no TAP devices"
		[ "$(id -u)" != 0 ] || chrt --fifo --pid 50 $! 2>/dev/null || true
	fi
	for i in $hosts; do
		pid=$(pid_of "$i")
		[ "$delay" = cable ] || ip link add name "host$i" type veth peer name "port$i"
		ip link set "host$i" netns "$pid" name eth0
		ip link set "port$i" mtu $MTU master bridge up
		shape "port$i"
		nsenter --target "$pid" --net ip link set eth0 mtu $MTU up
		nsenter --target "$pid" --net ip address add "$NET.$((i + 1))/24" dev eth0
		nsenter --target "$pid" --net sh -euc "
			delay=$delay bits_per_s=$bits_per_s MTU=$MTU
			$(sed -n '/^shape() {/,/^}/p' "$0")
			shape eth0"
	done
}

# set_delay US: between any two hosts, one way; a packet meets it twice
set_delay() {
	case $delay in
	cable) echo $(($1 * 500)) >&4 ;;
	netem)
		for i in $hosts; do
			tc qdisc change dev "port$i" parent 1:1 handle 2: netem delay $(($1 / 2))us \
				limit 100000
			nsenter --target "$(pid_of "$i")" --net tc qdisc change dev eth0 parent 1:1 \
				handle 2: netem delay $(($1 - $1 / 2))us limit 100000
		done
		;;
	esac
}

# choose_delay: a latency is netem's work, and the cable's where the kernel has none
choose_delay() {
	delay=none
	[ "$latency_us" -gt 0 ] || return 0
	delay=netem
	unshare --net -- sh -c 'ip link add name v type veth peer name w && tc qdisc add dev v root handle 1: \
		tbf rate 1gbit burst 20k limit 1m && tc qdisc add dev v parent 1:1 netem delay 1ms' \
		2>/dev/null || delay=cable
	if [ "$delay" = cable ] && [ ! -c /dev/net/tun ]; then
		fail 77 "hosts cannot be emulated here with a latency: no netem in the kernel, no /dev/net/tun"
	fi
}

# calibrate: what the hosts need anyway is part of the latency that was asked for
calibrate() {
	on node1 "$tools/probe" </dev/null >/dev/null &
	server=$!
	us=0
	for _ in 1 2 3; do
		[ "$delay" != none ] || break
		us=$((us + latency_us - $(on node0 "$tools/probe" "$NET.2" latency)))
		[ "$us" -gt 0 ] || us=0
		set_delay "$us"
	done
	on node0 "$tools/probe" "$NET.2" | awk -v bits="$bits_per_s" -v us="$latency_us" -v by="$delay" '{
		printf "cluster: asked for %g Mbit/s and %g us; measured %.4g Mbit/s one way, ",
			bits / 1e6, us, $2 / 1e6
		printf "%.4g both ways at once, and %g us (delay by %s)\n", $3 / 1e6, $1, by
	}' >&2
	kill $server
	wait $server 2>/dev/null || true
}

# in mpirun's words: who the hosts are, and how they are reached
explain() {
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	export OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent="$dir/enter --shell"
	export OMPI_MCA_orte_default_hostfile="$dir/hosts"
	export OMPI_MCA_orte_tmpdir_base="$dir"
	export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp
	export OMPI_MCA_btl_tcp_if_include=$NET.0/24 OMPI_MCA_oob_tcp_if_include=$NET.0/24
	# hosts have cores of their own already, which Open MPI would not know
	export OMPI_MCA_hwloc_base_binding_policy=none
	# where hosts share one, who waits gives it up
	[ "$n" -le "$(nproc)" ] || export OMPI_MCA_mpi_yield_when_idle=1
}

# The first process of the PID namespace.
inside() {
	n=$1 bits_per_s=$2 latency_us=$3
	shift 3
	hosts=$(seq 0 $((n - 1)))
	mount -t proc proc /proc
	mount -t tmpfs tmpfs /dev/shm
	start_hosts
	choose_delay
	join_hosts
	calibrate
	explain
	trap : INT
	trap 'kill -TERM $command' TERM
	env --default-signal=INT,QUIT "$dir/enter" node0 "$@" <&3 3<&- 4<&- &
	command=$!
	watch $command
}

# The owner of the hub, when its namespaces are new: no process may be made before the first
# of the PID namespace.
hub() {
	exec 3<&0
	trap : INT
	trap 'kill -TERM $first' TERM
	env --default-signal=INT,QUIT setpriv --pdeathsig KILL "$0" "$tools" inside "$dir" "$@" <&3 &
	first=$!
	watch $first
}

tools=$1
shift
case ${1:-} in
hub | inside)
	role=$1 dir=$2
	shift 2
	"$role" "$@"
	;;
*)
	check "$@"
	[ "$tools" != - ] || exit 0
	check_machine
	n=$1
	shift 4
	tools=$(realpath "$tools")
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	cp "$(dirname "$0")/enter.sh" "$dir/enter"
	exec 3<&0
	trap : INT
	trap 'kill -TERM $owner' TERM
	env --default-signal=INT,QUIT setpriv --pdeathsig KILL unshare --net --mount --pid -- \
		"$(realpath "$0")" "$tools" hub "$dir" "$n" "$bits_per_s" "$latency_us" "$@" <&3 3<&- &
	owner=$!
	watch $owner
	;;
esac
