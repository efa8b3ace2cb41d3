/* A row of an attention's scores.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_SCORES_H
#define FF_CPU_SCORES_H

#include <stdint.h>

/* x = exp(x - shift), and their sum. */
float ff_scores_exponentials(float *x, float shift, int64_t n);
void ff_scores_times(float *x, float factor, int64_t n);
/* dp = p (dp - sum) scale */
void ff_scores_slopes(
		const float *restrict p, float sum, float scale, float *restrict dp, int64_t n);
void ff_scores_drop(const float *restrict factor, float *restrict x, int64_t n);
/* Writes a row's pair (FF_REDUCE_LOG_SUM_EXP), and the exponentials by it. */
void ff_scores_reduce(float *x, int64_t n, float *pair);

#endif
