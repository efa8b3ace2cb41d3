/* Helpers for the rows of the operator table.  SPDX-License-Identifier: Apache-2.0 */
#include "derive.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ff_derive_error(const struct ff_derive *d, struct ff_error *err, const char *fmt, ...)
{
	/* a prelude is nothing that a file has */
	const struct ff_node *n = &d->graph->nodes[ff_node_leader(
			d->graph, (uint32_t)(d->node - d->graph->nodes))];
	const char *op = ff_op_row(n->op)->name;
	char text[FF_ERROR_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (d->place)
		ff_json_error(d->place, err, "%s \"%s\": %s", op, n->name, text);
	else
		ff_error_write(err, FF_E_INPUT, "graph \"%s\": %s \"%s\": %s", d->graph->name, op,
				n->name, text);
}

const struct ff_value *ff_derive_in(const struct ff_derive *d, uint32_t slot)
{
	return &d->graph->values[d->graph->edges[d->node->in + slot].value];
}

struct ff_value *ff_derive_value(const struct ff_derive *d, uint32_t port)
{
	return &d->graph->values[d->node->out + port];
}

int ff_derive_input(const struct ff_derive *d, uint32_t slot, enum ff_dtype dtype,
		uint32_t min_rank, uint32_t max_rank, const struct ff_value **ret,
		struct ff_error *err)
{
	const struct ff_value *t = ff_derive_in(d, slot);
	const char *name = d->graph->nodes[t->producer].name;
	char few[16] = "";

	if (t->dtype != dtype)
		return ff_derive_fail(d, err, "input %u (\"%s\") is %s, expected %s", slot, name,
				ff_dtype_name(t->dtype), ff_dtype_name(dtype));
	if (min_rank < max_rank)
		snprintf(few, sizeof(few), "%u to ", min_rank);
	if (t->rank < min_rank || t->rank > max_rank)
		return ff_derive_fail(d, err, "input %u (\"%s\") has shape %s, expected %s%u axes",
				slot, name, ff_shape_text(t->rank, t->shape).text, few, max_rank);
	*ret = t;
	return FF_OK;
}

struct ff_shape_text ff_shape_text(uint32_t rank, const int32_t *shape)
{
	struct ff_shape_text r;
	size_t n = 0;

	r.text[n++] = '[';
	for (uint32_t i = 0; i < rank && n < sizeof(r.text) - 16; i++)
		n += (size_t)snprintf(r.text + n, sizeof(r.text) - n, i ? ", %d" : "%d", shape[i]);
	r.text[n++] = ']';
	r.text[n] = '\0';
	return r;
}

int ff_derive_window(const struct ff_derive *d, const struct ff_window *w, int32_t *out,
		struct ff_error *err)
{
	int64_t extent = (int64_t)w->dilation * (w->kernel - 1) + 1;
	int64_t padded = (int64_t)w->in + w->pad[0] + w->pad[1], rest;

	if (padded > INT32_MAX)
		return ff_derive_fail(d, err, "%s %d with padding %d and %d exceeds 32 bits",
				w->name, w->in, w->pad[0], w->pad[1]);
	if (extent > padded)
		return ff_derive_fail(d, err,
				"the kernel spans %lld elements of the %s, but the padded input "
				"has %lld",
				(long long)extent, w->name, (long long)padded);
	rest = (padded - extent) % w->stride;
	*out = (int32_t)((padded - extent) / w->stride + 1);
	if (w->ceil && rest && (int64_t)*out * w->stride < (int64_t)w->in + w->pad[0])
		++*out;
	return FF_OK;
}

int32_t ff_derive_dim(struct ff_derive *d, enum ff_label label, const char *name, int32_t extent)
{
	uint32_t i = d->node->n_dims++;

	d->node->dim[i] = (struct ff_dim){label, name, extent, 0};
	return (int32_t)i;
}

_Static_assert(FF_MAX_RANK == 6, "names of as many axes as a tensor may have");

const char *ff_axis_name(uint32_t rank, uint32_t axis)
{
	static const char *const image[] = {"sample", "channel", "height", "width"};
	static const char *const numbered[FF_MAX_RANK] = {
			"sample", "axis1", "axis2", "axis3", "axis4", "axis5"};

	if (rank == 2 && axis == 1)
		return "feature";
	return rank == 4 ? image[axis] : numbered[axis];
}

const char *ff_spatial_name(uint32_t axes, uint32_t axis)
{
	static const char *const names[] = {"depth", "height", "width"};

	return axes == 1 ? "length" : names[3 - axes + axis];
}

void ff_derive_axes(struct ff_derive *d, uint32_t rank, const int32_t *shape)
{
	for (uint32_t i = 0; i < rank; i++)
		ff_derive_dim(d, i ? FF_DIM_ATTRIBUTE : FF_DIM_SAMPLE, ff_axis_name(rank, i),
				shape[i]);
}

static void operand_init(struct ff_operand *o, const struct ff_value *v)
{
	bool trained = v->kind == FF_VALUE_PARAMETER;

	*o = (struct ff_operand){.dtype = v->dtype,
			.rank = v->rank,
			.gradient = (uint8_t)(trained ? FF_F32 : v->dtype)};
	memcpy(o->order, v->order, sizeof(o->order));
	for (uint32_t i = 0; i < v->rank; i++) {
		o->shape[i] = v->shape[i];
		o->axis[i] = (struct ff_axis_map){.window = o->shape[i]}; /* whole */
	}
}

static void value_init(struct ff_value *v, enum ff_dtype dtype, uint32_t rank, const int32_t *shape,
		const uint8_t *order)
{
	v->dtype = dtype;
	v->rank = rank;
	for (uint32_t i = 0; i < rank && i < FF_MAX_RANK; i++) {
		v->shape[i] = shape[i];
		v->order[i] = order[i];
	}
}

int ff_derive_out(struct ff_derive *d, uint32_t port, enum ff_dtype dtype, uint32_t rank,
		const int32_t *shape, const uint8_t *order, struct ff_error *err)
{
	struct ff_value *v = ff_derive_value(d, port);

	if (ff_shape_volume(rank, shape) > FF_MAX_TENSOR_ELEMENTS)
		return ff_derive_fail(d, err, "the output %s has more than 2^44 elements",
				ff_shape_text(rank, shape).text);
	value_init(v, dtype, rank, shape, order);
	operand_init(&d->node->out_map[port], v);
	return FF_OK;
}

/* The first node that reads a parameter says what it is. */
static void make_param(struct ff_graph *g, struct ff_value *v, uint32_t rank, const int32_t *shape,
		const uint8_t *order, int64_t fan_in)
{
	static const char *const names[FF_MAX_RANK] = {
			"axis0", "axis1", "axis2", "axis3", "axis4", "axis5"};
	struct ff_node *n = &g->nodes[v->producer];

	value_init(v, g->dtype, rank, shape, order);
	v->fan_in = fan_in;
	operand_init(n->out_map, v);
	for (uint32_t i = 0; i < rank; i++) {
		n->dim[n->n_dims++] = (struct ff_dim){FF_DIM_PARAMETER, names[i], shape[i], 0};
		ff_axis_plain(n->out_map, i, (int32_t)i);
	}
}

int ff_derive_param(struct ff_derive *d, uint32_t i, uint32_t rank, const int32_t *shape,
		const uint8_t *order, int64_t fan_in, struct ff_operand **ret, struct ff_error *err)
{
	uint32_t slot = d->node->n_data + i;
	struct ff_value *v = (struct ff_value *)ff_derive_in(d, slot);
	const char *name = ff_op_row(d->node->op)->param[i];

	if (ff_shape_volume(rank, shape) > FF_MAX_TENSOR_ELEMENTS)
		return ff_derive_fail(d, err, "its %s %s has more than 2^44 elements", name,
				ff_shape_text(rank, shape).text);
	if (!v->rank)
		make_param(d->graph, v, rank, shape, order, fan_in);
	else if (v->rank != rank || memcmp(v->shape, shape, rank * sizeof(*shape)) != 0 ||
			memcmp(v->order, order, rank) != 0)
		return ff_derive_fail(d, err,
				"its %s has shape %s, but \"%s\", which it shares, has %s", name,
				ff_shape_text(rank, shape).text, d->graph->nodes[v->producer].name,
				ff_shape_text(v->rank, v->shape).text);
	operand_init(&d->node->in_map[slot], v);
	*ret = &d->node->in_map[slot];
	return FF_OK;
}

int ff_derive_weights(
		struct ff_derive *d, const struct ff_weight *w, bool bias, struct ff_error *err)
{
	struct ff_operand *o;
	int code = ff_derive_param(d, 0, w->rank, w->shape, w->order, w->fan_in, &o, err);

	if (code < 0)
		return code;
	ff_axis_plain(o, 0, w->dim_out);
	ff_axis_plain(o, 1, w->dim_in);
	if (!bias)
		return FF_OK;
	code = ff_derive_param(d, 1, 1, w->shape, ff_order_plain, 0, &o, err);
	if (code < 0)
		return code;
	ff_axis_plain(o, 0, w->dim_out);
	o->lead_only = 1;
	return FF_OK;
}

struct ff_operand *ff_derive_map(struct ff_derive *d, uint32_t slot)
{
	operand_init(&d->node->in_map[slot], ff_derive_in(d, slot));
	return &d->node->in_map[slot];
}

/* Element k lies between steps k and k + 1. */
static void carry_axis(
		struct ff_operand *o, uint32_t axis, int32_t dim, enum ff_only only, int32_t offset)
{
	struct ff_axis_map *m;

	ff_axis_plain(o, axis, dim);
	m = &o->axis[axis];
	m->only = only;
	m->offset = offset;
}

int ff_derive_carry(struct ff_derive *d, uint32_t i, struct ff_carry *c, struct ff_error *err)
{
	struct ff_node *n = d->node;
	uint32_t port = ff_node_outputs(n) + i;
	int32_t between[FF_MAX_RANK], behind, steps = c->shape[c->axis];
	int code;

	memcpy(between, c->shape, c->rank * sizeof(*between));
	/* of one step nothing is carried, but an axis has some element */
	between[c->axis] = steps > 1 ? steps - 1 : 1;
	behind = steps > 1 ? 0 : -1;
	code = ff_derive_out(d, port, c->dtype, c->rank, between, ff_order_plain, err);
	if (code < 0)
		return code;
	c->left = &n->out_map[port];
	c->found = ff_derive_map(d, n->n_data - n->n_carried + i);
	carry_axis(c->down ? c->found : c->left, c->axis, c->dim, FF_ONLY_LAST, behind);
	carry_axis(c->down ? c->left : c->found, c->axis, c->dim, FF_ONLY_FIRST, -1);
	n->carried_dim = (uint32_t)c->dim;
	n->carried_down = c->down;
	return FF_OK;
}

int ff_derive_alike(struct ff_derive *d, int64_t forward, int64_t backward, struct ff_error *err)
{
	const struct ff_value *first = ff_derive_in(d, 0), *in;
	int code;

	for (uint32_t i = 0; i < d->node->n_data; i++) {
		code = ff_derive_input(d, i, d->graph->dtype, 1, FF_MAX_RANK, &in, err);
		if (code < 0)
			return code;
		if (in->rank != first->rank ||
				memcmp(in->shape, first->shape, in->rank * sizeof(*in->shape)) != 0)
			return ff_derive_fail(d, err,
					"all inputs must have one shape: input 0 is %s, input %u "
					"is %s",
					ff_shape_text(first->rank, first->shape).text, i,
					ff_shape_text(in->rank, in->shape).text);
		ff_operand_plain(ff_derive_map(d, i));
	}
	code = ff_derive_out(d, 0, d->graph->dtype, first->rank, first->shape, first->order, err);
	if (code < 0)
		return code;
	ff_derive_axes(d, first->rank, first->shape);
	ff_operand_plain(d->node->out_map);
	ff_derive_flops(d, forward, backward);
	return FF_OK;
}

struct ff_axis_map *ff_axis_term(struct ff_operand *o, uint32_t axis, struct ff_term term)
{
	struct ff_axis_map *m = &o->axis[axis];

	if (!m->n_terms)
		m->window = 1;
	m->term[m->n_terms++] = term;
	return m;
}

void ff_axis_plain(struct ff_operand *o, uint32_t axis, int32_t dim)
{
	ff_axis_term(o, axis, (struct ff_term){dim, 1, 1});
}

void ff_axis_window(struct ff_operand *o, uint32_t axis, int32_t dim, const struct ff_window *w)
{
	struct ff_axis_map *m = ff_axis_term(o, axis, (struct ff_term){dim, 1, w->stride});

	m->offset = -w->pad[0];
	m->window = w->dilation * (w->kernel - 1) + 1;
}

void ff_operand_plain(struct ff_operand *o)
{
	for (uint32_t i = 0; i < o->rank; i++)
		ff_axis_plain(o, i, (int32_t)i);
}

bool ff_derive_needs_grad(const struct ff_derive *d, uint32_t slot)
{
	return ff_derive_in(d, slot)->needs_grad;
}

void ff_derive_flops(struct ff_derive *d, int64_t forward, int64_t backward)
{
	const struct ff_value *out = ff_derive_value(d, 0);
	int64_t n = ff_value_volume(out);
	bool grad = false;

	for (uint32_t i = 0; i < d->node->n_in; i++)
		grad = grad || ff_derive_needs_grad(d, i);
	d->node->flops_forward = ff_sat_mul(n, forward);
	d->node->flops_backward = grad ? ff_sat_mul(n, backward) : 0;
}

void ff_derive_products(struct ff_derive *d, int64_t fan_in, bool bias)
{
	const struct ff_value *out = ff_derive_value(d, 0);
	int64_t n = ff_value_volume(out);
	int64_t pass = ff_sat_mul(2, ff_sat_mul(n, fan_in)), add = bias ? n : 0;

	d->node->flops_forward = ff_sat_add(pass, add);
	d->node->flops_backward =
			ff_sat_add(ff_sat_mul(pass, ff_derive_needs_grad(d, 0) ? 2 : 1), add);
}
