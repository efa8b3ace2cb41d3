/* Lowering: a graph, a machine and a strategy become one schedule.
 * docs/schedule.md tells the order and why.  SPDX-License-Identifier: Apache-2.0 */
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

/* Opens a task; its dependencies and buffers follow, then task_end(). */
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

/* Where the value at `edge` for the consumer's part comes from, forward; or
 * the gradient at `edge` for the producer's part, backward. */
static uint32_t written_by(
		const struct ff_lowering *l, uint32_t edge, enum ff_pass pass, uint32_t part)
{
	const struct ff_edge_block *b = &l->edge[edge];
	bool back = pass == FF_BACKWARD;
	uint32_t alias = (back ? b->backward.alias : b->forward.alias)[part];

	if (alias == FF_NONE)
		return l->moved[pass][edge][part];
	return back ? l->backward[l->g->edges[edge].node] + alias
		    : l->forward[ff_edge_source(l->g, edge)] + alias;
}

static bool makes_gradient(const struct ff_lowering *l, uint32_t edge)
{
	return l->edge[edge].backward.alias != NULL;
}

static const uint32_t *buffers_of(struct ff_lowering *l, uint32_t n, uint32_t **list)
{
	*list = ff_arena_array(l->a, n, sizeof(**list));
	l->failed |= !*list;
	for (uint32_t i = 0; *list && i < n; i++)
		(*list)[i] = FF_NONE;
	return *list;
}

static uint32_t shard_new(struct ff_lowering *l, uint32_t device, const struct ff_region *r)
{
	int64_t elements = ff_region_volume(r);

	return elements ? ff_buffer_new(l, device, elements) : FF_NONE;
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
		ff_buffer_use(l, ff_buffer_new(l, mv->device[i],
						 mv->stage_bytes[i] / FF_ELEMENT_BYTES));
}

/* Buffers of a move: what it reads, what it writes (made here when it is the
 * first to), and its stage. */
static void use_shards(struct ff_lowering *l, const struct ff_move *mv, const uint32_t *sources,
		uint32_t *sinks, const struct ff_node_block *nb,
		const struct ff_region *sink_region)
{
	struct ff_task *t = &l->r.tasks[l->r.n_tasks - 1];

	for (uint32_t i = 0; i < mv->n_sources; i++)
		ff_buffer_use(l, sources[mv->source[i]]);
	for (uint32_t i = 0; i < mv->n_sinks; i++) {
		uint32_t part = mv->sink[i];

		if (sinks[part] == FF_NONE)
			sinks[part] = shard_new(l, nb->device[part], &sink_region[part]);
		ff_buffer_use(l, sinks[part]);
	}
	make_stage(l, t, mv);
}

static void emit_move(
		struct ff_lowering *l, uint32_t edge, enum ff_pass pass, const struct ff_move *mv)
{
	const struct ff_edge *e = &l->g->edges[edge];
	uint32_t from = ff_edge_source(l->g, edge), first = l->first_edge[e->tensor];
	bool back = pass == FF_BACKWARD;
	struct ff_task *t = task_begin(l, FF_TASK_MOVE, pass);
	uint32_t me = l->r.n_tasks - 1;

	t->edge = edge;
	t->node = e->node;
	t->move = mv;
	occupy_transfer(l, mv->n_devices, mv->device);
	for (uint32_t i = 0; i < mv->n_sources; i++)
		depend(l, (back ? l->backward[e->node] : l->forward[from]) + mv->source[i]);
	/* what is added to must have been written */
	for (uint32_t i = 0; mv->accumulate && i < mv->n_sinks; i++)
		depend(l, written_by(l, first, FF_BACKWARD, mv->sink[i]));
	ff_clock_tick(l);
	for (uint32_t i = 0; i < mv->n_sinks; i++)
		l->moved[pass][edge][mv->sink[i]] = me;
	if (back)
		use_shards(l, mv, l->r.din[edge], (uint32_t *)l->r.dout[from], l->node[from],
				l->node[from]->out);
	else
		use_shards(l, mv, l->node[from] ? l->r.out[from] : NULL, (uint32_t *)l->r.in[edge],
				l->node[e->node], l->node[e->node]->in[e->slot]);
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
	struct ff_work w;
	int64_t bytes;

