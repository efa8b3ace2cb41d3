/* Additive costs: of every operator under some dozens of tidy configs what it
 * computes, synchronises and stores, and of every edge what moves between two of
 * them.  Equal operators and equal edges are priced once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "additive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "classes.h"
#include "ff/block.h"

#define MOST_CANDIDATES 40 /* of a class */
#define PRICED_FIRST 6     /* of an edge, for each candidate of the larger end, at least; */
#define PRICED_ALL 40000   /* of all edges, where that is more */
#define ROUNDS 12          /* of solving and pricing what the solution has */
#define ESTIMATE_PARTS 16  /* looked at */
#define ESTIMATE_TIMES                                                                             \
	8 /* what is really moved takes so many times the bytes one                                \
	   * device lacks: both ways, packed, and others use the link too */
#define MOST_DRAFTS 1024
#define SLACK 0.01                      /* of the whole: dearer than the cheapest by more is out */
#define TABLE_ENTRIES ((size_t)1 << 21) /* of one elimination */
#define SWEEPS 3

/* One config of a class of operators. */
struct candidate {
	struct ff_config config;
	struct ff_node_block block;
	double compute_us, sync_us, bytes;
	uint32_t draft;    /* its number */
	uint16_t *part_on; /* by device: its part + 1, or 0 */
};
struct kind {
	uint32_t node; /* the first of its class */
	uint32_t n;
	struct candidate *candidate;
};
/* An edge between two classes: by candidate of the producer, then of the consumer. */
struct link {
	uint32_t from, to, port, slot; /* classes */
	double *us, *bytes;
	bool *priced;  /* us is no estimate */
	uint32_t edge; /* one of its kind */
};
/* A link of the graph's: which tables hold between which variables. */
struct use {
	uint32_t a, b, link;
};

struct ff_additive {
	const struct ff_space *space;
	const struct ff_graph *g;
	const struct ff_machine *m;
	struct ff_pricer *p;
	bool (*stop)(void *ctx);
	void *ctx;
	bool stopped;
	struct ff_arena arena, scratch, inner;
	uint32_t *class, *position;
	struct kind **kind;            /* by node: its class's */
	uint32_t *variable, *first_of; /* by node; by variable: its first node */
	uint32_t *members;             /* by variable */
	uint32_t n_vars;
	struct link *link;
	struct use *use;
	struct ff_table links;
	uint32_t n_uses;
	double link_bytes_per_us; /* the fastest */
	int64_t bucket_bytes;     /* of weights that are synchronised together */
	double *lane_us;          /* scratch, by lane */
	uint32_t *lane;
};

/* ---- candidates ---- */

static void add_draft(const struct ff_additive *a, const struct ff_node *n, const uint32_t *split,
		const uint16_t *by, uint32_t n_split, struct ff_config *draft, uint32_t *count)
{
	uint16_t degree[FF_MAX_DIMS];
	struct ff_view view = {0};
	uint32_t stride = 1;

	for (uint32_t d = 0; d < n->n_dims; d++)
		degree[d] = 1;
	for (uint32_t i = n_split; i-- > 0; stride *= by[i]) {
		if (by[i] < 2 || n->dim[split[i]].extent < (int32_t)by[i])
			return;
		degree[split[i]] = by[i];
		view.stride[split[i]] = stride;
	}
	if (*count < MOST_DRAFTS && stride <= a->space->n_devices)
		ff_view_config(n->n_dims, degree, &view, &draft[(*count)++]);
}

/* Two dims that are worth splitting together. */
static bool is_pair(const struct ff_node *n, uint32_t d, uint32_t e)
{
	enum ff_label x = n->dim[d].label, y = n->dim[e].label;

	return x == FF_DIM_SAMPLE || y == FF_DIM_SAMPLE ||
	       (x != FF_DIM_ATTRIBUTE && y != FF_DIM_ATTRIBUTE);
}

/* Views in line from device 0 on: whole, one dim split by each divisor of the
 * devices, two dims over all devices with either inside.  Other devices are left to
 * the walk: a sum does not see what runs side by side. */
