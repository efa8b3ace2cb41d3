/* What a job predicts: one strategy, and what plans are compared with.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ff/bucketing.h"
#include "ff/clock.h"
#include "hand/buckets.h"
#include "job.h"

#define BASELINE_MOST 0.4  /* or as long as a prediction takes, up to so much */
#define BASELINE_SHARE 0.1 /* of the budget, for data parallelism that fits */
#define PREDICTED_TIMES 3  /* as long as pricing it a prediction takes, on 1,024 devices */

double ff_job_now_s(void)
{
	return ff_clock_us() / 1e6;
}

double ff_job_left_s(const struct ff_job *j, uint32_t n)
{
	double left = j->opt.seconds - (ff_job_now_s() - j->from);

	if (j->opt.simulate || j->opt.seconds <= 0)
		return 0;
	return left > 0 ? left / n : 1e-3;
}

int64_t ff_job_whole_memory(const struct ff_job *j, uint32_t device)
{
	return j->opt.memory ? j->opt.memory : ff_device_kind(&j->in.machine, device)->memory_bytes;
}

int64_t ff_job_memory(const struct ff_job *j, uint32_t device)
{
	return ff_job_without_reserve(j, ff_job_whole_memory(j, device));
}

void ff_job_check_memory(const struct ff_job *j, struct ff_plan *p)
{
	p->short_device = FF_NONE;
	for (uint32_t i = j->in.machine.n_devices; i-- > 0;) {
		int64_t limit = ff_job_memory(j, i);

		if (p->schedule.memory_bytes[i] > limit) {
			p->short_device = i;
			p->short_limit = limit;
		}
	}
}

static struct ff_lower_options lower_options(const struct ff_job *j)
{
	return (struct ff_lower_options){.optimizer = j->in.optimizer,
			.clip = j->opt.clip,
			.travel = j->in.travel,
			.workspace = ff_price_workspace,
			.ctx = j->tools.pricer};
}

/* Of a schedule its figures alone, and the memory of each device. */
static int keep_figures(const struct ff_schedule *s, struct ff_arena *a, struct ff_schedule *ret,
		struct ff_error *err)
{
	size_t n = s->machine->n_devices;
	struct ff_schedule r = {.machine = s->machine,
			.strategy = s->strategy,
			.optimizer = s->optimizer,
			.clip = s->clip,
			.network_bytes = s->network_bytes,
			.plain_bytes = s->plain_bytes,
			.travel = s->travel,
			.averaged_bytes = s->averaged_bytes};

	r.memory_bytes = ff_arena_copy(a, s->memory_bytes, n, sizeof(*r.memory_bytes));
	r.live_bytes = ff_arena_copy(a, s->live_bytes, n, sizeof(*r.live_bytes));
	r.workspace_bytes = ff_arena_copy(a, s->workspace_bytes, n, sizeof(*r.workspace_bytes));
	if (!r.memory_bytes || !r.live_bytes || !r.workspace_bytes)
		return ff_fail_memory(err);
	*ret = r;
	return FF_OK;
}

/* A plan's memory and bytes sent, by a schedule of one of equal devices, which is gone then: on
 * 1,024 devices it takes hundreds of megabytes. */
static int find_sizes(
		struct ff_job *j, struct ff_arena *a, struct ff_plan *ret, struct ff_error *err)
{
	struct ff_lower_options opt = lower_options(j);
	struct ff_schedule sizes;
	struct ff_arena own;
	int code;

	ff_arena_init(&own);
	opt.what = FF_LOWER_SIZES;
	code = ff_lower(&j->in.graph, &j->in.machine, &ret->strategy, &opt, &own, &sizes, err);
	if (code == FF_OK)
		code = ff_held_find(&sizes, &own, &ret->held, err);
	if (code == FF_OK)
		code = keep_figures(&sizes, a, &ret->schedule, err);
	ff_arena_finish(&own);
	if (code == FF_OK)
		ff_job_check_memory(j, ret);
	return code;
}

/* Its tasks, beside its memory. */
static int find_tasks(
		struct ff_job *j, struct ff_arena *a, struct ff_plan *ret, struct ff_error *err)
{
	struct ff_lower_options opt = lower_options(j);
	struct ff_schedule tasks;
	int code;

