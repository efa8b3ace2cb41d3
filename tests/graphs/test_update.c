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
	Suite *s = suite_create("update");
	TCase *c = tcase_create("update");

	tcase_add_test(c, closed_forms);
	tcase_add_test(c, flat_closed_forms);
	tcase_add_test(c, dropped_closed_forms);
	tcase_add_loop_test(c, dropped_are_gathered_ahead, 0, 2); /* micro-batches less one */
	tcase_add_test(c, scattered_closed_forms);
	tcase_add_test(c, grouped_closed_forms);
	/* 1, 2, 4, in both types, weights kept and dropped */
	tcase_add_loop_test(c, summed_in_micro_batches, 0, 12);
	tcase_add_test(c, late_gradients_are_kept);
	tcase_add_test(c, flat_means_nothing);
	tcase_add_test(c, copies_are_as_without_a_config);
	tcase_add_test(c, cut_with_copies);
	tcase_add_loop_test(c, moved_are_gathered_ahead, 0, 2);
	tcase_add_test(c, states_alone_differ);
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
