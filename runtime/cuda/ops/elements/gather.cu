/* Elements of an axis in another order; the gradient of each is the sum over where it went.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/places.cuh"
#include "gather.h"

/* Rows of which a thread has some neighbours: packs of a row, rows of an outer one. */
struct picking {
	struct ff_gather g;
	struct divisor packs, rows;
	int64_t threads;
};

/* Which row of which outer one, and where in it. */
struct spot {
	int64_t outer, row, at;
};

template <class I> FF_DEVICE struct spot spot_among(const struct picking &p, I i, int each)
{
	I at = i, row = (I)divided(p.packs, &at), outer = (I)divided(p.rows, &row);
	struct spot s = {(int64_t)outer, (int64_t)row, (int64_t)at * each};

	return s;
}

FF_DEVICE struct spot spot_of(const struct picking &p, int64_t i, int each)
{
	return p.threads <= FF_NARROW ? spot_among(p, (uint32_t)i, each) : spot_among(p, i, each);
}

template <class T, int N>
FF_KERNEL void pick(struct picking p, const int32_t *table, const T *in, T *out)
{
	int64_t i = thread_index();
	struct spot s;

	if (i >= p.threads)
		return;
	s = spot_of(p, i, N);
	((several<T, N> *)out)[i] =
			*(const several<T, N> *)(in +
						 (s.outer * p.g.rows + table[s.row]) * p.g.inner +
						 s.at);
}

template <class T, int N>
FF_KERNEL void pick_back(struct picking p, const int32_t *table, const T *dout, T *din)
{
	const int32_t *first = table + p.g.n, *list = first + p.g.rows + 1;
	int64_t i = thread_index();
	float sum[N] = {};
	several<T, N> all;
	struct spot s;

	if (i >= p.threads)
		return;
	s = spot_of(p, i, N);
	for (int32_t k = first[s.row]; k < first[s.row + 1]; k++) {
		int64_t row = s.outer * p.g.n + list[k];

		all = *(const several<T, N> *)(dout + row * p.g.inner + s.at);
		for (int j = 0; j < N; j++)
			sum[j] += real_get(all.x[j]);
	}
	for (int j = 0; j < N; j++)
		real_put(&all.x[j], sum[j]);
	((several<T, N> *)din)[i] = all;
}

template <class T, int N>
static cudaError_t launch(const struct ff_gather *g, const int32_t *table, bool back,
		const void *from, void *to, cudaStream_t s)
{
	int64_t packs = g->inner / N, rows = back ? g->rows : g->n;
	struct picking p = {*g, divisor_of(packs), divisor_of(rows), g->outer * rows * packs};

	return ff_launch(back ? pick_back<T, N> : pick<T, N>, blocks_of(p.threads), dim3(BLOCK), s,
			p, table, (const T *)from, (T *)to);
}

/* 16 bytes a thread where so many elements divide a row. */
template <class T>
static cudaError_t launch_packs(const struct ff_gather *g, const int32_t *table, bool back,
		const void *from, void *to, cudaStream_t s)
{
	return g->inner % pack<T>::n == 0 ? launch<T, pack<T>::n>(g, table, back, from, to, s)
					  : launch<T, 1>(g, table, back, from, to, s);
}

cudaError_t ff_launch_pick(enum ff_dtype type, const struct ff_gather *g, const int32_t *table,
		const void *in, void *out, cudaStream_t s)
{
	return type == FF_BF16 ? launch_packs<uint16_t>(g, table, false, in, out, s)
			       : launch_packs<float>(g, table, false, in, out, s);
}

cudaError_t ff_launch_pick_gradient(enum ff_dtype type, const struct ff_gather *g,
		const int32_t *table, const void *dout, void *din, cudaStream_t s)
{
	return type == FF_BF16 ? launch_packs<uint16_t>(g, table, true, dout, din, s)
			       : launch_packs<float>(g, table, true, dout, din, s);
}
