/* What lies between attention's parts and cuDNN's graphs of it: masks, logarithms, and rows of
 * which a sum is known.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/real.cuh"
#include "sdpa.h"

#define LANES 32 /* threads that have a row */
#define PICKS 3  /* elements that carry a row's sum: 8 bits each */

/* What stands for -infinity in a mask: weights are 0 beside anything else, and no product or sum
 * with a score overflows.  Numbers below a quarter of it become that, so that rows of which all is
 * masked are told from those of which all is merely small. */
#define MASKED (-0x1p120f)

FF_DEVICE float mask_value(float x)
{
	return x == -INFINITY ? MASKED : x < MASKED / 4 ? MASKED / 4 : x;
}

FF_KERNEL void dense_mask(struct ff_attention a, const uint16_t *mask, int64_t heads, int64_t keys,
		uint16_t *to)
{
	int64_t i = thread_index(), key = i % keys, query = i / keys % a.queries;
	int64_t head = i / keys / a.queries % heads, sample = i / keys / a.queries / heads;

	if (sample >= a.samples)
		return;
	mask += sample * a.mask_stride[0] + head * a.mask_stride[1];
	mask += query * a.mask_stride[2] + key * a.mask_stride[3];
	real_put(&to[i], a.causal && a.first_key + key > a.first_query + query
					 ? MASKED
					 : mask_value(real_get(*mask)));
}

/* LANES threads have a row, of scores and of `out`. */
FF_DEVICE int64_t row_of(const struct ff_attention &a, int64_t *at)
{
	int64_t row = (int64_t)blockIdx.x * (BLOCK / LANES) + threadIdx.y;
	int64_t sample = row / a.queries / a.heads, head = row / a.queries % a.heads;

	*at = ((sample * a.queries + row % a.queries) * a.heads + head) * a.size;
	return row;
}

FF_KERNEL void find_pairs(struct ff_attention a, const float *stats, float *pairs, uint16_t *out)
{
	int64_t at, row = row_of(a, &at);
	bool blind;

	if (row >= a.samples * a.heads * a.queries)
		return;
	blind = a.masked && stats[row] < MASKED / 2;
	for (int64_t d = threadIdx.x; blind && d < a.size; d += LANES)
		real_put(&out[at + d], 0);
	if (threadIdx.x > 0)
		return;
	pairs[2 * row] = blind ? -INFINITY : stats[row];
	pairs[2 * row + 1] = 0;
}

/* An element of a row that is not used yet, the larger the better; of equal ones the first. */
struct pick {
	float size;
	int32_t at;
};

FF_DEVICE bool better(const struct pick &x, const struct pick &y)
{
	return x.size > y.size || (x.size == y.size && x.at < y.at);
}

/* The elements of `out` are zeros but for some, each of which is as near as can be to what is left
 * of the sum over the gradient beside it; the largest come first, and none so small that it would
 * overflow. */
FF_KERNEL void stand_in(struct ff_attention a, const float *pair_slopes, const uint16_t *dout,
		float *stats, uint16_t *out)
{
	FF_SHARED struct pick picks[BLOCK / LANES][LANES];
	int64_t at, row = row_of(a, &at);
	bool here = row < a.samples * a.heads * a.queries;
	float left = here ? pair_slopes[2 * row] : 0, most = 0;
	int32_t used[PICKS] = {-1, -1, -1};

	for (int64_t d = threadIdx.x; here && d < a.size; d += LANES)
		real_put(&out[at + d], 0);
	for (int k = 0; k < PICKS; k++) {
		struct pick own = {-1, INT32_MAX};

		for (int64_t d = threadIdx.x; here && d < a.size; d += LANES) {
			struct pick p = {fabsf(real_get(dout[at + d])), (int32_t)d};

			if (d != used[0] && d != used[1] && better(p, own))
				own = p;
		}
		__syncthreads(); /* who reads the last pick is done */
		picks[threadIdx.y][threadIdx.x] = own;
		for (uint32_t step = LANES / 2; step > 0; step /= 2) {
			__syncthreads();
			if (threadIdx.x < step && better(picks[threadIdx.y][threadIdx.x + step],
								  picks[threadIdx.y][threadIdx.x]))
				picks[threadIdx.y][threadIdx.x] =
						picks[threadIdx.y][threadIdx.x + step];
		}
		__syncthreads();
		own = picks[threadIdx.y][0];
		most = k ? most : own.size;
		used[k] = own.at;
		if (here && own.size > 0 && own.size >= most * 0x1p-20f) {
			float slope = real_get(dout[at + own.at]);
			uint16_t value;

			real_put(&value, left / slope);
			left -= real_get(value) * slope;
			if (threadIdx.x == 0)
				out[at + own.at] = value;
		}
	}
	/* of rows that see nothing every weight is to be 0 */
	if (here && threadIdx.x == 0)
		stats[row] = pair_slopes[2 * row + 1] != -INFINITY ? pair_slopes[2 * row + 1]
								   : -MASKED;
}

/* ---- launches ---- */

static dim3 rows_of(const struct ff_attention *a)
{
	int64_t rows = a->samples * a->heads * a->queries, each = BLOCK / LANES;

	return dim3((unsigned)((rows + each - 1) / each));
}

cudaError_t ff_launch_sdpa_mask(const struct ff_attention *a, const void *mask, int64_t heads,
		int64_t keys, void *to, cudaStream_t s)
{
	return ff_launch(dense_mask, blocks_of(a->samples * heads * a->queries * keys), dim3(BLOCK),
			s, *a, (const uint16_t *)mask, heads, keys, (uint16_t *)to);
}

cudaError_t ff_launch_sdpa_pairs(const struct ff_attention *a, const float *stats, float *pairs,
		void *out, cudaStream_t s)
{
	return ff_launch(find_pairs, rows_of(a), dim3(LANES, BLOCK / LANES), s, *a, stats, pairs,
			(uint16_t *)out);
}

cudaError_t ff_launch_sdpa_rows(const struct ff_attention *a, const float *pair_slopes,
		const void *dout, float *stats, void *out, cudaStream_t s)
{
	return ff_launch(stand_in, rows_of(a), dim3(LANES, BLOCK / LANES), s, *a, pair_slopes,
			(const uint16_t *)dout, stats, (uint16_t *)out);
}