static uint32_t draft(const struct ff_additive *a, const struct ff_node *n, struct ff_config *ret)
{
	const struct ff_space *s = a->space;
	uint32_t count = 0;

	for (uint32_t d = 0; d < n->n_dims; d++)
		add_draft(a, n, &d, (const uint16_t[]){(uint16_t)s->n_devices}, 1, ret, &count);
	for (uint32_t d = 0; d < n->n_dims; d++)
		for (uint32_t e = 0; e < n->n_dims; e++)
			for (uint32_t k = 1; e != d && is_pair(n, d, e) && k + 1 < s->n_divisors;
					k++)
				add_draft(a, n, (const uint32_t[]){d, e},
						(const uint16_t[]){(uint16_t)s->divisor[k],
								(uint16_t)(s->n_devices /
										s->divisor[k])},
						2, ret, &count);
	for (uint32_t k = s->n_divisors; k-- > 1;)
		for (uint32_t d = 0; d < n->n_dims && k + 1 < s->n_divisors; d++)
			add_draft(a, n, &d, (const uint16_t[]){(uint16_t)s->divisor[k]}, 1, ret,
					&count);
	add_draft(a, n, NULL, NULL, 0, ret, &count);
	return count;
}

/* ---- what an operator costs ---- */

static int price_parts(
		struct ff_additive *a, uint32_t node, struct candidate *c, struct ff_error *err)
{
	bool back = ff_node_needs_grad(a->g, node);
	int code = FF_OK;

	c->compute_us = 0;
	for (uint32_t p = 0; p < c->config.n_parts && code == FF_OK; p++) {
		struct ff_region box;
		struct ff_work w;
		double sum = 0, us;

		/* the first parts are the largest; of one kind of device they are the slowest */
		if (p > 0 && a->m->n_kinds == 1 && p < c->config.n_parts - 1)
			continue;
		ff_config_box(&a->g->nodes[node], &c->config, p, &box);
		for (int pass = FF_FORWARD; pass <= (back ? FF_BACKWARD : FF_FORWARD); pass++) {
			ff_work_fill(a->g, node, &box, (enum ff_pass)pass, &w);
			code = ff_price_work(a->p, &w, c->block.device[p], &us, err);
			if (code < 0)
				return code;
			sum += us;
		}
		c->compute_us = fmax(c->compute_us, sum);
	}
	return code;
}

/* Adds `us` to the lanes that a transfer holds; returns the busiest one's sum. */
static double hold_lanes(struct ff_additive *a, uint32_t n, const uint16_t *device, double us)
{
	uint32_t lanes = ff_transfer_lanes(a->m, n, device, a->lane);
	double most = 0;

	for (uint32_t i = 0; i < lanes; i++)
		most = fmax(most, a->lane_us[a->lane[i]] += us);
	return most;
}

static void clear_lanes(struct ff_additive *a)
{
	memset(a->lane_us, 0, ff_lane_count(a->m) * sizeof(*a->lane_us));
}

/* Synchronising and updating what `node` trains; of a parameter that several nodes
 * read, its share.  Small ones go together with others, so what counts is their share
 * of a bucket. */
static void price_weights(struct ff_additive *a, uint32_t node, struct candidate *c)
{
	const struct ff_node *n = &a->g->nodes[node];
	double sync_us = 0, update_us = 0, bytes = 0;

	clear_lanes(a);
	for (uint32_t i = 0; i < c->block.n_groups; i++) {
		const struct ff_weight_group *w = &c->block.group[i];
		const struct ff_value *v = &a->g->values[a->g->edges[n->in + w->slot].value];
		int64_t whole = w->bytes > a->bucket_bytes ? w->bytes : a->bucket_bytes;
		double share = (double)w->bytes / (double)whole / v->n_uses;
		double us = ff_price_sync(a->p, w->n_devices, w->device, whole);

		sync_us = fmax(sync_us, hold_lanes(a, w->n_devices, w->device, share * us));
		/* one device has at most one shard of each slot */
		if (i > 0 && c->block.group[i - 1].slot == w->slot)
			continue;
		update_us += share * ff_price_update(a->p, w->device[0], whole);
		bytes += 3.0 * (double)w->bytes / v->n_uses;
	}
	c->sync_us = sync_us + update_us;
	c->bytes = bytes;
}

