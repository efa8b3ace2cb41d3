/* What ffplan was asked, and what answers.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_ASK_H
#define FF_PLANNER_ASK_H

#include <stdio.h>

#include "ff/arena.h"
#include "ff/error.h"

/* Options that were not given are NULL. */
struct ff_ask {
	const char *operand[3]; /* behind the verb */
	const char *graph, *machine, *costs, *list, *output;
	struct ff_arena *a;
	FILE *to; /* what people read: standard output, unless a plan goes there */
};

int ff_ask_show(const struct ff_ask *ask, struct ff_error *err);
int ff_ask_diff(const struct ff_ask *ask, struct ff_error *err);
int ff_ask_rebase(const struct ff_ask *ask, struct ff_error *err);
int ff_ask_as(const struct ff_ask *ask, struct ff_error *err);
/* Names of the tools that it knows. */
#define FF_MOST_TOOLS 8
void ff_as_tools(const char *ret[FF_MOST_TOOLS]);

#endif
