/* Prices of all parts of all degree vectors, gathered once for each kind of node (equal prices for
 * equal degrees), and there once for each kind of part.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kinds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dims.h"
#include "ff/backward.h"
#include "ff/config.h"
#include "ff/grow.h"
#include "ff/work.h"

#define MOST_GROUPS 8       /* of channels of one degree vector, that are not alike */
#define QUOTIENT_SLACK 1e-9 /* of volumes */
#define KEPT (FF_NONE - 1)  /* instead of what follows a split */
#define LOOK_EVERY 256      /* parts priced or looked up between two polls */

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
static uint64_t hash_node(const struct ff_kinds *b, uint32_t node)
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

uint64_t ff_kinds_hash(const struct ff_kinds *b, uint32_t node)
{
	uint32_t leader = ff_degrees_of(b->graph, node);
	uint64_t h = hash_node(b, node);

	return leader == node ? h : ff_hash_mix(h, hash_node(b, leader)); /* whose classes it has */
}

/* ---- prices of parts ---- */

bool ff_kinds_look(struct ff_kinds *b)
{
	if (b->look_in-- == 0) {
		b->look_in = LOOK_EVERY;
		b->stopped = b->stopped || (b->stop && b->stop(b->ctx));
	}
	return b->stopped;
}

/* The part's time on the kind of device that is fastest at it. */
static int fastest_us(struct ff_kinds *b, double *us, struct ff_error *err)
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
static int find_reads(
		struct ff_kinds *b, const struct ff_kind *kind, uint32_t *ret, struct ff_error *err)
{
	struct ff_reads r = {.first_us = INFINITY, .forward_us = INFINITY, .last_us = INFINITY};
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

/* Whether backward of the part at hand may be computed in two. */
static bool gives_data(const struct ff_kinds *b, const struct ff_node *n)
{
	bool data = false;

	for (uint32_t i = 0; i < n->n_data; i++)
		data = data || b->work.need_din[i];
	return data && (ff_op_row(n->op)->flags & FF_OP_HALVES);
}

/* Forward and backward of a part. */
static int price_part(struct ff_kinds *b, uint32_t node, const struct ff_config *config,
		uint32_t part, const struct ff_kind *kind, struct ff_part_us *ret,
		struct ff_error *err)
{
	const struct ff_node *n = &b->graph->nodes[node];
	struct ff_region box;
	double forward_us, backward_us = 0, chained_us = 0;
	struct ff_reads *r;
	int code;

	ff_config_box(n, config, part, &box);
	ff_work_fill(b->graph, node, &box, FF_FORWARD, &b->work);
	code = find_reads(b, kind, &ret->reads, err);
	if (code == FF_OK)
		code = fastest_us(b, &forward_us, err);
	if (code == FF_OK && ff_node_needs_grad(b->graph, node)) {
		ff_work_fill(b->graph, node, &box, FF_BACKWARD, &b->work);
		code = fastest_us(b, &backward_us, err);
		chained_us = backward_us;
	}
	if (code == FF_OK && b->halves && gives_data(b, n)) {
		ff_work_keep(&b->work, FF_GRADS_DATA);
		code = fastest_us(b, &chained_us, err);
	}
	if (code < 0)
		return code;
	ret->us = forward_us + backward_us;
	ret->chain_us = forward_us + chained_us;
	ret->forward_us = forward_us;
	r = &b->reads[ret->reads];
	r->first_us = fmin(r->first_us, ret->chain_us);
	r->forward_us = fmin(r->forward_us, forward_us);
	return FF_OK;
}

/* The price of the part at one interval of each dim, known or new; `like` is of
 * all these intervals. */
static int find_part(struct ff_kinds *b, uint32_t node, const struct ff_config *config,
		const struct ff_interval *const *at, uint64_t like, const struct ff_kind *kind,
		struct ff_part_us *ret, struct ff_error *err)
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
		struct ff_kinds *b, uint32_t from, const struct ff_part_us *p, struct ff_error *err)
{
	uint32_t i = from;
	int code;

	while (i < b->n_mixed && b->mixed[i].reads != p->reads)
		i++;
	if (i < b->n_mixed) {
		b->mixed[i].us = fmax(b->mixed[i].us, p->chain_us);
		return FF_OK;
	}
	code = ff_grow(&b->mixed, i, &b->mixed_cap, sizeof(*b->mixed), err);
	if (code < 0)
		return code;
	b->mixed[b->n_mixed++] = (struct ff_mixed){.reads = p->reads, .us = p->chain_us};
	return FF_OK;
}

/* Ends the figures of a vector; where all parts read the same, one number does. */
static void end_mixed(struct ff_kinds *b, uint32_t from)
{
	struct ff_reads *r = &b->reads[b->mixed[from].reads];

	b->mixed[b->n_mixed - 1].ends = true;
	if (b->n_mixed - from > 1)
		return;
	r->last_us = fmin(r->last_us, b->mixed[from].us);
	b->n_mixed = from;
}

