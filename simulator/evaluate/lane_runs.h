/* Runs of neighbouring lanes that a task occupies together.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_LANE_RUNS_H
#define FF_SIMULATOR_LANE_RUNS_H

#include <stdint.h>

#include "ff/clones.h"
#include "memo/memo.h"

static inline double later(double a, double b)
{
	return a > b ? a : b;
}

/* Times are never negative, so their bits compare as they do.  Compilers vectorise the maximum of
 * integers. */
typedef int64_t __attribute__((may_alias)) time_bits;

FF_CLONES static void latest_bits(uint32_t n, const time_bits *x, time_bits *at)
{
	time_bits most = *at;

	for (uint32_t i = 0; i < n; i++)
		most = x[i] > most ? x[i] : most;
	*at = most;
}

static inline double latest(uint32_t n, const double *x, double at)
{
	if (n > 2)
		latest_bits(n, (const time_bits *)x, (time_bits *)&at);
	else
		for (uint32_t i = 0; i < n; i++)
			at = later(at, x[i]);
	return at;
}

/* When all lanes are free, not before `at`. */
static inline double free_at(
		uint32_t n_runs, const struct ff_lanes *run, const double *lane, double at)
{
	for (uint32_t k = 0; k < n_runs; k++)
		at = latest(run[k].n, lane + run[k].first, at);
	return at;
}

/* Occupies all lanes until `at`. */
static inline void hold_until(uint32_t n_runs, const struct ff_lanes *run, double at, double *lane)
{
	for (uint32_t k = 0; k < n_runs; k++)
		for (uint32_t i = 0; i < run[k].n; i++)
			lane[run[k].first + i] = at;
}

/* Delays each of `n` neighbouring lanes by `us`. */
static inline void delay_each(uint32_t n, double us, double *lane)
{
	for (uint32_t k = 0; k < n; k++)
		lane[k] += us;
}

#endif