	opt.what = FF_LOWER_TASKS;
	code = ff_lower(&j->in.graph, &j->in.machine, &ret->strategy, &opt, a, &tasks, err);
	if (code < 0)
		return code;
	tasks.memory_bytes = ret->schedule.memory_bytes;
	tasks.live_bytes = ret->schedule.live_bytes;
	tasks.workspace_bytes = ret->schedule.workspace_bytes;
	ret->schedule = tasks;
	return FF_OK;
}

static int find_all(struct ff_job *j, struct ff_arena *a, struct ff_plan *ret, struct ff_error *err)
{
	struct ff_lower_options opt = lower_options(j);
	int code = ff_lower(
			&j->in.graph, &j->in.machine, &ret->strategy, &opt, a, &ret->schedule, err);

	if (code == FF_OK)
		code = ff_held_find(&ret->schedule, a, &ret->held, err);
	if (code == FF_OK)
		ff_job_check_memory(j, ret);
	return code;
}

/* Whether nobody reads a plan's buffers but for the memory they take. */
static bool goes_apart(const struct ff_job *j)
{
	return !j->opt.beside.html_path && !j->in.travel.codec && !j->in.travel.staleness;
}

int ff_job_predict(struct ff_job *j, const struct ff_strategy *s, struct ff_arena *a,
		struct ff_plan *ret, struct ff_error *err)
{
	int code;

	ret->strategy = *s;
	code = goes_apart(j) ? find_sizes(j, a, ret, err) : find_all(j, a, ret, err);
	if (code == FF_OK && goes_apart(j))
		code = find_tasks(j, a, ret, err);
	if (code == FF_OK)
		code = ff_simulate(&ret->schedule, j->tools.pricer, a, &ret->simulation, err);
	ret->peak_flops_per_s = ff_price_peak_flops_per_s(j->tools.pricer);
	return code;
}

int ff_job_price(struct ff_job *j, const struct ff_strategy *s, const struct ff_evaluation *at,
		struct ff_arena *a, struct ff_plan *ret, struct ff_error *err)
{
	if (ff_price_framework(j->tools.pricer)) /* whose hosts an evaluation does not know */
		return ff_job_predict(j, s, a, ret, err);
	*ret = (struct ff_plan){.strategy = *s,
			.peak_flops_per_s = ff_price_peak_flops_per_s(j->tools.pricer),
			.simulation.step_us = at->step_us};
	return find_sizes(j, a, ret, err);
}

/* The plan without its tasks. */
static int leave_tasks(struct ff_job *j, const struct ff_strategy *s,
		const struct ff_evaluation *at, struct ff_error *err)
{
	ff_arena_finish(&j->lowered);
	fprintf(stderr,
			"%s: The tasks of the plan take more memory than there is: what its time "
			"is made of is not told.\n",
			ff_job_command.name);
	return ff_job_price(j, s, at, &j->lowered, &j->summary.plan, err);
}

int ff_job_lower(struct ff_job *j, const struct ff_strategy *s, const struct ff_evaluation *at,
		struct ff_error *err)
{
	int code;

	ff_arena_finish(&j->lowered);
	code = ff_job_predict(j, s, &j->lowered, &j->summary.plan, err);
	return code == FF_E_NOMEM ? leave_tasks(j, s, at, err) : code;
}

int ff_job_find_facts(struct ff_job *j, struct ff_error *err)
{
	struct ff_summary *s = &j->summary;
	struct ff_strategy plan = s->plan.strategy;
	const struct ff_evaluation at = {.step_us = s->plan.simulation.step_us};
	int code = ff_facts_find(
			s->graph, s->machine, &s->plan, j->opt.memory, &j->arena, &s->facts, err);

	if (code != FF_E_NOMEM || !s->plan.schedule.n_tasks)
		return code;
	code = leave_tasks(j, &plan, &at, err);
	return code < 0 ? code
			: ff_facts_find(s->graph, s->machine, &s->plan, j->opt.memory, &j->arena,
					  &s->facts, err);
}

int ff_job_tune(struct ff_job *j, struct ff_strategy *s, struct ff_evaluation *at,
		struct ff_error *err)
{
	const struct ff_framework *f = ff_price_framework(j->tools.pricer);
	bool at_once = f && f->at_once;
	int code;

