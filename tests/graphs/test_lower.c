/* Schedules of random graphs under random strategies: parts tile their tensors,
 * dependencies point backward, everything read was written before, buffers
 * that live at once do not overlap, and lowering twice gives the same.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "check_main.h"
#include "ff/block.h"
#include "ff/graph_file.h"
#include "ff/instance.h"
#include "ff/program.h"
#include "ff/zoo.h"
#include "parameters.h"
#include "placed.h"
#include "two_branches.h"

/* Cells tile the iteration space, their sizes differ by at most one, and replicas
 * of one are equal. */
static void check_tiles(const struct ff_schedule *s)
{
	const struct ff_graph *g = s->graph;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[i];
		const struct ff_config *c = &s->config[i];
		uint32_t cells = c->n_parts ? ff_config_cells(c) : 0;
		int64_t whole = 1, sum = 0;

		for (uint32_t d = 0; d < n->n_dims; d++)
			whole *= n->dim[d].extent;
		for (uint32_t p = 0; p < c->n_parts; p++) {
			struct ff_region a, b, both;

			ff_config_box(n, c, p, &a);
			sum += ff_region_volume(&a);
			for (uint32_t q = 0; q < p; q++) {
				ff_config_box(n, c, q, &b);
				if (p % cells == q % cells)
					ck_assert(ff_region_equal(&a, &b));
				else
					ck_assert_int_eq(ff_region_intersect(&a, &b, &both), 0);
				ck_assert_uint_ne(ff_config_device(n, c, p),
						ff_config_device(n, c, q));
			}
			for (uint32_t d = 0; d < n->n_dims; d++) {
				int32_t size = n->dim[d].extent / c->degree[d];

				ck_assert_int_ge(ff_region_size(&a, d), size);
				ck_assert_int_le(ff_region_size(&a, d), size + 1);
			}
		}
		if (c->n_parts)
			ck_assert_int_eq(sum, whole * c->replicas);
		else
			ck_assert(ff_node_is_source(g, i));
	}
}

/* reach[i * n + k]: task k is sure to be done when i starts, by dependencies
 * and lanes, transitively. */
static uint8_t *reachability(const struct ff_schedule *s, uint32_t n_lanes)
{
	uint32_t n = s->n_tasks;
	uint8_t *reach = calloc((size_t)n * n, 1);
	uint32_t *last = malloc(n_lanes * sizeof(*last));

	memset(last, 0xff, n_lanes * sizeof(*last));
	for (uint32_t i = 0; i < n; i++) {
		const struct ff_task *t = &s->tasks[i];

		for (uint32_t k = 0; k < t->n_deps + t->n_lanes; k++) {
			uint32_t from = k < t->n_deps ? s->deps[t->first_dep + k]
						      : last[s->lanes[t->first_lane + k -
									t->n_deps]];

			if (from == FF_NONE)
				continue;
			ck_assert_uint_lt(from, i);
			reach[(size_t)i * n + from] = 1;
			for (uint32_t j = 0; j < from; j++)
				reach[(size_t)i * n + j] |= reach[(size_t)from * n + j];
		}
		for (uint32_t k = 0; k < t->n_lanes; k++)
			last[s->lanes[t->first_lane + k]] = i;
	}
	free(last);
	return reach;
}

/* All uses of a buffer, as the runtime will make them. */
struct uses {
	struct {
		uint32_t task;
		bool writes;
	} * use;
	uint32_t n;
	uint32_t within; /* the buffer that it is a part of: what uses the one uses the other */
};

static void use_as(struct uses *u, uint32_t buffer, uint32_t task, bool writes)
{
	if (buffer == FF_NONE)
		return;
	if (u[buffer].within != FF_NONE)
		buffer = u[buffer].within;
	u[buffer].use = realloc(u[buffer].use, (u[buffer].n + 1) * sizeof(*u->use));
	u[buffer].use[u[buffer].n].task = task;
	u[buffer].use[u[buffer].n++].writes = writes;
}

