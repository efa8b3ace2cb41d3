/* Tasks: of every step of the program, what is done on which device, on which
 * lanes, after what, with which buffers.  SPDX-License-Identifier: Apache-2.0 */
#include "lower.h"

#include <string.h>

#include "ff/grow.h"
#include "ff/instance.h"

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

/* Opens a task; its lanes, dependencies and buffers follow. */
static struct ff_task *task_begin(
		struct ff_lowering *l, enum ff_task_kind kind, const struct ff_step *s)
{
	struct ff_task *t = &l->r.tasks[l->r.n_tasks++];

	*t = (struct ff_task){.kind = kind,
			.pass = ff_phase_pass(s->phase),
			.again = s->phase == FF_PHASE_RECOMPUTE,
			.micro = s->micro,
			.node = FF_NONE,
			.part = FF_NONE,
			.device = FF_NONE,
			.edge = FF_NONE,
			.bucket = FF_NONE,
			.stage = FF_NONE,
			.first_lane = l->lanes.n,
			.first_dep = l->deps.n};
	return t;
}

static void depend(struct ff_lowering *l, uint32_t task)
{
	struct ff_task *t = &l->r.tasks[l->r.n_tasks - 1];

	if (task == FF_NONE)
		return;
	push(l, &l->deps, task);
	t->n_deps = l->deps.n - t->first_dep;
}

static void occupy(struct ff_lowering *l, uint32_t lane)
{
	struct ff_task *t = &l->r.tasks[l->r.n_tasks - 1];

	push(l, &l->lanes, lane);
	t->n_lanes = l->lanes.n - t->first_lane;
}

static void occupy_transfer(struct ff_lowering *l, uint32_t n, const uint16_t *device)
{
	struct ff_arena_mark mark = ff_arena_mark(l->scratch);
	uint32_t *lane = ff_arena_array(l->scratch, 3 * (size_t)n, sizeof(*lane));
	uint32_t lanes = lane ? ff_transfer_lanes(l->m, n, device, lane) : 0;

	l->failed |= !lane;
	for (uint32_t i = 0; i < lanes; i++)
		occupy(l, lane[i]);
	ff_arena_rewind(l->scratch, mark);
}

/* The list at `i`, an edge or a value, of an instance. */
static uint32_t *list_of(const struct ff_lowering *l, const uint32_t *const *table, size_t i,
		uint32_t instance)
{
	return (uint32_t *)table[i * l->r.n_instances + instance];
}

/* Task of part 0 of what a phase computes of `node`. */
static uint32_t *computed(
		const struct ff_lowering *l, enum ff_phase phase, uint32_t micro, uint32_t node)
{
	return &l->compute[phase][(size_t)micro * l->g->n_nodes + node];
}

/* Where instance `i` of the value at `edge` comes from, for the consumer's part. */
static uint32_t value_from(const struct ff_lowering *l, uint32_t edge, uint32_t i, uint32_t part)
{
	uint32_t alias = l->edge[edge].forward.alias[part], from = ff_edge_source(l->g, edge);

	if (alias == FF_NONE)
		return l->moved[FF_FORWARD][(size_t)edge * l->r.n_instances + i][part];
	/* what a parameter has was written in the step before */
	if (ff_node_is_parameter(l->g, from))
		return FF_NONE;
	return *computed(l, i % 2 ? FF_PHASE_RECOMPUTE : FF_PHASE_FORWARD, i / 2, from) + alias;
}

static bool from_parameter(const struct ff_lowering *l, uint32_t edge)
{
	return ff_node_is_parameter(l->g, ff_edge_source(l->g, edge));
}

/* The instance of the gradient at `edge`: parameters have one for all micro-batches. */
static uint32_t gradient_of(const struct ff_lowering *l, uint32_t edge, uint32_t micro)
{
	return from_parameter(l, edge) ? 0 : 2 * micro;
}

