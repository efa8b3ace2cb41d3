/* Training: the candidates take turns step by step, so that whatever else goes
 * on in the machine meets them alike.  SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ff/cli.h"
#include "figure.h"
#include "metrics.h"
#include "process/agree.h"
#include "process/pulse.h"
#include "process/stop.h"
#include "weights.h"

/* Losses are gathered after so many steps, and where so much time has gone by. */
#define LOSS_EVERY 100
#define LOSS_EVERY_US 1e6

struct training {
	const struct ff_run_options *opt;
	struct ff_run_plan *plan;
	struct ff_comm *comm;
	struct ff_outcome *outcome;
	struct ff_executor *x[FF_MAX_CANDIDATES];
	struct ff_progress progress;
	struct ff_metrics metrics;
	uint64_t gathered;             /* steps whose losses are known */
	double gathered_us, kept_us;   /* when they were gathered, and a checkpoint was kept */
	uint64_t first_posted, posted; /* those since then that nobody has waited for */
	struct ff_timing timing;       /* of steps whose tasks are timed */
};

/* Steps whose tasks are timed: the last, and none that warms up. */
static uint64_t profiled(const struct training *t)
{
	uint64_t most = t->plan->steps - t->plan->warmup;

	return t->opt->tell.profile < most ? t->opt->tell.profile : most;
}

static int allocate(struct training *t, struct ff_error *err)
{
	int code;

	for (uint32_t i = 0; i < t->plan->n_candidates; i++) {
		struct ff_outcome *o = &t->outcome[i];
		struct ff_arena *a = &t->plan->arena;
		size_t tests = 1;

		o->step_us = ff_arena_array(a, t->plan->steps, sizeof(*o->step_us));
		o->loss = ff_arena_array(a, t->plan->steps, sizeof(*o->loss));
		o->memory_bytes = ff_arena_array(
				a, t->plan->machine.n_devices, sizeof(*o->memory_bytes));
		for (uint32_t k = 0; k < t->plan->graph.n_losses && t->plan->graph.n_losses > 1;
				k++) {
			o->loss_of[k] = ff_arena_array(a, t->plan->steps, sizeof(*o->loss));
			if (!o->loss_of[k])
				return ff_fail_memory(err);
		}
		if (t->opt->check.test_every)
			tests += t->plan->steps / t->opt->check.test_every;
		o->test = ff_arena_array(a, tests, sizeof(*o->test));
		if (!o->step_us || !o->loss || !o->memory_bytes || !o->test)
			return ff_fail_memory(err);
		o->at_end.all = (struct ff_found){NAN, NAN, NAN, NAN};
		code = ff_profile_create(
				&t->plan->candidate[i].schedule, profiled(t), a, &o->profile, err);
		if (code < 0)
			return code;
	}
	return FF_OK;
}

static int create(struct training *t, struct ff_error *err)
{
	const struct ff_executor_options opt = {
			.seed = t->opt->train.seed,
			.groups = t->plan->groups,
			.clip = t->plan->clip,
			.last = t->plan->first + t->plan->steps - 1,
			.top = t->plan->top,
			.beside = t->plan->progress,
	};
	int code = allocate(t, err);

	for (uint32_t i = 0; i < t->plan->n_candidates && code == FF_OK; i++)
		code = ff_executor_create(&t->plan->candidate[i].schedule, t->plan->backend,
				t->comm, t->plan->data, &opt, &t->x[i], err);
	for (uint32_t i = 0; i < t->plan->n_candidates && code == FF_OK; i++)
		code = ff_weights_load(t->plan, &t->plan->graph, t->x[i], err);
	code = ff_agree_code(t->comm, code, err);
	return code < 0 ? code : ff_weights_same(t->plan, t->comm, err);
}

static void set_rates(struct training *t, uint64_t step)
{
	const struct ff_groups *groups = &t->plan->groups;

	for (uint32_t i = 0; i < t->plan->n_candidates; i++)
		for (uint32_t k = 0; k < groups->n; k++)
			ff_executor_set_rate(t->x[i], k,
					ff_rate_at(&t->plan->rates,
							groups->setting[k][FF_SETTING_RATE], step));
}

