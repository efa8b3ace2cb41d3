/* The least weighted sum: operator by operator, or, where it counts what they hand to each other,
 * from the leaves of the trees that these form.  SPDX-License-Identifier: Apache-2.0 */
#include "weighted.h"

#include <math.h>
#include <stdlib.h>

#include "dims.h"
#include "section.h"

/* A number of a node's splits, and what it costs with all behind it. */
struct ff_ranked {
	double us;
	uint32_t number;
};

static int allocate(struct ff_weighted *w, struct ff_arena *a, struct ff_error *err)
{
	uint32_t n = w->graph->n_nodes;

	w->split = ff_arena_array(a, n, sizeof(struct ff_split_us *));
	w->n_split = ff_arena_array(a, n, sizeof(*w->n_split));
	w->chosen = ff_arena_array(a, n, sizeof(*w->chosen));
	w->by = ff_arena_array(a, n, sizeof(*w->by));
	if (!w->split || !w->n_split || !w->chosen || !w->by)
		return ff_fail_memory(err);
	return FF_OK;
}

static uint32_t count_numbers(const struct ff_weighted *w, uint32_t node)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < w->n_split[node]; k++)
		n = w->split[node][k].number < n ? n : w->split[node][k].number + 1;
	return n;
}

/* What is received, and room for least sums. */
static int find_received(
		struct ff_weighted *w, struct ff_kinds *k, struct ff_arena *a, struct ff_error *err)
{
	uint32_t n = w->graph->n_nodes, most = 0;
	struct ff_received *r;
	int code = ff_received_find(k, a, &r, err);

	if (code < 0 || k->stopped)
		return code;
	w->handed_by = ff_arena_array(a, n, sizeof(*w->handed_by));
	w->n_class = ff_arena_array(a, n, sizeof(*w->n_class));
	w->cost = ff_arena_array(a, n, sizeof(double *));
	w->split_of = ff_arena_array(a, n, sizeof(uint32_t *));
	w->best = ff_arena_array(a, n, sizeof(uint32_t *));
	if (!w->handed_by || !w->n_class || !w->cost || !w->split_of || !w->best)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t before = r[i].from == FF_NONE ? 0 : r[i].n_from;

		w->n_class[i] = count_numbers(w, i);
		most = w->n_class[i] > most ? w->n_class[i] : most;
		w->cost[i] = ff_arena_array(a, w->n_class[i], sizeof(double));
		w->split_of[i] = ff_arena_array(a, w->n_class[i], sizeof(uint32_t));
		w->best[i] = ff_arena_array(a, before, sizeof(uint32_t));
		if (!w->cost[i] || !w->split_of[i] || !w->best[i])
			return ff_fail_memory(err);
	}
	w->ranked = ff_arena_array(a, most, sizeof(*w->ranked));
	w->received = r;
	return w->ranked ? FF_OK : ff_fail_memory(err);
}

int ff_weighted_init(struct ff_weighted *w, struct ff_kinds *k, uint32_t micro_batches,
		struct ff_arena *a, struct ff_error *err)
{
	const struct ff_graph *g = k->graph;
	struct ff_kind kind;
	int code;

	*w = (struct ff_weighted){.graph = g,
			.micro_batches = micro_batches,
			.n_devices = k->n_devices,
			.lanes = k->moves.lanes};
	if (k->n_devices > 1)
		w->received_us = ff_price_received_us(k->pricer);
	k->kept.every = w->received_us > 0 && k->n_devices <= k->kept.most_every;
	k->kept.classes = w->received_us > 0 && !k->kept.every;
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
	return code == FF_OK && w->received_us > 0 ? find_received(w, k, a, err) : code;
}

static enum ff_chain_part part_of(const struct ff_chain *c, uint32_t i)
{
	return c->part ? c->part[i] : c->named[i];
}

