/* Updates that are given to the backend together: the same bits as one by one, and fewer calls
 * where nothing lies between.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "chosen.h"
#include "launches.h"

#define SCENES 60
#define BUCKET 256 /* bytes: many buckets */

static uint32_t calls, updates;

static int counting_update(
		struct ff_stream *s, const struct ff_update *u, uint32_t n, struct ff_error *err)
{
	calls += n > 0;
	updates += n;
	return chosen_backend()->math.update(s, u, n, err);
}

static int fuse_nothing(struct ff_device *dev, const struct ff_work *const *w, uint32_t n,
		uint32_t how, struct ff_kernel **ret, struct ff_error *err)
{
	(void)dev, (void)w, (void)n, (void)how, (void)ret, (void)err;
	return FF_OK;
}

/* Nothing else is fused, so that nothing is rounded otherwise. */
static struct ff_backend counting(bool together)
{
	struct ff_backend b = *rig_backend(false);

	b.kernel.fuse = together ? fuse_nothing : NULL;
	b.math.update = counting_update;
	calls = updates = 0;
	return b;
}

/* How many calls are saved. */
static uint32_t compare(
		struct scene *s, const struct ff_machine *m, const struct ff_strategy *strategy)
{
	size_t bytes = (size_t)ff_graph_parameters(&s->graph) * sizeof(float);
	struct ff_backend b = counting(false);
	struct result one_by_one, together;
	uint32_t n;

	scene_run(s, m, strategy, &b, NULL, BUCKET, &one_by_one);
	n = calls;
	b = counting(true);
	scene_run(s, m, strategy, &b, NULL, BUCKET, &together);
	ck_assert_uint_le(calls, n);
	ck_assert_mem_eq(one_by_one.weights, together.weights, bytes);
	ck_assert_mem_eq(one_by_one.loss, together.loss, sizeof(together.loss));
	return n - calls;
}

START_TEST(steps)
{
	uint64_t seed = ff_test_seed(96);
	uint32_t here = 0, alone = 0;

	for (uint32_t i = 0; i < ff_test_rounds(SCENES); i++) {
		struct ff_random r = {seed, i, 0};
		struct scene s;

		scene_open(&s, FF_F32, 3, &r);
		here += compare(&s, &s.machine, &s.strategy);
		alone += compare(&s, &s.one, &s.single);
		scene_close(&s);
	}
	printf("# %u calls saved, %u on one device\n", here, alone);
	ck_assert_uint_gt(alone, 0);
}
END_TEST

/* One device has all its updates behind one another: one call for all of them. */
START_TEST(one_call)
{
	for (uint32_t i = 0; i < 8; i++) {
		struct ff_random r = {ff_test_seed(97), i, 0};
		struct ff_backend b = counting(true);
		struct result ret;
		struct scene s;

		scene_open(&s, FF_F32, 1, &r);
		scene_run(&s, &s.one, &s.single, &b, NULL, BUCKET, &ret);
		printf("# case %u: %u updates, %u calls\n", i, updates, calls);
		ck_assert_uint_eq(calls, updates ? SCENE_STEPS : 0);
		scene_close(&s);
	}
}
END_TEST

/* Captured steps take what differs from step to step from device memory, for each update. */
START_TEST(launched)
{
	for (uint32_t i = 0; i < ff_test_rounds(12); i++) {
		struct ff_random r = {ff_test_seed(98), i, 0};
		struct ff_backend b = counting(true);
		struct launched captured, apart;
		struct scene s;

		scene_open(&s, i % 2 ? FF_BF16 : FF_F32, 1, &r);
		launch_train(&s, &s.machine, &s.strategy, &b, NULL, NULL, &captured);
		launch_train(&s, &s.machine, &s.strategy, &b, NULL, "0", &apart);
		ck_assert(captured.captured && launch_same(&s, &captured, &apart));
		scene_close(&s);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("fuse_updates");
	TCase *t = tcase_create("fuse_updates");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, steps);
	tcase_add_test(t, one_call);
	tcase_add_test(t, launched);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
