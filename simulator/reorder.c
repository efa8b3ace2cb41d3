/* Another order as a proposal (ordered.c has what depends on it).
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "ordered.h"

/* Gradients of values are added up in another order: blocks of such edges are others. */
static void touch_uses(struct ff_course *e)
{
	for (uint32_t i = 0; i < e->g->n_edges; i++)
		if (e->first_use[i] != e->other->first_use[i])
			ff_course_touch(e, e->g->edges[i].value);
}

/* Blocks in place and times, as of any proposal but for what is foreseen: all of the current
 * step comes at other times. */
static int time_order(struct ff_course *e, double limit_us, double *step_us, struct ff_error *err)
{
	int code;

	ff_place_activate(e);
	e->n_changes = 0;
	ff_course_begin(e);
	touch_uses(e);
	e->rebuckets = true;
	ff_busy_begin(e, limit_us);
	ff_foresee_begin(e, INFINITY);
	code = ff_place_changes(e, err);
	if (code == FF_OK && !ff_given_up(e))
		code = ff_course_time(e, 0, FF_NONE, step_us, err);
	e->too_slow = e->too_slow || *step_us > limit_us;
	if (code == FF_OK && !ff_given_up(e))
		code = ff_place_resolve_touched(e, err);
	return code;
}

int ff_course_reorder(struct ff_course *e, const int32_t *priority, double limit_us, bool *slower,
		struct ff_evaluation *ret, struct ff_error *err)
{
	struct ff_strategy s = e->strategy;
	double step_us = 0;
	int code;

	memcpy(e->other->priority, priority, e->g->n_nodes * sizeof(*priority));
	s.priority = e->other->priority;
	ff_reorder_exchange(e);
	code = ff_reorder_plan(e, &s, err);
	if (code < 0) {
		ff_reorder_exchange(e);
		return code;
	}
	code = time_order(e, limit_us, &step_us, err);
	*slower = code == FF_OK && ff_given_up(e);
	if (code == FF_OK && !*slower)
		code = ff_course_account(e, err);
	e->reordered = true;
	if (code < 0 || *slower) {
		ff_reorder_drop(e);
		return code;
	}
	e->proposed = true;
	ff_course_conclude(e, step_us, ret);
	return FF_OK;
}
