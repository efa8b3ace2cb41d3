/* Additive costs: of every operator under some dozens of tidy configs what it
 * computes, synchronises and stores, and of every edge what moves between two of
 * them.  Equal operators and equal edges are priced once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "additive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "candidates.h"
#include "ff/node_class.h"
#include "space/limits.h"

#define MOST_CANDIDATES 40 /* of a class */
#define MANY_DEVICES 64    /* above, there are fewer */
#define PRICED_FIRST 6     /* of an edge, for each candidate of the larger end, at least; */
#define PRICED_MANY 1      /* on many devices; */
#define PRICED_ALL 40000   /* of all edges, where that is more */
#define ROUNDS 24          /* of solving and pricing what the solution has */
#define SLACK 0.01         /* of the whole: dearer than the cheapest by more is out */
#define TABLE_ENTRIES ((size_t)1 << 21) /* of one elimination */
#define SWEEPS 3

static bool wants_stop(struct ff_additive *a)
{
	a->stopped = a->stopped || (a->stop && a->stop(a->ctx));
	return a->stopped;
}

/* Fewer, the more devices there are: each takes longer to price. */
static uint32_t most_candidates(const struct ff_additive *a)
{
	uint32_t n = MOST_CANDIDATES;

	for (uint32_t devices = MANY_DEVICES; devices < a->m->n_devices; devices *= 2)
		n = n * 3 / 4;
	return n;
}

static int find_kinds(struct ff_additive *a, struct ff_error *err)
{
	const struct ff_graph *g = a->g;
	double sum_us = 0;
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK && !a->stopped; i++) {
		a->variable[i] = FF_NONE;
		if (!ff_node_needs_config(g, i))
			continue;
		if (a->class[i] == i && !wants_stop(a))
			code = ff_additive_add_kind(a, i, err);
		a->kind[i] = a->kind[a->class[i]];
		if (code == FF_OK && !a->stopped)
			sum_us += a->kind[i]->candidate[0].compute_us;
	}
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK && !wants_stop(a); i++)
		if (a->kind[i] && a->class[i] == i)
			code = ff_additive_price_kind(
					a, a->kind[i], SLACK * sum_us, most_candidates(a), err);
	return code;
}

/* ---- variables: an operator each; equal ones that share a parameter are one ---- */