/* Whether the part at place `i` is known to be the first. */
static bool is_first(const struct ff_chain *c, uint32_t i)
{
	return part_of(c, i) == FF_CHAIN_FIRST;
}

/* The node that is handed what the chain brings to its place `i`, where that counts; else
 * FF_NONE. */
static uint32_t handed_to(const struct ff_weighted *w, const struct ff_chain *c, uint32_t i)
{
	uint32_t node = i && w->received && !ff_section_has(c, i)
					? ff_node_leader(w->graph, c->node[i])
					: FF_NONE;

	return node != FF_NONE && w->received[node].from != FF_NONE &&
					       w->received[node].edge == c->edge[i]
			       ? node
			       : FF_NONE;
}

/* Weights of bytes: of all devices, and of the parts of chains. */
static void spread_handed(struct ff_weighted *w, const struct ff_weights *by)
{
	double all = by->communication / w->n_devices / w->lanes * w->micro_batches *
		     w->received_us;

	for (uint32_t i = 0; i < w->graph->n_nodes; i++)
		w->handed_by[i] = (struct ff_handed){.all = all};
	for (uint32_t k = 0; k < by->n_chains; k++) {
		const struct ff_chain *c = &by->chain[k];

		for (uint32_t i = 1; i < c->n; i++) {
			uint32_t node = handed_to(w, c, i);
			struct ff_handed *h = &w->handed_by[node == FF_NONE ? 0 : node];

			if (node == FF_NONE)
				continue;
			h->added_us += c->weight;
			*(is_first(c, i) ? &h->first_us : &h->least_us) += c->weight;
			*(is_first(c, i - 1) ? &h->back_first_us : &h->back_least_us) += c->weight;
		}
	}
}

/* Whether a chain waits at its place `i` for sums: what the prelude before it found, and its
 * gradient back. */
static bool sums_at(const struct ff_weighted *w, const struct ff_chain *c, uint32_t i)
{
	return w->received && i && !ff_section_has(c, i) &&
	       c->node[i - 1] == ff_node_prelude(w->graph, c->node[i]) &&
	       ff_edge_source(w->graph, c->edge[i]) == c->node[i - 1];
}

static void spread_chain(struct ff_weighted *w, const struct ff_chain *c)
{
	for (uint32_t i = 0; i < c->n; i++) {
		struct ff_split_us *by = &w->by[c->node[i]];

		if (part_of(c, i) == FF_CHAIN_FIRST)
			by->first_us += c->weight;
		else if (part_of(c, i) == FF_CHAIN_PLACED)
			by->placed_us += c->weight;
		else if (part_of(c, i) == FF_CHAIN_WIDE)
			by->wide_us += c->weight;
		else if (part_of(c, i) == FF_CHAIN_ANY)
			by->least_us += c->weight;
		else if (part_of(c, i) == FF_CHAIN_OPEN)
			by->open_us += c->weight / w->n_devices;
		by->sum_us += sums_at(w, c, i) ? c->weight : 0;
	}
	for (uint32_t k = 0; k < c->n_sections; k++)
		for (uint32_t i = 0; i < c->section[k].n; i++)
			w->by[c->section[k].node[i]].all_us += c->weight / w->n_devices;
}

static void spread(struct ff_weighted *w, const struct ff_weights *by)
{
	double compute = by->compute / w->n_devices * w->micro_batches;

	for (uint32_t i = 0; i < w->graph->n_nodes; i++)
		w->by[i] = (struct ff_split_us){.all_us = compute};
	for (uint32_t k = 0; k < by->n_chains; k++)
		spread_chain(w, &by->chain[k]);
}

/* ---- the least ---- */

/* What computing adds to the sum. */
static double computing(const struct ff_weighted *w, uint32_t node, const struct ff_split_us *s)
{
	const struct ff_split_us *by = &w->by[node];

	return by->first_us * s->first_us + by->placed_us * s->placed_us +
	       by->least_us * s->least_us + by->wide_us * s->wide_us + by->open_us * s->open_us +
	       by->sum_us * s->sum_us + by->all_us * s->all_us;
}