/* Where the gradient at `edge` comes from, for the producer's part. */
static uint32_t gradient_from(
		const struct ff_lowering *l, uint32_t edge, uint32_t micro, uint32_t part)
{
	uint32_t alias = l->edge[edge].backward.alias[part];
	size_t at = (size_t)edge * l->r.n_instances + gradient_of(l, edge, micro);

	if (alias == FF_NONE)
		return l->moved[FF_BACKWARD][at][part];
	return *computed(l, FF_PHASE_BACKWARD, micro, l->g->edges[edge].node) + alias;
}

static uint32_t shard_new(struct ff_lowering *l, uint32_t device, int64_t bytes)
{
	return bytes ? ff_buffer_new(l, device, bytes) : FF_NONE;
}

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
			sinks[part] = shard_new(l, to->device[part],
					to->gradients ? ff_placement_gradient_bytes(to->place, part)
						      : ff_placement_bytes(to->place, part));
		ff_buffer_use(l, sinks[part]);
	}
	make_stage(l, t, mv);
}

/* A paced move waits on every device that it brings something; where moves are on compute
 * lanes they do so anyway. */
static void hold_back(struct ff_lowering *l, const struct ff_move *mv, const uint16_t *device)
{
	for (uint32_t i = 0; i < mv->n_sinks && l->m->overlap; i++)
		depend(l, l->paced[(size_t)FF_PACE * device[mv->sink[i]] + FF_PACE - 1]);
}

/* The tasks of a paced compute, which begin with `first`, are the last. */
static void keep_pace(struct ff_lowering *l, const struct ff_node_block *nb, uint32_t first)
{
	for (uint32_t p = 0; p < nb->n_parts; p++) {
		uint32_t *paced = &l->paced[(size_t)FF_PACE * nb->device[p]];

		memmove(paced + 1, paced, (FF_PACE - 1) * sizeof(*paced));
		paced[0] = first + p;
	}
}

static void emit_move(struct ff_lowering *l, const struct ff_step *s, const struct ff_move *mv)
{
	const struct ff_edge *e = &l->g->edges[s->id];
	const struct ff_value *v = &l->g->values[e->value];
	uint32_t from = v->producer, first = l->first_edge[e->value], instance;
	const struct ff_node_block *to = l->node[e->node], *source = l->node[from];
	bool back = s->phase == FF_PHASE_BACKWARD;
	struct ff_task *t = task_begin(l, FF_TASK_MOVE, s);
	uint32_t me = l->r.n_tasks - 1;
	uint32_t writer = *computed(l, s->phase, s->micro, back ? e->node : from);
	const uint32_t *sources, *sinks;
	struct ff_side side;

	t->edge = s->id;
	t->node = e->node;
	t->move = mv;
	occupy_transfer(l, mv->n_devices, mv->device);
	for (uint32_t i = 0; i < mv->n_sources && writer != FF_NONE; i++)
		depend(l, writer + mv->source[i]);
	/* what is added to must have been written */
	for (uint32_t i = 0; mv->accumulate && i < mv->n_sinks; i++)
		depend(l, gradient_from(l, first, s->micro, mv->sink[i]));
	if (s->paced)
		hold_back(l, mv, to->device);
	ff_clock_tick(l);
	instance = back ? gradient_of(l, s->id, s->micro)
			: ff_schedule_instance(&l->r, from, s->micro, t->again);
	for (uint32_t i = 0; i < mv->n_sinks; i++)
		l->moved[t->pass][(size_t)s->id * l->r.n_instances + instance][mv->sink[i]] = me;
	ff_task_ends(&l->r, t, &sources, &sinks);
	side = back ? (struct ff_side){&source->out[v->port], source->device, true}
		    : (struct ff_side){&to->in[e->slot], to->device, false};
	use_shards(l, mv, sources, (uint32_t *)sinks, &side);
	l->r.network_bytes += mv->network_bytes;
}

static void emit_moves(struct ff_lowering *l, const struct ff_step *s)
{
	const struct ff_redistribution *r = ff_moves_of(l, s);

	for (uint32_t i = 0; i < r->n_moves; i++)
		emit_move(l, s, &r->move[i]);
}

