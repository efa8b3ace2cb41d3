/* Order statistics, between neighbours by linear interpolation.
 * SPDX-License-Identifier: Apache-2.0 */
#include "quantiles.h"

#include <stdlib.h>
#include <string.h>

static int compare_reals(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double quantile(const double *sorted, uint64_t n, double q)
{
	double at = q * (double)(n - 1);
	uint64_t low = (uint64_t)at;

	return low + 1 < n ? sorted[low] + (at - (double)low) * (sorted[low + 1] - sorted[low])
			   : sorted[n - 1];
}

int ff_quantiles_of(const double *v, uint64_t n, struct ff_quantiles *ret, struct ff_error *err)
{
	double *sorted = malloc(n * sizeof(*sorted));

	if (!sorted)
		return ff_fail_memory(err);
	memcpy(sorted, v, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_reals);
	ret->median = quantile(sorted, n, 0.5);
	ret->p10 = quantile(sorted, n, 0.1);
	ret->p90 = quantile(sorted, n, 0.9);
	free(sorted);
	return FF_OK;
}
