/* Reductions.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/reduce.h"

#include <math.h>

const char *ff_reduce_name(enum ff_reduce op)
{
	static const char *const names[] = {"sum", "max", "log-sum-exp", "moments", "ties"};

	return names[op];
}

bool ff_reduce_takes(enum ff_reduce op, enum ff_dtype t)
{
	return t == FF_F32 || (t != FF_U8 && ff_reduce_width(op) == 1);
}

uint32_t ff_reduce_identity(enum ff_reduce op, enum ff_dtype t)
{
	if (op == FF_REDUCE_SUM || op == FF_REDUCE_MOMENTS || !ff_reduce_takes(op, t))
		return 0;
	return t == FF_F32 ? 0xff800000 : t == FF_BF16 ? 0xff80 : 0x80000000;
}

static void reduce_sum(int64_t n, const float *restrict source, float *restrict sink)
{
	for (int64_t i = 0; i < n; i++)
		sink[i] += source[i];
}

/* What is no number does not get lost. */
static inline float larger(float x, float y)
{
	return x > y || x != x ? x : y;
}

static void reduce_max(int64_t n, const float *restrict source, float *restrict sink)
{
	for (int64_t i = 0; i < n; i++)
		sink[i] = larger(source[i], sink[i]);
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

/* Which of the two comes first does not show.  Of no elements all four are 0. */
static void reduce_moments(int64_t n, const float *restrict source, float *restrict sink)
{
	for (int64_t i = 0; i < n; i += 4) {
		const float *x = source + i;
		float *y = sink + i, count = x[0] + y[0], p = x[0] / count, q = y[0] / count;
		bool both = x[0] != 0 && y[0] != 0;
		float apart = x[1] - y[1];

		y[2] += x[2];
		if (both)
			y[2] += apart * apart * (x[0] * y[0] / count);
		y[1] = both ? x[1] * p + y[1] * q : x[1] + y[1];
		y[0] = count;
		y[3] += x[3];
	}
}

/* Of nothing both are -infinity. */
static void reduce_ties(int64_t n, const float *restrict source, float *restrict sink)
{
	for (int64_t i = 0; i < n; i += 2) {
		const float *x = source + i;
		float *y = sink + i;

		if (x[0] > y[0] || x[0] != x[0] || y[1] == -INFINITY) {
			y[0] = x[0];
			y[1] = x[1];
		} else if (x[0] == y[0] && x[1] > -INFINITY) {
			y[1] += x[1];
		}
	}
}

static void reduce_i32(enum ff_reduce op, int64_t n, const int32_t *restrict source,
		int32_t *restrict sink)
{
	for (int64_t i = 0; i < n; i++)
		if (op == FF_REDUCE_SUM)
			sink[i] = (int32_t)((uint32_t)sink[i] + (uint32_t)source[i]);
		else
			sink[i] = source[i] > sink[i] ? source[i] : sink[i];
}

static void reduce_bf16(enum ff_reduce op, int64_t n, const uint16_t *restrict source,
		uint16_t *restrict sink)
{
	for (int64_t i = 0; i < n; i++) {
		float x = ff_bf16_to_f32(source[i]), y = ff_bf16_to_f32(sink[i]);

		sink[i] = ff_bf16_from_f32(op == FF_REDUCE_SUM ? y + x : larger(x, y));
	}
}

static void reduce_f32(
		enum ff_reduce op, int64_t n, const float *restrict source, float *restrict sink)
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
	case FF_REDUCE_MOMENTS:
		reduce_moments(n, source, sink);
		break;
	case FF_REDUCE_TIES:
		reduce_ties(n, source, sink);
		break;
	}
}

void ff_reduce(enum ff_reduce op, enum ff_dtype t, int64_t n, const void *restrict source,
		void *restrict sink)
{
	if (t == FF_F32)
		reduce_f32(op, n, source, sink);
	else if (t == FF_I32)
		reduce_i32(op, n, source, sink);
	else if (t == FF_BF16)
		reduce_bf16(op, n, source, sink);
}
