/* Gradients of filters by unfolded images.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_UNFOLD_H
#define FF_CUDA_UNFOLD_H

#include "border.h"
#include "cuda/libs/filter.h"

struct ff_product;

/* Of one group, a share of the samples at a time. */
struct ff_unfold {
	enum ff_dtype type;
	int64_t shares, dout_step,
			image_step; /* of a share: elements of the result, of the image */
	bool surrounds;             /* zeros are put around images first */
	struct ff_border border;
	struct ff_strided windows;        /* to a row for each window */
	int64_t around, rows;             /* workspace */
	struct ff_product *writes, *adds; /* of the first share, of others */
};

/* Whether it serves: rows of channels that threads can take as a whole, and not too many. */
bool ff_unfold_serves(const struct ff_kernel *k, const struct ff_filter *f, enum ff_dtype type);
/* `in`: where the images lie. */
int ff_unfold_prepare(struct ff_kernel *k, const struct ff_filter *f, enum ff_dtype type,
		const struct ff_image *in, struct ff_unfold *u, struct ff_error *err);
void ff_unfold_finish(struct ff_unfold *u);
/* `dout`: dense, channels innermost. */
int ff_unfold_run(const struct ff_kernel *k, const struct ff_unfold *u,
		const struct ff_kernel_io *io, const void *image, const void *dout, float *dweight,
		cudaStream_t queue, struct ff_error *err);
/* From now on it adds to what is there. */
void ff_unfold_add(struct ff_unfold *u);

#endif
