/* Schedules of random graphs under random strategies: parts tile their tensors,
 * dependencies point backward, everything read was written before, buffers
 * that live at once do not overlap, and lowering twice gives the same.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "check_main.h"
#include "ff/block.h"
#include "ff/work.h"
#include "simulator/drawn.h"
#include "two_branches.h"

static void check_tiles(const struct ff_graph *g, const struct ff_strategy *s)
{
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[i];
		const struct ff_config *c = &s->config[i];
		int64_t whole = 1, sum = 0;

		for (uint32_t d = 0; d < n->n_dims; d++)
			whole *= n->dim[d].extent;
		for (uint32_t p = 0; p < c->n_parts; p++) {
			struct ff_region a, b, both;

			ff_config_box(n, c, p, &a);
			sum += ff_region_volume(&a);
			for (uint32_t q = 0; q < p; q++) {
				ff_config_box(n, c, q, &b);
				ck_assert_int_eq(n->n_dims ? ff_region_intersect(&a, &b, &both) : 0,
						0);
			}
			for (uint32_t d = 0; d < n->n_dims; d++) {
				int32_t size = n->dim[d].extent / c->degree[d];

				ck_assert_int_ge(ff_region_size(&a, d), size);
				ck_assert_int_le(ff_region_size(&a, d), size + 1);
			}
		}
		if (c->n_parts)
			ck_assert_int_eq(sum, whole);
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
	uint32_t *task, n;
};

static void use(struct uses *u, uint32_t buffer, uint32_t task)
{
	if (buffer == FF_NONE)
		return;
	u[buffer].task = realloc(u[buffer].task, (u[buffer].n + 1) * sizeof(uint32_t));
	u[buffer].task[u[buffer].n++] = task;
}

static void use_move(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t task, struct uses *u)
{
	const struct ff_move *mv = t->move;
	uint32_t from = ff_edge_source(s->graph, t->edge);
	bool back = t->pass == FF_BACKWARD;

	for (uint32_t i = 0; i < mv->n_sources; i++)
		use(u, back ? s->din[t->edge][mv->source[i]] : s->out[from][mv->source[i]], task);
	for (uint32_t i = 0; i < mv->n_sinks; i++)
		use(u, back ? s->dout[from][mv->sink[i]] : s->in[t->edge][mv->sink[i]], task);
	for (uint32_t i = 0; i < mv->n_devices && t->stage != FF_NONE; i++) {
		ck_assert_uint_eq(s->buffers[t->stage + i].device, mv->device[i]);
		ck_assert_int_ge(s->buffers[t->stage + i].bytes, mv->stage_bytes[i]);
		use(u, t->stage + i, task);
	}
}

static void use_compute(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t task, struct uses *u)
{
	const struct ff_node *n = &s->graph->nodes[t->node];
	uint32_t flags = ff_op_row(n->op)->flags;
	bool back = t->kind == FF_TASK_BACKWARD;

	if (!back || (flags & FF_OP_BACKWARD_OUT))
		use(u, s->out[t->node][t->part], task);
	if (back)
		use(u, s->dout[t->node][t->part], task);
	for (uint32_t e = n->in; e < n->in + n->n_in; e++) {
		if (!back || (flags & FF_OP_BACKWARD_IN))
			use(u, s->in[e][t->part], task);
		if (back)
			use(u, s->din[e][t->part], task);
	}
}

static bool over(const uint8_t *reach, uint32_t n, const struct uses *a, const struct uses *b)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (!reach[(size_t)b->task[0] * n + a->task[i]])
			return false;
	return true;
}

static void check_buffers(const struct ff_schedule *s, const uint8_t *reach)
{
	struct uses *u = calloc(s->n_buffers + 1, sizeof(*u));

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_task *t = &s->tasks[i];

		if (t->kind == FF_TASK_MOVE)
			use_move(s, t, i, u);
		else if (t->kind == FF_TASK_FORWARD || t->kind == FF_TASK_BACKWARD)
			use_compute(s, t, i, u);
	}
	for (uint32_t a = 0; a < s->n_buffers; a++) {
		const struct ff_buffer *x = &s->buffers[a];

		ck_assert_int_eq(x->offset % 64, 0);
		ck_assert_int_le(x->offset + x->bytes, s->memory_bytes[x->device]);
		ck_assert_int_ge(x->offset,
				s->workspace_offset[x->device] + s->workspace_bytes[x->device]);
		/* the first task writes; all others must follow it */
		for (uint32_t i = 1; i < u[a].n; i++)
			ck_assert_msg(u[a].task[i] == u[a].task[0] ||
							reach[(size_t)u[a].task[i] * s->n_tasks +
									u[a].task[0]],
					"buffer %u: task %u may run before %u", a, u[a].task[i],
					u[a].task[0]);
		for (uint32_t b = 0; b < a; b++) {
			const struct ff_buffer *y = &s->buffers[b];

			if (x->device != y->device || x->offset >= y->offset + y->bytes ||
					y->offset >= x->offset + x->bytes || !u[a].n || !u[b].n)
				continue;
			ck_assert_msg(over(reach, s->n_tasks, &u[a], &u[b]) ||
							over(reach, s->n_tasks, &u[b], &u[a]),
					"buffers %u and %u share memory while both live", a, b);
		}
	}
	for (uint32_t a = 0; a < s->n_buffers; a++)
		free(u[a].task);
	free(u);
}

