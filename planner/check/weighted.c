/* The least weighted sum: operator by operator, or, where it counts what they hand to each other,
 * from the leaves of the trees that these form.  SPDX-License-Identifier: Apache-2.0 */
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

/* What is received, and room for least sums. */
static int find_received(
		struct ff_weighted *w, struct ff_kinds *k, struct ff_arena *a, struct ff_error *err)
{
	uint32_t n = w->graph->n_nodes;
	struct ff_received *r;
	int code = ff_received_find(k, a, &r, err);

	if (code < 0 || k->stopped)
		return code;
	w->handed_by = ff_arena_array(a, n, sizeof(*w->handed_by));
	w->cost = ff_arena_array(a, n, sizeof(double *));
	w->best = ff_arena_array(a, n, sizeof(uint32_t *));
	if (!w->handed_by || !w->cost || !w->best)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t before = r[i].from == FF_NONE ? 0 : r[i].n_from;

		w->cost[i] = ff_arena_array(a, w->n_split[i], sizeof(double));
		w->best[i] = ff_arena_array(a, before, sizeof(uint32_t));
		if (!w->cost[i] || !w->best[i])
			return ff_fail_memory(err);
	}
	w->received = r;
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
	if (k->n_devices > 1 && k->n_devices <= FF_RECEIVED_DEVICES)
		w->received_us = ff_price_received_us(k->pricer);
	k->every = w->received_us > 0;
	code = allocate(w, a, err);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK && !k->stopped; i++)
		if (ff_node_is_computed(g, i))
			code = ff_kinds_find(k, i, &kind, err);
	if (code < 0 || k->stopped)
		return code;
	w->updates_us = ff_kinds_updates_us(k);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		w->n_split[i] = 0;
		if (!ff_node_is_computed(g, i))
			continue;
		code = ff_kinds_find(k, i, &kind, err);
		w->split[i] = k->split + kind.split; /* all are there: they move no more */
		w->n_split[i] = kind.n_split;
	}
	return code == FF_OK && k->every ? find_received(w, k, a, err) : code;
}

/* The node that is handed what the chain brings to its place `i`, where that counts; else
 * FF_NONE. */
static uint32_t handed_to(const struct ff_weighted *w, const struct ff_chain *c, uint32_t i)
{
	uint32_t node = i && w->received ? ff_node_leader(w->graph, c->node[i]) : FF_NONE;

	return node != FF_NONE && w->received[node].from != FF_NONE &&
					       w->received[node].edge == c->edge[i]
			       ? node
			       : FF_NONE;
}

