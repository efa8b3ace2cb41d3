/* Groups of devices on nodes.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/nodes.h"

bool ff_spread_find(
		const uint32_t *node_of, uint32_t n, const uint16_t *device, struct ff_spread *ret)
{
	uint32_t each = 1;

	while (each < n && node_of[device[each]] == node_of[device[0]])
		each++;
	if (n % each)
		return false;
	for (uint32_t i = 1; i < n; i++)
		if ((node_of[device[i]] == node_of[device[i - 1]]) != (i % each != 0))
			return false;
	*ret = (struct ff_spread){n / each, each};
	return true;
}

bool ff_spread_has_stages(struct ff_spread s, enum ff_move_kind kind, enum ff_reduce reduce,
		int64_t elements, bool regular)
{
	if (s.nodes < 2 || s.each < 2)
		return false;
	if (kind != FF_MOVE_ALL_GATHER && ff_reduce_width(reduce) > 1)
		return false;
	return kind == FF_MOVE_ALL_REDUCE ? elements >= s.each : regular;
}

double ff_cards_rate(const struct ff_machine *m, uint32_t n, const uint16_t *device)
{
	const struct ff_machine_node *node = &m->nodes[m->node_of[device[0]]];
	uint32_t all = ff_node_cards(node), cards = 0, last = UINT32_MAX;

	if (all == 1 || ff_node_own_cards(node))
		return (all == 1 ? 1 : n) * node->network.bytes_per_us / all;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t card = ff_device_card(m, device[i]);

		cards += card != last;
		last = card;
	}
	return cards * node->network.bytes_per_us / all;
}
