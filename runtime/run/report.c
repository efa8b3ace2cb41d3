/* What ffrun tells people: a table.  SPDX-License-Identifier: Apache-2.0 */
#include "report.h"
#include "figure.h"
#include "measured.h"
#include "weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/beside.h"

/* Both compute the same function: what parts the losses in the end is rounding, which
 * training amplifies, so it is told how long they agree. */
static void print_comparison(
		const struct ff_run_plan *p, const struct ff_outcome *o, double speedup)
{
	double tolerance = ff_loss_tolerance(&p->graph);
	uint64_t alike = ff_losses_alike(o, p->steps, tolerance);

	printf("  speedup %.2fx, median of the ratios step by step%s\n", speedup,
			speedup < 1 ? ": the plan is not faster here" : "");
	printf("  losses differ by %.1e (relative) at the first step", ff_losses_apart(o, 1));
	if (alike == p->steps)
		printf(" and agree within %.0e at every step\n", tolerance);
	else
		printf(", agree within %.0e for %" PRIu64 " steps; then rounding parts them, by at "
		       "most %.1e\n",
				tolerance, alike, ff_losses_apart(o, p->steps));
}

static void print_bytes(int64_t bytes)
{
	if (bytes >= 1 << 20)
		printf("%10.2f MiB", (double)bytes / (1 << 20));
	else
		printf("%10.2f KiB", (double)bytes / (1 << 10));
}

enum row {
	ROW_PREDICTED,
	ROW_MEDIAN,
	ROW_P10,
	ROW_P90,
	ROW_SAMPLES,
	ROW_LOSS,
	ROW_ACCURACY,
	ROW_TOP,
	ROW_TEST_LOSS,
	ROW_PERPLEXITY,
	ROWS
};

static double row_value(enum row row, const struct ff_candidate *c, const struct ff_outcome *o,
		const struct ff_measured *f)
{
	switch (row) {
	case ROW_PREDICTED:
		return c->info.predicted_us > 0 ? c->info.predicted_us * 1e-3 : NAN;
	case ROW_MEDIAN:
		return f->step_us.median * 1e-3;
	case ROW_P10:
		return f->step_us.p10 * 1e-3;
	case ROW_P90:
		return f->step_us.p90 * 1e-3;
	case ROW_SAMPLES:
		return f->samples_per_s;
	case ROW_LOSS:
		return f->loss;
	case ROW_ACCURACY:
		return 100 * o->at_end.all.accuracy;
	case ROW_TOP:
		return 100 * o->at_end.all.top;
	case ROW_TEST_LOSS:
		return o->at_end.all.loss;
	case ROW_PERPLEXITY:
	default:
		return o->at_end.all.perplexity;
	}
}

static void print_steps(const struct ff_run_plan *p, const struct ff_outcome *o,
		const struct ff_measured *f)
{
	char top[40];
	const struct {
		const char *what, *unit;
		int decimals;
	} rows[ROWS] = {
			{"predicted step time", " ms ", 3},
			{"measured step time, median", " ms ", 3},
			{"  p10", " ms ", 3},
			{"  p90", " ms ", 3},
			{"samples per second", "    ", 0},
			{"loss, last steps", "    ", 4},
			{"test accuracy", " %  ", 2},
			{top, " %  ", 2},
			{"test loss", "    ", 4},
			{"test perplexity", "    ", 3},
	};
	uint32_t n = p->n_candidates;

	snprintf(top, sizeof(top), "  among the first %u", p->top);
	if (n > 1)
		printf("  %-28s%14s%14s\n", "", "plan", "against");
	for (int row = 0; row < ROWS; row++) {
		/* what only a test knows has no place where there was none */
		if (row > ROW_ACCURACY && isnan(row_value((enum row)row, &p->candidate[0], o, f)))
			continue;
		printf("  %-28s", rows[row].what);
		for (uint32_t i = 0; i < n; i++) {
			double v = row_value((enum row)row, &p->candidate[i], &o[i], &f[i]);

			if (isnan(v))
				printf("%10s    ", "-");
			else
				printf("%10s%s", ff_figure_text(v, rows[row].decimals).text,
						rows[row].unit);
		}
		printf("\n");
	}
	printf("  %-28s", "bytes sent a step");
	for (uint32_t i = 0; i < n; i++)
		print_bytes(f[i].step_bytes);
	printf("\n  %-28s", "memory, largest device");
	for (uint32_t i = 0; i < n; i++)
		print_bytes(f[i].most_memory);
	printf("\n");
}