	if (!l->opt || !l->opt->workspace)
		return;
	ff_work_fill(l->g, node, &l->s->config[node], part, pass, &w);
	bytes = ff_align64(l->opt->workspace(l->opt->ctx, &w));
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
		for (uint32_t e = n->in; e < n->in + n->n_in; e++) {
			uint32_t alias = l->edge[e].forward.alias[p];

			if (alias != FF_NONE)
				((uint32_t *)l->r.in[e])[p] =
						l->r.out[ff_edge_source(l->g, e)][alias];
			ff_buffer_use(l, l->r.in[e][p]);
		}
		((uint32_t *)l->r.out[node])[p] = shard_new(l, nb->device[p], &nb->out[p]);
		ff_buffer_use(l, l->r.out[node][p]);
		if (ff_op_row(n->op)->flags & FF_OP_LOSS)
			ff_buffer_keep(l, l->r.out[node][p]);
	}
}

/* The shard that takes the gradient of input `edge` of part `p`: the
 * producer's own where it is aliased. */
static void make_din(struct ff_lowering *l, uint32_t edge, uint32_t p)
{
	const struct ff_edge *e = &l->g->edges[edge];
	const struct ff_redistribution *back = &l->edge[edge].backward;
	uint32_t from = ff_edge_source(l->g, edge), *din = (uint32_t *)l->r.din[edge];
	const struct ff_node_block *nb = l->node[e->node];

	if (!makes_gradient(l, edge))
		return;
	din[p] = shard_new(l, nb->device[p], &nb->in[e->slot][p]);
	for (uint32_t k = 0; k < l->node[from]->n_parts; k++)
		if (back->alias[k] == p)
			((uint32_t *)l->r.dout[from])[k] = din[p];
	ff_buffer_use(l, din[p]);
}

static void emit_backward(struct ff_lowering *l, uint32_t node)
{
	const struct ff_node *n = &l->g->nodes[node];
	const struct ff_tensor *t = &l->g->tensors[n->out];
	uint32_t flags = ff_op_row(n->op)->flags;

	l->backward[node] = l->r.n_tasks;
	for (uint32_t p = 0; p < l->node[node]->n_parts; p++) {
		compute_begin(l, node, p, FF_BACKWARD);
		depend(l, l->forward[node] + p);
		for (uint32_t u = 0; u < t->n_uses; u++)
			depend(l, written_by(l, l->g->uses[t->first_use + u], FF_BACKWARD, p));
		ff_clock_tick(l);
		ff_buffer_use(l, l->r.dout[node][p]);
		if (flags & FF_OP_BACKWARD_OUT)
			ff_buffer_use(l, l->r.out[node][p]);
		for (uint32_t e = n->in; e < n->in + n->n_in; e++) {
			if (flags & FF_OP_BACKWARD_IN)
				ff_buffer_use(l, l->r.in[e][p]);
			make_din(l, e, p);
		}
	}
}

/* Tasks whose gradients complete a bucket; on one device, or on all. */
static void depend_on_members(struct ff_lowering *l, uint32_t bucket)
{
	const struct ff_bucketing *b = &l->buckets;

	for (uint32_t i = b->bucket[bucket].first; i != FF_NONE; i = b->member[i].next) {
		uint32_t node = b->member[i].node;
		const struct ff_node_block *nb = l->node[node];
		uint32_t w = nb->group[b->member[i].group].weight;

		for (uint32_t p = 0; p < nb->n_parts; p++)
			if (nb->weight_group[p * FF_MAX_WEIGHTS + w] == b->member[i].group)
				depend(l, l->backward[node] + p);
	}
}

static void emit_sync(struct ff_lowering *l, uint32_t bucket)
{
	const struct ff_bucket_build *b = &l->buckets.bucket[bucket];

	if (b->n_devices < 2)
		return;
	l->synced[bucket] = l->r.n_tasks;
	task_begin(l, FF_TASK_SYNC, FF_BACKWARD)->bucket = bucket;
	occupy_transfer(l, b->n_devices, b->device);
	depend_on_members(l, bucket);
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
			if (l->synced[i] != FF_NONE)
				depend(l, l->synced[i]);
			else
				depend_on_members(l, i);
			ff_clock_tick(l);
		}
}

