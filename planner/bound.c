/* Lower bound: no strategy of the space takes less time than this.  Two
 * arguments, shown in docs/simulator.md: all the work there is, spread over
 * all devices, and the chain of parts that every strategy must run one after
 * another.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "ff/search.h"

/* Intervals of one dim at one degree fall into classes whose members have
 * equal prices whatever the other dims do: same sizes, nothing clamped. */
struct classes {
	uint32_t n;
	uint32_t *first; /* a coordinate of the class */
	uint32_t *count; /* how many coordinates are in it */
};

struct bound {
	const struct ff_graph *graph;
	struct ff_pricer *pricer;
	uint32_t n_devices;
	uint32_t n_kinds;
	uint32_t *device;                    /* one of each kind in use */
	struct classes classes[FF_MAX_DIMS]; /* of the degree vector at hand */
	double *chain_us; /* by node: earliest that the chain of any of its parts is through */
	struct ff_work work;
};

/* What a degree vector of one node comes to. */
struct tally {
	double all_us;   /* device time of all parts, both passes */
	double first_us; /* shortest chain that ends with one of its parts */
	double last_us;  /* longest such chain */
};

static const struct ff_operand *operand(const struct ff_node *n, uint32_t i)
{
	if (i < n->n_in)
		return &n->in_map[i];
	return &n->out_map[i - n->n_in];
}

/* Elements that other terms of an axis may add at least and at most. */
static void other_terms(const struct ff_node *n, const struct ff_axis_map *m, uint32_t skip,
		int64_t *least, int64_t *most)
{
	*least = m->offset;
	*most = (int64_t)m->offset + m->window;
	for (uint32_t t = 0; t < m->n_terms; t++) {
		const struct ff_term *term = &m->term[t];
		if (t != skip)
			*most += (int64_t)((n->dim[term->dim].extent - 1) / term->div) * term->step;
	}
}

/* Whether some box with [lo, hi) at `dim` may be clamped at a border. */
static bool may_clamp(const struct ff_node *n, const struct ff_operand *o, uint32_t dim, int32_t lo,
		int32_t hi)
{
	for (uint32_t a = 0; a < o->rank; a++) {
		const struct ff_axis_map *m = &o->axis[a];
		for (uint32_t t = 0; t < m->n_terms; t++) {
			const struct ff_term *term = &m->term[t];
			int64_t least, most;
			if ((uint32_t)term->dim != dim)
				continue;
			other_terms(n, m, t, &least, &most);
			least += (int64_t)(lo / term->div) * term->step;
			most += (int64_t)((hi - 1) / term->div) * term->step;
			if (least < 0 || most > o->shape[a])
				return true;
		}
	}
	return false;
}

/* Whether intervals starting at `a` and `b`, of one size, divide alike. */
static bool same_phase(const struct ff_operand *o, uint32_t dim, int32_t a, int32_t b)
{
	for (uint32_t i = 0; i < o->rank; i++)
		for (uint32_t t = 0; t < o->axis[i].n_terms; t++) {
			const struct ff_term *term = &o->axis[i].term[t];
			if ((uint32_t)term->dim == dim && a % term->div != b % term->div)
				return false;
		}
	return true;
}

static bool same_class(
		const struct ff_node *n, uint32_t dim, uint32_t degree, uint32_t x, uint32_t y)
{
	int32_t extent = n->dim[dim].extent;
	int32_t a = ff_part_start(extent, degree, x), a_end = ff_part_start(extent, degree, x + 1);
	int32_t b = ff_part_start(extent, degree, y), b_end = ff_part_start(extent, degree, y + 1);
	if (a_end - a != b_end - b)
		return false;
	if (n->dim[dim].label == FF_DIM_REDUCTION && !a != !b)
		return false;
	for (uint32_t i = 0; i < n->n_in + n->n_out; i++) {
		const struct ff_operand *o = operand(n, i);
		if (may_clamp(n, o, dim, a, a_end) || may_clamp(n, o, dim, b, b_end) ||
				!same_phase(o, dim, a, b))
			return false;
	}
	return true;
}

static void find_classes(const struct ff_node *n, uint32_t dim, uint32_t degree, struct classes *c)
{
	c->n = 0;
	for (uint32_t x = 0; x < degree; x++) {
		uint32_t i = 0;
		while (i < c->n && !same_class(n, dim, degree, c->first[i], x))
			i++;
		if (i == c->n) {
			c->first[c->n] = x;
			c->count[c->n++] = 0;
		}
		c->count[i]++;
	}
}

/* The part's time on the kind of device that is fastest at it. */
static int fastest_us(struct bound *b, double *us, struct ff_error *err)
{
	double best = INFINITY;
	for (uint32_t k = 0; k < b->n_kinds; k++) {
		double here;
		int code = ff_price_work(b->pricer, &b->work, b->device[k], &here, err);
		if (code < 0)
			return code;
		best = fmin(best, here);
	}
	*us = best;
	return FF_OK;
}

/* When the inputs of the part in b->work can be there: it waits for some part
 * of every producer whose output it reads. */
static double inputs_us(const struct bound *b)
{
	const struct ff_node *n = b->work.node;
	double at = 0;
	for (uint32_t i = 0; i < n->n_data; i++)
		if (ff_region_volume(&b->work.in[i]))
			at = fmax(at, b->chain_us[ff_edge_source(b->graph, n->in + i)]);
	return at;
}

