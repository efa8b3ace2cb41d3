/* Kernels of a part by class and shape, as rows say.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/kernel_shape.h"

const char *ff_kernel_class_name(enum ff_kernel_class c)
{
	static const char *const names[FF_KERNEL_CLASS_COUNT] = {
#define NAME(e, name, typed) [e] = #name,
			FF_KERNEL_CLASSES(NAME)
#undef NAME
	};

	return names[c];
}

struct ff_kernel_shape ff_kernel_of_bytes(const struct ff_work *w, enum ff_kernel_class class)
{
	return (struct ff_kernel_shape){.class = class,
			.type = ff_work_type(w),
			.bytes = (double)ff_work_bytes(w),
			.back = w->pass == FF_BACKWARD};
}

struct ff_kernel_shape ff_kernel_product(
		enum ff_dtype type, double count, double m, double n, double k)
{
	return (struct ff_kernel_shape){.class = FF_KERNEL_PRODUCT,
			.type = type,
			.count = count,
			.m = m,
			.n = n,
			.k = k,
			.bytes = count * (m * k + k * n + m * n) * (double)ff_dtype_bytes(type)};
}

uint32_t ff_work_kernels(const struct ff_work *w, struct ff_kernel_shape ret[FF_MOST_KERNELS])
{
	const struct ff_op_row *row = ff_op_row(w->node->op);

	if (row->kernels)
		return row->kernels(w, ret);
	/* of what a part need not exchange, its prelude does nothing */
	if (row->flags & FF_OP_PRELUDE && row->flops && row->flops(w) == 0)
		return 0;
	ret[0] = ff_kernel_of_bytes(w, (enum ff_kernel_class)row->kernel_class);
	return ret[0].bytes > 0;
}
