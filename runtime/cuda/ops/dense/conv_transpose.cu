/* What is behind the library in a transposed convolution: a thread an element.
 * SPDX-License-Identifier: Apache-2.0 */
#include "conv_transpose.h"
#include "cuda/core/real.cuh"

/* Element `i` of the shard, counted over pixels, then channels: where it is, and where in the box;
 * false outside. */
FF_DEVICE bool element_at(const struct ff_image_box &b, int64_t i, int64_t *to, int64_t *from)
{
	int64_t c = i % b.channels, at[4], box;
	bool inside = true;

	*to = c * b.channel_stride;
	i /= b.channels;
	for (int a = 4; a-- > 0;) {
		at[a] = i % b.n[a];
		i /= b.n[a];
		*to += at[a] * b.stride[a];
	}
	box = at[0];
	for (int a = 0; a < FF_MAX_SPATIAL; a++) {
		int64_t k = at[1 + a] - b.first[a];

		inside = inside && k >= 0 && k < b.size[a];
		box = box * b.size[a] + k;
	}
	*from = box * b.channels + c;
	return inside;
}

template <class R, class T>
FF_KERNEL void spread(struct ff_image_box b, const R *result, const T *bias, T *out)
{
	int64_t i = thread_index(), to, from;
	float x = 0;

	if (i >= b.n[0] * b.n[1] * b.n[2] * b.n[3] * b.channels)
		return;
	if (element_at(b, i, &to, &from))
		x = real_get(result[from]);
	if (bias)
		x += real_get(bias[i % b.channels]);
	real_put(&out[to], x);
}

cudaError_t ff_launch_from_box(enum ff_dtype result_type, enum ff_dtype type,
		const struct ff_image_box *b, const void *result, const void *bias, void *out,
		cudaStream_t s)
{
	dim3 grid = blocks_of(b->n[0] * b->n[1] * b->n[2] * b->n[3] * b->channels);

	if (type == FF_F32)
		return ff_launch(spread<float, float>, grid, dim3(BLOCK), s, *b,
				(const float *)result, (const float *)bias, (float *)out);
	if (result_type == FF_F32)
		return ff_launch(spread<float, uint16_t>, grid, dim3(BLOCK), s, *b,
				(const float *)result, (const uint16_t *)bias, (uint16_t *)out);
	return ff_launch(spread<uint16_t, uint16_t>, grid, dim3(BLOCK), s, *b,
			(const uint16_t *)result, (const uint16_t *)bias, (uint16_t *)out);
}
