/* Golden schedule: two branches under five kinds of splits, task by task, as
 * tests/graphs/golden/two.schedule has it.  FF_WRITE_GOLDEN=1 writes the file anew, to be
 * looked at and committed when lowering is meant to change.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "check_main.h"
#include "ff/graph_file.h"
#include "ff/json.h"
#include "ff/trace.h"
#include "two_branches.h"

static void set(const struct ff_graph *g, struct ff_strategy *s, const char *node, const char *dim)
{
	uint32_t i = ff_graph_find(g, node), d = 0;

	while (strcmp(g->nodes[i].dim[d].name, dim) != 0)
		d++;
	s->config[i].degree[d] = 2;
	s->config[i].n_parts = 2;
	s->config[i].stride[d] = 1;
}

static void write_task(const struct ff_schedule *s, uint32_t i, struct ff_out *o)
{
	const struct ff_task *t = &s->tasks[i];
	char label[64];

	ff_task_label(s, i, label, sizeof(label));
	ff_out_printf(o, "%2u %-28s", i, label);
	if (t->part != FF_NONE)
		ff_out_printf(o, " part %u", t->part);
	ff_out_printf(o, " lanes");
	for (uint32_t k = 0; k < t->n_lanes; k++)
		ff_out_printf(o, " %u", s->lanes[t->first_lane + k]);
	ff_out_printf(o, " after");
	for (uint32_t k = 0; k < t->n_deps; k++)
		ff_out_printf(o, " %u", s->deps[t->first_dep + k]);
	if (ff_task_moves_edge(t))
		ff_out_printf(o, " sends %d%s", (int)t->move->network_bytes,
				t->move->accumulate ? ", adds" : "");
	ff_out_printf(o, "\n");
}

static void write_schedule(const struct ff_schedule *s, struct ff_out *o)
{
	for (uint32_t i = 0; i < s->n_tasks; i++)
		write_task(s, i, o);
	for (uint32_t i = 0; i < s->n_buckets; i++) {
		const struct ff_bucket *b = &s->buckets[i];

		ff_out_printf(o, "bucket %u: %d bytes on", i, (int)b->bytes);
		for (uint32_t d = 0; d < b->n_devices; d++)
			ff_out_printf(o, " device %u at %d", b->device[d], (int)b->offset[d]);
		ff_out_printf(o, "\n");
	}
	for (uint32_t i = 0; i < s->n_buffers; i++) {
		const struct ff_buffer *b = &s->buffers[i];

		ff_out_printf(o, "buffer %u: device %u, ", i, b->device);
		if (b->bucket != FF_NONE)
			ff_out_printf(o, "bucket %u, ", b->bucket);
		else if (b->last == FF_NONE)
			ff_out_printf(o, "tasks %u to the end, ", b->first);
		else
			ff_out_printf(o, "tasks %u to %u, ", b->first, b->last);
		ff_out_printf(o, "%d bytes at %d\n", (int)b->bytes, (int)b->offset);
	}
	ff_out_printf(o, "memory %d %d, at once %d %d, sent %d\n", (int)s->memory_bytes[0],
			(int)s->memory_bytes[1], (int)s->live_bytes[0], (int)s->live_bytes[1],
			(int)s->network_bytes);
}

static void compare_with_file(const struct ff_out *o)
{
	static char golden[1 << 16];
	FILE *f = fopen(FF_GOLDEN "/two.schedule", "r");
	size_t n;

	ck_assert_msg(f != NULL, "there is no golden file");
	n = fread(golden, 1, sizeof(golden) - 1, f);
	golden[n] = '\0';
	fclose(f);
	ck_assert_str_eq(o->text, golden);
}

START_TEST(two_branches_as_golden)
{
	struct ff_arena a;
	struct ff_graph g;
	struct ff_machine m;
	struct ff_strategy s;
	struct ff_schedule plan;
	struct ff_error err = {0};
	struct ff_out o;

	ff_arena_init(&a);
	ff_out_init(&o);
	ck_assert_int_eq(ff_graph_parse("two", two_branches, strlen(two_branches), &a, &g, &err),
			FF_OK);
	ck_assert_int_eq(ff_machine_load("cpu2", &a, &m, &err), FF_OK);
	m.overlap = true;
	ck_assert_int_eq(ff_strategy_single(&g, 0, &a, &s, &err), FF_OK);
	set(&g, &s, "left", "sample");
	set(&g, &s, "right", "out_channel");
	set(&g, &s, "sum", "height");
	set(&g, &s, "fc", "in_feature");
	set(&g, &s, "loss", "sample");
	ck_assert_int_eq(ff_lower(&g, &m, &s, NULL, &a, &plan, &err), FF_OK);
	write_schedule(&plan, &o);
	if (getenv("FF_WRITE_GOLDEN"))
		ck_assert_int_eq(ff_out_save(&o, FF_GOLDEN "/two.schedule", &err), FF_OK);
	compare_with_file(&o);
	ff_out_finish(&o);
	ff_arena_finish(&a);
}
END_TEST

/* Loads and all-reduces have no pieces: what they move is in the region alone. */
START_TEST(every_region_is_in_the_hash)
{
	struct ff_arena a;
	struct ff_graph g;
	struct ff_machine m;
	struct ff_strategy s;
	struct ff_schedule plan;
	struct ff_error err = {0};
	uint32_t seen = 0;

	ff_arena_init(&a);
	ck_assert_int_eq(ff_graph_parse("two", two_branches, strlen(two_branches), &a, &g, &err),
			FF_OK);
	ck_assert_int_eq(ff_machine_load("cpu2", &a, &m, &err), FF_OK);
	ck_assert_int_eq(ff_strategy_data_parallel(&g, 2, &a, &s, &err), FF_OK);
	ck_assert_int_eq(ff_lower(&g, &m, &s, NULL, &a, &plan, &err), FF_OK);
	for (uint32_t i = 0; i < plan.n_tasks; i++) {
		const struct ff_move *mv = plan.tasks[i].move;
		struct ff_move changed;
		uint64_t before;

		if (!mv || mv->kind != FF_MOVE_LOAD)
			continue;
		for (int reduce = 0; reduce < 2; reduce++, seen++) {
			changed = *mv;
			changed.kind = reduce ? FF_MOVE_ALL_REDUCE : FF_MOVE_LOAD;
			plan.tasks[i].move = &changed;
			before = ff_schedule_hash(&plan);
			changed.region.lo[0]++;
			changed.region.hi[0]++;
			ck_assert_uint_ne(ff_schedule_hash(&plan), before);
		}
		plan.tasks[i].move = mv;
	}
	ck_assert_uint_gt(seen, 0);
	ff_arena_finish(&a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("schedule");
	TCase *c = tcase_create("golden");

	tcase_add_test(c, two_branches_as_golden);
	tcase_add_test(c, every_region_is_in_the_hash);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
