/* Updates where a strategy puts them: what moves and what is held, in closed form.
 * SPDX-License-Identifier: Apache-2.0 */
#include "updates.h"

#include "check_main.h"
#include "ff/program.h"

static uint32_t count_messages(const struct ff_move *mv, int64_t bytes)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < mv->n_pieces; i++)
		if (mv->piece[i].from != mv->piece[i].to) {
			ck_assert_int_eq(ff_region_volume(&mv->piece[i].region) *
							 ff_dtype_bytes(mv->type),
					bytes);
			n++;
		}
	return n;
}

/* Of a parameter of n bytes in float32: what goes over the network either way. */
static void check_update(const struct ff_schedule *s, enum kind kind, uint32_t p, uint32_t edge)
{
	const struct ff_value *v = &s->graph->values[s->graph->edges[edge].value];
	const struct ff_move *there = only_move(s, edge, FF_FORWARD);
	const struct ff_move *back = only_move(s, edge, FF_BACKWARD);
	int64_t n = FF_F32_BYTES, read;

	for (uint32_t i = 0; i < v->rank; i++)
		n *= v->shape[i];
	read = n / FF_F32_BYTES * ff_dtype_bytes(v->dtype);
	if (kind == FOLLOWING) {
		ck_assert(!there && !back);
		return;
	}
	ck_assert_ptr_nonnull(back);
	ck_assert_ptr_nonnull(there);
	ck_assert_int_eq(there->network_bytes, (int64_t)(p - 1) * read);
	ck_assert_int_eq(there->type, v->dtype);
	ck_assert_int_eq(back->type, FF_F32);
	ck_assert_int_eq(back->network_bytes, (p - 1) * n);
	ck_assert_uint_eq(count_messages(there, read), p - 1);
	ck_assert_uint_eq(count_messages(back, n), p - 1);
}

/* What goes over the network for a parameter, but for the p - 1: an all-reduce, or a
 * reduce-scatter and an all-gather of what is read. */
static int64_t sent_bytes(const struct ff_value *v, enum kind kind)
{
	int64_t n = FF_F32_BYTES;

	for (uint32_t i = 0; i < v->rank; i++)
		n *= v->shape[i];
	if (kind == FOLLOWING)
		return 2 * array_bytes(v, FOLLOWING, 1, 0);
	return n + n / FF_F32_BYTES * ff_dtype_bytes(v->dtype);
}

/* `arrays` of each parameter: weights, gradients and as many states as `o` has; and half of
 * one where it is read in bfloat16. */
static void check_closed_forms(enum kind kind, enum ff_dtype type, uint32_t p,
		const struct ff_optimizer *o, int64_t arrays)
{
	int64_t pinned[8] = {0}, sent = 0;
	struct ff_schedule s;
	struct ff_graph g;
	struct ff_arena a;
	uint32_t syncs = 0;

	ff_arena_init(&a);
	lower_updates(kind, type, p, o, &a, &g, &s);
	for (uint32_t e = 0; e < g.n_edges; e++) {
		const struct ff_value *v = &g.values[g.edges[e].value];

		if (v->kind != FF_VALUE_PARAMETER)
			continue;
		check_update(&s, kind, p, e);
		for (uint32_t d = 0; d < (kind == SERVER ? 1 : p); d++)
			pinned[d] += (2 * arrays + (type == FF_BF16)) * array_bytes(v, kind, p, d) /
				     2;
	}
	for (uint32_t d = 0; d < 8; d++)
		ck_assert_int_eq(s.packed_offset[d] - s.workspace_bytes[d], pinned[d]);
	for (uint32_t i = 0; i < s.n_tasks; i++) {
		const struct ff_task *t = &s.tasks[i];

		syncs += ff_task_moves_bucket(t);
		if (ff_task_moves_bucket(t))
			sent += 2 * (p - 1) * s.buckets[t->bucket].bytes;
		if (ff_task_moves_edge(t))
			sent += t->move->network_bytes;
	}
	ck_assert_uint_eq(syncs, kind == FOLLOWING);
	ck_assert_int_eq(s.network_bytes, sent);
	/* in float32 as much whatever the way: an all-reduce is the other two */
	sent = 0;
	for (uint32_t i = 0; i < g.n_values; i++)
		if (g.values[i].kind == FF_VALUE_PARAMETER)
			sent += (p - 1) * sent_bytes(&g.values[i], kind);
	ck_assert_int_eq(s.network_bytes, sent);
	ff_arena_finish(&a);
}

START_TEST(closed_forms)
{
	static const enum kind kinds[] = {FOLLOWING, SERVER};

	for (int i = 0; i < 2; i++)
		for (uint32_t p = 2; p <= 8; p++)
			for (int k = 0; k < 2; k++) {
				enum ff_dtype type = k ? FF_BF16 : FF_F32;

				check_closed_forms(kinds[i], type, p, NULL, 3);
				check_closed_forms(kinds[i], type, p,
						ff_optimizer(FF_OPTIMIZER_SGD), 2);
				check_closed_forms(kinds[i], type, p,
						ff_optimizer(FF_OPTIMIZER_MOMENTUM), 3);
				check_closed_forms(kinds[i], type, p,
						ff_optimizer(FF_OPTIMIZER_ADAMW), 4);
			}
}
END_TEST

