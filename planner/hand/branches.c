/* Branches of a network side by side on groups of devices.  A small batch is mostly launches: half
 * as many devices take little longer for an operator then, and two are done at once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "branches.h"

#include <math.h>

#include "ff/backward.h"
#include "space/carry_config.h"
#include "space/space.h"

struct placing {
	const struct ff_graph *g;
	const struct ff_machine *m;
	struct ff_pricer *p;
	uint32_t first;         /* device */
	uint32_t groups, width; /* devices of a group */
	const bool *trunk;      /* by node: nothing runs beside it; NULL: that does not matter */
	uint32_t *group;        /* by node */
	double *done_us;        /* by node */
	double *busy_us;        /* by group */
};

/* By sample over every device of a group, or of all together. */
static void split(const struct placing *x, const struct ff_node *n, uint32_t group,
		struct ff_config *ret)
{
	bool all = group == x->groups;
	uint32_t sample = ff_node_sample_dim(n), width = all ? x->groups * x->width : x->width;
	uint16_t degree[FF_MAX_DIMS];
	struct ff_view view = {.start = x->first + (all ? 0 : group)};

	for (uint32_t d = 0; d < n->n_dims; d++)
		degree[d] = 1;
	if (sample != FF_NONE && (uint32_t)n->dim[sample].extent < width)
		width = (uint32_t)n->dim[sample].extent;
	if (sample != FF_NONE && width > 1) {
		degree[sample] = (uint16_t)width;
		view.stride[sample] = all ? 1 : x->groups;
	}
	ff_view_config(n->n_dims, degree, &view, ret);
}

/* What the first part takes in `group`, forward and backward. */
static int price(struct placing *x, uint32_t node, uint32_t group, double *us, struct ff_error *err)
{
	const struct ff_node *n = &x->g->nodes[node];
	bool back = ff_node_needs_grad(x->g, node);
	struct ff_region box;
	struct ff_config c;
	struct ff_work w;
	int code = FF_OK;

	*us = 0;
	split(x, n, group, &c);
	ff_config_box(n, &c, 0, &box);
	for (int pass = FF_FORWARD; pass <= (back ? FF_BACKWARD : FF_FORWARD) && code == FF_OK;
			pass++) {
		double sum;

		ff_work_fill(x->g, node, &box, (enum ff_pass)pass, &w);
		code = ff_price_work(x->p, &w, x->first, &sum, err);
		if (code == FF_OK)
			*us += sum;
	}
	return code;
}

/* What a value takes from one group to another, and its gradient back. */
static double move_us(const struct placing *x, const struct ff_value *v)
{
	const struct ff_link *l = &x->m->nodes[x->m->node_of[x->first]].inside;
	double bytes = (double)ff_value_bytes(v);

	return 2 * (l->latency_us + bytes / x->width / l->bytes_per_us);
}

/* When all devices of `group` are free. */
static double free_in(const struct placing *x, uint32_t group)
{
	double us = 0;

	for (uint32_t k = 0; k < x->groups; k++)
		if (group == k || group == x->groups)
			us = fmax(us, x->busy_us[k]);
	return us;
}

/* When `node` would be done in `group`, if it takes `us`. */
static double done_in(const struct placing *x, uint32_t node, uint32_t group, double us)
{
	const struct ff_node *n = &x->g->nodes[node];
	double from = free_in(x, group);

	for (uint32_t k = n->in; k < n->in + n->n_data; k++) {
		const struct ff_value *v = &x->g->values[x->g->edges[k].value];
		bool moves = ff_node_needs_config(x->g, v->producer) &&
			     x->group[v->producer] != group;

		from = fmax(from, x->done_us[v->producer] + (moves ? move_us(x, v) : 0));
	}
	return from + us;
}

static int place(struct placing *x, uint32_t node, struct ff_error *err)
{
	double least = INFINITY, us;
	int code = price(x, node, 0, &us, err);

	for (uint32_t k = 0; k < x->groups + (x->trunk && x->trunk[node]) && code == FF_OK; k++) {
		double done;

		if (k == x->groups)
			code = price(x, node, k, &us, err);
		if (code < 0)
			break;
		done = done_in(x, node, k, us);
		if (done < least) {
			least = done;
			x->group[node] = k;
		}
	}
	x->done_us[node] = least;
	for (uint32_t k = 0; k < x->groups; k++)
		if (x->group[node] == k || x->group[node] == x->groups)
			x->busy_us[k] = least;
	return code;
}

/* Who reads what was made before it runs beside all in between. */
static int find_trunk(struct placing *x, struct ff_arena *a, struct ff_error *err)
{
	const struct ff_graph *g = x->g;
	bool *trunk = ff_arena_array(a, g->n_nodes, sizeof(*trunk));
	uint32_t last = 0;

	if (!trunk)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[i];

		if (!ff_node_needs_config(g, i))
			continue;
		trunk[i] = last <= i;
		for (uint32_t k = n->out; k < n->out + ff_node_outputs(n); k++)
			for (uint32_t u = 0; u < g->values[k].n_uses; u++) {
				uint32_t reader = ff_value_reader(g, &g->values[k], u);

				last = reader > last ? reader : last;
			}
	}
	x->trunk = trunk;
	return FF_OK;
}

int ff_start_branches(const struct ff_graph *g, const struct ff_machine *m, struct ff_pricer *p,
		const struct ff_branches *on, struct ff_arena *a, struct ff_strategy *ret,
		double *us, struct ff_error *err)
{
	struct placing x = {g, m, p, on->first, on->groups, on->devices / on->groups, NULL, NULL,
			NULL, NULL};
	struct ff_strategy s;
	int code = ff_strategy_create(g, a, &s, err);

	x.group = ff_arena_array(a, g->n_nodes, sizeof(*x.group));
	x.done_us = ff_arena_array(a, g->n_nodes, sizeof(*x.done_us));
	x.busy_us = ff_arena_array(a, x.groups, sizeof(*x.busy_us));
	if (code == FF_OK && on->together)
		code = find_trunk(&x, a, err);
	if (code == FF_OK && (!x.group || !x.done_us || !x.busy_us))
		code = ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		if (!ff_node_needs_config(g, i))
			continue;
		code = place(&x, i, err);
		split(&x, &g->nodes[i], x.group[i], &s.config[i]);
	}
	if (code < 0)
		return code;
	*us = free_in(&x, x.groups);
	*ret = s;
	return FF_OK;
}
