/* What ffsearch says about a plan, for people.  SPDX-License-Identifier: Apache-2.0 */
#include "summary.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "explain/text.h"
#include "ff/nearest.h"
#include "ff/rewrite.h"

#define NAME_WIDTH 32
#define LINE 512 /* bytes of a paragraph */

/* ---- single operators ---- */

static bool is_listed(const char *name, const char *pattern)
{
	if (!strpbrk(pattern, "*?["))
		return strstr(name, pattern);
	return !fnmatch(pattern, name, 0);
}

static int fail_unknown(const struct ff_graph *g, const char *pattern, struct ff_error *err)
{
	struct ff_nearest near;

	ff_nearest_init(&near, pattern);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		ff_nearest_try(&near, g->nodes[i].name);
	return ff_fail(err, FF_E_INPUT,
			"option --list: no operator of graph %s is called \"%.100s\"%s", g->name,
			pattern, ff_nearest_hint(&near));
}

int ff_summary_list(const struct ff_summary *s, const char *pattern, FILE *to, struct ff_error *err)
{
	const struct ff_graph *g = s->graph;
	char split[FF_TEXT], devices[FF_TEXT];
	int width = 8, split_width = 5;
	uint32_t found = 0;

	for (int print = 0; print < 2; print++) {
		if (print)
			fprintf(to, "%-*s  %-*s  %s\n", width, "operator", split_width, "split",
					"devices");
		for (uint32_t i = 0; i < g->n_nodes; i++) {
			const struct ff_config *c = &s->plan.strategy.config[i];
			int n = (int)strnlen(g->nodes[i].name, NAME_WIDTH), k;

			if (c->n_parts == 0 || !is_listed(g->nodes[i].name, pattern))
				continue;
			found++;
			ff_operator_text(g, &s->plan.strategy, i, split);
			k = (int)strlen(split);
			width = n > width ? n : width;
			split_width = k > split_width ? k : split_width;
			if (!print)
				continue;
			ff_devices_text(&g->nodes[i], c, devices);
			fprintf(to, "%-*s  %-*s  %s\n", width, g->nodes[i].name, split_width, split,
					devices);
		}
		if (!found)
			return fail_unknown(g, pattern, err);
	}
	fprintf(to, "\n");
	return FF_OK;
}

/* ---- head ---- */

static uint32_t count_operators(const struct ff_graph *g)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		n += ff_node_needs_config(g, i);
	return n;
}

/* What is not the mathematics of data parallelism. */
static void print_changes(const struct ff_summary *s, FILE *to)
{
	const struct ff_schedule *p = &s->plan.schedule;
	char line[LINE], is[FF_TRAVEL_TEXT];

	for (enum ff_way_id id = 0; id < FF_WAY_COUNT; id++) {
		if (!ff_travel_has(&p->travel, id))
			continue;
		ff_travel_say(&p->travel, id, is);
		snprintf(line, LINE, "gradients are %s, which changes what is computed", is);
		ff_text_wrap("", line, to);
	}
	if (p->plain_bytes) {
		snprintf(line, LINE,
				"but for those that moves bring to several devices: %" PRId64
				" bytes a step go as they are",
				p->plain_bytes);
		ff_text_wrap("", line, to);
	}
}

/* What was rewritten, by its first, and what that gains. */
static void print_rewriting(const struct ff_summary *s, FILE *to)
{
	const struct ff_rewritten *w = s->graph->rewritten;
	const struct ff_rewriting_gain *g = &s->rewriting;
	char line[2 * LINE], before[FF_TEXT], with[FF_TEXT], gain[3 * FF_TEXT] = "";

	if (!w && isnan(g->before_us))
		return;
	ff_time_text(g->before_us, before);
	ff_time_text(g->with_us, with);
	if (w && !isnan(g->before_us))
		snprintf(gain, sizeof(gain), "; by that data parallelism takes %s instead of %s",
				with, before);
	if (w)
		snprintf(line, sizeof(line), "%u rewrite%s, the first %s%s", w->n,
				w->n == 1 ? "" : "s", w->text[0], gain);
	else
		snprintf(line, sizeof(line),
				"nothing is rewritten, as data parallelism gains by none");
	ff_text_wrap("", line, to);
}

static void print_head(const struct ff_summary *s, FILE *to)
{
	const struct ff_machine *m = s->machine;
	char line[4 * LINE];

	snprintf(line, sizeof(line), "graph %s (batch %d, %u operators, %lld parameters)",
			s->graph->name, s->graph->batch, count_operators(s->graph),
			(long long)ff_graph_parameters(s->graph));
	ff_text_wrap("", line, to);
	snprintf(line, sizeof(line), "on machine %s (%u device%s), costs %s, optimizer %s%s",
			m->name, m->n_devices, m->n_devices == 1 ? "" : "s", s->costs,
			s->plan.schedule.optimizer->name,
			s->plan.schedule.clip == FF_NONE ? "" : ", clipped");
	ff_text_wrap("", line, to);
	if (s->framework) {
		snprintf(line, sizeof(line), "times are as %s would take", s->framework->summary);
		ff_text_wrap("", line, to);
	}
	print_rewriting(s, to);
	print_changes(s, to);
	fprintf(to, "\n");
}

