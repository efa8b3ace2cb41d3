/* Tasks that move.  SPDX-License-Identifier: Apache-2.0 */
#include "moves.h"

#include "arrivals.h"
#include "emit.h"
#include "ff/instance.h"
#include "ff/saturate.h"
#include "lower/memory/memory.h"

/* One buffer a device, one behind the other, where any device needs one. */
static void make_stage(struct ff_lowering *l, struct ff_task *t, const struct ff_move *mv)
{
	int64_t most = 0;

	for (uint32_t i = 0; i < mv->n_devices; i++)
		most = mv->stage_bytes[i] > most ? mv->stage_bytes[i] : most;
	if (!most)
		return;
	t->stage = l->r.n_buffers; /* where all devices are lowered */
	for (uint32_t i = 0; i < mv->n_devices; i++)
		ff_buffer_use(l, ff_buffer_new(l, mv->device[i], mv->stage_bytes[i]));
}

/* One buffer a device, for good, for what is not sent yet of gradients that are compressed. */
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

uint32_t ff_moves_begin(struct ff_lowering *l, const struct ff_step *s, const struct ff_move *mv)
{
	ff_emit_move(l, s, s->id, mv)->node = l->g->edges[s->id].node;
	return l->r.n_tasks - 1;
}

/* Waits for the gradients of an earlier step that it takes, and for what they are added to. */
void ff_moves_depend_late(struct ff_lowering *l)
{
	const struct ff_task *t = &l->r.tasks[l->r.n_tasks - 1];
	const uint32_t *sources, *sinks;

	ff_task_ends(&l->r, t, &sources, &sinks);
	for (uint32_t i = 0; i < t->move->n_sources; i++)
		ff_emit_depend_due(l, sources[t->move->source[i]]);
	for (uint32_t i = 0; i < t->move->n_sinks; i++)
		ff_emit_depend_due(l, sinks[t->move->sink[i]]);
}

void ff_moves_depend_written(
		struct ff_lowering *l, uint32_t value, uint32_t micro, const struct ff_move *mv)
{
	uint32_t first = l->first_edge[value];
	const uint32_t *alias = l->edge[first].backward.alias;
	uint32_t producer = l->g->values[value].producer;

	for (uint32_t i = 0; i < mv->n_sinks; i++) {
		if (alias[mv->sink[i]] != FF_NONE)
			ff_emit_depend(l, ff_emit_task(l, FF_PHASE_BACKWARD, micro,
							  l->g->edges[first].node,
							  alias[mv->sink[i]]));
		if (ff_node_is_computed(l->g, producer))
			ff_depend_beside(l, micro, producer, mv->sink[i]);
	}
}

static void use_buffers(struct ff_lowering *l, const struct ff_task *t)
{
	const struct ff_edge *e = &l->g->edges[t->edge];
	const struct ff_value *v = &l->g->values[e->value];
	const struct ff_node_block *to = l->node[e->node], *source = l->node[v->producer];
	bool back = ff_task_pass(t) == FF_BACKWARD;
	const struct ff_side side =
			back ? (struct ff_side){&source->out[v->port], source->device, true}
			     : (struct ff_side){&to->in[e->slot], to->device, false};
	const uint32_t *sources, *sinks;

	ff_task_ends(&l->r, t, &sources, &sinks);
	use_shards(l, t->move, sources, (uint32_t *)sinks, &side);
}

uint32_t ff_moves_end(struct ff_lowering *l)
{
	const struct ff_task *t = &l->r.tasks[l->r.n_tasks - 1];
	bool back = ff_task_pass(t) == FF_BACKWARD;
	const struct ff_move *mv = t->move;

	ff_emit_ready(l);
	if (ff_lowering_has_buffers(l))
		use_buffers(l, t);
	if (!l->like) /* else it is known */
		l->r.network_bytes = ff_sat_add(l->r.network_bytes, mv->network_bytes);
	if (back && l->r.travel.codec && !mv->codec && ff_emit_from_parameter(l, t->edge))
		l->r.plain_bytes = ff_sat_add(l->r.plain_bytes, mv->network_bytes);
	return l->r.n_tasks - 1;
}
