/* Rows of a table, and their gradients.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/real.cuh"
#include "embedding.h"

#define EACH 8 /* ids that a thread looks at between two steps of its block */

/* Where the features of position `i` begin. */
FF_DEVICE int64_t locate(const struct ff_embedding &e, int64_t i)
{
	int64_t at = 0;

	for (uint32_t axis = e.rank; axis-- > 0;) {
		at += i % e.n[axis] * e.stride[axis];
		i /= e.n[axis];
	}
	return at;
}

/* A block a position.  Any of several that are wrong is reported. */
template <class T>
FF_KERNEL void lookup(struct ff_embedding e, const int32_t *ids, const T *table, T *out,
		struct ff_device_error *error)
{
	int64_t i = blockIdx.x, at = locate(e, i), row = (int64_t)ids[i] - e.first;
	bool here = ids[i] >= 0 && row >= 0 && row < e.rows;

	if (threadIdx.x == 0 && (ids[i] < -1 || ids[i] >= e.vocabulary)) {
		error->value = ids[i];
		report(error);
	}
	for (int64_t c = threadIdx.x; c < e.features; c += blockDim.x)
		out[at + c * e.step] = here ? table[row * e.features + c] : (T)0;
}

/* A block adds up one row of the gradient: `by_row`, its own; else that of the id at its
 * position, if no earlier one has it, and rows of no id are zero already (`adds`: all rows have
 * what is added to).  So a block looks through all ids; the fewer of rows and positions are as many
 * blocks.  `rows`, where it is not NULL, gets the rows that blocks add up, each once. */
template <class T>
FF_KERNEL void gather(struct ff_embedding e, bool by_row, bool adds, const int32_t *ids,
		const T *dout, float *gradient, int32_t *rows)
{
	FF_SHARED uint32_t mask[BLOCK];
	FF_SHARED int earlier, any;
	int64_t own = blockIdx.x, row = by_row ? own : (int64_t)ids[own] - e.first;
	int64_t id = row + e.first, first = by_row ? 0 : own;
	bool here = row >= 0 && row < e.rows && id >= 0;

	if (threadIdx.x == 0)
		earlier = 0;
	__syncthreads();
	for (int64_t i = threadIdx.x; here && i < first; i += blockDim.x)
		if (ids[i] == id)
			earlier = 1;
	__syncthreads();
	here = here && !earlier;
	if (rows && threadIdx.x == 0)
		rows[own] = here ? (int32_t)row + 1 : 0;
	if (here && by_row && !adds)
		for (int64_t c = threadIdx.x; c < e.features; c += blockDim.x)
			gradient[row * e.features + c] = 0;
	for (int64_t at = first; here && at < e.positions; at += (int64_t)blockDim.x * EACH) {
		int64_t mine = at + (int64_t)threadIdx.x * EACH;
		uint32_t found = 0;

		if (threadIdx.x == 0)
			any = 0;
		__syncthreads();
		for (int k = 0; k < EACH && mine + k < e.positions; k++)
			found |= (uint32_t)(ids[mine + k] == id) << k;
		mask[threadIdx.x] = found;
		if (found)
			any = 1;
		__syncthreads();
		for (uint32_t t = 0; any && t < blockDim.x; t++)
			for (int k = 0; mask[t] >> k; k++) {
				int64_t i = at + (int64_t)t * EACH + k;

				if (!(mask[t] >> k & 1))
					continue;
				for (int64_t c = threadIdx.x; c < e.features; c += blockDim.x)
					gradient[row * e.features + c] +=
							real_get(dout[locate(e, i) + c * e.step]);
			}
		__syncthreads();
	}
}

/* A block a row that the list before has. */
FF_KERNEL void clear(const int32_t *rows, int64_t features, float *gradient)
{
	int64_t row = (int64_t)rows[blockIdx.x] - 1;

	for (int64_t c = threadIdx.x; row >= 0 && c < features; c += blockDim.x)
		gradient[row * features + c] = 0;
}

template <class T>
static cudaError_t launch_gather(const struct ff_embedding *e, const int32_t *ids, const void *dout,
		float *gradient, int32_t *rows, bool adds, cudaStream_t s)
{
	bool by_row = !rows && e->rows <= e->positions;
	cudaError_t code = cudaSuccess;

	if (rows)
		code = ff_launch(clear, dim3((unsigned)e->positions), dim3(BLOCK), s,
				(const int32_t *)rows, e->features, gradient);
	else if (!by_row && !adds)
		code = ff_launch_fill(gradient, 4, e->rows * e->features, 0, s);
	if (code != cudaSuccess)
		return code;
	return ff_launch(gather<T>, dim3((unsigned)(by_row ? e->rows : e->positions)), dim3(BLOCK),
			s, *e, by_row, adds, ids, (const T *)dout, gradient, rows);
}

cudaError_t ff_launch_lookup(enum ff_dtype type, const struct ff_embedding *e, const int32_t *ids,
		const void *table, void *out, struct ff_device_error *error, cudaStream_t s)
{
	dim3 grid((unsigned)e->positions), block(e->features > 64 ? 128 : 32);

	if (type == FF_BF16)
		return ff_launch(lookup<uint16_t>, grid, block, s, *e, ids, (const uint16_t *)table,
				(uint16_t *)out, error);
	return ff_launch(lookup<uint32_t>, grid, block, s, *e, ids, (const uint32_t *)table,
			(uint32_t *)out, error);
}

cudaError_t ff_launch_gather(enum ff_dtype type, const struct ff_embedding *e, const int32_t *ids,
		const void *dout, float *gradient, int32_t *rows, bool adds, cudaStream_t s)
{
	if (type == FF_BF16)
		return launch_gather<uint16_t>(e, ids, dout, gradient, rows, adds, s);
	return launch_gather<float>(e, ids, dout, gradient, rows, adds, s);
}
