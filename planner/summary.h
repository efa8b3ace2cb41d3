/* What ffsearch says about a plan: a table for people, a report for programs.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_SUMMARY_H
#define FF_PLANNER_SUMMARY_H

#include <stdio.h>

#include "ff/costs.h"
#include "ff/schedule.h"
#include "ff/search.h"
#include "ff/simulate.h"
#include "found.h"

/* One strategy, lowered and timed. */
struct ff_plan {
	struct ff_strategy strategy;
	struct ff_schedule schedule;
	struct ff_simulation simulation;
	struct ff_inferred inferred; /* of the step */
	uint32_t short_device;       /* first whose memory does not do; FF_NONE: it fits */
	int64_t short_limit;         /* what that device has */
};

struct ff_summary {
	const struct ff_graph *graph;
	const struct ff_machine *machine;
	const char *costs;                       /* "analytic", "peak" or the file's name */
	const struct ff_costs *measured;         /* NULL: estimated */
	const struct ff_device_kind *unmodelled; /* costs its peak rates; NULL: none does */
	const char *title;            /* of the plan: "plan", or what --simulate was given */
	const char *const *starts;    /* NULL-terminated; NULL: nothing was searched */
	const struct ff_codec *codec; /* that compresses gradients; NULL: nothing does */
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
	struct ff_found found;
};

static inline bool ff_plan_fits(const struct ff_plan *p)
{
	return p->short_device == FF_NONE;
}

void ff_summary_print(const struct ff_summary *s, FILE *to);
/* docs/schema/search-report.schema.json */
void ff_summary_write(const struct ff_summary *s, struct ff_out *o);

#endif