static void emit_all(struct ff_lowering *l)
{
	const struct ff_graph *g = l->g;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[l->order[i]];
		const struct ff_tensor *t = &g->tensors[n->out];

		if (!l->node[l->order[i]])
			continue;
		/* data is loaded just before it is used, everything else moves
		 * as soon as it is there */
		for (uint32_t e = n->in; e < n->in + n->n_in; e++)
			if (!l->node[ff_edge_source(g, e)])
				emit_moves(l, e, FF_FORWARD);
		emit_forward(l, l->order[i]);
		for (uint32_t u = 0; u < t->n_uses; u++)
			emit_moves(l, g->uses[t->first_use + u], FF_FORWARD);
	}
	for (uint32_t i = g->n_nodes; i-- > 0;) {
		uint32_t node = l->order[i];
		const struct ff_node *n = &g->nodes[node];

		if (!l->node[node] || !g->tensors[n->out].needs_grad)
			continue;
		emit_backward(l, node);
		for (uint32_t e = n->in; e < n->in + n->n_in; e++)
			emit_moves(l, e, FF_BACKWARD);
		for (uint32_t b = l->buckets.first_at[node]; b != FF_NONE;
				b = l->buckets.bucket[b].next_at)
			emit_sync(l, b);
	}
	emit_updates(l);
}

static int build_blocks(struct ff_lowering *l, struct ff_error *err)
{
	const struct ff_graph *g = l->g;
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		struct ff_node_block *nb;

		if (!l->s->config[i].n_parts)
			continue;
		nb = ff_arena_alloc(l->a, sizeof(*nb));
		if (!nb)
			return ff_fail_memory(err);
		code = ff_node_block_build(g, i, &l->s->config[i], l->a, nb, err);
		l->node[i] = nb;
	}
	for (uint32_t e = 0; e < g->n_edges && code == FF_OK; e++) {
		l->first_use[e] = ff_edge_is_first_use(g, l->position, e);
		if (l->first_use[e])
			l->first_edge[g->edges[e].tensor] = e;
		code = ff_edge_block_build(g, e, l->first_use[e], l->node[ff_edge_source(g, e)],
				l->node[g->edges[e].node], l->a, &l->scratch, &l->edge[e], err);
	}
	return code;
}

/* Room for every task and its clocks, counted from the blocks. */
static int reserve(struct ff_lowering *l, struct ff_error *err)
{
	size_t tasks = 0, clocks = 0, buffers = 0;

	for (uint32_t i = 0; i < l->g->n_nodes; i++) {
		size_t parts = l->node[i] ? l->node[i]->n_parts : 0;

		tasks += 2 * parts;
		buffers += 2 * parts;
	}
	clocks = tasks;
	for (uint32_t e = 0; e < l->g->n_edges; e++) {
		const struct ff_redistribution *r[2] = {&l->edge[e].forward, &l->edge[e].backward};

		buffers += 2 * (size_t)l->node[l->g->edges[e].node]->n_parts;
		for (int pass = 0; pass < 2; pass++) {
			tasks += r[pass]->n_moves;
			for (uint32_t i = 0; i < r[pass]->n_moves; i++) {
				clocks += r[pass]->move[i].n_devices;
				buffers += r[pass]->move[i].n_devices;
			}
		}
	}
	for (uint32_t i = 0; i < l->buckets.n_buckets; i++) {
		tasks += 1 + l->buckets.bucket[i].n_devices;
		clocks += 2 * (size_t)l->buckets.bucket[i].n_devices;
	}
	if (tasks >= FF_NONE || clocks >= FF_NONE || buffers >= FF_NONE)
		return ff_fail(err, FF_E_INPUT, "the strategy makes too many tasks (%zu)", tasks);
	l->r.tasks = ff_arena_array(l->a, tasks, sizeof(*l->r.tasks));
	l->r.buffers = ff_arena_array(l->a, buffers, sizeof(*l->r.buffers));
	l->life = ff_arena_array(&l->scratch, buffers, sizeof(*l->life));
	l->first_clock = ff_arena_array(&l->scratch, tasks, sizeof(*l->first_clock));
	l->clock = ff_arena_array(&l->scratch, clocks, sizeof(*l->clock));
	l->born = ff_arena_array(&l->scratch, clocks, sizeof(*l->born));
	return l->r.tasks && l->r.buffers && l->life && l->first_clock && l->clock && l->born
			       ? FF_OK
			       : ff_fail_memory(err);
}