	if (at_once)
		s->bucket_bytes = FF_MOST_BUCKET_BYTES;
	code = ff_evaluator_set(j->tools.evaluator, s, at, err);
	return code < 0 || at_once ? code
				   : ff_buckets_tune(j->tools.evaluator, s,
						     ff_bucket_bytes(&j->in.graph, &j->in.machine),
						     at, err);
}

/* Whether a device lacks memory even where nothing is left free. */
static bool never_fits(const struct ff_job *j, const struct ff_plan *p)
{
	for (uint32_t i = 0; i < j->in.machine.n_devices; i++)
		if (p->schedule.memory_bytes[i] > ff_job_whole_memory(j, i))
			return true;
	return false;
}

/* Of a plan its strategy and figures alone: on 1,024 devices the rest takes a gigabyte. */
static int forget_tasks(struct ff_job *j, struct ff_plan *p, struct ff_error *err)
{
	p->simulation = (struct ff_simulation){
			.step_us = p->simulation.step_us, .inferred = p->simulation.inferred};
	return keep_figures(&p->schedule, &j->arena, &p->schedule, err);
}

/* What --explain compares the plan with, of data parallelism that is not kept. */
static int explain_data_parallel(
		struct ff_job *j, const struct ff_strategy *s, struct ff_error *err)
{
	struct ff_plan *p = &j->summary.data_parallel;
	int code = ff_job_predict(j, s, &j->compared, p, err);

	if (code == FF_OK)
		code = ff_facts_find(&j->in.graph, &j->in.machine, p, j->opt.memory, &j->arena,
				&j->summary.why.against, err);
	j->summary.why.compared = code == FF_OK;
	return code;
}

/* Data parallelism, which costs `at`.  That which can be no plan is only compared with. */
static int predict_data_parallel(struct ff_job *j, const struct ff_strategy *s,
		const struct ff_evaluation *at, struct ff_error *err)
{
	struct ff_plan *p = &j->summary.data_parallel;
	double from_s = ff_job_now_s();
	int code = FF_OK;

	if (!at->fits) {
		code = ff_job_price(j, s, at, &j->compared, p, err);
		j->price_s = ff_job_now_s() - from_s;
		if (code == FF_OK && never_fits(j, p)) {
			code = forget_tasks(j, p, err);
			j->predict_s = PREDICTED_TIMES * j->price_s;
			ff_arena_finish(&j->compared);
			if (code == FF_OK && j->opt.explain)
				code = explain_data_parallel(j, s, err);
			if (code == FF_OK && j->opt.explain)
				code = forget_tasks(j, p, err);
			ff_arena_finish(&j->compared);
			return code;
		}
		ff_arena_finish(&j->compared);
		from_s = ff_job_now_s();
	}
	if (code == FF_OK)
		code = ff_job_predict(j, s, &j->compared, p, err);
	j->predict_s = ff_job_now_s() - from_s;
	return code;
}

/* A look for data parallelism that fits, which began at `from_s`, and from `fits_s` on has one. */
struct look {
	struct ff_job *job;
	double from_s, fits_s;
};

/* It may take as long as the prediction before it did, as there is little else to go on from; and
 * once as long as the first that fits, whose layout may have taken all of the time: most that are
 * tried behind it are not laid out. */
static bool baseline_ends(void *ctx, double part)
{
	const struct look *l = ctx;
	struct ff_job *j = l->job;
	double least_s = fmin(l->from_s + fmax(j->predict_s, 2 * (l->fits_s - l->from_s)),
			j->from + BASELINE_MOST * j->opt.seconds);
	double end_s = j->from + BASELINE_SHARE * j->opt.seconds;

	end_s = fmax(end_s, least_s);
	return ff_job_interrupted(j) ||
	       (j->opt.seconds > 0 && ff_job_now_s() - l->from_s > part * (end_s - l->from_s));
}

static void baseline_begins(void *ctx)
{
	struct look *l = ctx;

	l->fits_s = ff_job_now_s();
	l->job->baseline_s = l->fits_s - l->job->from;
}

