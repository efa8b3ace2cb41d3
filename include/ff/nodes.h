/* How groups of devices are spread over nodes, and which collectives run in stages, inside nodes
 * and between them.  The runtime, the simulator and ffprof agree on this.  SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef FF_NODES_H
#define FF_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/machine.h"
#include "ff/move.h"
#include "ff/reduce.h"

/* The suffix of a communication's name whose collectives run in stages. */
#define FF_BY_NODES " by nodes"

struct ff_spread {
	uint32_t nodes, each; /* nodes, and devices of the group on each */
};

/* False: the group has unequally many devices on its nodes.  `device` is ascending, so a node's
 * devices are neighbours; n > 0. */
bool ff_spread_find(
		const uint32_t *node_of, uint32_t n, const uint16_t *device, struct ff_spread *ret);

/* Whether a collective can run in stages: among several devices on each of several nodes, and its
 * array can be cut by elements.  `elements`: of the whole array.  `regular`: chunks of equal size,
 * in device order. */
bool ff_spread_has_stages(struct ff_spread s, enum ff_move_kind kind, enum ff_reduce reduce,
		int64_t elements, bool regular);

/* Bytes a microsecond of the network cards next to `n` devices of one node, ascending. */
double ff_cards_rate(const struct ff_machine *m, uint32_t n, const uint16_t *device);

#endif
