/* Weights that are brought to their readers: how often, and how far ahead.
 * SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"
#include "ff/micro.h"
#include "ff/program.h"
#include "ff/schedule.h"
#include "ff/zoo.h"

static uint32_t count_moves(const struct ff_schedule *s, uint32_t edge, enum ff_pass pass)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		n += ff_task_moves_edge(&s->tasks[i]) && s->tasks[i].edge == edge &&
		     ff_task_pass(&s->tasks[i]) == pass;
	return n;
}

/* A deep mlp over `p` devices in `m` micro-batches, whose parameters are all updated on the first,
 * kept from forward to backward or brought again. */
static void lower_deep(uint32_t p, uint32_t m, bool recomputed, bool overlap, struct ff_arena *a,
		struct ff_graph *g, struct ff_schedule *ret)
{
	static const char *const sets[] = {"layers=6", "hidden=64", "image=8", "classes=16"};
	static struct ff_machine machine;
	static struct ff_strategy s;
	struct ff_error err = {0};

	ck_assert_int_eq(ff_zoo_build("mlp", m * p, sets, 4, a, g, &err), FF_OK);
	ck_assert_int_eq(ff_machine_load("cpu8", a, &machine, &err), FF_OK);
	machine.overlap = overlap;
	ck_assert_int_eq(ff_strategy_data_parallel(g, p, a, &s, &err), FF_OK);
	s.micro_batches = m;
	s.rule = FF_ORDER_1F1B;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_is_parameter(g, i)) {
			s.config[i].n_parts = s.config[i].degree[0] = 1;
			s.recompute[i] = recomputed;
		}
	ck_assert_msg(ff_lower(g, &machine, &s, NULL, a, ret, &err) == FF_OK, "%s", err.text);
}

/* Kept, each is brought once and its gradient sent back once, whatever m is; brought again, it is
 * brought 2 m times, and less lives elsewhere in the middle of the step. */
START_TEST(brought_again)
{
	for (uint32_t p = 2; p <= 8; p += 3)
		for (uint32_t m = 1; m <= 3; m++) {
			struct ff_schedule kept, recomputed;
			struct ff_graph g;
			struct ff_arena a;
			int64_t all = 0;

			ff_arena_init(&a);
			lower_deep(p, m, false, false, &a, &g, &kept);
			lower_deep(p, m, true, false, &a, &g, &recomputed);
			for (uint32_t e = 0; e < g.n_edges; e++) {
				const struct ff_value *v = &g.values[g.edges[e].value];

				if (v->kind != FF_VALUE_PARAMETER)
					continue;
				ck_assert_uint_eq(count_moves(&kept, e, FF_FORWARD), 1);
				ck_assert_uint_eq(count_moves(&recomputed, e, FF_FORWARD), 2 * m);
				ck_assert_uint_eq(count_moves(&kept, e, FF_BACKWARD), 1);
				ck_assert_uint_eq(count_moves(&recomputed, e, FF_BACKWARD), 1);
				all += v->shape[0] * (v->rank > 1 ? v->shape[1] : 1) * FF_F32_BYTES;
			}
			ck_assert_int_eq(kept.network_bytes, 2 * (p - 1) * all);
			ck_assert_int_eq(recomputed.network_bytes, (2 * m + 1) * (p - 1) * all);
			ck_assert_int_lt(recomputed.live_bytes[1], kept.live_bytes[1]);
			ff_arena_finish(&a);
		}
}
END_TEST

/* Bytes of the parameters that `node` reads, each in a buffer of its own. */
static int64_t read_bytes(const struct ff_graph *g, uint32_t node)
{
	const struct ff_node *n = &g->nodes[node];
	int64_t bytes = 0;

	for (uint32_t k = n->in + n->n_data; k < n->in + n->n_in; k++) {
		const struct ff_value *v = &g->values[g->edges[k].value];

		bytes += ff_align64(v->shape[0] * (v->rank > 1 ? v->shape[1] : 1) * FF_F32_BYTES);
	}
	return bytes;
}

/* Beside compute, inputs and parameters are brought ahead of their readers, but only to
 * FF_PREFETCH_DISTANCE readers at a time, however many micro-batches there are: what grows with
 * them is the loss of each. */
START_TEST(brought_no_further_ahead)
{
	int64_t first[2] = {0};

	for (uint32_t m = 8; m <= 32; m *= 2) {
		struct ff_schedule kept, recomputed;
		int64_t all = 0, most = 0, losses = m * 64;
		struct ff_graph g;
		struct ff_arena a;

		ff_arena_init(&a);
		lower_deep(4, m, false, true, &a, &g, &kept);
		lower_deep(4, m, true, true, &a, &g, &recomputed);
		for (uint32_t i = 0; i < g.n_nodes; i++) {
			int64_t bytes = read_bytes(&g, i);

			all += bytes;
			most = bytes > most ? bytes : most;
		}
		ck_assert_int_le(recomputed.memory_bytes[1],
				kept.memory_bytes[1] - all + FF_PREFETCH_DISTANCE * most);
		for (int k = 0; k < 2; k++) {
			int64_t bytes = (k ? recomputed : kept).memory_bytes[1] - losses;

			first[k] = m == 8 ? bytes : first[k];
			ck_assert_int_eq(bytes, first[k]);
		}
		ff_arena_finish(&a);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("brought");
	TCase *c = tcase_create("brought");

	tcase_add_test(c, brought_again);
	tcase_add_test(c, brought_no_further_ahead);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
