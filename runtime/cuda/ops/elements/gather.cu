/* Elements of an axis in another order; the gradient of each is the sum over where it went.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/real.cuh"
#include "gather.h"

/* Element `i` of rows of `n`, `inner` wide: which row of which outer one, and where in it. */
struct spot {
	int64_t outer, row, at;
};

FF_DEVICE struct spot spot_of(int64_t i, int64_t n, int64_t inner)
{
	int64_t row = i / inner, outer = row / n;
	struct spot s = {outer, row - outer * n, i - row * inner};

	return s;
}

template <class T>
FF_KERNEL void pick(struct ff_gather g, const int32_t *table, const T *in, T *out)
{
	int64_t i = thread_index();
	struct spot s;

	if (i >= g.outer * g.n * g.inner)
		return;
	s = spot_of(i, g.n, g.inner);
	out[i] = in[(s.outer * g.rows + table[s.row]) * g.inner + s.at];
}

template <class T>
FF_KERNEL void pick_back(struct ff_gather g, const int32_t *table, const T *dout, T *din)
{
	const int32_t *first = table + g.n, *list = first + g.rows + 1;
	int64_t i = thread_index();
	struct spot s;
	float sum = 0;

	if (i >= g.outer * g.rows * g.inner)
		return;
	s = spot_of(i, g.rows, g.inner);
	for (int32_t k = first[s.row]; k < first[s.row + 1]; k++)
		sum += real_get(dout[(s.outer * g.n + list[k]) * g.inner + s.at]);
	real_put(&din[i], sum);
}

cudaError_t ff_launch_pick(enum ff_dtype type, const struct ff_gather *g, const int32_t *table,
		const void *in, void *out, cudaStream_t s)
{
	dim3 grid = blocks_of(g->outer * g->n * g->inner);

	if (type == FF_BF16)
		return ff_launch(pick<uint16_t>, grid, dim3(BLOCK), s, *g, table,
				(const uint16_t *)in, (uint16_t *)out);
	return ff_launch(pick<float>, grid, dim3(BLOCK), s, *g, table, (const float *)in,
			(float *)out);
}

cudaError_t ff_launch_pick_gradient(enum ff_dtype type, const struct ff_gather *g,
		const int32_t *table, const void *dout, void *din, cudaStream_t s)
{
	dim3 grid = blocks_of(g->outer * g->rows * g->inner);

	if (type == FF_BF16)
		return ff_launch(pick_back<uint16_t>, grid, dim3(BLOCK), s, *g, table,
				(const uint16_t *)dout, (uint16_t *)din);
	return ff_launch(pick_back<float>, grid, dim3(BLOCK), s, *g, table, (const float *)dout,
			(float *)din);
}