/* Each operator by itself. */
static double choose_alone(struct ff_weighted *w)
{
	double us = 0;

	for (uint32_t i = 0; i < w->graph->n_nodes; i++) {
		double least = INFINITY;

		for (uint32_t k = 0; k < w->n_split[i]; k++) {
			double here = computing(w, i, &w->split[i][k]);

			if (here < least) {
				least = here;
				w->chosen[i] = k;
			}
		}
		us += w->n_split[i] ? least : 0;
	}
	return us;
}

/* Of what is chosen. */
static uint32_t number_of(const struct ff_weighted *w, uint32_t node)
{
	return w->split[node][w->chosen[node]].number;
}

static double handing(const struct ff_handed *h, const struct ff_handed *by)
{
	return h->all * by->all + h->first_us * by->first_us + h->least_us * by->least_us +
	       h->back_first_us * by->back_first_us + h->back_least_us * by->back_least_us +
	       h->added_us * by->added_us;
}

static int ascending(const void *a, const void *b)
{
	const struct ff_ranked *x = a, *y = b;

	return x->us != y->us ? (x->us > y->us) - (x->us < y->us)
			      : (x->number > y->number) - (x->number < y->number);
}

/* Those that there are, the least first. */
static uint32_t rank(const struct ff_weighted *w, uint32_t node)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < w->n_class[node]; k++)
		if (!isinf(w->cost[node][k]))
			w->ranked[n++] = (struct ff_ranked){w->cost[node][k], k};
	qsort(w->ranked, n, sizeof(*w->ranked), ascending);
	return n;
}

/* The number of the node's split that is least with all behind it, and what it is handed by number
 * `from` of the node that it reads; nothing makes it cost less. */
static uint32_t least_of(
		const struct ff_weighted *w, uint32_t node, uint32_t n, uint32_t from, double *ret)
{
	uint32_t best = 0;

	*ret = INFINITY;
	for (uint32_t i = 0; i < n && w->ranked[i].us < *ret; i++) {
		uint32_t number = w->ranked[i].number;
		struct ff_handed h = ff_received_handed(&w->received[node], from, number);
		double here = w->ranked[i].us + handing(&h, &w->handed_by[node]);

		if (here < *ret) {
			*ret = here;
			best = number;
		}
	}
	return best;
}

/* Of each number the least split, by itself: none costs infinitely much. */
static void choose_splits(struct ff_weighted *w, const struct ff_weights *by, uint32_t node)
{
	double byte_by = by->communication / w->n_devices / w->lanes * w->received_us;
	const double *params = w->received[node].params;

	for (uint32_t k = 0; k < w->n_class[node]; k++)
		w->cost[node][k] = INFINITY;
	for (uint32_t k = 0; k < w->n_split[node]; k++) {
		const struct ff_split_us *s = &w->split[node][k];
		double here = computing(w, node, s);

		if (params)
			here += byte_by * params[s->number];
		if (here < w->cost[node][s->number]) {
			w->cost[node][s->number] = here;
			w->split_of[node][s->number] = k;
		}
	}
}

/* A prelude has the degrees of the node behind it. */
static void join_preludes(struct ff_weighted *w)
{
	for (uint32_t i = 0; i < w->graph->n_nodes; i++) {
		uint32_t node = ff_degrees_of(w->graph, i);

		for (uint32_t k = 0; node != i && k < w->n_class[node]; k++)
			w->cost[node][k] += k < w->n_class[i] ? w->cost[i][k] : INFINITY;
	}
}

