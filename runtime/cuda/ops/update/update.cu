/* Updates: an optimizer's whole step in one pass, with the weights rounded where they are read
 * in bfloat16, of several runs of elements by one launch.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/real.cuh"
#include "updates.h"

/* What lies in the arrays of a bucket, from `block` on.  What is passed has no holes, in which
 * anything could stand. */
struct arrays {
	float *weight;
	const float *gradient;
	float *state[FF_MAX_STATES];
	uint16_t *rounded;
	int64_t n;
	const float *squares; /* NULL: gradients are not clipped */
	float clip;
	uint32_t times; /* 0: gradients are as they are */
	union ff_factors factors;
	const union ff_factors *captured; /* NULL, or there in their place, in device memory */
	int64_t block;
};

struct runs {
	struct arrays of[FF_UPDATES];
	int64_t n;
};

/* Of the gradients. */
FF_DEVICE float scale_of(const struct arrays &a)
{
	float clip = a.squares ? FF_CLIP_SCALE(a.clip, sqrtf(*a.squares)) : 1;

	return a.times ? (float)a.times * clip : clip;
}

struct sgd {
	FF_METHOD static float step(
			const union ff_factors &f, const struct arrays &a, int64_t i, float g)
	{
		float w = a.weight[i];

		return w - f.sgd.rate * (g + f.sgd.decay * w);
	}
};

struct momentum {
	FF_METHOD static float step(
			const union ff_factors &f, const struct arrays &a, int64_t i, float g)
	{
		float w = a.weight[i];
		float m = f.momentum.momentum * a.state[0][i] + (g + f.momentum.decay * w);

		a.state[0][i] = m;
		return w - f.momentum.rate * m;
	}
};

struct nesterov {
	FF_METHOD static float step(
			const union ff_factors &f, const struct arrays &a, int64_t i, float g)
	{
		float w = a.weight[i];
		float d = g + f.nesterov.decay * w;
		float m = f.nesterov.momentum * a.state[0][i] + d;

		a.state[0][i] = m;
		return w - f.nesterov.rate * (d + f.nesterov.momentum * m);
	}
};

struct adam {
	FF_METHOD static float step(
			const union ff_factors &f, const struct arrays &a, int64_t i, float g)
	{
		float w = a.weight[i];
		float d = g + f.adam.decay * w;
		float m = f.adam.keep1 * a.state[0][i] + f.adam.take1 * d;
		float v = f.adam.keep2 * a.state[1][i] + f.adam.take2 * d * d;

		a.state[0][i] = m;
		a.state[1][i] = v;
		return w - f.adam.rate * m / (sqrtf(v) / f.adam.root + f.adam.epsilon);
	}
};

struct adamw {
	FF_METHOD static float step(
			const union ff_factors &f, const struct arrays &a, int64_t i, float g)
	{
		float m = f.adamw.keep1 * a.state[0][i] + f.adamw.take1 * g;
		float v = f.adamw.keep2 * a.state[1][i] + f.adamw.take2 * g * g;

		a.state[0][i] = m;
		a.state[1][i] = v;
		return f.adamw.shrink * a.weight[i] -
		       f.adamw.rate * m / (sqrtf(v) / f.adamw.root + f.adamw.epsilon);
	}
};

template <class O> FF_DEVICE void update_one(const struct arrays &a, int64_t i)
{
	float w = O::step(a.captured ? *a.captured : a.factors, a, i, a.gradient[i] * scale_of(a));

	a.weight[i] = w;
	if (a.rounded)
		real_put(&a.rounded[i], w);
}

/* A block is of one run, of which its threads have an element each. */
template <class O> FF_KERNEL void update(struct runs runs)
{
	int64_t run = 0, i;

	while (run + 1 < runs.n && blockIdx.x >= runs.of[run + 1].block)
		run++;
	const struct arrays &a = runs.of[run];
	i = ((int64_t)blockIdx.x - a.block) * blockDim.x + threadIdx.x;
	if (i < a.n)
		update_one<O>(a, i);
}

/* A block a row that is listed, which backward does once each. */
template <class O>
FF_KERNEL void update_rows(struct arrays a, const int32_t *rows, int64_t features)
{
	int64_t row = (int64_t)rows[blockIdx.x] - 1;

	for (int64_t c = threadIdx.x; row >= 0 && c < features; c += blockDim.x)
		update_one<O>(a, row * features + c);
}

template <class O>
static cudaError_t launch(const struct runs *runs, int64_t blocks, cudaStream_t s)
{
	return ff_launch(update<O>, dim3((unsigned)blocks), dim3(BLOCK), s, *runs);
}

