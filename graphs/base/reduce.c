/* Reductions.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/reduce.h"

#include <math.h>

const char *ff_reduce_name(enum ff_reduce op)
{
	static const char *const names[] = {"sum", "max", "log-sum-exp"};

	return names[op];
}

float ff_reduce_identity(enum ff_reduce op)
{
	return op == FF_REDUCE_SUM ? 0 : -INFINITY;
}

static void reduce_sum(int64_t n, const float *restrict source, float *restrict sink)
{
	for (int64_t i = 0; i < n; i++)
		sink[i] += source[i];
}

static void reduce_max(int64_t n, const float *restrict source, float *restrict sink)
{
	for (int64_t i = 0; i < n; i++)
		sink[i] = source[i] > sink[i] ? source[i] : sink[i];
}

/* Of the two, the smaller one's largest is among the others from now on. */
static void reduce_log_sum_exp(int64_t n, const float *restrict source, float *restrict sink)
{
	for (int64_t i = 0; i < n; i += 2) {
		const float *x = source + i;
		float *y = sink + i, most = y[0], rest = y[1], m = x[0], r = x[1];

		if (m > most) {
			most = x[0], rest = x[1];
			m = y[0], r = y[1];
		}
		if (m > -INFINITY)
			rest += (1 + r) * expf(m - most);
		else if (isnan(m))
			rest = m;
		y[0] = most;
		y[1] = rest;
	}
}

void ff_reduce(enum ff_reduce op, int64_t n, const float *restrict source, float *restrict sink)
{
	switch (op) {
	case FF_REDUCE_SUM:
		reduce_sum(n, source, sink);
		break;
	case FF_REDUCE_MAX:
		reduce_max(n, source, sink);
		break;
	case FF_REDUCE_LOG_SUM_EXP:
		reduce_log_sum_exp(n, source, sink);
		break;
	}
}
