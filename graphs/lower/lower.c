/* Lowering: a graph, a machine and a strategy become one schedule.
 * docs/schedule.md tells how and why.  SPDX-License-Identifier: Apache-2.0 */
#include "lower/state/lowering.h"

#include <string.h>

#include "arrivals.h"
#include "buckets.h"
#include "changes.h"
#include "computes.h"
#include "delays.h"
#include "equal_devices.h"
#include "ff/instance.h"
#include "ff/micro.h"
#include "lower/memory/memory.h"
#include "room.h"
#include "tables.h"
#include "tasks.h"

/* A parameter whose readers are apart lies where all of them do. */
static int follow_apart(struct ff_lowering *l, uint32_t param, uint32_t edge, struct ff_error *err)
{
	const struct ff_block_graph blocks = ff_lowering_blocks(l);
	const struct ff_weight_group *group;
	uint16_t *list = ff_arena_array(l->a, l->m->n_devices, sizeof(*list));
	uint32_t n;
	int code = ff_readers_groups(&blocks, edge, l->a, &group, &n, err);

	if (code == FF_OK && !list)
		code = ff_fail_memory(err);
	if (code == FF_OK)
		ff_readers_follow(group, n, list, &l->config[param]);
	return code;
}

/* A parameter that is synchronised, or has no config of its own, follows the first node that reads
 * it. */
static int resolve_parameter(struct ff_lowering *l, uint32_t param, struct ff_error *err)
{
	const struct ff_block_graph blocks = ff_lowering_blocks(l);
	const struct ff_graph *g = l->g;
	const struct ff_config *own = &l->s->config[param], *reader;
	uint32_t edge = ff_value_use(g, &g->values[g->nodes[param].out], 0);
	uint16_t *list;

	l->param[param].synced = ff_param_is_synced(
			&blocks, param, own, !ff_lowering_stays(l), &l->param[param].flat);
	l->config[param] = *own;
	if (own->n_parts && !l->param[param].synced)
		return FF_OK;
	reader = &l->config[g->edges[edge].node];
	list = ff_arena_array(l->a, reader->n_parts, sizeof(*list));
	if (!list)
		return ff_fail_memory(err);
	ff_config_follow(g, edge, reader, list, &l->config[param]);
	if (l->param[param].synced && ff_readers_find(&blocks, param) == FF_READERS_APART)
		return follow_apart(l, param, edge, err);
	return FF_OK;
}

static struct ff_redistributor redistributor(const struct ff_lowering *l)
{
	return (struct ff_redistributor){.m = l->m,
			.pieces = !l->opt || l->opt->what == FF_LOWER_ALL,
			.a = l->a,
			.scratch = l->scratch};
}

/* The edge of a parameter whose gradients lie where they are summed: shards are
 * the reader's own both ways. */
static int synced_edge(struct ff_lowering *l, uint32_t edge, struct ff_error *err)
{
	const struct ff_edge *e = &l->g->edges[edge];
	const struct ff_node_block *param = l->node[ff_edge_source(l->g, edge)];
	const struct ff_node_block *reader = l->node[e->node];
	struct ff_side out = {param->out, param->device, false},
		       in = {&reader->in[e->slot], reader->device, false};
	struct ff_edge_block *b = &l->edge[edge];
	const struct ff_redistributor move = redistributor(l);
	uint32_t *back = ff_arena_array(l->a, param->n_parts, sizeof(*back));
	int code;

	if (!back)
		return ff_fail_memory(err);
	memset(back, 0xff, param->n_parts * sizeof(*back));
	code = ff_redistribute(&move, &out, &in, true, &b->forward, err);
	for (uint32_t p = 0; p < reader->n_parts && code == FF_OK; p++)
		if (b->forward.alias[p] != FF_NONE)
			back[b->forward.alias[p]] = p;
	b->backward = (struct ff_redistribution){.alias = back};
	return code;
}