static bool is_below(const struct ff_split_us *a, const struct ff_split_us *b)
{
	return a->number == b->number && a->first_us <= b->first_us && a->least_us <= b->least_us &&
	       a->all_us <= b->all_us && a->placed_us <= b->placed_us && a->wide_us <= b->wide_us &&
	       a->open_us <= b->open_us && a->sum_us <= b->sum_us;
}

/* How many parts have to reduce what `prelude` finds, each for itself. */
static uint32_t count_summed(const struct ff_node *prelude, const struct ff_config *config)
{
	uint32_t n = 1;

	for (uint32_t d = 0; d < prelude->n_dims; d++)
		n *= prelude->dim[d].label == FF_DIM_REDUCTION ? config->degree[d] : 1;
	return n;
}

/* All `n` devices reduce the whole of a value; else only of how many there are something is
 * known. */
static double sum_us(const struct ff_kinds *b, uint32_t n, enum ff_reduce reduce, int64_t elements)
{
	if (n == b->n_devices)
		return ff_price_sum_us(b->pricer, n, reduce, elements);
	return b->moves.sum_us[reduce != FF_REDUCE_SUM][n];
}

/* Until `node`'s parts know what its prelude's found, and until those of the prelude have what
 * comes back of that. */
static double sums_us(const struct ff_kinds *b, uint32_t node, const struct ff_config *config)
{
	uint32_t prelude = ff_node_prelude(b->graph, node), n;
	const struct ff_node *p = prelude == FF_NONE ? NULL : &b->graph->nodes[prelude];
	int64_t elements;

	if (!p || ff_degrees_of(b->graph, prelude) != node || !(b->kept.every || b->kept.classes))
		return 0;
	n = count_summed(p, config);
	elements = ff_value_volume(&b->graph->values[p->out]);
	return sum_us(b, n, p->out_map[0].reduce, elements) + sum_us(b, n, FF_REDUCE_SUM, elements);
}

/* Keeps `s` unless another of its class is below it; drops those that it is below.  One that is
 * below this is likely to be below the next, and goes first.  `split` of a kind that is being
 * gathered has gaps, as what is dropped stays there. */
static int add_split(struct ff_kinds *b, const struct ff_split_us *s, struct ff_error *err)
{
	uint32_t *first = b->kept.every ? NULL : &b->lists.first[s->number], *at, i = b->n_split;
	int code;

	for (at = first; at && *at != FF_NONE;) {
		uint32_t here = *at;

		if (is_below(&b->split[here], s)) {
			*at = b->lists.next[here];
			b->lists.next[here] = *first;
			*first = here;
			return FF_OK;
		}
		if (is_below(s, &b->split[here])) {
			*at = b->lists.next[here];
			b->lists.next[here] = FF_NONE;
		} else {
			at = &b->lists.next[here];
		}
	}
	code = ff_grow(&b->split, i, &b->split_cap, sizeof(*b->split), err);
	if (code == FF_OK)
		code = ff_grow(&b->lists.next, i, &b->lists.cap, sizeof(*b->lists.next), err);
	if (code < 0)
		return code;
	b->split[b->n_split++] = *s;
	b->lists.next[i] = first ? *first : FF_NONE;
	if (first)
		*first = i;
	return FF_OK;
}

static void start_splits(struct ff_kinds *b)
{
	for (uint32_t i = 0; i < ff_class_count(b->n_devices); i++)
		b->lists.first[i] = FF_NONE;
}

/* Closes the gaps behind `from`. */
static void end_splits(struct ff_kinds *b, uint32_t from)
{
	uint32_t n = from;

	for (uint32_t i = 0; i < ff_class_count(b->n_devices); i++)
		for (uint32_t k = b->lists.first[i], next; k != FF_NONE; k = next) {
			next = b->lists.next[k];
			b->lists.next[k] = KEPT;
		}
	for (uint32_t i = from; i < b->n_split && !b->kept.every; i++)
		if (b->lists.next[i] == KEPT)
			b->split[n++] = b->split[i];
	b->n_split = b->kept.every ? b->n_split : n;
}

/* Figures of places and channels apart, being gathered. */
struct apart {
	uint32_t places, channels;                 /* dims */
	double placed_us, forward_us, backward_us; /* the least along all places the first */
	double all_backward_us;
	double group_us[MOST_GROUPS]; /* forward, of channels that are alike */
	uint32_t n_groups;            /* MOST_GROUPS: too many to tell apart */
	uint64_t group[MOST_GROUPS];
};

