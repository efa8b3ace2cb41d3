/* What tasks took by class, and how that differs from what was predicted: those that differ most
 * for people, all of them for programs.  SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"

#define MOST_SHOWN 10

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

int ff_report_tasks(const struct ff_profile *p, const struct ff_strategy_info *info, double step_us,
		uint32_t devices, struct ff_error *err)
{
	struct term *term, rest = {.name = "all others"};
	uint32_t n = p->classes.n;
	bool known;

	if (!p->n)
		return FF_OK;
	term = malloc(n * sizeof(*term));
	if (!term)
		return ff_fail_memory(err);
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
	return FF_OK;
}

void ff_report_write_tasks(
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
