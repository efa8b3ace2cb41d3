/* Times by class of task, and how they differ from those that were predicted.
 * SPDX-License-Identifier: Apache-2.0 */
#include "profile.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../agree.h"
#include "quantiles.h"

#define MOST_SHOWN 10

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

/* NAN: nothing was predicted of it. */
static double predicted_us(const struct ff_strategy_info *info, const char *name)
{
	for (uint32_t i = 0; info->predicted_us > 0 && i < info->n_classes; i++)
		if (!strcmp(info->classes[i].name, name))
			return info->classes[i].us;
	return NAN;
}

struct term {
	const char *name;
	double predicted_us, measured_us, weight;
};

static int by_weight(const void *a, const void *b)
{
	const struct term *x = a, *y = b;

	return x->weight != y->weight ? (x->weight < y->weight ? 1 : -1) : strcmp(x->name, y->name);
}

static bool list_terms(
		const struct ff_profile *p, const struct ff_strategy_info *info, struct term *term)
{
	bool known = info->predicted_us > 0 && info->n_classes;

	for (uint32_t i = 0; i < p->classes.n; i++) {
		double predicted = predicted_us(info, p->classes.name[i]);
		double measured = p->measured_us[i];

		term[i] = (struct term){p->classes.name[i], predicted, measured,
				known && !isnan(predicted) ? fabs(measured - predicted) : measured};
	}
	qsort(term, p->classes.n, sizeof(*term), by_weight);
	return known;
}

static void print_term(const struct term *t, double all_us)
{
	printf("  %-28s", t->name);
	if (isnan(t->predicted_us))
		printf("%10s    ", "-");
	else
		printf("%10.3f ms ", t->predicted_us * 1e-3);
	printf("%10.3f ms ", t->measured_us * 1e-3);
	if (isnan(t->predicted_us))
		printf("%10s   ", "-");
	else
		printf("%+10.1f %% ", 100 * (t->measured_us - t->predicted_us) / all_us);
	printf("%10.1f %%\n", 100 * t->measured_us / all_us);
}

void ff_profile_print(const struct ff_profile *p, const struct ff_strategy_info *info,
		double step_us, uint32_t devices)
{
	struct term *term, rest = {.name = "all others"};
	uint32_t n = p->classes.n;
	bool known;

	if (!p->n || !(term = malloc(n * sizeof(*term))))
		return;
	known = list_terms(p, info, term);
	printf("tasks by class, all devices together, median of %" PRIu64 " steps; %s\n", p->n,
			known ? "furthest from what was predicted first"
			      : "nothing was predicted of them");
	printf("  %-28s%14s%14s%13s%12s\n", "", "predicted", "measured", "apart", "of step");
	for (uint32_t i = 0; i < n; i++) {
		if (i < MOST_SHOWN) {
			print_term(&term[i], step_us * devices);
			continue;
		}
		rest.predicted_us += term[i].predicted_us;
		rest.measured_us += term[i].measured_us;
	}
	if (n > MOST_SHOWN)
		print_term(&rest, step_us * devices);
	free(term);
}

void ff_profile_write(
		const struct ff_profile *p, const struct ff_strategy_info *info, struct ff_out *o)
{
	if (!p->n)
		return;
	ff_out_u64(o, "profiled_steps", p->n);
	ff_out_array(o, "tasks");
	for (uint32_t i = 0; i < p->classes.n; i++) {
		ff_out_object(o, NULL);
		ff_out_string(o, "class", p->classes.name[i]);
		ff_out_int(o, "runs", p->classes.runs[i]);
		ff_out_real(o, "predicted_us", predicted_us(info, p->classes.name[i]));
		ff_out_real(o, "measured_us", p->measured_us[i]);
		ff_out_close(o);
	}
	ff_out_close(o);
}
