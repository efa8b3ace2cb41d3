/* Updates cut over groups of devices: sums among groups, which run beside those in groups where
 * both use different links.  SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"
#include "ff/machine_lanes.h"
#include "ff/schedule.h"
#include "ff/zoo.h"

#define NODE 4 /* devices of one */
#define DEVICES 16

struct plan {
	struct ff_arena a;
	struct ff_graph g;
	struct ff_machine m;
	struct ff_strategy s;
	struct ff_schedule schedule;
};

/* Data parallelism, flat, in many small buckets. */
static void open(struct plan *p, uint32_t shards, bool lane, bool scattered)
{
	struct ff_error err = {0};

	ff_arena_init(&p->a);
	ck_assert_int_eq(ff_zoo_build("mlp", DEVICES, NULL, 0, &p->a, &p->g, &err), FF_OK);
	ck_assert_int_eq(ff_machine_load("p100x16", &p->a, &p->m, &err), FF_OK);
	ck_assert_uint_eq(p->m.n_devices, DEVICES);
	ck_assert_uint_eq(p->m.nodes[0].count, NODE);
	p->m.message_lane = lane;
	ff_machine_number_cards(&p->m);
	ck_assert_int_eq(ff_strategy_data_parallel(&p->g, DEVICES, &p->a, &p->s, &err), FF_OK);
	p->s.shards = shards;
	p->s.scatter = scattered;
	p->s.bucket_bytes = 1;
	for (uint32_t i = 0; i < p->g.n_nodes; i++)
		p->s.config[i].flat = ff_node_is_parameter(&p->g, i);
	ck_assert_msg(ff_lower(&p->g, &p->m, &p->s, NULL, &p->a, &p->schedule, &err) == FF_OK, "%s",
			err.text);
}

static bool holds(const struct ff_schedule *s, const struct ff_task *t, uint32_t lane)
{
	for (uint32_t k = 0; k < t->n_lanes; k++)
		if (s->lanes[t->first_lane + k] == lane)
			return true;
	return false;
}

static bool share_lanes(
		const struct ff_schedule *s, const struct ff_task *a, const struct ff_task *b)
{
	for (uint32_t k = 0; k < a->n_lanes; k++)
		if (holds(s, b, s->lanes[a->first_lane + k]))
			return true;
	return false;
}

/* Behind what its groups have summed, and before all updates; returns whether it is beside that. */
static bool check_across(const struct plan *p, uint32_t task)
{
	const struct ff_schedule *s = &p->schedule;
	const struct ff_task *t = &s->tasks[task], *in = &s->tasks[s->deps[t->first_dep]];
	const struct ff_bucket *b = &s->buckets[t->bucket];
	int64_t groups = DEVICES / b->runs;
	uint32_t updates = 0;

	ck_assert_uint_eq(t->n_deps, 1);
	ck_assert(ff_task_moves_bucket(in) && !in->move->among.across);
	ck_assert_uint_eq(in->bucket, t->bucket);
	ck_assert_int_eq(in->move->kind, FF_MOVE_REDUCE_SCATTER);
	ck_assert_int_eq(t->move->kind, FF_MOVE_ALL_REDUCE);
	ck_assert_int_eq(in->move->network_bytes, (DEVICES - groups) * b->bytes);
	ck_assert_int_eq(t->move->network_bytes, 2 * (groups - 1) * b->bytes);
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		if (s->tasks[i].move || s->tasks[i].compute != FF_COMPUTE_UPDATE ||
				s->tasks[i].bucket != t->bucket)
			continue;
		ck_assert_uint_eq(s->deps[s->tasks[i].first_dep + s->tasks[i].n_deps - 1], task);
		updates++;
	}
	ck_assert_uint_eq(updates, DEVICES);
	for (uint32_t node = 0; node < p->m.n_nodes; node++) {
		if (!ff_node_card_lanes(&p->m, &p->m.nodes[node]))
			continue;
		ck_assert(holds(s, t, ff_lane_card(&p->m, node, 0)));
		ck_assert(holds(s, in, ff_lane_card(&p->m, node, 0)) == (b->runs > NODE));
	}
	return !share_lanes(s, in, t);
}

/* Where groups are the nodes, sums among them are beside the next bucket's in them: if there is a
 * lane for that. */
START_TEST(beside)
{
	static const uint32_t shards[] = {2, 4, 8};
	uint32_t k = (uint32_t)_i % 3, across = 0, apart = 0;
	bool lane = _i / 3 % 2;
	struct plan p;

	open(&p, shards[k], lane, _i / 6);
	for (uint32_t i = 0; i < p.schedule.n_tasks; i++)
		if (ff_task_moves_bucket(&p.schedule.tasks[i]) &&
				p.schedule.tasks[i].move->among.across) {
			apart += check_across(&p, i);
			across++;
		}
	ck_assert_uint_eq(across, p.schedule.n_buckets);
	ck_assert_uint_gt(across, 1);
	ck_assert_uint_eq(apart, lane && shards[k] == NODE ? across : 0);
	ff_arena_finish(&p.a);
}
END_TEST

/* All devices are one group, and there is nothing among groups. */
START_TEST(one_group)
{
	struct plan p;

	open(&p, DEVICES, true, false);
	for (uint32_t i = 0; i < p.schedule.n_tasks; i++)
		ck_assert(!ff_task_moves_bucket(&p.schedule.tasks[i]) ||
				!p.schedule.tasks[i].move->among.across);
	ff_arena_finish(&p.a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("shard groups");
	TCase *c = tcase_create("shard groups");

	tcase_add_loop_test(c, beside, 0, 12);
	tcase_add_test(c, one_group);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
