/* Additive costs: of every operator under some dozens of tidy configs what it
 * computes, synchronises and stores, and of every edge what moves between two of
 * them.  Equal operators and equal edges are priced once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "candidates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CANDIDATES 40 /* of a class */
#define PRICED_FIRST 6     /* of an edge, for each candidate of the larger end, at least; */
#define PRICED_BIG 2       /* on more than 64 devices; */
#define PRICED_ALL 40000   /* of all edges, where that is more */
#define ROUNDS 12          /* of solving and pricing what the solution has */
#define SLACK 0.01         /* of the whole: dearer than the cheapest by more is out */
#define TABLE_ENTRIES ((size_t)1 << 21) /* of one elimination */
#define SWEEPS 3

/* Leaves out what costs more than any edge can win back. */
static void prune(struct ff_additive *a, double slack_us)
{
	for (uint32_t i = 0; i < a->g->n_nodes; i++) {
		struct ff_kind *k = a->kind[i];
		double most;

		if (!k || a->class[i] != i)
			continue;
		most = k->candidate[0].compute_us + k->candidate[0].sync_us + slack_us;
		if (k->n > MOST_CANDIDATES)
			k->n = MOST_CANDIDATES;
		while (k->n > 1 && k->candidate[k->n - 1].compute_us > most)
			k->n--;
	}
}

static int find_kinds(struct ff_additive *a, struct ff_error *err)
{
	const struct ff_graph *g = a->g;
	double sum_us = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		int code = FF_OK;

		a->variable[i] = FF_NONE;
		if (!ff_node_needs_config(g, i))
			continue;
		if (a->stop && a->stop(a->ctx)) {
			a->stopped = true;
			return FF_OK;
		}
		if (a->class[i] == i)
			code = ff_additive_add_kind(a, i, err);
		if (code < 0)
			return code;
		a->kind[i] = a->kind[a->class[i]];
		sum_us += a->kind[i]->candidate[0].compute_us + a->kind[i]->candidate[0].sync_us;
	}
	prune(a, SLACK * sum_us);
	return FF_OK;
}

/* ---- variables: an operator each; equal ones that share a parameter are one ---- */

static uint32_t tied_to(const struct ff_additive *a, uint32_t node)
{
	const struct ff_node *n = &a->g->nodes[node];

	for (uint32_t i = n->n_data; i < n->n_in; i++) {
		const struct ff_value *v = &a->g->values[a->g->edges[n->in + i].value];

		for (uint32_t u = 0; u < v->n_uses; u++) {
			uint32_t other = a->g->edges[a->g->uses[v->first_use + u]].node;

			if (other < node && a->class[other] == a->class[node])
				return other;
		}
	}
	return FF_NONE;
}

static void find_variables(struct ff_additive *a)
{
	for (uint32_t i = 0; i < a->g->n_nodes; i++) {
		uint32_t tied;

		if (!a->kind[i])
			continue;
		tied = tied_to(a, i);
		if (tied == FF_NONE)
			a->first_of[a->n_vars] = i;
		a->variable[i] = tied == FF_NONE ? a->n_vars++ : a->variable[tied];
		a->members[a->variable[i]]++;
	}
}

/* ---- edges ---- */

static int price_entry(
		struct ff_additive *a, struct ff_link_table *l, size_t i, struct ff_error *err)
{
	const struct ff_kind *from = a->kind[l->from], *to = a->kind[l->to];

	l->priced[i] = true;
	return ff_additive_price_edge(a, l->edge, &from->candidate[i / to->n].block,
			&to->candidate[i % to->n].block, &l->us[i], &l->bytes[i], err);
}

static int by_size(const void *x, const void *y)
{
	const double *a = x, *b = y;

	return (*a > *b) - (*a < *b);
}

/* Prices what may be cheap; the rest is estimated until a solution has it. */
static int fill_link(struct ff_additive *a, struct ff_link_table *l, struct ff_error *err)
{
	const struct ff_kind *from = a->kind[l->from], *to = a->kind[l->to];
	size_t n = (size_t)from->n * to->n, few = PRICED_ALL / a->g->n_edges;
	size_t least = a->m->n_devices > 64 ? PRICED_BIG : PRICED_FIRST;
	struct ff_arena_mark mark;
	double *sorted, most;
	int code = FF_OK;

	least *= from->n > to->n ? from->n : to->n;
	if (few < least || a->m->n_devices > 64)
		few = least;
	l->us = ff_arena_array(&a->arena, n, sizeof(*l->us));
	l->bytes = ff_arena_array(&a->arena, n, sizeof(*l->bytes));
	l->priced = ff_arena_array(&a->arena, n, sizeof(*l->priced));
	mark = ff_arena_mark(&a->scratch);
	sorted = ff_arena_array(&a->scratch, n, sizeof(*sorted));
	if (!l->us || !l->bytes || !l->priced || !sorted)
		return ff_fail_memory(err);
	for (size_t i = 0; i < n; i++)
		sorted[i] = l->us[i] = ff_additive_estimate(
				a, l, &from->candidate[i / to->n], &to->candidate[i % to->n]);
	qsort(sorted, n, sizeof(*sorted), by_size);
	most = sorted[few < n ? few : n - 1];
	ff_arena_rewind(&a->scratch, mark);
	for (size_t i = 0; i < n && !a->stopped && code == FF_OK; i++) {
		if (l->us[i] < most || l->us[i] == 0)
			code = price_entry(a, l, i, err);
		if (i % 64 == 0)
			a->stopped = a->stop && a->stop(a->ctx);
	}
	return code;
}

