/* Lower bound: no strategy of the space takes less time than this.  Two
 * arguments, shown in docs/simulator.md: all the work there is, spread over
 * all devices, and the chain of parts that every strategy must run one after
 * another.
 *
 * Networks repeat themselves, so prices are gathered once for each kind of node
 * (equal prices for equal degrees), and there once for each kind of part; what
 * is left for every node is where its inputs come from.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ff/backward.h"
#include "ff/grow.h"
#include "ff/intervals.h"
#include "ff/micro.h"
#include "ff/search.h"

#define LOOK_EVERY 256 /* parts priced or looked up between two polls */

/* Which inputs a part reads; and of the parts of one kind of node that read just
 * these, what the recursion asks for. */
struct reads {
	uint64_t input[FF_MAX_INPUTS / 64 + 1];
	double first_us;   /* cheapest part of any degree vector */
	double forward_us; /* its forward alone, cheapest likewise */
	double last_us; /* of the degree vectors all of whose parts are such: least of the dearest
			 */
};

/* The dearest part that reads `reads` of a degree vector whose parts do not all
 * read the same; those of one vector follow each other. */
struct mixed {
	uint32_t reads;
	bool ends;
	double us;
};

struct part_price {
	double us;
	uint32_t reads;
};

/* Nodes with equal prices. */
struct kind {
	double all_us; /* device time of all parts, both passes: the least of any degrees */
	uint32_t reads, n_reads; /* slices of the arrays in struct bound */
	uint32_t mixed, n_mixed;
};

struct bound {
	const struct ff_graph *graph; /* of one micro-batch */
	uint32_t micro_batches;
	struct ff_pricer *pricer;
	bool (*stop)(void *ctx);
	void *ctx;
	bool stopped;
	uint32_t look_in;
	uint32_t n_devices;
	uint32_t n_device_kinds;
	uint32_t *device;   /* one of each kind in use */
	double *chain_us;   /* by node: earliest that the chain of any of its parts is through */
	double *forward_us; /* and that forward alone is */
	struct ff_intervals dim[FF_MAX_DIMS]; /* of the node at hand */
	struct ff_table kinds, parts;         /* parts: of the node at hand */
	struct kind *kind;
	struct part_price *part;
	struct reads *reads;
	struct mixed *mixed;
	uint32_t kind_cap, part_cap, n_reads, reads_cap, n_mixed, mixed_cap;
	struct ff_work work;
};

/* ---- kinds of nodes ---- */

static uint64_t hash_operand(const struct ff_operand *o)
{
	uint64_t h = ff_hash_mix(ff_hash_mix(0, o->rank), o->lead_only);

	for (uint32_t a = 0; a < o->rank; a++) {
		const struct ff_axis_map *m = &o->axis[a];

		h = ff_hash_mix(h, (uint64_t)o->shape[a]);
		h = ff_hash_mix(h, (uint64_t)(uint32_t)m->offset << 32 | (uint32_t)m->window);
		h = ff_hash_mix(h, (uint64_t)(uint32_t)m->from << 32 | (uint32_t)m->to);
		h = ff_hash_mix(h, (uint64_t)(uint32_t)m->over << 32 | m->n_terms << 2 |
						   (uint32_t)m->only);
		for (uint32_t t = 0; t < m->n_terms; t++) {
			h = ff_hash_mix(h, (uint64_t)m->term[t].dim);
			h = ff_hash_mix(h, (uint64_t)m->term[t].div);
			h = ff_hash_mix(h, (uint64_t)m->term[t].step);
		}
	}
	return h;
}

static uint64_t hash_attributes(const struct ff_node *n)
{
	const struct ff_op_row *row = ff_op_row(n->op);
	uint64_t h = ff_hash_mix(0, (uint64_t)n->op);

	for (uint32_t i = 0; i < row->n_attrs; i++) {
		const struct ff_attr_row *at = &row->attrs[i];
		const int32_t *v = (const int32_t *)(const void *)((const char *)&n->attrs +
								   at->offset);

		/* as in the cost key */
		for (uint32_t k = 0; at->in_key && k < ff_attr_ints(at); k++)
			h = ff_hash_mix(h, (uint64_t)(uint32_t)v[k]);
	}
	return h;
}

