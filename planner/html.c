/* ffsearch --html: a plan as a page for people.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/html.h"

#include "job.h"

int ff_job_save_html(struct ff_job *j, struct ff_error *err)
{
	const struct ff_plan *p = &j->summary.plan;
	struct ff_timeline timeline = {.name = "predicted"};
	char title[512];
	struct ff_html page = {.title = title,
			.schedule = &p->schedule,
			.timeline = &timeline,
			.n_timelines = 1};
	struct ff_span *spans = NULL;
	struct ff_out report;
	int code;

	if (!j->opt.beside.html_path)
		return FF_OK;
	snprintf(title, sizeof(title), "%s on %s", j->in.graph.name, j->in.machine.name);
	code = ff_simulation_spans(
			&p->schedule, &p->simulation, &j->arena, &spans, &timeline.n, err);
	timeline.spans = spans;
	ff_out_init(&report);
	if (code == FF_OK) {
		ff_summary_write(&j->summary, &report);
		page.report = &report;
		code = ff_html_save(&page, j->opt.beside.html_path, err);
	}
	ff_out_finish(&report);
	return code;
}