/* Every weight element of every part lies in exactly one shard of its device. */
static void check_shards(const struct ff_schedule *s)
{
	for (uint32_t i = 0; i < s->graph->n_nodes; i++) {
		const struct ff_node *n = &s->graph->nodes[i];
		const struct ff_config *c = &s->strategy->config[i];

		for (uint32_t p = 0; p < c->n_parts; p++) {
			struct ff_work w;

			ff_work_fill(s->graph, i, c, p, FF_BACKWARD, &w);
			for (uint32_t k = 0; k < n->n_weights; k++) {
				uint32_t id = s->weight[i][p * FF_MAX_WEIGHTS + k];
				bool found = false;

				ck_assert_int_eq(id != FF_NONE, w.has_weight[k]);
				if (id == FF_NONE)
					continue;
				ck_assert(ff_region_equal(&s->shards[id].region, &w.weight[k]));
				for (uint32_t d = 0; d < s->buckets[s->shards[id].bucket].n_devices;
						d++)
					found |= s->buckets[s->shards[id].bucket].device[d] ==
						 c->device[p];
				ck_assert(found);
			}
		}
	}
}

static int64_t fake_workspace(void *ctx, const struct ff_work *w)
{
	(void)ctx;
	return (int64_t)(ff_work_hash(w) % 5000);
}

static void check_schedule(struct ff_random *state, bool overlap)
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
	draw_graph(state, &a, &g);
	ck_assert_msg(ff_machine_load("cpu8", &a, &m, &err) == FF_OK, "%s", err.text);
	m.overlap = overlap;
	draw_strategy(state, &g, 1 + ff_random_below(state, 8), &a, &s);
	for (uint32_t i = 0; i < g.n_nodes; i++)
		s.priority[i] = (int32_t)ff_random_below(state, 3);
	ck_assert_msg(ff_lower(&g, &m, &s, &opt, &a, &first, &err) == FF_OK, "%s", err.text);
	ck_assert_int_eq(ff_lower(&g, &m, &s, &opt, &a, &second, &err), FF_OK);
	ck_assert_uint_eq(ff_schedule_hash(&first), ff_schedule_hash(&second));
	check_tiles(&g, &s);
	check_shards(&first);
	reach = reachability(&first, ff_lane_count(&m));
	check_buffers(&first, reach);
	free(reach);
	ff_arena_finish(&a);
}

START_TEST(schedules_are_sound)
{
	struct ff_random state = {.seed = ff_test_seed(7)};

	for (int i = 0; i < 150; i++)
		check_schedule(&state, i & 1);
}
END_TEST

START_TEST(priority_changes_the_order)
{
	struct ff_arena a;
	struct ff_graph g;
	struct ff_strategy s;
	struct ff_error err;
	uint32_t order[8], side[2], at[2] = {0, 0};

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

static Suite *suite(void)
{
	Suite *s = suite_create("lower");
	TCase *c = tcase_create("schedules");

	tcase_set_timeout(c, 0);
	tcase_add_test(c, schedules_are_sound);
	tcase_add_test(c, priority_changes_the_order);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
