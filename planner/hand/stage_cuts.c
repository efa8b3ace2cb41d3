/* Starting points that say more than splits: pipelines, and what takes less memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include "stage_cuts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ff/micro.h"
#include "propose/extras.h"
#include "propose/phases.h"
#include "space/repeats.h"

/* The largest number of micro-batches up to `most` that leaves `parts` samples in each, where
 * operators have so many parts, and that a search has time for; 1 where none does. */
static uint32_t pick_micro(
		const struct ff_space *s, const struct ff_graph *g, uint32_t most, uint32_t parts)
{
	uint32_t m = 1;

	for (uint32_t i = 0; i < s->n_micro; i++)
		if (s->micro[i] <= most && (uint32_t)g->batch / s->micro[i] >= parts &&
				ff_space_has_time(s->micro[i],
						ff_space_instances_each(s, s->micro[i], parts)))
			m = s->micro[i];
	return m;
}

/* By sample over `n` devices from `first` on; on one where there is no sample dim. */
static void split_samples(
		const struct ff_node *node, uint32_t first, uint32_t n, struct ff_config *ret)
{
	struct ff_config c = {.n_parts = 1, .replicas = 1, .start = (uint16_t)first};

	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		c.degree[d] = 1;
	for (uint32_t d = 0; d < node->n_dims; d++) {
		uint32_t extent = (uint32_t)node->dim[d].extent;

		if (node->dim[d].label != FF_DIM_SAMPLE)
			continue;
		c.n_parts = extent < n ? extent : n;
		c.degree[d] = (uint16_t)c.n_parts;
		c.stride[d] = c.n_parts > 1;
		break;
	}
	*ret = c;
}

/* Stages of the nodes in the graph's order, as even as can be. */
static int balance_stages(const struct ff_graph *g, const struct ff_machine *m, uint32_t stages,
		struct ff_arena *a, struct ff_strategy *s, struct ff_error *err)
{
	double *cost = ff_arena_array(a, g->n_nodes, sizeof(*cost));
	uint16_t *stage = ff_arena_array(a, g->n_nodes, sizeof(*stage));
	uint32_t n = 0;
	int code;

	if (!cost || !stage)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_needs_config(g, i))
			cost[n++] = ff_node_roofline_s(g, m, i);
	code = ff_stages_balance(cost, n, NULL, stages < n ? stages : n, a, stage, err);
	for (uint32_t i = 0, k = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_needs_config(g, i))
			s->stage[i] = stage[k++];
	return code;
}

int ff_start_pipeline(const struct ff_space *space, const struct ff_graph *g,
		const struct ff_machine *m, uint32_t stages, struct ff_arena *a,
		struct ff_strategy *ret, struct ff_error *err)
{
	uint32_t group = m->n_devices / stages;
	struct ff_strategy s;
	struct ff_graph micro;
	int code = ff_strategy_create(g, a, &s, err);

	if (code < 0)
		return code;
	s.micro_batches = pick_micro(space, g, 4 * stages, group);
	s.rule = FF_ORDER_1F1B;
	code = ff_graph_micro(g, s.micro_batches, a, &micro, err);
	if (code == FF_OK)
		code = balance_stages(&micro, m, stages, a, &s, err);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_needs_config(g, i))
			split_samples(&micro.nodes[i], s.stage[i] * group, group, &s.config[i]);
	if (code == FF_OK)
		*ret = s;
	return code;
}

int ff_start_zero(const struct ff_space *space, const struct ff_graph *g,
		const struct ff_machine *m, uint32_t stage, bool hybrid, struct ff_arena *a,
		struct ff_strategy *ret, struct ff_error *err)
{
	struct ff_strategy s;
	int code = ff_strategy_data_parallel(g, m->n_devices, a, &s, err);

	if (code < 0)
		return code;
	ff_params_zero(space, g, stage, &s);
	s.shards = hybrid && space->what & FF_SPACE_UPDATES ? ff_machine_shards(m, 1) : 0;
	*ret = s;
	return FF_OK;
}

/* Data parallelism in as many micro-batches as there are, with parameters updated flat
 * and values of long runs dropped, as far as the space allows. */
int ff_start_frugal(const struct ff_space *space, const struct ff_graph *g,
		const struct ff_machine *m, struct ff_arena *a, struct ff_strategy *ret,
		struct ff_error *err)
{
	uint32_t computed = 0;
	struct ff_strategy s;
	struct ff_graph micro;
	int code = ff_strategy_create(g, a, &s, err);

	if (code < 0)
		return code;
	s.micro_batches = pick_micro(space, g, UINT32_MAX, m->n_devices);
	s.rule = FF_ORDER_1F1B;
	code = ff_graph_micro(g, s.micro_batches, a, &micro, err);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		computed += ff_node_needs_config(g, i);
		if (ff_node_needs_config(g, i))
			split_samples(&micro.nodes[i], 0, m->n_devices, &s.config[i]);
		else if (ff_node_is_parameter(g, i) && space->what & FF_SPACE_UPDATES)
			ff_param_flat(&s.config[i]);
	}
	if (space->what & FF_SPACE_RECOMPUTE)
		ff_phases_checkpoint(g, 2 + (uint32_t)sqrt(computed), &s);
	if (code == FF_OK)
		*ret = s;
	return code;
}
