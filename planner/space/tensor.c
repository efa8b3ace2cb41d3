/* Chains of products.  A chain is grown from a product that has its input whole: its output is
 * split by feature, and whoever reads it is split along the same elements, until products sum over
 * them, or a loss compares them.  Who reads them otherwise needs all of them, and then there is no
 * chain.  SPDX-License-Identifier: Apache-2.0 */
#include "tensor.h"

#include "gcd.h"

struct growth {
	const struct ff_graph *g;
	int32_t degree;        /* of parts */
	uint32_t *dim;         /* by node, of all chains and this one */
	uint32_t *member, n;   /* of this one */
	uint32_t n_rows;       /* products that sum over what is split */
	bool failed, compared; /* compared: a loss does */
};

/* The dim that moves slowest along an axis, or FF_NONE: an axis that is whole. */
static uint32_t outer_dim(const struct ff_axis_map *x)
{
	uint32_t best = 0;

	if (x->n_terms == 0 || x->over)
		return FF_NONE;
	for (uint32_t t = 1; t < x->n_terms; t++)
		if (x->term[t].step > x->term[best].step)
			best = t;
	return (uint32_t)x->term[best].dim;
}

/* The axis whose elements `dim` splits, or FF_NONE. */
static uint32_t split_axis(const struct ff_operand *o, uint32_t dim)
{
	for (uint32_t i = 0; i < o->rank; i++)
		if (outer_dim(&o->axis[i]) == dim)
			return i;
	return FF_NONE;
}

static bool has_parameters(const struct ff_node *n)
{
	return n->n_in > n->n_data;
}

static enum ff_label label_of(const struct ff_graph *g, uint32_t node, uint32_t dim)
{
	return g->nodes[node].dim[dim].label;
}

/* Whether parts along `dim` exchange something half way. */
static bool exchanges(const struct ff_graph *g, uint32_t node, uint32_t dim)
{
	uint32_t prelude = ff_node_prelude(g, node);

	return prelude != FF_NONE && label_of(g, prelude, dim) == FF_DIM_REDUCTION;
}

/* A node joins, split along `dim`, if it can. */
static void join(struct growth *x, uint32_t node, uint32_t dim)
{
	const struct ff_graph *g = x->g;
	const struct ff_node *n = &g->nodes[node];

	if (dim != FF_NONE && x->dim[node] == dim)
		return;
	if (dim == FF_NONE || x->dim[node] != FF_NONE || n->dim[dim].label == FF_DIM_SAMPLE ||
			n->n_carried ||
			(ff_node_is_loss(g, node) && n->dim[dim].extent < x->degree) ||
			(n->dim[dim].label == FF_DIM_REDUCTION && !has_parameters(n)) ||
			(exchanges(g, node, dim) && !ff_node_is_loss(g, node))) {
		x->failed = true;
		return;
	}
	x->n_rows += n->dim[dim].label == FF_DIM_REDUCTION;
	x->compared = x->compared || ff_node_is_loss(g, node);
	x->dim[node] = dim;
	x->member[x->n++] = node;
}

/* Those who read what `node` makes. */
static void join_readers(struct growth *x, uint32_t node)
{
	const struct ff_graph *g = x->g;
	const struct ff_node *n = &g->nodes[node];

	if (ff_node_is_loss(g, node) || label_of(g, node, x->dim[node]) == FF_DIM_REDUCTION)
		return; /* partial sums: the chain ends */
	for (uint32_t k = 0; k < ff_node_outputs(n) && !x->failed; k++) {
		const struct ff_value *v = &g->values[n->out + k];
		uint32_t axis = split_axis(&n->out_map[k], x->dim[node]);

		x->failed = axis == FF_NONE;
		for (uint32_t u = 0; u < v->n_uses && !x->failed; u++) {
			const struct ff_edge *e = &g->edges[ff_value_use(g, v, u)];

			if (!ff_node_is_prelude(g, e->node))
				join(x, e->node,
						outer_dim(&g->nodes[e->node].in_map[e->slot]
										.axis[axis]));
		}
	}
}

/* Those who make what `node` reads by parts. */
static void join_makers(struct growth *x, uint32_t node)
{
	const struct ff_graph *g = x->g;
	const struct ff_node *n = &g->nodes[node];

	for (uint32_t k = 0; k < ff_node_inputs(n) && !x->failed; k++) {
		const struct ff_value *v = &g->values[g->edges[n->in + k].value];
		uint32_t axis = split_axis(&n->in_map[k], x->dim[node]);

		if (axis != FF_NONE && ff_node_needs_config(g, v->producer))
			join(x, v->producer,
					outer_dim(&g->nodes[v->producer].out_map[v->port]
									.axis[axis]));
	}
}

/* Whether some axis of `o` has elements by `dim`, among others perhaps. */
static bool depends_on(const struct ff_operand *o, uint32_t dim)
{
	for (uint32_t i = 0; i < o->rank; i++)
		for (uint32_t t = 0; t < o->axis[i].n_terms; t++)
			if ((uint32_t)o->axis[i].term[t].dim == dim)
				return true;
	return false;
}

