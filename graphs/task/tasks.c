/* Tasks: of every step of the program, what is done on which device, on which
 * lanes, after what, with which buffers.  SPDX-License-Identifier: Apache-2.0 */
#include "lower.h"

#include <string.h>

uint32_t ff_task_devices(const struct ff_schedule *s, const struct ff_task *t,
		const uint16_t **device, uint16_t *one)
{
	if (t->kind == FF_TASK_MOVE) {
		*device = t->move->device;
		return t->move->n_devices;
	}
	if (t->kind == FF_TASK_SYNC) {
		*device = s->buckets[t->bucket].device;
		return s->buckets[t->bucket].n_devices;
	}
	*one = (uint16_t)t->device;
	*device = one;
	return 1;
}

static void push(struct ff_lowering *l, struct ff_list *list, uint32_t v)
{
	if (list->n == list->cap) {
		uint32_t cap = list->cap ? 2 * list->cap : 256;
		uint32_t *grown = ff_arena_array(l->a, cap, sizeof(*grown));

		if (!grown) {
			l->failed = true;
			return;
		}
		if (list->n)
			memcpy(grown, list->v, list->n * sizeof(*grown));
		list->v = grown;
		list->cap = cap;
	}
	list->v[list->n++] = v;
}

/* Opens a task; its lanes, dependencies and buffers follow. */
static struct ff_task *task_begin(struct ff_lowering *l, enum ff_task_kind kind, enum ff_pass pass)
{
	struct ff_task *t = &l->r.tasks[l->r.n_tasks++];

	*t = (struct ff_task){.kind = kind,
			.pass = pass,
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
	struct ff_arena_mark mark = ff_arena_mark(&l->scratch);
	uint32_t *lane = ff_arena_array(&l->scratch, 3 * (size_t)n, sizeof(*lane));
	uint32_t lanes = lane ? ff_transfer_lanes(l->m, n, device, lane) : 0;

	l->failed |= !lane;
	for (uint32_t i = 0; i < lanes; i++)
		occupy(l, lane[i]);
	ff_arena_rewind(&l->scratch, mark);
}

static uint32_t *list_of(const uint32_t *const *table, uint32_t i)
{
	return (uint32_t *)table[i];
}

/* Where the value at `edge` for the consumer's part comes from, forward; or
 * the gradient at `edge` for the producer's part, backward. */
static uint32_t written_by(
		const struct ff_lowering *l, uint32_t edge, enum ff_pass pass, uint32_t part)
{
	const struct ff_edge_block *b = &l->edge[edge];
	bool back = pass == FF_BACKWARD;
	uint32_t alias = (back ? b->backward.alias : b->forward.alias)[part];
	uint32_t writer = back ? l->g->edges[edge].node : ff_edge_source(l->g, edge);

	if (alias == FF_NONE)
		return l->moved[pass][edge][part];
	/* what a parameter has was written in the step before */
	if (!back && ff_node_is_parameter(l->g, writer))
		return FF_NONE;
	return (back ? l->backward : l->forward)[writer] + alias;
}

static int64_t region_bytes(const struct ff_placement *p, uint32_t part, enum ff_dtype type)
{
	struct ff_region r;

	ff_placement_region(p, part, &r);
	return ff_region_volume(&r) * ff_dtype_bytes(type);
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
		uint32_t *sinks, const uint16_t *device, const struct ff_placement *place)
{
	struct ff_task *t = &l->r.tasks[l->r.n_tasks - 1];

	for (uint32_t i = 0; i < mv->n_sources; i++)
		ff_buffer_use(l, sources[mv->source[i]]);
	for (uint32_t i = 0; i < mv->n_sinks; i++) {
		uint32_t part = mv->sink[i];

		if (sinks[part] == FF_NONE)
			sinks[part] = shard_new(l, device[part], region_bytes(place, part, FF_F32));
		ff_buffer_use(l, sinks[part]);
	}
	make_stage(l, t, mv);
}

static void emit_move(
		struct ff_lowering *l, uint32_t edge, enum ff_pass pass, const struct ff_move *mv)
{
	const struct ff_edge *e = &l->g->edges[edge];
	const struct ff_value *v = &l->g->values[e->value];
	uint32_t from = v->producer, first = l->first_edge[e->value];
	const struct ff_node_block *to = l->node[e->node], *source = l->node[from];
	bool back = pass == FF_BACKWARD;
	struct ff_task *t = task_begin(l, FF_TASK_MOVE, pass);
	uint32_t me = l->r.n_tasks - 1;
	uint32_t writer = back ? l->backward[e->node] : l->forward[from];

