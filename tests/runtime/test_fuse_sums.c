/* Kernels that add a gradient to what is there: against the same kernels that write it, and whole
 * steps against those whose sums are copies.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ff/block.h"
#include "launches.h"
#include "pairs.h"
#include "typed.h"

#define GRAPHS 120
#define SCENES 80

static uint32_t given, copies; /* sums that kernels took; copies that added */

static int counting_add(struct ff_kernel *k, uint32_t input, bool *ret, struct ff_error *err)
{
	int code = chosen_backend()->kernel.add(k, input, ret, err);

	given += *ret;
	return code;
}

static int counting_copy(struct ff_stream *s, const struct ff_copy *c, struct ff_error *err)
{
	copies += c->add;
	return chosen_backend()->move.copy(s, c, err);
}

static struct ff_backend counting(bool adding)
{
	struct ff_backend b = *rig_backend(false);

	ck_assert_ptr_nonnull(b.kernel.add);
	b.kernel.add = adding ? counting_add : NULL;
	b.move.copy = counting_copy;
	return b;
}

/* ---- kernels ---- */

static const enum ff_op adding[] = {FF_OP_LINEAR, FF_OP_MATMUL, FF_OP_CONV2D, FF_OP_LAYER_NORM,
		FF_OP_RMS_NORM, FF_OP_GROUP_NORM, FF_OP_EMBEDDING, FF_OP_BATCH_MOMENTS};

/* Numbers of that type, ids of whole ones. */
static void *put(struct pairs_bench *t, const struct ff_node *n, const struct ff_region *r,
		enum ff_dtype type)
{
	int64_t volume = ff_region_volume(r), bytes = volume * ff_dtype_bytes(type);
	uint32_t ids = n->op == FF_OP_EMBEDDING ? (uint32_t)n->attrs.embedding.vocabulary : 2;
	void *host = malloc((size_t)bytes + 1), *device;

	ck_assert_ptr_nonnull(host);
	for (int64_t i = 0; i < volume; i++)
		typed_put(type, host, i,
				type == FF_I32 || type == FF_U8
						? ff_random_below(&t->r, ids)
						: (double)ff_random_below(&t->r, 2001) / 1000 - 1);
	device = chosen_put(t->dev, t->stream, host, (size_t)bytes + 1);
	free(host);
	return device;
}

static void get(struct pairs_bench *t, const void *device, enum ff_dtype type, int64_t n,
		double *ret)
{
	void *host = malloc((size_t)(n * ff_dtype_bytes(type)) + 1);

	ck_assert_ptr_nonnull(host);
	chosen_get(t->stream, host, device, (size_t)(n * ff_dtype_bytes(type)));
	for (int64_t i = 0; i < n; i++)
		ret[i] = typed_get(type, host, i);
	free(host);
}

static void *copied(struct pairs_bench *t, const void *device, int64_t bytes)
{
	void *host = malloc((size_t)bytes + 1), *ret;

	ck_assert_ptr_nonnull(host);
	chosen_get(t->stream, host, device, (size_t)bytes);
	ret = chosen_put(t->dev, t->stream, host, (size_t)bytes + 1);
	free(host);
	return ret;
}

/* What was there, what is written, and what comes of adding: `added` says which it was. */
static void compare(struct pairs_bench *t, const struct ff_work *w, uint32_t slot, bool added,
		const double *before, const void *plain, const void *sum)
{
	enum ff_dtype type = (enum ff_dtype)w->node->in_map[slot].gradient;
	int64_t n = ff_region_volume(&w->in[slot]);
	double *x = malloc(2 * (size_t)n * sizeof(*x) + 1), size = 1, bound = 1e-5;

	ck_assert_ptr_nonnull(x);
	if (type == FF_BF16)
		bound = 2 * BF16_HALF_ULP;
	get(t, plain, type, n, x);
	get(t, sum, type, n, x + n);
	for (int64_t i = 0; i < n; i++)
		size = fmax(size, fabs(x[i]));
	for (int64_t i = 0; i < n; i++) {
		double wanted = x[i] + (added ? before[i] : 0);

		ck_assert_msg(fabs(x[n + i] - wanted) <= bound * size,
				"%s, gradient %u, element %d: %.9g, expected %.9g%s", w->node->name,
				slot, (int)i, x[n + i], wanted, added ? ", added" : "");
	}
	free(x);
}

/* The kernel that adds what it can, and one that does not; whether the first one adds. */
static bool open_two(
		struct pairs_bench *t, const struct ff_work *w, struct ff_kernel **two, bool *adds)
{
	int64_t scratch;
	struct ff_error err;
	bool any = false;

	for (int i = 0; i < 2; i++)
		RIG_OK(t->b->kernel.open(t->dev, w, &two[i], &err));
	scratch = t->b->kernel.workspace(two[0]);
	for (uint32_t i = 0; i < w->node->n_in; i++) {
		adds[i] = false;
		if (w->need_din[i] && ff_region_volume(&w->in[i]))
			RIG_OK(t->b->kernel.add(two[0], i, &adds[i], &err));
		any = any || adds[i];
	}
	ck_assert_int_eq(t->b->kernel.workspace(two[0]), scratch);
	return any;
}

