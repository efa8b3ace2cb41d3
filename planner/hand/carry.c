/* Plans from one number of devices to another.  SPDX-License-Identifier: Apache-2.0 */
#include "carry.h"

#include "ff/micro.h"
#include "space/carry_config.h"

int ff_strategy_carry(const struct ff_graph *g, const struct ff_strategy *s, uint32_t from,
		uint32_t to, struct ff_arena *a, struct ff_strategy *ret, struct ff_error *err)
{
	uint32_t n_stages = ff_strategy_stages(g, s), width = to / n_stages ? to / n_stages : 1;
	struct ff_strategy r;
	struct ff_graph micro;
	int code = ff_strategy_create(g, a, &r, err);

	if (code == FF_OK)
		code = ff_graph_micro(g, s->micro_batches, a, &micro, err);
	if (code < 0)
		return code;
	ff_strategy_copy(&r, s);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct ff_config *c = &r.config[i];

		if (ff_node_is_parameter(g, i) && c->n_parts && from != to)
			ff_carry_parameter(c, &micro.nodes[i], from, to, c);
		if (!ff_node_needs_config(g, i))
			continue;
		if (ff_carry_config(c, &micro.nodes[i], from, to, c) != FF_CARRIED)
			ff_carry_samples(&micro.nodes[i], r.stage[i] * width, width, c);
	}
	code = ff_strategy_check(&micro, &r, to, err);
	if (code == FF_OK)
		*ret = r;
	return code;
}
