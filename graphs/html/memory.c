/* Memory over time for the page.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "ff/held.h"
#include "parts.h"

#define POINTS 400 /* of a curve: the most in each share of the step */

struct curve {
	double step_us;
	int64_t point[2][POINTS]; /* activations, buffers: where both together are most */
};

/* Where each task begins on the first timeline; tasks that are on none begin with the one before
 * them. */
static int find_starts(const struct ff_html *h, struct ff_arena *a, double **ret, double *step_us,
		struct ff_error *err)
{
	const struct ff_schedule *s = h->schedule;
	double *start = ff_arena_array(a, s->n_tasks, sizeof(*start));

	if (!start)
		return ff_fail_memory(err);
	for (uint32_t t = 0; t < s->n_tasks; t++)
		start[t] = -1;
	*step_us = 0;
	for (uint32_t i = 0; i < h->timeline[0].n; i++) {
		const struct ff_span *span = &h->timeline[0].spans[i];

		start[span->task] = span->start_us;
		*step_us = fmax(*step_us, span->finish_us);
	}
	*ret = start;
	return FF_OK;
}

static uint32_t point_of(const struct curve *c, double us)
{
	uint32_t i = c->step_us > 0 && us > 0 ? (uint32_t)(us / c->step_us * POINTS) : 0;

	return i < POINTS ? i : POINTS - 1;
}

/* Tasks of the device alone: what others do meanwhile changes nothing here. */
static int draw(const struct ff_html *h, uint32_t device, const double *start, struct ff_arena *a,
		struct curve *c, struct ff_error *err)
{
	const struct ff_schedule *s = h->schedule;
	int64_t *held[2];
	uint32_t from = 0;
	int code = ff_held_over_tasks(s, device, a, held, err);

	for (uint32_t i = 0; i < POINTS; i++)
		c->point[0][i] = c->point[1][i] = -1;
	for (uint32_t t = 0; t < s->n_tasks && code == FF_OK; t++) {
		uint16_t own;
		const uint16_t *on;
		uint32_t n = ff_task_devices(&s->tasks[t], &on, &own), i = 0, p;

		while (i < n && on[i] != device)
			i++;
		if (i == n || start[t] < 0)
			continue;
		p = point_of(c, start[t]);
		if (held[0][t] + held[1][t] > c->point[0][p] + c->point[1][p]) {
			c->point[0][p] = held[0][t];
			c->point[1][p] = held[1][t];
		}
	}
	/* where no task begins it is as before */
	for (uint32_t i = 0; i < POINTS; i++) {
		from = c->point[0][i] >= 0 ? i : from;
		for (uint32_t k = 0; k < 2; k++)
			c->point[k][i] = c->point[k][from] > 0 ? c->point[k][from] : 0;
	}
	return code;
}

static void write_curve(struct ff_out *o, const char *key, const int64_t *point)
{
	ff_out_array(o, key);
	for (uint32_t i = 0; i < POINTS; i++)
		ff_out_int(o, NULL, point[i]);
	ff_out_close(o);
}

static void write_group(
		const struct ff_html *h, uint32_t device, const struct curve *c, struct ff_out *o)
{
	const struct ff_schedule *s = h->schedule;
	int64_t bytes[FF_HELD_COUNT];

	ff_held_always(s, device, bytes);
	ff_out_int(o, "limit", ff_device_kind(s->machine, device)->memory_bytes);
	ff_out_int(o, "allocated", s->memory_bytes[device]);
	ff_out_object(o, "always");
	for (int k = 0; k < FF_HELD_GAPS; k++)
		ff_out_int(o, ff_held_name((enum ff_held_kind)k), bytes[k]);
	ff_out_close(o);
	ff_out_object(o, "over_time");
	write_curve(o, ff_held_name(FF_HELD_ACTIVATIONS), c->point[0]);
	write_curve(o, ff_held_name(FF_HELD_BUFFERS), c->point[1]);
	ff_out_close(o);
}

int ff_html_write_memory(const struct ff_html *h, const struct ff_html_groups *g,
		struct ff_arena *a, struct ff_out *o, struct ff_error *err)
{
	struct curve *c = ff_arena_alloc(a, sizeof(*c));
	double *start;
	int code = c ? find_starts(h, a, &start, &c->step_us, err) : ff_fail_memory(err);

	ff_out_array(o, "memory");
	for (uint32_t i = 0; i < g->told && code == FF_OK; i++) {
		struct ff_arena_mark mark = ff_arena_mark(a);

		code = draw(h, g->same.first[i], start, a, c, err);
		if (code < 0)
			break;
		ff_out_object(o, NULL);
		ff_out_string(o, "devices", g->same.devices[i]);
		write_group(h, g->same.first[i], c, o);
		ff_out_close(o);
		ff_arena_rewind(a, mark);
	}
	ff_out_close(o);
	return code;
}