/* All that the price of a part depends on but its box: the key of its cost, its
 * FLOPs and its bytes, where it stands. */
static uint64_t hash_node(const struct bound *b, uint32_t node)
{
	const struct ff_graph *g = b->graph;
	const struct ff_node *n = &g->nodes[node];
	uint64_t h = ff_hash_mix(hash_attributes(n), ff_price_place(b->pricer, node));

	h = ff_hash_mix(h, (uint64_t)n->n_in << 32 | n->n_out << 8 | n->n_dims);
	h = ff_hash_mix(h, (uint64_t)n->flops_forward);
	h = ff_hash_mix(h, (uint64_t)n->flops_backward);
	for (uint32_t d = 0; d < n->n_dims; d++)
		h = ff_hash_mix(h, (uint64_t)n->dim[d].extent << 8 | (uint64_t)n->dim[d].label);
	for (uint32_t i = 0; i < n->n_in; i++) {
		bool needs_grad = g->values[g->edges[n->in + i].value].needs_grad;

		h = ff_hash_mix(h, hash_operand(&n->in_map[i]) ^ needs_grad);
	}
	for (uint32_t k = 0; k < n->n_out; k++)
		h = ff_hash_mix(h, hash_operand(&n->out_map[k]));
	return ff_hash_mix(h, g->values[n->out].needs_grad);
}

/* ---- prices of parts ---- */

/* Whether to give up; asked now and then. */
static bool look(struct bound *b)
{
	if (b->look_in-- == 0) {
		b->look_in = LOOK_EVERY;
		b->stopped = b->stopped || (b->stop && b->stop(b->ctx));
	}
	return b->stopped;
}

/* The part's time on the kind of device that is fastest at it. */
static int fastest_us(struct bound *b, double *us, struct ff_error *err)
{
	double best = INFINITY;

	for (uint32_t k = 0; k < b->n_device_kinds; k++) {
		double here;
		int code = ff_price_least(b->pricer, &b->work, b->device[k], &here, err);

		if (code < 0)
			return code;
		best = fmin(best, here);
	}
	*us = best;
	return FF_OK;
}

/* Number of what the part in b->work reads, among those of the kind at hand. */
static int find_reads(struct bound *b, const struct kind *kind, uint32_t *ret, struct ff_error *err)
{
	struct reads r = {.first_us = INFINITY, .forward_us = INFINITY, .last_us = INFINITY};
	uint32_t i;
	int code;

	for (i = 0; i < b->work.node->n_data - b->work.node->n_carried; i++)
		if (ff_region_volume(&b->work.in[i]))
			r.input[i / 64] |= UINT64_C(1) << i % 64;
	for (i = kind->reads; i < b->n_reads; i++)
		if (!memcmp(b->reads[i].input, r.input, sizeof(r.input)))
			break;
	if (i == b->n_reads) {
		code = ff_grow(&b->reads, b->n_reads, &b->reads_cap, sizeof(*b->reads), err);
		if (code < 0)
			return code;
		b->reads[b->n_reads++] = r;
	}
	*ret = i;
	return FF_OK;
}

/* Forward and backward of a part. */
static int price_part(struct bound *b, uint32_t node, const struct ff_config *config, uint32_t part,
		const struct kind *kind, struct part_price *ret, struct ff_error *err)
{
	const struct ff_node *n = &b->graph->nodes[node];
	struct ff_region box;
	double forward_us, backward_us = 0;
	struct reads *r;
	int code;

	ff_config_box(n, config, part, &box);
	ff_work_fill(b->graph, node, &box, FF_FORWARD, &b->work);
	code = find_reads(b, kind, &ret->reads, err);
	if (code == FF_OK)
		code = fastest_us(b, &forward_us, err);
	if (code == FF_OK && ff_node_needs_grad(b->graph, node)) {
		ff_work_fill(b->graph, node, &box, FF_BACKWARD, &b->work);
		code = fastest_us(b, &backward_us, err);
	}
	if (code < 0)
		return code;
	ret->us = forward_us + backward_us;
	r = &b->reads[ret->reads];
	r->first_us = fmin(r->first_us, ret->us);
	r->forward_us = fmin(r->forward_us, forward_us);
	return FF_OK;
}

