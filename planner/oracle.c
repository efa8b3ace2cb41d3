/* Where each pure strategy stops scaling, and why.  SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"

#include <math.h>
#include <string.h>

#include "explain/text.h"
#include "hand/buckets.h"
#include "hand/pure.h"
#include "summary.h"

#include "ff/bucketing.h"
#include "ff/html.h"

#define MOST_DEVICES 1024
#define MOST_POINTS 16 /* powers of two up to that */
#define MOST_CURVES 16
#define MOST_LOWERED 128 /* devices: all tasks of more take gigabytes */
#define SCALES 0.9       /* of the step before: with twice the devices at most so long */
#define FREE_LINK 1e15   /* bytes a microsecond: what they carry takes no time */

/* One strategy on one number of devices. */
struct point {
	uint32_t devices;
	uint32_t stages, micro; /* micro-batches */
	char why[FF_TEXT];      /* it is not made */
	bool made, fits;
	double step_us, computing_us; /* and that where links take no time */
	int64_t memory_bytes;         /* of the device that needs most; -1: unknown */
};

/* The first `n` devices of a job's machine, with the links it has or such as take no time. */
static int open_side(struct ff_job *k, const struct ff_job *j, uint32_t n, bool links,
		struct ff_error *err)
{
	int code;

	k->opt = j->opt;
	k->in = j->in;
	k->from = ff_job_now_s();
	code = ff_machine_subset(&j->in.whole, n, &k->arena, &k->in.machine, err);
	for (uint32_t i = 0; code == FF_OK && !links && i < k->in.machine.n_nodes; i++) {
		struct ff_machine_node *node = &k->in.machine.nodes[i];
		const struct ff_link none = {.bytes_per_us = FREE_LINK};

		node->inside = node->network = none;
		node->wiring.inside = node->wiring.between = NULL;
		node->wiring.mesh = NULL;
	}
	return code == FF_OK ? ff_job_open(k, err) : code;
}

/* Of equal devices: what the fullest has in use. */
static int64_t memory_of(const struct ff_job *k, const struct ff_evaluation *at)
{
	int64_t limit = ff_job_memory(k, 0);

	return at->fits ? limit - at->spare_bytes
			: limit + at->over_bytes / k->in.machine.n_devices;
}

static int tune(struct ff_job *k, uint32_t which, struct ff_strategy *s, struct ff_evaluation *at,
		struct ff_error *err)
{
	int code = ff_pure_strategy(
			which, k->tools.space, &k->in.graph, &k->in.machine, &k->arena, s, err);

	if (code == FF_OK)
		code = ff_evaluator_set(k->tools.evaluator, s, at, err);
	if (code == FF_OK)
		code = ff_buckets_tune(k->tools.evaluator, s,
				ff_bucket_bytes(&k->in.graph, &k->in.machine), at, err);
	return code;
}

static int look(struct ff_job *with, struct ff_job *without, uint32_t which, struct point *p,
		struct ff_error *err)
{
	struct ff_evaluation at, free_at;
	struct ff_strategy s;
	struct ff_error why;
	int code = tune(with, which, &s, &at, &why);

	if (code == FF_OK)
		code = ff_evaluator_set(without->tools.evaluator, &s, &free_at, &why);
	p->made = code == FF_OK;
	if (code == FF_OK) {
		p->micro = s.micro_batches;
		p->stages = ff_strategy_stages(&with->in.graph, &s);
		p->step_us = at.step_us;
		p->computing_us = fmin(free_at.step_us, at.step_us);
		p->fits = at.fits;
		p->memory_bytes = memory_of(with, &at);
	} else if (code == FF_E_INPUT) { /* not for this network, or nobody has measured it */
		snprintf(p->why, sizeof(p->why), "%.140s", why.text);
	} else {
		*err = why;
		return code;
	}
	return FF_OK;
}

