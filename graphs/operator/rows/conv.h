/* What rows of convolutions have in common, transposed or not.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_ROWS_CONV_H
#define FF_ROWS_CONV_H

#include "ff/kernel_shape.h"
#include "operator/derive.h"

#define FF_CONV_AT(field) .offset = offsetof(union ff_attrs, conv.field)
#define FF_CONV_AXES(field) .type = FF_ATTR_AXES, FF_CONV_AT(field), .max = INT32_MAX

/* clang-format off */
/* Attributes before and behind those that only one of the two has. */
#define FF_CONV_ATTRS_BEFORE                                                                       \
	{.name = "out_channels", .type = FF_ATTR_INT, FF_CONV_AT(out_channels), .min = 1,          \
			.max = INT32_MAX, .required = 1},                                          \
	{.name = "kernel", FF_CONV_AXES(kernel), .min = 1, .required = 1, .in_key = 1},            \
	{.name = "stride", FF_CONV_AXES(stride), .min = 1, .preset = 1, .in_key = 1},              \
	{.name = "pad", .type = FF_ATTR_PADS, FF_CONV_AT(pad), .max = INT32_MAX}
#define FF_CONV_ATTRS_BEHIND                                                                       \
	{.name = "dilation", FF_CONV_AXES(dilation), .min = 1, .preset = 1, .in_key = 1},          \
	{.name = "groups", .type = FF_ATTR_INT, FF_CONV_AT(groups), .min = 1,                      \
			.max = INT32_MAX, .preset = 1, .in_key = 1},                               \
	{.name = "bias", .type = FF_ATTR_BOOL, FF_CONV_AT(bias), .max = 1, .preset = 1}
/* clang-format on */

static inline void ff_conv_count(const union ff_attrs *a, struct ff_op_counts *ret)
{
	ret->params = a->conv.bias ? 2 : 1;
}

/* The kernels of a part (rows/conv.c): `transposed` what goes from few elements to many. */
uint32_t ff_conv_kernels(const struct ff_work *w, bool transposed, struct ff_kernel_shape *ret);

/* The three rows: what they are called, and in words. */
#define FF_CONV_ROWS(symbol, text)                                                                 \
	FF_CONV_ROW(symbol##1d, #symbol "1d", text " over length", 1, 4, 8, 6)                     \
	FF_CONV_ROW(symbol##2d, #symbol "2d", text " over height and width", 2, 4, 8, 6, 6)        \
	FF_CONV_ROW(symbol##3d, #symbol "3d", text " over depth, height and width", 3, 4, 8, 6, 6, \
			6)
#define FF_CONV_ROW(symbol, text, over, n, ...)                                                    \
	const struct ff_op_row ff_op_##symbol = {                                                  \
			.name = text,                                                              \
			.summary = over " with stride, padding, dilation and groups",              \
			.min_in = 1,                                                               \
			.max_in = 1,                                                               \
			.flags = FF_OP_BACKWARD_IN | FF_OP_HALVES,                                 \
			.axes = n,                                                                 \
			.attrs = attrs,                                                            \
			.n_attrs = sizeof(attrs) / sizeof(attrs[0]),                               \
			.param = {"weight", "bias"},                                               \
			.count = ff_conv_count,                                                    \
			.derive = derive,                                                          \
			.kernels = kernels,                                                        \
			.example = FF_EXAMPLE({                                                    \
				"in" : [[__VA_ARGS__]],                                            \
				"out_channels" : 8,                                                \
				"kernel" : 3,                                                      \
				"pad" : 1                                                          \
			}),                                                                        \
	};

#endif