/* What the largest part writes, and as much for its gradient. */
static double bytes_written(const struct ff_node *n, const struct ff_node_block *b)
{
	double sum = 0;

	for (uint32_t k = 0; k < n->n_out; k++) {
		struct ff_region r;

		ff_placement_region(&b->out[k], 0, &r);
		sum += (k < n->n_out - n->n_saved ? 2.0 : 1.0) * (double)ff_region_volume(&r) *
		       FF_ELEMENT_BYTES;
	}
	return sum;
}

/* What moving the shards of an edge takes, both ways, and what it brings to be
 * stored.  `from` is NULL for the data set. */
static int price_edge(struct ff_additive *a, uint32_t edge, const struct ff_node_block *from,
		const struct ff_node_block *to, double *us, double *bytes, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(&a->scratch);
	const struct ff_edge *x = &a->g->edges[edge];
	bool first = ff_edge_is_first_use(a->g, a->position, edge);
	struct ff_edge_block b;
	struct ff_region r;
	int code = ff_edge_block_build(
			a->g, a->m, edge, first, from, to, false, &a->scratch, &a->inner, &b, err);

	if (code < 0)
		return code;
	*us = 0;
	for (int pass = 0; pass < 2; pass++) {
		const struct ff_redistribution *d = pass ? &b.backward : &b.forward;
		double most = 0;

		clear_lanes(a);
		for (uint32_t i = 0; i < d->n_moves; i++)
			most = fmax(most, hold_lanes(a, d->move[i].n_devices, d->move[i].device,
							  ff_price_move(a->p, &d->move[i])));
		*us += most;
	}
	ff_placement_region(&to->in[x->slot], 0, &r);
	*bytes = b.forward.n_moves ? (double)ff_region_volume(&r) * FF_ELEMENT_BYTES : 0;
	ff_arena_rewind(&a->scratch, mark);
	return FF_OK;
}

static int price_candidate(
		struct ff_additive *a, uint32_t node, struct candidate *c, struct ff_error *err)
{
	const struct ff_node *n = &a->g->nodes[node];
	int code = ff_node_block_build(a->g, node, &c->config, &a->arena, &c->block, err);

	if (code == FF_OK)
		code = price_parts(a, node, c, err);
	if (code < 0)
		return code;
	c->part_on = ff_arena_array(&a->arena, a->m->n_devices, sizeof(*c->part_on));
	if (!c->part_on)
		return ff_fail_memory(err);
	for (uint32_t p = 0; p < c->config.n_parts; p++)
		c->part_on[c->block.device[p]] = (uint16_t)(p + 1);
	price_weights(a, node, c);
	c->bytes += bytes_written(n, &c->block);
	for (uint32_t i = 0; i < n->n_data && code == FF_OK; i++) {
		double us, bytes;

		if (!ff_edge_is_brought(a->g, n->in + i))
			continue;
		code = price_edge(a, n->in + i, NULL, &c->block, &us, &bytes, err);
		c->compute_us += us;
		c->bytes += bytes;
	}
	return code;
}

/* ---- classes ---- */

static int by_cost(const void *x, const void *y)
{
	const struct candidate *a = x, *b = y;
	double u = a->compute_us + a->sync_us, v = b->compute_us + b->sync_us;

	if (u == v)
		return (a->draft > b->draft) - (a->draft < b->draft);
	return u > v ? 1 : -1;
}

static int add_kind(struct ff_additive *a, uint32_t node, struct ff_error *err)
{
	struct ff_config drafts[MOST_DRAFTS];
	struct kind *k = ff_arena_alloc(&a->arena, sizeof(*k));
	int code = FF_OK;

	if (!k)
		return ff_fail_memory(err);
	k->node = node;
	k->n = draft(a, &a->g->nodes[node], drafts);
	k->candidate = ff_arena_array(&a->arena, k->n, sizeof(*k->candidate));
	if (!k->candidate)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < k->n && code == FF_OK; i++) {
		k->candidate[i].config = drafts[i];
		k->candidate[i].draft = i;
		code = price_candidate(a, node, &k->candidate[i], err);
	}
	qsort(k->candidate, k->n, sizeof(*k->candidate), by_cost);
	a->kind[node] = k;
	return code;
}