/* All strategies on `n` devices. */
static int look_at_all(struct ff_job *j, uint32_t n, struct point *p, struct ff_error *err)
{
	struct ff_job with = {.arena = {0}}, without = {.arena = {0}};
	int code;

	ff_arena_init(&with.arena);
	ff_arena_init(&without.arena);
	code = open_side(&with, j, n, true, err);
	if (code == FF_OK)
		code = open_side(&without, j, n, false, err);
	for (uint32_t i = 0; ff_pure_row(i) && code == FF_OK && !ff_job_interrupted(j); i++) {
		p[i].devices = n;
		code = look(&with, &without, i, &p[i], err);
	}
	ff_job_close(&with);
	ff_job_close(&without);
	return code;
}

static void print_point(const struct point *p, FILE *to)
{
	char step[FF_TEXT], memory[FF_TEXT];

	ff_time_text(p->step_us, step);
	ff_bytes_text(p->memory_bytes, memory);
	fprintf(to, "%8u %12.12s %8.1f %% %11.1f %% %11.11s  %s\n", p->devices, step,
			100 * p->computing_us / p->step_us,
			100 * (p->step_us - p->computing_us) / p->step_us, memory,
			p->fits ? "yes" : "no");
}

/* The communication that is longest on the critical path: ", block0-47.mlp.up all-gather alone 40
 * %". */
static int find_largest(struct ff_job *j, uint32_t which, uint32_t devices, char *text, size_t size,
		struct ff_error *err)
{
	struct ff_job k = {.arena = {0}};
	const struct ff_critical_part *part;
	struct ff_evaluation at;
	struct ff_critical path;
	struct ff_layers layers;
	struct ff_strategy s;
	struct ff_plan plan;
	int code;

	*text = 0;
	ff_arena_init(&k.arena);
	code = open_side(&k, j, devices, true, err);
	if (code == FF_OK)
		code = tune(&k, which, &s, &at, err);
	if (code == FF_OK)
		code = ff_job_predict(&k, &s, &k.arena, &plan, err);
	if (code == FF_OK)
		code = ff_layers_find(&k.in.graph, &k.arena, &layers, err);
	if (code == FF_OK)
		code = ff_critical_find(&plan, &layers, &k.arena, &path, err);
	for (uint32_t i = 0; code == FF_OK && i < path.n && !*text; i++) {
		part = &path.part[i]; /* by falling time */
		if (part->kind == FF_CRITICAL_INSIDE || part->kind == FF_CRITICAL_NETWORK)
			snprintf(text, size, ", %s alone %.0f %%", part->what,
					100 * part->us / at.step_us);
	}
	ff_job_close(&k);
	return code;
}

/* Of the step more is communication than of half the devices'; and what it is most. */
static int say_communication(struct ff_job *j, uint32_t which, const struct point *p, char *line,
		size_t size, struct ff_error *err)
{
	char most[FF_TEXT] = "";
	int code = FF_OK;

	if (p->devices <= MOST_LOWERED)
		code = find_largest(j, which, p->devices, most, sizeof(most), err);

	snprintf(line, size, "on %u communication is %.0f %% of the step%s", p->devices,
			100 * (p->step_us - p->computing_us) / p->step_us, most);
	return code;
}

/* What keeps twice the devices from taking half the time: the larger of two lacks. */
static int say_why(struct ff_job *j, uint32_t which, const struct point *p,
		const struct point *next, char *line, size_t size, struct ff_error *err)
{
	double moving = p->step_us - p->computing_us, more = next->step_us - next->computing_us;
	double lacks = next->computing_us - p->computing_us / 2, lost = more - moving / 2;

	if (!next->made)
		snprintf(line, size, "%s", next->why);
	else if (lost > lacks)
		return say_communication(j, which, next, line, size, err);
	else if (next->stages > 1)
		snprintf(line, size, "on %u, %u stages wait for each other, with %u micro-batch%s",
				next->devices, next->stages, next->micro,
				next->micro == 1 ? "" : "es");
	else
		snprintf(line, size,
				"on %u computing takes %.0f %% of what it took, as parts are "
				"uneven, small, or computed by several alike",
				next->devices, 100 * next->computing_us / p->computing_us);
	return FF_OK;
}

