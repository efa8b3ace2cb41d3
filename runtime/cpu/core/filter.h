/* A convolution of dense images, channels innermost, and its gradients, by oneDNN: its
 * convolutions, for which filters are brought into the library's layout each pass, or products of
 * matrices where that costs more than it saves.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_FILTER_H
#define FF_CPU_FILTER_H

#include "ff/strided.h"
#include "filter_channels.h"
#include "filter_product.h"

struct ff_filter_calls {
	enum ff_dtype type;
	int products; /* passes that are products */
	struct ff_filter_product product;
	bool by_channel; /* the weight's gradient */
	struct ff_filter_channels channels;
	bool order_loops, plain_loops; /* what `ordering` and `plaining` are for */
	struct ff_strided ordering, plaining;
	int64_t order_from;           /* element of the filter where `ordering` begins */
	struct ff_call *order_weight; /* with neither: the plain layout serves */
	struct ff_call *forward, *data, *weight;
	struct ff_call *plain_weight;               /* gradient back to the plain layout, or NULL */
	struct ff_call *widen_image, *widen_result; /* for `weight`, or NULL */
	int64_t order_bytes; /* room for a filter in the library's layout, or windows */
	int64_t image_bytes, result_bytes; /* room for wide ones, or 0 */
};

/* `passes`: FF_FILTER_*, not both FORWARD and DATA. */
int ff_filter_prepare(struct ff_kernel *k, const struct ff_filter *f, int passes,
		struct ff_filter_calls *ret, struct ff_error *err);

/* The weight is [k of all groups][taps][c]; `order` has room for order_bytes. */
int ff_filter_forward(const struct ff_kernel *k, const struct ff_filter_calls *f,
		const struct ff_kernel_io *io, const void *image, const void *weight,
		const void *bias, void *result, void *order, struct ff_error *err);
int ff_filter_data(const struct ff_kernel *k, const struct ff_filter_calls *f,
		const struct ff_kernel_io *io, const void *dresult, const void *weight,
		void *dimage, void *order, struct ff_error *err);
/* Gradients of weight and bias are float32; without a bias there is none of it.  `wide` has room
 * for image_bytes and behind them result_bytes. */
struct ff_filter_gradient {
	const void *image, *dresult;
	float *dweight, *dbias;
	void *order, *wide;
};
int ff_filter_weight(const struct ff_kernel *k, const struct ff_filter_calls *f,
		const struct ff_kernel_io *io, const struct ff_filter_gradient *g,
		struct ff_error *err);

#endif