static int build_edge(struct ff_lowering *l, uint32_t edge, struct ff_error *err)
{
	const struct ff_edge_builder with = {
			.g = l->g, .codec = l->r.travel.codec, .move = redistributor(l)};
	const struct ff_edge_cut cut = {.edge = edge,
			.first_use = l->sums.first[edge],
			.producer = l->node[ff_edge_source(l->g, edge)],
			.consumer = l->node[l->g->edges[edge].node]};
	struct ff_edge_block *b = &l->edge[edge];
	int code = ff_edge_block_build_pass(&with, &cut, FF_FORWARD, &b->forward, err);

	if (code < 0 || l->sums.sent[edge] != FF_NONE)
		return code;
	return ff_edge_block_build_pass(&with, &cut, FF_BACKWARD, &b->backward, err);
}

/* Gradients that are added to others are nobody's of themselves, and the sum is moved once. */
static int build_edges(struct ff_lowering *l, struct ff_error *err)
{
	const struct ff_block_graph blocks = ff_lowering_blocks(l);
	const struct ff_graph *g = l->g;
	int code = FF_OK;

	for (uint32_t k = 0; k < g->n_values; k++)
		ff_sums_find(&blocks, NULL, k, &l->sums, &l->first_edge[k]);
	for (uint32_t e = 0; e < g->n_edges && code == FF_OK; e++)
		code = l->param[ff_edge_source(g, e)].synced ? synced_edge(l, e, err)
							     : build_edge(l, e, err);
	for (uint32_t e = 0; e < g->n_edges && code == FF_OK; e++)
		if (l->sums.sent[e] != FF_NONE)
			l->edge[e].backward = (struct ff_redistribution){
					.alias = l->edge[l->sums.sent[e]].backward.alias};
	return code;
}

/* What is moved for another use need not be moved again. */
static void find_sharing(struct ff_lowering *l)
{
	const struct ff_block_graph blocks = ff_lowering_blocks(l);

	for (uint32_t k = 0; k < l->g->n_values; k++)
		ff_sharing_find(&blocks, &l->program, k, l->shared_from);
	for (uint32_t e = 0; e < l->g->n_edges; e++)
		if (l->shared_from[e] != FF_NONE)
			l->edge[e].forward.n_moves = 0;
}

static int build_node(struct ff_lowering *l, uint32_t node, struct ff_error *err)
{
	struct ff_node_block *nb;

	if (!l->config[node].n_parts)
		return FF_OK;
	nb = ff_arena_alloc(l->a, sizeof(*nb));
	if (!nb)
		return ff_fail_memory(err);
	l->node[node] = nb;
	return ff_node_block_build(l->g, node, &l->config[node], l->a, nb, err);
}

static int build_blocks(struct ff_lowering *l, struct ff_error *err)
{
	const struct ff_graph *g = l->g;
	int code = FF_OK;

	/* preludes have the config of the node they go before */
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		l->config[i] = l->s->config[ff_node_leader(g, i)];
		if (!ff_node_is_parameter(g, i))
			code = build_node(l, i, err);
	}
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		if (!ff_node_is_parameter(g, i))
			continue;
		code = resolve_parameter(l, i, err);
		if (code == FF_OK)
			code = build_node(l, i, err);
	}
	return code == FF_OK ? build_edges(l, err) : code;
}

/* Backward adds to a gradient that an earlier use of the same shard has written. */
static int find_accumulation(struct ff_lowering *l, struct ff_error *err)
{
	const struct ff_block_graph blocks = ff_lowering_blocks(l);
	bool *accumulate = ff_arena_array(l->a, l->g->n_edges, sizeof(*accumulate));

	if (!accumulate)
		return ff_fail_memory(err);
	for (uint32_t e = 0; e < l->g->n_edges; e++)
		accumulate[e] = l->param[ff_edge_source(l->g, e)].synced &&
				ff_reader_adds(&blocks, e);
	l->r.accumulate = accumulate;
	l->r.added = l->sums.added;
	return FF_OK;
}

/* What operators keep has a buffer for good, the same in every micro-batch, or one for each. */
static void build_kept(struct ff_lowering *l)
{
	for (uint32_t v = 0; v < l->g->n_values; v++) {
		const struct ff_value *x = &l->g->values[v];
		const struct ff_node_block *nb = l->node[x->producer];

		for (uint32_t p = 0; ff_value_is_kept(l->g, v) && p < nb->n_parts; p++) {
			uint32_t id = FF_NONE;

			for (uint32_t i = 0; i < l->r.n_instances; i++) {
				uint32_t *out = (uint32_t *)l->r.out[(size_t)v * l->r.n_instances +
								     i];

				if (!i || (i % 2 == 0 && l->g->nodes[x->producer].kept_apart))
					id = ff_buffer_pin(l, nb->device[p], FF_KEPT,
							ff_placement_bytes(&nb->out[x->port], p),
							0);
				if (out)
					out[p] = id;
			}
		}
	}
}