static void reads(struct uses *u, uint32_t buffer, uint32_t task)
{
	use_as(u, buffer, task, false);
}

static void writes(struct uses *u, uint32_t buffer, uint32_t task)
{
	use_as(u, buffer, task, true);
}

static void use_move(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t task, struct uses *u)
{
	const struct ff_move *mv = t->move;
	const uint32_t *source, *sink;

	ff_task_ends(s, t, &source, &sink);
	for (uint32_t i = 0; i < mv->n_sources; i++)
		reads(u, source[mv->source[i]], task);
	for (uint32_t i = 0; i < mv->n_sinks; i++)
		writes(u, sink[mv->sink[i]], task);
	for (uint32_t i = 0; i < mv->n_devices && t->stage != FF_NONE; i++) {
		ck_assert_uint_eq(s->buffers[t->stage + i].device, mv->device[i]);
		ck_assert_int_ge(s->buffers[t->stage + i].bytes, mv->stage_bytes[i]);
		writes(u, t->stage + i, task);
	}
}

static void use_compute(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t task, struct uses *u)
{
	const struct ff_node *n = &s->graph->nodes[t->node];
	uint32_t flags = ff_op_row(n->op)->flags;
	bool back = ff_task_computes_in(t, FF_BACKWARD);

	for (uint32_t k = 0; k < n->n_out; k++) {
		bool saved = k + n->n_saved >= n->n_out;

		if (!back || saved || (flags & FF_OP_BACKWARD_OUT))
			use_as(u, ff_task_out(s, t, k)[t->part], task, !back);
		if (back)
			reads(u, ff_task_dout(s, t, k)[t->part], task);
	}
	for (uint32_t i = 0; i < n->n_in; i++) {
		if (!back || (ff_task_reads(s, t, i) &&
					     (i >= n->n_data || (flags & FF_OP_BACKWARD_IN))))
			reads(u, ff_task_in(s, t, i)[t->part], task);
		if (back && ff_task_makes(s, t, i))
			writes(u, ff_task_din(s, t, i)[t->part], task);
		if (back && ff_task_sum(s, t, i))
			writes(u, ff_task_sum(s, t, i)[t->part], task);
	}
}

/* Synchronisation and updates: the bucket's gradients, and its weights. */
static void use_bucket(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t task, struct uses *u)
{
	const struct ff_bucket *b = &s->buckets[t->bucket];

	bool moves = ff_task_moves_bucket(t), gathers = moves && ff_task_pass(t) == FF_FORWARD;
	bool runs = moves && t->move->among.across; /* they alone are there for good */

	/* of one that is dropped all weights come, of one that is scattered all gradients go */
	for (uint32_t d = 0;
			d < b->n_devices && moves && !runs && (gathers ? b->dropped : b->scattered);
			d++)
		use_as(u, gathers ? t->stage + d : ff_bucket_gradients(b, t->micro)[d], task,
				gathers);
	for (uint32_t i = b->first_shard; i < b->first_shard + b->n_shards && !b->dropped; i++) {
		const struct ff_node *n = &s->graph->nodes[s->shards[i].node];
		const struct ff_config *c = &s->config[s->shards[i].node];
		size_t own = (size_t)n->out * s->n_instances;

		for (uint32_t k = 0; k < b->n_devices; k++) {
			uint32_t p = ff_shard_part(s->shards[i].cell, ff_config_cells(c),
					b->replica, b->n_devices, k);

			if (t->compute == FF_COMPUTE_UPDATE &&
					ff_config_device(n, c, p) != t->device)
				continue;
			if (!gathers && !b->scattered)
				use_as(u, s->dout[own][p], task, moves);
			if (t->compute == FF_COMPUTE_UPDATE || gathers)
				writes(u, s->out[own][p], task);
		}
	}
}

static bool over(const uint8_t *reach, uint32_t n, const struct uses *a, const struct uses *b)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (!reach[(size_t)b->use[0].task * n + a->use[i].task])
			return false;
	return true;
}

