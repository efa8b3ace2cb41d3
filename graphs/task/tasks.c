/* Tasks: of every step of the program, what is done on which device, on which
 * lanes, after what, with which buffers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "emit.h"

static void emit_moves(struct ff_lowering *l, const struct ff_step *s)
{
	const struct ff_redistribution *r = ff_moves_at(l, s->phase, s->id);

	for (uint32_t i = 0; i < r->n_moves; i++)
		ff_moves_emit(l, s, &r->move[i]);
}

static void emit_step(struct ff_lowering *l, const struct ff_step *s)
{
	switch (s->kind) {
	case FF_STEP_MOVES:
		emit_moves(l, s);
		break;
	case FF_STEP_COMPUTE:
		ff_computes_emit(l, s);
		break;
	case FF_STEP_SYNC:
		ff_updates_sync(l, s);
		break;
	case FF_STEP_UPDATE:
		ff_updates_emit(l, s);
		break;
	}
}

void ff_tasks_emit(struct ff_lowering *l)
{
	for (uint32_t i = 0; i < l->program.n; i++)
		emit_step(l, &l->program.step[i]);
	l->r.lanes = l->lanes.v;
	l->r.deps = l->deps.v;
}