static void compare_work(struct pairs_bench *t, const struct ff_work *w, bool *seen)
{
	const struct ff_node *n = w->node;
	struct ff_kernel_io plain = {.training = true}, sum;
	double *before[FF_MAX_INPUTS] = {NULL};
	struct ff_kernel *two[2];
	bool adds[FF_MAX_INPUTS];

	if (!open_two(t, w, two, adds)) {
		t->b->kernel.close(two[0]);
		t->b->kernel.close(two[1]);
		return;
	}
	*seen = true;
	for (uint32_t k = 0; k < n->n_out; k++) {
		plain.out[k] = put(t, n, &w->out[k], n->out_map[k].dtype);
		plain.dout[k] = put(t, n, &w->out[k], n->out_map[k].dtype);
	}
	for (uint32_t i = 0; i < n->n_in; i++)
		plain.in[i] = put(t, n, &w->in[i], n->in_map[i].dtype);
	sum = plain;
	for (uint32_t i = 0; i < n->n_in; i++) {
		enum ff_dtype type = (enum ff_dtype)n->in_map[i].gradient;
		int64_t volume = ff_region_volume(&w->in[i]);

		plain.din[i] = put(t, n, &w->in[i], type);
		sum.din[i] = put(t, n, &w->in[i], type);
		before[i] = malloc((size_t)volume * sizeof(**before) + 1);
		ck_assert_ptr_nonnull(before[i]);
		get(t, sum.din[i], type, volume, before[i]);
	}
	sum.left = copied(t, plain.din[0],
			ff_region_volume(&w->in[0]) *
					ff_dtype_bytes((enum ff_dtype)n->in_map[0].gradient));
	pairs_run(t, two[0], &sum);
	pairs_run(t, two[1], &plain);
	for (uint32_t i = 0; i < n->n_in; i++) {
		if (w->need_din[i])
			compare(t, w, i, adds[i], before[i], plain.din[i], sum.din[i]);
		free(before[i]);
		t->b->memory.free(t->dev, plain.din[i]);
		t->b->memory.free(t->dev, sum.din[i]);
		t->b->memory.free(t->dev, (void *)plain.in[i]);
	}
	t->b->memory.free(t->dev, (void *)(uintptr_t)sum.left);
	for (uint32_t k = 0; k < n->n_out; k++) {
		t->b->memory.free(t->dev, plain.out[k]);
		t->b->memory.free(t->dev, (void *)plain.dout[k]);
	}
}

/* A drawn part of each operator of a drawn graph. */
static void compare_graph(struct pairs_bench *t, bool seen[FF_OP_COUNT])
{
	struct ff_work *w = calloc(1, sizeof(*w));
	struct scene s;

	ck_assert_ptr_nonnull(w);
	scene_open(&s, t->type, 4, &t->r);
	for (uint32_t i = 0; i < s.micro.n_nodes; i++) {
		const struct ff_node *n = &s.micro.nodes[i];
		const struct ff_config *c = &s.strategy.config[i];
		struct ff_region box;

		if (ff_node_is_source(&s.micro, i) || ff_node_is_parameter(&s.micro, i))
			continue;
		ff_config_box(n, c, ff_random_below(&t->r, c->n_parts), &box);
		ff_work_fill(&s.micro, i, &box, FF_BACKWARD, w);
		if (ff_region_volume(&w->out[0]))
			compare_work(t, w, &seen[n->op]);
	}
	scene_close(&s);
	free(w);
}

START_TEST(kernels)
{
	uint64_t seed = ff_test_seed(93);
	struct ff_backend b = counting(true);
	bool seen[FF_OP_COUNT] = {false};
	struct pairs_bench t;

	pairs_bench_open(&t, &b);
	for (uint32_t i = 0; i < GRAPHS; i++) {
		t.r = (struct ff_random){seed, i, 0};
		t.type = i % 2 ? FF_BF16 : FF_F32;
		compare_graph(&t, seen);
	}
	pairs_bench_close(&t);
	for (size_t i = 0; i < sizeof(adding) / sizeof(adding[0]); i++)
		ck_assert_msg(seen[adding[i]] || !pairs_has_all(), "%s never adds",
				ff_op_row(adding[i])->name);
}
END_TEST

/* ---- steps ---- */

static uint32_t compare_scene(
		struct scene *s, const struct ff_machine *m, const struct ff_strategy *strategy)
{
	struct ff_backend with = counting(true), without = counting(false);
	struct result one, two;
	uint32_t added, all;

	given = copies = 0;
	scene_run(s, m, strategy, &with, NULL, 0, &one);
	added = copies;
	copies = 0;
	scene_run(s, m, strategy, &without, NULL, 0, &two);
	all = copies;
	scene_compare(s, &one, &two);
	ck_assert_uint_eq(all - added, SCENE_STEPS * given);
	return given;
}

START_TEST(steps)
{
	uint64_t seed = ff_test_seed(94);
	uint32_t here = 0, alone = 0;

	for (uint32_t i = 0; i < ff_test_rounds(SCENES); i++) {
		struct ff_random r = {seed, i, 0};
		struct scene s;

		scene_open(&s, FF_F32, 3, &r);
		here += compare_scene(&s, &s.machine, &s.strategy);
		alone += compare_scene(&s, &s.one, &s.single);
		scene_close(&s);
	}
	printf("# %u sums by kernels, %u on one device\n", here, alone);
	ck_assert_uint_gt(here, 0);
	ck_assert_uint_gt(alone, 0);
}
END_TEST

START_TEST(launched)
{
	struct ff_backend b = counting(true);

	given = 0;
	for (uint32_t i = 0; i < ff_test_rounds(16) || (!given && i < 16); i++) {
		struct ff_random r = {ff_test_seed(95), i, 0};
		struct launched captured, apart;
		struct scene s;

		scene_open(&s, FF_F32, 1, &r);
		launch_train(&s, &s.machine, &s.strategy, &b, NULL, NULL, &captured);
		launch_train(&s, &s.machine, &s.strategy, &b, NULL, "0", &apart);
		ck_assert(captured.captured && launch_same(&s, &captured, &apart));
		scene_close(&s);
	}
	ck_assert_uint_gt(given, 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("fuse_sums");
	TCase *t = tcase_create("fuse_sums");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, kernels);
	tcase_add_test(t, steps);
	tcase_add_test(t, launched);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
