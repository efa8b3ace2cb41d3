/* Loops over a row of an attention's scores, in float32.  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/ops/sequence/scores.h"

#include <math.h>

#include "cpu/core/functions.h"
#include "ff/clones.h"

FF_CLONES static float largest(const float *x, int64_t n)
{
	float most = -INFINITY;

#pragma omp simd reduction(max : most)
	for (int64_t i = 0; i < n; i++)
		most = x[i] > most ? x[i] : most;
	return most;
}

FF_CLONES float ff_scores_exponentials(float *x, float shift, int64_t n)
{
	float sum = 0;

#pragma omp simd reduction(+ : sum)
	for (int64_t i = 0; i < n; i++) {
		x[i] = ff_exp(x[i] - shift);
		sum += x[i];
	}
	return sum;
}

FF_CLONES void ff_scores_times(float *x, float factor, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		x[i] *= factor;
}

FF_CLONES void ff_scores_slopes(
		const float *restrict p, float sum, float scale, float *restrict dp, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		dp[i] = p[i] * (dp[i] - sum) * scale;
}

FF_CLONES void ff_scores_drop(const float *restrict factor, float *restrict x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		x[i] *= factor[i];
}

void ff_scores_reduce(float *x, int64_t n, float *pair)
{
	float most = largest(x, n);

	/* either nothing is seen, or what is is no number */
	for (int64_t i = 0; i < n && !(most > -INFINITY); i++)
		most += x[i];
	pair[0] = most;
	pair[1] = most != -INFINITY ? ff_scores_exponentials(x, most, n) - 1 : 0;
}