/* The rate of parameters that no rule of --group names. */
static double shown_rate(const struct training *t, uint64_t step)
{
	const double *setting = t->plan->groups.setting[0];

	return ff_rate_at(&t->plan->rates, setting[FF_SETTING_RATE], t->plan->first + step);
}

/* One step of this run from the moment when all ranks are ready to when all are done. */
static int timed_step(struct training *t, uint32_t i, uint64_t step, struct ff_error *err)
{
	struct ff_outcome *o = &t->outcome[i];
	int64_t sent = t->comm->sent_bytes;
	double start;
	int code = ff_executor_wait(t->x[i], err);

	if (code == FF_OK)
		code = t->comm->barrier(t->comm, err);
	if (code < 0)
		return code;
	start = ff_clock_us();
	if ((code = ff_executor_step(t->x[i], t->plan->first + step, err)) < 0 ||
			(code = t->comm->barrier(t->comm, err)) < 0)
		return code;
	o->step_us[step] = ff_clock_us() - start;
	o->sent_bytes += t->comm->sent_bytes - sent;
	return FF_OK;
}

/* One that follows on the last without a pause.  What it took is known when it has ended; until
 * then it is what the host took, which waits for the last but one. */
static int posted_step(struct training *t, uint64_t step, struct ff_error *err)
{
	struct ff_outcome *o = &t->outcome[0];
	int64_t sent = t->comm->sent_bytes;
	double start = ff_clock_us();
	int code = ff_executor_post(t->x[0], t->plan->first + step, err);

	o->step_us[step] = ff_clock_us() - start;
	o->sent_bytes += t->comm->sent_bytes - sent;
	if (!t->posted++)
		t->first_posted = step;
	return code;
}

/* Candidates that take turns wait for each other: else they would run at once. */
static int one_step(struct training *t, uint32_t i, uint64_t step, struct ff_error *err)
{
	if (t->plan->n_candidates == 1 && ff_executor_runs_ahead(t->x[i]))
		return posted_step(t, step, err);
	return timed_step(t, i, step, err);
}

/* Times of steps that were posted; all others were timed as they were run. */
static int gather_times(struct training *t, uint64_t end, struct ff_error *err)
{
	uint64_t n = end - t->gathered;
	double *us = malloc(n * sizeof(*us));
	int code = us ? ff_executor_times(t->x[0], us, (uint32_t)n, err) : ff_fail_memory(err);

	for (uint64_t i = t->first_posted; code == FF_OK && i < t->first_posted + t->posted; i++)
		t->outcome[0].step_us[i] = us[i - t->gathered];
	free(us);
	t->posted = 0;
	return code;
}

/* All ranks have the same losses; the first tells. */
static int check_losses(struct training *t, uint32_t i, uint64_t end, struct ff_error *err)
{
	const double *loss = t->outcome[i].loss;
	uint64_t step = t->gathered;

	while (step < end && isfinite(loss[step]))
		step++;
	if (step == end)
		return FF_OK;
	ff_fail(err, FF_E_RUN,
			"%s: the loss is %s at step %" PRIu64
			" (the step before: %g): it diverges; a "
			"lower --rate than %g may help",
			t->plan->candidate[i].name, isnan(loss[step]) ? "no number" : "infinite",
			t->plan->first + step + 1, step ? loss[step - 1] : NAN,
			shown_rate(t, step));
	if (t->comm->rank != 0)
		err->text[0] = '\0';
	return FF_E_RUN;
}