/* The price of the part at one interval of each dim, known or new; `like` is of
 * all these intervals. */
static int find_part(struct bound *b, uint32_t node, const struct ff_config *config,
		const struct ff_interval *const *at, uint64_t like, const struct kind *kind,
		struct part_price *ret, struct ff_error *err)
{
	uint32_t part = 0, slot, i = ff_table_first(&b->parts, like, &slot);
	int code;

	if (i != FF_NONE) {
		*ret = b->part[i];
		return FF_OK;
	}
	for (uint32_t d = 0; d < b->graph->nodes[node].n_dims; d++)
		part = part * config->degree[d] + at[d]->first;
	code = price_part(b, node, config, part, kind, ret, err);
	if (code == FF_OK)
		code = ff_grow(&b->part, b->parts.n, &b->part_cap, sizeof(*b->part), err);
	if (code < 0)
		return code;
	b->part[b->parts.n] = *ret;
	return ff_table_put(&b->parts, like, b->parts.n) < 0 ? ff_fail_memory(err) : FF_OK;
}

/* ---- degree vectors ---- */

/* Notes that the vector whose figures begin at `from` has such a part. */
static int add_mixed(
		struct bound *b, uint32_t from, const struct part_price *p, struct ff_error *err)
{
	uint32_t i = from;
	int code;

	while (i < b->n_mixed && b->mixed[i].reads != p->reads)
		i++;
	if (i < b->n_mixed) {
		b->mixed[i].us = fmax(b->mixed[i].us, p->us);
		return FF_OK;
	}
	code = ff_grow(&b->mixed, i, &b->mixed_cap, sizeof(*b->mixed), err);
	if (code < 0)
		return code;
	b->mixed[b->n_mixed++] = (struct mixed){.reads = p->reads, .us = p->us};
	return FF_OK;
}

/* Ends the figures of a vector; where all parts read the same, one number does. */
static void end_mixed(struct bound *b, uint32_t from)
{
	struct reads *r = &b->reads[b->mixed[from].reads];

	b->mixed[b->n_mixed - 1].ends = true;
	if (b->n_mixed - from > 1)
		return;
	r->last_us = fmin(r->last_us, b->mixed[from].us);
	b->n_mixed = from;
}

/* Every combination of one interval a dim. */
static int tally_degrees(struct bound *b, uint32_t node, const struct ff_config *config,
		struct kind *kind, struct ff_error *err)
{
	uint32_t n_dims = b->graph->nodes[node].n_dims, d = 0, from = b->n_mixed;
	const struct ff_interval *at[FF_MAX_DIMS];
	uint64_t like[FF_MAX_DIMS + 1] = {0};
	double count[FF_MAX_DIMS + 1] = {1}, all_us = 0;

	for (uint32_t i = 0; i < n_dims; i++)
		at[i] = &b->dim[i].interval[b->dim[i].of_degree[config->degree[i]]];
	while (!look(b)) {
		struct part_price p;
		int code;

		for (; d < n_dims; d++) {
			like[d + 1] = ff_hash_mix(like[d], at[d]->like);
			count[d + 1] = count[d] * at[d]->count;
		}
		code = find_part(b, node, config, at, like[n_dims], kind, &p, err);
		if (code == FF_OK)
			code = add_mixed(b, from, &p, err);
		if (code < 0)
			return code;
		all_us += count[n_dims] * p.us;
		while (d-- > 0) { /* an odometer, last dim fastest */
			const struct ff_intervals *s = &b->dim[d];

			if (++at[d] < s->interval + s->of_degree[config->degree[d] + 1])
				break;
			at[d] = s->interval + s->of_degree[config->degree[d]];
		}
		if (d == UINT32_MAX)
			break;
	}
	if (b->stopped)
		return FF_OK;
	kind->all_us = fmin(kind->all_us, all_us);
	end_mixed(b, from);
	return FF_OK;
}