static void count_workspace(struct ff_lowering *l, const struct ff_task *t)
{
	uint32_t device = t->device, node = t->node, part = t->part;
	const struct ff_node *n = &l->g->nodes[node];
	struct ff_region box;
	struct ff_work w;
	int64_t bytes = 0;

	if (l->opt && l->opt->workspace) {
		ff_config_box(n, &l->config[node], part, &box);
		ff_work_fill(l->g, node, &box, t->pass, &w);
		bytes = ff_align64(l->opt->workspace(l->opt->ctx, &w));
	}
	/* what is added to other gradients is written aside first */
	for (uint32_t i = n->n_data; i < n->n_in; i++)
		if (ff_task_adds(&l->r, t, i))
			bytes += ff_align64(
					ff_placement_gradient_bytes(&l->node[node]->in[i], part));
	if (bytes > l->r.workspace_bytes[device])
		l->r.workspace_bytes[device] = bytes;
}

static struct ff_task *compute_begin(struct ff_lowering *l, const struct ff_step *s, uint32_t part)
{
	bool back = s->phase == FF_PHASE_BACKWARD;
	struct ff_task *t = task_begin(l, back ? FF_TASK_BACKWARD : FF_TASK_FORWARD, s);

	t->node = s->id;
	t->part = part;
	t->device = l->node[s->id]->device[part];
	occupy(l, ff_lane(l->m, FF_LANE_COMPUTE, t->device));
	count_workspace(l, t);
	return t;
}

/* What a task reads at a slot: its producer's shard, or one that was moved. */
static void use_input(struct ff_lowering *l, const struct ff_task *t, uint32_t slot)
{
	uint32_t edge = l->g->nodes[t->node].in + slot, from = ff_edge_source(l->g, edge);
	uint32_t alias = l->edge[edge].forward.alias[t->part];
	uint32_t *in = (uint32_t *)ff_task_in(&l->r, t, slot), i;

	if (alias != FF_NONE) {
		i = from_parameter(l, edge) ? 0
					    : ff_schedule_instance(&l->r, from, t->micro,
							      t->again || t->pass == FF_BACKWARD);
		in[t->part] = list_of(l, l->r.out, l->g->edges[edge].value, i)[alias];
	}
	ff_buffer_use(l, in[t->part]);
}

/* What a task reads at `edge` must have been written. */
static void depend_on_value(struct ff_lowering *l, const struct ff_task *t, uint32_t edge)
{
	bool later = t->again || t->pass == FF_BACKWARD;
	uint32_t i = ff_schedule_instance(&l->r, ff_edge_source(l->g, edge), t->micro, later);

	depend(l, value_from(l, edge, i, t->part));
}

static void emit_forward(struct ff_lowering *l, const struct ff_step *s)
{
	const struct ff_node *n = &l->g->nodes[s->id];
	const struct ff_node_block *nb = l->node[s->id];

	*computed(l, s->phase, s->micro, s->id) = l->r.n_tasks;
	for (uint32_t p = 0; p < nb->n_parts; p++) {
		const struct ff_task *t = compute_begin(l, s, p);

		for (uint32_t e = n->in; e < n->in + n->n_in; e++)
			depend_on_value(l, t, e);
		ff_clock_tick(l);
		for (uint32_t i = 0; i < n->n_in; i++)
			use_input(l, t, i);
		for (uint32_t k = 0; k < n->n_out; k++) {
			int64_t bytes = ff_placement_bytes(&nb->out[k], p);
			uint32_t *out = (uint32_t *)ff_task_out(&l->r, t, k);

			if (k + n->n_kept < n->n_out)
				out[p] = shard_new(l, nb->device[p], bytes);
			ff_buffer_use(l, out[p]);
			if (ff_op_row(n->op)->flags & FF_OP_LOSS)
				ff_buffer_keep(l, out[p]);
		}
	}
}

/* Of a prelude's part: the gradient of what the node behind it wrote. */
static uint32_t gradient_behind(struct ff_lowering *l, const struct ff_task *t)
{
	uint32_t value = l->g->nodes[ff_node_leader(l->g, t->node)].out;

	return list_of(l, l->r.dout, value, 2 * t->micro)[t->part];
}

