/* Data sets of ids: several int32 inputs, in any shard, and folders that have none.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "box_points.h"
#include "check_main.h"
#include "ff/builder.h"
#include "ff/dataset.h"
#include "ff/philox.h"

#define BATCH 6
#define CONTEXT 5
#define WORDS 50
#define CLASSES 3
#define SAMPLES 40

static void check(int code, const struct ff_error *err)
{
	ck_assert_msg(code == FF_OK, "%s", err->text);
}

static uint32_t add_input(struct ff_builder *b, const char *name, const struct ff_input_attrs *in)
{
	union ff_attrs a = {.input = *in};

	return ff_builder_add(b, FF_OP_INPUT, name, &a, NULL, 0);
}

static uint32_t add_vectors(struct ff_builder *b, struct ff_arena *a, uint32_t ids)
{
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};
	union ff_attrs embedding = {.embedding = {WORDS, 4}};

	ids = ff_builder_add(b, FF_OP_EMBEDDING, ff_arena_printf(a, "embed%u", ids), &embedding,
			&ids, 1);
	return ff_builder_add(b, FF_OP_RESHAPE, ff_arena_printf(a, "flat%u", ids), &flat, &ids, 1);
}

/* Ids of two inputs, and values too if `values`. */
static void make_graph(struct ff_arena *a, bool values, struct ff_graph *g)
{
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR), join = ff_attrs_preset(FF_OP_CONCAT);
	uint32_t in[3], n = 0, last[2];
	struct ff_builder *b;
	struct ff_error err;

	check(ff_builder_create("ids", a, &b, &err), &err);
	in[n++] = add_input(
			b, "left", &(struct ff_input_attrs){2, {BATCH, CONTEXT}, FF_I32, WORDS});
	in[n++] = add_input(b, "right",
			&(struct ff_input_attrs){3, {BATCH, CONTEXT, 2}, FF_I32, WORDS});
	for (uint32_t i = 0; i < 2; i++)
		in[i] = add_vectors(b, a, in[i]);
	if (values)
		in[n++] = add_input(
				b, "values", &(struct ff_input_attrs){2, {BATCH, 7}, FF_F32, 0});
	fc.linear.out_features = CLASSES;
	last[0] = ff_builder_add(b, FF_OP_CONCAT, "join", &join, in, n);
	last[0] = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, last, 1);
	last[1] = add_input(b, "labels", &(struct ff_input_attrs){1, {BATCH}, FF_I32, CLASSES});
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, last, 2);
	check(ff_builder_finish(b, g, &err), &err);
}

static int64_t whole_of(const struct ff_graph *g, uint32_t node, struct ff_region *r)
{
	const struct ff_value *v = &g->values[g->nodes[node].out];

	r->rank = v->rank;
	for (uint32_t i = 0; i < v->rank; i++) {
		r->lo[i] = 0;
		r->hi[i] = v->shape[i];
	}
	return ff_region_volume(r);
}

/* Any shard holds what the whole batch has there. */
START_TEST(shards)
{
	static const char *const names[] = {"left", "right"};
	struct ff_random r = {ff_test_seed(40), 0, 0};
	struct ff_dataset *d;
	struct ff_graph g;
	struct ff_arena a;
	struct ff_error err;

	ff_arena_init(&a);
	make_graph(&a, _i, &g);
	check(ff_dataset_open("synthetic:40", &g, 3, &d, &err), &err);
	for (uint32_t round = 0; round < 200; round++) {
		uint32_t node = ff_graph_find(&g, names[round % 2]);
		const uint8_t *order = g.values[g.nodes[node].out].order;
		bool train = ff_random_below(&r, 2);
		uint64_t step = ff_random_below(&r, 2);
		int32_t all[BATCH * CONTEXT * 2], shard[BATCH * CONTEXT * 2], at[FF_MAX_DIMS];
		struct ff_region whole, part;

		whole_of(&g, node, &whole);
		part = whole;
		for (uint32_t i = 0; i < part.rank; i++) {
			uint32_t size = (uint32_t)whole.hi[i];

			part.lo[i] = (int32_t)ff_random_below(&r, size);
			part.hi[i] = part.lo[i] + 1 +
				     (int32_t)ff_random_below(&r, size - (uint32_t)part.lo[i]);
		}
		check(ff_dataset_fill(d, train, step, node, &whole, all, &err), &err);
		check(ff_dataset_fill(d, train, step, node, &part, shard, &err), &err);
		memcpy(at, part.lo, sizeof(at));
		do {
			int32_t id = shard[ff_region_offset(order, &part, at)];

			ck_assert_int_eq(id, all[ff_region_offset(order, &whole, at)]);
			/* testing has 10 samples, so that its second batch is not full */
			if (!train && step == 1 && at[0] >= 4)
				ck_assert_int_eq(id, -1);
			else
				ck_assert(id >= 0 && id < WORDS);
		} while (next(&part, at));
	}
	ff_dataset_close(d);
	ff_arena_finish(&a);
}
END_TEST