static int allocate_scratch(struct ff_lowering *l, struct ff_error *err)
{
	uint32_t nodes = l->g->n_nodes, edges = l->g->n_edges, devices = l->m->n_devices;
	struct ff_arena *s = l->scratch;

	l->order = ff_arena_array(s, nodes, sizeof(*l->order));
	l->position = ff_arena_array(s, nodes, sizeof(*l->position));
	l->node = ff_arena_array(s, nodes, sizeof(*l->node));
	l->param = ff_arena_array(s, nodes, sizeof(*l->param));
	l->edge = ff_arena_array(s, edges, sizeof(*l->edge));
	l->sums.first = ff_arena_array(s, edges, sizeof(*l->sums.first));
	l->sums.sent = ff_arena_array(s, edges, sizeof(*l->sums.sent));
	l->sums.added = ff_arena_array(l->a, edges, sizeof(*l->sums.added));
	l->first_edge = ff_arena_array(s, l->g->n_values, sizeof(*l->first_edge));
	l->shared_from = ff_arena_array(s, edges, sizeof(*l->shared_from));
	for (int k = 0; k < FF_PHASE_COUNT; k++) {
		l->compute[k] = ff_arena_array(
				s, (size_t)nodes * l->s->micro_batches, sizeof(**l->compute));
		if (!l->compute[k])
			return ff_fail_memory(err);
	}
	for (int i = 0; i < FF_DEVICE_LANES; i++) {
		l->clocks.lane[i] = ff_arena_array(s, devices, sizeof(**l->clocks.lane));
		if (!l->clocks.lane[i])
			return ff_fail_memory(err);
	}
	for (int i = 0; i < 2; i++) {
		l->place[i] = ff_arena_array(s, nodes, sizeof(**l->place));
		if (!l->place[i])
			return ff_fail_memory(err);
	}
	l->told.limited = ff_arena_array(
			s, FF_PREFETCH_DISTANCE * (size_t)devices, sizeof(*l->told.limited));
	if (!l->order || !l->position || !l->node || !l->param || !l->edge || !l->sums.first ||
			!l->sums.sent || !l->sums.added || !l->first_edge || !l->shared_from ||
			!l->told.limited)
		return ff_fail_memory(err);
	memset(l->told.limited, 0xff,
			FF_PREFETCH_DISTANCE * (size_t)devices * sizeof(*l->told.limited));
	return FF_OK;
}

static int allocate(struct ff_lowering *l, struct ff_error *err)
{
	uint32_t instances = 2 * l->s->micro_batches, devices = l->m->n_devices;
	size_t values = (size_t)l->g->n_values * instances;
	size_t edges = (size_t)l->g->n_edges * instances;
	struct ff_schedule *r = &l->r;

	r->n_instances = instances;

	l->config = ff_arena_array(l->a, l->g->n_nodes, sizeof(*l->config));
	r->config = l->config;
	r->out = ff_arena_array(l->a, values, sizeof(*r->out));
	r->dout = ff_arena_array(l->a, values, sizeof(*r->dout));
	r->in = ff_arena_array(l->a, edges, sizeof(*r->in));
	r->din = ff_arena_array(l->a, edges, sizeof(*r->din));
	r->memory_bytes = ff_arena_array(l->a, devices, sizeof(*r->memory_bytes));
	r->live_bytes = ff_arena_array(l->a, devices, sizeof(*r->live_bytes));
	r->workspace_bytes = ff_arena_array(l->a, devices, sizeof(*r->workspace_bytes));
	r->packed_offset = ff_arena_array(l->a, devices, sizeof(*r->packed_offset));
	r->packed_bytes = ff_arena_array(l->a, devices, sizeof(*r->packed_bytes));
	if (!l->config || !r->out || !r->dout || !r->in || !r->din || !r->memory_bytes ||
			!r->live_bytes || !r->workspace_bytes || !r->packed_offset ||
			!r->packed_bytes)
		return ff_fail_memory(err);
	return allocate_scratch(l, err);
}

