/* Embedding: ids become rows of a table.  An id of -1 stands for nothing: zeros.
 * Where the table is cut along its rows, a part writes zeros for ids that it has no
 * row of, and the parts are added up.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/kernel_shape.h"
#include "operator/derive.h"

#define AT(field) offsetof(union ff_attrs, embedding.field)
static const struct ff_attr_row attrs[] = {
		{.name = "vocabulary",
				.type = FF_ATTR_INT,
				.offset = AT(vocabulary),
				.min = 1,
				.max = INT32_MAX,
				.required = 1},
		{.name = "features",
				.type = FF_ATTR_INT,
				.offset = AT(features),
				.min = 1,
				.max = INT32_MAX,
				.required = 1},
		{.name = "sparse",
				.type = FF_ATTR_BOOL,
				.offset = AT(sparse),
				.max = 1,
				.later = 1},
};
#undef AT

/* Dims: the axes of the ids, feature, vocabulary. */
static int map_axes(struct ff_derive *d, const struct ff_value *ids, struct ff_error *err)
{
	const struct ff_embedding_attrs *a = &d->node->attrs.embedding;
	const int32_t table[2] = {a->vocabulary, a->features};
	struct ff_operand *in = ff_derive_map(d, 0), *out = d->node->out_map, *weight;
	int32_t feature, row;
	int code;

	for (uint32_t i = 0; i < ids->rank; i++) {
		int32_t dim = ff_derive_dim(d, i ? FF_DIM_ATTRIBUTE : FF_DIM_SAMPLE,
				ff_axis_name(FF_MAX_RANK, i), ids->shape[i]);

		ff_axis_plain(in, i, dim);
		ff_axis_plain(out, i, dim);
	}
	feature = ff_derive_dim(d, FF_DIM_PARAMETER, "feature", a->features);
	row = ff_derive_dim(d, FF_DIM_REDUCTION, "vocabulary", a->vocabulary);
	ff_axis_plain(out, ids->rank, feature);
	/* as a linear layer's, with which it may be shared */
	code = ff_derive_param(d, 0, 2, table, ff_order_plain, a->features, &weight, err);
	if (code < 0)
		return code;
	ff_axis_plain(weight, 0, row);
	ff_axis_plain(weight, 1, feature);
	return FF_OK;
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_embedding_attrs *a = &d->node->attrs.embedding;
	int32_t shape[FF_MAX_RANK];
	const struct ff_node *source;
	const struct ff_value *ids;
	int code = ff_derive_input(d, 0, FF_I32, 1, FF_MAX_RANK - 1, &ids, err);

	if (code < 0)
		return code;
	source = &d->graph->nodes[ids->producer];
	if (source->op == FF_OP_INPUT && source->attrs.input.classes > a->vocabulary)
		return ff_derive_fail(d, err, "\"%s\" has %d classes, the vocabulary only %d",
				source->name, source->attrs.input.classes, a->vocabulary);
	for (uint32_t i = 0; i < ids->rank; i++)
		shape[i] = ids->shape[i];
	shape[ids->rank] = a->features;
	code = ff_derive_out(d, 0, d->graph->dtype, ids->rank + 1, shape,
			ff_derive_order(ids->rank + 1), err);
	if (code == FF_OK)
		code = map_axes(d, ids, err);
	if (code < 0)
		return code;
	if (a->sparse)
		d->node->sparse_rows = ff_value_volume(ids);
	/* forward only copies, backward adds */
	ff_derive_flops(d, 0, 1);
	return FF_OK;
}

const struct ff_op_row ff_op_embedding = {
		.name = "embedding",
		.summary = "rows of a table, one an id; an id of -1 gives zeros",
		.min_in = 1,
		.max_in = 1,
		.flags = FF_OP_BACKWARD_IN | FF_OP_LOOKUP,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.param = {"weight"},
		.derive = derive,
		.kernel_class = FF_KERNEL_LOOKUP,
		.example = FF_EXAMPLE({"labels" : [[ 4, 6 ]], "vocabulary" : 8, "features" : 8}),
};
