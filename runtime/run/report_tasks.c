/* What tasks took by class, and how that differs from what was predicted: what a step owes most to
 * in a sentence, those that differ most for people, all of them for programs.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"

#define MOST_SHOWN 10
#define MOST_NAMED 3      /* in the sentence, */
#define LEAST_NAMED 0.1   /* of what the step is off */
#define AS_PREDICTED 0.01 /* a step that is less off */

/* A class: what its devices do, and what they wait for each other in it; NAN: not predicted. */
struct term {
	const char *name;
	double predicted_us, predicted_wait_us;
	double worked_us, waited_us, measured_us, weight;
};

/* One of the two, or what is beside all tasks, by which it is longer than was predicted. */
struct excess {
	const char *wait, *name;
	double us;
};

static const struct ff_class_time *predicted(const struct ff_strategy_info *info, const char *name)
{
	for (uint32_t i = 0; info->predicted_us > 0 && i < info->n_classes; i++)
		if (!strcmp(info->classes[i].name, name))
			return &info->classes[i];
	return NULL;
}

static int by_weight(const void *a, const void *b)
{
	const struct term *x = a, *y = b;

	return x->weight != y->weight ? (x->weight < y->weight ? 1 : -1) : strcmp(x->name, y->name);
}

static double or_none(double us)
{
	return isnan(us) ? 0 : us;
}

/* Where waits were not predicted, all of them are off. */
static double excess_wait(const struct term *t)
{
	return t->waited_us - or_none(t->predicted_wait_us);
}

static bool list_terms(
		const struct ff_profile *p, const struct ff_strategy_info *info, struct term *term)
{
	bool known = info->predicted_us > 0 && info->n_classes;

	for (uint32_t i = 0; i < p->classes.n; i++) {
		const struct ff_class_time *t = predicted(info, p->classes.name[i]);

		term[i] = (struct term){
				.name = p->classes.name[i],
				.predicted_us = t ? t->us : NAN,
				.predicted_wait_us = t ? t->waited_us : NAN,
				.worked_us = p->worked_us[i],
				.waited_us = p->waited_us[i],
				.measured_us = p->measured_us[i],
		};
		term[i].weight = known && t ? fabs(term[i].worked_us - t->us) +
								 fabs(excess_wait(&term[i]))
					    : term[i].measured_us;
	}
	qsort(term, p->classes.n, sizeof(*term), by_weight);
	return known;
}

static void print_ms(double us)
{
	if (isnan(us))
		printf("%12s", "-");
	else
		printf("%9.3f ms", us * 1e-3);
}

static void print_term(const struct term *t, double all_us)
{
	double apart = t->measured_us - t->predicted_us - or_none(t->predicted_wait_us);

	printf("  %-26s", t->name);
	print_ms(t->predicted_us + or_none(t->predicted_wait_us));
	print_ms(t->predicted_wait_us);
	print_ms(t->measured_us);
	print_ms(t->waited_us);
	if (isnan(apart))
		printf("%11s", "-");
	else
		printf("%+9.1f %%", 100 * apart / all_us);
	printf("%9.1f %%\n", 100 * t->measured_us / all_us);
}

/* More of what the step has too much of comes first. */
static int by_excess(const void *a, const void *b)
{
	const struct excess *x = a, *y = b;

	return (x->us < y->us) - (x->us > y->us);
}

/* Of devices that do one thing at a time a step is their tasks and what lies between these. */
static double beside_us(const struct term *term, uint32_t n, double predicted_us, double step_us)
{
	for (uint32_t i = 0; i < n; i++) {
		predicted_us -= or_none(term[i].predicted_us) + or_none(term[i].predicted_wait_us);
		step_us -= term[i].measured_us;
	}
	return step_us - predicted_us;
}

