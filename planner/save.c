/* The files that are written: the plan, those of other shapes beside it, report and timeline.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "job.h"
#include "space/shapes.h"

#define MOST_SPANS 500000 /* of a timeline of all devices: of some 300 bytes each */

/* PLAN.2 and so on. */
int ff_job_name_others(struct ff_job *j, struct ff_error *err)
{
	size_t size = j->opt.strategy_path ? strlen(j->opt.strategy_path) + 8 : 0;

	for (uint32_t i = 0; i + 1 < j->opt.choice.top && size; i++) {
		char *path = ff_arena_alloc(&j->arena, size);

		if (!path)
			return ff_fail_memory(err);
		snprintf(path, size, "%s.%u", j->opt.strategy_path, i + 2);
		j->other_path[i] = path;
	}
	return FF_OK;
}

/* Whether `s` is of a shape that neither the plan nor one of the others has. */
static bool is_new(const struct ff_shapes *all, const struct ff_strategy *s,
		const struct ff_strategy *plan, struct ff_plan *const *others, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (ff_shapes_equal(all, s, &others[i]->strategy))
			return false;
	return !ff_shapes_equal(all, s, plan);
}

int ff_job_find_others(struct ff_job *j, struct ff_error *err)
{
	struct ff_summary *s = &j->summary;
	struct ff_shapes all;
	uint32_t n = 0;
	int code = ff_shapes_init(&all, &j->in.graph, 0, &j->arena, err);

	for (uint32_t i = 0; i < j->found.n_shapes && n + 1 < j->opt.choice.top && code == FF_OK;
			i++) {
		const struct ff_strategy *other = &j->found.shape[i];
		struct ff_arena_mark mark;
		struct ff_plan *p;

		if (!is_new(&all, other, &s->plan.strategy, j->other, n))
			continue;
		mark = ff_arena_mark(&j->arena);
		p = ff_arena_alloc(&j->arena, sizeof(*p));
		code = p ? ff_job_predict(j, other, &j->arena, p, err) : ff_fail_memory(err);
		if (code == FF_E_NOMEM) { /* the plan itself is not lost for others */
			ff_arena_rewind(&j->arena, mark);
			code = FF_OK;
			break;
		}
		if (code < 0 || !ff_plan_fits(p))
			continue;
		s->found.other_us[n] = p->simulation.step_us;
		j->other[n++] = p;
	}
	s->found.n_others = n;
	return code;
}

const char *ff_job_communication(const struct ff_job *j)
{
	const char *name = j->in.costs ? ff_costs_origin(j->in.costs)->communication : NULL;

	return name ? name : "";
}

static int save_plan(
		struct ff_job *j, const struct ff_plan *p, const char *path, struct ff_error *err)
{
	struct ff_strategy_info info = {
			.machine = j->in.machine.name,
			.devices = j->in.machine.n_devices,
			.optimizer = j->in.optimizer,
			.clip = j->opt.clip,
			.travel = j->in.travel,
			.predicted_us = p->simulation.step_us,
			.disturbed_share = j->in.costs ? 1 - ff_costs_steady_share(j->in.costs) : 0,
			.memory_bytes = p->schedule.memory_bytes,
			.costs = j->in.costs ? NULL : j->opt.costs_path,
			.framework = j->summary.framework ? j->summary.framework->name : NULL,
			.communication = ff_job_communication(j),
			.data_parallel_bucket_bytes =
					j->summary.data_parallel.strategy.bucket_bytes,
	};
	struct ff_arena a;
	struct ff_out o;
	int code;

	ff_arena_init(&a);
	code = p->schedule.n_tasks ? ff_simulation_classes(&p->schedule, &p->simulation, &a,
						     &info.classes, &info.n_classes, err)
				   : FF_OK;
	ff_out_init(&o);
	if (code == FF_OK) {
		ff_strategy_write(&j->in.graph, &p->strategy, &info, &o);
		code = ff_out_save(&o, path, err);
	}
	ff_out_finish(&o);
	ff_arena_finish(&a);
	return code;
}

static int save_report(struct ff_job *j, struct ff_error *err)
{
	struct ff_out o;
	int code;

	ff_out_init(&o);
	ff_summary_write(&j->summary, &o);
	code = ff_out_save(&o, j->opt.report_path, err);
	ff_out_finish(&o);
	return code;
}

/* Whom the timeline shows: of equal devices one, where all are more than a viewer takes. */
static int choose_devices(struct ff_job *j, const struct ff_timeline *line, struct ff_arena *a,
		struct ff_trace_groups *groups, struct ff_trace *t, struct ff_error *err)
{
	const struct ff_schedule *s = &j->summary.plan.schedule;
	int code = FF_OK;

	if (line->n > MOST_SPANS)
		code = ff_trace_group(s, line, 1, a, groups, err);
	if (code < 0 || line->n <= MOST_SPANS || groups->n == s->machine->n_devices)
		return code;
	t->groups = groups;
	fprintf(stderr, "%s: %s: of devices that do the same one is shown, %u of %u.\n",
			ff_job_command.name, j->opt.beside.trace_path, groups->n,
			s->machine->n_devices);
	return FF_OK;
}

static int write_trace(struct ff_job *j, const struct ff_trace *t, struct ff_error *err)
{
	struct ff_file file;
	struct ff_out o;
	int code = ff_out_begin_file(&o, j->opt.beside.trace_path, &file, err);

	if (code < 0)
		return code;
	ff_trace_write_beside(&j->summary.plan.schedule, t, &o);
	return ff_out_end_file(&o);
}

static int save_trace(struct ff_job *j, struct ff_error *err)
{
	const struct ff_plan *p = &j->summary.plan;
	struct ff_timeline line = {.name = NULL};
	struct ff_trace t = {.title = "predicted", .timeline = &line, .n_timelines = 1};
	struct ff_trace_groups groups;
	struct ff_span *spans = NULL;
	struct ff_arena a;
	int code;

	ff_arena_init(&a);
	code = ff_simulation_spans(&p->schedule, &p->simulation, &a, &spans, &line.n, err);
	line.spans = spans;
	if (code == FF_OK)
		code = choose_devices(j, &line, &a, &groups, &t, err);
	if (code == FF_OK)
		code = write_trace(j, &t, err);
	ff_arena_finish(&a);
	return code;
}

int ff_job_save(struct ff_job *j, struct ff_error *err)
{
	int code = FF_OK;

	if (j->opt.strategy_path)
		code = save_plan(j, &j->summary.plan, j->opt.strategy_path, err);
	for (uint32_t i = 0; i < j->summary.found.n_others && code == FF_OK; i++)
		code = save_plan(j, j->other[i], j->other_path[i], err);
	if (code == FF_OK && j->opt.report_path)
		code = save_report(j, err);
	if (code == FF_OK && j->opt.beside.trace_path)
		code = save_trace(j, err);
	if (code == FF_OK && j->opt.beside.certificate_path)
		code = ff_job_save_certificate(j, err);
	return code == FF_OK ? ff_job_save_html(j, err) : code;
}
