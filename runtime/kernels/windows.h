/* Windows of a part over its spatial axes, as kernels of both backends want them: always three,
 * the leading ones of one element where there are fewer.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_WINDOWS_H
#define FF_RUNTIME_WINDOWS_H

#include "ff/work.h"

/* Without padding, as kernels of devices take it as it is.  A window of result `o` reads images o *
 * stride - pad[0] + tap * dilation.  pad: before the shard's first element, and what the last
 * window has behind its last one. */
struct ff_windows {
	int64_t in[FF_MAX_SPATIAL], out[FF_MAX_SPATIAL]; /* of the shards */
	int64_t pad[2][FF_MAX_SPATIAL];
	int32_t kernel[FF_MAX_SPATIAL], stride[FF_MAX_SPATIAL], dilation[FF_MAX_SPATIAL];
	uint32_t first; /* axis that libraries are told of: they know two or three */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Of a conv or a pool. */
void ff_windows_fill(const struct ff_work *w, struct ff_windows *ret);
/* Padding behind becomes that before where this leaves the windows as they are: libraries know most
 * kernels for that. */
void ff_windows_settle(struct ff_windows *w);
/* The same windows of images with zeros around them, so that padding is the same on both sides;
 * `first`: where an image begins in that.  False: it is already. */
bool ff_windows_surround(struct ff_windows *w, int64_t first[FF_MAX_SPATIAL]);
static inline int64_t ff_windows_taps(const struct ff_windows *w)
{
	return (int64_t)w->kernel[0] * w->kernel[1] * w->kernel[2];
}

/* Where the elements of an image's shard lie: samples and three spatial axes, then channels. */
struct ff_image {
	int64_t n[4], stride[4], channels, channel_stride;
	bool is_last; /* dense, channels innermost */
};
void ff_image_fill(const struct ff_operand *o, const struct ff_region *r, struct ff_image *ret);
static inline int64_t ff_image_pixels(const struct ff_image *i)
{
	return i->n[0] * i->n[1] * i->n[2] * i->n[3];
}

/* The loops between `groups` x `per_group` channels of a shard, a group's `group_step` behind
 * another's, and a dense image of them, channels innermost: to that, or back. */
struct ff_strided;
void ff_image_loops(const struct ff_image *i, int64_t groups, int64_t per_group, int64_t group_step,
		bool back, struct ff_strided *ret);
/* Loops to a dense image go to a larger one, whose spatial extents are `size`. */
void ff_image_loops_into(const int64_t size[FF_MAX_SPATIAL], struct ff_strided *s);

/* Whole groups of a convolution, or a piece of one: what is convolved at once.  A part has the
 * rest of a group, whole groups and the beginning of one, at most. */
struct ff_band {
	int64_t groups, c, k;                      /* channels of each group's input and output */
	int64_t first_in, first_out, first_weight; /* channels in the shards; element of weights */
	bool pack_in, pack_out; /* the shard is not a dense image of these channels alone */
};
#define FF_MAX_BANDS 3
struct ff_bands {
	uint32_t n;
	int64_t group_step; /* channels from one group's input to the next's */
	bool cover;         /* together all channels of the input's shard */
	struct ff_band band[FF_MAX_BANDS];
};
struct ff_work;
void ff_bands_fill(const struct ff_work *w, const struct ff_image *in, const struct ff_image *out,
		struct ff_bands *ret);
static inline int64_t ff_band_in(const struct ff_band *b)
{
	return b->groups * b->c;
}
static inline int64_t ff_band_out(const struct ff_band *b)
{
	return b->groups * b->k;
}

/* Images, and channels of each, as what takes every channel by itself may count them: where
 * channels are not innermost (lines) every channel is an image. */
void ff_image_planes(const struct ff_operand *o, const struct ff_region *r, int64_t *n, int64_t *c);

#ifdef __cplusplus
}
#endif

#endif
