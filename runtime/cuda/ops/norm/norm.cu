/* Layer, RMS and group norm: a block a row, and for the gradients of weights one for 32 of
 * them and a share of the rows.  Every sum has a fixed order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/real.cuh"
#include "norm.h"
#include "sums.cuh"
#include "ticket.cuh"

#define MOST 64 /* shares of what is summed for a weight */

/* Of all threads of the block, in each of them. */
FF_DEVICE struct sums add_up(struct sums *shared, float a, float b)
{
	struct sums all;

	__syncthreads(); /* who reads the last ones is done */
	shared[threadIdx.x].a = a;
	shared[threadIdx.x].b = b;
	for (uint32_t step = blockDim.x / 2; step > 0; step /= 2) {
		__syncthreads();
		if (threadIdx.x < step) {
			shared[threadIdx.x].a += shared[threadIdx.x + step].a;
			shared[threadIdx.x].b += shared[threadIdx.x + step].b;
		}
	}
	__syncthreads();
	all = shared[0];
	return all;
}

template <class T>
FF_KERNEL void forward(
		struct ff_norm n, const T *x, const T *weight, const T *bias, T *y, float *saved)
{
	FF_SHARED struct sums shared[BLOCK];
	int64_t x0, p0, at, p;
	float sum = 0, mean = 0, rate;

	loops_at(n.row, blockIdx.x, &p0, &x0);
	p0 += n.first;
	for (int64_t i = threadIdx.x; n.centred && i < n.features; i += blockDim.x) {
		loops_at(n.feature, i, &p, &at);
		sum += real_get(x[x0 + at]);
	}
	mean = add_up(shared, sum, 0).a / (float)n.features;
	sum = 0;
	for (int64_t i = threadIdx.x; i < n.features; i += blockDim.x) {
		float d;

		loops_at(n.feature, i, &p, &at);
		d = real_get(x[x0 + at]) - mean;
		sum += d * d;
	}
	rate = 1 / sqrtf(add_up(shared, sum, 0).a / (float)n.features + n.epsilon);
	for (int64_t i = threadIdx.x; i < n.features; i += blockDim.x) {
		float v;

		loops_at(n.feature, i, &p, &at);
		v = (real_get(x[x0 + at]) - mean) * rate;
		if (n.weight)
			v *= real_get(weight[p0 + p]);
		if (n.bias)
			v += real_get(bias[p0 + p]);
		real_put(&y[x0 + at], v);
	}
	if (threadIdx.x > 0)
		return;
	saved[2 * blockIdx.x] = mean;
	saved[2 * blockIdx.x + 1] = rate;
}

template <class T>
FF_KERNEL void gradient(struct ff_norm n, const T *x, const T *dy, const T *weight,
		const float *saved, T *dx, bool adds)
{
	FF_SHARED struct sums shared[BLOCK];
	float mean = saved[2 * blockIdx.x], rate = saved[2 * blockIdx.x + 1], g = 0, gx = 0;
	struct sums all;
	int64_t x0, p0, at, p;

	loops_at(n.row, blockIdx.x, &p0, &x0);
	p0 += n.first;
	for (int64_t i = threadIdx.x; i < n.features; i += blockDim.x) {
		float d;

		loops_at(n.feature, i, &p, &at);
		d = real_get(dy[x0 + at]) * (n.weight ? real_get(weight[p0 + p]) : 1);
		g += d;
		gx += d * (real_get(x[x0 + at]) - mean) * rate;
	}
	all = add_up(shared, g, gx);
	g = n.centred ? all.a / (float)n.features : 0;
	gx = all.b / (float)n.features;
	for (int64_t i = threadIdx.x; i < n.features; i += blockDim.x) {
		float d;

		loops_at(n.feature, i, &p, &at);
		d = real_get(dy[x0 + at]) * (n.weight ? real_get(weight[p0 + p]) : 1);
		d = rate * (d - g - (real_get(x[x0 + at]) - mean) * rate * gx);
		real_put(&dx[x0 + at], adds ? d + real_get(dx[x0 + at]) : d);
	}
}

/* The gradients of weight and bias number `param` that a block's share has. */
template <class T>
FF_DEVICE struct sums add_share(const struct ff_norm &n, int64_t param, int64_t share, const T *x,
		const T *dy, const float *saved)
{
	int64_t first = blockIdx.y * share, end = first + share < n.rests ? first + share : n.rests;
	int64_t x0 = 0, row0 = 0, at, row;
	bool own = param >= n.first && param < n.first + n.own;
	struct sums sum = {0, 0};

	if (own)
		loops_at(n.param, param - n.first, &row0, &x0);
	for (int64_t i = first + threadIdx.y; own && i < end; i += DOWN) {
		const float *pair;
		float d;

		loops_at(n.rest, i, &row, &at);
		pair = saved + 2 * (row0 + row);
		d = real_get(dy[x0 + at]);
		sum.b += d;
		sum.a += d * (real_get(x[x0 + at]) - pair[0]) * pair[1];
	}
	return sum;
}

