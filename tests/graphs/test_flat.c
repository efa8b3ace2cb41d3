/* Flat, dropped, scattered and grouped buckets: what moves, what is held, and when, in closed form.
 * SPDX-License-Identifier: Apache-2.0 */
#include "updates.h"

#include "check_main.h"
#include "ff/program.h"

/* The weights are gathered before anybody reads them, and wait for nothing. */
static void check_gathered(const struct ff_schedule *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_task *t = &s->tasks[i];

		if (!ff_task_moves_bucket(t) || ff_task_pass(t) != FF_FORWARD)
			continue;
		ck_assert_uint_eq(t->n_deps, 0);
		ck_assert(s->buckets[t->bucket].flat);
		n++;
		for (uint32_t k = 0; k < i; k++)
			ck_assert(!ff_task_computes_in(&s->tasks[k], FF_FORWARD) ||
					s->graph->nodes[s->tasks[k].node].n_in ==
							s->graph->nodes[s->tasks[k].node].n_data);
	}
	ck_assert_uint_eq(n, 1);
}

/* Flat against following: a run of states each, and the two halves of the all-reduce. */
static void check_flat(enum ff_dtype type, uint32_t p, const struct ff_optimizer *o)
{
	int64_t size = ff_dtype_bytes(type), whole, bytes;
	struct ff_schedule s, plain;
	struct ff_graph g[2];
	struct ff_arena a;

	ff_arena_init(&a);
	lower_updates(FOLLOWING, type, p, o, &a, &g[0], &plain);
	lower_updates(FLAT, type, p, o, &a, &g[1], &s);
	ck_assert_uint_eq(s.n_buckets, 1);
	whole = plain.buckets[0].bytes;
	bytes = s.buckets[0].bytes;
	ck_assert_int_eq(bytes % (p * ff_optimizer_align(type, 1)), 0);
	ck_assert_int_ge(bytes, whole);
	ck_assert_int_lt(bytes, whole + p * ff_optimizer_align(type, 1));
	for (uint32_t d = 0; d < p; d++)
		ck_assert_int_eq(s.packed_offset[d] - s.workspace_bytes[d],
				bytes + o->states * bytes / p +
						(type == FF_F32 ? bytes : bytes / p + bytes / 2));
	ck_assert_int_eq(s.network_bytes, (int64_t)(p - 1) * (bytes + bytes / FF_F32_BYTES * size));
	ck_assert_uint_eq(s.n_tasks, plain.n_tasks + 1);
	ck_assert_uint_ne(ff_schedule_hash(&s), ff_schedule_hash(&plain));
	check_gathered(&s);
	ff_arena_finish(&a);
}

START_TEST(flat_closed_forms)
{
	for (uint32_t p = 2; p <= 8; p++)
		for (uint32_t i = 0; i < FF_OPTIMIZER_COUNT; i++) {
			check_flat(FF_F32, p, ff_optimizer((enum ff_optimizer_id)i));
			check_flat(FF_BF16, p, ff_optimizer((enum ff_optimizer_id)i));
		}
}
END_TEST

/* Weights of a dropped bucket are there from their gather to who reads them last. */
static void check_lives(const struct ff_schedule *s)
{
	uint32_t gathers[2] = {0, 0};

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_task *t = &s->tasks[i];

		if (!ff_task_moves_bucket(t) || ff_task_pass(t) != FF_FORWARD)
			continue;
		gathers[t->phase == FF_PHASE_RECOMPUTE]++;
		for (uint32_t d = 0; d < s->buckets[t->bucket].n_devices; d++) {
			const struct ff_buffer *all = &s->buffers[t->stage + d];
			const struct ff_task *last = &s->tasks[all->last];

			ck_assert_uint_eq(all->first, i);
			ck_assert_uint_gt(all->last, i);
			ck_assert(ff_task_computes_in(last,
					t->phase == FF_PHASE_RECOMPUTE ? FF_BACKWARD : FF_FORWARD));
		}
	}
	ck_assert_uint_eq(gathers[0], 1);
	ck_assert_uint_eq(gathers[1], 1);
}

/* Of a bucket that is dropped each device has a run of everything, and its weights are gathered
 * twice. */