static int find_intervals(struct bound *b, const struct ff_node *n, struct ff_error *err)
{
	for (uint32_t d = 0; d < n->n_dims; d++) {
		uint32_t most = (uint32_t)n->dim[d].extent;
		int code;

		most = most < b->n_devices ? most : b->n_devices;
		code = ff_intervals_start(&b->dim[d], most, err);
		for (uint32_t k = 1; k <= most && code == FF_OK && !look(b); k++)
			code = ff_intervals_add(&b->dim[d], n, d, k, err);
		if (code < 0)
			return code;
	}
	return FF_OK;
}

/* Gathers the prices of a kind of node, of which `node` is the first. */
static int tally_kind(struct bound *b, uint32_t node, struct kind *ret, struct ff_error *err)
{
	const struct ff_node *n = &b->graph->nodes[node];
	struct ff_config config = {.n_parts = 0};
	int code = find_intervals(b, n, err);

	*ret = (struct kind){.all_us = INFINITY, .reads = b->n_reads, .mixed = b->n_mixed};
	ff_table_clear(&b->parts);
	while (code == FF_OK && !b->stopped && ff_config_next_degrees(n, b->n_devices, &config))
		code = tally_degrees(b, node, &config, ret, err);
	ret->n_reads = b->n_reads - ret->reads;
	ret->n_mixed = b->n_mixed - ret->mixed;
	return code;
}

static int kind_of(struct bound *b, uint32_t node, struct kind *ret, struct ff_error *err)
{
	uint64_t hash = hash_node(b, node);
	uint32_t at, i = ff_table_first(&b->kinds, hash, &at);
	int code;

	if (i != FF_NONE) {
		*ret = b->kind[i];
		return FF_OK;
	}
	code = tally_kind(b, node, ret, err);
	if (code == FF_OK)
		code = ff_grow(&b->kind, b->kinds.n, &b->kind_cap, sizeof(*b->kind), err);
	if (code < 0)
		return code;
	b->kind[b->kinds.n] = *ret;
	return ff_table_put(&b->kinds, hash, b->kinds.n) < 0 ? ff_fail_memory(err) : FF_OK;
}

/* ---- the chain ---- */

/* When what `us` tells of its producers is done: a part waits for some part of every
 * producer whose output it reads.  What is carried it may have none of. */
static double before_us(const struct bound *b, const struct ff_node *n, const struct reads *r,
		const double *us)
{
	double at = 0;

	for (uint32_t i = 0; i < n->n_data - n->n_carried; i++)
		if (r->input[i / 64] >> i % 64 & 1)
			at = fmax(at, us[ff_edge_source(b->graph, n->in + i)]);
	return at;
}

/* Whether the backward of what `node` reads waits for it: not where it gives that no gradient.  A
 * prelude gives none either, but the node behind it does. */
static bool is_waited_for(const struct ff_graph *g, uint32_t node)
{
	return ff_node_needs_grad(g, node) || ff_node_is_prelude(g, node);
}

/* Finds the shortest chain that ends with a part of `node`, and what the longest of
 * those that end with any part takes at least. */
static void chain_of(struct bound *b, uint32_t node, const struct kind *kind, double *last_us)
{
	const struct ff_node *n = &b->graph->nodes[node];
	const double *before = is_waited_for(b->graph, node) ? b->chain_us : b->forward_us;
	double first_us = INFINITY, forward_us = INFINITY, most_us = 0;

	*last_us = INFINITY;
	for (uint32_t i = kind->reads; i < kind->reads + kind->n_reads; i++) {
		const struct reads *r = &b->reads[i];
		double us = before_us(b, n, r, before);

		first_us = fmin(first_us, us + r->first_us);
		*last_us = fmin(*last_us, us + r->last_us);
		forward_us = fmin(forward_us, before_us(b, n, r, b->forward_us) + r->forward_us);
	}
	for (uint32_t i = kind->mixed; i < kind->mixed + kind->n_mixed; i++) {
		const struct mixed *m = &b->mixed[i];

		most_us = fmax(most_us, before_us(b, n, &b->reads[m->reads], before) + m->us);
		if (m->ends) {
			*last_us = fmin(*last_us, most_us);
			most_us = 0;
		}
	}
	b->chain_us[node] = first_us;
	b->forward_us[node] = forward_us;
}

