/* Of devices of one kind some are slower: a step waits for the slowest.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/framework.h"

#include <math.h>

/* Devices' times of the same work are taken as normal.  In five clusters GPUs of a kind vary by 8 %
 * on average, without outliers, which are up to 1.5 times as slow (Sinha et al., "Not All GPUs Are
 * Created Equal", SC 2022): taken as the width between a box plot's whiskers, 5.4 deviations. */
#define RANGE 0.08
#define WHISKERS 5.4
#define MOST 8.0 /* deviations; there are no devices beyond */

/* Where the normal distribution is `p`. */
static double quantile(double p)
{
	double lo = -MOST, hi = MOST;

	for (int i = 0; i < 60; i++) {
		double mid = (lo + hi) / 2;

		if (erfc(-mid / sqrt(2)) / 2 < p)
			lo = mid;
		else
			hi = mid;
	}
	return (lo + hi) / 2;
}

/* The largest of n is expected at that quantile (Blom, "Statistical Estimates and Transformed
 * Beta-Variables", 1958). */
double ff_framework_slowest(const struct ff_framework *f, uint32_t n_devices)
{
	double n = n_devices;

	if (f->alike || n_devices < 2)
		return 1;
	return 1 + RANGE / WHISKERS * quantile((n - 0.375) / (n + 0.25));
}
