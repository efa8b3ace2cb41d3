/* What a plan is compared with: strategies that people use.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain/text.h"
#include "job.h"
#include "space/limits.h"

#define RIVALS_SHARE 0.1 /* of the budget: what is not priced by then is left out */

static bool has_time(struct ff_job *j, double share)
{
	if (ff_job_interrupted(j))
		return false;
	return j->opt.seconds <= 0 ||
	       ff_job_now_s() - j->from + 2 * j->predict_s < share * j->opt.seconds;
}

/* Prices the start called `name` and forgets all but its figures.  *made: there is one. */
static int add_rival(struct ff_job *j, const char *name, bool *made, struct ff_error *err)
{
	struct ff_summary *s = &j->summary;
	struct ff_evaluation at;
	struct ff_strategy start;
	struct ff_arena a;
	struct ff_error why;
	struct ff_plan plan;
	int code;

	ff_arena_init(&a);
	code = ff_init_strategy(name, j->tools.space, &j->in.graph, &j->in.machine, j->opt.seed, &a,
			&start, &why);
	if (code == FF_OK)
		code = ff_job_tune(j, &start, &at, &why);
	if (code == FF_OK)
		code = ff_job_price(j, &start, &at, &a, &plan, &why);
	*made = code == FF_OK;
	if (code == FF_OK)
		s->rivals[s->n_rivals++] = ff_rival_of(name, &plan);
	else if (code != FF_E_INPUT) /* not for this network, or nobody has measured it */
		*err = why;
	ff_arena_finish(&a);
	return code == FF_E_INPUT ? FF_OK : code;
}

/* Whether the table has a row of that name anyway. */
static bool has_row(const struct ff_summary *s, const char *name)
{
	return !strcmp(name, s->baseline_name) || (s->title && !strcmp(name, s->title));
}

int ff_job_find_rivals(struct ff_job *j, struct ff_error *err)
{
	static const char *const names[] = {"zero-1", "zero-3", "zero-1-hybrid", "zero-3-hybrid"};
	struct ff_summary *s = &j->summary;
	uint32_t n = ff_machine_shards(&j->in.machine, 1) ? 4 : 2;
	int code = FF_OK;
	bool made;

	if (j->in.machine.n_devices == 1 || ff_travel_unsearched(&j->in.travel))
		return FF_OK;
	s->rivals[s->n_rivals++] = ff_rival_of("data-parallel", &s->data_parallel);
	if (s->baseline != &s->data_parallel)
		s->rivals[s->n_rivals++] = ff_rival_of(s->baseline_name, s->baseline);
	for (uint32_t i = 0; i < n && code == FF_OK && has_time(j, RIVALS_SHARE); i++)
		if (!has_row(s, names[i]))
			code = add_rival(j, names[i], &made, err);
	return code;
}

/* The order of a plan's stages, as a strategy by hand says it. */
static void word_order(const struct ff_shape *shape, char text[24])
{
	if (shape->rule == FF_ORDER_INTERLEAVED && shape->chunks > 1)
		snprintf(text, 24, ",interleave=%u", shape->chunks);
	else
		snprintf(text, 24, "%s%s", ff_order_row(shape->rule)->halves ? "," : "",
				ff_order_row(shape->rule)->halves ? ff_order_name(shape->rule)
								  : "");
}

/* Degrees of a strategy by hand. */
struct degrees {
	uint32_t tensor, data, pipeline;
	double far; /* factors of two that its degrees are off the plan's */
};

