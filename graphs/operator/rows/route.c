/* Which places of a sample go to which expert: of every place the experts that give it most, first
 * choices before second ones, each in the order of the places, until an expert has no slot left.
 * Samples are counted apart (the groups of Lepikhin et al., "GShard", 2021), so that every cut of
 * the samples says the same and nothing is exchanged.  Without a limit a place chooses by itself,
 * and the output says which expert is which of its choices.  By index it says which experts took a
 * place, and of each slot the place that has it.  SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

#define AT(field) offsetof(union ff_attrs, route.field)
static const struct ff_attr_row attrs[] = {
		{.name = "choices",
				.type = FF_ATTR_INT,
				.offset = AT(choices),
				.min = 1,
				.max = INT32_MAX,
				.preset = 1,
				.in_key = 1},
		{.name = "capacity", .type = FF_ATTR_INT, .offset = AT(capacity), .max = INT32_MAX},
		{.name = "index",
				.type = FF_ATTR_BOOL,
				.offset = AT(index),
				.max = 1,
				.in_key = FF_KEY_UNLESS_PRESET,
				.later = 1},
};
#undef AT

static void count(const union ff_attrs *a, struct ff_op_counts *ret)
{
	ret->out = a->route.index ? 2 : 1;
}

/* What there is of a sample is written by the part that has it. */
static int derive_out(struct ff_derive *d, uint32_t port, enum ff_dtype dtype, const int32_t *shape,
		struct ff_error *err)
{
	int code = ff_derive_out(d, port, dtype, 3, shape, ff_order_plain, err);

	if (code == FF_OK)
		ff_axis_plain(&d->node->out_map[port], 0, 0);
	return code;
}

/* Which experts took a place: [N, T, E]; which places they have in their slots: [N, E, capacity].
 */
static int derive_index(struct ff_derive *d, const int32_t *in, struct ff_error *err)
{
	const struct ff_route_attrs *a = &d->node->attrs.route;
	int code;

	if (!a->capacity)
		return ff_derive_fail(d, err, "by index experts have slots: expected a capacity");
	code = derive_out(d, 0, d->graph->dtype, in, err);
	return code < 0 ? code
			: derive_out(d, 1, FF_I32, (int32_t[]){in[0], in[2], a->capacity}, err);
}

/* A one for each slot that a place has: [N, T, capacity E]. */
static int derive_ones(struct ff_derive *d, const int32_t *in, struct ff_error *err)
{
	const struct ff_route_attrs *a = &d->node->attrs.route;
	int32_t shape[3] = {in[0], in[1]};

	if (__builtin_mul_overflow(a->capacity ? a->capacity : a->choices, in[2], &shape[2]))
		return ff_derive_fail(d, err, "the output exceeds 32 bits along axis 2");
	return derive_out(d, 0, d->graph->dtype, shape, err);
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_route_attrs *a = &d->node->attrs.route;
	const struct ff_value *in;
	struct ff_operand *o;
	int code = ff_derive_input(d, 0, d->graph->dtype, 3, 3, &in, err);

	if (code < 0)
		return code;
	if (a->choices > in->shape[2])
		return ff_derive_fail(d, err, "%d choices of %d experts", a->choices, in->shape[2]);
	ff_derive_dim(d, FF_DIM_SAMPLE, "sample", in->shape[0]);
	code = (a->index ? derive_index : derive_ones)(d, in->shape, err);
	if (code < 0)
		return code;
	o = ff_derive_map(d, 0);
	ff_axis_plain(o, 0, 0);
	if (!a->capacity) {
		ff_derive_dim(d, FF_DIM_ATTRIBUTE, "place", in->shape[1]);
		ff_axis_plain(o, 1, 1);
		ff_axis_plain(d->node->out_map, 1, 1);
	}
	ff_derive_flops(d, 1, 0);
	return FF_OK;
}

const struct ff_op_row ff_op_route = {
		.name = "route",
		.summary = "which places go to which experts, each of which takes so many",
		.min_in = 1,
		.max_in = 1,
		.flags = FF_OP_CONSTANT,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.count = count,
		.derive = derive,
		.example = FF_EXAMPLE({"in" : [[ 4, 6, 8 ]], "capacity" : 2}),
};
