/* Heavy operators.  SPDX-License-Identifier: Apache-2.0 */
#include "heavy.h"

#include <math.h>
#include <stdlib.h>

#include "extras.h"
#include "ff/work.h"
#include "space/carry_config.h"

#define LIGHT 1000 /* one part of so many of all parameters are hardly any */
#define ALIKE 1.5  /* times as heavy is as heavy: halves of heights and widths are 4 */
#define MOST_GROUPS 8

struct weighed {
	uint32_t node;
	double ratio;
};

static double parameters(const struct ff_node *n)
{
	double sum = 0;

	for (uint32_t k = n->n_data; k < n->n_in; k++)
		sum += (double)ff_shape_volume(n->in_map[k].rank, n->in_map[k].shape);
	return sum;
}

/* All of it, forward. */
static double flops(const struct ff_graph *g, uint32_t node)
{
	struct ff_config c = {.n_parts = 1, .replicas = 1};
	struct ff_region box;
	struct ff_work w;

	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		c.degree[d] = 1;
	ff_config_box(&g->nodes[node], &c, 0, &box);
	ff_work_fill(g, node, &box, FF_FORWARD, &w);
	return fmax((double)ff_work_flops(&w), 1);
}

/* Most first; of equals the later one. */
static int by_ratio(const void *one, const void *other)
{
	const struct weighed *a = one, *b = other;

	if (a->ratio != b->ratio)
		return a->ratio > b->ratio ? -1 : 1;
	return a->node > b->node ? -1 : 1;
}

/* What is as heavy is one group; of more than there may be the last is all others. */
static void group(struct ff_proposer *p, const struct weighed *w, uint32_t n)
{
	double least = INFINITY;

	for (uint32_t i = 0; i < n; i++) {
		bool same = w[i].ratio > least;

		if (!same && p->heavy.n < MOST_GROUPS) {
			least = w[i].ratio / ALIKE;
			p->heavy.n++;
		}
		p->heavy.group[w[i].node] = p->heavy.n - 1;
	}
}

/* What was not weighed goes with what it reads first. */
static void follow(struct ff_proposer *p)
{
	const struct ff_graph *g = p->graph;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[i];

		if (!ff_node_needs_config(g, i) || p->heavy.group[i] != FF_NONE || !n->n_data)
			continue;
		if (ff_edge_source(g, n->in) < i)
			p->heavy.group[i] = p->heavy.group[ff_edge_source(g, n->in)];
	}
}

int ff_proposer_find_heavy(struct ff_proposer *p, struct ff_arena *a, struct ff_error *err)
{
	const struct ff_graph *g = p->graph;
	double hardly = (double)ff_graph_parameters(g) / LIGHT;
	struct weighed *w = ff_arena_array(a, g->n_nodes, sizeof(*w));
	uint32_t n = 0;

	p->heavy.group = ff_arena_array(a, g->n_nodes, sizeof(*p->heavy.group));
	if (!w || !p->heavy.group)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		double own = ff_node_needs_config(g, i) ? parameters(&g->nodes[i]) : 0;

		p->heavy.group[i] = FF_NONE;
		if (own > hardly)
			w[n++] = (struct weighed){i, own / flops(g, i)};
	}
	if (n)
		qsort(w, n, sizeof(*w), by_ratio);
	group(p, w, n);
	follow(p);
	return FF_OK;
}

/* Width number `i`, in devices: half of the nodes, a quarter and so on, the fastest node, half of
 * it and so on; 0: there are not so many. */
static uint32_t width(const struct ff_proposer *p, uint32_t i)
{
	const struct ff_machine *m = p->space->machine;
	uint32_t first = (uint32_t)(p->alone - m->nodes), devices = 0, n;

	for (uint32_t k = (m->n_nodes - first + 1) / 2; k > 1; k = (k + 1) / 2) {
		for (n = 0, devices = 0; n < k; n++)
			devices += p->alone[n].count;
		if (i-- == 0)
			return devices;
	}
	for (n = p->alone->count; n; n /= 2)
		if (n < m->n_devices && i-- == 0)
			return n;
	return 0;
}

/* Parameters that are updated elsewhere are where they are read from now on. */
static void bring_updates(struct ff_proposer *p, uint32_t node)
{
	const struct ff_node *n = &p->graph->nodes[node];
	struct ff_config follow;

	ff_param_follow(&follow);
	for (uint32_t k = n->in + n->n_data; k < n->in + n->n_in; k++)
		if (p->base->config[ff_edge_source(p->graph, k)].n_parts)
			ff_transaction_set(p->t, ff_edge_source(p->graph, k), &follow);
}

bool ff_proposer_shrink(struct ff_proposer *p, uint32_t i)
{
	uint32_t n = p->heavy.n ? width(p, i / p->heavy.n) : 0;
	struct ff_config config;

	for (uint32_t k = 0; n && k < p->graph->n_nodes; k++) {
		if (p->heavy.group[k] == FF_NONE || p->heavy.group[k] > i % p->heavy.n)
			continue;
		ff_carry_samples(&p->graph->nodes[k], p->alone->first, n, &config);
		ff_transaction_set(p->t, k, &config);
		bring_updates(p, k);
	}
	return n > 0;
}