static uint32_t tied_to(const struct ff_additive *a, uint32_t node)
{
	const struct ff_node *n = &a->g->nodes[node];

	for (uint32_t i = n->n_data; i < n->n_in; i++) {
		const struct ff_value *v = &a->g->values[a->g->edges[n->in + i].value];

		for (uint32_t u = 0; u < v->n_uses; u++) {
			uint32_t other = ff_value_reader(a->g, v, u);

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

/* Estimates what an edge costs. */
static int fill_link(struct ff_additive *a, struct ff_link_table *l, struct ff_error *err)
{
	const struct ff_kind *from = a->kind[l->from], *to = a->kind[l->to];
	size_t n = (size_t)from->n * to->n;

	l->us = ff_arena_array(&a->arena, n, sizeof(*l->us));
	l->bytes = ff_arena_array(&a->arena, n, sizeof(*l->bytes));
	l->priced = ff_arena_array(&a->arena, n, sizeof(*l->priced));
	if (!l->us || !l->bytes || !l->priced)
		return ff_fail_memory(err);
	for (size_t i = 0; i < n; i++)
		l->us[i] = ff_additive_estimate(
				a, l, &from->candidate[i / to->n], &to->candidate[i % to->n]);
	return FF_OK;
}

/* Prices what may be cheap; the rest is estimated until a solution has it. */
static int price_link(struct ff_additive *a, struct ff_link_table *l, struct ff_error *err)
{
	const struct ff_kind *from = a->kind[l->from], *to = a->kind[l->to];
	size_t n = (size_t)from->n * to->n, few = PRICED_ALL / (a->g->n_edges ? a->g->n_edges : 1);
	size_t least = a->m->n_devices > MANY_DEVICES ? PRICED_MANY : PRICED_FIRST;
	struct ff_arena_mark mark = ff_arena_mark(&a->scratch);
	double *sorted = ff_arena_copy(&a->scratch, l->us, n, sizeof(*sorted)), most;
	int code = FF_OK;

	if (!sorted)
		return ff_fail_memory(err);
	least *= from->n > to->n ? from->n : to->n;
	if (few < least || a->m->n_devices > MANY_DEVICES)
		few = least;
	qsort(sorted, n, sizeof(*sorted), by_size);
	most = sorted[few < n ? few : n - 1];
	ff_arena_rewind(&a->scratch, mark);
	for (size_t i = 0; i < n && code == FF_OK && (i % 64 || !wants_stop(a)); i++)
		if (l->us[i] < most || l->us[i] == 0)
			code = price_entry(a, l, i, err);
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

	for (uint32_t k = 0; k < g->n_edges && code == FF_OK && !wants_stop(a); k++) {
		uint32_t from = ff_edge_source(g, k), to = g->edges[k].node;

		if (!a->kind[from] || !a->kind[to] || ff_edge_is_carried(g, k))
			continue;
		a->use[a->n_uses].a = a->variable[from];
		a->use[a->n_uses].b = a->variable[to];
		code = find_link(a, k, &a->use[a->n_uses].link, err);
		a->n_uses++;
	}
	for (uint32_t i = 0; i < a->links.n && code == FF_OK; i++)
		if (!a->stopped)
			code = price_link(a, &a->link[i], err);
	return code;
}

/* What estimates take links to be: between nodes the network card's share of one device,
 * where there is more than one node. */
static void measure_links(struct ff_additive *a)
{
	for (uint32_t i = 0; i < a->m->n_nodes; i++) {
		const struct ff_machine_node *n = &a->m->nodes[i];
		double users = n->inside.shared ? n->count : 1;

		a->inside_bytes_per_us =
				fmax(a->inside_bytes_per_us, n->inside.bytes_per_us / users);
		a->inside_latency_us = fmax(a->inside_latency_us, n->inside.latency_us);
		if (a->m->n_nodes == 1)
			break;
		a->link_bytes_per_us =
				fmax(a->link_bytes_per_us, n->network.bytes_per_us / n->count);
		a->latency_us = fmax(a->latency_us, n->network.latency_us);
	}
	if (a->m->n_nodes == 1)
		a->link_bytes_per_us = a->inside_bytes_per_us;
}

static int allocate(struct ff_additive *a, struct ff_error *err)
{
	size_t nodes = a->g->n_nodes, edges = a->g->n_edges;
	int code;

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
	measure_links(a);
	a->bucket_bytes = ff_graph_parameters(a->g) * FF_F32_BYTES;
	if (a->bucket_bytes > ff_bucket_bytes(a->g, a->m))
		a->bucket_bytes = ff_bucket_bytes(a->g, a->m);
	code = ff_classes_find(a->g, &a->arena, &a->class, err);
	if (code == FF_OK)
		ff_space_part_classes(a->space, a->class);
	return code;
}

int ff_additive_create(
		const struct ff_elimination *of, struct ff_additive **ret, struct ff_error *err)
{
	struct ff_additive *a = calloc(1, sizeof(*a));
	int code;

	if (!a)
		return ff_fail_memory(err);
	*a = (struct ff_additive){.space = of->space,
			.g = of->graph,
			.m = of->machine,
			.p = of->pricer,
			.stop = of->stop,
			.ctx = of->ctx};
	ff_arena_init(&a->arena);
	ff_arena_init(&a->scratch);
	ff_arena_init(&a->inner);
	ff_arena_init(&a->drafts);
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
	ff_arena_finish(&a->drafts);
	ff_table_finish(&a->links);
	free(a);
}

/* ---- the least sum ---- */

/* What a link costs, time and memory together; all edges of its kind share it. */
static int sum_link(
		struct ff_additive *a, const struct ff_additive_weights *w, struct ff_link_table *l)
{
	size_t n = (size_t)a->kind[l->from]->n * a->kind[l->to]->n;

	l->sum = ff_arena_array(&a->scratch, n, sizeof(*l->sum));
	for (size_t k = 0; k < n && l->sum; k++)
		l->sum[k] = l->us[k] + w->us_per_byte * l->bytes[k];
	return l->sum ? FF_OK : FF_E_NOMEM;
}

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
	for (uint32_t i = 0; i < a->links.n; i++)
		if (sum_link(a, w, &a->link[i]) < 0)
			return FF_E_NOMEM;
	for (uint32_t i = 0; i < a->n_uses; i++) {
		const struct ff_link_use *u = &a->use[i];
		const double *sum = a->link[u->link].sum;

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

/* The numbers to be minimised, all from the scratch arena. */
static int pose(struct ff_additive *a, const struct ff_additive_weights *w, struct ff_choices *ret,
		struct ff_error *err)
{
	uint32_t *n = ff_arena_array(&a->scratch, a->n_vars, sizeof(*n));
	double **cost = ff_arena_array(&a->scratch, a->n_vars, sizeof(*cost));
	struct ff_pair *pair = ff_arena_array(&a->scratch, a->n_uses, sizeof(*pair));

	if (!n || !cost || !pair || state(a, w, n, cost, pair, ret) < 0)
		return ff_fail_memory(err);
	return FF_OK;
}

/* Solves with the prices at hand, then again with those of what the solution has,
 * until it has no estimates; `best` is the one that costs least by its prices. */
static int solve(struct ff_additive *a, const struct ff_additive_weights *w, uint32_t *best,
		struct ff_error *err)
{
	uint32_t *choice = ff_arena_array(&a->scratch, a->n_vars, sizeof(*choice));
	struct ff_arena_mark mark = ff_arena_mark(&a->scratch);
	double least = INFINITY;
	bool all = false, exact;
	int code = choice ? FF_OK : ff_fail_memory(err);

	for (uint32_t round = 0; round < ROUNDS && code == FF_OK && !all; round++) {
		struct ff_choices problem;
		double us;

		if (round > 0 && a->stop && a->stop(a->ctx))
			break;
		code = pose(a, w, &problem, err);
		if (code == FF_OK)
			code = ff_choices_minimise(&problem, TABLE_ENTRIES, SWEEPS, a->stop, a->ctx,
					choice, &exact, err);
		ff_arena_rewind(&a->scratch, mark);
		if (code == FF_OK)
			code = price_used(a, choice, &all, err);
		if (code == FF_OK)
			code = pose(a, w, &problem, err);
		if (code < 0)
			return code;
		us = ff_choices_cost(&problem, choice);
		ff_arena_rewind(&a->scratch, mark);
		if (us >= least)
			continue;
		least = us;
		memcpy(best, choice, a->n_vars * sizeof(*best));
	}
	return code;
}

int ff_additive_solve(struct ff_additive *a, const struct ff_additive_weights *w,
		struct ff_arena *to, struct ff_strategy *ret, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(&a->scratch);
	uint32_t *choice = ff_arena_array(&a->scratch, a->n_vars, sizeof(*choice));
	int code = choice ? solve(a, w, choice, err) : ff_fail_memory(err);

	if (code == FF_OK)
		code = ff_strategy_create(a->g, to, ret, err);
	for (uint32_t i = 0; i < a->g->n_nodes && code == FF_OK; i++)
		if (a->kind[i])
			ret->config[i] = a->kind[i]->candidate[choice[a->variable[i]]].config;
	ff_arena_rewind(&a->scratch, mark);
	return code;
}