static int gather_losses(struct training *t, uint64_t end, struct ff_error *err)
{
	int code = t->posted ? gather_times(t, end, err) : FF_OK;

	for (uint32_t i = 0; i < t->plan->n_candidates && code == FF_OK; i++)
		for (uint32_t k = 0; k < FF_MAX_LOSSES && code == FF_OK; k++)
			if (t->outcome[i].loss_of[k])
				code = ff_executor_loss(t->x[i], k,
						t->outcome[i].loss_of[k] + t->gathered,
						(uint32_t)(end - t->gathered), err);
	for (uint32_t i = 0; i < t->plan->n_candidates && code == FF_OK; i++)
		code = ff_executor_losses(t->x[i], t->outcome[i].loss + t->gathered,
				(uint32_t)(end - t->gathered), err);
	for (uint32_t i = 0; i < t->plan->n_candidates && code == FF_OK; i++)
		code = check_losses(t, i, end, err);
	for (uint32_t i = 0; i < t->plan->n_candidates && code == FF_OK; i++)
		code = ff_metrics_steps(
				&t->metrics, t->plan, i, &t->outcome[i], t->gathered, end, err);
	t->gathered = end;
	t->gathered_us = ff_clock_us();
	return code;
}

static void show(struct training *t, uint64_t step, double start_us)
{
	uint64_t done = t->plan->first + step + 1, all = t->plan->first + t->plan->steps;
	uint64_t known = t->gathered, from = known > 20 ? known - 20 : 0;
	double share = (double)(step + 1) / (double)t->plan->steps;
	double loss = 0;
	char text[128] = "";
	int at;

	if (t->comm->rank != 0)
		return;
	for (uint64_t k = from; k < known; k++)
		loss += t->outcome[0].loss[k] / (double)(known - from);
	at = known ? snprintf(text, sizeof(text), "  loss %s", ff_figure_text(loss, 4).text) : 0;
	at += snprintf(text + at, sizeof(text) - (size_t)at, "  rate %.3g", shown_rate(t, step));
	if (t->outcome[0].n_tests)
		snprintf(text + at, sizeof(text) - (size_t)at, "  accuracy %.2f %%",
				100 * t->outcome[0].test[t->outcome[0].n_tests - 1].all.accuracy);
	ff_progress_show(&t->progress, share, (ff_clock_us() - start_us) * 1e-6,
			"step %" PRIu64 "/%" PRIu64 "%s  %.2f ms a step", done, all, text,
			t->outcome[0].step_us[step] * 1e-3);
}

/* Perplexity is e to the mean cross-entropy of the labels; of a smoothed target that says nothing.
 */
static struct ff_found found_of(
		const struct ff_node *loss, double value, double accuracy, double top)
{
	enum ff_predicts predicts = (enum ff_predicts)ff_op_row(loss->op)->predicts;
	bool classes = predicts == FF_PREDICTS_CLASSES && loss->attrs.loss.smoothing == 0;

	return (struct ff_found){value, predicts == FF_PREDICTS_NUMBERS ? NAN : accuracy, top,
			classes ? exp(value) : NAN};
}

/* When so many steps of this run are done. */
static int run_test(struct training *t, uint32_t i, uint64_t done, struct ff_test *ret,
		struct ff_error *err)
{
	struct ff_test test = {.step = t->plan->first + done};
	const struct ff_graph *g = &t->plan->graph;
	struct ff_tested tested;
	int code = ff_executor_test(t->x[i], &tested, err);

	if (code < 0)
		return code;
	test.all = (struct ff_found){tested.loss, NAN, NAN, NAN};
	for (uint32_t k = g->n_losses; k-- > 0;) {
		struct ff_found *f = &test.of[k];

		*f = found_of(&g->nodes[g->loss[k]], tested.of[k].loss, tested.of[k].accuracy,
				tested.of[k].top);
		test.all.accuracy = isnan(f->accuracy) ? test.all.accuracy : f->accuracy;
		test.all.top = isnan(f->top) ? test.all.top : f->top;
		test.all.perplexity = isnan(f->perplexity) ? test.all.perplexity : f->perplexity;
	}
	*ret = test;
	return FF_OK;
}

