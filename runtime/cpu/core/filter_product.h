/* A convolution of float32 images as products of matrices, where those are faster than oneDNN's
 * own.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_FILTER_PRODUCT_H
#define FF_CPU_FILTER_PRODUCT_H

#include "dnnl.h"
#include "kernels/windows.h"

/* A convolution of dense images, channels innermost; channels of each group: `c` of the image, `k`
 * of the result. */
struct ff_filter {
	enum ff_dtype type, image_type; /* image_type: of the image's gradient */
	struct ff_windows windows;
	int64_t n, groups, c, k;
	bool bias;
};

enum { FF_FILTER_FORWARD = 1, FF_FILTER_DATA = 2, FF_FILTER_WEIGHT = 4 };

struct ff_filter_product {
	struct ff_windows windows;
	bool direct;                             /* windows are the image's pixels, one by one */
	int64_t n, c, k, rows, depth;            /* rows: windows; depth: elements of each */
	struct ff_call *forward, *data, *weight; /* without `data` it is oneDNN's sgemm */
	int64_t columns_bytes;                   /* room for the windows as a matrix, or 0 */
};

/* The bits of `passes` that are faster as products. */
int ff_filter_product_passes(const struct ff_filter *f, int passes);
int ff_filter_product_prepare(struct ff_kernel *k, const struct ff_filter *f, int passes,
		struct ff_filter_product *ret, struct ff_error *err);

/* As those of filter.h; `columns` has room for columns_bytes. */
int ff_filter_product_forward(const struct ff_kernel *k, const struct ff_filter_product *p,
		const struct ff_kernel_io *io, const float *image, const float *weight,
		const float *bias, float *result, float *columns, struct ff_error *err);
int ff_filter_product_data(const struct ff_kernel *k, const struct ff_filter_product *p,
		const struct ff_kernel_io *io, const float *dresult, const float *weight,
		float *dimage, float *columns, struct ff_error *err);
/* `dbias` may be NULL. */
int ff_filter_product_weight(const struct ff_kernel *k, const struct ff_filter_product *p,
		const struct ff_kernel_io *io, const float *image, const float *dresult,
		float *dweight, float *dbias, float *columns, struct ff_error *err);

#endif
