/* Gradients that are synchronised: the norm of all, those of replicas, those that are late.
 * SPDX-License-Identifier: Apache-2.0 */
#include "updates.h"

#include "check_main.h"

/* Whether task `i` begins after `before`, by way of others or not. */
static bool waits_for(const struct ff_schedule *s, uint32_t i, uint32_t before)
{
	const struct ff_task *t = &s->tasks[i];

	for (uint32_t k = 0; k < t->n_deps; k++)
		if (s->deps[t->first_dep + k] == before)
			return true;
	return false;
}

/* Shares of every bucket, one a device that has it, that are all of it; what they wait for has
 * completed the gradients, and all of them go before the one sum, that before every update. */
static uint32_t check_norms(const struct ff_schedule *s)
{
	const struct ff_bucket *all = &s->buckets[s->clip];
	uint32_t n = 0, sum = FF_NONE, last = FF_NONE;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (ff_task_moves_bucket(&s->tasks[i]) && s->tasks[i].bucket == s->clip)
			sum = i;
	ck_assert(all->n_devices < 2 || sum != FF_NONE);
	for (uint32_t b = 0; b < s->clip; b++) {
		struct ff_bucket one = s->buckets[b];
		int64_t at = 0, first, end;
		uint32_t found = 0;

		/* replicas have the same elements */
		for (uint32_t d = 0; d < one.n_devices; d++)
			for (one.replica = 0; one.replica < one.replicas; one.replica++) {
				ff_norm_share(&one, d, &first, &end);
				ck_assert_int_eq(first, at);
				ck_assert_int_ge(end, first);
				at = end;
			}
		ck_assert_int_eq(at, s->buckets[b].bytes / FF_F32_BYTES);
		for (uint32_t i = 0; i < s->n_tasks; i++) {
			const struct ff_task *t = &s->tasks[i];

			if (t->compute != FF_COMPUTE_NORM || t->bucket != b)
				continue;
			ck_assert_uint_eq(t->device, s->buckets[b].device[found++]);
			ck_assert_uint_gt(t->n_deps, 0);
			ck_assert(sum == FF_NONE || waits_for(s, sum, i));
			last = i;
		}
		ck_assert_uint_eq(found, s->buckets[b].n_devices);
		n += found;
	}
	for (uint32_t i = 0; i < s->n_tasks; i++)
		ck_assert(s->tasks[i].compute != FF_COMPUTE_UPDATE ||
				waits_for(s, i, sum == FF_NONE ? last : sum));
	return n;
}

/* Clipping adds the norm's tasks, its scratch, one bucket of an element and that one's sum, and
 * changes nothing else. */
START_TEST(norm_of_all_gradients)
{
	static const uint32_t devices[] = {1, 2, 3, 8};

	for (int i = 0; i < 4 * 4 * 2; i++) {
		enum kind kind = (enum kind)(i % 4);
		enum ff_dtype type = i / 16 ? FF_BF16 : FF_F32;
		const struct ff_optimizer *o = ff_optimizer(FF_OPTIMIZER_ADAM);
		uint32_t p = devices[i / 4 % 4], updating;
		struct ff_schedule with, plain;
		struct ff_graph g[2];
		struct ff_arena a;

		ff_arena_init(&a);
		lower_clipped(kind, type, p, o, false, &a, &g[0], &plain);
		lower_clipped(kind, type, p, o, true, &a, &g[1], &with);
		updating = with.buckets[with.clip].n_devices;
		ck_assert_uint_eq(plain.clip, FF_NONE);
		ck_assert_uint_eq(updating, kind == SERVER ? 1 : p);
		ck_assert_uint_eq(
				with.n_tasks, plain.n_tasks + check_norms(&with) + (updating > 1));
		ck_assert_int_eq(with.network_bytes - plain.network_bytes,
				2 * (int64_t)(updating - 1) * ff_optimizer_align(type, 1));
		for (uint32_t d = 0; d < p; d++)
			ck_assert_int_eq(with.memory_bytes[d] - plain.memory_bytes[d],
					d >= updating ? 0
						      : FF_NORM_SCRATCH +
									ff_optimizer_bytes(o, type,
											ff_optimizer_align(
													type,
													1)));
		ck_assert_uint_ne(ff_schedule_hash(&with), ff_schedule_hash(&plain));
		ff_arena_finish(&a);
	}
}
END_TEST

/* Replicas synchronise as if each were alone: in buckets of its own, of the same layout, whatever
 * becomes of them; and every element is in one share of the norm. */