/* If it is time for one on the way. */
static int test(struct training *t, uint64_t done, struct ff_error *err)
{
	int code = FF_OK;

	if (!t->opt->check.test_every || (t->plan->first + done) % t->opt->check.test_every != 0)
		return FF_OK;
	for (uint32_t i = 0; i < t->plan->n_candidates && code == FF_OK; i++) {
		struct ff_outcome *o = &t->outcome[i];

		code = run_test(t, i, done, &o->test[o->n_tests], err);
		if (code == FF_OK)
			code = ff_metrics_test(&t->metrics, t->plan, i, &o->test[o->n_tests], err);
		o->n_tests += code == FF_OK;
	}
	return code;
}

/* What the ranks agree on before a step. */
enum { ASK_END, ASK_KEEP, ASK_GATHER, ASKS };

static bool has_passed(double since_us, double time_us)
{
	return time_us > 0 && ff_clock_us() - since_us >= time_us;
}

/* Where some rank was asked for an end, this step is the last on all. */
static void stop_after(struct training *t, uint64_t step)
{
	t->plan->stopped_from = t->plan->first + t->plan->steps;
	t->plan->steps = step + 1;
	if (t->plan->warmup > step)
		t->plan->warmup = step;
	for (uint32_t i = 0; i < t->plan->n_candidates; i++)
		ff_executor_end(t->x[i], t->plan->first + step);
}

/* Any rank may have been asked for an end; of time the first one's clock decides. */
static int agree(struct training *t, uint64_t step, double ask[ASKS], struct ff_error *err)
{
	bool lead = t->comm->rank == 0;
	int code;

	ask[ASK_END] = ff_stop_asked();
	ask[ASK_KEEP] = lead && has_passed(t->kept_us, t->plan->checkpoint.interval_us);
	ask[ASK_GATHER] = lead && has_passed(t->gathered_us, LOSS_EVERY_US);
	code = ff_agree_max(t->comm, ask, ASKS, err);
	if (code == FF_OK && ask[ASK_END] > 0 && step + 1 < t->plan->steps)
		stop_after(t, step);
	return code;
}

/* Nothing else may be under way. */
static int begin_timing(struct training *t, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < t->plan->n_candidates && code == FF_OK; i++)
		code = ff_executor_wait(t->x[i], err);
	return code < 0 ? code : ff_timing_begin(&t->timing, t->comm, err);
}

static int run_step(struct training *t, uint64_t step, bool last, struct ff_error *err)
{
	bool profiles = step + profiled(t) >= t->plan->steps;
	bool traces = profiles || (last && ff_tell_traces(&t->opt->tell));
	int code = traces ? begin_timing(t, err) : FF_OK;

	set_rates(t, t->plan->first + step);
	for (uint32_t i = 0; i < t->plan->n_candidates && code == FF_OK; i++) {
		ff_executor_trace(t->x[i], traces);
		code = one_step(t, i, step, err);
		if (code == FF_OK && profiles)
			code = ff_profile_add(
					&t->outcome[i].profile, t->x[i], &t->plan->arena, err);
		ff_executor_trace(t->x[i], false);
	}
	return code;
}

static int keep(struct training *t, uint64_t done, struct ff_error *err)
{
	int code = ff_checkpoint_save(t->opt->train.seed, t->plan, t->comm, t->x[0], done, err);

	t->kept_us = ff_clock_us();
	return code == FF_OK ? ff_metrics_checkpoint(&t->metrics, t->plan, done, err) : code;
}

static int train_all(struct training *t, struct ff_error *err)
{
	double start = ff_clock_us();
	int code = FF_OK;

	t->gathered_us = t->kept_us = start;
	for (uint64_t step = 0; step < t->plan->steps && code == FF_OK; step++) {
		uint64_t done = t->plan->first + step + 1;
		double ask[ASKS];
		bool last, keeps;

		if ((code = agree(t, step, ask, err)) < 0)
			break;
		ff_pulse_step(t->opt->pulse, done);
		last = step + 1 == t->plan->steps;
		keeps = t->plan->checkpoint.folder &&
			(last || ask[ASK_KEEP] > 0 || done % t->plan->checkpoint.every == 0);
		code = run_step(t, step, last, err);
		/* What is not a number any more shall not replace the last checkpoint. */
		if (code == FF_OK && (last || keeps || ask[ASK_GATHER] > 0 ||
						     (step + 1) % LOSS_EVERY == 0))
			code = gather_losses(t, step + 1, err);
		if (code == FF_OK && keeps)
			code = keep(t, done, err);
		if (code == FF_OK)
			code = test(t, step + 1, err);
		if (code == FF_OK)
			show(t, step, start);
	}
	return code;
}