/* One strategy on all numbers of devices. */
struct curve {
	const struct point *p;
	uint32_t n;
	uint32_t first, stop, fits; /* points: the first that is made, the last that twice the
				     * devices help, the first that fits; FF_NONE */
	char why[2 * FF_TEXT];      /* no more devices help, or none is made */
	char end[2 * FF_TEXT]; /* "", or why the last takes longer than those that help no more */
};

/* Steps that grow again may do so for another reason. */
static int say_end(struct ff_job *j, uint32_t which, struct curve *c, struct ff_error *err)
{
	const struct point *next = &c->p[c->stop + 1], *last = &c->p[c->n - 1];

	while (last > next && (!last->made || last->devices > MOST_LOWERED))
		last--;
	if (last <= next || !next->made || last->step_us < next->step_us / SCALES ||
			last->computing_us > last->step_us / 2)
		return FF_OK;
	return say_communication(j, which, last, c->end, sizeof(c->end), err);
}

static void find_curve(const struct point *p, uint32_t n, struct curve *ret)
{
	struct curve c = {.p = p, .n = n, .first = FF_NONE, .stop = FF_NONE, .fits = FF_NONE};

	for (uint32_t i = n; i-- > 0;) {
		if (p[i].made)
			c.first = i;
		if (p[i].made && p[i].fits)
			c.fits = i;
	}
	if (c.first == FF_NONE) {
		snprintf(c.why, sizeof(c.why), "%s", n ? p[n - 1].why : "");
	} else {
		for (c.stop = c.first; c.stop + 1 < n && p[c.stop + 1].made &&
				       p[c.stop + 1].step_us <= SCALES * p[c.stop].step_us;)
			c.stop++;
	}
	*ret = c;
}

static int explain_curve(struct ff_job *j, uint32_t which, struct curve *c, struct ff_error *err)
{
	int code;

	if (c->first == FF_NONE || c->stop + 1 >= c->n)
		return FF_OK;
	code = say_why(j, which, &c->p[c->stop], &c->p[c->stop + 1], c->why, sizeof(c->why), err);
	return code == FF_OK ? say_end(j, which, c, err) : code;
}

static void print_curve(const struct ff_pure *row, const struct curve *c, FILE *to)
{
	char line[3 * FF_TEXT];

	fprintf(to, "\n%s: %s\n", row->name, row->summary);
	if (c->first == FF_NONE) {
		ff_text_wrap("  ", c->why, to);
		return;
	}
	for (uint32_t i = c->first; i < c->n; i++)
		if (c->p[i].made)
			print_point(&c->p[i], to);
	if (c->stop + 1 < c->n)
		snprintf(line, sizeof(line), "stops at %u device%s: %s", c->p[c->stop].devices,
				c->p[c->stop].devices == 1 ? "" : "s", c->why);
	else
		snprintf(line, sizeof(line), "scales up to all %u devices", c->p[c->stop].devices);
	ff_text_wrap("  ", line, to);
	if (*c->end)
		ff_text_wrap("  ", c->end, to);
	if (c->fits == FF_NONE)
		ff_text_wrap("  ", "fits in memory on none of them", to);
	else if (c->fits > c->first) {
		snprintf(line, sizeof(line), "fits in memory from %u devices on",
				c->p[c->fits].devices);
		ff_text_wrap("  ", line, to);
	}
}

/* ---- as JSON ---- */

static void write_point(const struct point *p, struct ff_out *o)
{
	ff_out_object(o, NULL);
	ff_out_int(o, "devices", p->devices);
	ff_out_real(o, "predicted_us", p->step_us);
	ff_out_real(o, "computing_us", p->computing_us);
	ff_out_real(o, "communication_us", p->step_us - p->computing_us);
	ff_out_int(o, "memory_bytes", p->memory_bytes);
	ff_out_bool(o, "fits", p->fits);
	ff_out_int(o, "stages", p->stages);
	ff_out_int(o, "micro_batches", p->micro);
	ff_out_close(o);
}

