/* Data for graphs of several inputs, and labels with axes of their own: every shard holds what the
 * batch has there.  SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ff/builder.h"
#include "ff/dataset.h"
#include "ff/graph_file.h"
#include "ff/philox.h"
#include "kernels/box_points.h"

#define BATCH 6
#define LENGTH 5
#define WORDS 20
#define WIDTH 4
#define CLASSES 7

static void check(int code, const struct ff_error *err)
{
	ck_assert_msg(code == FF_OK, "%s", err->text);
}

static uint32_t add_input(struct ff_builder *b, const char *name, const struct ff_input_attrs *in)
{
	union ff_attrs a = {.input = *in};

	return ff_builder_add(b, FF_OP_INPUT, name, &a, NULL, 0);
}

/* Words of a sequence and two vectors for each of them, and a label for each, too. */
static void make_graph(struct ff_arena *a, struct ff_graph *g)
{
	union ff_attrs embedding = {.embedding = {WORDS, WIDTH}};
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	union ff_attrs turn = {.transpose = {.rank = 3, .perm = {0, 2, 1}}};
	uint32_t in[3], last[2];
	struct ff_builder *b;
	struct ff_error err;

	check(ff_builder_create("fields", a, &b, &err), &err);
	in[0] = add_input(b, "words", &(struct ff_input_attrs){2, {BATCH, LENGTH}, FF_I32, WORDS});
	in[0] = ff_builder_add(b, FF_OP_EMBEDDING, "embed", &embedding, in, 1);
	in[1] = add_input(
			b, "left", &(struct ff_input_attrs){3, {BATCH, LENGTH, WIDTH}, FF_F32, 0});
	in[2] = add_input(
			b, "right", &(struct ff_input_attrs){3, {BATCH, LENGTH, WIDTH}, FF_F32, 0});
	last[0] = ff_builder_add(b, FF_OP_ADD, "sum", NULL, in, 3);
	fc.linear.out_features = CLASSES;
	last[0] = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, last, 1);
	last[0] = ff_builder_add(b, FF_OP_TRANSPOSE, "turn", &turn, last, 1);
	last[1] = add_input(
			b, "labels", &(struct ff_input_attrs){2, {BATCH, LENGTH}, FF_I32, CLASSES});
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, last, 2);
	check(ff_builder_finish(b, g, &err), &err);
}

static void whole_of(const struct ff_value *v, struct ff_region *r)
{
	*r = (struct ff_region){.rank = v->rank};
	for (uint32_t i = 0; i < v->rank; i++)
		r->hi[i] = v->shape[i];
}

static void cut(struct ff_region *r, struct ff_random *random)
{
	for (uint32_t i = 0; i < r->rank; i++) {
		uint32_t size = (uint32_t)r->hi[i];

		r->lo[i] = (int32_t)ff_random_below(random, size);
		r->hi[i] = r->lo[i] + 1 +
			   (int32_t)ff_random_below(random, size - (uint32_t)r->lo[i]);
	}
}

/* Elements of all types here have four bytes. */
static void compare(const struct ff_graph *g, const struct ff_dataset *d, uint32_t node,
		struct ff_random *random)
{
	const struct ff_value *v = &g->values[g->nodes[node].out];
	uint32_t all[BATCH * LENGTH * WIDTH], shard[BATCH * LENGTH * WIDTH];
	bool train = ff_random_below(random, 2);
	uint64_t step = ff_random_below(random, 2);
	struct ff_region whole, part;
	int32_t at[FF_MAX_DIMS];
	struct ff_error err;

	whole_of(v, &whole);
	part = whole;
	cut(&part, random);
	check(ff_dataset_fill(d, train, step, node, &whole, all, &err), &err);
	check(ff_dataset_fill(d, train, step, node, &part, shard, &err), &err);
	memcpy(at, part.lo, sizeof(at));
	do {
		uint32_t here = shard[ff_region_offset(v->order, &part, at)];

		ck_assert_uint_eq(here, all[ff_region_offset(v->order, &whole, at)]);
		/* 10 samples for testing: its second batch is not full */
		if (!train && step == 1 && at[0] >= 4)
			ck_assert_uint_eq(here, v->dtype == FF_I32 ? UINT32_MAX : 0);
		else if (v->dtype == FF_I32)
			ck_assert_uint_lt(here, (uint32_t)g->nodes[node].attrs.input.classes);
	} while (next(&part, at));
}

START_TEST(shards)
{
	static const char *const names[] = {"words", "left", "right", "labels"};
	struct ff_random random = {ff_test_seed(41), 0, 0};
	struct ff_dataset *d;
	struct ff_graph g;
	struct ff_arena a;
	struct ff_error err;

	ff_arena_init(&a);
	make_graph(&a, &g);
	check(ff_dataset_open("synthetic:40", &g, 3, &d, &err), &err);
	for (uint32_t round = 0; round < 400; round++)
		compare(&g, d, ff_graph_find(&g, names[round % 4]), &random);
	ff_dataset_close(d);
	ff_arena_finish(&a);
}
END_TEST