template <class O>
static cudaError_t launch_rows(const struct arrays *a, const struct ff_update *u, cudaStream_t s)
{
	return ff_launch(update_rows<O>, dim3((unsigned)u->n_rows), dim3(BLOCK), s, *a, u->rows,
			u->features);
}

/* The tables that fail to compile when an optimizer has no kernel. */
typedef cudaError_t (*launcher)(const struct runs *, int64_t blocks, cudaStream_t);
static const launcher launchers[] = {
#define FF_CUDA_UPDATE(e, row) launch<row>,
		FF_OPTIMIZERS(FF_CUDA_UPDATE)
#undef FF_CUDA_UPDATE
};
typedef cudaError_t (*rows_launcher)(const struct arrays *, const struct ff_update *, cudaStream_t);
static const rows_launcher rows_launchers[] = {
#define FF_CUDA_UPDATE(e, row) launch_rows<row>,
		FF_OPTIMIZERS(FF_CUDA_UPDATE)
#undef FF_CUDA_UPDATE
};

static struct arrays arrays_of(const struct ff_update *u, int64_t block)
{
	return {u->weight, u->gradient, {u->state[0], u->state[1]}, u->rounded, (int64_t)u->n,
			u->squares, u->clip, u->times, u->factors,
			u->figures ? &u->figures->factors[u->group] : NULL, block};
}

cudaError_t ff_launch_updates(const struct ff_update *u, uint32_t n, cudaStream_t s)
{
	struct runs runs = {};
	cudaError_t code = cudaSuccess;
	int64_t blocks = 0;

	for (uint32_t i = 0; i < n && code == cudaSuccess; i++) {
		struct arrays a = arrays_of(&u[i], blocks);

		if (u[i].rows)
			code = rows_launchers[u->optimizer->id](&a, &u[i], s);
		if (u[i].rows || !u[i].n)
			continue;
		runs.of[runs.n++] = a;
		blocks += blocks_of((int64_t)u[i].n).x;
	}
	if (code != cudaSuccess)
		return code;
	return runs.n ? launchers[u->optimizer->id](&runs, blocks, s) : cudaSuccess;
}

FF_KERNEL void scale(float *values, int64_t n, float factor)
{
	int64_t i = thread_index();

	if (i < n)
		values[i] *= factor;
}

cudaError_t ff_launch_scale(float *values, int64_t n, float factor, cudaStream_t s)
{
	return ff_launch(scale, blocks_of(n), dim3(BLOCK), s, values, n, factor);
}

/* ---- the norm of gradients ---- */

#define SHARES (FF_NORM_SCRATCH / (int64_t)sizeof(double)) /* and blocks, at most */

/* The threads' sums become the first one's. */
FF_DEVICE void add_up(double *sums)
{
	for (uint32_t step = blockDim.x / 2; step > 0; step /= 2) {
		__syncthreads();
		if (threadIdx.x < step)
			sums[threadIdx.x] += sums[threadIdx.x + step];
	}
}

FF_KERNEL void squares(const float *g, int64_t n, int64_t each, double *shares)
{
	FF_SHARED double sums[BLOCK];
	int64_t first = blockIdx.x * each, end = first + each < n ? first + each : n;
	double sum = 0;

	for (int64_t i = first + threadIdx.x; i < end; i += blockDim.x)
		sum += (double)g[i] * (double)g[i];
	sums[threadIdx.x] = sum;
	add_up(sums);
	if (threadIdx.x == 0)
		shares[blockIdx.x] = sums[0];
}

/* One block. */
FF_KERNEL void join_squares(const double *shares, int64_t n, bool begins, float *out)
{
	FF_SHARED double sums[BLOCK];
	double sum = 0;

	for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
		sum += shares[i];
	sums[threadIdx.x] = sum;
	add_up(sums);
	if (threadIdx.x == 0)
		*out = (float)((begins ? 0 : (double)*out) + sums[0]);
}

cudaError_t ff_launch_squares(const float *gradient, int64_t n, float *sum, double *scratch,
		bool first, cudaStream_t s)
{
	int64_t each = (n + SHARES - 1) / SHARES > BLOCK ? (n + SHARES - 1) / SHARES : BLOCK;
	int64_t blocks = n ? (n + each - 1) / each : 1;
	cudaError_t code = ff_launch(squares, dim3((unsigned)blocks), dim3(BLOCK), s, gradient, n,
			each, scratch);

	if (code != cudaSuccess)
		return code;
	return ff_launch(join_squares, dim3(1), dim3(BLOCK), s, (const double *)scratch, blocks,
			first, sum);
}
