/* Collectives and messages as NCCL has them: the least of what its algorithms and protocols take,
 * by the constants of the machine's interconnects.  docs/simulator.md has the formulas.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_NCCL_MODEL_H
#define FF_SIMULATOR_NCCL_MODEL_H

#include "ff/interconnect.h"
#include "ff/reduce.h"
#include "ff/schedule.h"

/* Who takes part, and what each node has for it.  Bytes a microsecond, in one direction. */
struct ff_nccl_group {
	uint32_t n, nodes, each, fewest; /* the most of a node, and the fewest */
	double line, ring; /* inside: of a device, of all rings that links close together */
	double chain;      /* of an array summed along a chain and brought back */
	double network;    /* of the node's cards beside the group's devices */
	bool network_sums;
	const struct ff_interconnect *inside, *between;
};

/* All-reduce, all-gather or reduce-scatter of `bytes`, the whole array. */
double ff_nccl_collective_us(const struct ff_nccl_group *g, enum ff_move_kind kind,
		enum ff_reduce reduce, double bytes);

/* Messages of the busiest device; what its links and its node's card are sent. */
struct ff_nccl_messages {
	uint32_t rounds;
	double inside_us, network_us; /* bytes over the line rate; 0: none */
	const struct ff_interconnect *inside, *between;
};

double ff_nccl_messages_us(const struct ff_nccl_messages *x);

#endif
