/* Tasks that move.  SPDX-License-Identifier: Apache-2.0 */
#include "moves.h"

#include "clocks.h"
#include "emit.h"
#include "ff/instance.h"
#include "memory.h"

/* One buffer a device, one behind the other, where any device needs one. */
static void make_stage(struct ff_lowering *l, struct ff_task *t, const struct ff_move *mv)
{
	int64_t most = 0;

	for (uint32_t i = 0; i < mv->n_devices; i++)
		most = mv->stage_bytes[i] > most ? mv->stage_bytes[i] : most;
	if (!most)
		return;
	t->stage = l->r.n_buffers;
	for (uint32_t i = 0; i < mv->n_devices; i++)
		ff_buffer_use(l, ff_buffer_new(l, mv->device[i], mv->stage_bytes[i]));
}

/* Likewise, but for good, what is not sent of gradients that are compressed. */
static void keep_residual(struct ff_lowering *l, struct ff_task *t, const struct ff_move *mv)
{
	if (!mv->codec)
		return;
	t->residual = l->r.n_buffers;
	for (uint32_t i = 0; i < mv->n_devices; i++)
		ff_buffer_pin(l, mv->device[i], FF_KEPT, mv->traffic[i].encoded, 0);
}

/* Buffers of a move: what it reads, what it writes (made here when it is the
 * first to), and its stage. */
static void use_shards(struct ff_lowering *l, const struct ff_move *mv, const uint32_t *sources,
		uint32_t *sinks, const struct ff_side *to)
{
	struct ff_task *t = &l->r.tasks[l->r.n_tasks - 1];

	for (uint32_t i = 0; i < mv->n_sources; i++)
		ff_buffer_use(l, sources[mv->source[i]]);
	for (uint32_t i = 0; i < mv->n_sinks; i++) {
		uint32_t part = mv->sink[i];

		if (sinks[part] == FF_NONE)
			sinks[part] = ff_emit_shard(l, to->device[part],
					to->gradients ? ff_placement_gradient_bytes(to->place, part)
						      : ff_placement_bytes(to->place, part));
		ff_buffer_use(l, sinks[part]);
	}
	make_stage(l, t, mv);
	keep_residual(l, t, mv);
}

/* A limited move waits on every device that it brings something; where moves are on compute
 * lanes they do so anyway. */
static void limit_prefetch(struct ff_lowering *l, const struct ff_move *mv, const uint16_t *device)
{
	for (uint32_t i = 0; i < mv->n_sinks && l->m->overlap; i++)
		ff_emit_depend(l, l->limited[(size_t)FF_PREFETCH_DISTANCE * device[mv->sink[i]] +
						  FF_PREFETCH_DISTANCE - 1]);
}

/* Gradients of an earlier step, and what they are added to. */
static void depend_on_due(struct ff_lowering *l, const struct ff_move *mv, const uint32_t *sources,
		const uint32_t *sinks)
{
	for (uint32_t i = 0; i < mv->n_sources; i++)
		ff_emit_depend_due(l, sources[mv->source[i]]);
	for (uint32_t i = 0; i < mv->n_sinks; i++)
		ff_emit_depend_due(l, sinks[mv->sink[i]]);
}

void ff_moves_emit(struct ff_lowering *l, const struct ff_step *s, const struct ff_move *mv)
{
	const struct ff_edge *e = &l->g->edges[s->id];
	const struct ff_value *v = &l->g->values[e->value];
	uint32_t from = v->producer, first = l->first_edge[e->value], instance;
	const struct ff_node_block *to = l->node[e->node], *source = l->node[from];
	bool back = s->phase == FF_PHASE_BACKWARD;
	struct ff_task *t = ff_emit_begin(l, FF_TASK_MOVE, s);
	uint32_t me = l->r.n_tasks - 1;
	uint32_t writer = back ? e->node : from;
	const uint32_t *sources, *sinks;
	struct ff_side side;

	t->edge = s->id;
	t->node = e->node;
	t->move = mv;
	if (ff_move_is_own(l->g, s->id, mv))
		ff_emit_occupy(l, ff_lane(l->m, FF_LANE_COMPUTE, mv->device[0]));
	else
		ff_emit_occupy_transfer(l, mv->n_devices, mv->device);
	for (uint32_t i = 0; i < mv->n_sources; i++)
		ff_emit_depend(l, ff_emit_task(l, s->phase, s->micro, writer, mv->source[i]));
	ff_task_ends(&l->r, t, &sources, &sinks);
	if (back && l->r.staleness && ff_emit_from_parameter(l, s->id))
		depend_on_due(l, mv, sources, sinks);
	/* what is added to must have been written */
	for (uint32_t i = 0; mv->accumulate && i < mv->n_sinks; i++)
		ff_emit_depend(l, ff_emit_gradient_from(l, first, s->micro, mv->sink[i]));
	if (s->limited)
		limit_prefetch(l, mv, to->device);
	ff_clock_tick(l);
	instance = back ? ff_emit_gradient_of(l, s->id, s->micro)
			: ff_schedule_instance(&l->r, from, s->micro, t->again);
	for (uint32_t i = 0; i < mv->n_sinks; i++)
		l->moved[t->pass][(size_t)s->id * l->r.n_instances + instance][mv->sink[i]] = me;
	side = back ? (struct ff_side){&source->out[v->port], source->device, true}
		    : (struct ff_side){&to->in[e->slot], to->device, false};
	use_shards(l, mv, sources, (uint32_t *)sinks, &side);
	l->r.network_bytes += mv->network_bytes;
	if (back && l->opt && l->opt->codec && !mv->codec && ff_emit_from_parameter(l, s->id))
		l->r.plain_bytes += mv->network_bytes;
}