static int by_distance(const void *a, const void *b)
{
	const struct degrees *x = a, *y = b;

	if (x->far != y->far)
		return x->far < y->far ? -1 : 1;
	return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

#define MOST_DEGREES 1024
#define MOST_TRIES 8

/* All that there are on `n` devices, the nearest first. */
static uint32_t list_degrees(
		const struct ff_shape *shape, uint32_t n, struct degrees ret[MOST_DEGREES])
{
	double tensor = shape->tensor * (double)shape->spatial; /* within a sample */
	uint32_t found = 0;

	for (uint32_t t = 1; t <= n; t++)
		for (uint32_t p = 1; n % t == 0 && p <= n / t && found < MOST_DEGREES; p++)
			if (n / t % p == 0)
				ret[found++] = (struct degrees){t, n / t / p, p,
						fabs(log2(t / tensor)) +
								fabs(log2((double)n / t / p /
										shape->data)) +
								fabs(log2((double)p /
										shape->pipeline))};
	qsort(ret, found, sizeof(*ret), by_distance);
	return found;
}

/* Prices these degrees: with experts apart, where there are any, with the plan's micro-batches and
 * recomputation; or else without one of these. */
static int try_degrees(struct ff_job *j, const struct degrees *d, bool *made, struct ff_error *err)
{
	const struct ff_shape *shape = &j->summary.facts.shape;
	const char *updates = !shape->n_flat     ? ""
			      : shape->n_dropped ? ",zero-3"
			      : shape->scatters  ? ",zero-2"
						 : ",zero-1";
	const uint32_t micro[] = {shape->micro_batches, d->pipeline};
	enum { NOT_AGAIN = 1, OTHER_MICRO = 2, NO_EXPERTS = 4, ALL = 8 };
	int code = FF_OK;
	char order[24];

	word_order(shape, order);
	for (int i = 0; i < ALL && !*made && code == FF_OK; i++) {
		if ((i & NOT_AGAIN && !shape->n_again) || (i & OTHER_MICRO && micro[0] == micro[1]))
			continue;
		snprintf(j->nearest_name, sizeof(j->nearest_name), "megatron:%u,%u,%u,%u%s%s%s%s%s",
				d->tensor, d->data, d->pipeline, micro[!!(i & OTHER_MICRO)],
				updates, shape->n_flat && shape->shards ? ",hybrid" : "",
				shape->n_again && !(i & NOT_AGAIN) ? ",recompute" : "",
				d->pipeline > 1 ? order : "", i & NO_EXPERTS ? "" : ",experts");
		if (has_row(&j->summary, j->nearest_name))
			*made = true;
		else
			code = add_rival(j, j->nearest_name, made, err);
	}
	return code;
}

int ff_job_find_nearest(struct ff_job *j, struct ff_error *err)
{
	struct degrees all[MOST_DEGREES];
	uint32_t n = list_degrees(&j->summary.facts.shape, j->in.machine.n_devices, all);
	bool made = !j->summary.n_rivals;
	int code = FF_OK;

	for (uint32_t i = 0; i < n && i < MOST_TRIES && !made && code == FF_OK && has_time(j, 1);
			i++)
		code = try_degrees(j, &all[i], &made, err);
	return code;
}

/* ---- where one of them is better ---- */

bool ff_job_may_take(const struct ff_job *j, const struct ff_plan *p)
{
	return ff_plan_fits(p) && ff_space_admits_strategy(j->tools.space, &p->strategy);
}

int ff_job_take(struct ff_job *j, const struct ff_plan *p, struct ff_error *err)
{
	struct ff_summary *s = &j->summary;
	int code = FF_OK;

	s->plan = *p;
	if (p == &j->baseline) { /* that was priced alone */
		const struct ff_evaluation at = {.step_us = p->simulation.step_us, .fits = true};

		code = ff_job_lower(j, &j->baseline.strategy, &at, err);
	}
	if (code < 0)
		return code;
	s->plan.schedule.strategy = &s->plan.strategy;
	s->is_data_parallel = p == &s->data_parallel;
	if (s->found.ragged_us >= p->simulation.step_us)
		s->found.ragged_us = 0;
	s->found.n_ragged = 0;
	return FF_OK;
}

/* The start called `name`, with its figures, is the plan. */
static int take_start(struct ff_job *j, const char *name, struct ff_error *err)
{
	struct ff_summary *s = &j->summary;
	struct ff_evaluation at;
	struct ff_strategy start;
	struct ff_plan plan;
	int code = ff_init_strategy(name, j->tools.space, &j->in.graph, &j->in.machine, j->opt.seed,
			&j->arena, &start, err);

	if (code == FF_OK)
		code = ff_job_tune(j, &start, &at, err);
	if (code == FF_OK)
		code = ff_job_price(j, &start, &at, &j->arena, &plan, err);
	if (code < 0 || !ff_job_may_take(j, &plan) ||
			plan.simulation.step_us >= s->plan.simulation.step_us)
		return code;
	code = ff_job_take(j, &plan, err);
	if (code == FF_OK)
		code = ff_job_lower(j, &start, &at, err);
	return code < 0 ? code : ff_job_find_facts(j, err);
}

int ff_job_take_best(struct ff_job *j, struct ff_error *err)
{
	const struct ff_summary *s = &j->summary;
	const struct ff_rival *best = NULL;
	double us = s->plan.simulation.step_us;

	for (uint32_t i = 0; i < s->n_rivals; i++) {
		const struct ff_rival *r = &s->rivals[i];
		bool asked = !strcmp(r->name, "data-parallel") || r->name == s->baseline_name;

		if (asked || !r->fits || r->step_us >= us) /* the search has asked them */
			continue;
		best = r;
		us = r->step_us;
	}
	return best ? take_start(j, best->name, err) : FF_OK;
}

/* ---- what splits gain ---- */

/* Splits the operators of a row as data parallelism has them.  *any: that changes some. */
static void split_samples(const struct ff_job *j, const struct ff_split_row *row,
		struct ff_strategy *s, bool *any)
{
	const struct ff_config *as = j->summary.data_parallel.strategy.config;
	char text[FF_TEXT];

	for (uint32_t i = 0; i < j->in.graph.n_nodes; i++) {
		const struct ff_node *n = &j->in.graph.nodes[i];

		if (!ff_node_needs_config(&j->in.graph, i))
			continue;
		ff_split_text(n, &j->summary.plan.strategy.config[i], text);
		if (strcmp(text, row->split) != 0 || ff_config_equal(n, &s->config[i], &as[i]))
			continue;
		s->config[i] = as[i];
		*any = true;
	}
}

static int find_gain(struct ff_job *j, struct ff_split_row *row, struct ff_error *err)
{
	struct ff_evaluation at;
	struct ff_strategy s;
	struct ff_arena a;
	struct ff_error why;
	bool any = false;
	int code;

	ff_arena_init(&a);
	code = ff_strategy_create(&j->in.graph, &a, &s, err);
	if (code == FF_OK) {
		ff_strategy_copy(&s, &j->summary.plan.strategy);
		split_samples(j, row, &s, &any);
	}
	if (code == FF_OK && any) {
		code = ff_evaluator_set(j->tools.evaluator, &s, &at, &why);
		if (code == FF_OK)
			row->gain_us = at.step_us - j->summary.facts.step_us;
		else if (code != FF_E_INPUT) /* nobody has measured it */
			*err = why;
	}
	ff_arena_finish(&a);
	return code == FF_E_INPUT ? FF_OK : code;
}

int ff_job_find_gains(struct ff_job *j, struct ff_error *err)
{
	const struct ff_shape *shape = &j->summary.facts.shape;
	struct ff_splits *r = &j->summary.facts.splits;
	int code = FF_OK;

	if (!j->summary.n_rivals || shape->pipeline > 1 || shape->micro_batches > 1)
		return FF_OK; /* samples of a stage or a micro-batch are others */
	for (uint32_t i = 0; i < r->n && i < FF_TOLD_SPLITS && code == FF_OK && has_time(j, 1); i++)
		code = find_gain(j, &r->row[i], err);
	return code;
}