/* ---- what it comes to ---- */

static void print_rate(const struct ff_summary *s, FILE *to)
{
	const struct ff_facts *f = &s->facts;
	char step[FF_TEXT], tokens[FF_TEXT] = "";

	ff_time_text(f->step_us, step);
	if (f->tokens_per_s > 0)
		snprintf(tokens, FF_TEXT, ", %.0f tokens/s", f->tokens_per_s);
	fprintf(to, "step    %s, %.*f samples/s%s, MFU %.1f %%\n", step,
			f->samples_per_s < 10 ? 2 : 0, f->samples_per_s, tokens, 100 * f->mfu);
}

#define NAME 34 /* columns; of longer ones, which are paths, the end */

static void print_rival(const char *name, const struct ff_rival *r, FILE *to)
{
	char step[FF_TEXT], memory[FF_TEXT], sent[FF_TEXT];
	size_t n = strlen(name);

	ff_time_text(r->step_us, step);
	ff_bytes_text(r->memory_bytes, memory);
	ff_bytes_text(r->sent_bytes, sent);
	fprintf(to, "%s%-*s %12.12s %11.11s %11.11s  %s\n", n > NAME ? "..." : "",
			n > NAME ? NAME - 3 : NAME, n > NAME ? name + n - (NAME - 3) : name, step,
			memory, sent, r->fits ? "yes" : "no");
}

/* Leaves out `n`, from the last: first those that do not fit.  Data parallelism, the first, and
 * what the plan is compared with stay. */
static uint32_t leave_out(const struct ff_summary *s, uint32_t n, bool out[FF_MOST_RIVALS])
{
	uint32_t left = 0;

	memset(out, 0, FF_MOST_RIVALS * sizeof(*out));
	for (int fits = 0; fits < 2; fits++)
		for (uint32_t i = s->n_rivals; i-- > 1 && left < n;) {
			const struct ff_rival *r = &s->rivals[i];

			if (out[i] || r->fits != fits || !strcmp(r->name, s->title) ||
					!strcmp(r->name, s->baseline_name))
				continue;
			out[i] = true;
			left++;
		}
	return left;
}

static void print_rivals(const struct ff_summary *s, uint32_t too_many, FILE *to)
{
	const struct ff_rival plan = ff_rival_of(s->title, &s->plan);
	bool out[FF_MOST_RIVALS];
	uint32_t left = leave_out(s, too_many, out);

	fprintf(to, "\n%-*s %12s %11s %11s  %s\n", NAME, "", "step", "memory", "sent", "fits");
	print_rival(s->title, &plan, to);
	for (uint32_t i = 0; i < s->n_rivals; i++)
		if (strcmp(s->rivals[i].name, s->title) != 0 && !out[i])
			print_rival(s->rivals[i].name, &s->rivals[i], to);
	if (left)
		fprintf(to, "%u other%s (--report)\n", left, left > 1 ? "s" : "");
	fprintf(to, "\n");
}

/* Speedups below this are within the error of prediction (bench/results/predictions.json). */
#define SURE 1.05

/* Up to here a bound tells how good a plan is. */
#define NEAR 1.2

static void print_bound(const struct ff_summary *s, double us, FILE *to)
{
	double times = us / s->lower_bound_us;
	char bound[FF_TEXT], line[LINE];

	ff_time_text(s->lower_bound_us, bound);
	if (!(s->lower_bound_us > 0))
		snprintf(line, LINE, "No strategy can be faster than %s.", bound);
	else if (times <= NEAR)
		snprintf(line, LINE,
				"No strategy can be faster than %s; this one takes %.1f %% more.",
				bound, (times - 1) * 100);
	else
		snprintf(line, LINE,
				"No strategy can be faster than %s; this one takes %.1f times "
				"that. The bound knows no communication and no memory, so it may "
				"be far off.",
				bound, times);
	ff_text_wrap("", line, to);
}

double ff_inferred_share(const struct ff_plan *p)
{
	return p->simulation.step_us > 0 ? p->simulation.inferred.us / p->simulation.step_us : 0;
}

