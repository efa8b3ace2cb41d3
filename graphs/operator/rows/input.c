/* Input: a tensor of the data set; float32 values are rounded to what the graph computes
 * in as they are loaded.  Or what the elements of another input add up to in the whole batch, for
 * means whose divisor the data say.  SPDX-License-Identifier: Apache-2.0 */
#include <float.h>

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
		{.name = "of",
				.type = FF_ATTR_INT,
				.offset = offsetof(union ff_attrs, input.of),
				.max = INT32_MAX,
				.later = 1},
		{.name = "sums",
				.type = FF_ATTR_LIST,
				.offset = offsetof(union ff_attrs, input.sums),
				.min = -FLT_MAX,
				.max = FLT_MAX,
				.later = 1},
};

/* How many classes the runs are of; -1: these are none. */
static int64_t classes_of(const struct ff_numbers *runs)
{
	int64_t n = 0;

	for (int64_t i = 0; i < runs->n; i += 2) {
		double some = runs->at[i];

		if (i + 1 == runs->n || !(some >= 1 && some <= INT32_MAX) ||
				some != (double)(int32_t)some)
			return -1;
		n += (int64_t)some;
	}
	return n;
}

static int check_sums(const struct ff_derive *d, struct ff_error *err)
{
	const struct ff_input_attrs *a = &d->node->attrs.input;
	uint32_t before = (uint32_t)(d->node - d->graph->nodes);
	uint32_t of = ff_graph_source(d->graph, before, (uint32_t)a->of);
	const struct ff_input_attrs *other;

	if (of == FF_NONE)
		return ff_derive_fail(d, err, "\"of\" is %d, expected the place of an input before",
				a->of);
	other = &d->graph->nodes[of].attrs.input;
	if (other->sums.n || a->dtype || a->rank != 1)
		return ff_derive_fail(d, err,
				"\"sums\" are one float32 a sample, of an input that has none");
	if (other->dtype ? classes_of(&a->sums) != other->classes : a->sums.n != 1)
		return ff_derive_fail(d, err, "\"sums\" of %s must be %s", d->graph->nodes[of].name,
				other->dtype ? "runs, how many classes and what each counts for, "
					       "for all of its classes"
					     : "one number");
	return FF_OK;
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_input_attrs *a = &d->node->attrs.input;
	enum ff_dtype dtype = a->dtype ? FF_I32 : d->graph->dtype;

	if (dtype == FF_I32 && !a->classes)
		return ff_derive_fail(
				d, err, "int32 labels need \"classes\", the number of classes");
	if (!a->dtype && a->classes)
		return ff_derive_fail(d, err, "\"classes\" is for int32 labels, this is float32");
	if (a->sums.n && check_sums(d, err) < 0)
		return err->code;
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
