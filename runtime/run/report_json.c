/* What ffrun tells programs, as JSON (docs/formats.md).  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "ff/beside.h"
#include "measured.h"
#include "report.h"

static void write_found(const struct ff_found *f, struct ff_out *out)
{
	ff_out_real(out, "accuracy", f->accuracy);
	ff_out_real(out, "top_accuracy", f->top);
	ff_out_real(out, "test_loss", f->loss);
	ff_out_real(out, "perplexity", f->perplexity);
}

/* Of several losses each; `o` NULL: what a test found alone. */
static void write_losses(const struct ff_run_plan *p, const struct ff_outcome *o,
		const struct ff_test *t, struct ff_out *out)
{
	if (p->graph.n_losses < 2)
		return;
	ff_out_array(out, "losses");
	for (uint32_t i = 0; i < p->graph.n_losses; i++) {
		const struct ff_node *n = &p->graph.nodes[p->graph.loss[i]];

		ff_out_object(out, NULL);
		ff_out_string(out, "name", n->name);
		ff_out_real(out, "weight", n->attrs.loss.weight);
		if (o)
			ff_out_array(out, "loss");
		for (uint64_t k = 0; o && k < p->steps; k++)
			ff_out_real(out, NULL, o->loss_of[i][k]);
		if (o)
			ff_out_close(out);
		write_found(isnan(t->all.loss) ? &t->all : &t->of[i], out);
		ff_out_close(out);
	}
	ff_out_close(out);
}

static void write_test(const struct ff_run_plan *p, const struct ff_outcome *o,
		const struct ff_test *t, struct ff_out *out)
{
	write_found(&t->all, out);
	write_losses(p, o, t, out);
}

static void write_outcome(const struct ff_run_plan *p, const struct ff_candidate *c,
		const struct ff_outcome *o, const struct ff_measured *f, struct ff_out *out)
{
	ff_out_object(out, "step_us");
	ff_out_real(out, "median", f->step_us.median);
	ff_out_real(out, "p10", f->step_us.p10);
	ff_out_real(out, "p90", f->step_us.p90);
	ff_out_close(out);
	ff_out_real(out, "samples_per_s", f->samples_per_s);
	ff_out_real(out, "predicted_us", c->info.predicted_us > 0 ? c->info.predicted_us : NAN);
	ff_out_array(out, "loss");
	for (uint64_t i = 0; i < p->steps; i++)
		ff_out_real(out, NULL, o->loss[i]);
	ff_out_close(out);
	write_test(p, o, &o->at_end, out);
	ff_out_array(out, "tests");
	for (uint32_t i = 0; i < o->n_tests; i++) {
		ff_out_object(out, NULL);
		ff_out_u64(out, "step", o->test[i].step);
		write_test(p, NULL, &o->test[i], out);
		ff_out_close(out);
	}
	ff_out_close(out);
	ff_out_array(out, "memory_bytes");
	for (uint32_t d = 0; d < p->machine.n_devices; d++)
		ff_out_int(out, NULL, o->memory_bytes[d]);
	ff_out_close(out);
	ff_out_int(out, "sent_bytes", f->step_bytes);
	ff_out_bool(out, "captured", o->captured);
	if (!o->captured)
		ff_out_string(out, "not_captured", o->obstacle);
	ff_report_write_tasks(&o->profile, &c->info, out);
}

static void write_verdict(const struct ff_verdict *v, struct ff_out *out)
{
	ff_out_object(out, "verify");
	ff_out_real(out, "loss", v->loss);
	ff_out_real(out, "one_device_loss", v->reference);
	ff_out_real(out, "worst_gradient", v->worst);
	if (v->rounding > 0)
		ff_out_real(out, "rounding", v->rounding);
	ff_out_int(out, "sent_bytes", v->sent_bytes);
	ff_out_close(out);
}

static int write_compare(const struct ff_run_plan *p, const struct ff_outcome *outcome,
		const struct ff_measured *f, struct ff_out *out, struct ff_error *err)
{
	double speedup = 0;
	int code = ff_measured_speedup(p, outcome, &speedup, err);

	if (code < 0)
		return code;
	ff_out_real(out, "speedup", speedup);
	ff_out_object(out, "compare");
	ff_out_string(out, "strategy", p->candidate[1].name);
	write_outcome(p, &p->candidate[1], &outcome[1], &f[1], out);
	ff_out_real(out, "first_loss_difference", ff_losses_apart(outcome, 1));
	ff_out_real(out, "loss_difference", ff_losses_apart(outcome, p->steps));
	ff_out_u64(out, "steps_alike",
			ff_losses_alike(outcome, p->steps, ff_loss_tolerance(&p->graph)));
	ff_out_close(out);
	return FF_OK;
}

