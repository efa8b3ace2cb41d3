/* Steps that repeat, and one pass over them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_FOLDING_H
#define FF_SIMULATOR_FOLDING_H

#include "pass.h"

/* Clocks as they were (base.c). */
struct ff_base {
	double *lane, *idle, *limited;
};

/* Steps of a program that repeat, `n` times `period` steps from `first` on, each time one
 * micro-batch further, none of them in the first micro-batch or the last. */
struct ff_run {
	uint32_t first, period, n;
	bool limited; /* something limited is moved */
	bool still;   /* what goes from one time to the next is known: `live` */
	/* Times that are written before step `first` and read from there on, for the
	 * micro-batches that this means there; later ones of a node first. */
	uint32_t n_live;
	struct ff_saved *live; /* `times`: FF_FOLD_BACK of them, by time */
};
#define FF_RUNS 8
#define FF_FOLD_BACK 4 /* times that are remembered: all may come back after as many */

/* One pass over the runs of a program. */
struct ff_folding {
	bool off;
	uint32_t at;          /* the step at which the pass asks again; FF_NONE: none */
	uint32_t next, times; /* the run that comes next or is under way; and how often until then
			       */
	uint32_t kept;        /* states that are remembered, the last among them */
	struct ff_base base[FF_FOLD_BACK + 1]; /* by time: as they were when it began; as a trial
						* left them */
	struct ff_fold_trial {
		uint32_t every, n, from; /* the last `every` times (0: no trial), n times more */
		uint32_t n_arrivals;     /* when it began */
	} trial;
	uint32_t patience;          /* no trial before this time */
	uint64_t n_timed, n_folded; /* passes with runs ahead; steps that passes left out */
	uint64_t n_trials, n_in_vain;
};

#endif