/* A task that writes, or reads what another writes, follows whatever of these comes
 * before it in the total order.  Weights are there from the start, everything else
 * begins with being written; the update comes last. */
static void check_order(const struct ff_schedule *s, const uint8_t *reach, const struct uses *u,
		uint32_t buffer, bool weight)
{
	ck_assert_msg(u->n, "buffer %u is never used", buffer);
	ck_assert(weight || u->use[0].writes);
	for (uint32_t i = 1; i < u->n; i++)
		for (uint32_t k = 0; k < i; k++) {
			uint32_t now = u->use[i].task, then = u->use[k].task;

			if (now == then || (!u->use[i].writes && !u->use[k].writes))
				continue;
			ck_assert_msg(reach[(size_t)now * s->n_tasks + then],
					"buffer %u: task %u may run before %u", buffer, now, then);
		}
	if (s->buffers[buffer].bucket != FF_NONE && s->buffers[buffer].bucket != FF_KEPT)
		ck_assert_int_eq(s->tasks[u->use[u->n - 1].task].compute, FF_COMPUTE_UPDATE);
}

/* A part lies in what it is a part of. */
static void check_within(const struct ff_schedule *s, const struct ff_buffer *x)
{
	const struct ff_buffer *all = &s->buffers[x->within];

	ck_assert(s->buckets[x->bucket].scattered);
	ck_assert_uint_eq(all->within, FF_NONE);
	ck_assert_uint_eq(all->bucket, FF_NONE);
	ck_assert_uint_eq(all->device, x->device);
	ck_assert_uint_eq(all->first, x->first);
	ck_assert_uint_eq(all->last, x->last);
	ck_assert_int_ge(x->offset, all->offset);
	ck_assert_int_le(x->offset + x->bytes, all->offset + all->bytes);
}

/* Those of buckets lie behind the workspace, all others behind what is compressed. */
static void check_place(const struct ff_schedule *s, const struct ff_buffer *x)
{
	ck_assert_int_eq(x->offset % 64, 0);
	ck_assert_int_le(x->offset + x->bytes, s->memory_bytes[x->device]);
	ck_assert_int_ge(x->offset, s->workspace_bytes[x->device]);
	if (x->bucket != FF_NONE)
		ck_assert_int_le(x->offset + x->bytes, s->packed_offset[x->device]);
	else
		ck_assert_int_ge(x->offset,
				s->packed_offset[x->device] + s->packed_bytes[x->device]);
}

static void check_sharing(const struct ff_schedule *s, const uint8_t *reach, const struct uses *u,
		uint32_t a, uint32_t b)
{
	const struct ff_buffer *x = &s->buffers[a], *y = &s->buffers[b];

	if (x->device != y->device || x->offset >= y->offset + y->bytes ||
			y->offset >= x->offset + x->bytes)
		return;
	ck_assert_msg(x->bucket == FF_NONE && y->bucket == FF_NONE,
			"buffer %u shares memory with the bucket's buffer %u", a, b);
	ck_assert_msg(over(reach, s->n_tasks, &u[a], &u[b]) ||
					over(reach, s->n_tasks, &u[b], &u[a]),
			"buffers %u and %u share memory while both live", a, b);
}

static bool *find_weights(const struct ff_schedule *s)
{
	bool *weight = calloc(s->n_buffers + 1, sizeof(*weight));

	for (uint32_t i = 0; i < s->graph->n_nodes; i++)
		for (uint32_t p = 0; p < s->config[i].n_parts && ff_node_is_parameter(s->graph, i);
				p++)
			weight[s->out[(size_t)s->graph->nodes[i].out * s->n_instances][p]] = true;
	return weight;
}