/* What data parallelism comes to where it does not fit, if anything of that does. */
static int find_sharded(struct ff_job *j, struct ff_error *err)
{
	double now_s = ff_job_now_s();
	struct look look = {j, now_s, now_s};
	const struct ff_grid grid = {.evaluator = j->tools.evaluator,
			.space = j->tools.space,
			.graph = &j->in.graph,
			.machine = &j->in.machine,
			.samples = true,
			.fill = true,
			.stop = baseline_ends,
			.begins = baseline_begins,
			.ctx = &look};
	struct ff_summary *s = &j->summary;
	struct ff_evaluation at;
	struct ff_strategy base;
	bool found = false;
	int code = ff_grid_find(&grid, &j->arena, &base, j->baseline_name, &found, err);

	if (code == FF_OK && found)
		code = ff_job_tune(j, &base, &at, err);
	if (code == FF_OK && found) /* mostly it is only compared with */
		code = ff_job_price(j, &base, &at, &j->arena, &j->baseline, err);
	if (code == FF_OK && found && ff_plan_fits(&j->baseline)) {
		s->baseline = &j->baseline;
		s->baseline_name = j->baseline_name;
	}
	return code;
}

/* Where nothing of that leaves the reserve free: few plans do, and those may be slow.  So the
 * preset one is given up where it comes to something that fits all of the memory. */
static int find_without_reserve(struct ff_job *j, struct ff_error *err)
{
	struct ff_summary *s = &j->summary;
	double reserve = j->opt.choice.reserve;
	int code;

	j->opt.choice.reserve = 0;
	ff_job_check_memory(j, &s->data_parallel);
	code = ff_job_open_evaluators(j, err);
	if (code == FF_OK && !ff_plan_fits(&s->data_parallel))
		code = find_sharded(j, err);
	if (code < 0)
		return code;
	if (ff_plan_fits(s->baseline)) {
		s->found.reserve = reserve;
		s->found.used_reserve = s->found.needed_reserve = true;
		return FF_OK;
	}
	j->opt.choice.reserve = reserve;
	ff_job_check_memory(j, &s->data_parallel);
	return ff_job_open_evaluators(j, err);
}

int ff_job_find_baseline(struct ff_job *j, struct ff_error *err)
{
	struct ff_summary *s = &j->summary;
	struct ff_evaluation at;
	struct ff_strategy base;
	int code = ff_init_strategy("data-parallel", j->tools.space, &j->in.graph, &j->in.machine,
			j->opt.seed, &j->arena, &base, err);

	s->baseline = &s->data_parallel;
	s->baseline_name = "data-parallel";
	if (code == FF_OK)
		code = ff_job_tune(j, &base, &at, err);
	if (code == FF_OK)
		code = predict_data_parallel(j, &base, &at, err);
	j->baseline_s = ff_job_now_s() - j->from;
	if (code == FF_OK && !ff_plan_fits(&s->data_parallel))
		code = find_sharded(j, err);
	if (code == FF_OK && !ff_plan_fits(s->baseline) && j->opt.choice.reserve > 0 &&
			!j->opt.choice.reserve_given && !ff_job_interrupted(j))
		code = find_without_reserve(j, err);
	return code;
}

/* A plan that might have needed the reserve may leave it free all the same. */
void ff_job_note_reserve(struct ff_job *j)
{
	struct ff_found *f = &j->summary.found;
	bool needs = false;

	for (uint32_t i = 0; i < j->in.machine.n_devices; i++) {
		double all = (double)ff_job_whole_memory(j, i);

		needs = needs || (double)j->summary.plan.schedule.memory_bytes[i] >
						 all * (1 - f->reserve / 100);
	}
	f->used_reserve = f->used_reserve && needs;
}

int ff_job_find_by_hand(struct ff_job *j, struct ff_strategy *ret, struct ff_error *err)
{
	const struct ff_grid grid = {.evaluator = j->tools.evaluator,
			.space = j->tools.space,
			.graph = &j->in.graph,
			.machine = &j->in.machine,
			.fill = true,
			.whole = true};
	bool found = false;
	int code = ff_grid_find(&grid, &j->arena, ret, j->by_hand, &found, err);

	if (code == FF_OK && !found)
		return ff_fail(err, FF_E_NOFIT,
				"no strategy by hand fits in memory, of those that there are of "
				"graph %s on %u devices",
				j->in.graph.name, j->in.machine.n_devices);
	return code;
}