/* Times of all devices together, as terms have them, are said of one. */
static int print_excess(const struct term *term, uint32_t n, double predicted_us, double step_us,
		const struct ff_machine *m, struct ff_error *err)
{
	struct excess *x = calloc((size_t)2 * n + 1, sizeof(*x));
	double off = step_us - predicted_us, sign = off < 0 ? -1 : 1, devices = m->n_devices;

	if (!x)
		return ff_fail_memory(err);
	for (size_t i = 0; i < n; i++) {
		x[2 * i] = (struct excess){"", term[i].name,
				term[i].worked_us - or_none(term[i].predicted_us)};
		x[2 * i + 1] = (struct excess){"waiting in ", term[i].name, excess_wait(&term[i])};
	}
	if (!m->overlap)
		x[(size_t)2 * n] = (struct excess){"", "beside all tasks",
				beside_us(term, n, predicted_us * devices, step_us * devices)};
	for (uint32_t i = 0; i < 2 * n + 1; i++)
		x[i].us *= sign / devices;
	qsort(x, 2 * n + 1, sizeof(*x), by_excess);
	printf("the step is %.3f ms %s than predicted", fabs(off) * 1e-3,
			off < 0 ? "shorter" : "longer");
	for (uint32_t i = 0; i < MOST_NAMED && i < 2 * n + 1; i++)
		if (x[i].us > LEAST_NAMED * fabs(off))
			printf("%s%s%s %+.3f ms", i ? ", " : "; most of it: ", x[i].wait, x[i].name,
					sign * x[i].us * 1e-3);
	printf("\n");
	free(x);
	return FF_OK;
}

static void print_table(const struct ff_profile *p, const struct term *term, double all_us)
{
	struct term rest = {.name = "all others"};

	printf("  %-26s%12s%12s%12s%12s%11s%11s\n", "", "predicted", "of it wait", "measured",
			"of it wait", "apart", "of step");
	for (uint32_t i = 0; i < p->classes.n; i++) {
		if (i < MOST_SHOWN) {
			print_term(&term[i], all_us);
			continue;
		}
		rest.predicted_us += term[i].predicted_us;
		rest.predicted_wait_us += term[i].predicted_wait_us;
		rest.measured_us += term[i].measured_us;
		rest.waited_us += term[i].waited_us;
	}
	if (p->classes.n > MOST_SHOWN)
		print_term(&rest, all_us);
}

int ff_report_tasks(const struct ff_profile *p, const struct ff_strategy_info *info, double step_us,
		const struct ff_machine *m, struct ff_error *err)
{
	struct term *term;
	bool known;
	int code = FF_OK;

	if (!p->n)
		return FF_OK;
	term = malloc(p->classes.n * sizeof(*term));
	if (!term)
		return ff_fail_memory(err);
	known = list_terms(p, info, term);
	if (known && fabs(step_us / info->predicted_us - 1) < AS_PREDICTED)
		printf("the step is as long as predicted, within %.0f %%\n", 100 * AS_PREDICTED);
	else if (known)
		code = print_excess(term, p->classes.n, info->predicted_us, step_us, m, err);
	printf("tasks by class, all devices together, median of %" PRIu64 " steps; %s", p->n,
			known ? "furthest from what was predicted first"
			      : "nothing was predicted of them");
	if (p->bound_us > 0)
		printf("; waits within %.3f ms, as clocks are known", p->bound_us * 1e-3);
	printf("\n");
	print_table(p, term, step_us * m->n_devices);
	free(term);
	return code;
}

void ff_report_write_tasks(
		const struct ff_profile *p, const struct ff_strategy_info *info, struct ff_out *o)
{
	if (!p->n)
		return;
	ff_out_u64(o, "profiled_steps", p->n);
	ff_out_real(o, "clock_bound_us", p->bound_us);
	ff_out_array(o, "tasks");
	for (uint32_t i = 0; i < p->classes.n; i++) {
		const struct ff_class_time *t = predicted(info, p->classes.name[i]);

		ff_out_object(o, NULL);
		ff_out_string(o, "class", p->classes.name[i]);
		ff_out_int(o, "runs", p->classes.runs[i]);
		ff_out_real(o, "predicted_us", t ? t->us : NAN);
		ff_out_real(o, "predicted_wait_us", t ? t->waited_us : NAN);
		ff_out_real(o, "measured_us", p->measured_us[i]);
		ff_out_real(o, "waited_us", p->waited_us[i]);
		ff_out_close(o);
	}
	ff_out_close(o);
}
