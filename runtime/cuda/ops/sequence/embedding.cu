/* Rows of a table, and their gradients.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/real.cuh"
#include "embedding.h"

#define EACH 8 /* ids that a thread looks at between two steps of its block */
#define DEEP 4 /* positions of which a thread reads at once */
#define WARPS (BLOCK / 32)
#define ENOUGH 128     /* blocks: about as many as a large GPU has multiprocessors */
#define LEAST_BYTES 64 /* of a position that a block reads */

/* Where the features of position `i` begin. */
FF_DEVICE int64_t locate(const struct ff_embedding &e, int64_t i)
{
	int64_t at = 0;

	for (uint32_t axis = e.rank; axis-- > 1;) {
		at += i % e.n[axis] * e.stride[axis];
		i /= e.n[axis];
	}
	return at + i * e.stride[0];
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

/* Features that a thread reads at once, and what it writes of them. */
template <class T, int N> struct alignas(N * sizeof(T)) features {
	T x[N];
};

template <int N> FF_DEVICE void put_sums(float *to, const float *sum)
{
	const int n = N < 4 ? N : 4;
	struct features<float, n> x;

	for (int i = 0; i < N; i += n) {
		for (int k = 0; k < n; k++)
			x.x[k] = sum[i + k];
		*(struct features<float, n> *)(to + i) = x;
	}
}

/* Which of the EACH ids from position `at` on are `id`, a bit each. */
FF_DEVICE uint32_t matches(const struct ff_embedding &e, const int32_t *ids, int64_t at, int64_t id)
{
	const int n = pack<int32_t>::n;
	uint32_t found = 0;

	if (at + EACH <= e.positions && (uintptr_t)ids % sizeof(struct pack<int32_t>) == 0) {
		for (int i = 0; i < EACH; i += n) {
			struct pack<int32_t> p = *(const struct pack<int32_t> *)(ids + at + i);

			for (int k = 0; k < n; k++)
				found |= (uint32_t)(p.x[k] == id) << (i + k);
		}
		return found;
	}
	for (int k = 0; k < EACH && at + k < e.positions; k++)
		found |= (uint32_t)(ids[at + k] == id) << k;
	return found;
}

/* Lists what the threads of a block found, in order; how much that is.  `totals` are those of the
 * warps, and not those of the call before. */
FF_DEVICE uint32_t collect(uint32_t thread, uint32_t found, uint32_t *totals, uint16_t *list)
{
	uint32_t own = 0, before, all = 0;

	for (int k = 0; k < EACH; k++)
		own += found >> k & 1;
	before = own;
	if (__any_sync(~0u, found != 0))
		for (uint32_t apart = 1; apart < 32; apart *= 2) {
			uint32_t other = __shfl_up_sync(~0u, before, apart);

			before += thread % 32 >= apart ? other : 0;
		}
	if (thread % 32 == 31)
		totals[thread / 32] = before;
	before -= own;
	__syncthreads();
	for (uint32_t w = 0; w < WARPS; w++) {
		before += w < thread / 32 ? totals[w] : 0;
		all += totals[w];
	}
	for (int k = 0; k < EACH; k++)
		if (found >> k & 1)
			list[before++] = (uint16_t)(thread * EACH + (uint32_t)k);
	if (all)
		__syncthreads();
	return all;
}

/* Adds N features of the listed positions, each blockDim.y-th of them. */
template <class T, int N>
FF_DEVICE void add_listed(const struct ff_embedding &e, int64_t at, const uint16_t *list,
		uint32_t n, const T *dout, float *sum)
{
	for (uint32_t i = threadIdx.y; i < n; i += DEEP * blockDim.y) {
		struct features<T, N> x[DEEP];

		for (uint32_t u = 0; u < DEEP; u++) {
			uint32_t next = i + u * blockDim.y;

			if (next < n)
				x[u] = *(const struct features<T, N> *)(dout +
									locate(e, at + list[next]));
		}
		for (uint32_t u = 0; u < DEEP; u++)
			for (int k = 0; i + u * blockDim.y < n && k < N; k++)
				sum[k] += real_get(x[u].x[k]);
	}
}

/* The blocks of one blockIdx.x add up one row of the gradient, N features a thread: `by_row`, its
 * own; else that of the id at its position, if no earlier one has it, and rows of no id are zero
 * already (`adds`: all rows have what is added to).  So each looks through all ids; the fewer of
 * rows and positions are as many.  Threads side by side have features side by side; those of one
 * threadIdx.x share the positions.  `rows`, where it is not NULL, gets the rows that blocks add up,
 * each once. */
template <class T, int N>
FF_KERNEL void gather(struct ff_embedding e, bool by_row, bool adds, const int32_t *ids,
		const T *dout, float *gradient, int32_t *rows)
{
	FF_SHARED uint16_t list[BLOCK * EACH];
	FF_SHARED uint32_t totals[2][WARPS];
	FF_SHARED float part[N][BLOCK];
	uint32_t thread = threadIdx.y * blockDim.x + threadIdx.x, turn = 0;
	int64_t own = blockIdx.x, row = by_row ? own : (int64_t)ids[own] - e.first;
	int64_t id = row + e.first, c = ((int64_t)blockIdx.y * blockDim.x + threadIdx.x) * N;
	bool here = row >= 0 && row < e.rows && id >= 0, any = false;
	float sum[N] = {0};

	for (int64_t at = 0; here && at < e.positions; at += BLOCK * EACH) {
		uint32_t found = matches(e, ids, at + thread * EACH, id);
		uint32_t n = collect(thread, found, totals[turn++ % 2], list);

		here = n == 0 || by_row || any || at + list[0] == own;
		if (here && c < e.features)
			add_listed<T, N>(e, at, list, n, dout + c * e.step, sum);
		any = any || n > 0;
	}
	if (rows && thread == 0 && blockIdx.y == 0)
		rows[own] = here ? (int32_t)row + 1 : 0;
	for (int k = 0; k < N; k++)
		part[k][thread] = sum[k];
	for (uint32_t step = blockDim.y / 2; step > 0; step /= 2) {
		__syncthreads();
		for (int k = 0; threadIdx.y < step && k < N; k++)
			part[k][thread] += part[k][thread + step * blockDim.x];
	}
	if (!here || threadIdx.y > 0 || c >= e.features || (adds && !any))
		return;
	gradient += row * e.features + c;
	for (int k = 0; k < N; k++)
		sum[k] = part[k][thread] + (adds ? gradient[k] : 0);
	put_sums<N>(gradient, sum);
}

/* A block a row that the list before has. */
FF_KERNEL void clear(const int32_t *rows, int64_t features, float *gradient)
{
	int64_t row = (int64_t)rows[blockIdx.x] - 1;

	for (int64_t c = threadIdx.x; row >= 0 && c < features; c += blockDim.x)
		gradient[row * features + c] = 0;
}

/* Whether features lie 16 bytes by 16 bytes. */
static bool lie_in_packs(
		const struct ff_embedding *e, int n, const void *dout, const float *gradient)
{
	if (e->step != 1 || e->features % n ||
			((uintptr_t)dout | (uintptr_t)gradient) % sizeof(struct pack<float>))
		return false;
	for (uint32_t i = 0; i < e->rank; i++)
		if (e->stride[i] % n)
			return false;
	return true;
}

/* Fewer features a block where rows are few.  Sums have the order that this gives them, whether
 * rows are listed or not. */
template <class T, int N>
static cudaError_t launch_sums(const struct ff_embedding *e, bool by_row, bool adds,
		const int32_t *ids, const void *dout, float *gradient, int32_t *rows,
		cudaStream_t s)
{
	int64_t count = e->features / N, sums = e->rows < e->positions ? e->rows : e->positions;
	unsigned across = 1, least = LEAST_BYTES / sizeof(T) / N;

	while (across < BLOCK && across < count)
		across *= 2;
	while (across > least && (count + across - 1) / across * sums < ENOUGH)
		across /= 2;
	return ff_launch(gather<T, N>,
			dim3((unsigned)(by_row ? e->rows : e->positions),
					(unsigned)((count + across - 1) / across)),
			dim3(across, BLOCK / across), s, *e, by_row, adds, ids, (const T *)dout,
			gradient, rows);
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
		code = cudaMemsetAsync(gradient, 0,
				(size_t)(e->rows * e->features) * sizeof(*gradient), s);
	if (code != cudaSuccess)
		return code;
	if (lie_in_packs(e, pack<T>::n, dout, gradient))
		return launch_sums<T, pack<T>::n>(e, by_row, adds, ids, dout, gradient, rows, s);
	return launch_sums<T, 1>(e, by_row, adds, ids, dout, gradient, rows, s);
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