/* Buckets and shards of the schedule from the bucketing. */
static int build_buckets(struct ff_lowering *l, struct ff_error *err)
{
	uint32_t groups = 0;
	int code;

	l->first_group = ff_arena_array(&l->scratch, l->g->n_nodes, sizeof(uint32_t));
	if (!l->first_group)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < l->g->n_nodes; i++) {
		l->first_group[i] = groups;
		groups += l->node[i] ? l->node[i]->n_groups : 0;
	}
	code = ff_bucketing_create(l->g->n_nodes, groups, &l->scratch, &l->buckets, err);
	if (code < 0)
		return code;
	ff_bucketing_build(&l->buckets, l->g->n_nodes, l->order, l->node,
			l->opt ? l->opt->bucket_bytes : 0);
	l->r.n_buckets = l->buckets.n_buckets;
	l->r.buckets = ff_arena_array(l->a, l->r.n_buckets, sizeof(*l->r.buckets));
	l->r.shards = ff_arena_array(l->a, groups, sizeof(*l->r.shards));
	l->shard_of = ff_arena_array(&l->scratch, groups, sizeof(*l->shard_of));
	l->synced = ff_arena_array(&l->scratch, l->r.n_buckets, sizeof(*l->synced));
	if (!l->r.buckets || !l->r.shards || !l->shard_of || !l->synced)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < l->r.n_buckets; i++) {
		const struct ff_bucket_build *b = &l->buckets.bucket[i];

		l->synced[i] = FF_NONE;
		l->r.buckets[i] = (struct ff_bucket){.n_devices = b->n_devices,
				.device = b->device,
				.first_shard = l->r.n_shards,
				.bytes = b->bytes};
		for (uint32_t k = b->first; k != FF_NONE; k = l->buckets.member[k].next) {
			const struct ff_bucket_member *m = &l->buckets.member[k];
			const struct ff_weight_group *g = &l->node[m->node]->group[m->group];

			l->shard_of[l->first_group[m->node] + m->group] = l->r.n_shards;
			l->r.shards[l->r.n_shards++] = (struct ff_shard){.node = m->node,
					.weight = g->weight,
					.bucket = i,
					.region = g->region,
					.offset = m->offset};
		}
		l->r.buckets[i].n_shards = l->r.n_shards - l->r.buckets[i].first_shard;
	}
	return FF_OK;
}

/* The tables that say which buffer or shard each part has. */
static int build_tables(struct ff_lowering *l, struct ff_error *err)
{
	const struct ff_graph *g = l->g;
	uint32_t *list;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node_block *nb = l->node[i];
		uint32_t parts = nb ? nb->n_parts : 0;

		l->forward[i] = l->backward[i] = FF_NONE;
		l->r.out[i] = buffers_of(l, parts, &list);
		l->r.dout[i] = buffers_of(l, parts, &list);
		l->r.weight[i] = buffers_of(l, parts * FF_MAX_WEIGHTS, &list);
		for (uint32_t k = 0; list && k < parts * FF_MAX_WEIGHTS; k++)
			if (k % FF_MAX_WEIGHTS < g->nodes[i].n_weights &&
					nb->weight_group[k] != FF_NONE)
				list[k] = l->shard_of[l->first_group[i] + nb->weight_group[k]];
	}
	for (uint32_t e = 0; e < g->n_edges; e++) {
		const struct ff_node_block *from = l->node[ff_edge_source(g, e)];
		uint32_t parts = l->node[g->edges[e].node]->n_parts;

		l->r.in[e] = buffers_of(l, parts, &list);
		l->r.din[e] = buffers_of(l, parts, &list);
		buffers_of(l, parts, &l->moved[FF_FORWARD][e]);
		buffers_of(l, from ? from->n_parts : 0, &l->moved[FF_BACKWARD][e]);
	}
	return l->failed ? ff_fail_memory(err) : FF_OK;
}

