/* What ffsearch says about a plan: a table for people, a report for programs.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_SUMMARY_H
#define FF_PLANNER_SUMMARY_H

#include <stdio.h>

#include "explain/facts.h"
#include "ff/costs.h"
#include "ff/framework.h"
#include "ff/search.h"
#include "found.h"

/* What the plan would come to with more of something, carried over and searched again. */
struct ff_sensitivity {
	const char *name;               /* "1 GiB more memory" */
	double carried_us, searched_us; /* NAN: there was no time */
};
/* More of nothing: what a longer search alone brings. */
enum { FF_MORE_NOTHING, FF_MORE_MEMORY, FF_MORE_INSIDE, FF_MORE_NETWORK, FF_MORE };

/* --explain. */
struct ff_why {
	bool asked;
	bool compared;           /* `against` is known; */
	struct ff_facts against; /* of data parallelism */
	struct ff_sensitivity more[FF_MORE];
	const char *binds; /* "computing", "memory", "links inside nodes", ... */
};

/* --rewrite: data parallelism without rewrites and with those that were chosen; NAN: not known. */
struct ff_rewriting_gain {
	double before_us, with_us;
};

struct ff_summary {
	const struct ff_graph *graph;
	const struct ff_machine *machine;
	const char *costs;                       /* "analytic", "peak" or the file's name */
	const struct ff_costs *measured;         /* NULL: estimated */
	const struct ff_device_kind *unmodelled; /* costs its peak rates; NULL: none does */
	const struct ff_framework *framework;    /* that times are of; NULL: our runtime */
	const char *title;         /* of the plan: "plan", or what --simulate was given */
	const char *const *starts; /* NULL-terminated; NULL: nothing was searched */
	struct ff_plan plan, data_parallel;
	/* What the plan is compared with: data parallelism, or where that does not fit, what it
	 * comes to then (grid.h), if anything fits; and its name. */
	const struct ff_plan *baseline;
	const char *baseline_name;
	bool is_data_parallel; /* the plan is data parallelism */
	bool interrupted;
	uint64_t seed, jobs, proposals, accepted;
	const char *space;              /* what --space was given */
	double seconds, lower_bound_us; /* lower_bound_us NAN: there was no time for it */
	int64_t memory_limit;           /* 0: each device's capacity */
	struct ff_rewriting_gain rewriting;
	struct ff_found found;
	struct ff_facts facts; /* of the plan */
	struct ff_rival rivals[FF_MOST_RIVALS];
	uint32_t n_rivals;
	struct ff_why why;
	struct ff_varied *varied; /* --vary (vary.h) */
	uint32_t n_varied;
};

/* Of the step, what rests on kernels that were not measured on such devices. */
double ff_inferred_share(const struct ff_plan *p);
/* Above this share of the step it is said. */
#define FF_MUCH_INFERRED 0.1

/* No more than a screen of 80 columns and 40 lines. */
void ff_summary_print(const struct ff_summary *s, FILE *to);
/* A line for each operator whose name has `pattern` ('*' and '?' as in a shell; without them
 * anywhere in it). */
int ff_summary_list(
		const struct ff_summary *s, const char *pattern, FILE *to, struct ff_error *err);
void ff_why_write(const struct ff_summary *s, struct ff_out *o);
void ff_varied_write(const struct ff_summary *s, struct ff_out *o);
/* report.c: docs/schema/search-report.schema.json */
void ff_summary_write(const struct ff_summary *s, struct ff_out *o);

#endif
