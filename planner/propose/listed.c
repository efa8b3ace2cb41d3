/* One list for both passes, as backward takes forward's order the other way round: an operator
 * counts with what both take, and a wait with as much of both as hides it in either.
 * SPDX-License-Identifier: Apache-2.0 */
#include "listed.h"

#include <math.h>
#include <string.h>

struct list {
	const struct ff_graph *g;
	const struct ff_strategy *s;
	double *node_us[2], *edge_us[2]; /* by pass */
	double by[2];                    /* what both passes take, by what one does */
	double *tail_us;                 /* by node: the longest path from its begin to the end */
	double *ready_us;                /* by node: its inputs are there */
	double *free_us;                 /* by device */
	uint16_t *device;                /* of the parts of the node at hand; scratch */
	uint32_t *waits;                 /* by node: inputs that are not computed */
	uint32_t *ready, n_ready;
};

static bool is_waited_for(const struct list *l, uint32_t edge)
{
	return ff_node_is_computed(l->g, ff_edge_source(l->g, edge)) &&
	       !ff_edge_is_carried(l->g, edge);
}

static double work_us(const struct list *l, uint32_t node)
{
	return l->node_us[0][node] + l->node_us[1][node];
}

static double wait_us(const struct list *l, uint32_t edge)
{
	return fmax(l->by[0] * l->edge_us[0][edge], l->by[1] * l->edge_us[1][edge]);
}

static void find_shares(struct list *l)
{
	double all[2] = {0, 0};

	for (int pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < l->g->n_nodes; i++)
			all[pass] += l->node_us[pass][i];
	for (int pass = 0; pass < 2; pass++)
		l->by[pass] = all[pass] > 0 ? (all[0] + all[1]) / all[pass] : 1;
}

static void find_tails(struct list *l)
{
	for (uint32_t i = 0; i < l->g->n_nodes; i++)
		l->tail_us[i] = work_us(l, i);
	for (uint32_t i = l->g->n_nodes; i-- > 0;)
		for (uint32_t k = 0; k < l->g->nodes[i].n_in; k++) {
			uint32_t edge = l->g->nodes[i].in + k, from = ff_edge_source(l->g, edge);

			if (is_waited_for(l, edge))
				l->tail_us[from] = fmax(l->tail_us[from],
						work_us(l, from) + wait_us(l, edge) +
								l->tail_us[i]);
		}
}

static void push_if_ready(struct list *l, uint32_t node)
{
	if (!l->waits[node] && ff_node_is_computed(l->g, node))
		l->ready[l->n_ready++] = node;
}

static void begin(struct list *l)
{
	for (uint32_t i = 0; i < l->g->n_nodes; i++) {
		l->waits[i] = 0;
		l->ready_us[i] = 0;
		for (uint32_t k = 0; k < l->g->nodes[i].n_in; k++)
			l->waits[i] += is_waited_for(l, l->g->nodes[i].in + k);
		push_if_ready(l, i);
	}
}

/* The devices of its parts. */
static uint32_t list_devices(const struct list *l, uint32_t node)
{
	uint32_t leader = ff_node_leader(l->g, node);
	const struct ff_config *c = &l->s->config[leader];

	ff_config_devices(&l->g->nodes[leader], c, l->device);
	return c->n_parts * c->replicas;
}

static double begin_us(const struct list *l, uint32_t node)
{
	uint32_t n = list_devices(l, node);
	double at = l->ready_us[node];

	for (uint32_t p = 0; p < n; p++)
		at = fmax(at, l->free_us[l->device[p]]);
	return at;
}

/* A prelude is issued as soon as it may be, as the walk has it: it has no priority. */
static bool is_better(const struct list *l, uint32_t a, double a_us, uint32_t b, double b_us)
{
	bool first = ff_node_is_prelude(l->g, a), other = ff_node_is_prelude(l->g, b);

	if (first != other)
		return first;
	if (a_us != b_us)
		return a_us < b_us;
	return l->tail_us[a] != l->tail_us[b] ? l->tail_us[a] > l->tail_us[b] : a < b;
}

/* Takes the next one out of those that are ready. */
static uint32_t take_next(struct list *l, double *us)
{
	uint32_t best = 0, node;

	*us = begin_us(l, l->ready[0]);
	for (uint32_t i = 1; i < l->n_ready; i++) {
		double here = begin_us(l, l->ready[i]);

		if (is_better(l, l->ready[i], here, l->ready[best], *us)) {
			best = i;
			*us = here;
		}
	}
	node = l->ready[best];
	l->ready[best] = l->ready[--l->n_ready];
	return node;
}

static void issue(struct list *l, uint32_t node, double us)
{
	const struct ff_node *n = &l->g->nodes[node];
	uint32_t parts = list_devices(l, node);
	double done = us + work_us(l, node);

	for (uint32_t p = 0; p < parts; p++)
		l->free_us[l->device[p]] = done;
	for (uint32_t k = 0; k < n->n_out; k++) {
		const struct ff_value *v = &l->g->values[n->out + k];

		for (uint32_t u = 0; u < v->n_uses; u++) {
			uint32_t edge = ff_value_use(l->g, v, u), reader = l->g->edges[edge].node;

			if (!is_waited_for(l, edge))
				continue;
			l->ready_us[reader] = fmax(l->ready_us[reader], done + wait_us(l, edge));
			l->waits[reader]--;
			push_if_ready(l, reader);
		}
	}
}

static int allocate(struct list *l, uint32_t n_devices, struct ff_arena *a, struct ff_error *err)
{
	uint32_t n = l->g->n_nodes;

	for (int pass = 0; pass < 2; pass++) {
		l->node_us[pass] = ff_arena_array(a, n, sizeof(double));
		l->edge_us[pass] = ff_arena_array(a, l->g->n_edges, sizeof(double));
		if (!l->node_us[pass] || !l->edge_us[pass])
			return ff_fail_memory(err);
	}
	l->tail_us = ff_arena_array(a, n, sizeof(*l->tail_us));
	l->ready_us = ff_arena_array(a, n, sizeof(*l->ready_us));
	l->free_us = ff_arena_array(a, n_devices, sizeof(*l->free_us));
	l->device = ff_arena_array(a, n_devices, sizeof(*l->device));
	l->waits = ff_arena_array(a, n, sizeof(*l->waits));
	l->ready = ff_arena_array(a, n, sizeof(*l->ready));
	if (!l->tail_us || !l->ready_us || !l->free_us || !l->device || !l->waits || !l->ready)
		return ff_fail_memory(err);
	memset(l->free_us, 0, n_devices * sizeof(*l->free_us));
	return FF_OK;
}

int ff_list_order(const struct ff_graph *g, const struct ff_strategy *s,
		const struct ff_evaluator *e, int32_t *priority, struct ff_error *err)
{
	struct list l = {.g = g, .s = s};
	struct ff_arena a;
	int32_t rank = 0;
	int code;

	ff_arena_init(&a);
	code = allocate(&l, FF_MAX_DEVICES, &a, err);
	if (code == FF_OK) {
		ff_evaluator_taken(e, l.node_us, l.edge_us);
		find_shares(&l);
		find_tails(&l);
		begin(&l);
		memset(priority, 0, g->n_nodes * sizeof(*priority));
	}
	while (code == FF_OK && l.n_ready) {
		double us;
		uint32_t node = take_next(&l, &us);

		issue(&l, node, us);
		if (ff_node_needs_config(g, node))
			priority[node] = --rank;
	}
	ff_arena_finish(&a);
	return code;
}
