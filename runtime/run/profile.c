/* Times of tasks by class, over ranks and steps.
 * SPDX-License-Identifier: Apache-2.0 */
#include "profile.h"

#include "../agree.h"
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
	p.us = ff_arena_array(a, steps * p.classes.n, sizeof(*p.us));
	p.measured_us = ff_arena_array(a, p.classes.n, sizeof(*p.measured_us));
	if (!p.us || !p.measured_us)
		return ff_fail_memory(err);
	*ret = p;
	return FF_OK;
}

void ff_profile_add(struct ff_profile *p, const struct ff_executor *x)
{
	const struct ff_span *spans;
	uint32_t n;

	ff_executor_spans(x, &spans, &n);
	ff_task_classes_add(&p->classes, spans, n, p->us + p->n++ * p->classes.n);
}

/* all[rank][step][class] */
static int take_medians(struct ff_profile *p, const double *all, uint32_t n_ranks, double *us,
		struct ff_error *err)
{
	uint32_t classes = p->classes.n;
	struct ff_quantiles spread;
	int code = FF_OK;

	for (uint32_t c = 0; c < classes && code == FF_OK; c++) {
		for (uint64_t k = 0; k < p->n; k++) {
			us[k] = 0;
			for (uint32_t r = 0; r < n_ranks; r++)
				us[k] += all[(r * p->n + k) * classes + c];
		}
		code = ff_quantiles_of(us, p->n, &spread, err);
		p->measured_us[c] = spread.median;
	}
	return code;
}

int ff_profile_gather(struct ff_profile *p, struct ff_comm *comm, struct ff_arena *a,
		struct ff_error *err)
{
	size_t n = p->n * p->classes.n;
	double *all, *us;
	int code;

	if (!p->n)
		return FF_OK;
	all = ff_arena_array(a, n * comm->n_ranks, sizeof(*all));
	us = ff_arena_array(a, p->n, sizeof(*us));
	if (!all || !us)
		return ff_fail_memory(err);
	code = ff_agree_gather(comm, p->us, n * sizeof(*p->us), all, err);
	return code < 0 ? code : take_medians(p, all, comm->n_ranks, us, err);
}