static int allocate(struct ff_lowering *l, struct ff_error *err)
{
	uint32_t nodes = l->g->n_nodes, edges = l->g->n_edges, devices = l->m->n_devices;
	struct ff_arena *s = &l->scratch;
	struct ff_schedule *r = &l->r;

	l->order = ff_arena_array(s, nodes, sizeof(*l->order));
	l->position = ff_arena_array(s, nodes, sizeof(*l->position));
	l->node = ff_arena_array(s, nodes, sizeof(*l->node));
	l->edge = ff_arena_array(s, edges, sizeof(*l->edge));
	l->first_use = ff_arena_array(s, edges, sizeof(*l->first_use));
	l->first_edge = ff_arena_array(s, l->g->n_tensors, sizeof(*l->first_edge));
	l->forward = ff_arena_array(s, nodes, sizeof(*l->forward));
	l->backward = ff_arena_array(s, nodes, sizeof(*l->backward));
	for (int i = 0; i < 2; i++) {
		l->moved[i] = ff_arena_array(s, edges, sizeof(**l->moved));
		l->lane_clock[i] = ff_arena_array(s, devices, sizeof(**l->lane_clock));
		if (!l->moved[i] || !l->lane_clock[i])
			return ff_fail_memory(err);
	}
	r->out = ff_arena_array(l->a, nodes, sizeof(*r->out));
	r->dout = ff_arena_array(l->a, nodes, sizeof(*r->dout));
	r->weight = ff_arena_array(l->a, nodes, sizeof(*r->weight));
	r->in = ff_arena_array(l->a, edges, sizeof(*r->in));
	r->din = ff_arena_array(l->a, edges, sizeof(*r->din));
	r->memory_bytes = ff_arena_array(l->a, devices, sizeof(*r->memory_bytes));
	r->workspace_offset = ff_arena_array(l->a, devices, sizeof(*r->workspace_offset));
	r->workspace_bytes = ff_arena_array(l->a, devices, sizeof(*r->workspace_bytes));
	if (!l->order || !l->position || !l->node || !l->edge || !l->first_use || !l->first_edge ||
			!l->forward || !l->backward || !r->out || !r->dout || !r->weight ||
			!r->in || !r->din || !r->memory_bytes || !r->workspace_offset ||
			!r->workspace_bytes)
		return ff_fail_memory(err);
	return FF_OK;
}

static int lower(struct ff_lowering *l, struct ff_error *err)
{
	int code;

	if ((code = ff_strategy_check(l->g, l->s, l->m->n_devices, err)) < 0 ||
			(code = allocate(l, err)) < 0 ||
			(code = ff_strategy_order(l->g, l->s, &l->scratch, l->order, err)) < 0)
		return code;
	for (uint32_t i = 0; i < l->g->n_nodes; i++)
		l->position[l->order[i]] = i;
	if ((code = build_blocks(l, err)) < 0 || (code = build_buckets(l, err)) < 0 ||
			(code = build_tables(l, err)) < 0 || (code = reserve(l, err)) < 0)
		return code;
	emit_all(l);
	if (l->failed)
		return ff_fail_memory(err);
	l->r.lanes = l->lanes.v;
	l->r.deps = l->deps.v;
	return ff_memory_place(l, err);
}

int ff_lower(const struct ff_graph *g, const struct ff_machine *m, const struct ff_strategy *s,
		const struct ff_lower_options *opt, struct ff_arena *a, struct ff_schedule *ret,
		struct ff_error *err)
{
	struct ff_lowering l = {.g = g,
			.m = m,
			.s = s,
			.opt = opt,
			.a = a,
			.r = {.graph = g, .machine = m, .strategy = s}};
	int code;

	ff_arena_init(&l.scratch);
	code = lower(&l, err);
	ff_arena_finish(&l.scratch);
	if (code == FF_OK)
		*ret = l.r;
	return code;
}
