/* Arrivals.  The walk tells who waits for a task when it tells the task, long before it comes to
 * who waits.  SPDX-License-Identifier: Apache-2.0 */
#include "arrivals.h"

#include <string.h>

#include "emit.h"
#include "ff/grow.h"

int ff_arrivals_init(struct ff_lowering *l, struct ff_error *err)
{
	size_t n = (size_t)l->s->micro_batches * l->g->n_nodes;

	for (int k = 0; k < FF_PHASE_COUNT; k++) {
		l->arrivals.first[k] = ff_arena_array(&l->lasting, n, sizeof(**l->arrivals.first));
		if (!l->arrivals.first[k])
			return ff_fail_memory(err);
	}
	return FF_OK;
}

/* By part; backward also by the lane that brings it, as thousands of gradients of one value may
 * arrive by the lane that ff_depend_beside leaves out. */
static uint32_t lists_a_part(const struct ff_lowering *l, enum ff_phase phase)
{
	return phase == FF_PHASE_BACKWARD && l->m->overlap ? FF_DEVICE_LANES : 1;
}

static uint32_t *heads_of(struct ff_lowering *l, enum ff_phase phase, uint32_t micro, uint32_t node)
{
	uint32_t **heads = &l->arrivals.first[phase][(size_t)micro * l->g->n_nodes + node];
	size_t bytes = (size_t)l->node[node]->n_parts * lists_a_part(l, phase) * sizeof(**heads);

	if (*heads)
		return *heads;
	*heads = ff_arena_alloc(&l->lasting, bytes);
	if (*heads)
		memset(*heads, 0xff, bytes);
	return *heads;
}

void ff_arrive(struct ff_lowering *l, enum ff_phase phase, uint32_t micro, uint32_t node,
		uint32_t part, uint32_t task)
{
	struct ff_arrivals *a = &l->arrivals;
	uint32_t *heads = heads_of(l, phase, micro, node), lists = lists_a_part(l, phase);
	struct ff_arrival *grown = ff_grow_in(&l->lasting, a->at, a->n, &a->cap, sizeof(*grown));

	if (!heads || !grown) {
		l->failed = true;
		return;
	}
	heads += (size_t)part * lists + (lists > 1 ? ff_task_lane(l, &l->r.tasks[task]) : 0);
	a->at = grown;
	a->at[a->n] = (struct ff_arrival){.task = task, .next = *heads};
	*heads = a->n++;
}

static void depend_list(struct ff_lowering *l, uint32_t head)
{
	for (uint32_t i = head; i != FF_NONE; i = l->arrivals.at[i].next)
		ff_emit_depend(l, l->arrivals.at[i].task);
}

void ff_depend_arrived(struct ff_lowering *l, enum ff_phase phase, uint32_t micro, uint32_t node,
		uint32_t part)
{
	const uint32_t *heads = l->arrivals.first[phase][(size_t)micro * l->g->n_nodes + node];
	uint32_t lists = lists_a_part(l, phase);

	for (uint32_t k = 0; k < lists && heads; k++)
		depend_list(l, heads[(size_t)part * lists + k]);
}

void ff_depend_beside(struct ff_lowering *l, uint32_t micro, uint32_t node, uint32_t part)
{
	const uint32_t *heads =
			l->arrivals.first[FF_PHASE_BACKWARD][(size_t)micro * l->g->n_nodes + node];
	uint32_t lists = lists_a_part(l, FF_PHASE_BACKWARD);
	uint32_t own = ff_task_lane(l, &l->r.tasks[l->r.n_tasks - 1]);

	/* without overlap all have one lane */
	for (uint32_t k = 0; k < lists && lists > 1 && heads; k++)
		if (k != own)
			depend_list(l, heads[(size_t)part * lists + k]);
}