static void write_curve(const struct ff_pure *row, const struct curve *c, struct ff_out *o)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "name", row->name);
	ff_out_string(o, "splits", row->summary);
	ff_out_array(o, "points");
	for (uint32_t i = 0; i < c->n; i++)
		if (c->p[i].made)
			write_point(&c->p[i], o);
	ff_out_close(o);
	if (c->stop != FF_NONE)
		ff_out_int(o, "scales_to", c->p[c->stop].devices);
	if (c->fits != FF_NONE)
		ff_out_int(o, "fits_from", c->p[c->fits].devices);
	if (c->why[0])
		ff_out_string(o, "why", c->why);
	if (c->end[0])
		ff_out_string(o, "end", c->end);
	ff_out_close(o);
}

static void write_report(const struct ff_job *j, const struct curve *c, struct ff_out *o)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "format", "ffsoap-oracle-report");
	ff_out_int(o, "version", 1);
	ff_out_string(o, "graph", j->in.graph.name);
	ff_out_int(o, "batch", j->in.graph.batch);
	ff_out_string(o, "machine", j->in.machine.name);
	ff_out_int(o, "devices", j->in.machine.n_devices);
	ff_out_string(o, "costs", j->opt.costs_path);
	ff_out_string(o, "optimizer", j->in.optimizer->name);
	ff_out_int(o, "memory_limit_bytes", ff_job_memory(j, 0));
	ff_out_array(o, "strategies");
	for (uint32_t i = 0; ff_pure_row(i); i++)
		write_curve(ff_pure_row(i), &c[i], o);
	ff_out_close(o);
	ff_out_close(o);
}

/* The report, and the page that shows it. */
static int save(const struct ff_job *j, const struct curve *c, struct ff_error *err)
{
	char title[512];
	struct ff_out report;
	const struct ff_html page = {.title = title, .report = &report};
	int code = FF_OK;

	snprintf(title, sizeof(title), "Pure strategies: %s on %s", j->in.graph.name,
			j->in.machine.name);
	ff_out_init(&report);
	write_report(j, c, &report);
	if (j->opt.report_path)
		code = ff_out_save(&report, j->opt.report_path, err);
	if (code == FF_OK && j->opt.beside.html_path)
		code = ff_html_save(&page, j->opt.beside.html_path, err);
	ff_out_finish(&report);
	return code;
}

int ff_oracle_tell(struct ff_job *j, FILE *to, struct ff_error *err)
{
	struct point at[MOST_POINTS][MOST_CURVES] = {0}, of[MOST_CURVES][MOST_POINTS];
	struct curve curve[MOST_CURVES];
	uint32_t n = 0;
	int code = FF_OK;

	for (uint32_t devices = 1; devices <= j->in.machine.n_devices && devices <= MOST_DEVICES &&
				   code == FF_OK && !ff_job_interrupted(j);
			devices *= 2) {
		code = look_at_all(j, devices, at[n], err);
		n += !ff_job_interrupted(j); /* else some were not looked at */
	}
	if (code < 0)
		return code;
	fprintf(to,
			"pure strategies of %s (batch %d)\non machine %s, costs %s, optimizer "
			"%s\n\n"
			"%8s %12s %10s %13s %11s  %s\n",
			j->in.graph.name, j->in.graph.batch, j->in.machine.name, j->opt.costs_path,
			j->in.optimizer->name, "devices", "step", "computing", "communication",
			"memory", "fits");
	for (uint32_t i = 0; ff_pure_row(i); i++) {
		for (uint32_t k = 0; k < n; k++)
			of[i][k] = at[k][i];
		find_curve(of[i], n, &curve[i]);
		code = explain_curve(j, i, &curve[i], err);
		if (code < 0)
			return code;
		print_curve(ff_pure_row(i), &curve[i], to);
	}
	fflush(to);
	return save(j, curve, err);
}
