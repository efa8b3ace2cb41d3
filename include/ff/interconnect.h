/* Interconnects as NCCL uses them: constants of its protocols, which were fitted to tables that
 * were measured (graphs/machines/interconnects; bench/fit_collectives.py).  docs/simulator.md
 * has the formulas.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_INTERCONNECT_H
#define FF_INTERCONNECT_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/arena.h"
#include "ff/json.h"

/* How NCCL moves bytes: with a flag beside each 4 of 8 bytes, beside each 120 of 128 (stores of
 * NVLink keep them together), or by chunks that are waited for. */
enum ff_protocol { FF_PROTOCOL_LL, FF_PROTOCOL_LL128, FF_PROTOCOL_SIMPLE, FF_PROTOCOL_COUNT };

struct ff_hop {
	double base_us; /* once */
	double hop_us;  /* for each that one waits for another; of messages, for each but the first
			 */
	double share;   /* of the line rate; 0: there is no such protocol */
};

struct ff_interconnect {
	const char *name;
	bool between; /* of nodes, not inside one */
	double ramp;  /* how much of latency and wire time chunks fail to hide from each other */
	double own;   /* of what a ring has of each device: what that costs beside being sent */
	uint32_t tree_passes; /* how often trees bring an array past the cards of two nodes */
	struct ff_hop collective[FF_PROTOCOL_COUNT], message[FF_PROTOCOL_COUNT];
	struct {
		double base_us, share; /* share 0: it does not */
		uint32_t least;        /* devices (nodes) that it does so for */
	} sums;                        /* the switches (NVLS, SHARP) */
};

#define FF_MOST_PAIRED 8 /* devices of a node whose links stand one by one */

/* `at` names one in the file that comes along.  FF_E_INPUT where it does not, or it is none of that
 * side.  All memory from `a`. */
int ff_interconnect_find(const struct ff_json *at, bool between, struct ff_arena *a,
		const struct ff_interconnect **ret, struct ff_error *err);

#endif