/* Adds `count` parts that cost what `part` costs. */
static int add_parts(struct bound *b, uint32_t node, const struct ff_config *config, uint32_t part,
		double count, struct tally *t, struct ff_error *err)
{
	const struct ff_node *n = &b->graph->nodes[node];
	double forward_us, backward_us = 0;
	struct ff_region box;
	ff_config_box(n, config, part, &box);
	ff_work_fill(b->graph, node, &box, FF_FORWARD, &b->work);
	double before_us = inputs_us(b);
	int code = fastest_us(b, &forward_us, err);
	if (code == FF_OK && ff_node_needs_grad(b->graph, node)) {
		ff_work_fill(b->graph, node, &box, FF_BACKWARD, &b->work);
		code = fastest_us(b, &backward_us, err);
	}
	if (code < 0)
		return code;
	double us = forward_us + backward_us;
	t->all_us += count * us;
	t->first_us = fmin(t->first_us, before_us + us);
	t->last_us = fmax(t->last_us, before_us + us);
	return FF_OK;
}

/* Every combination of one class a dim. */
static int tally_degrees(struct bound *b, uint32_t node, const struct ff_config *config,
		struct tally *ret, struct ff_error *err)
{
	const struct ff_node *n = &b->graph->nodes[node];
	uint32_t at[FF_MAX_DIMS] = {0}, d;
	*ret = (struct tally){.first_us = INFINITY};
	do {
		uint32_t part = 0;
		double count = 1;
		for (d = 0; d < n->n_dims; d++) {
			const struct classes *c = &b->classes[d];
			part = part * config->degree[d] + c->first[at[d]];
			count *= c->count[at[d]];
		}
		int code = add_parts(b, node, config, part, count, ret, err);
		if (code < 0)
			return code;
		for (d = n->n_dims; d-- > 0;) {
			if (++at[d] < b->classes[d].n)
				break;
			at[d] = 0;
		}
	} while (d < n->n_dims);
	return FF_OK;
}

/* The best that any degree vector of `node` does, figure by figure. */
static int best_of_node(struct bound *b, uint32_t node, struct tally *ret, struct ff_error *err)
{
	const struct ff_node *n = &b->graph->nodes[node];
	struct ff_config config = {.n_parts = 0};
	uint16_t have[FF_MAX_DIMS] = {0};
	struct tally best = {INFINITY, INFINITY, INFINITY};
	while (ff_config_next_degrees(n, b->n_devices, &config)) {
		struct tally t;
		for (uint32_t d = 0; d < n->n_dims; d++) {
			if (have[d] != config.degree[d])
				find_classes(n, d, config.degree[d], &b->classes[d]);
			have[d] = config.degree[d];
		}
		int code = tally_degrees(b, node, &config, &t, err);
		if (code < 0)
			return code;
		best.all_us = fmin(best.all_us, t.all_us);
		best.first_us = fmin(best.first_us, t.first_us);
		best.last_us = fmin(best.last_us, t.last_us);
	}
	*ret = best;
	return FF_OK;
}

/* Updates of all weights; an update's time is a line with an intercept >= 0,
 * so cutting the weights into buckets makes it no shorter. */
static double updates_us(const struct bound *b)
{
	int64_t bytes = ff_graph_parameters(b->graph) * FF_ELEMENT_BYTES;
	double best = INFINITY;
	for (uint32_t k = 0; k < b->n_kinds && bytes; k++)
		best = fmin(best, ff_price_update(b->pricer, b->device[k], bytes));
	return bytes ? best : 0;
}

static int run(struct bound *b, double *us, struct ff_error *err)
{
	double all_us = updates_us(b), last_us = 0;
	for (uint32_t i = 0; i < b->graph->n_nodes; i++) {
		struct tally t;
		if (!ff_node_is_computed(b->graph, i))
			continue;
		int code = best_of_node(b, i, &t, err);
		if (code < 0)
			return code;
		all_us += t.all_us;
		b->chain_us[i] = t.first_us;
		last_us = fmax(last_us, t.last_us);
	}
	*us = fmax(all_us / b->n_devices, last_us);
	return FF_OK;
}

/* One device of each kind in use. */
static void find_kinds(struct bound *b, const struct ff_machine *m)
{
	for (uint32_t i = 0; i < m->n_nodes; i++) {
		uint32_t k = 0;
		while (k < b->n_kinds &&
				m->nodes[m->node_of[b->device[k]]].kind != m->nodes[i].kind)
			k++;
		if (k == b->n_kinds)
			b->device[b->n_kinds++] = m->nodes[i].first;
	}
}

static int create(struct bound *b, const struct ff_graph *g, const struct ff_machine *m,
		struct ff_arena *a, struct ff_error *err)
{
	b->graph = g;
	b->n_devices = m->n_devices;
	b->device = ff_arena_array(a, m->n_kinds, sizeof(*b->device));
	b->chain_us = ff_arena_array(a, g->n_nodes, sizeof(*b->chain_us));
	if (!b->device || !b->chain_us)
		return ff_fail_memory(err);
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++) {
		struct classes *c = &b->classes[d];
		c->first = ff_arena_array(a, m->n_devices, sizeof(*c->first));
		c->count = ff_arena_array(a, m->n_devices, sizeof(*c->count));
		if (!c->first || !c->count)
			return ff_fail_memory(err);
	}
	find_kinds(b, m);
	return FF_OK;
}

int ff_lower_bound(const struct ff_graph *g, const struct ff_machine *m, struct ff_pricer *p,
		double *us, struct ff_error *err)
{
	struct ff_arena scratch;
	ff_arena_init(&scratch);
	struct bound *b = ff_arena_alloc(&scratch, sizeof(*b));
	int code = b ? create(b, g, m, &scratch, err) : ff_fail_memory(err);
	if (code == FF_OK) {
		b->pricer = p;
		code = run(b, us, err);
	}
	ff_arena_finish(&scratch);
	return code;
}