/* Shards that take the gradient of input `edge`: the producer's own where it is
 * aliased.  Those of parameters are in their buckets already. */
static void make_din(struct ff_lowering *l, const struct ff_task *t, uint32_t edge, uint32_t alias)
{
	const struct ff_edge *e = &l->g->edges[edge];
	const struct ff_node_block *nb = l->node[e->node];
	uint32_t i = gradient_of(l, edge, t->micro), p = t->part;
	uint32_t *din = list_of(l, l->r.din, edge, i);
	uint32_t *dout = list_of(l, l->r.dout, e->value, i);
	bool pinned = from_parameter(l, edge);

	if (ff_edge_is_in_place(l->g, edge))
		din[p] = gradient_behind(l, t);
	else if (alias != FF_NONE && pinned)
		din[p] = dout[alias];
	else if (din[p] == FF_NONE || !pinned) /* else of an earlier micro-batch */
		din[p] = shard_new(
				l, nb->device[p], ff_placement_gradient_bytes(&nb->in[e->slot], p));
	if (alias != FF_NONE && !pinned)
		dout[alias] = din[p];
	ff_buffer_use(l, din[p]);
}

/* By part of the consumer: the producer's part whose gradient its own is. */
static uint32_t *invert(struct ff_lowering *l, uint32_t edge)
{
	const struct ff_edge *e = &l->g->edges[edge];
	const struct ff_redistribution *back = &l->edge[edge].backward;
	uint32_t n = l->node[e->node]->n_parts, from = ff_edge_source(l->g, edge);
	uint32_t *of = ff_arena_array(l->scratch, n, sizeof(*of));

	l->failed |= !of;
	if (!of || !back->alias)
		return NULL;
	memset(of, 0xff, n * sizeof(*of));
	for (uint32_t k = 0; k < l->node[from]->n_parts; k++)
		if (back->alias[k] != FF_NONE)
			of[back->alias[k]] = k;
	return of;
}

/* Buffers that backward of a part reads and writes. */
static void use_backward(struct ff_lowering *l, const struct ff_task *t, uint32_t *const *alias)
{
	const struct ff_node *n = &l->g->nodes[t->node];
	uint32_t flags = ff_op_row(n->op)->flags, p = t->part;

	for (uint32_t k = 0; k < n->n_out; k++) {
		bool saved = k + n->n_saved >= n->n_out;

		ff_buffer_use(l, ff_task_dout(&l->r, t, k)[p]);
		if (saved || (flags & FF_OP_BACKWARD_OUT))
			ff_buffer_use(l, ff_task_out(&l->r, t, k)[p]);
	}
	for (uint32_t i = 0; i < n->n_in; i++) {
		if (i >= n->n_data || (flags & FF_OP_BACKWARD_IN))
			use_input(l, t, i);
		if (alias[i])
			make_din(l, t, n->in + i, alias[i][p]);
	}
}

static bool takes_from(const struct ff_move *mv, uint32_t part)
{
	for (uint32_t i = 0; i < mv->n_sources; i++)
		if (mv->source[i] == part)
			return true;
	return false;
}

/* What a prelude replaces has been sent on to other parts of the node behind it. */
static void depend_on_replaced(struct ff_lowering *l, const struct ff_task *t)
{
	const struct ff_value *v = &l->g->values[l->g->nodes[ff_node_leader(l->g, t->node)].out];

	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t edge = l->g->uses[v->first_use + u];
		const struct ff_redistribution *back = &l->edge[edge].backward;
		const uint32_t *moved = l->moved[FF_BACKWARD]
						[(size_t)edge * l->r.n_instances + 2 * t->micro];

		for (uint32_t i = 0; i < back->n_moves; i++)
			if (back->alias[t->part] != FF_NONE &&
					takes_from(&back->move[i], back->alias[t->part]))
				depend(l, moved[back->move[i].sink[0]]);
	}
}