static void print_speedup(const struct ff_summary *s, FILE *to)
{
	double us = s->plan.simulation.step_us, base_us = s->baseline->simulation.step_us;
	char fitting[FF_TEXT] = "", line[LINE];

	if (s->baseline != &s->data_parallel)
		snprintf(fitting, FF_TEXT, " that fits (%s)", s->baseline_name);
	snprintf(line, LINE, "Predicted speedup over data parallelism%s: %.2fx%s.", fitting,
			base_us / us,
			base_us > us && base_us < SURE * us
					? ", which is less than predictions are off by: "
					  "measure it with ffrun --compare"
					: "");
	ff_text_wrap("", line, to);
}

static void print_verdict(const struct ff_summary *s, FILE *to)
{
	const struct ff_plan *d = &s->data_parallel;
	char a[FF_TEXT], b[FF_TEXT], line[LINE];

	if (!ff_plan_fits(d)) {
		ff_bytes_text(d->schedule.memory_bytes[d->short_device], a);
		ff_bytes_text(d->short_limit, b);
		snprintf(line, LINE,
				"Data parallelism does not fit: device %u would need %s and may "
				"use %s.",
				d->short_device, a, b);
		ff_text_wrap("", line, to);
	}
	if (s->is_data_parallel && ff_plan_fits(d))
		fprintf(to, "%s\n",
				s->starts && !s->found.no_time
						? "Data parallelism is the best plan found."
						: "This is data parallelism.");
	else if (ff_plan_fits(s->baseline))
		print_speedup(s, to);
	if (isfinite(s->lower_bound_us))
		print_bound(s, s->plan.simulation.step_us, to);
	if (s->found.no_time && !s->interrupted)
		fprintf(to, "There was no time to search: take a longer --budget.\n");
	else if (s->starts)
		fprintf(to, "Searched %llu proposal%s in %.1f s (%.0f a second), seed %llu%s.\n",
				(unsigned long long)s->proposals, s->proposals == 1 ? "" : "s",
				s->seconds, s->seconds > 0 ? (double)s->proposals / s->seconds : 0,
				(unsigned long long)s->seed, s->interrupted ? ", interrupted" : "");
	ff_found_print(&s->found, s->plan.simulation.step_us, to);
	fprintf(to, "\n");
}

/* ---- what it is made of ---- */

static void print_shape(const struct ff_summary *s, FILE *to)
{
	const struct ff_shape *shape = &s->facts.shape;
	char text[LINE], saved[LINE], bucket[FF_TEXT];

	ff_shape_words(shape, text, sizeof(text));
	ff_text_wrap("shape   ", text, to);
	ff_shape_savings(shape, saved, sizeof(saved));
	if (s->plan.strategy.bucket_bytes) {
		ff_bytes_text(s->plan.strategy.bucket_bytes, bucket);
		snprintf(text, sizeof(text), "%.300s%sgradients in buckets of %.40s", saved,
				*saved ? ", " : "", bucket);
		ff_text_wrap("        ", text, to);
	} else if (*saved) {
		ff_text_wrap("        ", saved, to);
	}
}

#define COLUMNS 80
#define LEAST_SPLIT 22
#define MOST_SPLIT 30 /* the names of layers have what the splits leave */

/* As many of the parts of a list as fit in `most` columns, of the first alone at least its begin.
 */
static void shorten(const char *list, int most, char buf[COLUMNS + 1])
{
	int n = (int)strlen(list), end;

	if (n > most) {
		for (end = most - 4; end > 0 && strncmp(list + end, ", ", 2) != 0; end--)
			;
		n = end > 0 ? end : most - 2;
		snprintf(buf, COLUMNS + 1, "%.*s%s", n, list, end > 0 ? ", .." : "..");
	} else {
		snprintf(buf, COLUMNS + 1, "%s", list);
	}
}

static void print_split(const struct ff_split_row *row, double step_us, int width,
		const char *names, FILE *to)
{
	char gain[FF_TEXT] = "", us[FF_TEXT], split[COLUMNS + 1], told[COLUMNS + 1];

	if (!isnan(row->gain_us)) {
		ff_time_text(fabs(row->gain_us), us);
		snprintf(gain, FF_TEXT, "%s%.40s", row->gain_us < 0 ? "-" : "", us);
	}
	shorten(row->split, width, split);
	shorten(names, COLUMNS - 31 - width, told);
	fprintf(to, "%-*s %9u %4.1f %%", width, split, row->n, 100 * row->us / step_us);
	if (*told)
		fprintf(to, " %11.11s  %s", gain, told);
	fprintf(to, "\n");
}