static void check_buffers(const struct ff_schedule *s, const uint8_t *reach)
{
	struct uses *u = calloc(s->n_buffers + 1, sizeof(*u));
	bool *weight = find_weights(s);

	for (uint32_t i = 0; i < s->n_buffers; i++)
		u[i].within = s->buffers[i].within;
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_task *t = &s->tasks[i];

		if (ff_task_moves_edge(t))
			use_move(s, t, i, u);
		else if (ff_task_computes_part(t))
			use_compute(s, t, i, u);
		else
			use_bucket(s, t, i, u);
	}
	for (uint32_t a = 0; a < s->n_buffers; a++) {
		if (s->buffers[a].within != FF_NONE) {
			check_within(s, &s->buffers[a]);
			continue;
		}
		check_place(s, &s->buffers[a]);
		check_order(s, reach, &u[a], a, weight[a]);
		for (uint32_t b = 0; b < a; b++)
			if (s->buffers[b].within == FF_NONE)
				check_sharing(s, reach, u, a, b);
	}
	for (uint32_t a = 0; a < s->n_buffers; a++)
		free(u[a].use);
	free(u);
	free(weight);
}

static int64_t fake_workspace(void *ctx, const struct ff_work *w)
{
	(void)ctx;
	return (int64_t)(ff_work_hash(w) % 5000);
}

static void check_schedule(struct ff_random *state, bool overlap, bool tied, uint32_t *seen)
{
	struct ff_lower_options opt = {.bucket_bytes = 1 + ff_random_below(state, 3000),
			.workspace = fake_workspace};
	struct ff_arena a;
	struct ff_graph g;
	struct ff_machine m;
	struct ff_strategy s;
	struct ff_schedule first, second;
	struct ff_error err = {0};
	uint8_t *reach;

	ff_arena_init(&a);
	if (tied)
		draw_tied_graph(state, &a, &g);
	else
		draw_graph(state, &a, &g);
	ck_assert_msg(ff_machine_load("cpu8", &a, &m, &err) == FF_OK, "%s", err.text);
	m.overlap = overlap;
	m.message_lane = overlap && ff_random_below(state, 2);
	draw_placed(state, &g, &a, &s);
	ck_assert_msg(ff_lower(&g, &m, &s, &opt, &a, &first, &err) == FF_OK, "%s", err.text);
	ck_assert_int_eq(ff_lower(&g, &m, &s, &opt, &a, &second, &err), FF_OK);
	ck_assert_uint_eq(ff_schedule_hash(&first), ff_schedule_hash(&second));
	check_tiles(&first);
	check_parameters(&first, seen);
	reach = reachability(&first, ff_lane_count(&m));
	check_buffers(&first, reach);
	free(reach);
	ff_arena_finish(&a);
}

START_TEST(schedules_are_sound)
{
	struct ff_random state = {.seed = ff_test_seed(7)};
	/* uses of parameters in place and moved, shared ones summed in place and moved */
	uint32_t seen[4] = {0};

	for (int i = 0; i < 300; i++)
		check_schedule(&state, i & 1, i & 2, seen);
	for (int i = 0; i < 4; i++)
		ck_assert_uint_gt(seen[i], 0);
}
END_TEST

/* In each of these a message takes a gradient from where another use's is added to it in place. */
START_TEST(messages_are_sent_before_more_is_added)
{
	static const uint64_t seeds[] = {2016, 3011, 3025};
	uint32_t seen[4] = {0};

	for (uint32_t k = 0; k < sizeof(seeds) / sizeof(*seeds); k++) {
		struct ff_random state = {.seed = seeds[k]};

		for (int i = 0; i < 300; i++)
			check_schedule(&state, i & 1, i & 2, seen);
	}
}
END_TEST

