/* Rotary position embedding: a thread has one angle of a row, of all its heads.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/real.cuh"
#include "rope.h"

template <class T> FF_KERNEL void turn(struct ff_rope r, const T *x, T *y)
{
	int64_t i = thread_index(), row = i / r.half, share = i % r.half;
	double angle;
	float c, s;

	if (row >= r.rows)
		return;
	angle = (double)(r.first + row % r.positions) *
		pow(r.base, -(double)share / (double)r.half);
	c = (float)cos(angle);
	s = (float)(r.sign * sin(angle));
	for (int64_t head = 0; head < r.heads; head++) {
		int64_t at = (row * r.heads + head) * 2 * r.half + share;
		float a = real_get(x[at]), b = real_get(x[at + r.half]);

		real_put(&y[at], a * c - b * s);
		real_put(&y[at + r.half], b * c + a * s);
	}
}

cudaError_t ff_launch_rope(
		enum ff_dtype type, const struct ff_rope *r, const void *x, void *y, cudaStream_t s)
{
	dim3 grid = blocks_of(r->rows * r->half);

	if (type == FF_BF16)
		return ff_launch(turn<uint16_t>, grid, dim3(BLOCK), s, *r, (const uint16_t *)x,
				(uint16_t *)y);
	return ff_launch(turn<float>, grid, dim3(BLOCK), s, *r, (const float *)x, (float *)y);
}
