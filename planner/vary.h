/* Variations: the plan carried over to, and searched again for, another batch, memory or machine.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_VARY_H
#define FF_PLANNER_VARY_H

#include "job.h"

#define FF_MOST_VARIATIONS 64 /* combinations of all values of all keys */

/* The changes; 0: unchanged. */
struct ff_variation {
	uint32_t batch, devices;
	int64_t memory_bytes;
	double network_bytes_per_us;        /* of a node, all cards together */
	double inside_times, network_times; /* factors of the links' bandwidth */
	bool step_alone;                    /* only the step and whether it fits are wanted */
	const struct ff_strategy *also;     /* a further start, for the job's batch and devices */
};

struct ff_answer {
	bool carried, searched;   /* the plan could be carried over; the search found a plan */
	struct ff_rival plan;     /* carried over */
	struct ff_rival best;     /* found by the search from it */
	struct ff_shape shape;    /* of `best`; not with step_alone */
	double samples_per_s;     /* likewise */
	struct ff_strategy found; /* the strategy of `best`, if batch and devices are the job's;
				   * memory from the job's arena */
	char why[FF_ERROR_TEXT];  /* neither carried nor searched: why, a sentence */
};

/* A row of --vary. */
struct ff_varied {
	struct ff_variation with;
	struct ff_answer answer;
};

/* Parses "batch=512,1024", "memory=40", ...: each value of a key with each value of the others, *n
 * variations. */
int ff_variations_parse(const struct ff_texts *words, struct ff_variation ret[FF_MOST_VARIATIONS],
		uint32_t *n, struct ff_error *err);

/* Prices job `j`'s plan under `v`, and searches from it with `proposals`, or until `seconds` are
 * over for both. With 0 of both there is no search, and v->also counts as found.  If it is
 * impossible, the answer says why. */
int ff_vary(struct ff_job *j, const struct ff_variation *v, double seconds, uint64_t proposals,
		struct ff_answer *ret, struct ff_error *err);

/* --vary: prints the table of all variations to `to`, and puts them in the summary. */
int ff_vary_print(struct ff_job *j, FILE *to, struct ff_error *err);

#endif
