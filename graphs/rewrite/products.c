/* x W^T and x V^T are ranges of x [W; V]^T: one product reads x once, fills more of the device and
 * has one gradient of x where there was a sum of several.  Parameters lie one behind the other
 * along axis 0, the output's features.  SPDX-License-Identifier: Apache-2.0 */
#include "products.h"

#include <stddef.h>
#include <string.h>

/* The operators: where their attributes say how many features they make, and of which axis. */
static const struct product {
	enum ff_op op;
	uint32_t axis;           /* 0: the last */
	size_t features, groups; /* groups 0: there are none */
} products[] = {
		{FF_OP_LINEAR, 0, offsetof(union ff_attrs, linear.out_features), 0},
		{FF_OP_CONV1D, 1, offsetof(union ff_attrs, conv.out_channels),
				offsetof(union ff_attrs, conv.groups)},
		{FF_OP_CONV2D, 1, offsetof(union ff_attrs, conv.out_channels),
				offsetof(union ff_attrs, conv.groups)},
		{FF_OP_CONV3D, 1, offsetof(union ff_attrs, conv.out_channels),
				offsetof(union ff_attrs, conv.groups)},
};

static const struct product *find(enum ff_op op)
{
	for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++)
		if (products[i].op == op)
			return &products[i];
	return NULL;
}

static int32_t *at(union ff_attrs *attrs, size_t offset)
{
	return (int32_t *)((char *)attrs + offset);
}

/* Attributes but for the number of features. */
static union ff_attrs shared_attrs(const struct ff_node *n, const struct product *p)
{
	union ff_attrs attrs = n->attrs;

	*at(&attrs, p->features) = 0;
	return attrs;
}

/* Groups read inputs of their own; a parameter that others read, too, stays by itself. */
bool ff_product_merges(const struct ff_graph *g, uint32_t i)
{
	const struct ff_node *n = &g->nodes[i];
	const struct product *p = find(n->op);
	union ff_attrs attrs = n->attrs;

	if (!p || (p->groups && *at(&attrs, p->groups) != 1))
		return false;
	for (uint32_t k = n->n_data; k < n->n_in; k++)
		if (g->values[g->edges[n->in + k].value].n_uses != 1)
			return false;
	return true;
}

bool ff_products_alike(const struct ff_graph *g, uint32_t i, uint32_t k)
{
	const struct ff_node *x = &g->nodes[i], *y = &g->nodes[k];
	const struct product *p = find(x->op);
	union ff_attrs a, b;

	if (x->op != y->op || g->edges[x->in].value != g->edges[y->in].value)
		return false;
	a = shared_attrs(x, p);
	b = shared_attrs(y, p);
	return !memcmp(&a, &b, sizeof(a));
}

/* Rows of axis 0 of its parameters, which are features of its output. */
static int32_t rows_of(const struct ff_graph *g, uint32_t i)
{
	union ff_attrs attrs = g->nodes[i].attrs;

	return *at(&attrs, find(g->nodes[i].op)->features);
}

/* Of equal size: one operator, which writes each part and reads their gradients once. */
static int add_split(struct ff_rewriting *r, uint32_t whole, uint32_t axis, const uint32_t *node,
		uint32_t n)
{
	const char *name = ff_arena_printf(r->a, "%s.split", r->g->nodes[node[0]].name);
	union ff_attrs attrs = {.split = {(int32_t)axis, (int32_t)n}};
	uint32_t made;

	if (!name)
		return FF_E_NOMEM;
	made = ff_builder_add(r->b, FF_OP_SPLIT, name, &attrs, &whole, 1);
	for (uint32_t k = 0; k < n; k++)
		r->made[r->g->nodes[node[k]].out] = FF_PORT(made, k);
	return FF_OK;
}

static void add_slices(struct ff_rewriting *r, uint32_t whole, uint32_t axis, const uint32_t *node,
		uint32_t n)
{
	union ff_attrs attrs = ff_attrs_preset(FF_OP_SLICE);

	attrs.slice.axis = (int32_t)axis;
	attrs.slice.stop = 0;
	for (uint32_t k = 0; k < n; k++) {
		attrs.slice.start = attrs.slice.stop;
		attrs.slice.stop += rows_of(r->g, node[k]);
		r->made[r->g->nodes[node[k]].out] = ff_builder_add(
				r->b, FF_OP_SLICE, r->g->nodes[node[k]].name, &attrs, &whole, 1);
	}
}

int ff_products_merge(struct ff_rewriting *r, const char *merged, const uint32_t *node, uint32_t n)
{
	const struct ff_node *first = &r->g->nodes[node[0]];
	const struct product *p = find(first->op);
	uint32_t axis = p->axis ? p->axis : r->g->values[first->out].rank - 1, whole;
	union ff_attrs attrs = first->attrs;
	int64_t rows = 0;
	bool equal = true;

	for (uint32_t k = 0; k < n; k++) {
		rows += rows_of(r->g, node[k]);
		equal = equal && rows_of(r->g, node[k]) == rows_of(r->g, node[0]);
	}
	/* 0: too many, as who adds the node says */
	*at(&attrs, p->features) = rows > INT32_MAX ? 0 : (int32_t)rows;
	whole = ff_builder_add(
			r->b, first->op, merged, &attrs, &r->made[r->g->edges[first->in].value], 1);
	if (equal)
		return add_split(r, whole, axis, node, n);
	add_slices(r, whole, axis, node, n);
	return FF_OK;
}
