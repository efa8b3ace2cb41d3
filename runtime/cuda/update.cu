/* Updates: an optimizer's whole step in one pass, with the weights rounded where they are read
 * in bfloat16.  SPDX-License-Identifier: Apache-2.0 */
#include "real.cuh"
#include "updates.h"

/* What lies in the arrays of a bucket. */
struct arrays {
	float *weight;
	const float *gradient;
	float *state[FF_MAX_STATES];
	uint16_t *rounded;
	int64_t n;
};

struct sgd {
	FF_METHOD static float step(const union ff_factors &f, const struct arrays &a, int64_t i)
	{
		float w = a.weight[i];

		return w - f.sgd.rate * (a.gradient[i] + f.sgd.decay * w);
	}
};

struct momentum {
	FF_METHOD static float step(const union ff_factors &f, const struct arrays &a, int64_t i)
	{
		float w = a.weight[i];
		float m = f.momentum.momentum * a.state[0][i] +
			  (a.gradient[i] + f.momentum.decay * w);

		a.state[0][i] = m;
		return w - f.momentum.rate * m;
	}
};

struct nesterov {
	FF_METHOD static float step(const union ff_factors &f, const struct arrays &a, int64_t i)
	{
		float w = a.weight[i];
		float d = a.gradient[i] + f.nesterov.decay * w;
		float m = f.nesterov.momentum * a.state[0][i] + d;

		a.state[0][i] = m;
		return w - f.nesterov.rate * (d + f.nesterov.momentum * m);
	}
};

struct adam {
	FF_METHOD static float step(const union ff_factors &f, const struct arrays &a, int64_t i)
	{
		float w = a.weight[i];
		float d = a.gradient[i] + f.adam.decay * w;
		float m = f.adam.keep1 * a.state[0][i] + f.adam.take1 * d;
		float v = f.adam.keep2 * a.state[1][i] + f.adam.take2 * d * d;

		a.state[0][i] = m;
		a.state[1][i] = v;
		return w - f.adam.rate * m / (sqrtf(v) / f.adam.root + f.adam.epsilon);
	}
};

struct adamw {
	FF_METHOD static float step(const union ff_factors &f, const struct arrays &a, int64_t i)
	{
		float g = a.gradient[i];
		float m = f.adamw.keep1 * a.state[0][i] + f.adamw.take1 * g;
		float v = f.adamw.keep2 * a.state[1][i] + f.adamw.take2 * g * g;

		a.state[0][i] = m;
		a.state[1][i] = v;
		return f.adamw.shrink * a.weight[i] -
		       f.adamw.rate * m / (sqrtf(v) / f.adamw.root + f.adamw.epsilon);
	}
};

template <class O>
FF_KERNEL void update(union ff_factors f, const union ff_factors *captured, struct arrays a)
{
	int64_t i = thread_index();
	float w;

	if (i >= a.n)
		return;
	w = O::step(captured ? *captured : f, a, i);
	a.weight[i] = w;
	if (a.rounded)
		real_put(&a.rounded[i], w);
}

template <class O>
static cudaError_t launch(const union ff_factors *f, const union ff_factors *captured,
		const struct arrays *a, cudaStream_t s)
{
	return ff_launch(update<O>, blocks_of(a->n), dim3(BLOCK), s, *f, captured, *a);
}

/* The table that fails to compile when an optimizer has no kernel. */
typedef cudaError_t (*launcher)(const union ff_factors *, const union ff_factors *,
		const struct arrays *, cudaStream_t);
static const launcher launchers[] = {
#define FF_CUDA_UPDATE(e, row) launch<row>,
		FF_OPTIMIZERS(FF_CUDA_UPDATE)
#undef FF_CUDA_UPDATE
};

cudaError_t ff_launch_update(const struct ff_optimizer *o, const union ff_factors *f,
		const union ff_factors *captured, float *weight, const float *gradient,
		float *const *state, uint16_t *rounded, int64_t n, cudaStream_t s)
{
	struct arrays a = {weight, gradient, {state[0], state[1]}, rounded, n};

	return launchers[o->id](f, captured, &a, s);
}
