/* Plans of different shapes.  SPDX-License-Identifier: Apache-2.0 */
#include "shapes.h"

#include <string.h>

#define ALIKE 0.9 /* of the arithmetic, and of the parameters */

int ff_shapes_init(struct ff_shapes *s, const struct ff_graph *g, uint32_t most, struct ff_arena *a,
		struct ff_error *err)
{
	double flops = 0, parameters = 0;
	int code = FF_OK;

	*s = (struct ff_shapes){.graph = g, .most = most};
	s->weight = ff_arena_array(a, g->n_nodes, sizeof(*s->weight));
	s->plan = ff_arena_array(a, most, sizeof(*s->plan));
	s->step_us = ff_arena_array(a, most, sizeof(*s->step_us));
	if (!s->weight || !s->plan || !s->step_us)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < most && code == FF_OK; i++)
		code = ff_strategy_create(g, a, &s->plan[i], err);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[i];

		if (ff_node_is_parameter(g, i))
			parameters += s->weight[i] = (double)ff_value_volume(&g->values[n->out]);
		else if (ff_node_needs_config(g, i))
			flops += s->weight[i] =
					1 + (double)n->flops_forward + (double)n->flops_backward;
	}
	for (uint32_t i = 0; i < g->n_nodes; i++)
		s->weight[i] /= ff_node_is_parameter(g, i) ? parameters : flops;
	return code;
}

static bool is_alike(const struct ff_node *n, const struct ff_config *a, const struct ff_config *b)
{
	if (!a->n_parts || !b->n_parts)
		return a->n_parts == b->n_parts && a->flat == b->flat;
	return a->replicas == b->replicas &&
	       !memcmp(a->degree, b->degree, n->n_dims * sizeof(*a->degree));
}

bool ff_shapes_equal(
		const struct ff_shapes *s, const struct ff_strategy *a, const struct ff_strategy *b)
{
	const struct ff_graph *g = s->graph;
	double computed = 0, trained = 0;

	if (a->micro_batches != b->micro_batches ||
			ff_strategy_stages(g, a) != ff_strategy_stages(g, b))
		return false;
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		bool parameter = ff_node_is_parameter(g, i);

		if (a->recompute[i] != b->recompute[i] ||
				!is_alike(&g->nodes[i], &a->config[i], &b->config[i]))
			*(parameter ? &trained : &computed) += s->weight[i];
	}
	return computed <= 1 - ALIKE && trained <= 1 - ALIKE;
}

void ff_shapes_add(struct ff_shapes *s, const struct ff_strategy *plan, double step_us)
{
	struct ff_strategy room;
	uint32_t i = 0;

	while (i < s->n && !ff_shapes_equal(s, &s->plan[i], plan))
		i++;
	if (i < s->n ? s->step_us[i] <= step_us
		     : i == s->most && (i == 0 || s->step_us[--i] <= step_us))
		return;
	s->n += i == s->n;
	/* what is at i goes; those before it that are slower move up */
	room = s->plan[i];
	for (; i > 0 && s->step_us[i - 1] > step_us; i--) {
		s->plan[i] = s->plan[i - 1];
		s->step_us[i] = s->step_us[i - 1];
	}
	s->plan[i] = room;
	s->step_us[i] = step_us;
	ff_strategy_copy(&s->plan[i], plan);
}
