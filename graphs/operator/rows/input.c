/* Input: a tensor of the data set; float32 values are rounded to what the graph computes
 * in as they are loaded.  SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

static const struct ff_attr_row attrs[] = {
		{.name = "shape",
				.type = FF_ATTR_SHAPE,
				.offset = offsetof(union ff_attrs, input.rank),
				.min = 1,
				.max = INT32_MAX,
				.required = 1,
				.of_batch = 1},
		{.name = "dtype",
				.type = FF_ATTR_CHOICE,
				.offset = offsetof(union ff_attrs, input.dtype),
				.max = 1,
				.choices = "float32|int32"},
		{.name = "classes",
				.type = FF_ATTR_INT,
				.offset = offsetof(union ff_attrs, input.classes),
				.max = INT32_MAX},
};

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_input_attrs *a = &d->node->attrs.input;
	enum ff_dtype dtype = a->dtype ? FF_I32 : d->graph->dtype;

	if (dtype == FF_I32 && !a->classes)
		return ff_derive_fail(
				d, err, "int32 labels need \"classes\", the number of classes");
	if (!a->dtype && a->classes)
		return ff_derive_fail(d, err, "\"classes\" is for int32 labels, this is float32");
	return ff_derive_out(d, 0, dtype, (uint32_t)a->rank, a->shape,
			ff_derive_order((uint32_t)a->rank), err);
}

const struct ff_op_row ff_op_input = {
		.name = "input",
		.summary = "a tensor of the data set: float32 values or int32 labels",
		.flags = FF_OP_SOURCE,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.derive = derive,
};