/* Of the last step. */
static int gather_spans(struct training *t, uint32_t i, struct ff_error *err)
{
	struct ff_outcome *o = &t->outcome[i];
	struct ff_timed_step own;

	ff_executor_spans(t->x[i], &own.spans, &own.n, &own.origin_us);
	o->timing = t->timing;
	return ff_timing_gather(
			&t->timing, t->comm, &own, &t->plan->arena, &o->spans, &o->n_spans, err);
}

/* Unless that was done just now. */
static int test_at_end(struct training *t, uint32_t i, struct ff_error *err)
{
	struct ff_outcome *o = &t->outcome[i];
	int code;

	if (o->n_tests && o->test[o->n_tests - 1].step == t->plan->first + t->plan->steps) {
		o->at_end = o->test[o->n_tests - 1];
		return FF_OK;
	}
	code = run_test(t, i, t->plan->steps, &o->at_end, err);
	return code < 0 ? code : ff_metrics_test(&t->metrics, t->plan, i, &o->at_end, err);
}

static int collect(struct training *t, uint32_t i, struct ff_error *err)
{
	struct ff_outcome *o = &t->outcome[i];
	uint32_t devices = t->plan->machine.n_devices;
	int code;

	o->captured = !ff_executor_obstacle(t->x[i]);
	if (!o->captured)
		snprintf(o->obstacle, sizeof(o->obstacle), "%.250s", ff_executor_obstacle(t->x[i]));
	for (uint32_t d = 0; d < devices; d++)
		o->memory_bytes[d] = ff_executor_memory(t->x[i], d);
	if ((code = ff_agree_sum(t->comm, o->memory_bytes, devices, err)) < 0 ||
			(code = ff_agree_sum(t->comm, &o->sent_bytes, 1, err)) < 0 ||
			(code = ff_agree_max(t->comm, o->step_us, (uint32_t)t->plan->steps, err)) <
					0)
		return code;
	if (ff_tell_traces(&t->opt->tell) && t->plan->steps && (code = gather_spans(t, i, err)) < 0)
		return code;
	if ((code = ff_profile_gather(&o->profile, &t->timing, t->comm, err)) < 0)
		return code;
	return t->opt->check.test ? test_at_end(t, i, err) : FF_OK;
}

int ff_train(const struct ff_run_options *opt, struct ff_run_plan *p, struct ff_comm *comm,
		struct ff_outcome *outcome, struct ff_error *err)
{
	struct training t = {.opt = opt, .plan = p, .comm = comm, .outcome = outcome};
	const struct ff_saving weights = {.path = opt->store.save};
	int code = create(&t, err);

	if (code == FF_OK)
		code = ff_agree_code(comm,
				comm->rank == 0 ? ff_metrics_open(opt->tell.metrics,
								  opt->train.seed, p, &t.metrics,
								  err)
						: FF_OK,
				err);
	ff_progress_start(&t.progress);
	if (code == FF_OK)
		code = train_all(&t, err);
	ff_progress_end(&t.progress);
	if (code == FF_OK)
		code = ff_timing_end(&t.timing, comm, &p->arena, err);
	for (uint32_t i = 0; i < p->n_candidates && code == FF_OK; i++)
		code = collect(&t, i, err);
	ff_metrics_close(&t.metrics);
	if (code == FF_OK && opt->store.save)
		code = ff_weights_save(p, comm, t.x[0], &weights, err);
	for (uint32_t i = 0; i < p->n_candidates; i++)
		ff_executor_destroy(t.x[i]);
	return code;
}