/* Updates of all weights; an update's time is a line with an intercept >= 0,
 * so cutting the weights into buckets makes it no shorter. */
static double updates_us(const struct bound *b)
{
	int64_t bytes = ff_graph_parameters(b->graph) * FF_F32_BYTES;
	double best = INFINITY;

	for (uint32_t k = 0; k < b->n_device_kinds && bytes; k++)
		best = fmin(best, ff_price_update(b->pricer, b->device[k], bytes));
	return bytes ? best : 0;
}

static int run(struct bound *b, double *us, struct ff_error *err)
{
	double all_us = updates_us(b), longest_us = 0;

	for (uint32_t i = 0; i < b->graph->n_nodes && !b->stopped; i++) {
		double last_us;
		struct kind kind;
		int code;

		if (!ff_node_is_computed(b->graph, i))
			continue;
		code = kind_of(b, i, &kind, err);
		if (code < 0)
			return code;
		if (b->stopped)
			break;
		all_us += b->micro_batches * kind.all_us;
		chain_of(b, i, &kind, &last_us);
		longest_us = fmax(longest_us, last_us);
	}
	*us = b->stopped ? NAN : fmax(all_us / b->n_devices, longest_us);
	return FF_OK;
}

/* One device of each kind in use. */
static void find_kinds(struct bound *b, const struct ff_machine *m)
{
	for (uint32_t i = 0; i < m->n_nodes; i++) {
		uint32_t k = 0;

		while (k < b->n_device_kinds &&
				m->nodes[m->node_of[b->device[k]]].kind != m->nodes[i].kind)
			k++;
		if (k == b->n_device_kinds)
			b->device[b->n_device_kinds++] = m->nodes[i].first;
	}
}

static int create(struct bound *b, const struct ff_machine *m, struct ff_arena *a,
		struct ff_error *err)
{
	b->n_devices = m->n_devices;
	b->device = ff_arena_array(a, m->n_kinds, sizeof(*b->device));
	b->chain_us = ff_arena_array(a, b->graph->n_nodes, sizeof(*b->chain_us));
	b->forward_us = ff_arena_array(a, b->graph->n_nodes, sizeof(*b->forward_us));
	if (!b->device || !b->chain_us || !b->forward_us)
		return ff_fail_memory(err);
	find_kinds(b, m);
	return FF_OK;
}

static void finish(struct bound *b)
{
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		ff_intervals_finish(&b->dim[d]);
	ff_table_finish(&b->kinds);
	ff_table_finish(&b->parts);
	free(b->kind);
	free(b->part);
	free(b->reads);
	free(b->mixed);
}

int ff_lower_bound(const struct ff_graph *g, uint32_t micro_batches, const struct ff_machine *m,
		struct ff_pricer *p, bool (*stop)(void *ctx), void *ctx, double *us,
		struct ff_error *err)
{
	struct ff_arena scratch;
	struct ff_graph micro;
	struct bound *b;
	int code;

	ff_arena_init(&scratch);
	b = ff_arena_alloc(&scratch, sizeof(*b));
	if (!b) {
		ff_arena_finish(&scratch);
		return ff_fail_memory(err);
	}
	b->graph = &micro;
	b->micro_batches = micro_batches;
	b->pricer = p;
	b->stop = stop;
	b->ctx = ctx;
	code = ff_graph_micro(g, micro_batches, &scratch, &micro, err);
	if (code == FF_OK)
		code = create(b, m, &scratch, err);
	if (code == FF_OK)
		code = run(b, us, err);
	finish(b);
	ff_arena_finish(&scratch);
	return code;
}
