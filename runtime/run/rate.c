/* Learning rates: a ramp, then one of the rows.  SPDX-License-Identifier: Apache-2.0 */
#include "rate.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PI 3.14159265358979323846

struct ff_annealing {
	const char *name;
	bool has_size, has_floor;
	/* After `step` of `steps` steps. */
	double (*rate)(const struct ff_rate_options *o, double base, uint64_t step, uint64_t steps);
};

static double constant_rate(
		const struct ff_rate_options *o, double base, uint64_t step, uint64_t steps)
{
	(void)o, (void)step, (void)steps;
	return base;
}

/* torch.optim.lr_scheduler.StepLR */
static double step_rate(const struct ff_rate_options *o, double base, uint64_t step, uint64_t steps)
{
	uint64_t times = step / o->step_size;

	(void)steps;
	return base * pow(o->gamma, (double)times);
}

/* torch.optim.lr_scheduler.CosineAnnealingLR with T_max = steps (Loshchilov and Hutter, "SGDR",
 * ICLR 2017, without restarts) */
static double cosine_rate(
		const struct ff_rate_options *o, double base, uint64_t step, uint64_t steps)
{
	double share = (double)step / (double)steps;

	return o->floor + (base - o->floor) * (1 + cos(PI * share)) / 2;
}

static const struct ff_annealing rows[] = {
		{.name = "constant", .rate = constant_rate},
		{.name = "step", .has_size = true, .rate = step_rate},
		{.name = "cosine", .has_floor = true, .rate = cosine_rate},
};

static const struct ff_annealing *find(const char *name)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	return NULL;
}

/* What was told must belong to the schedule. */
static int check_fitting(
		const struct ff_rate_options *o, const struct ff_annealing *a, struct ff_error *err)
{
	if (a->has_size && !o->step_size)
		return ff_fail(err, FF_E_INPUT, "--schedule step: expected --step-size N with it");
	if (!a->has_size && (o->step_size || !isnan(o->gamma)))
		return ff_fail(err, FF_E_INPUT, "%s: expected --schedule step with it",
				o->step_size ? "--step-size" : "--gamma");
	if (!a->has_floor && !isnan(o->floor))
		return ff_fail(err, FF_E_INPUT, "--floor: expected --schedule cosine with it");
	if (!o->ramp && !isnan(o->ramp_from))
		return ff_fail(err, FF_E_INPUT, "--ramp-from: expected --ramp N with it");
	return FF_OK;
}

static int check_range(const char *option, double value, double most, struct ff_error *err)
{
	if (isnan(value) || (value >= 0 && value <= most))
		return FF_OK;
	if (isfinite(most))
		return ff_fail(err, FF_E_INPUT, "option %s: expected a number from 0 to %g, not %g",
				option, most, value);
	return ff_fail(err, FF_E_INPUT, "option %s: expected a number from 0, not %g", option,
			value);
}

int ff_rate_plan_make(const struct ff_rate_options *told, uint64_t steps, struct ff_rate_plan *ret,
		struct ff_error *err)
{
	struct ff_rate_plan p = {.annealing = find(told->schedule), .told = *told, .steps = steps};
	int code;

	if (!p.annealing)
		return ff_fail(err, FF_E_INPUT, "--schedule %s: expected constant, step or cosine",
				told->schedule);
	if ((code = check_fitting(told, p.annealing, err)) < 0 ||
			(code = check_range("--gamma", told->gamma, INFINITY, err)) < 0 ||
			(code = check_range("--floor", told->floor, INFINITY, err)) < 0 ||
			(code = check_range("--ramp-from", told->ramp_from, 1, err)) < 0)
		return code;
	if (steps && told->ramp > steps)
		return ff_fail(err, FF_E_INPUT,
				"--ramp %" PRIu64 ": there are no more than %" PRIu64 " steps",
				told->ramp, steps);
	p.told.gamma = isnan(told->gamma) ? 0.1 : told->gamma;
	p.told.floor = isnan(told->floor) ? 0 : told->floor;
	p.told.ramp_from = isnan(told->ramp_from) ? 1.0 / 3 : told->ramp_from;
	*ret = p;
	return FF_OK;
}

/* torch.optim.lr_scheduler.LinearLR, then the row: SequentialLR with the ramp's end as its
 * milestone. */
double ff_rate_at(const struct ff_rate_plan *p, double base, uint64_t step)
{
	const struct ff_rate_options *o = &p->told;
	double share;

	if (step >= o->ramp)
		return p->annealing->rate(o, base, step - o->ramp, p->steps - o->ramp);
	share = (double)step / (double)o->ramp;
	return base * (o->ramp_from + (1 - o->ramp_from) * share);
}

void ff_rate_text(const struct ff_rate_plan *p, char text[FF_RATE_TEXT])
{
	const struct ff_rate_options *o = &p->told;
	int at = 0;

	text[0] = '\0';
	if (o->ramp)
		at = snprintf(text, FF_RATE_TEXT, "from %g of it in %" PRIu64 " steps, then ",
				o->ramp_from, o->ramp);
	at += snprintf(text + at, FF_RATE_TEXT - (size_t)at, "%s", p->annealing->name);
	if (p->annealing->has_size)
		snprintf(text + at, FF_RATE_TEXT - (size_t)at, ", times %g every %" PRIu64 " steps",
				o->gamma, o->step_size);
	if (p->annealing->has_floor)
		snprintf(text + at, FF_RATE_TEXT - (size_t)at, " down to %g", o->floor);
}
