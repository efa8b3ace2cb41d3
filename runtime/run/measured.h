/* What the measured steps of candidates say.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUN_MEASURED_H
#define FF_RUN_MEASURED_H

#include "run.h"

/* Figures of one candidate over the measured steps. */
struct ff_measured {
	struct ff_quantiles step_us;
	double samples_per_s;
	int64_t step_bytes, most_memory;
	double loss; /* mean of the last ten steps */
};

int ff_measured_of(const struct ff_run_plan *p, const struct ff_outcome *o, struct ff_measured *ret,
		struct ff_error *err);
/* Median over the steps of how many times faster the plan was than its rival. */
int ff_measured_speedup(const struct ff_run_plan *p, const struct ff_outcome *o, double *ret,
		struct ff_error *err);
/* Largest relative difference of the losses of the first `n` steps. */
double ff_losses_apart(const struct ff_outcome *o, uint64_t n);
/* First steps whose losses agree within `tolerance`. */
uint64_t ff_losses_alike(const struct ff_outcome *o, uint64_t n, double tolerance);

#endif
