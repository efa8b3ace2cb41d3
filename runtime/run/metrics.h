/* Metrics of a run, a line of JSON each, while it runs (docs/formats.md).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUN_METRICS_H
#define FF_RUN_METRICS_H

#include "run.h"

/* A file that grows by whole lines; only the first rank has one. */
struct ff_metrics {
	const char *path; /* NULL: nobody asked for it; all calls do nothing then */
	int fd;
};

/* A new file with a line about the run.  A run that goes on from a checkpoint keeps what the file
 * has of the steps behind that.  FF_E_IO, as in the calls below. */
int ff_metrics_open(const char *path, uint64_t seed, const struct ff_run_plan *p,
		struct ff_metrics *ret, struct ff_error *err);
void ff_metrics_close(struct ff_metrics *m);
/* Steps [from, to) of this run of candidate `i`, whose losses and times are known. */
int ff_metrics_steps(const struct ff_metrics *m, const struct ff_run_plan *p, uint32_t i,
		const struct ff_outcome *o, uint64_t from, uint64_t to, struct ff_error *err);
int ff_metrics_test(const struct ff_metrics *m, const struct ff_run_plan *p, uint32_t i,
		const struct ff_test *test, struct ff_error *err);
/* There is one after `step` steps in all. */
int ff_metrics_checkpoint(const struct ff_metrics *m, const struct ff_run_plan *p, uint64_t step,
		struct ff_error *err);

#endif
