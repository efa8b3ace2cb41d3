/* How measured values spread.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUN_QUANTILES_H
#define FF_RUN_QUANTILES_H

#include <stdint.h>

#include "ff/error.h"

struct ff_quantiles {
	double median, p10, p90;
};
/* Order statistics of `n` > 0 values. */
int ff_quantiles_of(const double *v, uint64_t n, struct ff_quantiles *ret, struct ff_error *err);

#endif
