/* Updates by optimizer: the table that fails to link when a kernel is missing, and the
 * kernels.  SPDX-License-Identifier: Apache-2.0 */
#include "update.h"

#include <math.h>

#include "ff/sparse.h"
#include "kernel.h"
#include "real.h"

/* `scale`: of the gradients. */
#define FF_CPU_UPDATE(e, row) void ff_cpu_##row##_update(const struct ff_update *u, float scale);
FF_OPTIMIZERS(FF_CPU_UPDATE)
#undef FF_CPU_UPDATE

/* Each for elements that one thread takes. */
typedef void (*ff_update_kernel)(const struct ff_update *u, float scale);

static const ff_update_kernel kernels[FF_OPTIMIZER_COUNT] = {
#define FF_CPU_ROW(e, row) [e] = ff_cpu_##row##_update,
		FF_OPTIMIZERS(FF_CPU_ROW)
#undef FF_CPU_ROW
};

/* `u` from element `first` on. */
static struct ff_update part_of(const struct ff_update *u, size_t first, size_t n)
{
	struct ff_update part = *u;

	part.weight += first;
	part.gradient += first;
	for (uint32_t i = 0; i < u->optimizer->states; i++)
		part.state[i] += first;
	part.rounded = u->rounded ? u->rounded + first : NULL;
	part.n = n;
	return part;
}

static void round_weights(const struct ff_update *u)
{
	const float *restrict w = u->weight;
	uint16_t *restrict rounded = u->rounded;

	for (size_t i = 0; i < u->n; i++)
		rounded[i] = ff_bf16_from_f32(w[i]);
}

#define ROW_SHARES 16 /* of the rows, for threads */

/* Rows `share` of so many. */
static void update_rows(const struct ff_update *u, float scale, int64_t share)
{
	size_t features = (size_t)u->features;

	for (int64_t i = 0; i < ff_sparse_room(u->n_rows); i++) {
		struct ff_update row;

		if (!u->rows[i] || u->rows[i] % ROW_SHARES != share)
			continue;
		row = part_of(u, ((size_t)u->rows[i] - 1) * features, features);
		kernels[u->optimizer->id](&row, scale);
		if (u->rounded)
			round_weights(&row);
	}
}

/* Block by block, so that weights to be rounded are still at hand. */
void ff_cpu_update(const struct ff_update *u)
{
	float clip = u->squares ? FF_CLIP_SCALE(u->clip, sqrtf(*u->squares)) : 1;
	float scale = u->times ? (float)u->times * clip : clip;
	int64_t all = u->rows ? 0 : (int64_t)u->n, rows = u->rows ? ROW_SHARES : 0;

#pragma omp parallel for if (u->n_rows * u->features >= FF_CPU_PARALLEL)
	for (int64_t share = 0; share < rows; share++)
		update_rows(u, scale, share);
#pragma omp parallel for if (all >= FF_CPU_PARALLEL)
	for (int64_t at = 0; at < all; at += FF_REAL_BLOCK) {
		int64_t n = all - at < FF_REAL_BLOCK ? all - at : FF_REAL_BLOCK;
		struct ff_update part = part_of(u, (size_t)at, (size_t)n);

		kernels[u->optimizer->id](&part, scale);
		if (u->rounded)
			round_weights(&part);
	}
}

void ff_cpu_sgd_update(const struct ff_update *u, float scale)
{
	const float rate = u->factors.sgd.rate, decay = u->factors.sgd.decay;
	const int64_t n = (int64_t)u->n;
	float *restrict w = u->weight;
	const float *restrict g = u->gradient;

	for (int64_t i = 0; i < n; i++)
		w[i] -= rate * (scale * g[i] + decay * w[i]);
}

void ff_cpu_momentum_update(const struct ff_update *u, float scale)
{
	const float rate = u->factors.momentum.rate, momentum = u->factors.momentum.momentum;
	const float decay = u->factors.momentum.decay;
	const int64_t n = (int64_t)u->n;
	float *restrict w = u->weight;
	float *restrict m = u->state[0];
	const float *restrict g = u->gradient;

	for (int64_t i = 0; i < n; i++) {
		m[i] = momentum * m[i] + (scale * g[i] + decay * w[i]);
		w[i] -= rate * m[i];
	}
}