/* The graph of one micro-batch; the whole where there is one. */
static int find_graph(struct ff_lowering *l, const struct ff_graph *g, struct ff_error *err)
{
	struct ff_graph *micro = ff_arena_alloc(l->a, sizeof(*micro));

	if (!micro)
		return ff_fail_memory(err);
	l->g = l->r.graph = l->s->micro_batches == 1 ? g : micro;
	return l->s->micro_batches == 1 ? FF_OK
					: ff_graph_micro(g, l->s->micro_batches, l->a, micro, err);
}

/* The hash of a device does not know what is compressed, or late. */
static bool folds(const struct ff_lowering *l)
{
	return l->opt && l->opt->what == FF_LOWER_SIZES && !ff_lowering_stays(l);
}

static int lower(struct ff_lowering *l, const struct ff_graph *g, struct ff_error *err)
{
	int code;

	if ((code = find_graph(l, g, err)) < 0 ||
			(code = ff_strategy_check(l->g, l->s, l->m->n_devices, err)) < 0 ||
			(code = allocate(l, err)) < 0 ||
			(code = ff_strategy_order(l->g, l->s, l->scratch, l->order, err)) < 0)
		return code;
	for (uint32_t i = 0; i < l->g->n_nodes; i++)
		l->position[l->order[i]] = i;
	if ((code = build_blocks(l, err)) < 0 || (code = ff_changes_check(l, err)) < 0 ||
			(code = find_accumulation(l, err)) < 0 ||
			(code = ff_program_build(
					 l->g, l->s, l->order, l->scratch, &l->program, err)) < 0 ||
			(code = ff_buckets_gather(l, err)) < 0)
		return code;
	l->r.recomputed = ff_arena_copy(
			l->a, l->program.recomputed, l->g->n_nodes, sizeof(*l->program.recomputed));
	l->r.scattered = ff_arena_copy(
			l->a, l->buckets.scattered, l->g->n_nodes, sizeof(*l->buckets.scattered));
	if (!l->r.recomputed || !l->r.scattered)
		return ff_fail_memory(err);
	find_sharing(l);
	if ((code = ff_computes_init(l, err)) < 0 ||
			(folds(l) && (code = ff_equal_devices_find(l, err)) < 0) ||
			(code = ff_room_reserve(l, err)) < 0 ||
			(code = ff_tables_places(l, err)) < 0 ||
			(code = ff_tables_build(l, err)) < 0 ||
			(code = ff_buckets_build(l, err)) < 0)
		return code;
	if (ff_lowering_has_buffers(l))
		build_kept(l);
	ff_delays_build(l);
	if ((code = ff_arrivals_init(l, err)) < 0)
		return code;
	ff_tasks_emit(l);
	if (l->failed)
		return ff_fail_memory(err);
	if (ff_lowering_has_buffers(l))
		code = ff_memory_place(l, err);
	ff_equal_devices_copy(l);
	return code;
}

int ff_lower(const struct ff_graph *g, const struct ff_machine *m, const struct ff_strategy *s,
		const struct ff_lower_options *opt, struct ff_arena *a, struct ff_schedule *ret,
		struct ff_error *err)
{
	struct ff_lowering l = {.m = m,
			.s = s,
			.opt = opt,
			.a = a,
			.r = {.machine = m, .strategy = s, .clip = FF_NONE}};
	struct ff_arena_mark mark;
	struct ff_arena own;
	int code;

	l.r.travel = opt ? opt->travel : (struct ff_travel){0};
	l.r.optimizer = opt && opt->optimizer ? opt->optimizer : ff_optimizer_preset();
	ff_arena_init(&own);
	ff_arena_init(&l.lasting);
	l.scratch = opt && opt->scratch ? opt->scratch : &own;
	mark = ff_arena_mark(l.scratch);
	code = lower(&l, g, err);
	ff_bucketing_finish(&l.buckets);
	ff_arena_rewind(l.scratch, mark);
	ff_arena_finish(&l.lasting);
	ff_arena_finish(&own);
	if (code == FF_OK)
		*ret = l.r;
	return code;
}