static void check_alike(enum kind one, enum kind other, enum ff_dtype type, uint32_t p)
{
	struct ff_schedule s, as;
	struct ff_graph g[2];
	struct ff_arena a;

	ff_arena_init(&a);
	lower_updates(one, type, p, NULL, &a, &g[0], &s);
	lower_updates(other, type, p, NULL, &a, &g[1], &as);
	ck_assert_uint_eq(ff_schedule_hash(&s), ff_schedule_hash(&as));
	ff_arena_finish(&a);
}

/* Where each device that reads a parameter has all that it reads, a config changes nothing, in
 * whatever way gradients travel. */
START_TEST(copies_are_as_without_a_config)
{
	for (uint32_t p = 1; p <= 4; p++)
		for (uint32_t i = 0; i < 2 * 2 * 2 * 2; i++) {
			replicas = 1 + i % 2;
			staleness = i / 4 % 2;
			codec = NULL;
			if (i / 8)
				ck_assert_int_eq(ff_codec_find("bfloat16", &codec, NULL), FF_OK);
			check_alike(REPLICATED, FOLLOWING, i / 2 % 2 ? FF_BF16 : FF_F32, p);
		}
	replicas = 1;
	staleness = 0;
	codec = NULL;
}
END_TEST

/* Each element on several of the devices that read it: as a flat bucket of so many groups. */
START_TEST(cut_with_copies)
{
	static const uint32_t of[][2] = {{2, 2}, {4, 2}, {6, 2}, {6, 3}, {8, 2}, {8, 4}};

	for (uint32_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
		copies = of[i][1];
		check_alike(SHARDED, of[i][0] == copies ? FOLLOWING : SCATTERED, FF_F32, of[i][0]);
		check_alike(SHARDED, of[i][0] == copies ? FOLLOWING : SCATTERED, FF_BF16, of[i][0]);
	}
	/* that two replicas read */
	replicas = 2;
	copies = 2;
	check_alike(SHARDED, SCATTERED, FF_F32, 4);
	copies = replicas = 1;
}
END_TEST

/* Parameters of a server are gathered again before the gradients are sent of who computed before,
 * so that they come while it computes; not two operators before. */
START_TEST(moved_are_gathered_ahead)
{
	uint32_t gathered = FF_NONE, before = FF_NONE, first = FF_NONE, n = 0;
	struct ff_schedule s;
	struct ff_graph g;
	struct ff_arena a;

	ff_arena_init(&a);
	micro_batches = 1 + (uint32_t)_i;
	again = true;
	lower_updates(SERVER, FF_F32, 4, NULL, &a, &g, &s);
	again = false;
	micro_batches = 0;
	for (uint32_t e = g.n_edges; e-- > 0;)
		if (ff_node_is_parameter(&g, ff_edge_source(&g, e)))
			first = g.edges[e].node;
	for (uint32_t i = 0; i < s.n_tasks; i++) {
		const struct ff_task *t = &s.tasks[i];

		if (t->micro != (uint32_t)_i || !ff_task_moves_edge(t) ||
				!ff_node_is_parameter(&g, ff_edge_source(&g, t->edge)))
			continue;
		if (t->phase == FF_PHASE_RECOMPUTE && gathered != g.edges[t->edge].node) {
			before = gathered;
			gathered = g.edges[t->edge].node;
		} else if (t->phase == FF_PHASE_BACKWARD) {
			uint32_t node = g.edges[t->edge].node;

			/* behind the first operator none is gathered */
			ck_assert_uint_eq(node, node == first ? gathered : before);
			n++;
		}
	}
	ck_assert_uint_ge(n, 4);
	ff_arena_finish(&a);
}
END_TEST

/* States are the only difference, and in the hash even where there are none. */
START_TEST(states_alone_differ)
{
	struct ff_schedule s[FF_OPTIMIZER_COUNT];
	struct ff_graph g[FF_OPTIMIZER_COUNT];
	struct ff_arena a;

	ff_arena_init(&a);
	for (int i = 0; i < FF_OPTIMIZER_COUNT; i++)
		lower_updates(REPLICATED, FF_F32, 4, ff_optimizer((enum ff_optimizer_id)i), &a,
				&g[i], &s[i]);
	for (int i = 1; i < FF_OPTIMIZER_COUNT; i++) {
		uint64_t hash = ff_schedule_hash(&s[i]);

		ck_assert_uint_eq(s[i].n_tasks, s[0].n_tasks);
		ck_assert_int_eq(s[i].network_bytes, s[0].network_bytes);
		for (uint32_t d = 0; d < 4; d++) {
			int64_t more = s[i].packed_offset[d] - s[0].packed_offset[d];

			ck_assert_int_gt(more, 0);
			ck_assert_int_eq(s[i].live_bytes[d] - s[0].live_bytes[d], more);
			ck_assert_int_eq(s[i].memory_bytes[d] - s[0].memory_bytes[d], more);
		}
		s[i].optimizer = s[0].optimizer;
		ck_assert_uint_ne(ff_schedule_hash(&s[i]), hash);
	}
	ff_arena_finish(&a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("update");
	TCase *c = tcase_create("update");

	tcase_add_test(c, closed_forms);
	tcase_add_test(c, copies_are_as_without_a_config);
	tcase_add_test(c, cut_with_copies);
	tcase_add_loop_test(c, moved_are_gathered_ahead, 0, 2);
	tcase_add_test(c, states_alone_differ);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
