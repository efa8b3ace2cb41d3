/* Gradients that are compressed: what is sent, held and kept of them, in closed form.
 * SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"
#include "updates.h"

/* Of so many elements, as told. */
static int64_t message_bytes(const struct ff_codec *c, int64_t n)
{
	n = (n + 15) / 16 * 16;
	return c->id == FF_CODEC_BF16 ? 2 * n : n / 4 + (n + 511) / 512 * 4;
}

/* The elements of a parameter that device `d` of `p` updates. */
static int64_t updated(const struct ff_value *v, enum kind kind, uint32_t p, uint32_t d)
{
	int64_t rows = v->shape[0], row = 1;

	for (uint32_t i = 1; i < v->rank; i++)
		row *= v->shape[i];
	if (kind == SHARDED)
		rows = ff_part_start(v->shape[0], p, d + 1) - ff_part_start(v->shape[0], p, d);
	return rows * row;
}

/* What `from` sends `to` of a parameter and keeps of it; 0: nothing. */
static int64_t sent_to(
		const struct ff_value *v, enum kind kind, uint32_t p, uint32_t from, uint32_t to)
{
	return from != to && (kind == SHARDED || to == 0) ? updated(v, kind, p, to) : 0;
}

/* One parameter's move: returns its bytes, and adds to `kept`, by device, what is not sent. */
static int64_t check_compressed(const struct ff_schedule *s, const struct ff_codec *c,
		enum kind kind, uint32_t p, uint32_t edge, int64_t *kept)
{
	const struct ff_value *v = &s->graph->values[s->graph->edges[edge].value];
	const struct ff_move *mv = only_move(s, edge, FF_BACKWARD);
	int64_t sum = 0;

	ck_assert_ptr_eq(mv->codec, c);
	ck_assert_ptr_null(only_move(s, edge, FF_FORWARD)->codec);
	ck_assert_uint_eq(mv->n_devices, p);
	for (uint32_t d = 0; d < p; d++) {
		int64_t stage = 0, rest = 0, sent = 0;

		for (uint32_t q = 0; q < p; q++) {
			int64_t out = sent_to(v, kind, p, d, q), in = sent_to(v, kind, p, q, d);

			sent += message_bytes(c, out);
			rest += ff_align64(out * FF_F32_BYTES);
			stage += ff_align64(message_bytes(c, out)) +
				 ff_align64(message_bytes(c, in));
		}
		ck_assert_int_eq(mv->stage_bytes[d], stage);
		ck_assert_int_eq(mv->traffic[d].encoded, rest);
		ck_assert_uint_eq(mv->traffic[d].n_sent, kind == SHARDED ? p - 1 : d > 0);
		kept[d] += rest;
		sum += sent;
	}
	ck_assert_int_eq(mv->network_bytes, sum);
	return sum;
}

/* What several devices update alike, but not all who read it, is moved as it is. */
static int64_t check_plain(const struct ff_move *mv)
{
	ck_assert_ptr_null(mv->codec);
	return mv->network_bytes;
}

/* Moves to where a gradient is updated alone are compressed, others are not. */
START_TEST(compressed_moves)
{
	static const enum kind kinds[] = {SHARDED, ONE_REPLICA, SERVER};

	for (uint32_t i = 0; i < 3 * 3 * FF_CODEC_COUNT; i++) {
		const struct ff_codec *c = ff_codec((enum ff_codec_id)(i / 9));
		enum kind kind = kinds[i % 3];
		uint32_t p = 2 + i / 3 % 3;
		int64_t kept[8] = {0}, forward = 0, back = 0;
		struct ff_schedule with;
		struct ff_graph g;
		struct ff_arena a;

		ff_arena_init(&a);
		codec = c;
		replicas = kind == ONE_REPLICA ? 2 : 1;
		lower_updates(kind, FF_F32, p, NULL, &a, &g, &with);
		replicas = 1;
		codec = NULL;
		for (uint32_t e = 0; e < g.n_edges; e++) {
			const struct ff_move *there;

			if (!ff_node_is_parameter(&g, ff_edge_source(&g, e)))
				continue;
			there = only_move(&with, e, FF_FORWARD);
			forward += there ? there->network_bytes : 0;
			if (kind == ONE_REPLICA)
				back += check_plain(only_move(&with, e, FF_BACKWARD));
			else
				back += check_compressed(&with, c, kind, p, e, kept);
		}
		ck_assert_int_eq(with.network_bytes, forward + back);
		ck_assert_int_eq(with.plain_bytes, kind == ONE_REPLICA ? back : 0);
		for (uint32_t k = 0; k < with.n_buffers; k++)
			if (with.buffers[k].bucket == FF_KEPT)
				kept[with.buffers[k].device] -= with.buffers[k].bytes;
		for (uint32_t d = 0; d < p; d++)
			ck_assert_int_eq(kept[d], 0);
		ff_arena_finish(&a);
	}
}
END_TEST

/* Compression of gradients that are all-reduced adds what is not sent yet, and room for messages,
 * also of those that have a config on all devices. */
START_TEST(compressed_gradients)
{
	for (uint32_t i = 0; i < 4 * 3 * FF_CODEC_COUNT; i++) {
		const struct ff_codec *c = ff_codec((enum ff_codec_id)(i / 12));
		enum kind kind = i % 2 ? REPLICATED : FOLLOWING;
		uint32_t p = 1 + i / 4 % 3;
		struct ff_schedule with, plain;
		const struct ff_bucket *b;
		struct ff_graph g[2];
		struct ff_arena a;
		int64_t n;

		ff_arena_init(&a);
		lower_updates(kind, FF_F32, p, NULL, &a, &g[0], &plain);
		codec = c;
		lower_updates(kind, FF_F32, p, NULL, &a, &g[1], &with);
		codec = NULL;
		ck_assert_uint_eq(with.n_tasks, plain.n_tasks);
		b = &with.buckets[0];
		n = b->bytes / FF_F32_BYTES;
		ck_assert_ptr_eq(b->codec, p > 1 ? c : NULL);
		for (uint32_t d = 0; d < p; d++)
			ck_assert_int_eq(with.memory_bytes[d] - plain.memory_bytes[d],
					b->codec ? b->bytes + ff_codec_stage_bytes(c, n, p) : 0);
		if (b->codec) {
			ck_assert_uint_eq(with.n_buckets, 1);
			ck_assert_int_eq(with.network_bytes,
					2 * (p - 1) *
							(c->id == FF_CODEC_BF16 ? 2 * n
										: n / 4 + (n + 511) / 512 * 4));
		} else {
			ck_assert_int_eq(with.network_bytes, plain.network_bytes);
		}
		ck_assert((ff_schedule_hash(&with) == ff_schedule_hash(&plain)) == !b->codec);
		ff_arena_finish(&a);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("compressed");
	TCase *c = tcase_create("compressed");

	tcase_add_test(c, compressed_gradients);
	tcase_add_test(c, compressed_moves);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
