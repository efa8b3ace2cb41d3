/* Sums and maxima of times, of many parts or lanes side by side.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_LANES_H
#define FF_SIMULATOR_LANES_H

#include <stdint.h>
#include <string.h>

#include "lane_runs.h"

FF_CLONES static void wait_bits(uint32_t n, time_bits *x, time_bits at)
{
	for (uint32_t i = 0; i < n; i++)
		x[i] = x[i] > at ? x[i] : at;
}

/* Parts in a row wait until `at`. */
static inline void wait_range(double at, uint32_t n, double *ready)
{
	time_bits bits;

	memcpy(&bits, &at, sizeof(bits));
	if (n > 2)
		wait_bits(n, (time_bits *)ready, bits);
	else
		for (uint32_t k = 0; k < n; k++)
			ready[k] = later(ready[k], at);
}

static inline void wait_list(double at, uint32_t n, const uint16_t *part, double *ready)
{
	for (uint32_t k = 0; k < n; k++)
		ready[part[k]] = later(ready[part[k]], at);
}

/* Parts in a row wait, each until its own time. */
FF_CLONES static void wait_each(uint32_t n, const double *at, double *restrict ready)
{
	for (uint32_t k = 0; k < n; k++)
		ready[k] = at[k] > ready[k] ? at[k] : ready[k];
}

/* A move on each of some lanes that follow each other; `at` is when it may begin, then when it is
 * done. */
FF_CLONES static void move_each(uint32_t n, double us, double *restrict lane, double *restrict at)
{
	for (uint32_t k = 0; k < n; k++)
		at[k] = lane[k] = (at[k] > lane[k] ? at[k] : lane[k]) + us;
}

/* For how long lanes wait until they begin. */
FF_CLONES static void idle_each(
		uint32_t n, const double *lane, const double *at, double *restrict idle)
{
	for (uint32_t k = 0; k < n; k++)
		idle[k] += (at[k] > lane[k] ? at[k] : lane[k]) - lane[k];
}

/* Parts in turn on lanes that follow each other. */
FF_CLONES static void run_in_line(
		uint32_t n, const double *us, double *restrict lane, double *restrict finish)
{
	for (uint32_t p = 0; p < n; p++)
		finish[p] = lane[p] += us[p];
}

FF_CLONES static void run_uniform(
		uint32_t n, double us, double *restrict lane, double *restrict finish)
{
	for (uint32_t p = 0; p < n; p++)
		finish[p] = lane[p] += us;
}

/* The same for parts that wait for what is moved to them.  Returns how many lanes will
 * be too late: idle so far and busy in all for longer than `most`. */
FF_CLONES static int64_t run_moved(uint32_t n, const double *us, const double *ready,
		const double *busy, double most, double *restrict lane, double *restrict idle,
		double *restrict finish)
{
	int64_t late = 0;

	for (uint32_t p = 0; p < n; p++) {
		double from = ready[p] > lane[p] ? ready[p] : lane[p];

		idle[p] += from - lane[p];
		finish[p] = lane[p] = from + us[p];
		late += idle[p] + busy[p] > most;
	}
	return late;
}

#endif
