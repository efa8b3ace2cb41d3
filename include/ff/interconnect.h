/* Interconnects as NCCL uses them: constants of its protocols, fitted to measured tables
 * (graphs/machines/interconnects; bench/fit_collectives.py).  docs/simulator.md has the formulas.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_INTERCONNECT_H
#define FF_INTERCONNECT_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/arena.h"
#include "ff/json.h"

/* NCCL's protocols.  LL: a flag for every 4 bytes of data.  LL128: a flag for every 120 bytes,
 * which relies on NVLink's 128-byte stores.  SIMPLE: chunks with synchronisation. */
enum ff_protocol { FF_PROTOCOL_LL, FF_PROTOCOL_LL128, FF_PROTOCOL_SIMPLE, FF_PROTOCOL_COUNT };

struct ff_hop {
	double base_us; /* paid once */
	double hop_us;  /* for each sequential hop; of messages, for each message after the first */
	double share;   /* of the line rate that it reaches; 0: the protocol is not available */
};

struct ff_interconnect {
	const char *name;
	bool between; /* between nodes, else inside one */
	double ramp;  /* share of latency and wire time that chunks do not hide from each other */
	double own;   /* rings: cost of a device's own data, relative to sending it */
	uint32_t tree_passes; /* trees on two nodes: how often an array passes the cards */
	struct ff_hop collective[FF_PROTOCOL_COUNT], message[FF_PROTOCOL_COUNT];
	struct {
		double base_us, share; /* share 0: not available */
		uint32_t least;        /* the fewest devices (between: nodes) for it */
	} sums;                        /* reduction in switches (NVLS, SHARP) */
};

#define FF_MOST_PAIRED 8 /* devices of a node whose links are described pair by pair */

/* Finds the interconnect that `at` names.  FF_E_INPUT: there is none of that name and side.  All
 * memory from `a`. */
int ff_interconnect_find(const struct ff_json *at, bool between, struct ff_arena *a,
		const struct ff_interconnect **ret, struct ff_error *err);

#endif
