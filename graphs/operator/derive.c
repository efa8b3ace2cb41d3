/* Helpers for the rows of the operator table.  SPDX-License-Identifier: Apache-2.0 */
#include "derive.h"

#include <stdarg.h>
#include <stdio.h>

void ff_derive_error(const struct ff_derive *d, struct ff_error *err, const char *fmt, ...)
{
	char text[FF_ERROR_TEXT];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	const char *op = ff_op_row(d->node->op)->name;
	if (d->place)
		ff_json_error(d->place, err, "%s \"%s\": %s", op, d->node->name, text);
	else
		ff_error_write(err, FF_E_INPUT, "graph \"%s\": %s \"%s\": %s", d->graph->name, op,
				d->node->name, text);
}

const struct ff_tensor *ff_derive_in(const struct ff_derive *d, uint32_t slot)
{
	return &d->graph->tensors[d->graph->edges[d->node->in + slot].tensor];
}

int ff_derive_input(const struct ff_derive *d, uint32_t slot, enum ff_dtype dtype,
		uint32_t min_rank, uint32_t max_rank, const struct ff_tensor **ret,
		struct ff_error *err)
{
	const struct ff_tensor *t = ff_derive_in(d, slot);
	const char *name = d->graph->nodes[t->producer].name;
	if (t->dtype != dtype)
		return ff_derive_fail(d, err, "input %u (\"%s\") is %s, expected %s", slot, name,
				t->dtype == FF_F32 ? "float32" : "int32",
				dtype == FF_F32 ? "float32" : "int32");
	if (t->rank < min_rank || t->rank > max_rank)
		return ff_derive_fail(d, err,
				"input %u (\"%s\") has shape %s, expected %u to %u axes", slot,
				name, ff_shape_text(t->rank, t->shape).text, min_rank, max_rank);
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
	int64_t padded = (int64_t)w->in + 2 * (int64_t)w->pad;
	if (padded > INT32_MAX)
		return ff_derive_fail(d, err, "%s %d with padding %d exceeds 32 bits", w->name,
				w->in, w->pad);
	if (extent > padded)
		return ff_derive_fail(d, err,
				"the kernel spans %lld elements of the %s, but the padded input "
				"has %lld",
				(long long)extent, w->name, (long long)padded);
	*out = (int32_t)((padded - extent) / w->stride + 1);
	return FF_OK;
}

int32_t ff_derive_dim(struct ff_derive *d, enum ff_label label, const char *name, int32_t extent)
{
	uint32_t i = d->node->n_dims++;
	d->node->dim[i] = (struct ff_dim){label, name, extent};
	return (int32_t)i;
}

const char *ff_axis_name(uint32_t rank, uint32_t axis)
{
	static const char *const image[] = {"sample", "channel", "height", "width"};
	static const char *const numbered[FF_MAX_RANK] = {
			"sample", "axis1", "axis2", "axis3", "axis4", "axis5"};
	if (rank == 2 && axis == 1)
		return "feature";
	return rank == 4 ? image[axis] : numbered[axis];
}

void ff_derive_axes(struct ff_derive *d, uint32_t rank, const int32_t *shape)
{
	for (uint32_t i = 0; i < rank; i++)
		ff_derive_dim(d, i ? FF_DIM_ATTRIBUTE : FF_DIM_SAMPLE, ff_axis_name(rank, i),
				shape[i]);
}

static void operand_init(struct ff_operand *o, uint32_t rank, const int32_t *shape)
{
	*o = (struct ff_operand){.rank = rank};
	for (uint32_t i = 0; i < rank; i++) {
		o->shape[i] = shape[i];
		ff_axis_whole(o, i);
	}
}

int ff_derive_out(struct ff_derive *d, enum ff_dtype dtype, uint32_t rank, const int32_t *shape,
		struct ff_error *err)
{
	if (ff_shape_volume(rank, shape) > FF_MAX_GRAPH_ELEMENTS)
		return ff_derive_fail(d, err, "the output %s has more than 2^44 elements",
				ff_shape_text(rank, shape).text);
	d->out->dtype = dtype;
	d->out->rank = rank;
	for (uint32_t i = 0; i < rank; i++)
		d->out->shape[i] = shape[i];
	operand_init(&d->node->out_map, rank, shape);
	return FF_OK;
}

static int add_weight(struct ff_derive *d, const char *name, uint32_t rank, const int32_t *shape,
		int64_t fan_in, struct ff_operand **ret, struct ff_error *err)
{
	if (ff_shape_volume(rank, shape) > FF_MAX_GRAPH_ELEMENTS)
		return ff_derive_fail(d, err, "its %s %s has more than 2^44 elements", name,
				ff_shape_text(rank, shape).text);
	struct ff_weight *w = &d->node->weight[d->node->n_weights++];
	w->name = name;
	w->fan_in = fan_in;
	operand_init(&w->map, rank, shape);
	*ret = &w->map;
	return FF_OK;
}

int ff_derive_weights(struct ff_derive *d, uint32_t rank, const int32_t *shape, int64_t fan_in,
		int32_t dim_out, int32_t dim_in, int bias, struct ff_error *err)
{
	struct ff_operand *o;
	int code = add_weight(d, "weight", rank, shape, fan_in, &o, err);
	if (code < 0)
		return code;
	ff_axis_plain(o, 0, dim_out);
	ff_axis_plain(o, 1, dim_in);
	if (!bias)
		return FF_OK;
	code = add_weight(d, "bias", 1, shape, 0, &o, err);
	if (code < 0)
		return code;
	ff_axis_plain(o, 0, dim_out);
	o->lead_only = 1;
	return FF_OK;
}

struct ff_operand *ff_derive_map(struct ff_derive *d, uint32_t slot)
{
	const struct ff_tensor *t = ff_derive_in(d, slot);
	operand_init(&d->node->in_map[slot], t->rank, t->shape);
	return &d->node->in_map[slot];
}

void ff_axis_whole(struct ff_operand *o, uint32_t axis)
{
	o->axis[axis] = (struct ff_axis_map){.window = o->shape[axis]};
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
	m->offset = -w->pad;
	m->window = w->dilation * (w->kernel - 1) + 1;
}

void ff_operand_plain(struct ff_operand *o)
{
	for (uint32_t i = 0; i < o->rank; i++)
		ff_axis_plain(o, i, (int32_t)i);
}

int64_t ff_shape_volume(uint32_t rank, const int32_t *shape)
{
	int64_t n = 1;
	for (uint32_t i = 0; i < rank; i++)
		n = ff_sat_mul(n, shape[i]);
	return n;
}

bool ff_derive_needs_grad(const struct ff_derive *d, uint32_t slot)
{
	return ff_derive_in(d, slot)->needs_grad;
}

void ff_derive_flops(struct ff_derive *d, int64_t forward, int64_t backward)
{
	int64_t n = ff_shape_volume(d->out->rank, d->out->shape);
	bool grad = false;
	for (uint32_t i = 0; i < d->node->n_in; i++)
		grad = grad || ff_derive_needs_grad(d, i);
	d->node->flops_forward = ff_sat_mul(n, forward);
	d->node->flops_backward = grad ? ff_sat_mul(n, backward) : 0;
}