START_TEST(replicas_are_synchronised_in_buckets)
{
	static const enum kind kinds[] = {FOLLOWING, FLAT, DROPPED, SCATTERED};
	enum ff_dtype type = _i % 2 ? FF_BF16 : FF_F32;
	struct ff_schedule s, alone;
	struct ff_graph g[2];
	struct ff_arena a;

	ff_arena_init(&a);
	lower_clipped(kinds[_i / 2], type, 4, NULL, true, &a, &g[0], &alone);
	replicas = 2;
	lower_clipped(kinds[_i / 2], type, 4, NULL, true, &a, &g[1], &s);
	replicas = 1;
	ck_assert_uint_eq(s.clip, 2 * alone.clip);
	check_norms(&s);
	for (uint32_t i = 0; i < s.n_tasks; i++)
		ck_assert(!ff_task_moves_edge(&s.tasks[i]) ||
				!ff_node_is_parameter(
						&g[1], ff_edge_source(&g[1], s.tasks[i].edge)));
	for (uint32_t i = 0; i < s.clip; i++) {
		const struct ff_bucket *b = &s.buckets[i], *one = &alone.buckets[i / 2];

		ck_assert_uint_eq(b->replicas, 2);
		ck_assert_uint_eq(b->n_devices, 4);
		for (uint32_t d = 0; d < 4; d++)
			ck_assert_uint_eq(b->device[d], 4 * b->replica + d);
		ck_assert_int_eq(b->bytes, one->bytes);
		ck_assert_uint_eq(b->flat, one->flat);
		ck_assert_uint_eq(b->scattered, one->scattered);
		ck_assert_uint_eq(b->dropped, one->dropped);
	}
	for (uint32_t d = 0; d < 8; d++)
		ck_assert_int_eq(s.memory_bytes[d], alone.memory_bytes[d % 4]);
	ff_arena_finish(&a);
}
END_TEST

/* Whatever sends gradients waits for DELAYs alone, but for sums among groups, and those for
 * nothing; returns their number. */
static uint32_t check_delays(const struct ff_schedule *s)
{
	uint32_t delays = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_task *t = &s->tasks[i];
		bool sends = (ff_task_moves_bucket(t) && !t->move->among.across) ||
			     (ff_task_moves_edge(t) && ff_task_pass(t) == FF_BACKWARD &&
					     ff_node_is_parameter(s->graph,
							     ff_edge_source(s->graph, t->edge)));

		if (t->compute == FF_COMPUTE_DELAY) {
			ck_assert_uint_eq(t->n_deps, 0);
			delays++;
		}
		ck_assert(!sends || t->n_deps);
		for (uint32_t k = 0; sends && k < t->n_deps; k++)
			ck_assert_int_eq(s->tasks[s->deps[t->first_dep + k]].compute,
					FF_COMPUTE_DELAY);
	}
	return delays;
}

/* What waits at device `d`, outside of its bucket. */
static int64_t waiting_bytes(const struct ff_schedule *s, uint32_t d)
{
	int64_t bytes = 0;

	for (uint32_t i = 0; i < s->n_buffers; i++)
		if (s->buffers[i].bucket == FF_KEPT && s->buffers[i].device == d)
			bytes += s->buffers[i].bytes;
	return bytes;
}

/* Gradients that are applied late are kept so often, where backward makes them: one array each of a
 * bucket where that is where they are updated, else one of each reader; messages are the same. */
START_TEST(late_gradients)
{
	for (uint32_t i = 0; i < 4 * 4 * 3; i++) {
		static const enum kind kinds[] = {FOLLOWING, SHARDED, REPLICATED, SERVER};
		enum kind kind = kinds[i % 4];
		uint32_t p = 1 + i / 4 % 4, late = 1 + i / 16, parameters = 0;
		struct ff_schedule with, plain;
		struct ff_graph g[2];
		struct ff_arena a;
		/* on time those that are cut by their axes are not moved one by one */
		bool moved = (kind == SHARDED || kind == SERVER) && p > 1;
		bool alike = !moved || kind != SHARDED;
		int64_t gradients = 0;

		ff_arena_init(&a);
		lower_updates(kind, FF_F32, p, NULL, &a, &g[0], &plain);
		staleness = late;
		lower_updates(kind, FF_F32, p, NULL, &a, &g[1], &with);
		staleness = 0;
		for (uint32_t n = 0; n < g[1].n_nodes; n++)
			if (ff_node_is_parameter(&g[1], n)) {
				gradients += array_bytes(
						&g[1].values[g[1].nodes[n].out], FOLLOWING, p, 0);
				parameters++;
			}
		ck_assert(!alike || with.network_bytes == plain.network_bytes);
		ck_assert(!alike || with.n_buckets == plain.n_buckets);
		ck_assert_uint_eq(check_delays(&with), p * (moved ? parameters : with.n_buckets));
		ck_assert(!alike || with.n_tasks - plain.n_tasks ==
						    p * (moved ? parameters : with.n_buckets));
		for (uint32_t b = 0; b < with.n_buckets; b++)
			ck_assert_uint_eq(with.buckets[b].delay, moved ? 0 : late);
		for (uint32_t d = 0; d < p; d++) {
			ck_assert_int_eq(waiting_bytes(&with, d), moved ? late * gradients : 0);
			if (moved) /* what is due takes the place of what was made */
				ck_assert_int_ge(with.memory_bytes[d], plain.memory_bytes[d]);
			else
				ck_assert_int_eq(with.memory_bytes[d] - plain.memory_bytes[d],
						late * gradients);
		}
		ck_assert_uint_ne(ff_schedule_hash(&with), ff_schedule_hash(&plain));
		ff_arena_finish(&a);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("gradients");
	TCase *c = tcase_create("gradients");

	tcase_add_test(c, norm_of_all_gradients);
	tcase_add_loop_test(c, replicas_are_synchronised_in_buckets, 0, 8); /* in both types */
	tcase_add_test(c, late_gradients);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
