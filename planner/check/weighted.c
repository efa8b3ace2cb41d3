/* The least weighted sum, operator by operator.  SPDX-License-Identifier: Apache-2.0 */
#include "weighted.h"

#include <math.h>
#include <string.h>

static int allocate(struct ff_weighted *w, struct ff_arena *a, struct ff_error *err)
{
	uint32_t n = w->graph->n_nodes;

	w->split = ff_arena_array(a, n, sizeof(struct ff_split_us *));
	w->n_split = ff_arena_array(a, n, sizeof(*w->n_split));
	w->chosen = ff_arena_array(a, n, sizeof(*w->chosen));
	w->corner_by = ff_arena_array(a, n, sizeof(*w->corner_by));
	w->least_by = ff_arena_array(a, n, sizeof(*w->least_by));
	if (!w->split || !w->n_split || !w->chosen || !w->corner_by || !w->least_by)
		return ff_fail_memory(err);
	return FF_OK;
}

int ff_weighted_init(struct ff_weighted *w, struct ff_kinds *k, uint32_t micro_batches,
		struct ff_arena *a, struct ff_error *err)
{
	const struct ff_graph *g = k->graph;
	struct ff_kind kind;
	int code;

	*w = (struct ff_weighted){
			.graph = g, .micro_batches = micro_batches, .n_devices = k->n_devices};
	code = allocate(w, a, err);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK && !k->stopped; i++)
		if (ff_node_is_computed(g, i))
			code = ff_kinds_find(k, i, &kind, err);
	if (code < 0 || k->stopped)
		return code;
	w->updates_us = ff_kinds_updates_us(k);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		if (!ff_node_is_computed(g, i))
			continue;
		code = ff_kinds_find(k, i, &kind, err);
		w->split[i] = k->split + kind.split; /* all are there: they move no more */
		w->n_split[i] = kind.n_split;
	}
	return code;
}

static void spread(struct ff_weighted *w, const struct ff_weights *by)
{
	memset(w->corner_by, 0, w->graph->n_nodes * sizeof(*w->corner_by));
	memset(w->least_by, 0, w->graph->n_nodes * sizeof(*w->least_by));
	for (uint32_t k = 0; k < by->n_chains; k++) {
		const struct ff_chain *c = &by->chain[k];

		for (uint32_t i = 0; i < c->n; i++)
			*(c->corner[i] ? &w->corner_by[c->node[i]] : &w->least_by[c->node[i]]) +=
					c->weight;
	}
}

/* By what is chosen. */
static double chain_us(const struct ff_weighted *w, const struct ff_chain *c)
{
	double us = 0;

	for (uint32_t i = 0; i < c->n; i++) {
		const struct ff_split_us *s = &w->split[c->node[i]][w->chosen[c->node[i]]];

		us += c->corner[i] ? s->corner_us : s->least_us;
	}
	return us;
}

double ff_weighted_us(struct ff_weighted *w, const struct ff_weights *by)
{
	double mean_by = by->compute / w->n_devices, us = mean_by * w->updates_us;

	spread(w, by);
	w->compute_us = w->updates_us;
	for (uint32_t i = 0; i < w->graph->n_nodes; i++) {
		const struct ff_split_us *s = w->split[i];
		double least = INFINITY;

		for (uint32_t k = 0; k < w->n_split[i]; k++) {
			double here = w->corner_by[i] * s[k].corner_us +
				      w->least_by[i] * s[k].least_us +
				      mean_by * w->micro_batches * s[k].all_us;

			if (here < least) {
				least = here;
				w->chosen[i] = k;
			}
		}
		us += s ? least : 0;
		w->compute_us += s ? w->micro_batches * s[w->chosen[i]].all_us : 0;
	}
	w->compute_us /= w->n_devices;
	for (uint32_t k = 0; k < by->n_chains; k++)
		w->chain_us[k] = chain_us(w, &by->chain[k]);
	return us;
}