static void write_optimizer(
		const struct ff_run_options *opt, const struct ff_run_plan *p, struct ff_out *out)
{
	ff_out_object(out, "optimizer");
	ff_out_string(out, "name", p->optimizer->name);
	for (uint32_t i = 0; i < FF_SETTING_COUNT; i++)
		if (p->optimizer->setting[i].used)
			ff_out_real(out, ff_setting((enum ff_setting_id)i)->name,
					p->groups.setting[0][i]);
	if (p->clip > 0)
		ff_out_real(out, "clip", p->clip);
	ff_travel_write(&p->travel, out);
	ff_out_array(out, "groups");
	for (uint32_t i = 0; i < opt->train.groups.n; i++)
		ff_out_string(out, NULL, opt->train.groups.text[i]);
	ff_out_close(out);
	ff_out_close(out);
}

static void write_rates(const struct ff_run_plan *p, struct ff_out *out)
{
	double base = p->groups.setting[0][FF_SETTING_RATE];
	char text[FF_RATE_TEXT];

	ff_rate_text(&p->rates, text);
	ff_out_string(out, "schedule", text);
	ff_out_array(out, "rate");
	for (uint64_t i = 0; i < p->steps; i++)
		ff_out_real(out, NULL, ff_rate_at(&p->rates, base, p->first + i));
	ff_out_close(out);
}

int ff_report_write(const struct ff_run_options *opt, const struct ff_run_plan *p,
		const struct ff_outcome *outcome, const struct ff_verdict *verdict,
		struct ff_out *out, struct ff_error *err)
{
	struct ff_measured f[FF_MAX_CANDIDATES] = {0};
	int code = FF_OK;

	ff_out_object(out, NULL);
	ff_out_string(out, "format", "ffsoap-run-report");
	ff_out_int(out, "version", 1);
	ff_out_string(out, "graph", p->graph.name);
	ff_out_string(out, "strategy", p->candidate[0].name);
	ff_out_string(out, "machine", p->machine.name);
	ff_out_string(out, "device", p->backend->name);
	ff_out_int(out, "devices", p->machine.n_devices);
	ff_out_string(out, "communication", p->communication);
	ff_out_string(out, "overlap", p->machine.overlap ? ff_beside_name(p->progress) : "none");
	ff_out_int(out, "batch", p->graph.batch);
	write_optimizer(opt, p, out);
	write_rates(p, out);
	ff_out_u64(out, "seed", opt->train.seed);
	ff_out_u64(out, "first_step", p->first);
	ff_out_u64(out, "steps", p->steps);
	ff_out_bool(out, "stopped", p->stopped_from > 0);
	ff_out_u64(out, "warmup", p->warmup);
	if (opt->check.test || opt->check.test_every)
		ff_out_u64(out, "top", p->top);
	for (uint32_t i = 0; p->steps && i < p->n_candidates && code == FF_OK; i++)
		code = ff_measured_of(p, &outcome[i], &f[i], err);
	if (code == FF_OK && p->steps)
		write_outcome(p, &p->candidate[0], &outcome[0], &f[0], out);
	if (code == FF_OK && p->steps && p->n_candidates > 1)
		code = write_compare(p, outcome, f, out, err);
	if (verdict->done)
		write_verdict(verdict, out);
	ff_out_close(out);
	ff_out_printf(out, "\n");
	return code;
}

int ff_report_save(const struct ff_run_options *opt, const struct ff_run_plan *p,
		const struct ff_outcome *outcome, const struct ff_verdict *verdict,
		struct ff_error *err)
{
	struct ff_out out;
	int code;

	if (!opt->tell.report)
		return FF_OK;
	ff_out_init(&out);
	code = ff_report_write(opt, p, outcome, verdict, &out, err);
	if (code == FF_OK)
		code = ff_out_save(&out, opt->tell.report, err);
	ff_out_finish(&out);
	return code;
}