START_TEST(priority_changes_the_order)
{
	struct ff_arena a;
	struct ff_graph g;
	struct ff_strategy s;
	struct ff_error err;
	uint32_t order[16], side[2], at[2] = {0, 0};

	ff_arena_init(&a);
	ck_assert_msg(ff_graph_parse("two", two_branches, strlen(two_branches), &a, &g, &err) ==
					FF_OK,
			"%s", err.text);
	side[0] = ff_graph_find(&g, "left");
	side[1] = ff_graph_find(&g, "right");
	for (int first = 0; first < 2; first++) {
		ck_assert_int_eq(ff_strategy_single(&g, 0, &a, &s, &err), FF_OK);
		s.priority[side[first]] = 1;
		ck_assert_int_eq(ff_strategy_order(&g, &s, &a, order, &err), FF_OK);
		for (uint32_t k = 0; k < g.n_nodes; k++)
			for (int i = 0; i < 2; i++)
				if (order[k] == side[i])
					at[i] = k;
		ck_assert_uint_lt(at[first], at[!first]);
	}
	ff_arena_finish(&a);
}
END_TEST

/* Readers of inputs that have theirs on the way, as steps go by. */
static void check_loads(const struct ff_graph *g, const struct ff_program *p)
{
	uint32_t on_the_way = 0, left = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		left += g->nodes[i].op == FF_OP_SLICE;
	left += 2; /* the loss and its prelude read labels */
	for (uint32_t i = 0; i < p->n; i++) {
		const struct ff_step *s = &p->step[i];
		const struct ff_node *n;
		bool reads = false;

		if (s->phase != FF_PHASE_FORWARD)
			break;
		n = &g->nodes[s->kind == FF_STEP_MOVES ? g->edges[s->id].node : s->id];
		for (uint32_t k = n->in; k < n->in + n->n_in; k++)
			reads = reads || ff_node_is_source(g, ff_edge_source(g, k));
		if (s->kind == FF_STEP_MOVES) {
			on_the_way += ff_node_is_source(g, ff_edge_source(g, s->id));
			continue;
		}
		ck_assert_uint_eq(on_the_way,
				left < FF_PREFETCH_DISTANCE ? left : FF_PREFETCH_DISTANCE);
		on_the_way -= reads;
		left -= reads;
	}
	ck_assert_uint_eq(left, 0);
}

/* The next three operators that read inputs have theirs on the way, whatever is computed
 * meanwhile; in micro-batches inputs arrive just before they are read. */
START_TEST(inputs_are_brought_ahead)
{
	struct ff_arena a;
	struct ff_graph g;
	struct ff_strategy s;
	struct ff_program p;
	struct ff_error err;
	uint32_t *order;

	ff_arena_init(&a);
	ck_assert_int_eq(ff_zoo_build("rnn", 4, NULL, 0, &a, &g, &err), FF_OK);
	ck_assert_int_eq(ff_strategy_single(&g, 0, &a, &s, &err), FF_OK);
	order = ff_arena_array(&a, g.n_nodes, sizeof(*order));
	for (uint32_t staged = 0; staged < 2; staged++) {
		for (uint32_t i = 0; i < g.n_nodes; i++)
			s.stage[i] = staged && g.nodes[i].op != FF_OP_SLICE;
		ck_assert_int_eq(ff_strategy_order(&g, &s, &a, order, &err), FF_OK);
		ck_assert_int_eq(ff_program_build(&g, &s, order, &a, &p, &err), FF_OK);
		check_loads(&g, &p);
	}
	s.micro_batches = 2;
	ck_assert_int_eq(ff_program_build(&g, &s, order, &a, &p, &err), FF_OK);
	for (uint32_t i = 0; i + 1 < p.n; i++)
		if (p.step[i].kind == FF_STEP_MOVES &&
				ff_node_is_source(&g, ff_edge_source(&g, p.step[i].id)))
			ck_assert_uint_eq(p.step[i + 1].id, g.edges[p.step[i].id].node);
	ff_arena_finish(&a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("lower");
	TCase *c = tcase_create("schedules");

	tcase_set_timeout(c, 0);
	tcase_add_test(c, schedules_are_sound);
	tcase_add_test(c, messages_are_sent_before_more_is_added);
	tcase_add_test(c, priority_changes_the_order);
	tcase_add_test(c, inputs_are_brought_ahead);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