/* What backward of a part waits for: its own forward, what was made again for it, the
 * gradients of what it made. */
static void depend_backward(struct ff_lowering *l, const struct ff_task *t)
{
	const struct ff_node *n = &l->g->nodes[t->node];
	uint32_t again = *computed(l, FF_PHASE_RECOMPUTE, t->micro, t->node);

	depend(l, *computed(l, FF_PHASE_FORWARD, t->micro, t->node) + t->part);
	if (again != FF_NONE)
		depend(l, again + t->part);
	for (uint32_t e = n->in; e < n->in + n->n_in; e++)
		if (l->r.again[ff_edge_source(l->g, e)] && ff_edge_read_backward(l->g, e))
			depend_on_value(l, t, e);
	for (uint32_t k = 0; k < n->n_out; k++) {
		const struct ff_value *v = &l->g->values[n->out + k];

		for (uint32_t u = 0; u < v->n_uses; u++) {
			uint32_t edge = l->g->uses[v->first_use + u];

			if (ff_edge_needs_grad(l->g, edge))
				depend(l, gradient_from(l, edge, t->micro, t->part));
		}
	}
	if (ff_node_is_prelude(l->g, t->node))
		depend_on_replaced(l, t);
}

static void emit_backward(struct ff_lowering *l, const struct ff_step *s)
{
	const struct ff_node *n = &l->g->nodes[s->id];
	struct ff_arena_mark mark = ff_arena_mark(l->scratch);
	uint32_t *alias[FF_MAX_INPUTS] = {0};

	for (uint32_t i = 0; i < n->n_in; i++)
		alias[i] = invert(l, n->in + i);
	*computed(l, s->phase, s->micro, s->id) = l->r.n_tasks;
	for (uint32_t p = 0; p < l->node[s->id]->n_parts; p++) {
		const struct ff_task *t = compute_begin(l, s, p);

		depend_backward(l, t);
		ff_clock_tick(l);
		use_backward(l, t, alias);
	}
	ff_arena_rewind(l->scratch, mark);
}

/* Tasks that write the gradient of one part of a parameter last. */
static void depend_on_gradient(struct ff_lowering *l, uint32_t param, uint32_t part)
{
	const struct ff_value *v = &l->g->values[l->g->nodes[param].out];

	for (uint32_t u = 0; u < v->n_uses; u++)
		depend(l, gradient_from(l, l->g->uses[v->first_use + u], l->s->micro_batches - 1,
					  part));
}

/* Moves that bring one part of a parameter to its readers: it must not change before. */
static void depend_on_readers(struct ff_lowering *l, uint32_t param, uint32_t part)
{
	const struct ff_value *v = &l->g->values[l->g->nodes[param].out];

	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t edge = l->g->uses[v->first_use + u];
		const struct ff_redistribution *r = &l->edge[edge].forward;
		uint32_t **moved = l->moved[FF_FORWARD] + (size_t)edge * l->r.n_instances;

		for (uint32_t i = 0; i < r->n_moves; i++)
			for (uint32_t k = 0; k < l->r.n_instances; k++)
				if (moved[k] && takes_from(&r->move[i], part))
					depend(l, moved[k][r->move[i].sink[0]]);
	}
}

/* What uses a bucket's members on `device`, or on all (FF_NONE), before their update. */
static void depend_on_members(struct ff_lowering *l, uint32_t bucket, uint32_t device)
{
	const struct ff_bucketing *b = &l->buckets;

	for (uint32_t i = b->bucket[bucket].first; i != FF_NONE; i = b->member[i].next) {
		uint32_t param = b->member[i].param;
		const struct ff_node_block *nb = l->node[param];

		for (uint32_t p = b->member[i].cell; p < nb->n_parts; p += nb->out->cells)
			if (device == FF_NONE || nb->device[p] == device) {
				depend_on_gradient(l, param, p);
				depend_on_readers(l, param, p);
			}
	}
}

