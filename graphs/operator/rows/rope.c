/* Rotary position embedding (Su et al., "RoFormer", 2021): element i of a head and the one half a
 * head further on are turned by an angle, their place in the sequence times base^(-2 i / head_dim).
 * SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

#define AT(field) offsetof(union ff_attrs, rope.field)
static const struct ff_attr_row attrs[] = {
		{.name = "head_dim",
				.type = FF_ATTR_INT,
				.offset = AT(head_dim),
				.min = 2,
				.max = INT32_MAX,
				.required = 1,
				.in_key = 1},
		{.name = "base",
				.type = FF_ATTR_REAL,
				.offset = AT(base),
				.min = 1,
				.max = 1e12,
				.preset = 10000},
};
#undef AT

/* Dims: sample, head, position. */
static void map_rows(struct ff_operand *o, int32_t size)
{
	ff_axis_plain(o, 0, 0);
	ff_axis_plain(o, 1, 2);
	ff_axis_term(o, 2, (struct ff_term){1, 1, size})->window = size;
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	int32_t size = d->node->attrs.rope.head_dim;
	const struct ff_value *in;
	int code = ff_derive_input(d, 0, d->graph->dtype, 3, 3, &in, err);

	if (code < 0)
		return code;
	if (size % 2 || in->shape[2] % size)
		return ff_derive_fail(d, err,
				"rows of %d elements are no heads of %d, an even number",
				in->shape[2], size);
	code = ff_derive_out(d, 0, d->graph->dtype, 3, in->shape, in->order, err);
	if (code < 0)
		return code;
	ff_derive_dim(d, FF_DIM_SAMPLE, "sample", in->shape[0]);
	ff_derive_dim(d, FF_DIM_PARAMETER, "head", in->shape[2] / size);
	ff_derive_dim(d, FF_DIM_ATTRIBUTE, "position", in->shape[1]);
	map_rows(ff_derive_map(d, 0), size);
	map_rows(d->node->out_map, size);
	ff_derive_flops(d, 3, 3);
	return FF_OK;
}

const struct ff_op_row ff_op_rope = {
		.name = "rope",
		.summary = "rotary position embedding",
		.min_in = 1,
		.max_in = 1,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.derive = derive,
		.example = FF_EXAMPLE({"in" : [[ 4, 6, 8 ]], "head_dim" : 2}),
};