static struct apart start_apart(const struct ff_kinds *b, uint32_t node)
{
	const struct ff_node *n = &b->graph->nodes[node];
	struct apart a = {.places = ff_place_dims(n),
			.channels = ff_channel_dims(n),
			.placed_us = INFINITY,
			.forward_us = INFINITY,
			.backward_us = INFINITY};

	return a;
}

static void add_apart(struct apart *a, uint32_t n_dims, const struct ff_interval *const *at,
		const struct ff_part_us *p)
{
	double times = 1, all = 1;
	uint64_t group = 0;
	bool first = true;
	uint32_t i = 0;

	for (uint32_t d = 0; d < n_dims; d++) {
		bool channel = a->channels >> d & 1;

		first = first && (!(a->places >> d & 1) || at[d]->first == 0);
		group = channel ? group << 12 | at[d]->first : group;
		times *= channel ? 1 : at[d]->count;
		all *= at[d]->count;
	}
	if (first) {
		a->placed_us = fmin(a->placed_us, p->chain_us);
		a->forward_us = fmin(a->forward_us, p->forward_us);
		a->backward_us = fmin(a->backward_us, p->chain_us - p->forward_us);
	}
	a->all_backward_us += all * (p->us - p->forward_us);
	while (i < a->n_groups && a->group[i] != group)
		i++;
	if (i >= MOST_GROUPS)
		return;
	if (i == a->n_groups) {
		a->group[a->n_groups++] = group;
		a->group_us[i] = 0;
	}
	a->group_us[i] += times * p->forward_us;
}

static void end_apart(const struct apart *a, bool sections, struct ff_split_us *s)
{
	double group = a->n_groups < MOST_GROUPS ? INFINITY : 0;

	s->placed_us = a->placed_us;
	if (!sections)
		return;
	for (uint32_t i = 0; i < a->n_groups; i++)
		group = fmin(group, a->group_us[i]);
	s->wide_us = a->forward_us + a->backward_us;
	s->open_us = a->all_backward_us + group;
}

/* Every combination of one interval a dim, the first parts of all dims first. */
static int tally_degrees(struct ff_kinds *b, uint32_t node, const struct ff_config *config,
		struct ff_kind *kind, struct ff_error *err)
{
	uint32_t n_dims = b->graph->nodes[node].n_dims, d = 0, from = b->n_mixed;
	const struct ff_interval *at[FF_MAX_DIMS];
	uint64_t like[FF_MAX_DIMS + 1] = {0};
	double count[FF_MAX_DIMS + 1] = {1};
	struct apart apart = start_apart(b, node);
	struct ff_split_us s = {.least_us = INFINITY,
			.sum_us = sums_us(b, node, config),
			.number = b->kept.every     ? b->n_split - kind->split
				  : b->kept.classes ? ff_class_of(&b->graph->nodes[ff_degrees_of(
										  b->graph, node)],
								      config)
						    : 0};

	for (uint32_t i = 0; i < n_dims; i++)
		at[i] = &b->dim[i].interval[b->dim[i].of_degree[config->degree[i]]];
	while (!ff_kinds_look(b)) {
		struct ff_part_us p;
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
		s.first_us = s.all_us > 0 ? s.first_us : p.chain_us;
		s.least_us = fmin(s.least_us, p.chain_us);
		add_apart(&apart, n_dims, at, &p);
		s.all_us += count[n_dims] * p.us;
		while (d-- > 0) { /* an odometer, last dim fastest */
			const struct ff_intervals *all = &b->dim[d];

			if (++at[d] < all->interval + all->of_degree[config->degree[d] + 1])
				break;
			at[d] = all->interval + all->of_degree[config->degree[d]];
		}
		if (d == UINT32_MAX)
			break;
	}
	if (b->stopped)
		return FF_OK;
	end_apart(&apart, b->kept.classes || b->kept.every, &s);
	kind->all_us = fmin(kind->all_us, s.all_us);
	end_mixed(b, from);
	return add_split(b, &s, err);
}

int ff_kinds_intervals(struct ff_kinds *b, const struct ff_node *n, struct ff_error *err)
{
	for (uint32_t d = 0; d < n->n_dims; d++) {
		uint32_t most = (uint32_t)n->dim[d].extent;
		int code;

		most = most < b->n_devices ? most : b->n_devices;
		code = ff_intervals_start(&b->dim[d], most, err);
		for (uint32_t k = 1; k <= most && code == FF_OK && !ff_kinds_look(b); k++)
			code = ff_intervals_add(&b->dim[d], n, d, k, err);
		if (code < 0)
			return code;
	}
	return FF_OK;
}

