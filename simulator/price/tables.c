/* Measured tables of communication.  SPDX-License-Identifier: Apache-2.0 */
#include "tables.h"

#include "ff/nodes.h"

void ff_tables_pair(const struct ff_costs *c, uint32_t nodes, struct ff_pair_tables *ret)
{
	struct ff_comm_shape pair = {FF_MOVE_POINT_TO_POINT, 2, nodes, false};

	ret->both_ways = ff_costs_comm(c, pair);
	pair.one_way = true;
	ret->one_way = ff_costs_comm(c, pair);
}

const struct ff_comm_cost *ff_tables_find(const struct ff_costs *costs, const struct ff_machine *m,
		enum ff_move_kind kind, uint32_t n, const uint16_t *device)
{
	struct ff_spread s;

	if (!costs || !ff_spread_find(m->node_of, n, device, &s))
		return NULL;
	return ff_costs_comm(costs, (struct ff_comm_shape){kind, n, s.nodes, false});
}

double ff_table_us(const struct ff_comm_cost *t, double bytes)
{
	uint32_t i = 1;
	double last, size;
	double slope = 0;

	if (bytes <= t->bytes[0])
		return t->us[0];
	while (i < t->n && t->bytes[i] < bytes)
		i++;
	if (i < t->n) {
		double share = (bytes - t->bytes[i - 1]) / (t->bytes[i] - t->bytes[i - 1]);

		return t->us[i - 1] + share * (t->us[i] - t->us[i - 1]);
	}
	last = t->us[t->n - 1];
	size = t->bytes[t->n - 1];
	if (t->n > 1)
		slope = (last - t->us[t->n - 2]) / (size - t->bytes[t->n - 2]);
	if (!(slope > 0))
		slope = size > 0 ? last / size : 0;
	return last + slope * (bytes - size);
}
