/* Strategies made as a line of words says, and what comes of them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_RECORDED_MADE_H
#define FF_TEST_RECORDED_MADE_H

#include "ff/price.h"
#include "ff/schedule.h"

/* What is recorded of a strategy, each as a text. */
enum column {
	COLUMN_INPUT,    /* a hash of graph, machine and strategy: equal ones are made alike */
	COLUMN_SCHEDULE, /* ff_schedule_hash */
	COLUMN_TIME,     /* predicted microseconds of a step, hexadecimal: to the bit */
	COLUMN_MEMORY,   /* bytes of each device; 96*4: of four in a row */
	COLUMN_BYTES,    /* moved in a step / of them uncompressed beside others / averaged */
	COLUMNS
};
extern const char *const column_names[COLUMNS];

struct made {
	struct ff_arena arena;
	struct ff_graph graph, micro; /* micro: of one micro-batch */
	struct ff_machine machine;
	struct ff_pricer *pricer;
	struct ff_strategy strategy;
	struct ff_lower_options options;
};

/* Makes what the line says: "NETWORK [--batch N] [--set KEY=VALUE]... --machine M ...", options as
 * ffzoo and ffsearch have them and those that made.c adds.  made_close takes what failed, too. */
int made_open(const char *line, struct made *ret, struct ff_error *err);
void made_close(struct made *m);

/* Lowers and simulates it; texts from its arena.  FF_E_RUN where the evaluator, which searches ask,
 * takes the step for another time, or is below a bound of time or memory. */
int made_digest(struct made *m, const char *ret[COLUMNS], struct ff_error *err);

#endif