/* Of several losses each. */
static void print_losses(const struct ff_run_plan *p, const struct ff_outcome *o)
{
	uint64_t tail = p->steps < 10 ? p->steps : 10;

	for (uint32_t i = 0; i < p->graph.n_losses && p->graph.n_losses > 1; i++) {
		const struct ff_node *n = &p->graph.nodes[p->graph.loss[i]];
		const struct ff_found *f = &o->at_end.of[i];
		double loss = 0;

		for (uint64_t k = p->steps - tail; k < p->steps; k++)
			loss += o->loss_of[i][k] / (double)tail;
		printf("  %s, weight %g: %s", n->name, n->attrs.loss.weight,
				ff_figure_text(loss, 4).text);
		if (!isnan(o->at_end.all.loss))
			printf("; tested %s", ff_figure_text(f->loss, 4).text);
		if (!isnan(o->at_end.all.loss) && !isnan(f->accuracy))
			printf(", accuracy %.2f %%", 100 * f->accuracy);
		if (!isnan(o->at_end.all.loss) && !isnan(f->top))
			printf(", top-%u %.2f %%", p->top, 100 * f->top);
		printf("\n");
	}
}

static void print_test(const struct ff_run_plan *p, const struct ff_test *t)
{
	printf("  after %" PRIu64 " steps: test loss %s", t->step,
			ff_figure_text(t->all.loss, 4).text);
	if (!isnan(t->all.accuracy))
		printf(", accuracy %.2f %%", 100 * t->all.accuracy);
	if (!isnan(t->all.top))
		printf(", top-%u %.2f %%", p->top, 100 * t->all.top);
	if (!isnan(t->all.perplexity))
		printf(", perplexity %s", ff_figure_text(t->all.perplexity, 3).text);
	printf("\n");
}

/* Tests before the last step. */
static void print_tests(const struct ff_run_plan *p, const struct ff_outcome *o)
{
	for (uint32_t i = 0; i < o->n_tests; i++)
		print_test(p, &o->test[i]);
}

/* What the strategy's file says of memory, beside what was laid out: costs may be of kernels with
 * other workspaces, so a difference is told, not refused. */
static void print_claim(const struct ff_candidate *c)
{
	const int64_t *have = c->schedule.memory_bytes, *said = c->info.memory_bytes;
	uint32_t worst = 0;

	if (!said)
		return;
	for (uint32_t d = 1; d < c->info.devices; d++)
		if (llabs(have[d] - said[d]) > llabs(have[worst] - said[worst]))
			worst = d;
	if (have[worst] == said[worst])
		printf("memory is what %s says\n", c->name);
	else
		printf("memory is not what %s says: device %u has %" PRId64 " bytes, there %" PRId64
		       "\n",
				c->name, worst, have[worst], said[worst]);
}

/* As they travel last. */
static const char *which_gradients(const struct ff_travel *t)
{
	const char *which = "";

	for (enum ff_way_id id = 0; id < FF_WAY_COUNT; id++)
		if (ff_travel_has(t, id))
			which = ff_way(id)->verified;
	return which;
}

static void print_verdict(const struct ff_run_plan *p, const struct ff_verdict *v)
{
	printf("verified on one device: loss %.7g, there %.7g; ", v->loss, v->reference);
	if (v->worst_name)
		printf("gradients%s within %.2g of their %s (%s); ", which_gradients(&p->travel),
				v->worst, ff_gradient_measure(&p->graph), v->worst_name);
	if (v->rounding > 0)
		printf("rounding the weights alone moves them by %.2g; ", v->rounding);
	printf("memory and %" PRId64 " bytes sent as scheduled\n",
			p->candidate[0].schedule.network_bytes);
	print_claim(&p->candidate[0]);
}

static void print_optimizer(const struct ff_run_options *opt, const struct ff_run_plan *p)
{
	char text[FF_RATE_TEXT];

	printf("optimizer: %s", p->optimizer->name);
	for (uint32_t i = 0; i < FF_SETTING_COUNT; i++)
		if (p->optimizer->setting[i].used)
			printf(", %s %g", ff_setting((enum ff_setting_id)i)->name,
					p->groups.setting[0][i]);
	if (p->clip > 0)
		printf(", gradients clipped to a norm of %g", p->clip);
	printf("\n");
	for (enum ff_way_id id = 0; id < FF_WAY_COUNT; id++) {
		char is[FF_TRAVEL_TEXT];

		ff_travel_say(&p->travel, id, is);
		if (ff_travel_has(&p->travel, id))
			printf("  gradients are %s, which changes what is computed\n", is);
	}
	if (p->candidate[0].schedule.plain_bytes)
		printf("  but for those that moves bring to several devices: %" PRId64
		       " bytes a step go as they are\n",
				p->candidate[0].schedule.plain_bytes);
	for (uint32_t i = 0; i < opt->train.groups.n; i++)
		printf("  but %s\n", opt->train.groups.text[i]);
	ff_rate_text(&p->rates, text);
	if (strcmp(text, "constant") != 0)
		printf("  rate: %s\n", text);
}

