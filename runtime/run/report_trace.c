/* What ffrun did and when, beside what was predicted.  SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <stdio.h>

#include "ff/html.h"

int ff_report_beside(const struct ff_tell_options *opt, struct ff_run_plan *p, struct ff_error *err)
{
	if (!opt->beside)
		return FF_OK;
	return ff_trace_load(opt->beside, &p->candidate[0].schedule, &p->arena, &p->beside,
			&p->n_beside, err);
}

/* One of a rank, where there are several. */
static int list_clocks(const struct ff_timing *timing, struct ff_arena *a, struct ff_trace *t,
		struct ff_error *err)
{
	struct ff_trace_clock *clock;

	if (timing->n_ranks < 2)
		return FF_OK;
	clock = ff_arena_array(a, timing->n_ranks, sizeof(*clock));
	if (!clock)
		return ff_fail_memory(err);
	for (uint32_t r = 0; r < timing->n_ranks; r++) {
		const struct ff_clock_line *l = &timing->line[r];

		clock[r] = (struct ff_trace_clock){
				l->first.offset_us, ff_clock_drift(l), ff_clock_bound(l)};
	}
	t->clock = clock;
	t->n_clocks = timing->n_ranks;
	return FF_OK;
}

int ff_report_trace(const struct ff_tell_options *opt, const struct ff_run_plan *p,
		const struct ff_outcome *outcome, struct ff_error *err)
{
	const struct ff_timeline timeline[] = {
			{opt->beside ? "executed" : NULL, outcome[0].spans, outcome[0].n_spans},
			{"predicted", p->beside, p->n_beside}};
	struct ff_trace t = {.timeline = timeline, .n_timelines = opt->beside ? 2 : 1};
	struct ff_arena scratch;
	struct ff_file file;
	char title[512];
	struct ff_out out;
	int code;

	if (!opt->trace || !p->steps)
		return FF_OK;
	snprintf(title, sizeof(title), "%s: %s, executed", p->graph.name, p->candidate[0].name);
	t.title = title;
	ff_arena_init(&scratch);
	code = list_clocks(&outcome[0].timing, &scratch, &t, err);
	if (code == FF_OK)
		code = ff_out_begin_file(&out, opt->trace, &file, err);
	if (code == FF_OK) {
		ff_trace_write_beside(&p->candidate[0].schedule, &t, &out);
		code = ff_out_end_file(&out);
	}
	ff_arena_finish(&scratch);
	return code;
}

int ff_report_html(const struct ff_run_options *opt, const struct ff_run_plan *p,
		const struct ff_outcome *outcome, const struct ff_verdict *verdict,
		struct ff_error *err)
{
	const struct ff_timeline timeline[] = {{"measured", outcome[0].spans, outcome[0].n_spans},
			{"predicted", p->beside, p->n_beside}};
	char title[512];
	struct ff_out report;
	struct ff_html page = {.title = title,
			.schedule = &p->candidate[0].schedule,
			.timeline = timeline,
			.n_timelines = opt->tell.beside ? 2 : 1,
			.report = &report};
	int code;

	if (!opt->tell.html || !p->steps)
		return FF_OK;
	snprintf(title, sizeof(title), "%s: %s, executed", p->graph.name, p->candidate[0].name);
	ff_out_init(&report);
	code = ff_report_write(opt, p, outcome, verdict, &report, err);
	if (code == FF_OK)
		code = ff_html_save(&page, opt->tell.html, err);
	ff_out_finish(&report);
	return code;
}
