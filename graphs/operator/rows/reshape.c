/* Reshape: the same elements in row-major order under another shape.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

static const struct ff_attr_row attrs[] = {
		{.name = "shape",
				.type = FF_ATTR_SHAPE,
				.offset = offsetof(union ff_attrs, reshape.rank),
				.min = -1,
				.max = INT32_MAX,
				.required = 1,
				.of_batch = 1},
};

/* The shape asked for, with 0 and -1 replaced. */
static int resolve(const struct ff_derive *d, const struct ff_value *in, int32_t *shape,
		struct ff_error *err)
{
	const struct ff_reshape_attrs *a = &d->node->attrs.reshape;
	int64_t have = ff_value_volume(in), known = 1, rest;
	int32_t inferred = -1;
	bool fits;

	for (int32_t i = 0; i < a->rank; i++) {
		shape[i] = a->shape[i];
		if (shape[i] == 0 && i >= (int32_t)in->rank)
			return ff_derive_fail(d, err,
					"shape[%d] is 0 (keep), but the input %s has no such axis",
					i, ff_shape_text(in->rank, in->shape).text);
		if (shape[i] == 0)
			shape[i] = in->shape[i];
		if (shape[i] > 0)
			known = ff_sat_mul(known, shape[i]);
		else if (inferred >= 0)
			return ff_derive_fail(d, err, "only one axis of the shape can be -1");
		else
			inferred = i;
	}
	rest = have / known;
	fits = inferred >= 0 ? have % known == 0 : have == known;
	if (!fits)
		return ff_derive_fail(d, err, "%s does not fit the %lld elements of the input %s",
				ff_shape_text((uint32_t)a->rank, a->shape).text, (long long)have,
				ff_shape_text(in->rank, in->shape).text);
	if (inferred >= 0 && rest > INT32_MAX)
		return ff_derive_fail(d, err, "shape[%d] would be %lld, which exceeds 32 bits",
				inferred, (long long)rest);
	if (inferred >= 0)
		shape[inferred] = (int32_t)rest;
	if (shape[0] != in->shape[0])
		return ff_derive_fail(d, err, "axis 0, the samples, must stay %d, not become %d",
				in->shape[0], shape[0]);
	return FF_OK;
}

/* Axes [first, end) of either side that hold the same elements, smallest such. */
struct group {
	uint32_t in, in_end, out, out_end;
};

static bool next_group(const struct ff_value *in, const struct ff_value *out, struct group *g)
{
	uint32_t i = g->in_end, j = g->out_end;
	int64_t a, b;

	while (i < in->rank && in->shape[i] == 1)
		i++;
	while (j < out->rank && out->shape[j] == 1)
		j++;
	if (i == in->rank) /* both sides have only ones left, if anything */
		return false;
	*g = (struct group){i, i + 1, j, j + 1};
	a = in->shape[i];
	b = out->shape[j];
	while (a != b)
		if (a < b)
			a *= in->shape[g->in_end++];
		else
			b *= out->shape[g->out_end++];
	return true;
}

/* Only the outermost axis of a group can be split.  With `a` elements behind
 * one step of the input's axis and `b` behind one of the output's, output
 * indices that are multiples of a / gcd begin where the input indices that are
 * multiples of b / gcd do: whole blocks correspond. */
static void map_group(struct ff_derive *d, const struct group *g, struct ff_operand *o)
{
	const struct ff_value *in = ff_derive_in(d, 0), *out = ff_derive_value(d, 0);
	int64_t a = ff_shape_volume(g->in_end - g->in - 1, in->shape + g->in + 1);
	int64_t b = ff_shape_volume(g->out_end - g->out - 1, out->shape + g->out + 1);
	int64_t gcd = a, r = b, div, step;
	int32_t dim;

	while (r) {
		int64_t t = gcd % r;

		gcd = r;
		r = t;
	}
	div = a / gcd;
	step = b / gcd;
	if (div >= out->shape[g->out]) /* one block: every part would read everything */
		return;
	dim = ff_derive_dim(
			d, FF_DIM_ATTRIBUTE, ff_axis_name(out->rank, g->out), out->shape[g->out]);
	ff_axis_plain(d->node->out_map, g->out, dim);
	ff_axis_term(o, g->in, (struct ff_term){dim, (int32_t)div, (int32_t)step})->window =
			(int32_t)step;
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	uint32_t rank = (uint32_t)d->node->attrs.reshape.rank;
	struct group g = {.in_end = 1, .out_end = 1};
	int32_t shape[FF_MAX_RANK] = {0}, sample;
	const struct ff_value *in;
	struct ff_operand *o;
	int code = ff_derive_input(d, 0, d->graph->dtype, 1, FF_MAX_RANK, &in, err);

	if (code == FF_OK)
		code = resolve(d, in, shape, err);
	if (code == FF_OK)
		code = ff_derive_out(
				d, 0, d->graph->dtype, rank, shape, ff_derive_order(rank), err);
	if (code < 0)
		return code;
	o = ff_derive_map(d, 0);
	sample = ff_derive_dim(d, FF_DIM_SAMPLE, "sample", shape[0]);
	ff_axis_plain(o, 0, sample);
	ff_axis_plain(d->node->out_map, 0, sample);
	while (next_group(in, ff_derive_value(d, 0), &g))
		map_group(d, &g, o);
	return FF_OK;
}

const struct ff_op_row ff_op_reshape = {
		.name = "reshape",
		.summary = "the same elements under another shape; 0 keeps an axis, -1 is inferred",
		.min_in = 1,
		.max_in = 1,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.derive = derive,
		.example = FF_EXAMPLE({"in" : [[ 4, 8, 6, 6 ]], "shape" : [ 0, -1 ]}),
};
