/* Timelines for the page.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ff/machine_lanes.h"
#include "parts.h"

#define PER_US 100 /* times are whole hundredths of a microsecond */

/* Colours of the page, in its order. */
enum colour { FORWARD, BACKWARD, AGAIN, UPDATE, MOVE, SYNC };
static const char *const colours[] = {[FORWARD] = "forward",
		[BACKWARD] = "backward",
		[AGAIN] = "computed again",
		[UPDATE] = "update",
		[MOVE] = "move",
		[SYNC] = "gradients and weights"};

static enum colour colour_of(const struct ff_task *t)
{
	if (t->move)
		return ff_task_moves_edge(t) ? MOVE : SYNC;
	if (!ff_task_computes_part(t))
		return UPDATE;
	return t->phase == FF_PHASE_RECOMPUTE   ? AGAIN
	       : ff_task_pass(t) == FF_BACKWARD ? BACKWARD
						: FORWARD;
}

/* Names of tasks, each once: the number of a micro-batch stands beside. */
struct names {
	struct ff_arena *a;
	struct ff_table table;
	const char **name;
	uint32_t n;
	uint32_t *of; /* by task */
};

static int name_task(struct names *x, const struct ff_schedule *s, uint32_t task)
{
	char label[256], *micro;
	uint64_t hash;
	uint32_t at, i;

	ff_task_label(s, task, label, sizeof(label));
	micro = strrchr(label, '#');
	if (s->n_instances > 2 && micro && micro > label && micro[-1] == ' ')
		micro[-1] = '\0';
	hash = ff_fnv1a(label, strlen(label));
	i = ff_table_first(&x->table, hash, &at);
	while (i != FF_NONE && strcmp(x->name[i], label) != 0)
		i = ff_table_next(&x->table, hash, &at);
	if (i == FF_NONE) {
		i = x->n++;
		x->name[i] = ff_arena_strdup(x->a, label);
		if (!x->name[i] || ff_table_put(&x->table, hash, i) < 0)
			return FF_E_NOMEM;
	}
	x->of[task] = i;
	return FF_OK;
}

/* Of those tasks alone that the page shows. */
static int name_tasks(struct names *x, const struct ff_html *h, const struct ff_html_groups *g,
		struct ff_error *err)
{
	const struct ff_schedule *s = h->schedule;
	int code = FF_OK;

	x->table.arena = x->a;
	x->name = ff_arena_array(x->a, s->n_tasks, sizeof(*x->name));
	x->of = ff_arena_array(x->a, s->n_tasks, sizeof(*x->of));
	if (!x->name || !x->of)
		return ff_fail_memory(err);
	memset(x->of, 0xff, s->n_tasks * sizeof(*x->of));
	for (uint32_t k = 0; k < h->n_timelines; k++)
		for (uint32_t i = 0; i < h->timeline[k].n && code == FF_OK; i++) {
			const struct ff_span *span = &h->timeline[k].spans[i];
			uint32_t group = g->same.of[span->device];

			if (x->of[span->task] == FF_NONE && group < g->told &&
					g->same.first[group] == span->device)
				code = name_task(x, s, span->task);
		}
	return code < 0 ? ff_fail_memory(err) : FF_OK;
}

/* start, length, name, colour, micro-batch, one after the other. */
static void write_spans(const struct ff_html *h, const struct ff_timeline *line,
		const struct names *x, uint32_t device, enum ff_lane_class lane, struct ff_out *o)
{
	ff_out_array(o, "spans");
	for (uint32_t i = 0; i < line->n; i++) {
		const struct ff_span *span = &line->spans[i];
		const struct ff_task *t = &h->schedule->tasks[span->task];
		double start = rint(span->start_us * PER_US);

		if (span->device != device || ff_trace_lane(h->schedule, t) != lane)
			continue;
		ff_out_int(o, NULL, (int64_t)start);
		ff_out_int(o, NULL, (int64_t)(rint(span->finish_us * PER_US) - start));
		ff_out_int(o, NULL, x->of[span->task]);
		ff_out_int(o, NULL, colour_of(t));
		ff_out_int(o, NULL, h->schedule->n_instances > 2 ? t->micro : 0);
	}
	ff_out_close(o);
}

static void write_lanes(const struct ff_html *h, const struct ff_timeline *line,
		const struct names *x, uint32_t device, struct ff_out *o)
{
	ff_out_array(o, "lanes");
	for (int lane = 0; lane < FF_DEVICE_LANES; lane++) {
		ff_out_object(o, NULL);
		ff_out_string(o, "name", ff_trace_lane_name((enum ff_lane_class)lane));
		write_spans(h, line, x, device, (enum ff_lane_class)lane, o);
		ff_out_close(o);
	}
	ff_out_close(o);
}

static void write_groups(const struct ff_html *h, const struct ff_html_groups *g,
		const struct ff_timeline *line, const struct names *x, struct ff_out *o)
{
	ff_out_array(o, "groups");
	for (uint32_t i = 0; i < g->told; i++) {
		ff_out_object(o, NULL);
		ff_out_string(o, "devices", g->same.devices[i]);
		write_lanes(h, line, x, g->same.first[i], o);
		ff_out_close(o);
	}
	ff_out_close(o);
}

int ff_html_write_timelines(const struct ff_html *h, const struct ff_html_groups *g,
		struct ff_arena *a, struct ff_out *o, struct ff_error *err)
{
	struct names x = {.a = a};
	int code = name_tasks(&x, h, g, err);

	if (code < 0)
		return code;
	ff_out_array(o, "colours");
	for (uint32_t i = 0; i < sizeof(colours) / sizeof(*colours); i++)
		ff_out_string(o, NULL, colours[i]);
	ff_out_close(o);
	ff_out_array(o, "names");
	for (uint32_t i = 0; i < x.n; i++)
		ff_out_string(o, NULL, x.name[i]);
	ff_out_close(o);
	ff_out_int(o, "per_us", PER_US);
	ff_out_int(o, "groups", g->same.n);
	ff_out_array(o, "timelines");
	for (uint32_t k = 0; k < h->n_timelines; k++) {
		ff_out_object(o, NULL);
		ff_out_string(o, "name", h->timeline[k].name ? h->timeline[k].name : "");
		write_groups(h, g, &h->timeline[k], &x, o);
		ff_out_close(o);
	}
	ff_out_close(o);
	return FF_OK;
}
