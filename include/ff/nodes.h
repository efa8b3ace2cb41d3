/* How groups of devices lie on nodes, and which of their collectives go in stages: what the
 * runtime that posts them, the simulator that prices them and the tables that were measured of
 * them have in common.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_NODES_H
#define FF_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/machine.h"
#include "ff/move.h"
#include "ff/reduce.h"

/* What the name of a communication ends with that sends collectives in stages. */
#define FF_BY_NODES " by nodes"

struct ff_spread {
	uint32_t nodes, each; /* so many, with so many of the group each */
};

/* False where the nodes do not have equally many.  `device` is ascending and a node's devices
 * follow each other; n > 0. */
bool ff_spread_find(
		const uint32_t *node_of, uint32_t n, const uint16_t *device, struct ff_spread *ret);

/* Whether a collective goes within nodes and between them in turn, where that is asked for: among
 * several devices on each of several nodes, what can be parted by elements.  `elements`: of the
 * whole array.  `regular`: chunks are equally long and lie in the order of their devices. */
bool ff_spread_has_stages(struct ff_spread s, enum ff_move_kind kind, enum ff_reduce reduce,
		int64_t elements, bool regular);

/* Bytes a microsecond over the cards beside `n` devices of one node, ascending. */
double ff_cards_rate(const struct ff_machine *m, uint32_t n, const uint16_t *device);

#endif
