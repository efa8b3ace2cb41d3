/* The lower bound of all numbers of micro-batches, and its certificate.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job.h"
#include "space/raise.h"

#define BOUND_SHARE 0.1     /* of the budget, at most for the lower bound, */
#define CERTIFIED_SHARE 0.5 /* and where a certificate is asked for; */
/* Before the search, as there is to be a plan soon: so long, or such a share. */
#define BOUND_FIRST_S 0.5
#define BOUND_FIRST_SHARE 0.02

static bool bound_ends(void *ctx)
{
	struct ff_job *j = ctx;

	return ff_job_now_s() >= j->bound_until || ff_job_interrupted(j);
}

/* One number of micro-batches, and what that rests on. */
static int bound_of(struct ff_job *j, uint32_t micro_batches, double *us, struct ff_error *err)
{
	const struct ff_bounded bounded = {.graph = &j->in.graph,
			.micro_batches = micro_batches,
			.machine = &j->in.machine,
			.pricer = j->tools.pricer,
			.stop = bound_ends,
			.ctx = j};
	struct ff_certificate *c = &j->certificate;
	struct ff_weights *by;
	int code;

	if (!j->opt.beside.certificate_path)
		return ff_lower_bound(&j->in.graph, micro_batches, &j->in.machine, j->tools.pricer,
				bound_ends, j, us, err);
	by = ff_arena_alloc(&j->arena, sizeof(*by));
	if (!by)
		return ff_fail_memory(err);
	code = ff_lower_bound_weights(&bounded, &j->arena, by, us, err);
	if (code == FF_OK && !isnan(*us))
		c->part[c->n_parts++] = (struct ff_certified){micro_batches, *us, by};
	return code;
}

static void tell_unmeasured(const struct ff_job *j, uint32_t least)
{
	if (least && strcmp(j->opt.space_text, FF_ALL_SPACE) != 0)
		fprintf(stderr,
				"%s: %s has no costs of %u and more micro-batches, so they are not "
				"searched; ffprof --micro-batches measures them\n",
				ff_job_command.name, j->opt.costs_path, least);
}

/* The least of all numbers of micro-batches, `first` first, if that takes no longer than `seconds`.
 */
static int find_bound(struct ff_job *j, uint32_t first, double seconds, struct ff_error *err)
{
	const uint32_t *micro;
	uint32_t n = ff_space_micro(j->tools.space, &micro);
	double *least = &j->summary.lower_bound_us, us;
	uint32_t unmeasured = 0; /* the least */
	int code;

	j->bound_until = ff_job_now_s() + seconds;
	j->certificate.n_parts = 0;
	code = bound_of(j, first, least, err);
	for (uint32_t i = n; i-- > 0 && code == FF_OK;) {
		struct ff_error why;
		uint32_t m = micro[i];

		if (m == first)
			continue;
		code = bound_of(j, m, &us, &why);
		if (j->in.costs && (code == FF_E_INPUT || (code == FF_OK && isnan(us)))) {
			ff_space_forbid_micro(
					j->tools.space, m); /* not measured, or nobody knows */
			unmeasured = m;
			code = FF_OK;
		} else if (code < 0) {
			*err = why;
		} else if (!(us >= *least)) { /* or there was no time */
			*least = us;
		}
	}
	tell_unmeasured(j, unmeasured);
	return code;
}

static double most_s(const struct ff_job *j)
{
	double share = j->opt.beside.certificate_path ? CERTIFIED_SHARE : BOUND_SHARE;

	return share * (j->opt.seconds > 0 ? j->opt.seconds : FF_PRESET_SECONDS);
}

/* Only measured costs may lack numbers of micro-batches, which the search has to know. */
static bool may_wait(const struct ff_job *j)
{
	return j->opt.seconds > 0 && !j->in.costs && !j->opt.simulate;
}

int ff_job_bound(struct ff_job *j, struct ff_error *err)
{
	double first = fmax(BOUND_FIRST_S, BOUND_FIRST_SHARE * j->opt.seconds);
	double seconds = most_s(j);

	j->summary.lower_bound_us = NAN;
	if (may_wait(j) && j->predict_s > first)
		return FF_OK; /* it takes longer than one prediction */
	return find_bound(j, 1, may_wait(j) ? fmin(seconds, first) : seconds, err);
}

double ff_job_bound_seconds(const struct ff_job *j)
{
	return may_wait(j) && isnan(j->summary.lower_bound_us) ? most_s(j) : 0;
}

int ff_job_bound_later(struct ff_job *j, const struct ff_strategy *plan, struct ff_error *err)
{
	double seconds = ff_job_bound_seconds(j);
	uint32_t first = j->opt.beside.certificate_path ? plan->micro_batches : 1;

	return seconds > 0 && !ff_job_interrupted(j) ? find_bound(j, first, seconds, err) : FF_OK;
}

/* Where not all numbers of micro-batches had their turn, it is of those that had. */
static int check_certificate(struct ff_job *j, struct ff_error *err)
{
	struct ff_certificate *c = &j->certificate;
	bool has_plan = false;

	c->us = INFINITY;
	for (uint32_t i = 0; i < c->n_parts; i++) {
		uint32_t micro = c->part[i].micro_batches;

		c->us = fmin(c->us, c->part[i].us);
		has_plan = has_plan || micro == j->summary.plan.strategy.micro_batches;
	}
	if (!has_plan && isnan(j->summary.lower_bound_us))
		return ff_fail(err, FF_E_RUN,
				"there is no certificate, as there was no time for the lower "
				"bound: it takes half of --budget at most");
	if (isnan(j->summary.lower_bound_us))
		fprintf(stderr,
				"%s: there was no time for the lower bound of all numbers of "
				"micro-batches: the certificate says nothing of those that it "
				"does not list\n",
				ff_job_command.name);
	return FF_OK;
}

int ff_job_save_certificate(struct ff_job *j, struct ff_error *err)
{
	struct ff_certificate *c = &j->certificate;
	struct ff_out o;
	int code = check_certificate(j, err);

	if (code < 0)
		return code;
	c->machine = j->in.machine.name;
	c->devices = j->in.machine.n_devices;
	c->costs = j->in.costs ? FF_CERTIFIED_MEASURED : j->opt.costs_path;
	c->optimizer = j->in.optimizer->name;
	ff_out_init(&o);
	ff_certificate_write(&j->in.graph, c, &o);
	code = ff_out_save(&o, j->opt.beside.certificate_path, err);
	ff_out_finish(&o);
	return code;
}