/* A block adds up one share of 32 weights and biases, and the last block of these all shares. */
template <class T>
FF_KERNEL void weights(struct ff_norm n, int64_t share, const T *x, const T *dy, const float *saved,
		struct sums *all, float *dweight, float *dbias, struct ff_norm_adds adds,
		uint32_t *tickets)
{
	FF_SHARED struct sums part[DOWN][ACROSS];
	int64_t param = (int64_t)blockIdx.x * ACROSS + threadIdx.x;
	struct sums sum = add_down(part, add_share(n, param, share, x, dy, saved));

	if (gridDim.y > 1) {
		if (threadIdx.y == 0 && param < n.params)
			all[blockIdx.y * n.params + param] = sum;
		if (!is_last(&tickets[blockIdx.x], gridDim.y))
			return;
		sum.a = sum.b = 0;
		for (int64_t i = threadIdx.y; param < n.params && i < gridDim.y; i += DOWN) {
			struct sums one = all[i * n.params + param];

			sum.a += one.a;
			sum.b += one.b;
		}
		sum = add_down(part, sum);
	}
	if (threadIdx.y > 0 || param >= n.params)
		return;
	if (dweight)
		dweight[param] = adds.weight ? sum.a + dweight[param] : sum.a;
	if (dbias)
		dbias[param] = adds.bias ? sum.b + dbias[param] : sum.b;
}

static int64_t blocks_across(const struct ff_norm *n)
{
	return (n->params + ACROSS - 1) / ACROSS;
}

/* How many there are depends on the shape alone, and so does every sum. */
static int64_t share_of(const struct ff_norm *n)
{
	int64_t most = shares_for(blocks_across(n), MOST), least = (n->rests + most - 1) / most;

	return least > 128 ? least : 128;
}

static int64_t shares_of(const struct ff_norm *n)
{
	return (n->rests + share_of(n) - 1) / share_of(n);
}

int64_t ff_norm_scratch(const struct ff_norm *n)
{
	return shares_of(n) > 1 ? shares_of(n) * n->params * (int64_t)sizeof(struct sums) : 0;
}

/* Threads of a row: a power of two. */
static dim3 block_of(const struct ff_norm *n)
{
	unsigned threads = BLOCK;

	while (threads > 32 && threads / 2 >= n->features)
		threads /= 2;
	return dim3(threads);
}

cudaError_t ff_launch_norm(enum ff_dtype type, const struct ff_norm *n, const void *x,
		const void *weight, const void *bias, void *y, float *saved, cudaStream_t s)
{
	dim3 grid((unsigned)n->rows);

	if (type == FF_BF16)
		return ff_launch(forward<uint16_t>, grid, block_of(n), s, *n, (const uint16_t *)x,
				(const uint16_t *)weight, (const uint16_t *)bias, (uint16_t *)y,
				saved);
	return ff_launch(forward<float>, grid, block_of(n), s, *n, (const float *)x,
			(const float *)weight, (const float *)bias, (float *)y, saved);
}

cudaError_t ff_launch_norm_gradient(enum ff_dtype type, const struct ff_norm *n, const void *x,
		const void *dy, const void *weight, const float *saved, void *dx, bool adds,
		cudaStream_t s)
{
	dim3 grid((unsigned)n->rows);

	if (type == FF_BF16)
		return ff_launch(gradient<uint16_t>, grid, block_of(n), s, *n, (const uint16_t *)x,
				(const uint16_t *)dy, (const uint16_t *)weight, saved,
				(uint16_t *)dx, adds);
	return ff_launch(gradient<float>, grid, block_of(n), s, *n, (const float *)x,
			(const float *)dy, (const float *)weight, saved, (float *)dx, adds);
}

template <class T>
static cudaError_t launch_weights(const struct ff_norm *n, const void *x, const void *dy,
		const float *saved, float *dweight, float *dbias, struct ff_norm_adds adds,
		float *scratch, uint32_t *tickets, cudaStream_t s)
{
	dim3 grid((unsigned)blocks_across(n), (unsigned)shares_of(n));

	return ff_launch(weights<T>, grid, dim3(ACROSS, DOWN), s, *n, share_of(n), (const T *)x,
			(const T *)dy, saved, (struct sums *)scratch, dweight, dbias, adds,
			tickets);
}

cudaError_t ff_launch_norm_weights(enum ff_dtype type, const struct ff_norm *n, const void *x,
		const void *dy, const float *saved, float *dweight, float *dbias,
		struct ff_norm_adds adds, float *scratch, uint32_t *tickets, cudaStream_t s)
{
	if (type == FF_BF16)
		return launch_weights<uint16_t>(
				n, x, dy, saved, dweight, dbias, adds, scratch, tickets, s);
	return launch_weights<float>(n, x, dy, saved, dweight, dbias, adds, scratch, tickets, s);
}