static int find_link(struct ff_additive *a, uint32_t edge, uint32_t *ret, struct ff_error *err)
{
	const struct ff_edge *x = &a->g->edges[edge];
	uint32_t from = ff_edge_source(a->g, edge);
	struct ff_link_table l = {.from = a->class[from],
			.to = a->class[x->node],
			.port = a->g->values[x->value].port,
			.slot = x->slot,
			.edge = edge};
	uint64_t hash = ff_hash_mix((uint64_t)l.from << 32 | l.to, (uint64_t)l.port << 32 | l.slot);
	uint32_t at, i;

	for (i = ff_table_first(&a->links, hash, &at); i != FF_NONE;
			i = ff_table_next(&a->links, hash, &at)) {
		const struct ff_link_table *k = &a->link[i];

		if (k->from == l.from && k->to == l.to && k->port == l.port && k->slot == l.slot) {
			*ret = i;
			return FF_OK;
		}
	}
	*ret = a->links.n;
	a->link[*ret] = l;
	if (ff_table_put(&a->links, hash, *ret) < 0)
		return ff_fail_memory(err);
	return fill_link(a, &a->link[*ret], err);
}

static int find_uses(struct ff_additive *a, struct ff_error *err)
{
	const struct ff_graph *g = a->g;
	int code = FF_OK;

	for (uint32_t k = 0; k < g->n_edges && code == FF_OK && !a->stopped; k++) {
		uint32_t from = ff_edge_source(g, k), to = g->edges[k].node;

		if (!a->kind[from] || !a->kind[to])
			continue;
		a->use[a->n_uses].a = a->variable[from];
		a->use[a->n_uses].b = a->variable[to];
		code = find_link(a, k, &a->use[a->n_uses].link, err);
		a->n_uses++;
	}
	return code;
}

static int allocate(struct ff_additive *a, struct ff_error *err)
{
	size_t nodes = a->g->n_nodes, edges = a->g->n_edges;

	a->kind = ff_arena_array(&a->arena, nodes, sizeof(struct ff_kind *));
	a->position = ff_arena_array(&a->arena, nodes, sizeof(*a->position));
	a->variable = ff_arena_array(&a->arena, nodes, sizeof(*a->variable));
	a->first_of = ff_arena_array(&a->arena, nodes, sizeof(*a->first_of));
	a->members = ff_arena_array(&a->arena, nodes, sizeof(*a->members));
	a->link = ff_arena_array(&a->arena, edges, sizeof(*a->link));
	a->use = ff_arena_array(&a->arena, edges, sizeof(*a->use));
	a->lane_us = ff_arena_array(&a->arena, ff_lane_count(a->m), sizeof(*a->lane_us));
	a->lane = ff_arena_array(&a->arena, 3 * (size_t)a->m->n_devices, sizeof(*a->lane));
	if (!a->kind || !a->position || !a->variable || !a->first_of || !a->members || !a->link ||
			!a->use || !a->lane_us || !a->lane)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < nodes; i++)
		a->position[i] = i;
	for (uint32_t i = 0; i < a->m->n_nodes; i++)
		a->link_bytes_per_us = fmax(a->link_bytes_per_us,
				fmax(a->m->nodes[i].inside.bytes_per_us,
						a->m->nodes[i].network.bytes_per_us));
	a->bucket_bytes = ff_graph_parameters(a->g) * FF_F32_BYTES;
	if (a->bucket_bytes > FF_BUCKET_BYTES)
		a->bucket_bytes = FF_BUCKET_BYTES;
	return ff_classes_find(a->g, &a->arena, &a->class, err);
}

int ff_additive_create(const struct ff_space *s, const struct ff_graph *g,
		const struct ff_machine *m, struct ff_pricer *p, bool (*stop)(void *ctx), void *ctx,
		struct ff_additive **ret, struct ff_error *err)
{
	struct ff_additive *a = calloc(1, sizeof(*a));
	int code;

	if (!a)
		return ff_fail_memory(err);
	*a = (struct ff_additive){.space = s, .g = g, .m = m, .p = p, .stop = stop, .ctx = ctx};
	ff_arena_init(&a->arena);
	ff_arena_init(&a->scratch);
	ff_arena_init(&a->inner);
	code = allocate(a, err);
	if (code == FF_OK)
		code = find_kinds(a, err);
	if (code == FF_OK && !a->stopped) {
		find_variables(a);
		code = find_uses(a, err);
	}
	if (code < 0 || a->stopped) {
		ff_additive_destroy(a);
		a = NULL;
	}
	if (code == FF_OK)
		*ret = a;
	return code;
}

