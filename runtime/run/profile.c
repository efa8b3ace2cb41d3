/* Tasks of the last steps, by class.  SPDX-License-Identifier: Apache-2.0 */
#include "profile.h"

#include "quantiles.h"

int ff_profile_create(const struct ff_schedule *s, uint64_t steps, struct ff_arena *a,
		struct ff_profile *ret, struct ff_error *err)
{
	struct ff_profile p = {.cap = steps};
	int code;

	if (!steps)
		return FF_OK;
	if ((code = ff_task_classes_of(s, a, &p.classes, err)) < 0)
		return code;
	p.step = ff_arena_array(a, steps, sizeof(*p.step));
	p.measured_us = ff_arena_array(a, p.classes.n, sizeof(*p.measured_us));
	p.worked_us = ff_arena_array(a, p.classes.n, sizeof(*p.worked_us));
	p.waited_us = ff_arena_array(a, p.classes.n, sizeof(*p.waited_us));
	if (!p.step || !p.measured_us || !p.worked_us || !p.waited_us)
		return ff_fail_memory(err);
	*ret = p;
	return FF_OK;
}

int ff_profile_add(struct ff_profile *p, const struct ff_executor *x, struct ff_arena *a,
		struct ff_error *err)
{
	struct ff_timed_step *step = &p->step[p->n];
	const struct ff_span *spans;

	ff_executor_spans(x, &spans, &step->n, &step->origin_us);
	step->spans = ff_arena_copy(a, spans, step->n, sizeof(*spans));
	if (!step->spans)
		return ff_fail_memory(err);
	p->n++;
	return FF_OK;
}

/* Of one step, all devices: what each class took, and what of it they worked and waited. */
static int add_step(const struct ff_profile *p, uint64_t k, const struct ff_timing *timing,
		struct ff_comm *comm, double *us, double *worked, double *waited,
		struct ff_error *err)
{
	struct ff_arena scratch;
	struct ff_span *all;
	uint32_t n;
	int code;

	ff_arena_init(&scratch);
	code = ff_timing_gather(timing, comm, &p->step[k], &scratch, &all, &n, err);
	if (code == FF_OK) {
		ff_task_classes_add(&p->classes, all, n, us);
		code = ff_task_classes_wait(&p->classes, all, n, &scratch, waited, err);
	}
	for (uint32_t c = 0; c < p->classes.n; c++)
		worked[c] = us[c] - waited[c];
	ff_arena_finish(&scratch);
	return code;
}

/* Of v[step][class] over the steps, by class. */
static int take_medians(const struct ff_profile *p, const double *v, struct ff_arena *a,
		double *ret, struct ff_error *err)
{
	double *column = ff_arena_array(a, p->n, sizeof(*column));
	struct ff_quantiles spread;
	int code = column ? FF_OK : ff_fail_memory(err);

	for (uint32_t c = 0; c < p->classes.n && code == FF_OK; c++) {
		for (uint64_t k = 0; k < p->n; k++)
			column[k] = v[k * p->classes.n + c];
		code = ff_quantiles_of(column, p->n, &spread, err);
		ret[c] = spread.median;
	}
	return code;
}

static int gather(struct ff_profile *p, const struct ff_timing *timing, struct ff_comm *comm,
		struct ff_arena *a, struct ff_error *err)
{
	uint32_t classes = p->classes.n;
	double *us = ff_arena_array(a, p->n * classes, sizeof(*us));
	double *worked = ff_arena_array(a, p->n * classes, sizeof(*worked));
	double *waited = ff_arena_array(a, p->n * classes, sizeof(*waited));
	int code = FF_OK;

	if (!us || !worked || !waited)
		return ff_fail_memory(err);
	for (uint64_t k = 0; k < p->n && code == FF_OK; k++)
		code = add_step(p, k, timing, comm, us + k * classes, worked + k * classes,
				waited + k * classes, err);
	if (code < 0 || (code = take_medians(p, us, a, p->measured_us, err)) < 0 ||
			(code = take_medians(p, worked, a, p->worked_us, err)) < 0)
		return code;
	return take_medians(p, waited, a, p->waited_us, err);
}

int ff_profile_gather(struct ff_profile *p, const struct ff_timing *timing, struct ff_comm *comm,
		struct ff_error *err)
{
	struct ff_arena scratch;
	int code;

	if (!p->n)
		return FF_OK;
	ff_arena_init(&scratch);
	code = gather(p, timing, comm, &scratch, err);
	p->bound_us = ff_timing_bound(timing);
	ff_arena_finish(&scratch);
	return code;
}
