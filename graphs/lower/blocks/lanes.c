/* Lanes of moves.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/move_lanes.h"

/* The cards beside `n` devices of a node, each once. */
static uint32_t card_lanes(const struct ff_machine *m, uint32_t node, uint32_t n,
		const uint16_t *device, uint32_t *lane)
{
	uint32_t found = 0;

	if (!ff_node_card_lanes(m, &m->nodes[node]))
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t card = ff_lane_card(m, node, ff_device_card(m, device[i]));

		if (!found || lane[found - 1] != card)
			lane[found++] = card;
	}
	return found;
}

/* Who has a collective with device number `i`: the first and the last of its group. */
static void find_group(const struct ff_shard_groups *x, uint32_t i, uint32_t *first, uint32_t *last)
{
	*first = x->across ? i % x->runs : i - i % x->runs;
	*last = x->across ? x->n - x->runs + *first : *first + x->runs - 1;
}

static bool are_beside(
		const struct ff_machine *m, const struct ff_shard_groups *x, uint32_t i, uint32_t k)
{
	return m->node_of[x->device[i]] == m->node_of[x->device[k]];
}

/* Whether the group of device number `i` is on several nodes. */
static bool crosses(const struct ff_machine *m, const struct ff_shard_groups *x, uint32_t i)
{
	uint32_t first, last;

	find_group(x, i, &first, &last);
	return !are_beside(m, x, first, last);
}

/* Whether the next of its group is on its node. */
static bool has_neighbour(const struct ff_machine *m, const struct ff_shard_groups *x, uint32_t i)
{
	uint32_t first, last;

	find_group(x, i, &first, &last);
	return i < last && are_beside(m, x, i, i + (x->across ? x->runs : 1));
}

bool ff_shard_groups_are_apart(const struct ff_machine *m, const struct ff_shard_groups *x)
{
	const struct ff_shard_groups in = {x->n, x->runs, x->device, false},
				     over = {x->n, x->runs, x->device, true};
	bool apart = true;

	for (uint32_t i = 0; i < x->n && apart; i++)
		apart = !crosses(m, &in, i) && !has_neighbour(m, &over, i);
	return apart;
}

/* Of the devices that take part, their lanes of class `own`. */
static uint32_t transfer_lanes(const struct ff_machine *m, enum ff_lane_class own,
		const struct ff_shard_groups *x, uint32_t *lane)
{
	bool inside = false, outside = false;
	uint32_t n = 0, first = 0;

	for (uint32_t i = 0; i < x->n; i++)
		lane[n++] = ff_lane(m, own, x->device[i]);
	for (uint32_t i = 0; i < x->n; i++) {
		uint32_t node = m->node_of[x->device[i]];

		inside |= has_neighbour(m, x, i);
		outside |= crosses(m, x, i);
		if (i + 1 < x->n && are_beside(m, x, i, i + 1))
			continue;
		if (m->nodes[node].inside.shared && inside)
			lane[n++] = ff_lane(m, FF_LANE_INSIDE, node);
		if (outside)
			n += card_lanes(m, node, i + 1 - first, x->device + first, lane + n);
		inside = outside = false;
		first = i + 1;
	}
	return n;
}

uint32_t ff_transfer_lanes(const struct ff_machine *m, uint32_t n_devices, const uint16_t *device,
		uint32_t *lane)
{
	return transfer_lanes(m, FF_LANE_COMM,
			&(struct ff_shard_groups){n_devices, n_devices, device, false}, lane);
}

uint32_t ff_shard_groups_lanes(
		const struct ff_machine *m, const struct ff_shard_groups *x, uint32_t *lane)
{
	bool beside = x->across && ff_shard_groups_are_apart(m, x);

	return transfer_lanes(m, beside ? FF_LANE_MESSAGE : FF_LANE_COMM, x, lane);
}

uint32_t ff_move_lanes(const struct ff_graph *g, const struct ff_machine *m, uint32_t edge,
		const struct ff_move *mv, uint32_t *lane)
{
	const struct ff_shard_groups x = {mv->n_devices,
			mv->among.runs ? mv->among.runs : mv->n_devices, mv->device,
			mv->among.across};

	return transfer_lanes(m, ff_move_lane(g, edge, mv), &x, lane);
}