void ff_additive_destroy(struct ff_additive *a)
{
	if (!a)
		return;
	ff_arena_finish(&a->arena);
	ff_arena_finish(&a->scratch);
	ff_arena_finish(&a->inner);
	ff_table_finish(&a->links);
	free(a);
}

/* ---- the least sum ---- */

/* The problem in numbers; edges inside one variable go to its own costs. */
static int state(struct ff_additive *a, const struct ff_additive_weights *w, uint32_t *n,
		double **cost, struct ff_pair *pair, struct ff_choices *ret)
{
	uint32_t n_pairs = 0;

	for (uint32_t v = 0; v < a->n_vars; v++) {
		const struct ff_kind *k = a->kind[a->first_of[v]];

		n[v] = k->n;
		cost[v] = ff_arena_array(&a->scratch, k->n, sizeof(**cost));
		if (!cost[v])
			return FF_E_NOMEM;
		for (uint32_t i = 0; i < k->n; i++)
			cost[v][i] = a->members[v] *
				     (k->candidate[i].compute_us +
						     w->sync * k->candidate[i].sync_us +
						     w->us_per_byte * k->candidate[i].bytes);
	}
	for (uint32_t i = 0; i < a->n_uses; i++) {
		const struct ff_link_use *u = &a->use[i];
		const struct ff_link_table *l = &a->link[u->link];
		size_t entries = (size_t)n[u->a] * n[u->b];
		double *sum = ff_arena_array(&a->scratch, entries, sizeof(*sum));

		if (!sum)
			return FF_E_NOMEM;
		for (size_t k = 0; k < entries; k++)
			sum[k] = l->us[k] + w->us_per_byte * l->bytes[k];
		if (u->a != u->b)
			pair[n_pairs++] = (struct ff_pair){u->a, u->b, sum};
		for (uint32_t k = 0; u->a == u->b && k < n[u->a]; k++)
			cost[u->a][k] += sum[(size_t)k * n[u->a] + k];
	}
	*ret = (struct ff_choices){a->n_vars, n_pairs, n, (const double *const *)cost, pair};
	return FF_OK;
}

/* Prices what the solution has of estimates; *all: there were none. */
static int price_used(
		struct ff_additive *a, const uint32_t *choice, bool *all, struct ff_error *err)
{
	int code = FF_OK;

	*all = true;
	for (uint32_t i = 0; i < a->n_uses && code == FF_OK; i++) {
		const struct ff_link_use *u = &a->use[i];
		struct ff_link_table *l = &a->link[u->link];
		size_t entry = (size_t)choice[u->a] * a->kind[l->to]->n + choice[u->b];

		if (l->priced[entry])
			continue;
		*all = false;
		code = price_entry(a, l, entry, err);
	}
	return code;
}

static int solve(struct ff_additive *a, const struct ff_additive_weights *w,
		bool (*stop)(void *ctx), void *ctx, uint32_t *choice, struct ff_error *err)
{
	uint32_t *n = ff_arena_array(&a->scratch, a->n_vars, sizeof(*n));
	double **cost = ff_arena_array(&a->scratch, a->n_vars, sizeof(*cost));
	struct ff_pair *pair = ff_arena_array(&a->scratch, a->n_uses, sizeof(*pair));
	struct ff_choices problem;
	bool exact;

	if (!n || !cost || !pair || state(a, w, n, cost, pair, &problem) < 0)
		return ff_fail_memory(err);
	return ff_choices_minimise(&problem, TABLE_ENTRIES, SWEEPS, stop, ctx, choice, &exact, err);
}

int ff_additive_solve(struct ff_additive *a, const struct ff_additive_weights *w,
		bool (*stop)(void *ctx), void *ctx, struct ff_arena *to, struct ff_strategy *ret,
		struct ff_error *err)
{
	struct ff_arena_mark start = ff_arena_mark(&a->scratch), mark;
	uint32_t *choice = ff_arena_array(&a->scratch, a->n_vars, sizeof(*choice));
	bool all = false;
	int code = choice ? FF_OK : ff_fail_memory(err);

	mark = ff_arena_mark(&a->scratch);
	for (uint32_t round = 0; round < ROUNDS && code == FF_OK && !all; round++) {
		if (stop && stop(ctx))
			break;
		code = solve(a, w, stop, ctx, choice, err);
		ff_arena_rewind(&a->scratch, mark);
		if (code == FF_OK)
			code = price_used(a, choice, &all, err);
	}
	if (code == FF_OK)
		code = ff_strategy_create(a->g, to, ret, err);
	for (uint32_t i = 0; i < a->g->n_nodes && code == FF_OK; i++)
		if (a->kind[i])
			ret->config[i] = a->kind[i]->candidate[choice[a->variable[i]]].config;
	ff_arena_rewind(&a->scratch, start);
	return code;
}
