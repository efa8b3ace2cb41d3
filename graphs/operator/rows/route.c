/* Which places of a sample go to which expert: of every place the experts that give it most, first
 * choices before second ones, each in the order of the places, until an expert has no slot left.
 * Samples are counted apart (the groups of Lepikhin et al., "GShard", 2021), so that every cut of
 * the samples says the same and nothing is exchanged.  Without a limit a place chooses by itself,
 * and the output says which expert is which of its choices.  SPDX-License-Identifier: Apache-2.0 */
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
};
#undef AT

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_route_attrs *a = &d->node->attrs.route;
	const struct ff_value *in;
	struct ff_operand *o;
	int32_t shape[3];
	int code = ff_derive_input(d, 0, d->graph->dtype, 3, 3, &in, err);

	if (code < 0)
		return code;
	if (a->choices > in->shape[2])
		return ff_derive_fail(d, err, "%d choices of %d experts", a->choices, in->shape[2]);
	shape[0] = in->shape[0];
	shape[1] = in->shape[1];
	if (__builtin_mul_overflow(a->capacity ? a->capacity : a->choices, in->shape[2], &shape[2]))
		return ff_derive_fail(d, err, "the output exceeds 32 bits along axis 2");
	code = ff_derive_out(d, 0, d->graph->dtype, 3, shape, ff_order_plain, err);
	if (code < 0)
		return code;
	ff_derive_dim(d, FF_DIM_SAMPLE, "sample", shape[0]);
	o = ff_derive_map(d, 0);
	ff_axis_plain(o, 0, 0);
	ff_axis_plain(d->node->out_map, 0, 0);
	if (!a->capacity) {
		ff_derive_dim(d, FF_DIM_ATTRIBUTE, "place", shape[1]);
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
		.derive = derive,
		.example = FF_EXAMPLE({"in" : [[ 4, 6, 8 ]], "capacity" : 2}),
};
