/* Transposed convolutions of parts, as the convolutions whose images' gradients they are.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_TRANSPOSED_H
#define FF_RUNTIME_TRANSPOSED_H

#include "windows.h"

/* A box of the spatial axes of an image's shard.  Without padding, as kernels of devices take it
 * as it is. */
struct ff_image_box {
	int64_t n[4], stride[4], channels, channel_stride; /* of the shard */
	int64_t first[FF_MAX_SPATIAL], size[FF_MAX_SPATIAL];
};

/* That convolution's image is the box of the output's shard that the input's elements reach;
 * its result is the input's shard.  `channels`: of each group. */
struct ff_transposed {
	struct ff_windows windows;
	int64_t groups, out_channels, in_channels;
	struct ff_image out, box, in;
	int64_t box_at; /* its first element in the shard */
	struct ff_image_box reached;
	/* What of the weight and the bias is the part's: their first elements, and whether there is
	 * more. */
	int64_t first_weight, first_bias;
	bool has_others;
	bool is_empty; /* no element reaches it */
	bool is_all;   /* the box is all of it */
};

void ff_transposed_fill(const struct ff_work *w, struct ff_transposed *ret);

#endif