/* The dim of output features of a product of data with weights, or FF_NONE. */
static uint32_t product_dim(const struct ff_graph *g, uint32_t node)
{
	const struct ff_node *n = &g->nodes[node];
	uint32_t feature = FF_NONE;
	bool sums = false;

	if (!ff_node_needs_config(g, node) || !has_parameters(n) || ff_node_inputs(n) != 1)
		return FF_NONE;
	for (uint32_t d = 0; d < n->n_dims; d++) {
		if (n->dim[d].label == FF_DIM_PARAMETER && feature == FF_NONE)
			feature = d;
		sums = sums ||
		       (n->dim[d].label == FF_DIM_REDUCTION && depends_on(&n->in_map[0], d));
	}
	return sums ? feature : FF_NONE;
}

/* Whether a chain begins with `node`; what was tried is forgotten if not. */
static bool grow(struct growth *x, uint32_t node)
{
	x->n = x->n_rows = 0;
	x->failed = x->compared = false;
	join(x, node, product_dim(x->g, node));
	for (uint32_t i = 0; i < x->n && !x->failed; i++) {
		join_readers(x, x->member[i]);
		join_makers(x, x->member[i]);
	}
	if (!x->failed && (x->n_rows || x->compared))
		return true;
	for (uint32_t i = 0; i < x->n; i++)
		x->dim[x->member[i]] = FF_NONE;
	return false;
}

static void narrow(struct ff_tensor *t, uint32_t node, int32_t by)
{
	int32_t divisor = (int32_t)ff_gcd((uint32_t)t->divisor, (uint32_t)by);

	if (divisor != t->divisor)
		t->narrowest = node;
	t->divisor = divisor;
}

/* Parts of a chain have whole heads, and features alike.  Classes that a loss compares are the
 * exception: there are as many as there are words, and parts of them differ by one. */
static void divide(const struct growth *x, struct ff_tensor *t)
{
	for (uint32_t i = 0; i < x->n && !x->compared; i++) {
		const struct ff_node *n = &x->g->nodes[x->member[i]];
		uint32_t d = x->dim[x->member[i]];

		narrow(t, x->member[i], n->dim[d].extent);
		for (uint32_t k = 0; k < ff_node_inputs(n); k++) {
			uint32_t axis = split_axis(&n->in_map[k], d);

			for (uint32_t j = 0; axis != FF_NONE && j < n->in_map[k].axis[axis].n_terms;
					j++)
				if ((uint32_t)n->in_map[k].axis[axis].term[j].dim == d)
					narrow(t, x->member[i],
							n->dim[d].extent / n->in_map[k].axis[axis]
											   .term[j]
											   .div);
		}
	}
}

/* Tables of words are split by row, where they have more rows than features. */
static void split_table(const struct ff_graph *g, uint32_t node, uint32_t *dim)
{
	const struct ff_node *n = &g->nodes[node];
	int32_t features = 0;
	uint32_t row = FF_NONE;

	if (!ff_node_needs_config(g, node) || !(ff_op_flags_of(g, node) & FF_OP_LOOKUP))
		return;
	for (uint32_t d = 0; d < n->n_dims; d++) {
		if (n->dim[d].label == FF_DIM_REDUCTION)
			row = d;
		if (n->dim[d].label == FF_DIM_PARAMETER)
			features = n->dim[d].extent;
	}
	if (row != FF_NONE && n->dim[row].extent > features)
		*dim = row;
}

int ff_tensor_find(const struct ff_graph *g, uint32_t degree, struct ff_arena *a,
		struct ff_tensor *ret, struct ff_error *err)
{
	struct ff_tensor t = {
			.dim = ff_arena_array(a, g->n_nodes, sizeof(*t.dim)), .narrowest = FF_NONE};
	struct growth x = {.g = g, .degree = (int32_t)degree, .dim = t.dim};

	x.member = ff_arena_array(a, g->n_nodes, sizeof(*x.member));
	if (!t.dim || !x.member)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		t.dim[i] = FF_NONE;
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		if (t.dim[i] == FF_NONE && product_dim(g, i) != FF_NONE && grow(&x, i)) {
			t.n_rows += x.n_rows;
			divide(&x, &t);
		}
	}
	for (uint32_t i = 0; i < g->n_nodes; i++)
		split_table(g, i, &t.dim[i]);
	*ret = t;
	return FF_OK;
}

/* ---- experts ---- */

/* Into how many groups a product takes its channels, each by itself; 1: it does not. */
static int32_t groups_of(const struct ff_graph *g, uint32_t node)
{
	uint32_t d = product_dim(g, node), axis;
	const struct ff_node *n = &g->nodes[node];

	for (axis = 0; d != FF_NONE && axis < n->in_map[0].rank; axis++)
		for (uint32_t t = 0; t < n->in_map[0].axis[axis].n_terms; t++)
			if ((uint32_t)n->in_map[0].axis[axis].term[t].dim == d)
				return n->dim[d].extent / n->in_map[0].axis[axis].term[t].div;
	return 1;
}

