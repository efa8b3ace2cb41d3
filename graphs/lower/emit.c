/* A task while it is told: its lanes, what it comes after, where what it reads comes from.
 * SPDX-License-Identifier: Apache-2.0 */
#include "emit.h"

#include <stdlib.h>

#include "ff/grow.h"
#include "ff/instance.h"
#include "ff/program_phases.h"
#include "lower/memory/clocks.h"
#include "lower/memory/memory.h"

static void push(struct ff_lowering *l, struct ff_list *list, uint32_t v)
{
	uint32_t *grown = ff_grow_in(l->a, list->v, list->n, &list->cap, sizeof(*grown));

	if (!grown) {
		l->failed = true;
		return;
	}
	list->v = grown;
	list->v[list->n++] = v;
}

static struct ff_task *begin(struct ff_lowering *l, const struct ff_step *s)
{
	struct ff_task *t = &l->r.tasks[l->r.n_tasks++];

	*t = (struct ff_task){.phase = s->phase == FF_PHASE_WEIGHTS ? FF_PHASE_BACKWARD : s->phase,
			.micro = s->micro,
			.node = FF_NONE,
			.part = FF_NONE,
			.device = FF_NONE,
			.edge = FF_NONE,
			.bucket = FF_NONE,
			.stage = FF_NONE,
			.residual = FF_NONE,
			.first_lane = l->lanes.n,
			.first_dep = l->deps.n};
	return t;
}

struct ff_task *ff_emit_compute(struct ff_lowering *l, const struct ff_step *s,
		enum ff_compute compute, uint32_t device)
{
	struct ff_task *t = begin(l, s);

	t->compute = compute;
	t->device = device;
	push(l, &l->lanes, ff_lane(l->m, FF_LANE_COMPUTE, device));
	t->n_lanes = 1;
	return t;
}

struct ff_task *ff_emit_move(struct ff_lowering *l, const struct ff_step *s, uint32_t edge,
		const struct ff_move *mv)
{
	struct ff_arena_mark mark = ff_arena_mark(l->scratch);
	uint32_t *lane = ff_arena_array(l->scratch, 3 * (size_t)mv->n_devices, sizeof(*lane));
	struct ff_task *t = begin(l, s);

	t->move = mv;
	t->edge = edge;
	t->n_lanes = lane ? ff_move_lanes(l->g, l->m, edge, mv, lane) : 0;
	l->failed |= !lane;
	for (uint32_t i = 0; i < t->n_lanes; i++)
		push(l, &l->lanes, lane[i]);
	ff_arena_rewind(l->scratch, mark);
	return t;
}

void ff_emit_depend(struct ff_lowering *l, uint32_t task)
{
	struct ff_task *t = &l->r.tasks[l->r.n_tasks - 1];

	if (task == FF_NONE)
		return;
	push(l, &l->deps, task);
	t->n_deps = l->deps.n - t->first_dep;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

void ff_emit_ready(struct ff_lowering *l)
{
	struct ff_task *t = &l->r.tasks[l->r.n_tasks - 1];
	uint32_t *dep = t->n_deps ? l->deps.v + t->first_dep : NULL, n = 0;

	if (!l->failed) {
		if (t->n_deps > 1)
			qsort(dep, t->n_deps, sizeof(*dep), by_number);
		for (uint32_t i = 0; i < t->n_deps; i++)
			if (!n || dep[i] != dep[n - 1])
				dep[n++] = dep[i];
		t->n_deps = n;
		l->deps.n = t->first_dep + n;
	}
	if (ff_lowering_has_buffers(l))
		ff_clock_tick(l);
}

uint32_t *ff_emit_list(const struct ff_lowering *l, const uint32_t *const *table, size_t i,
		uint32_t instance)
{
	return (uint32_t *)table[i * l->r.n_instances + instance];
}

uint32_t *ff_emit_computed(
		const struct ff_lowering *l, enum ff_phase phase, uint32_t micro, uint32_t node)
{
	return &l->compute[phase][(size_t)micro * l->g->n_nodes + node];
}

uint32_t ff_emit_task(const struct ff_lowering *l, enum ff_phase phase, uint32_t micro,
		uint32_t node, uint32_t part)
{
	uint32_t first = *ff_emit_computed(l, phase, micro, node);
	const uint32_t *place = l->place[ff_phase_pass(phase)][node];

	if (first == FF_NONE || (place && place[part] == FF_NONE))
		return FF_NONE;
	return first + (place ? place[part] : part);
}

bool ff_emit_from_parameter(const struct ff_lowering *l, uint32_t edge)
{
	return ff_node_is_parameter(l->g, ff_edge_source(l->g, edge));
}

uint32_t ff_emit_gradient_of(const struct ff_lowering *l, uint32_t edge, uint32_t micro)
{
	return ff_schedule_gradient(&l->r, ff_edge_source(l->g, edge), micro);
}

void ff_emit_depend_gradients(struct ff_lowering *l, uint32_t value, uint32_t micro, uint32_t part)
{
	const struct ff_value *v = &l->g->values[value];

	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t edge = ff_value_use(l->g, v, u);
		const uint32_t *alias = l->edge[edge].backward.alias;

		if (alias && alias[part] != FF_NONE)
			ff_emit_depend(l, ff_emit_task(l, ff_edge_made_in(l->g, &l->program, edge),
							  micro, l->g->edges[edge].node,
							  alias[part]));
	}
}

uint32_t ff_emit_shard(struct ff_lowering *l, uint32_t device, int64_t bytes)
{
	return bytes ? ff_buffer_new(l, device, bytes) : FF_NONE;
}

void ff_emit_depend_due(struct ff_lowering *l, uint32_t buffer)
{
	const struct ff_buffer *b;
	const struct ff_bucket *k;

	if (buffer == FF_NONE)
		return;
	b = &l->r.buffers[buffer];
	if (b->bucket == FF_NONE) {
		ff_emit_depend(l, b->first);
		return;
	}
	k = &l->r.buckets[b->bucket];
	if (l->told.delay[b->bucket] != FF_NONE)
		ff_emit_depend(l,
				l->told.delay[b->bucket] + ff_device_index(k->device, k->n_devices,
									   b->device));
}
