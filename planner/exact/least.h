/* What is left of a sum when one of its variables is chosen best: tables, each made once however
 * often it is asked for.  Of an unrolled network all steps ask for the same ones.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_LEAST_H
#define FF_PLANNER_LEAST_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/hash.h"

#define FF_MAX_CHOICES 255 /* of one variable */
#define FF_MAX_SCOPE 8     /* variables of one table, the one that goes among them */
#define FF_SCOPE_GOES 15u  /* place of that one */

/* A cost of some variables, the last one's choices next to each other. */
struct ff_least_term {
	const double *cost;          /* equal tables are one array, as far as is known */
	uint32_t n;                  /* variables, */
	uint8_t place[FF_MAX_SCOPE]; /* and where each is in the scope */
};
/* The variable that goes, and its scope: those that share a term with it. */
struct ff_least_ask {
	uint32_t choices;
	uint32_t n, size[FF_MAX_SCOPE]; /* of the scope: choices of each */
	uint32_t n_terms;
	const struct ff_least_term *term;
};
/* By the scope's choices, the last one's next to each other. */
struct ff_least {
	const double *cost;  /* the least sum, */
	const uint8_t *best; /* and what the variable has to be for it */
};

/* Tables that were made. */
struct ff_leasts {
	struct ff_arena arena, scratch;
	struct ff_table table;
	struct ff_least_known *known;
	uint32_t cap;
};

void ff_leasts_init(struct ff_leasts *l);
void ff_leasts_finish(struct ff_leasts *l);
/* Forgets all tables if they take much memory. */
void ff_leasts_trim(struct ff_leasts *l);
/* FF_OK or FF_E_NOMEM.  What is returned, and arrays asked about, live until all are forgotten. */
int ff_least_find(struct ff_leasts *l, const struct ff_least_ask *ask, struct ff_least *ret);
/* The one array for all that are like `cost`. */
int ff_least_same(struct ff_leasts *l, const double *cost, uint32_t n, const double **ret);
/* Of a table of outer * choices * inner what it is for one choice. */
int ff_least_slice(struct ff_leasts *l, const double *cost, size_t outer, size_t choices,
		size_t inner, size_t choice, const double **ret);

#endif
