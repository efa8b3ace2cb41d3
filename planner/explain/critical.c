/* The walk back along a step's critical path.  SPDX-License-Identifier: Apache-2.0 */
#include "critical.h"

#include <stdlib.h>
#include <string.h>

#include "ff/machine_lanes.h"
#include "ff/task_class.h"
#include "times.h"

const char *ff_critical_kind_name(enum ff_critical_kind k)
{
	static const char *const names[FF_CRITICAL_KINDS] = {
			[FF_CRITICAL_COMPUTE] = "compute",
			[FF_CRITICAL_MEMORY] = "memory",
			[FF_CRITICAL_INSIDE] = "inside",
			[FF_CRITICAL_NETWORK] = "network",
			[FF_CRITICAL_SLOWED] = "slowed",
	};

	return names[k];
}

/* By task what it waited for until last; FF_NONE: nothing. */
static int find_before(
		const struct ff_plan *p, struct ff_arena *a, uint32_t **ret, struct ff_error *err)
{
	const struct ff_schedule *s = &p->schedule;
	const double *finish = p->simulation.finish;
	uint32_t *before = ff_arena_array(a, s->n_tasks, sizeof(*before));
	uint32_t *last = ff_arena_array(a, ff_lane_count(s->machine), sizeof(*last));

	if (!before || !last)
		return ff_fail_memory(err);
	memset(last, 0xff, ff_lane_count(s->machine) * sizeof(*last));
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_task *t = &s->tasks[i];
		uint32_t late = FF_NONE;

		for (uint32_t k = 0; k < t->n_deps; k++) {
			uint32_t dep = s->deps[t->first_dep + k];

			late = late == FF_NONE || finish[dep] > finish[late] ? dep : late;
		}
		for (uint32_t k = 0; k < t->n_lanes; k++) {
			uint32_t *on = &last[s->lanes[t->first_lane + k]];

			if (*on != FF_NONE && (late == FF_NONE || finish[*on] > finish[late]))
				late = *on;
			*on = i;
		}
		before[i] = late;
	}
	*ret = before;
	return FF_OK;
}

static enum ff_critical_kind kind_of(const struct ff_schedule *s, const struct ff_task *t)
{
	const struct ff_machine *m = s->machine;
	const uint16_t *device;
	uint16_t own;
	uint32_t n = ff_task_devices(t, &device, &own);

	if (!t->move)
		return FF_CRITICAL_COMPUTE;
	for (uint32_t i = 1; i < n; i++)
		if (m->node_of[device[i]] != m->node_of[device[0]])
			return FF_CRITICAL_NETWORK;
	return n > 1 ? FF_CRITICAL_INSIDE : FF_CRITICAL_MEMORY;
}

/* Parts by layer and by class of task. */
struct sums {
	const struct ff_schedule *s;
	const struct ff_layers *layers;
	struct ff_task_classes classes;
	uint32_t *part; /* by layer and class, the last layer none; FF_NONE */
	struct ff_critical path;
};

/* "block0-47.mlp.fc1 forward": the layer, and of the class its pass. */
static const char *what_of(const struct sums *x, const struct ff_task *t, uint32_t layer,
		uint32_t class, struct ff_arena *a)
{
	const char *name = x->classes.name[class], *pass = strrchr(name, ' ');

	if (layer == x->layers->n)
		return name;
	return ff_arena_printf(a, "%s%s", x->layers->layer[layer].name,
			ff_task_computes_part(t) && pass ? pass : ff_arena_printf(a, " %s", name));
}

/* A layer's kernels of one pass may be of several classes. */
static uint32_t find_part(struct ff_critical *p, enum ff_critical_kind kind, const char *what)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (p->part[i].kind == kind && !strcmp(p->part[i].what, what))
			return i;
	p->part[p->n] = (struct ff_critical_part){kind, what, 0, 0};
	return p->n++;
}

static int add_task(
		struct sums *x, uint32_t task, double us, struct ff_arena *a, struct ff_error *err)
{
	const struct ff_task *t = &x->s->tasks[task];
	bool of_node = ff_task_computes_part(t) || ff_task_moves_edge(t);
	uint32_t layer = of_node ? x->layers->of[t->node] : FF_NONE, class = x->classes.of[task];
	enum ff_critical_kind kind = kind_of(x->s, t);
	uint32_t *at;

	layer = layer == FF_NONE ? x->layers->n : layer;
	at = &x->part[(layer * x->classes.n + class) * FF_CRITICAL_KINDS + (uint32_t)kind];
	if (*at == FF_NONE) {
		const char *what = what_of(x, t, layer, class, a);

		if (!what)
			return ff_fail_memory(err);
		*at = find_part(&x->path, kind, what);
	}
	x->path.part[*at].us += us;
	x->path.part[*at].tasks++;
	x->path.us[kind] += us;
	return FF_OK;
}

static int by_time(const void *a, const void *b)
{
	const struct ff_critical_part *x = a, *y = b;

	if (x->us != y->us)
		return x->us > y->us ? -1 : 1;
	return strcmp(x->what, y->what);
}

static int walk(const struct ff_plan *p, const uint32_t *before, struct sums *x, struct ff_arena *a,
		struct ff_error *err)
{
	const struct ff_simulation *sim = &p->simulation;
	double until = sim->step_us;
	uint32_t at = FF_NONE;
	int code = FF_OK;

	for (uint32_t i = 0; i < p->schedule.n_tasks; i++)
		at = at == FF_NONE || sim->finish[i] > sim->finish[at] ? i : at;
	for (; at != FF_NONE && code == FF_OK; at = before[at]) {
		/* between a task and the one before there is what slowed its lane */
		x->path.us[FF_CRITICAL_SLOWED] += until - sim->finish[at];
		code = add_task(x, at, sim->finish[at] - sim->start[at], a, err);
		until = sim->start[at];
	}
	x->path.us[FF_CRITICAL_SLOWED] += until;
	return code;
}

int ff_critical_find(const struct ff_plan *p, const struct ff_layers *l, struct ff_arena *a,
		struct ff_critical *ret, struct ff_error *err)
{
	struct sums x = {.s = &p->schedule, .layers = l};
	size_t room;
	uint32_t *before = NULL;
	int code = ff_task_classes_of(x.s, a, &x.classes, err);

	if (code == FF_OK)
		code = find_before(p, a, &before, err);
	if (code < 0)
		return code;
	room = ((size_t)l->n + 1) * x.classes.n * FF_CRITICAL_KINDS;
	x.part = ff_arena_array(a, room, sizeof(*x.part));
	x.path.part = ff_arena_array(a, room + 1, sizeof(*x.path.part));
	if (!x.part || !x.path.part)
		return ff_fail_memory(err);
	memset(x.part, 0xff, room * sizeof(*x.part));
	code = walk(p, before, &x, a, err);
	if (code < 0)
		return code;
	if (x.path.us[FF_CRITICAL_SLOWED] > 0)
		x.path.part[x.path.n++] = (struct ff_critical_part){FF_CRITICAL_SLOWED,
				"computing beside transfers", 1, x.path.us[FF_CRITICAL_SLOWED]};
	qsort(x.path.part, x.path.n, sizeof(*x.path.part), by_time);
	*ret = x.path;
	return FF_OK;
}