/* The numbers chosen become splits. */
static void choose_numbered(struct ff_weighted *w)
{
	for (uint32_t i = 0; i < w->graph->n_nodes; i++) {
		uint32_t from = w->received[i].from;

		if (from != FF_NONE)
			w->chosen[i] = w->best[i][number_of(w, from)];
		if (w->n_split[i] && ff_degrees_of(w->graph, i) == i)
			w->chosen[i] = w->split_of[i][w->chosen[i]];
	}
	for (uint32_t i = 0; i < w->graph->n_nodes; i++) {
		uint32_t node = ff_degrees_of(w->graph, i);

		if (node != i)
			w->chosen[i] = w->split_of[i][number_of(w, node)];
	}
}

/* All that hang together: a node is behind the one that it reads. */
static double choose_together(struct ff_weighted *w, const struct ff_weights *by)
{
	uint32_t n = w->graph->n_nodes;
	double us = 0, least;

	spread_handed(w, by);
	for (uint32_t i = 0; i < n; i++)
		choose_splits(w, by, i);
	join_preludes(w);
	for (uint32_t i = n; i-- > 0;) {
		uint32_t from = w->received[i].from, ranked = rank(w, i);

		if (from == FF_NONE && w->n_split[i] && ff_degrees_of(w->graph, i) == i) {
			w->chosen[i] = w->ranked[0].number;
			us += w->ranked[0].us;
		}
		for (uint32_t k = 0; from != FF_NONE && k < w->n_class[from]; k++) {
			if (isinf(w->cost[from][k]))
				continue;
			w->best[i][k] = least_of(w, i, ranked, k, &least);
			w->cost[from][k] += least;
		}
	}
	choose_numbered(w);
	return us;
}

/* ---- by what is chosen ---- */

static struct ff_handed handed(const struct ff_weighted *w, uint32_t node)
{
	const struct ff_received *r = &w->received[node];

	return ff_received_handed(r, number_of(w, r->from), number_of(w, node));
}

double ff_weighted_wait_us(const struct ff_weighted *w, const struct ff_chain *c, uint32_t i)
{
	uint32_t node = handed_to(w, c, i), at = c->node[i];
	double us = sums_at(w, c, i) ? w->split[at][w->chosen[at]].sum_us : 0;
	struct ff_handed h;

	if (node == FF_NONE)
		return us;
	h = handed(w, node);
	return us + h.added_us + (is_first(c, i) ? h.first_us : h.least_us) +
	       (is_first(c, i - 1) ? h.back_first_us : h.back_least_us);
}

/* What the operator at place `i` of a chain takes, but for sections' members. */
static double place_us(const struct ff_weighted *w, const struct ff_chain *c, uint32_t i)
{
	const struct ff_split_us *s = &w->split[c->node[i]][w->chosen[c->node[i]]];

	switch (part_of(c, i)) {
	case FF_CHAIN_FIRST:
		return s->first_us;
	case FF_CHAIN_PLACED:
		return s->placed_us;
	case FF_CHAIN_ANY:
		return s->least_us;
	case FF_CHAIN_WIDE:
		return s->wide_us;
	case FF_CHAIN_OPEN:
		return s->open_us / w->n_devices;
	case FF_CHAIN_ALL:
		break;
	}
	return 0;
}

static double chain_us(const struct ff_weighted *w, const struct ff_chain *c)
{
	double us = 0;

	for (uint32_t i = 0; i < c->n; i++)
		us += place_us(w, c, i) + ff_weighted_wait_us(w, c, i);
	for (uint32_t k = 0; k < c->n_sections; k++)
		for (uint32_t i = 0; i < c->section[k].n; i++) {
			uint32_t node = c->section[k].node[i];

			us += w->split[node][w->chosen[node]].all_us / w->n_devices;
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
			bytes += r->params[number_of(w, i)];
		if (r->from != FF_NONE)
			bytes += w->micro_batches * handed(w, i).all;
	}
	return bytes * w->received_us / w->n_devices / w->lanes;
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
	us += w->received ? choose_together(w, by) : choose_alone(w);
	ff_weighted_terms(w, by);
	return us;
}
