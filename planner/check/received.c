/* Regions of parts against each other: no device has two parts of one operator, so what a part
 * needs of several others comes from other devices.  SPDX-License-Identifier: Apache-2.0 */
#include "received.h"

#include <math.h>
#include <string.h>

#include "chain.h"
#include "dims.h"
#include "ff/backward.h"
#include "ff/config.h"
#include "ff/work.h"

/* The regions of one operand under one degree vector. */
struct boxes {
	uint32_t n; /* parts */
	struct ff_region box[FF_RECEIVED_DEVICES];
	uint32_t n_distinct; /* of those that are not empty */
	struct ff_region distinct[FF_RECEIVED_DEVICES];
	uint32_t count[FF_RECEIVED_DEVICES]; /* parts that have just this one */
	uint32_t copies;                     /* the least of these */
	bool meet;                           /* some of the distinct ones */
};

/* Under all degree vectors. */
struct operand {
	uint32_t n;
	struct boxes *at;
};

struct finder {
	struct ff_kinds *kinds;
	const struct ff_graph *g;
	struct ff_arena *a, scratch;
	struct ff_received *of; /* by node */
	bool *taken;            /* by value: a reader of it counts */
	struct ff_table known;  /* of equal pairs of nodes the first reader */
};

static void add_box(struct boxes *b, const struct ff_region *box)
{
	uint32_t i = 0;

	b->box[b->n++] = *box;
	if (!ff_region_volume(box))
		return;
	while (i < b->n_distinct && !ff_region_equal(&b->distinct[i], box))
		i++;
	b->distinct[i] = *box;
	if (i == b->n_distinct)
		b->count[b->n_distinct++] = 0;
	b->count[i]++;
}

static void end_boxes(struct boxes *b)
{
	struct ff_region both;

	b->copies = UINT32_MAX;
	for (uint32_t i = 0; i < b->n_distinct; i++) {
		b->copies = b->count[i] < b->copies ? b->count[i] : b->copies;
		for (uint32_t k = 0; k < i && !b->meet; k++)
			b->meet = ff_region_intersect(&b->distinct[i], &b->distinct[k], &both) > 0;
	}
}

static void fill_boxes(const struct ff_graph *g, uint32_t node, const struct ff_config *c, bool out,
		uint32_t slot, struct boxes *ret)
{
	*ret = (struct boxes){.n = 0};
	for (uint32_t part = 0; part < c->n_parts; part++) {
		struct ff_region box;
		struct ff_work work;

		ff_config_box(&g->nodes[node], c, part, &box);
		ff_work_fill(g, node, &box, FF_FORWARD, &work);
		add_box(ret, out ? &work.out[slot] : &work.in[slot]);
	}
	end_boxes(ret);
}

static uint32_t count_vectors(const struct finder *f, uint32_t node)
{
	struct ff_config c = {.n_parts = 0};
	uint32_t n = 0;

	while (ff_config_next_degrees(&f->g->nodes[node], f->kinds->n_devices, &c))
		n++;
	return n;
}

static int find_operand(struct finder *f, uint32_t node, bool out, uint32_t slot,
		struct operand *ret, struct ff_error *err)
{
	struct ff_config c = {.n_parts = 0};

	ret->n = 0;
	ret->at = ff_arena_array(&f->scratch, count_vectors(f, node), sizeof(*ret->at));
	if (!ret->at)
		return ff_fail_memory(err);
	while (ff_config_next_degrees(&f->g->nodes[node], f->kinds->n_devices, &c))
		fill_boxes(f->g, node, &c, out, slot, &ret->at[ret->n++]);
	return FF_OK;
}

/* ---- from one node to another ---- */

/* Elements of `sink` that some of the sources have, at least: pairs that overlap count once too
 * often, and less than the largest it is not. */