/* How steps were given to the device. */
static void print_launches(const struct ff_run_options *opt, const struct ff_run_plan *p,
		const struct ff_outcome *o)
{
	const struct ff_outcome *without = NULL;

	for (uint32_t i = 0; i < p->n_candidates; i++)
		if (!o[i].captured)
			without = &o[i];
	if (without)
		printf("steps: task by task, as %s\n", without->obstacle);
	else
		printf("steps: each as %s, but for the first%s\n", p->backend->captures->name,
				ff_tell_traces(&opt->tell) || opt->tell.profile
						? " and, timed by task, the last"
						: "");
}

/* Of the steps whose tasks were timed: the last. */
static int print_tasks(
		const struct ff_run_plan *p, const struct ff_outcome *o, struct ff_error *err)
{
	uint64_t n = o->profile.n;
	struct ff_quantiles step_us;
	int code;

	if (!n)
		return FF_OK;
	code = ff_quantiles_of(o->step_us + p->steps - n, n, &step_us, err);
	return code < 0 ? code
			: ff_report_tasks(&o->profile, &p->candidate[0].info, step_us.median,
					  &p->machine, err);
}

static void print_communication(const struct ff_run_plan *p)
{
	static const char *const words[FF_BESIDE_COUNT] = {
			[FF_BESIDE_THREAD] = "beside compute",
			[FF_BESIDE_TASKS] = "between tasks",
	};

	printf("communication: %s%s%s\n", p->communication, p->machine.overlap ? ", " : "",
			p->machine.overlap ? words[p->progress] : "");
}

int ff_report_print(const struct ff_run_options *opt, const struct ff_run_plan *p,
		const struct ff_outcome *outcome, const struct ff_verdict *verdict,
		struct ff_error *err)
{
	struct ff_measured f[FF_MAX_CANDIDATES] = {0};
	double speedup = 0;
	int code = FF_OK;

	if (verdict->done)
		print_verdict(p, verdict);
	if (p->finished && opt->check.test)
		print_test(p, &outcome[0].at_end);
	if (!p->steps)
		return FF_OK;
	for (uint32_t i = 0; i < p->n_candidates && code == FF_OK; i++)
		code = ff_measured_of(p, &outcome[i], &f[i], err);
	if (code == FF_OK && p->n_candidates > 1)
		code = ff_measured_speedup(p, outcome, &speedup, err);
	if (code < 0)
		return code;
	printf("%s, batch %d, on %u %s device%s, %" PRIu64 " step%s (%" PRIu64 " to warm up)\n",
			p->graph.name, p->graph.batch, p->machine.n_devices, p->backend->name,
			p->machine.n_devices == 1 ? "" : "s", p->steps, p->steps == 1 ? "" : "s",
			p->warmup);
	if (p->first)
		printf("went on from %s after %" PRIu64 " steps\n", p->weights->path, p->first);
	if (p->stopped_from)
		printf("stopped, as asked, before the last %" PRIu64 " steps%s\n",
				p->stopped_from - p->first - p->steps,
				p->checkpoint.folder ? "; --resume goes on from here" : "");
	printf("plan: %s", p->candidate[0].name);
	if (p->n_candidates > 1)
		printf("; against: %s", p->candidate[1].name);
	printf("\n");
	print_optimizer(opt, p);
	if (p->machine.n_devices > 1)
		print_communication(p);
	if (p->backend->captures)
		print_launches(opt, p, outcome);
	print_steps(p, outcome, f);
	print_losses(p, &outcome[0]);
	print_tests(p, &outcome[0]);
	if (p->n_candidates > 1)
		print_comparison(p, outcome, speedup);
	code = print_tasks(p, &outcome[0], err);
	if (opt->tell.report)
		printf("report: %s\n", opt->tell.report);
	if (opt->tell.trace)
		printf("trace: %s\n", opt->tell.trace);
	if (opt->tell.html)
		printf("page: %s\n", opt->tell.html);
	return code;
}