void ff_cpu_nesterov_update(const struct ff_update *u, float scale)
{
	const float rate = u->factors.nesterov.rate, momentum = u->factors.nesterov.momentum;
	const float decay = u->factors.nesterov.decay;
	const int64_t n = (int64_t)u->n;
	float *restrict w = u->weight;
	float *restrict m = u->state[0];
	const float *restrict g = u->gradient;

	for (int64_t i = 0; i < n; i++) {
		float d = scale * g[i] + decay * w[i];

		m[i] = momentum * m[i] + d;
		w[i] -= rate * (d + momentum * m[i]);
	}
}

/* What Adam and AdamW have in common. */
struct moments {
	float keep1, take1, keep2, take2, rate, root, epsilon;
};

#define MOMENTS(f)                                                                                 \
	{                                                                                          \
		f.keep1, f.take1, f.keep2, f.take2, f.rate, 1 / f.root, f.epsilon                  \
	}

/* Takes in a gradient, and tells by how much to go down. */
static inline float step_of(const struct moments *a, float d, float *m, float *v)
{
	*m = a->keep1 * *m + a->take1 * d;
	*v = a->keep2 * *v + a->take2 * d * d;
	return a->rate * *m / (sqrtf(*v) * a->root + a->epsilon);
}

void ff_cpu_adam_update(const struct ff_update *u, float scale)
{
	const struct moments a = MOMENTS(u->factors.adam);
	const float decay = u->factors.adam.decay;
	const int64_t n = (int64_t)u->n;
	float *restrict w = u->weight;
	float *restrict m = u->state[0];
	float *restrict v = u->state[1];
	const float *restrict g = u->gradient;

	for (int64_t i = 0; i < n; i++)
		w[i] -= step_of(&a, scale * g[i] + decay * w[i], &m[i], &v[i]);
}

void ff_cpu_adamw_update(const struct ff_update *u, float scale)
{
	const struct moments a = MOMENTS(u->factors.adamw);
	const float shrink = u->factors.adamw.shrink;
	const int64_t n = (int64_t)u->n;
	float *restrict w = u->weight;
	float *restrict m = u->state[0];
	float *restrict v = u->state[1];
	const float *restrict g = u->gradient;

	for (int64_t i = 0; i < n; i++)
		w[i] = shrink * w[i] - step_of(&a, scale * g[i], &m[i], &v[i]);
}

void ff_cpu_scale(float *values, int64_t n, float factor)
{
#pragma omp parallel for if (n >= FF_CPU_PARALLEL)
	for (int64_t i = 0; i < n; i++)
		values[i] *= factor;
}

/* ---- the norm of gradients ---- */

#define SHARES (FF_NORM_SCRATCH / (int64_t)sizeof(double))
#define LANES 8

static double squares_of(const float *g, int64_t n)
{
	double lane[LANES] = {0}, sum = 0;
	int64_t i = 0;

	for (; i + LANES <= n; i += LANES)
		for (int k = 0; k < LANES; k++)
			lane[k] += (double)g[i + k] * (double)g[i + k];
	for (; i < n; i++)
		sum += (double)g[i] * (double)g[i];
	for (int k = 0; k < LANES; k++)
		sum += lane[k];
	return sum;
}

/* Shares that do not depend on the number of threads, in order. */
void ff_cpu_squares(const struct ff_squares *u)
{
	int64_t all = (int64_t)u->n, each = (all + SHARES - 1) / SHARES;
	double *share = u->scratch, sum = u->first ? 0 : (double)*u->sum;

#pragma omp parallel for if (all >= FF_CPU_PARALLEL)
	for (int64_t i = 0; i < SHARES; i++) {
		int64_t first = i * each, left = all - first;

		share[i] = left > 0 ? squares_of(u->gradient + first, left < each ? left : each)
				    : 0;
	}
	for (int64_t i = 0; i < SHARES; i++)
		sum += share[i];
	*u->sum = (float)sum;
}