static double covered(const struct ff_region *sink, const struct boxes *sources, double *largest)
{
	struct ff_region met[FF_RECEIVED_DEVICES], both;
	double sum = 0;
	uint32_t n = 0;

	*largest = 0;
	for (uint32_t i = 0; i < sources->n_distinct; i++) {
		double volume = (double)ff_region_intersect(sink, &sources->distinct[i], &met[n]);

		if (!(volume > 0))
			continue;
		sum += volume;
		*largest = fmax(*largest, volume);
		for (uint32_t k = 0; k < n && sources->meet; k++)
			sum -= (double)ff_region_intersect(&met[n], &met[k], &both);
		n++;
	}
	return fmax(sum, *largest);
}

/* Bytes that the devices of all sinks receive, at least: what that adds up to; and how long the
 * first waits for its own, and each.  A device has one source at most: of what only that has
 * nothing comes, of what several have each a share of a sum something does. */
static double received(const struct ff_kinds *k, const struct boxes *sinks,
		const struct boxes *sources, double size, double *first, double *least)
{
	double sum = 0;

	*least = INFINITY;
	for (uint32_t i = 0; i < sinks->n; i++) {
		double own, all = covered(&sinks->box[i], sources, &own);
		double here = size * (sources->copies > 1 ? all : all - own);
		double others = ff_kinds_others(all, own, sources->copies);
		double us = ff_least_wait_us(&k->moves.wait, here, others);

		*first = i ? *first : us;
		*least = fmin(*least, us);
		sum += here;
	}
	return sum;
}

/* Gradients of several readers of a value are added up, each element of each: in the part that made
 * it, or, by parts that read alike, in theirs. */
static bool adds_up(const struct ff_graph *g, uint32_t edge)
{
	const struct ff_value *v = &g->values[g->edges[edge].value];
	uint32_t n = 0;

	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t e = ff_value_use(g, v, u);
		const struct ff_node *reader = &g->nodes[g->edges[e].node];

		if (!ff_edge_needs_grad(g, e))
			continue;
		if (ff_edge_is_carried(g, e) ||
				!ff_reads_all(reader, &reader->in_map[g->edges[e].slot]))
			return false;
		n++;
	}
	return n > 1;
}

static double least_volume(const struct boxes *b)
{
	double least = INFINITY;

	for (uint32_t i = 0; i < b->n; i++)
		least = fmin(least, (double)ff_region_volume(&b->box[i]));
	return least;
}

static void fill_pairs(struct finder *f, uint32_t edge, const struct operand *from,
		const struct operand *to, struct ff_handed *ret)
{
	const struct ff_value *v = &f->g->values[f->g->edges[edge].value];
	double size = (double)ff_dtype_bytes(v->dtype);
	bool adds = adds_up(f->g, edge);

	for (uint32_t i = 0; i < from->n; i++)
		for (uint32_t k = 0; k < to->n && !ff_kinds_look(f->kinds); k++, ret++) {
			*ret = (struct ff_handed){.all = 0};
			ret->all = received(f->kinds, &to->at[k], &from->at[i], size,
					&ret->first_us, &ret->least_us);
			if (ff_edge_needs_grad(f->g, edge))
				ret->all += received(f->kinds, &from->at[i], &to->at[k], size,
						&ret->back_first_us, &ret->back_least_us);
			if (adds)
				ret->added_us = ff_kinds_add_us(f->kinds,
						size * fmin(least_volume(&from->at[i]),
								       least_volume(&to->at[k])));
		}
}

/* Of classes. */
static int find_class_pairs(
		struct finder *f, uint32_t edge, struct ff_received *r, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(&f->scratch);
	int code = ff_class_pairs_find(
			f->kinds, edge, adds_up(f->g, edge), &f->scratch, f->a, &r->pairs, err);

	r->n_from = ff_class_count(f->kinds->n_devices);
	ff_arena_rewind(&f->scratch, mark);
	return code;
}

struct ff_handed ff_received_handed(const struct ff_received *r, uint32_t from, uint32_t own)
{
	return r->handed ? r->handed[(size_t)from * r->n + own]
			 : ff_class_pairs_handed(&r->pairs, from, own);
}