/* Leaves out what costs more than any edge can win back. */
static void prune(struct ff_additive *a, double slack_us)
{
	for (uint32_t i = 0; i < a->g->n_nodes; i++) {
		struct kind *k = a->kind[i];
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
		if (!ff_node_is_computed(g, i))
			continue;
		if (a->stop && a->stop(a->ctx)) {
			a->stopped = true;
			return FF_OK;
		}
		if (a->class[i] == i)
			code = add_kind(a, i, err);
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

/* Roughly what an edge takes: what some device lacks crosses a link. */
static double estimate(const struct ff_additive *a, const struct link *l,
		const struct candidate *from, const struct candidate *to)
{
	const struct ff_placement *in = &to->block.in[l->slot], *out = &from->block.out[l->port];
	uint32_t step = 1 + (to->config.n_parts - 1) / ESTIMATE_PARTS;
	struct ff_region wanted, own, both;
	int64_t most = 0;

	for (uint32_t p = 0; p < to->config.n_parts; p += step) {
		uint32_t at = from->part_on[to->block.device[p]];
		int64_t lacks;

		ff_placement_region(in, p, &wanted);
		lacks = ff_region_volume(&wanted);
		if (at > 0 && out->n_copies == 1) {
			ff_placement_region(out, at - 1, &own);
			lacks -= ff_region_intersect(&wanted, &own, &both);
		}
		if (lacks > most)
			most = lacks;
	}
	return most ? ESTIMATE_TIMES * (double)most * FF_ELEMENT_BYTES / a->link_bytes_per_us : 0;
}

static int price_entry(struct ff_additive *a, struct link *l, size_t i, struct ff_error *err)
{
	const struct kind *from = a->kind[l->from], *to = a->kind[l->to];

	l->priced[i] = true;
	return price_edge(a, l->edge, &from->candidate[i / to->n].block,
			&to->candidate[i % to->n].block, &l->us[i], &l->bytes[i], err);
}

static int by_size(const void *x, const void *y)
{
	const double *a = x, *b = y;

	return (*a > *b) - (*a < *b);
}

/* Prices what may be cheap; the rest is estimated until a solution has it. */
static int fill_link(struct ff_additive *a, struct link *l, struct ff_error *err)
{
	const struct kind *from = a->kind[l->from], *to = a->kind[l->to];
	size_t n = (size_t)from->n * to->n, few = PRICED_ALL / a->g->n_edges;
	struct ff_arena_mark mark;
	double *sorted, most;
	int code = FF_OK;

	if (few < PRICED_FIRST * (from->n > to->n ? from->n : to->n))
		few = PRICED_FIRST * (from->n > to->n ? from->n : to->n);
	l->us = ff_arena_array(&a->arena, n, sizeof(*l->us));
	l->bytes = ff_arena_array(&a->arena, n, sizeof(*l->bytes));
	l->priced = ff_arena_array(&a->arena, n, sizeof(*l->priced));
	mark = ff_arena_mark(&a->scratch);
	sorted = ff_arena_array(&a->scratch, n, sizeof(*sorted));
	if (!l->us || !l->bytes || !l->priced || !sorted)
		return ff_fail_memory(err);
	for (size_t i = 0; i < n; i++)
		sorted[i] = l->us[i] = estimate(
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
	struct link l = {.from = a->class[from],
			.to = a->class[x->node],
			.port = a->g->values[x->value].port,
			.slot = x->slot,
			.edge = edge};
	uint64_t hash = ff_hash_mix((uint64_t)l.from << 32 | l.to, (uint64_t)l.port << 32 | l.slot);
	uint32_t at, i;

	for (i = ff_table_first(&a->links, hash, &at); i != FF_NONE;
			i = ff_table_next(&a->links, hash, &at)) {
		const struct link *k = &a->link[i];

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

	a->kind = ff_arena_array(&a->arena, nodes, sizeof(struct kind *));
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
	a->bucket_bytes = ff_graph_parameters(a->g) * FF_ELEMENT_BYTES;
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
		const struct kind *k = a->kind[a->first_of[v]];

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
		const struct use *u = &a->use[i];
		const struct link *l = &a->link[u->link];
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
		const struct use *u = &a->use[i];
		struct link *l = &a->link[u->link];
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
