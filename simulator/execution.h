/* A step as a framework executes it, where that is not our runtime: what hosts issue one task after
 * another, and what is computed again besides.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_EXECUTION_H
#define FF_SIMULATOR_EXECUTION_H

#include "ff/price.h"

struct ff_execution {
	const struct ff_framework *framework; /* NULL: our runtime, and nothing below is */
	const struct ff_schedule *schedule;
	struct ff_pricer *pricer;
	double *host_us;       /* by device: until when its host is busy */
	double *moved_us;      /* by edge: what its last move forward took */
	double *product_us[2]; /* by edge and pass: of the products at its ends; below 0: not known
				*/
	double *done_us;       /* by device: until when it computes */
	uint64_t *turn; /* by device: the micro-batch and the pass that its host issues, twice the
			 * one and the other */
};

int ff_execution_init(struct ff_execution *x, const struct ff_schedule *s, struct ff_pricer *p,
		struct ff_arena *a, struct ff_error *err);
/* What a backward pass takes besides: its block is computed again as a whole, though nobody reads
 * what this node makes. */
int ff_execution_again_us(
		struct ff_execution *x, const struct ff_task *t, double *us, struct ff_error *err);
/* What of a move of `us` goes beside the products that read or make what it moves: all but the
 * first of as many chunks as there are devices, as long as there is something to multiply. */
int ff_execution_hidden_us(struct ff_execution *x, const struct ff_task *t, double us, double *ret,
		struct ff_error *err);
/* Issues a task, the next in order: the time before which none of its devices starts it. */
double ff_execution_issue(struct ff_execution *x, const struct ff_task *t);
/* It took `us`, until `finish`. */
void ff_execution_done(struct ff_execution *x, const struct ff_task *t, double us, double finish);

#endif