/* Every label of a sequence counts; inputs of one shape do not hold the same. */
START_TEST(sequences)
{
	float left[BATCH * LENGTH * WIDTH], right[BATCH * LENGTH * WIDTH];
	int32_t label[BATCH * LENGTH], differ = 0, other = 0;
	struct ff_region box = {.rank = 3, .hi = {BATCH, LENGTH, WIDTH}};
	struct ff_region rows = {.rank = 2, .hi = {BATCH, LENGTH}};
	struct ff_dataset *d;
	struct ff_graph g;
	struct ff_arena a;
	struct ff_error err;
	int64_t valid;

	ff_arena_init(&a);
	make_graph(&a, &g);
	check(ff_dataset_open("synthetic:40", &g, 3, &d, &err), &err);
	check(ff_dataset_valid(d, true, 5, &valid, &err), &err);
	ck_assert_int_eq(valid, BATCH * LENGTH);
	check(ff_dataset_valid(d, false, 1, &valid, &err), &err);
	ck_assert_int_eq(valid, 4 * LENGTH);
	check(ff_dataset_fill(d, true, 0, ff_graph_find(&g, "left"), &box, left, &err), &err);
	check(ff_dataset_fill(d, true, 0, ff_graph_find(&g, "right"), &box, right, &err), &err);
	check(ff_dataset_fill(d, true, 0, ff_graph_find(&g, "labels"), &rows, label, &err), &err);
	for (int i = 0; i < BATCH * LENGTH * WIDTH; i++)
		differ += fabsf(left[i] - right[i]) > 1e-6f;
	ck_assert_int_gt(differ, BATCH * LENGTH * WIDTH * 9 / 10);
	for (int i = 1; i < BATCH * LENGTH; i++)
		other += label[i] != label[i - 1];
	ck_assert_int_gt(other, BATCH * LENGTH / 2);
	ff_dataset_close(d);
	ff_arena_finish(&a);
}
END_TEST

/* Losses by what a batch's labels and targets weigh. */
static const char weighed[] =
		"{\"format\":\"ffsoap-graph\",\"version\":2,\"name\":\"weighed\",\"nodes\":["
		"{\"name\":\"x\",\"op\":\"input\",\"shape\":[6,4]},"
		"{\"name\":\"y\",\"op\":\"input\",\"shape\":[6],\"dtype\":\"int32\",\"classes\":5},"
		"{\"name\":\"of_y\",\"op\":\"input\",\"shape\":[6],\"of\":1,\"sums\":[1,0,3,2,1,0."
		"5]},"
		"{\"name\":\"of_x\",\"op\":\"input\",\"shape\":[6],\"of\":0,\"sums\":[0.25]},"
		"{\"name\":\"fc\",\"op\":\"linear\",\"in\":[\"x\"],\"out_features\":5},"
		"{\"name\":\"mean\",\"op\":\"reduce_mean\",\"in\":[\"fc\"],\"axes\":[1]},"
		"{\"name\":\"by\",\"op\":\"div\",\"in\":[\"mean\",\"of_y\"]},"
		"{\"name\":\"too\",\"op\":\"add\",\"in\":[\"by\",\"of_x\"]},"
		"{\"name\":\"loss\",\"op\":\"mean\",\"in\":[\"too\",\"y\"]}]}";

/* Every sample has what the whole batch adds up to, whatever part of it is asked for; the last
 * batch of a test has less. */
START_TEST(sums)
{
	static const float weight[] = {0, 2, 2, 2, 0.5F};
	struct ff_region all = {.rank = 1, .hi = {6}}, part = {.rank = 1, .lo = {2}, .hi = {5}};
	struct ff_region box = {.rank = 2, .hi = {6, 4}};
	struct ff_dataset *d;
	struct ff_graph g;
	struct ff_arena a;
	struct ff_error err;
	int32_t label[6];
	float x[24], made[6];

	ff_arena_init(&a);
	check(ff_graph_parse("weighed", weighed, sizeof(weighed) - 1, &a, &g, &err), &err);
	check(ff_dataset_open("synthetic:20", &g, 3, &d, &err), &err);
	for (uint64_t step = 0; step < 4; step++) {
		bool train = step < 3;
		double of_x = 0, of_y = 0;

		step = train ? step : 3; /* two of the 20 */
		check(ff_dataset_fill(d, train, step, ff_graph_find(&g, "y"), &all, label, &err),
				&err);
		check(ff_dataset_fill(d, train, step, ff_graph_find(&g, "x"), &box, x, &err), &err);
		for (int i = 0; i < 6; i++)
			of_y += label[i] >= 0 ? (double)weight[label[i]] : 0;
		for (int i = 0; i < 24; i++)
			of_x += 0.25 * (double)x[i];
		check(ff_dataset_fill(d, train, step, ff_graph_find(&g, "of_y"), &part, made, &err),
				&err);
		for (int i = 0; i < 3; i++)
			ck_assert_float_eq_tol(made[i], (float)of_y, 1e-5F);
		check(ff_dataset_fill(d, train, step, ff_graph_find(&g, "of_x"), &all, made, &err),
				&err);
		for (int i = 0; i < 6; i++)
			ck_assert_float_eq_tol(made[i], (float)of_x, 1e-5F);
	}
	ff_dataset_close(d);
	ff_arena_finish(&a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("fields");
	TCase *t = tcase_create("all");

	tcase_add_test(t, shards);
	tcase_add_test(t, sequences);
	tcase_add_test(t, sums);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
