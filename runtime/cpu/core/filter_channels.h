/* The weight's gradient of a convolution channel by channel (depthwise), of small images: oneDNN
 * 2.6 takes its own such kernel for those that are larger than the filter, and else one of blocks
 * of 16 x 16 channels, of which it then fills one in 256. SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_FILTER_CHANNELS_H
#define FF_CPU_FILTER_CHANNELS_H

#include "filter_product.h"

/* Images [n][pixels][channels] of `type`; a filter of one channel for each of them. */
struct ff_filter_channels {
	enum ff_dtype type;
	struct ff_windows windows;
	int64_t n, channels;
};

/* Whether `f` is one. */
static inline bool ff_filter_is_by_channel(const struct ff_filter *f)
{
	return f->groups > 1 && f->c == 1 && f->k == 1;
}
void ff_filter_channels_fill(const struct ff_filter *f, struct ff_filter_channels *ret);
/* dweight: [channels][taps]; dbias: [channels], or NULL. */
void ff_filter_channels_weight(const struct ff_filter_channels *f, const void *image,
		const void *dresult, float *dweight, float *dbias);

#endif