static int find_pairs(struct finder *f, uint32_t edge, struct ff_received *r, struct ff_error *err)
{
	const struct ff_edge *e = &f->g->edges[edge];
	struct ff_arena_mark mark = ff_arena_mark(&f->scratch);
	uint32_t port = f->g->values[e->value].port;
	struct operand from, to;
	struct ff_handed *handed;
	int code = find_operand(f, r->from, true, port, &from, err);

	if (code == FF_OK)
		code = find_operand(f, e->node, false, e->slot, &to, err);
	if (code < 0)
		return code;
	r->n_from = from.n;
	handed = ff_arena_array(f->a, (size_t)from.n * to.n, sizeof(*handed));
	r->handed = handed;
	if (!handed)
		return ff_fail_memory(err);
	fill_pairs(f, edge, &from, &to, handed);
	ff_arena_rewind(&f->scratch, mark);
	return FF_OK;
}

/* The same for equal nodes at both ends. */
static int share_pairs(struct finder *f, uint32_t edge, struct ff_received *r, struct ff_error *err)
{
	const struct ff_edge *e = &f->g->edges[edge];
	const struct ff_value *v = &f->g->values[e->value];
	uint64_t hash = ff_hash_mix(1, ff_kinds_hash(f->kinds, r->from));
	uint32_t at, known;
	int code;

	hash = ff_hash_mix(hash, ff_kinds_hash(f->kinds, e->node));
	hash = ff_hash_mix(hash, ff_kinds_hash(f->kinds, ff_node_leader(f->g, e->node)));
	hash = ff_hash_mix(hash, (uint64_t)e->slot << 32 | (uint64_t)v->dtype << 16 | v->port);
	hash = ff_hash_mix(hash, ff_edge_needs_grad(f->g, edge) + 2u * adds_up(f->g, edge));
	known = ff_table_first(&f->known, hash, &at);
	if (known != FF_NONE) {
		r->n_from = f->of[known].n_from;
		r->handed = f->of[known].handed;
		r->pairs = f->of[known].pairs;
		return FF_OK;
	}
	code = f->kinds->kept.every ? find_pairs(f, edge, r, err)
				    : find_class_pairs(f, edge, r, err);
	if (code < 0 || f->kinds->stopped)
		return code;
	return ff_table_put(&f->known, hash, (uint32_t)(r - f->of)) < 0 ? ff_fail_memory(err)
									: FF_OK;
}

/* ---- parameters ---- */

/* Of parts that read the same of a parameter all but one must hand their gradients on, and all but
 * one must be sent the weights that come of them.  Regions that backward finds to be others do not
 * count. */
static double parameter_bytes(
		const struct finder *f, uint32_t node, uint32_t slot, const struct ff_config *c)
{
	const struct ff_graph *g = f->g;
	uint32_t edge = g->nodes[node].in + slot;
	const struct ff_value *v = &g->values[g->edges[edge].value];
	double elements = 0;
	struct boxes b;

	fill_boxes(g, node, c, false, slot, &b);
	for (uint32_t part = 0; part < c->n_parts; part++) {
		struct ff_region box;
		struct ff_work work;

		ff_config_box(&g->nodes[node], c, part, &box);
		ff_work_fill(g, node, &box, FF_BACKWARD, &work);
		if (!work.need_din[slot] || work.in[slot].rank != b.box[part].rank ||
				!ff_region_equal(&work.in[slot], &b.box[part]))
			return 0;
	}
	for (uint32_t i = 0; i < b.n_distinct; i++)
		elements += (double)(b.count[i] - 1) * (double)ff_region_volume(&b.distinct[i]);
	return elements * (double)(FF_F32_BYTES + ff_dtype_bytes(v->dtype));
}

/* Read once, so its gradient is made there alone. */
static bool is_alone(const struct ff_graph *g, uint32_t edge)
{
	return ff_node_is_parameter(g, ff_edge_source(g, edge)) &&
	       g->values[g->edges[edge].value].n_uses == 1 && ff_edge_needs_grad(g, edge);
}