/* Gathers the prices of a kind of node, of which `node` is the first. */
static int tally_kind(struct ff_kinds *b, uint32_t node, struct ff_kind *ret, struct ff_error *err)
{
	const struct ff_node *n = &b->graph->nodes[node];
	struct ff_config config = {.n_parts = 0};
	int code = ff_kinds_intervals(b, n, err);

	*ret = (struct ff_kind){.all_us = INFINITY,
			.reads = b->n_reads,
			.mixed = b->n_mixed,
			.split = b->n_split};
	ff_table_clear(&b->parts);
	start_splits(b);
	while (code == FF_OK && !b->stopped && ff_config_next_degrees(n, b->n_devices, &config))
		code = tally_degrees(b, node, &config, ret, err);
	end_splits(b, ret->split);
	ret->n_reads = b->n_reads - ret->reads;
	ret->n_mixed = b->n_mixed - ret->mixed;
	ret->n_split = b->n_split - ret->split;
	return code;
}

int ff_kinds_find(struct ff_kinds *b, uint32_t node, struct ff_kind *ret, struct ff_error *err)
{
	uint64_t hash = ff_kinds_hash(b, node);
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

double ff_kinds_others(double all, double own, double copies)
{
	return own > 0 ? ceil(all / own - QUOTIENT_SLACK) * copies - 1 : 0;
}

double ff_kinds_add_us(const struct ff_kinds *b, double bytes)
{
	double best = INFINITY;

	for (uint32_t k = 0; k < b->n_device_kinds; k++)
		best = fmin(best, ff_price_add(b->pricer, b->graph, b->device[k], (int64_t)bytes));
	return best;
}

/* Weights that are updated, at least: of a table with a sparse gradient those that are read,
 * however it is cut. */
static int64_t updated_bytes(const struct ff_graph *g, const struct ff_optimizer *o)
{
	int64_t bytes = ff_graph_parameters(g) * FF_F32_BYTES;

	for (uint32_t i = 0; i < g->n_nodes && o->sparse; i++) {
		const struct ff_node *n = &g->nodes[i];
		const int32_t *shape = n->n_in > n->n_data ? n->in_map[n->n_data].shape : NULL;

		if (n->sparse_rows && n->sparse_rows < shape[0])
			bytes -= (shape[0] - n->sparse_rows) * shape[1] * FF_F32_BYTES;
	}
	return bytes;
}

/* Updates of all weights; an update's time is a line with an intercept >= 0,
 * so cutting the weights into buckets makes it no shorter. */
double ff_kinds_updates_us(const struct ff_kinds *b)
{
	int64_t bytes = updated_bytes(b->graph, ff_price_optimizer(b->pricer));
	double best = INFINITY;

	for (uint32_t k = 0; k < b->n_device_kinds && bytes; k++)
		best = fmin(best, ff_price_update(b->pricer, b->device[k], bytes));
	return bytes ? best : 0;
}

/* One device of each kind in use. */
static void find_kinds(struct ff_kinds *b, const struct ff_machine *m)
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

static int find_moves(struct ff_kinds *b, struct ff_arena *a, struct ff_error *err)
{
	static const enum ff_reduce by[] = {FF_REDUCE_SUM, FF_REDUCE_MOMENTS};

	for (int i = 0; i < 2; i++) {
		b->moves.sum_us[i] = ff_arena_array(a, b->n_devices + 1, sizeof(double));
		if (!b->moves.sum_us[i])
			return ff_fail_memory(err);
		for (uint32_t n = 0; n <= b->n_devices; n++)
			b->moves.sum_us[i][n] = ff_price_sum_us(b->pricer, n, by[i], 0);
	}
	return ff_price_least_wait(b->pricer, a, &b->moves.wait, err);
}

int ff_kinds_init(struct ff_kinds *b, const struct ff_graph *g, const struct ff_machine *m,
		struct ff_pricer *p, bool halves, bool (*stop)(void *ctx), void *ctx,
		struct ff_arena *a, struct ff_error *err)
{
	*b = (struct ff_kinds){.graph = g,
			.pricer = p,
			.halves = halves,
			.stop = stop,
			.ctx = ctx,
			.n_devices = m->n_devices,
			.kept.most_every = FF_RECEIVED_DEVICES,
			.moves.lanes = m->message_lane ? 2 : 1};
	b->device = ff_arena_array(a, m->n_kinds, sizeof(*b->device));
	if (!b->device)
		return ff_fail_memory(err);
	b->lists.first = ff_arena_array(a, ff_class_count(m->n_devices), sizeof(*b->lists.first));
	if (!b->lists.first)
		return ff_fail_memory(err);
	find_kinds(b, m);
	return find_moves(b, a, err);
}

void ff_kinds_finish(struct ff_kinds *b)
{
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		ff_intervals_finish(&b->dim[d]);
	ff_table_finish(&b->kinds);
	ff_table_finish(&b->parts);
	free(b->kind);
	free(b->part);
	free(b->reads);
	free(b->mixed);
	free(b->split);
	free(b->lists.next);
}