static void check_dropped(enum ff_dtype type, uint32_t p, const struct ff_optimizer *o)
{
	int64_t size = ff_dtype_bytes(type), bytes, arrays = 2 * FF_F32_BYTES;
	struct ff_schedule s, flat;
	struct ff_graph g[2];
	struct ff_arena a;

	ff_arena_init(&a);
	lower_updates(FLAT, type, p, o, &a, &g[0], &flat);
	lower_updates(DROPPED, type, p, o, &a, &g[1], &s);
	ck_assert_uint_eq(s.n_buckets, 1);
	ck_assert(s.buckets[0].dropped && !flat.buckets[0].dropped);
	bytes = s.buckets[0].bytes;
	ck_assert_int_eq(bytes, flat.buckets[0].bytes);
	arrays += o->states * FF_F32_BYTES + (type == FF_F32 ? 0 : size);
	for (uint32_t d = 0; d < p; d++)
		ck_assert_int_eq(s.packed_offset[d] - s.workspace_bytes[d],
				bytes / FF_F32_BYTES / p * arrays);
	ck_assert_int_eq(s.network_bytes,
			(int64_t)(p - 1) * (bytes + 2 * (bytes / FF_F32_BYTES * size)));
	ck_assert_uint_eq(s.n_tasks, flat.n_tasks + 1);
	ck_assert_uint_ne(ff_schedule_hash(&s), ff_schedule_hash(&flat));
	check_lives(&s);
	ff_arena_finish(&a);
}

START_TEST(dropped_closed_forms)
{
	for (uint32_t p = 2; p <= 8; p++)
		for (uint32_t i = 0; i < FF_OPTIMIZER_COUNT; i++) {
			check_dropped(FF_F32, p, ff_optimizer((enum ff_optimizer_id)i));
			check_dropped(FF_BF16, p, ff_optimizer((enum ff_optimizer_id)i));
		}
}
END_TEST

/* Data parallelism over two devices, each parameter in a bucket of its own, which is dropped. */
static void lower_dropped(
		uint32_t n_micro, struct ff_arena *a, struct ff_graph *g, struct ff_schedule *ret)
{
	static const char *const sets[] = {"layers=6", "hidden=64", "image=8"};
	const struct ff_lower_options opt = {.bucket_bytes = 1};
	static struct ff_strategy s;
	static struct ff_machine m;
	struct ff_graph micro;
	struct ff_error err = {0};

	ck_assert_int_eq(ff_zoo_build("mlp", 8, sets, 3, a, g, &err), FF_OK);
	ck_assert_int_eq(ff_machine_load("cpu2", a, &m, &err), FF_OK);
	m.overlap = true;
	ck_assert_int_eq(ff_graph_micro(g, n_micro, a, &micro, &err), FF_OK);
	ck_assert_int_eq(ff_strategy_data_parallel(&micro, 2, a, &s, &err), FF_OK);
	s.micro_batches = n_micro;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		s.config[i].flat = s.recompute[i] = ff_node_is_parameter(g, i);
	ck_assert_msg(ff_lower(g, &m, &s, &opt, a, ret, &err) == FF_OK, "%s", err.text);
}

/* What `t` waits for of gathered weights was issued between tasks `from` and `to`; how many. */
static uint32_t check_issued(
		const struct ff_schedule *s, const struct ff_task *t, uint32_t from, uint32_t to)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < t->n_deps; k++) {
		uint32_t dep = s->deps[t->first_dep + k];

		if (!ff_task_moves_bucket(&s->tasks[dep]) ||
				ff_task_pass(&s->tasks[dep]) == FF_BACKWARD)
			continue;
		ck_assert_uint_lt(dep, to);
		ck_assert(from == FF_NONE || dep > from);
		n++;
	}
	return n;
}

/* The weights of an operator are gathered while the one before it computes, not earlier; those of
 * the first of a pass just before it. */
START_TEST(dropped_are_gathered_ahead)
{
	struct ff_schedule s;
	struct ff_graph g;
	struct ff_arena a;
	uint32_t gathers = 0;

	ff_arena_init(&a);
	lower_dropped(1u + (uint32_t)_i, &a, &g, &s);
	for (uint32_t i = 0, before[2] = {FF_NONE, FF_NONE}, pass = FF_NONE; i < s.n_tasks; i++) {
		const struct ff_task *t = &s.tasks[i];
		uint32_t its = 2 * t->micro + (ff_task_pass(t) == FF_BACKWARD);

		if (!ff_task_computes_part(t) || t->device ||
				g.nodes[t->node].n_in == g.nodes[t->node].n_data)
			continue;
		if (its != pass)
			before[0] = before[1] = FF_NONE;
		pass = its;
		gathers += check_issued(&s, t, before[1], before[0] == FF_NONE ? i : before[0]);
		before[1] = before[0];
		before[0] = i;
	}
	/* of weights and bias of seven layers, forward and again */
	ck_assert_uint_eq(gathers, (1u + (uint32_t)_i) * 2 * 2 * 7);
	ff_arena_finish(&a);
}
END_TEST