static void print_splits(const struct ff_summary *s, FILE *to)
{
	const struct ff_splits *r = &s->facts.splits;
	uint32_t n = r->n > FF_TOLD_SPLITS ? FF_TOLD_SPLITS - 1 : r->n;
	char ways[FF_TEXT];
	struct ff_split_row rest = {.split = ways, .gain_us = NAN};
	int width = LEAST_SPLIT;

	snprintf(ways, FF_TEXT, "%u other ways (--list)", r->n - n);
	for (uint32_t i = 0; i < n; i++) {
		int k = (int)strnlen(r->row[i].split, MOST_SPLIT);

		width = k > width ? k : width;
	}
	fprintf(to, "\n%-*s %9s %6s %11s  %s\n", width, "split", "operators", "time", "gains",
			"layers");
	for (uint32_t i = 0; i < r->n; i++) {
		const struct ff_split_row *row = &r->row[i];
		bool most = i == 0 && r->n > 1 && 2 * row->n > s->facts.shape.n_operators;

		if (i < n) {
			print_split(row, s->facts.step_us, width,
					r->n == 1 ? "all"
					: most    ? "all others"
						  : row->names,
					to);
			continue;
		}
		rest.n += row->n;
		rest.us += row->us;
	}
	if (rest.n)
		print_split(&rest, s->facts.step_us, width, "", to);
	fprintf(to, "\n");
}

static void print_times(const struct ff_summary *s, FILE *to)
{
	const struct ff_times *t = &s->facts.times;
	double step = s->facts.step_us, hidden = t->communication_us - t->us[FF_TIME_EXPOSED];
	char line[LINE], us[FF_TEXT];
	size_t n = 0;

	if (!s->plan.schedule.n_tasks)
		return;
	*line = 0;
	for (uint32_t i = 0; i < FF_TIME_EXPOSED; i++)
		if (t->us[i] > 0.0005 * step)
			n += (size_t)snprintf(line + n, LINE - n, "%s%s %.1f %%", n ? ", " : "",
					ff_time_class_name((enum ff_time_class)i),
					100 * t->us[i] / step);
	ff_text_wrap("time    ", *line ? line : "nothing is computed", to);
	ff_time_text(t->communication_us, us);
	snprintf(line, LINE,
			"communication %s: %.1f %% of the step beside computing, %.1f %% exposed; "
			"%.1f %% idle%s",
			us, 100 * hidden / step, 100 * t->us[FF_TIME_EXPOSED] / step,
			100 * t->us[FF_TIME_IDLE] / step,
			s->facts.shape.pipeline > 1 ? " (bubbles, and waits)" : "");
	ff_text_wrap("        ", line, to);
	snprintf(line, LINE, "most of the step is %s", s->facts.bound);
	ff_text_wrap("        ", line, to);
}

static void print_memory(const struct ff_summary *s, FILE *to)
{
	const struct ff_held *h = &s->facts.held;
	char line[LINE], bytes[FF_TEXT], all[FF_TEXT], limit[FF_TEXT];
	int64_t spare = s->facts.limit_bytes - h->all_bytes;
	size_t n = 0;

	for (uint32_t k = 0; k < FF_HELD_COUNT; k++) {
		if (!h->bytes[k])
			continue;
		ff_bytes_text(h->bytes[k], bytes);
		/* kernels that nobody has measured: estimated from above */
		n += (size_t)snprintf(line + n, LINE - n, "%s%s%s %s", n ? ", " : "",
				ff_held_name((enum ff_held_kind)k),
				k == FF_HELD_WORKSPACE && !s->measured ? " at most" : "", bytes);
	}
	ff_bytes_text(h->all_bytes, all);
	ff_bytes_text(s->facts.limit_bytes, limit);
	ff_bytes_text(spare < 0 ? -spare : spare, bytes);
	snprintf(line + n, LINE - n, "%s%s of %s on device %u, %s %s", n ? "; " : "", all, limit,
			h->device, bytes, spare < 0 ? "too much" : "free");
	ff_text_wrap("memory  ", line, to);
}

static void print_questions(const struct ff_summary *s, FILE *to)
{
	ff_text_wrap("ask     ",
			s->starts ? "--explain (why), --list PATTERN (operators), --vary K=V,.. "
				    "(what if)"
				  : "--explain (why), --list PATTERN (operators)",
			to);
}

static void print_all(const struct ff_summary *s, uint32_t too_many, FILE *to)
{
	print_head(s, to);
	print_rate(s, to);
	print_rivals(s, too_many, to);
	print_verdict(s, to);
	print_shape(s, to);
	print_splits(s, to);
	print_times(s, to);
	print_memory(s, to);
	print_questions(s, to);
}

#define SCREEN 40 /* lines */

void ff_summary_print(const struct ff_summary *s, FILE *to)
{
	char *text = NULL;
	size_t size = 0;
	uint32_t lines = 0;
	FILE *memory = open_memstream(&text, &size);

	if (memory) {
		print_all(s, 0, memory);
		fclose(memory);
	}
	for (size_t i = 0; i < size; i++)
		lines += text[i] == '\n';
	free(text);
	print_all(s, lines > SCREEN ? lines - SCREEN + 1 : 0, to); /* and one that says so */
}
