/* Images of N D H W C, dense in that order, of which a thread has some neighbouring channels of a
 * place.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_IMAGE_CUH
#define FF_CUDA_IMAGE_CUH

#include "cuda/core/places.cuh"

struct image {
	int64_t n, channels;
	struct divisor size[3], packs; /* of channels */
	int64_t threads;
};

static inline struct image image_of(
		int64_t n, int64_t channels, int64_t d, int64_t h, int64_t w, int64_t each)
{
	struct image i = {n, channels, {divisor_of(d), divisor_of(h), divisor_of(w)},
			divisor_of(channels / each), n * d * h * w * (channels / each)};

	return i;
}

/* Axes are shorter than 2^31 elements (graphs/operator/derive.c). */
struct spot {
	int64_t n, c;
	int32_t at[3];
};

template <class I> FF_DEVICE struct spot spot_among(const struct image &i, I thread, int each)
{
	struct spot s;
	I c = thread, x, y, z;

	x = (I)divided(i.packs, &c);
	y = (I)divided(i.size[2], &x);
	z = (I)divided(i.size[1], &y);
	s.n = (int64_t)divided(i.size[0], &z);
	s.c = (int64_t)c * each;
	s.at[0] = (int32_t)z, s.at[1] = (int32_t)y, s.at[2] = (int32_t)x;
	return s;
}

FF_DEVICE struct spot spot_of(const struct image &i, int64_t thread, int each)
{
	return i.threads <= FF_NARROW ? spot_among(i, (uint32_t)thread, each)
				      : spot_among(i, thread, each);
}

/* The first channel of a row of pixels. */
FF_DEVICE int64_t row_at(const struct image &i, int64_t n, int32_t z, int32_t y)
{
	return ((n * i.size[0].n + z) * i.size[1].n + y) * i.size[2].n * i.channels;
}

#endif