/* Gradients of micro-batch `micro` of the only bucket, which is scattered, are there until task
 * `sync` has summed them; nobody adds to them what an earlier one has made. */
static void check_summed(const struct ff_schedule *s, uint32_t sync, uint32_t micro)
{
	const struct ff_bucket *b = &s->buckets[0];

	ck_assert_uint_eq(s->tasks[sync].micro, micro);
	for (uint32_t d = 0; d < b->n_devices; d++) {
		const struct ff_buffer *all = &s->buffers[ff_bucket_gradients(b, micro)[d]];
		const struct ff_task *first = &s->tasks[all->first];

		ck_assert_uint_eq(all->device, b->device[d]);
		ck_assert_int_eq(all->bytes, b->bytes);
		ck_assert_uint_eq(all->last, sync);
		ck_assert(ff_task_computes_in(first, FF_BACKWARD));
		ck_assert_uint_eq(first->micro, micro);
		ck_assert_int_eq(s->workspace_bytes[b->device[d]], 0);
	}
}

/* Each micro-batch sends as much as all do where there is one, but for weights that are not
 * dropped; and between two of them a device has its run of gradients alone. */
START_TEST(summed_in_micro_batches)
{
	enum ff_dtype type = _i % 2 ? FF_BF16 : FF_F32;
	bool drops = _i >= 6;
	int64_t gathers;
	struct ff_graph g;
	struct ff_schedule s;
	struct ff_arena a;
	uint32_t n = 0;
	int64_t bytes;

	ff_arena_init(&a);
	micro_batches = 1u << _i % 6 / 2;
	lower_updates(drops ? DROPPED : SCATTERED, type, 2, NULL, &a, &g, &s);
	gathers = drops ? 2 * micro_batches : 1;
	bytes = s.buckets[0].bytes;
	for (uint32_t i = 0; i < s.n_tasks; i++)
		if (ff_task_moves_bucket(&s.tasks[i]) && ff_task_pass(&s.tasks[i]) == FF_BACKWARD)
			check_summed(&s, i, n++);
	ck_assert_uint_eq(n, micro_batches);
	ck_assert_int_eq(s.network_bytes,
			n * bytes + gathers * (bytes / FF_F32_BYTES * ff_dtype_bytes(type)));
	micro_batches = 0;
	ff_arena_finish(&a);
}
END_TEST

/* Of a bucket that is scattered each device has all weights, and of gradients and states a run;
 * what goes over the network is that of a flat one.  Parameters that are cut by their axes over
 * those who read them lie in such buckets, whatever the axes. */
static void check_scattered(enum ff_dtype type, uint32_t p, const struct ff_optimizer *o)
{
	struct ff_schedule s, flat, cut;
	struct ff_graph g[3];
	struct ff_arena a;
	int64_t bytes;
	uint32_t syncs = 0;

	ff_arena_init(&a);
	lower_updates(FLAT, type, p, o, &a, &g[0], &flat);
	lower_updates(SCATTERED, type, p, o, &a, &g[1], &s);
	lower_updates(SHARDED, type, p, o, &a, &g[2], &cut);
	ck_assert_uint_eq(ff_schedule_hash(&s), ff_schedule_hash(&cut));
	ck_assert_uint_ne(ff_schedule_hash(&s), ff_schedule_hash(&flat));
	ck_assert_uint_eq(s.n_buckets, 1);
	ck_assert(s.buckets[0].scattered && !s.buckets[0].dropped && !flat.buckets[0].scattered);
	bytes = s.buckets[0].bytes;
	ck_assert_int_eq(bytes, flat.buckets[0].bytes);
	for (uint32_t d = 0; d < p; d++)
		ck_assert_int_eq(s.packed_offset[d] - s.workspace_bytes[d],
				bytes / p * (1 + o->states) +
						(type == FF_F32 ? bytes : bytes / p + bytes / 2));
	ck_assert_int_eq(s.network_bytes, flat.network_bytes);
	ck_assert_uint_eq(s.n_tasks, flat.n_tasks);
	for (uint32_t i = 0; i < s.n_tasks; i++)
		if (ff_task_moves_bucket(&s.tasks[i]) && ff_task_pass(&s.tasks[i]) == FF_BACKWARD) {
			check_summed(&s, i, 0);
			syncs++;
		}
	ck_assert_uint_eq(syncs, 1);
	check_gathered(&s);
	ff_arena_finish(&a);
}

START_TEST(scattered_closed_forms)
{
	for (uint32_t p = 2; p <= 8; p++)
		for (uint32_t i = 0; i < FF_OPTIMIZER_COUNT; i++) {
			check_scattered(FF_F32, p, ff_optimizer((enum ff_optimizer_id)i));
			check_scattered(FF_BF16, p, ff_optimizer((enum ff_optimizer_id)i));
		}
}
END_TEST

