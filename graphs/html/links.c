/* What each link carries, for the page.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "ff/machine_lanes.h"
#include "ff/name_fold.h"
#include "parts.h"

enum { OF_DEVICES, INSIDE, NETWORK, KINDS };
static const char *const kinds[KINDS] = {
		"communication of devices", "links inside nodes", "network cards of nodes"};

/* Microseconds of each on the first timeline. */
struct busy {
	double *us[KINDS], step_us;
	uint32_t n[KINDS];
};

/* A device sends and receives by whatever lane its machine has for that; links have their own. */
static void add_task(
		const struct ff_schedule *s, const struct ff_task *t, double us, struct busy *b)
{
	for (uint32_t k = 0; k < t->n_lanes; k++)
		for (uint32_t kind = INSIDE; kind < KINDS; kind++) {
			uint32_t first = ff_lane(s->machine,
					kind == INSIDE ? FF_LANE_INSIDE : FF_LANE_NETWORK, 0);
			uint32_t lane = s->lanes[t->first_lane + k];

			if (lane >= first && lane - first < b->n[kind])
				b->us[kind][lane - first] += us;
		}
}

static int add_up(const struct ff_html *h, struct ff_arena *a, struct busy *b, struct ff_error *err)
{
	const struct ff_schedule *s = h->schedule;
	const struct ff_machine *m = s->machine;
	bool *seen = ff_arena_array(a, s->n_tasks, sizeof(*seen));

	*b = (struct busy){.n = {m->n_devices, m->n_nodes, m->n_card_lanes}};
	for (uint32_t kind = 0; kind < KINDS; kind++) {
		b->us[kind] = ff_arena_array(a, b->n[kind], sizeof(*b->us[kind]));
		if (!b->us[kind] || !seen)
			return ff_fail_memory(err);
	}
	for (uint32_t i = 0; i < h->timeline[0].n; i++) {
		const struct ff_span *span = &h->timeline[0].spans[i];
		const struct ff_task *t = &s->tasks[span->task];
		double us = span->finish_us - span->start_us;

		b->step_us = span->finish_us > b->step_us ? span->finish_us : b->step_us;
		if (t->move)
			b->us[OF_DEVICES][span->device] += us;
		if (!seen[span->task])
			add_task(s, t, us, b);
		seen[span->task] = true;
	}
	return FF_OK;
}

/* Lanes that are as busy, to a thousandth of the step, are one row. */
static int write_kind(const double *share, uint32_t n, const char *kind, struct ff_arena *a,
		struct ff_out *o, struct ff_error *err)
{
	uint32_t *same = ff_arena_array(a, n, sizeof(*same));
	bool *told = ff_arena_array(a, n, sizeof(*told));

	if (!same || !told)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = 0;
		char text[96];

		for (uint32_t j = i; j < n && !told[i]; j++)
			if (!told[j] && share[j] > share[i] - 5e-4 && share[j] < share[i] + 5e-4) {
				told[j] = j > i;
				same[k++] = j;
			}
		if (!k || !(share[i] > 0))
			continue;
		ff_fold_numbers(same, k, text, sizeof(text));
		ff_out_object(o, NULL);
		ff_out_string(o, "kind", kind);
		ff_out_string(o, "which", text);
		ff_out_real(o, "busy", share[i]);
		ff_out_close(o);
	}
	return FF_OK;
}

int ff_html_write_links(
		const struct ff_html *h, struct ff_arena *a, struct ff_out *o, struct ff_error *err)
{
	struct busy b;
	int code = add_up(h, a, &b, err);

	ff_out_array(o, "links");
	for (uint32_t kind = 0; kind < KINDS && code == FF_OK; kind++) {
		for (uint32_t i = 0; i < b.n[kind]; i++)
			b.us[kind][i] /= b.step_us > 0 ? b.step_us : 1;
		code = write_kind(b.us[kind], b.n[kind], kinds[kind], a, o, err);
	}
	ff_out_close(o);
	return code;
}