static int find_params(struct finder *f, uint32_t node, struct ff_received *r, struct ff_error *err)
{
	const struct ff_node *n = &f->g->nodes[node];
	double *params = ff_arena_array(f->a, r->n, sizeof(*params));
	struct ff_config c = {.n_parts = 0};
	uint32_t k = 0;

	if (!params)
		return ff_fail_memory(err);
	r->params = params;
	for (; ff_config_next_degrees(n, f->kinds->n_devices, &c) && !ff_kinds_look(f->kinds);
			k++) {
		params[k] = 0;
		for (uint32_t slot = n->n_data; slot < n->n_in; slot++)
			if (is_alone(f->g, n->in + slot))
				params[k] += parameter_bytes(f, node, slot, &c);
	}
	return FF_OK;
}

/* ---- all nodes ---- */

/* Whether what goes over `edge` may count for `node`, which reads there, or whose prelude does. */
static bool may_count(const struct finder *f, uint32_t node, uint32_t edge)
{
	const struct ff_graph *g = f->g;
	uint32_t from = ff_edge_source(g, edge), reader = g->edges[edge].node;

	return ff_chain_may_pass(g, edge) && !f->taken[g->edges[edge].value] &&
	       !ff_node_is_prelude(g, from) && from < node && ff_degrees_of(g, reader) == node &&
	       (f->kinds->kept.every || ff_class_pairs_may(g, edge));
}

/* The edge of `reader` over which most goes that may count, or `best` if that is more. */
static uint32_t widest(const struct finder *f, uint32_t node, uint32_t reader, uint32_t best)
{
	const struct ff_graph *g = f->g;

	for (uint32_t k = 0; k < g->nodes[reader].n_data; k++) {
		uint32_t edge = g->nodes[reader].in + k;
		const struct ff_value *v = &g->values[g->edges[edge].value], *b;

		if (!may_count(f, node, edge))
			continue;
		b = best == FF_NONE ? NULL : &g->values[g->edges[best].value];
		if (!b || ff_value_volume(v) > ff_value_volume(b))
			best = edge;
	}
	return best;
}

static int find_node(struct finder *f, uint32_t node, struct ff_error *err)
{
	struct ff_received *r = &f->of[node];
	uint32_t prelude = ff_node_prelude(f->g, node), edge = widest(f, node, node, FF_NONE);
	int code;

	if (prelude != FF_NONE)
		edge = widest(f, node, prelude, edge);
	r->n = f->kinds->kept.every ? count_vectors(f, node) : ff_class_count(f->kinds->n_devices);
	code = f->kinds->kept.every ? find_params(f, node, r, err) : FF_OK;
	if (code < 0 || edge == FF_NONE)
		return code;
	f->taken[f->g->edges[edge].value] = true;
	r->from = ff_edge_source(f->g, edge);
	r->edge = edge;
	return share_pairs(f, edge, r, err);
}

int ff_received_find(struct ff_kinds *k, struct ff_arena *a, struct ff_received **ret,
		struct ff_error *err)
{
	struct finder f = {.kinds = k, .g = k->graph, .a = a};
	uint32_t n = k->graph->n_nodes;
	int code = FF_OK;

	ff_arena_init(&f.scratch);
	f.of = ff_arena_array(a, n, sizeof(*f.of));
	f.taken = ff_arena_array(&f.scratch, k->graph->n_values, sizeof(*f.taken));
	if (!f.of || !f.taken)
		code = ff_fail_memory(err);
	if (code == FF_OK)
		memset(f.taken, 0, k->graph->n_values * sizeof(*f.taken));
	for (uint32_t i = 0; i < n && code == FF_OK && !k->stopped; i++) {
		f.of[i] = (struct ff_received){.from = FF_NONE};
		if (ff_node_needs_config(k->graph, i))
			code = find_node(&f, i, err);
	}
	ff_table_finish(&f.known);
	ff_arena_finish(&f.scratch);
	*ret = f.of;
	return code;
}