/* Updates are cut over pairs of devices: each pair has all states, gradients are reduce-scattered
 * in pairs and all-reduced among them, weights gathered in pairs. */
static void check_grouped(enum ff_dtype type, uint32_t p, const struct ff_optimizer *o)
{
	struct ff_schedule s, flat;
	struct ff_graph g[2];
	struct ff_arena a;
	int64_t bytes, run, groups = p / 2;

	ff_arena_init(&a);
	lower_updates(FLAT, type, p, o, &a, &g[0], &flat);
	lower_updates(GROUPED, type, p, o, &a, &g[1], &s);
	ck_assert_uint_eq(s.n_buckets, 1);
	ck_assert_uint_eq(s.buckets[0].runs, p % 2 ? p : 2);
	if (p % 2 || p == 2) { /* there are no such groups */
		ck_assert_uint_eq(ff_schedule_hash(&s), ff_schedule_hash(&flat));
		ff_arena_finish(&a);
		return;
	}
	ck_assert_uint_ne(ff_schedule_hash(&s), ff_schedule_hash(&flat));
	ck_assert_uint_eq(s.n_tasks, flat.n_tasks + 1);
	bytes = s.buckets[0].bytes;
	run = bytes / 2;
	for (uint32_t d = 0; d < p; d++)
		ck_assert_int_eq(s.packed_offset[d] - s.workspace_bytes[d],
				run * o->states + (type == FF_F32 ? 2 * bytes
								  : run + bytes + bytes / 2));
	ck_assert_int_eq(s.network_bytes,
			(p - groups) * bytes + 2 * (groups - 1) * bytes +
					(p - groups) * bytes / 4 * ff_dtype_bytes(type));
	ff_arena_finish(&a);
}

START_TEST(grouped_closed_forms)
{
	for (uint32_t p = 2; p <= 8; p++)
		for (uint32_t i = 0; i < FF_OPTIMIZER_COUNT; i++) {
			check_grouped(FF_F32, p, ff_optimizer((enum ff_optimizer_id)i));
			check_grouped(FF_BF16, p, ff_optimizer((enum ff_optimizer_id)i));
		}
}
END_TEST

/* Gradients that wait are needed as they were made, so flat buckets are not dropped then. */
START_TEST(late_gradients_are_kept)
{
	struct ff_schedule s, flat;
	struct ff_graph g[2];
	struct ff_arena a;

	ff_arena_init(&a);
	staleness = 2;
	lower_updates(FLAT, FF_F32, 4, NULL, &a, &g[0], &flat);
	lower_updates(DROPPED, FF_F32, 4, NULL, &a, &g[1], &s);
	staleness = 0;
	ck_assert(!s.buckets[0].dropped);
	ck_assert_int_eq(s.network_bytes, flat.network_bytes);
	ff_arena_finish(&a);
}
END_TEST

/* One device alone has nothing to cut, and what is compressed goes in chunks of its own. */
START_TEST(flat_means_nothing)
{
	struct ff_schedule s, plain;
	struct ff_graph g[2];
	struct ff_arena a;

	ff_arena_init(&a);
	lower_updates(FOLLOWING, FF_F32, 1, NULL, &a, &g[0], &plain);
	lower_updates(FLAT, FF_F32, 1, NULL, &a, &g[1], &s);
	ck_assert_uint_eq(ff_schedule_hash(&s), ff_schedule_hash(&plain));
	ck_assert_int_eq(ff_codec_find("bfloat16", &codec, NULL), FF_OK);
	lower_updates(FOLLOWING, FF_F32, 4, NULL, &a, &g[0], &plain);
	lower_updates(FLAT, FF_F32, 4, NULL, &a, &g[1], &s);
	ck_assert_uint_eq(ff_schedule_hash(&s), ff_schedule_hash(&plain));
	codec = NULL;
	ff_arena_finish(&a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("flat");
	TCase *c = tcase_create("flat");

	tcase_add_test(c, flat_closed_forms);
	tcase_add_test(c, dropped_closed_forms);
	tcase_add_loop_test(c, dropped_are_gathered_ahead, 0, 2); /* micro-batches less one */
	tcase_add_test(c, scattered_closed_forms);
	tcase_add_test(c, grouped_closed_forms);
	/* 1, 2, 4, in both types, weights kept and dropped */
	tcase_add_loop_test(c, summed_in_micro_batches, 0, 12);
	tcase_add_test(c, late_gradients_are_kept);
	tcase_add_test(c, flat_means_nothing);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
