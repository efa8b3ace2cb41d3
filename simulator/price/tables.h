/* Measured tables of communication: which applies, and what it says.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TABLES_H
#define FF_TABLES_H

#include "ff/costs.h"

/* Of two devices, of one node or of two: NULL where that was not measured. */
struct ff_pair_tables {
	const struct ff_comm_cost *both_ways, *one_way;
};

void ff_tables_pair(const struct ff_costs *c, uint32_t nodes, struct ff_pair_tables *ret);
/* The table for these devices, `device` ascending, or NULL: `costs` may be, and nodes that have
 * different numbers of them are measured as nothing. */
const struct ff_comm_cost *ff_tables_find(const struct ff_costs *costs, const struct ff_machine *m,
		enum ff_move_kind kind, uint32_t n, const uint16_t *device);
/* Piecewise linear; below the first size its time, beyond the last the last slope (or
 * proportional, where noise made that slope useless). */
double ff_table_us(const struct ff_comm_cost *t, double bytes);

#endif
