/* What a run is told of: a table, JSON, a timeline, a page.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUN_REPORT_H
#define FF_RUN_REPORT_H

#include "run.h"

/* report.c: the table for people. */
int ff_report_print(const struct ff_run_options *opt, const struct ff_run_plan *p,
		const struct ff_outcome *outcome, const struct ff_verdict *verdict,
		struct ff_error *err);
/* report_json.c: the JSON for programs; the same into a file, where --report asks for one. */
int ff_report_write(const struct ff_run_options *opt, const struct ff_run_plan *p,
		const struct ff_outcome *outcome, const struct ff_verdict *verdict,
		struct ff_out *out, struct ff_error *err);
int ff_report_save(const struct ff_run_options *opt, const struct ff_run_plan *p,
		const struct ff_outcome *outcome, const struct ff_verdict *verdict,
		struct ff_error *err);

/* report_trace.c: reads the timeline that is to stand beside the executed one, of the same
 * schedule; writes both, in one file. */
int ff_report_beside(
		const struct ff_tell_options *opt, struct ff_run_plan *p, struct ff_error *err);
int ff_report_trace(const struct ff_tell_options *opt, const struct ff_run_plan *p,
		const struct ff_outcome *outcome, struct ff_error *err);
/* The report and both timelines as a page, where --html asks for one. */
int ff_report_html(const struct ff_run_options *opt, const struct ff_run_plan *p,
		const struct ff_outcome *outcome, const struct ff_verdict *verdict,
		struct ff_error *err);

#endif
