/* Variations: the same plan, and the same search, with a batch, a memory, a machine changed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_VARY_H
#define FF_PLANNER_VARY_H

#include "job.h"

#define FF_MOST_VARIATIONS 64 /* all values of all keys with each other */

/* What is changed; 0: nothing. */
struct ff_variation {
	uint32_t batch, devices;
	int64_t memory_bytes;
	double network_bytes_per_us;        /* of a node, all its cards together */
	double inside_times, network_times; /* as fast */
	bool step_alone;                    /* nothing else is asked for but whether it fits */
	const struct ff_strategy *also; /* searched from, too, with the job's batch and devices */
};

struct ff_answer {
	bool carried, searched;   /* the plan could be; something was found */
	struct ff_rival plan;     /* carried over */
	struct ff_rival best;     /* searched again from it */
	struct ff_shape shape;    /* of that; not where the step alone is asked for */
	double samples_per_s;     /* likewise */
	struct ff_strategy found; /* what `best` is of, where batch and devices are the job's; all
				   * memory from the job's arena */
	char why[FF_ERROR_TEXT];  /* neither: a sentence */
};

/* A row of --vary. */
struct ff_varied {
	struct ff_variation with;
	struct ff_answer answer;
};

/* "batch=512,1024", "memory=40": values of each key with all of the others, in *n variations. */
int ff_variations_parse(const struct ff_texts *words, struct ff_variation ret[FF_MOST_VARIATIONS],
		uint32_t *n, struct ff_error *err);

/* Prices job `j`'s plan as `v` has it, and searches again from it with `proposals`, or until
 * `seconds` are over for all of it (0 of both: not, but v->also is taken for what was found).  What
 * is impossible is told in the answer. */
int ff_vary(struct ff_job *j, const struct ff_variation *v, double seconds, uint64_t proposals,
		struct ff_answer *ret, struct ff_error *err);

/* --vary: a table of all, on `to`, which are in the summary afterwards. */
int ff_vary_print(struct ff_job *j, FILE *to, struct ff_error *err);

#endif