/* Most ids are those of the sample's class, and not the same in both inputs. */
START_TEST(learnable)
{
	uint32_t count[CLASSES][CONTEXT][WORDS] = {{{0}}}, alike = 0, differ = 0;
	struct ff_dataset *d;
	struct ff_graph g;
	struct ff_arena a;
	struct ff_error err;

	ff_arena_init(&a);
	make_graph(&a, false, &g);
	check(ff_dataset_open("synthetic:600", &g, 3, &d, &err), &err);
	for (uint64_t step = 0; step < 100; step++) {
		int32_t left[BATCH * CONTEXT], right[BATCH * CONTEXT * 2], label[BATCH];
		struct ff_region r;
		int64_t valid;

		whole_of(&g, ff_graph_find(&g, "left"), &r);
		check(ff_dataset_fill(d, true, step, ff_graph_find(&g, "left"), &r, left, &err),
				&err);
		whole_of(&g, ff_graph_find(&g, "right"), &r);
		check(ff_dataset_fill(d, true, step, ff_graph_find(&g, "right"), &r, right, &err),
				&err);
		whole_of(&g, ff_graph_find(&g, "labels"), &r);
		check(ff_dataset_fill(d, true, step, ff_graph_find(&g, "labels"), &r, label, &err),
				&err);
		for (int k = 0; k < BATCH * CONTEXT; k++) {
			count[label[k / CONTEXT]][k % CONTEXT][left[k]]++;
			differ += left[k] != right[2 * k];
		}
		check(ff_dataset_valid(d, true, step, &valid, &err), &err);
		ck_assert_int_eq(valid, BATCH);
	}
	for (int c = 0; c < CLASSES; c++)
		for (int k = 0; k < CONTEXT; k++) {
			uint32_t most = 0;

			for (int w = 0; w < WORDS; w++)
				most = count[c][k][w] > most ? count[c][k][w] : most;
			alike += most;
		}
	ck_assert_uint_gt(alike, 600 * CONTEXT * 7 / 10);
	ck_assert_uint_lt(alike, 600 * CONTEXT * 8 / 10);
	ck_assert_uint_gt(differ, 600 * CONTEXT * 8 / 10);
	ff_dataset_close(d);
	ff_arena_finish(&a);
}
END_TEST

START_TEST(folders_have_none)
{
	struct ff_dataset *d = NULL;
	struct ff_graph g;
	struct ff_arena a;
	struct ff_error err;

	ff_arena_init(&a);
	make_graph(&a, _i, &g);
	ck_assert_int_eq(ff_dataset_open("idx:/tmp", &g, 3, &d, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text,
			"data idx:/tmp: has images and a label for each, but graph ids has an "
			"input left of another kind");
	ff_arena_finish(&a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("ids");
	TCase *c = tcase_create("ids");

	tcase_add_loop_test(c, shards, 0, 2);
	tcase_add_test(c, learnable);
	tcase_add_loop_test(c, folders_have_none, 0, 2);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