	t->edge = edge;
	t->node = e->node;
	t->move = mv;
	occupy_transfer(l, mv->n_devices, mv->device);
	for (uint32_t i = 0; i < mv->n_sources && writer != FF_NONE; i++)
		depend(l, writer + mv->source[i]);
	/* what is added to must have been written */
	for (uint32_t i = 0; mv->accumulate && i < mv->n_sinks; i++)
		depend(l, written_by(l, first, FF_BACKWARD, mv->sink[i]));
	ff_clock_tick(l);
	for (uint32_t i = 0; i < mv->n_sinks; i++)
		l->moved[pass][edge][mv->sink[i]] = me;
	if (back)
		use_shards(l, mv, l->r.din[edge], list_of(l->r.dout, e->value), source->device,
				&source->out[v->port]);
	else
		use_shards(l, mv, source ? l->r.out[e->value] : NULL, list_of(l->r.in, edge),
				to->device, &to->in[e->slot]);
	l->r.network_bytes += mv->network_bytes;
}

static void emit_moves(struct ff_lowering *l, uint32_t edge, enum ff_pass pass)
{
	const struct ff_redistribution *r =
			pass == FF_BACKWARD ? &l->edge[edge].backward : &l->edge[edge].forward;

	for (uint32_t i = 0; i < r->n_moves; i++)
		emit_move(l, edge, pass, &r->move[i]);
}

static void count_workspace(struct ff_lowering *l, uint32_t node, uint32_t part, enum ff_pass pass)
{
	uint32_t device = l->node[node]->device[part];
	const struct ff_node *n = &l->g->nodes[node];
	struct ff_region box;
	struct ff_work w;
	int64_t bytes = 0;

	if (l->opt && l->opt->workspace) {
		ff_config_box(n, &l->config[node], part, &box);
		ff_work_fill(l->g, node, &box, pass, &w);
		bytes = ff_align64(l->opt->workspace(l->opt->ctx, &w));
	}
	/* what is added to other gradients is written aside first */
	for (uint32_t i = n->n_data; i < n->n_in && pass == FF_BACKWARD; i++)
		if (l->r.accumulate[n->in + i])
			bytes += ff_align64(region_bytes(&l->node[node]->in[i], part, FF_F32));
	if (bytes > l->r.workspace_bytes[device])
		l->r.workspace_bytes[device] = bytes;
}

static void compute_begin(struct ff_lowering *l, uint32_t node, uint32_t part, enum ff_pass pass)
{
	struct ff_task *t = task_begin(
			l, pass == FF_BACKWARD ? FF_TASK_BACKWARD : FF_TASK_FORWARD, pass);

	t->node = node;
	t->part = part;
	t->device = l->node[node]->device[part];
	occupy(l, ff_lane(l->m, FF_LANE_COMPUTE, t->device));
	count_workspace(l, node, part, pass);
}

/* What a part reads forward: its producer's shard, or one that was moved. */
static void use_input(struct ff_lowering *l, uint32_t edge, uint32_t p)
{
	uint32_t alias = l->edge[edge].forward.alias[p], *in = list_of(l->r.in, edge);

	if (alias != FF_NONE)
		in[p] = l->r.out[l->g->edges[edge].value][alias];
	ff_buffer_use(l, in[p]);
}

static void emit_forward(struct ff_lowering *l, uint32_t node)
{
	const struct ff_node *n = &l->g->nodes[node];
	const struct ff_node_block *nb = l->node[node];

	l->forward[node] = l->r.n_tasks;
	for (uint32_t p = 0; p < nb->n_parts; p++) {
		compute_begin(l, node, p, FF_FORWARD);
		for (uint32_t e = n->in; e < n->in + n->n_in; e++)
			depend(l, written_by(l, e, FF_FORWARD, p));
		ff_clock_tick(l);
		for (uint32_t e = n->in; e < n->in + n->n_in; e++)
			use_input(l, e, p);
		for (uint32_t k = 0; k < n->n_out; k++) {
			int64_t bytes = region_bytes(&nb->out[k], p, n->out_map[k].dtype);
			uint32_t *out = list_of(l->r.out, n->out + k);

			out[p] = shard_new(l, nb->device[p], bytes);
			ff_buffer_use(l, out[p]);
			if (ff_op_row(n->op)->flags & FF_OP_LOSS)
				ff_buffer_keep(l, out[p]);
		}
	}
}

/* Shards that take the gradient of input `edge`: the producer's own where it is
 * aliased.  Those of parameters are in their buckets already. */
static void make_din(struct ff_lowering *l, uint32_t edge, uint32_t p, uint32_t alias)
{
	const struct ff_edge *e = &l->g->edges[edge];
	const struct ff_node_block *nb = l->node[e->node];
	uint32_t *din = list_of(l->r.din, edge), *dout = list_of(l->r.dout, e->value);
	bool pinned = l->g->values[e->value].kind == FF_VALUE_PARAMETER;

	if (alias != FF_NONE && pinned)
		din[p] = dout[alias];
	else
		din[p] = shard_new(l, nb->device[p], region_bytes(&nb->in[e->slot], p, FF_F32));
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
	uint32_t *of = ff_arena_array(&l->scratch, n, sizeof(*of));

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
static void use_backward(
		struct ff_lowering *l, const struct ff_node *n, uint32_t p, uint32_t *const *alias)
{
	uint32_t flags = ff_op_row(n->op)->flags;

	for (uint32_t k = 0; k < n->n_out; k++) {
		bool saved = k + n->n_saved >= n->n_out;

		ff_buffer_use(l, l->r.dout[n->out + k][p]);
		if (saved || (flags & FF_OP_BACKWARD_OUT))
			ff_buffer_use(l, l->r.out[n->out + k][p]);
	}
	for (uint32_t i = 0; i < n->n_in; i++) {
		if (i >= n->n_data || (flags & FF_OP_BACKWARD_IN))
			ff_buffer_use(l, l->r.in[n->in + i][p]);
		if (alias[i])
			make_din(l, n->in + i, p, alias[i][p]);
	}
}

static void emit_backward(struct ff_lowering *l, uint32_t node)
{
	const struct ff_node *n = &l->g->nodes[node];
	struct ff_arena_mark mark = ff_arena_mark(&l->scratch);
	uint32_t *alias[FF_MAX_INPUTS];

	for (uint32_t i = 0; i < n->n_in; i++)
		alias[i] = invert(l, n->in + i);
	l->backward[node] = l->r.n_tasks;
	for (uint32_t p = 0; p < l->node[node]->n_parts; p++) {
		compute_begin(l, node, p, FF_BACKWARD);
		depend(l, l->forward[node] + p);
		for (uint32_t k = 0; k < n->n_out; k++) {
			const struct ff_value *v = &l->g->values[n->out + k];

			for (uint32_t u = 0; u < v->n_uses; u++) {
				uint32_t edge = l->g->uses[v->first_use + u];

				if (ff_edge_needs_grad(l->g, edge))
					depend(l, written_by(l, edge, FF_BACKWARD, p));
			}
		}
		ff_clock_tick(l);
		use_backward(l, n, p, alias);
	}
	ff_arena_rewind(&l->scratch, mark);
}

/* Tasks that write the gradient of one part of a parameter. */
static void depend_on_gradient(struct ff_lowering *l, uint32_t param, uint32_t part)
{
	const struct ff_value *v = &l->g->values[l->g->nodes[param].out];

	for (uint32_t u = 0; u < v->n_uses; u++)
		depend(l, written_by(l, l->g->uses[v->first_use + u], FF_BACKWARD, part));
}

/* Gradients of a bucket's members on `device`, or on all (FF_NONE). */
static void depend_on_members(struct ff_lowering *l, uint32_t bucket, uint32_t device)
{
	const struct ff_bucketing *b = &l->buckets;

	for (uint32_t i = b->bucket[bucket].first; i != FF_NONE; i = b->member[i].next) {
		uint32_t param = b->member[i].param;
		const struct ff_node_block *nb = l->node[param];

		for (uint32_t p = b->member[i].cell; p < nb->n_parts; p += nb->out->cells)
			if (device == FF_NONE || nb->device[p] == device)
				depend_on_gradient(l, param, p);
	}
}

static void emit_sync(struct ff_lowering *l, uint32_t bucket)
{
	const struct ff_bucket_build *b = &l->buckets.bucket[bucket];

	if (b->n_devices < 2 || !b->synced)
		return;
	l->sync_task[bucket] = l->r.n_tasks;
	task_begin(l, FF_TASK_SYNC, FF_BACKWARD)->bucket = bucket;
	occupy_transfer(l, b->n_devices, b->device);
	depend_on_members(l, bucket, FF_NONE);
	ff_clock_tick(l);
	l->r.network_bytes += 2 * (int64_t)(b->n_devices - 1) * b->bytes;
}

static void emit_updates(struct ff_lowering *l)
{
	for (uint32_t i = 0; i < l->buckets.n_buckets; i++)
		for (uint32_t d = 0; d < l->buckets.bucket[i].n_devices; d++) {
			struct ff_task *t = task_begin(l, FF_TASK_UPDATE, FF_BACKWARD);

			t->bucket = i;
			t->device = l->buckets.bucket[i].device[d];
			occupy(l, ff_lane(l->m, FF_LANE_COMPUTE, t->device));
			if (l->sync_task[i] != FF_NONE)
				depend(l, l->sync_task[i]);
			else
				depend_on_members(l, i, t->device);
			ff_clock_tick(l);
		}
}

/* Buckets whose gradients `node` completes. */
static void emit_syncs(struct ff_lowering *l, uint32_t node)
{
	for (uint32_t b = l->buckets.first_at[node]; b != FF_NONE; b = l->buckets.bucket[b].next_at)
		emit_sync(l, b);
}

static void emit_step(struct ff_lowering *l, const struct ff_step *s)
{
	switch (s->kind) {
	case FF_STEP_MOVES:
		emit_moves(l, s->id, s->pass);
		break;
	case FF_STEP_COMPUTE:
		if (s->pass == FF_FORWARD)
			emit_forward(l, s->id);
		else
			emit_backward(l, s->id);
		break;
	case FF_STEP_SYNC:
		emit_syncs(l, s->id);
		break;
	case FF_STEP_UPDATE:
		emit_updates(l);
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