static void emit_sync(struct ff_lowering *l, const struct ff_step *s, uint32_t bucket)
{
	const struct ff_bucket_build *b = &l->buckets.bucket[bucket];

	if (b->n_devices < 2 || !b->synced)
		return;
	l->sync_task[bucket] = l->r.n_tasks;
	task_begin(l, FF_TASK_SYNC, s)->bucket = bucket;
	occupy_transfer(l, b->n_devices, b->device);
	depend_on_members(l, bucket, FF_NONE);
	ff_clock_tick(l);
	l->r.network_bytes += 2 * (int64_t)(b->n_devices - 1) * b->bytes;
}

/* Of the one bucket that holds it, the norm of all gradients: shares of it, then their sum. */
static void emit_norm(struct ff_lowering *l, const struct ff_step *s)
{
	const struct ff_bucket *all = &l->r.buckets[l->r.clip];
	uint32_t first = l->r.n_tasks, end;

	for (uint32_t i = 0; i < l->buckets.n_buckets; i++)
		for (uint32_t d = 0; d < l->buckets.bucket[i].n_devices; d++) {
			struct ff_task *t = task_begin(l, FF_TASK_NORM, s);

			t->bucket = i;
			t->device = l->buckets.bucket[i].device[d];
			if (l->r.workspace_bytes[t->device] < FF_NORM_SCRATCH)
				l->r.workspace_bytes[t->device] = FF_NORM_SCRATCH;
			occupy(l, ff_lane(l->m, FF_LANE_COMPUTE, t->device));
			if (l->sync_task[i] != FF_NONE)
				depend(l, l->sync_task[i]);
			else
				depend_on_members(l, i, t->device);
			ff_clock_tick(l);
		}
	end = l->r.n_tasks;
	l->sync_task[l->r.clip] = end - 1;
	if (all->n_devices < 2)
		return;
	l->sync_task[l->r.clip] = end;
	task_begin(l, FF_TASK_SYNC, s)->bucket = l->r.clip;
	occupy_transfer(l, all->n_devices, all->device);
	for (uint32_t i = first; i < end; i++)
		depend(l, i);
	ff_clock_tick(l);
	l->r.network_bytes += 2 * (int64_t)(all->n_devices - 1) * all->bytes;
}

static void emit_updates(struct ff_lowering *l, const struct ff_step *s)
{
	if (l->r.clip != FF_NONE && l->buckets.n_buckets)
		emit_norm(l, s);

	for (uint32_t i = 0; i < l->buckets.n_buckets; i++)
		for (uint32_t d = 0; d < l->buckets.bucket[i].n_devices; d++) {
			struct ff_task *t = task_begin(l, FF_TASK_UPDATE, s);

			t->bucket = i;
			t->device = l->buckets.bucket[i].device[d];
			occupy(l, ff_lane(l->m, FF_LANE_COMPUTE, t->device));
			if (l->sync_task[i] != FF_NONE)
				depend(l, l->sync_task[i]);
			else
				depend_on_members(l, i, t->device);
			if (l->r.clip != FF_NONE)
				depend(l, l->sync_task[l->r.clip]);
			ff_clock_tick(l);
		}
}

/* Buckets whose gradients `node` completes. */
static void emit_syncs(struct ff_lowering *l, const struct ff_step *s)
{
	for (uint32_t b = l->buckets.first_at[s->id]; b != FF_NONE;
			b = l->buckets.bucket[b].next_at)
		emit_sync(l, s, b);
}

static void emit_step(struct ff_lowering *l, const struct ff_step *s)
{
	uint32_t first;

	switch (s->kind) {
	case FF_STEP_MOVES:
		emit_moves(l, s);
		break;
	case FF_STEP_COMPUTE:
		first = l->r.n_tasks;
		if (s->phase == FF_PHASE_BACKWARD)
			emit_backward(l, s);
		else
			emit_forward(l, s);
		if (s->paced)
			keep_pace(l, l->node[s->id], first);
		break;
	case FF_STEP_SYNC:
		emit_syncs(l, s);
		break;
	case FF_STEP_UPDATE:
		emit_updates(l, s);
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