/* The dim along which `node` is split as all that it reads that has such a dim; FF_NONE: it has
 * something whole. */
static uint32_t follow_groups(const struct ff_graph *g, uint32_t node, const uint32_t *dim)
{
	const struct ff_node *n = &g->nodes[node];
	uint32_t ret = FF_NONE;

	if (has_parameters(n) || ff_node_is_loss(g, node))
		return FF_NONE;
	for (uint32_t k = 0; k < ff_node_inputs(n); k++) {
		const struct ff_value *v = &g->values[g->edges[n->in + k].value];
		uint32_t axis = FF_NONE, d;

		if (ff_node_needs_config(g, v->producer) && dim[v->producer] != FF_NONE)
			axis = split_axis(
					&g->nodes[v->producer].out_map[v->port], dim[v->producer]);
		if (axis == FF_NONE || n->in_map[k].axis[axis].n_terms != 1)
			return FF_NONE;
		d = outer_dim(&n->in_map[k].axis[axis]);
		if (d == FF_NONE || (k && d != ret) || n->dim[d].label != FF_DIM_ATTRIBUTE ||
				split_axis(n->out_map, d) == FF_NONE || exchanges(g, node, d))
			return FF_NONE;
		ret = d;
	}
	return ret;
}

int ff_experts_find(const struct ff_graph *g, struct ff_arena *a, uint32_t **dim, int32_t *groups,
		struct ff_error *err)
{
	uint32_t *found = ff_arena_array(a, g->n_nodes, sizeof(*found));
	int32_t all = 0;

	if (!found)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		int32_t n = 1;

		found[i] = FF_NONE;
		if (!ff_node_needs_config(g, i))
			continue;
		n = groups_of(g, i);
		found[i] = n > 1 ? product_dim(g, i) : follow_groups(g, i, found);
		all = n > 1 ? (int32_t)ff_gcd((uint32_t)all, (uint32_t)n) : all;
	}
	*dim = found;
	*groups = all;
	return FF_OK;
}

/* ---- sequences ---- */

/* Places of the sequence that a product reads, [samples, places, features]; 0: it reads none. */
static int32_t places_of(const struct ff_graph *g, uint32_t node)
{
	const struct ff_node *n = &g->nodes[node];
	const struct ff_operand *o = &n->in_map[0];
	uint32_t d = product_dim(g, node) != FF_NONE && o->rank == 3 ? outer_dim(&o->axis[1])
								     : FF_NONE;

	return d != FF_NONE && n->dim[d].label == FF_DIM_ATTRIBUTE ? n->dim[d].extent : 0;
}

/* `dim` if it is that of so many places. */
static uint32_t if_places(const struct ff_node *n, uint32_t dim, int32_t places)
{
	return dim != FF_NONE && n->dim[dim].label == FF_DIM_ATTRIBUTE &&
					       n->dim[dim].extent == places
			       ? dim
			       : FF_NONE;
}

/* The dim of the places that a node makes, or else of those that it reads of one who has them. */
static uint32_t find_places(const struct ff_graph *g, uint32_t node, const struct ff_sequence *s)
{
	const struct ff_node *n = &g->nodes[node];
	const struct ff_axis_map *at = n->out_map[0].rank > 1 ? &n->out_map[0].axis[1] : NULL;
	uint32_t ret = FF_NONE;

	if (at && at->n_terms == 1 && at->window == 1 && at->term[0].step == 1 &&
			n->out_map[0].shape[1] == s->places)
		ret = if_places(n, (uint32_t)at->term[0].dim, s->places);
	for (uint32_t k = 0; k < ff_node_inputs(n) && ret == FF_NONE; k++) {
		const struct ff_value *v = &g->values[g->edges[n->in + k].value];
		uint32_t axis = FF_NONE;

		if (ff_node_needs_config(g, v->producer) && s->dim[v->producer] != FF_NONE)
			axis = split_axis(&g->nodes[v->producer].out_map[v->port],
					s->dim[v->producer]);
		if (axis != FF_NONE)
			ret = if_places(n, outer_dim(&n->in_map[k].axis[axis]), s->places);
	}
	return ret;
}

int ff_sequence_find(const struct ff_graph *g, const uint32_t *block, struct ff_arena *a,
		struct ff_sequence *ret, struct ff_error *err)
{
	struct ff_sequence s = {.dim = ff_arena_array(a, g->n_nodes, sizeof(*s.dim))};
	bool alike = true;

	if (!s.dim)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		int32_t n = !block || block[i] != FF_NONE ? places_of(g, i) : 0;

		s.dim[i] = FF_NONE;
		alike = alike && (!n || !s.places || n == s.places);
		s.places = n ? n : s.places;
	}
	s.places = alike ? s.places : 0;
	for (uint32_t i = 0; i < g->n_nodes && s.places; i++)
		if (ff_node_needs_config(g, i))
			s.dim[i] = find_places(g, i, &s);
	*ret = s;
	return FF_OK;
}