/* Weights of bytes: of all devices, and of the parts of chains. */
static void spread_handed(struct ff_weighted *w, const struct ff_weights *by)
{
	double all = by->communication / w->n_devices * w->micro_batches * w->received_us;

	for (uint32_t i = 0; i < w->graph->n_nodes; i++)
		w->handed_by[i] = (struct ff_handed){.all = all};
	for (uint32_t k = 0; k < by->n_chains; k++) {
		const struct ff_chain *c = &by->chain[k];
		double byte_by = c->weight * w->received_us;

		for (uint32_t i = 1; i < c->n; i++) {
			uint32_t node = handed_to(w, c, i);
			struct ff_handed *h = &w->handed_by[node == FF_NONE ? 0 : node];

			if (node == FF_NONE)
				continue;
			*(c->corner[i] ? &h->first : &h->least) += byte_by;
			*(c->corner[i - 1] ? &h->back_first : &h->back_least) += byte_by;
		}
	}
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

/* ---- the least ---- */

/* What computing adds to the sum. */
static double computing(const struct ff_weighted *w, const struct ff_weights *by, uint32_t node,
		const struct ff_split_us *s)
{
	return w->corner_by[node] * s->corner_us + w->least_by[node] * s->least_us +
	       by->compute / w->n_devices * w->micro_batches * s->all_us;
}

/* Each operator by itself. */
static double choose_alone(struct ff_weighted *w, const struct ff_weights *by)
{
	double us = 0;

	for (uint32_t i = 0; i < w->graph->n_nodes; i++) {
		double least = INFINITY;

		for (uint32_t k = 0; k < w->n_split[i]; k++) {
			double here = computing(w, by, i, &w->split[i][k]);

			if (here < least) {
				least = here;
				w->chosen[i] = k;
			}
		}
		us += w->n_split[i] ? least : 0;
	}
	return us;
}

static double handing(const struct ff_handed *h, const struct ff_handed *by)
{
	return h->all * by->all + h->first * by->first + h->least * by->least +
	       h->back_first * by->back_first + h->back_least * by->back_least;
}

/* The choice of the node that is least with all behind it, and what it is handed (NULL: nothing
 * counts). */
static uint32_t least_of(const struct ff_weighted *w, uint32_t node, const struct ff_handed *handed,
		double *ret)
{
	const struct ff_handed *by = &w->handed_by[node];
	uint32_t best = 0;

	*ret = INFINITY;
	for (uint32_t k = 0; k < w->n_split[node]; k++) {
		double here = w->cost[node][k] + (handed ? handing(&handed[k], by) : 0);

		if (here < *ret) {
			*ret = here;
			best = k;
		}
	}
	return best;
}

/* All that hang together: a node is behind the one that it reads. */
static double choose_together(struct ff_weighted *w, const struct ff_weights *by)
{
	double byte_by = by->communication / w->n_devices * w->received_us, us = 0, least;
	uint32_t n = w->graph->n_nodes;

	spread_handed(w, by);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < w->n_split[i]; k++)
			w->cost[i][k] = computing(w, by, i, &w->split[i][k]) +
					(w->received[i].params ? byte_by * w->received[i].params[k]
							       : 0);
	for (uint32_t i = n; i-- > 0;) {
		const struct ff_received *r = &w->received[i];

		if (r->from == FF_NONE && w->n_split[i]) {
			w->chosen[i] = least_of(w, i, NULL, &least);
			us += least;
		}
		for (uint32_t k = 0; r->from != FF_NONE && k < r->n_from; k++) {
			w->best[i][k] = least_of(w, i, r->handed + (size_t)k * r->n, &least);
			w->cost[r->from][k] += least;
		}
	}
	for (uint32_t i = 0; i < n; i++)
		if (w->received[i].from != FF_NONE)
			w->chosen[i] = w->best[i][w->chosen[w->received[i].from]];
	return us;
}

/* ---- by what is chosen ---- */

static const struct ff_handed *handed(const struct ff_weighted *w, uint32_t node)
{
	const struct ff_received *r = &w->received[node];

	return &r->handed[(size_t)w->chosen[r->from] * r->n + w->chosen[node]];
}

double ff_weighted_wait_us(const struct ff_weighted *w, const struct ff_chain *c, uint32_t i)
{
	uint32_t node = handed_to(w, c, i);
	const struct ff_handed *h;

	if (node == FF_NONE)
		return 0;
	h = handed(w, node);
	return w->received_us * ((c->corner[i] ? h->first : h->least) +
						(c->corner[i - 1] ? h->back_first : h->back_least));
}

static double chain_us(const struct ff_weighted *w, const struct ff_chain *c)
{
	double us = 0;

	for (uint32_t i = 0; i < c->n; i++) {
		const struct ff_split_us *s = &w->split[c->node[i]][w->chosen[c->node[i]]];

		us += (c->corner[i] ? s->corner_us : s->least_us) + ff_weighted_wait_us(w, c, i);
	}
	return us;
}

static double compute_us(const struct ff_weighted *w)
{
	double us = w->updates_us;

	for (uint32_t i = 0; i < w->graph->n_nodes; i++)
		us += w->n_split[i] ? w->micro_batches * w->split[i][w->chosen[i]].all_us : 0;
	return us / w->n_devices;
}

static double communication_us(const struct ff_weighted *w)
{
	double bytes = 0;

	for (uint32_t i = 0; w->received && i < w->graph->n_nodes; i++) {
		const struct ff_received *r = &w->received[i];

		if (r->params)
			bytes += r->params[w->chosen[i]];
		if (r->from != FF_NONE)
			bytes += w->micro_batches * handed(w, i)->all;
	}
	return bytes * w->received_us / w->n_devices;
}

void ff_weighted_terms(struct ff_weighted *w, const struct ff_weights *by)
{
	w->compute_us = compute_us(w);
	w->communication_us = communication_us(w);
	for (uint32_t k = 0; k < by->n_chains; k++)
		w->chain_us[k] = chain_us(w, &by->chain[k]);
}

double ff_weighted_us(struct ff_weighted *w, const struct ff_weights *by)
{
	double us = by->compute / w->n_devices * w->updates_us;

	spread(w, by);
	us += w->received ? choose_together(w, by) : choose_alone(w, by);
	ff_weighted_terms(w, by);
	return us;
}
