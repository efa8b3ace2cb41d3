/* Local response normalisation across channels: Krizhevsky, Sutskever, Hinton, "ImageNet
 * Classification with Deep Convolutional Neural Networks", 2012, as PyTorch's LocalResponseNorm.
 * Parts that are cut along channels read those next to them.  SPDX-License-Identifier: Apache-2.0
 */
#include "ff/kernel_shape.h"
#include "operator/derive.h"

#define AT(field) offsetof(union ff_attrs, response.field)
#define REAL(attribute, member, ...)                                                               \
	{                                                                                          \
		.name = attribute, .type = FF_ATTR_REAL, .offset = AT(member), __VA_ARGS__         \
	}
static const struct ff_attr_row attrs[] = {
		{.name = "size",
				.type = FF_ATTR_INT,
				.offset = AT(size),
				.min = 1,
				.max = 1 << 20,
				.preset = 5,
				.in_key = 1},
		REAL("alpha", alpha, .min = 0, .max = 1e6, .preset = 1e-4),
		REAL("beta", beta, .min = 0, .max = 100, .preset = 0.75),
		REAL("k", k, .min = 1e-6, .max = 1e6, .preset = 1),
};
#undef REAL
#undef AT

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_response_attrs *a = &d->node->attrs.response;
	const struct ff_value *in;
	struct ff_window window;
	struct ff_operand *o;
	int code = ff_derive_input(d, 0, d->graph->dtype, 2, FF_MAX_RANK, &in, err);

	if (code == FF_OK)
		code = ff_derive_out(d, 0, d->graph->dtype, in->rank, in->shape, in->order, err);
	if (code < 0)
		return code;
	window = (struct ff_window){.kernel = a->size, .stride = 1, .dilation = 1};
	window.pad[0] = a->size / 2;
	o = ff_derive_map(d, 0);
	for (uint32_t i = 0; i < in->rank; i++) {
		enum ff_label label = !i       ? FF_DIM_SAMPLE
				      : i == 1 ? FF_DIM_PARAMETER
					       : FF_DIM_ATTRIBUTE;
		const char *name = ff_axis_name(in->rank == 2 ? 4 : in->rank, i);

		ff_derive_dim(d, label, name, in->shape[i]);
		if (i == 1)
			ff_axis_window(o, i, 1, &window);
		else
			ff_axis_plain(o, i, (int32_t)i);
	}
	ff_operand_plain(d->node->out_map);
	/* squares, their sum, a power, a product; backward the same twice and more */
	ff_derive_flops(d, 2 * (int64_t)a->size + 4, 4 * (int64_t)a->size + 8);
	return FF_OK;
}

const struct ff_op_row ff_op_local_response_norm = {
		.name = "local_response_norm",
		.summary = "each channel by the squares of those next to it",
		.min_in = 1,
		.max_in = 1,
		.flags = FF_OP_BACKWARD_IN,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.derive = derive,
		.kernel_class = FF_KERNEL_NORM,
};
