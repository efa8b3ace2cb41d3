/* Faults planted between the executor and the CUDA backend on its double: schedules under which
 * one device and several compute the same no longer do.  (Planted below the backend:
 * test_double.cpp and test_libraries.cpp.)
 * SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "check_main.h"
#include "scene.h"

#define CASES 24

static int no_wait(struct ff_stream *s, struct ff_event *ev, struct ff_error *err)
{
	(void)s, (void)ev, (void)err;
	return FF_OK;
}

static int (*honest_copy)(struct ff_stream *s, const struct ff_copy *copy, struct ff_error *err);

/* The first element of what moves is left where it was. */
static int short_copy(struct ff_stream *s, const struct ff_copy *copy, struct ff_error *err)
{
	struct ff_copy c = *copy;

	if (!c.add && ff_region_volume(&c.region) > 1 && ff_region_size(&c.region, 0) > 1)
		c.region.lo[0]++;
	return honest_copy(s, &c, err);
}

static int (*honest_pin)(struct ff_device *dev, size_t bytes, void **ret, struct ff_error *err);
static void (*honest_unpin)(struct ff_device *dev, void *memory);
static int (*honest_drain)(struct ff_stream *s, struct ff_error *err);
static void *only_slot;
static uint32_t slots;

/* Both of an executor's slots are one. */
static int one_slot(struct ff_device *dev, size_t bytes, void **ret, struct ff_error *err)
{
	int code = slots ? FF_OK : honest_pin(dev, bytes, &only_slot, err);

	slots++;
	*ret = only_slot;
	return code;
}

static void leave_slot(struct ff_device *dev, void *memory)
{
	if (--slots == 0)
		honest_unpin(dev, memory);
}

/* The stream gets to its loads when the next step's samples have been fetched. */
static int late_drain(struct ff_stream *s, struct ff_error *err)
{
	usleep(1000);
	return honest_drain(s, err);
}

/* The weights after some steps; NULL when one failed. */
static const float *train(struct scene *s, const struct ff_machine *m,
		const struct ff_strategy *strategy, const struct ff_backend *b)
{
	const float *weights = NULL;
	struct ff_error err;
	int code = FF_OK;
	struct rig rig;
	int64_t n;

	rig_open(&rig, &s->graph, m, strategy, b, NULL, s->data, s->optimizer, &s->opt, 0,
			&s->arena);
	for (uint64_t step = 0; step < SCENE_STEPS && code == FF_OK; step++)
		code = ff_executor_step(rig.x, step, &err);
	if (code == FF_OK)
		weights = rig_weights(&rig, false, &s->arena, &n);
	rig_close(&rig);
	return weights;
}

/* Of scenes with streams beside each other, those that come out otherwise or fail. */
static uint32_t caught(void (*plant)(struct ff_backend *b))
{
	uint64_t seed = ff_test_seed(50);
	uint32_t found = 0;

	for (uint32_t i = 0, n = 0; n < CASES; i++) {
		struct ff_random r = {seed, i, 0};
		struct ff_backend bad = *rig_backend(false);
		const float *split, *whole;
		struct scene s;

		scene_open(&s, FF_F32, 4, &r);
		if (s.machine.n_devices > 1 && s.machine.overlap) {
			plant(&bad);
			split = train(&s, &s.machine, &s.strategy, &bad);
			whole = train(&s, &s.one, &s.single, rig_backend(false));
			ck_assert_ptr_nonnull(whole);
			found += !split ||
				 !(scene_apart(&s, split, whole) <= 100 * SCENE_TOLERANCE);
			n++;
		}
		scene_close(&s);
	}
	printf("# %u of %u are caught\n", found, CASES);
	return found;
}

static void plant_nothing(struct ff_backend *b)
{
	(void)b;
}

static void plant_no_wait(struct ff_backend *b)
{
	b->wait = no_wait;
}

static void plant_short_copy(struct ff_backend *b)
{
	honest_copy = b->copy;
	b->copy = short_copy;
}

static void plant_late_drain(struct ff_backend *b)
{
	honest_drain = b->drain;
	b->drain = late_drain;
}

static void plant_one_slot(struct ff_backend *b)
{
	plant_late_drain(b);
	honest_pin = b->pin;
	honest_unpin = b->unpin;
	b->pin = one_slot;
	b->unpin = leave_slot;
	slots = 0;
}

START_TEST(nothing)
{
	ck_assert_uint_eq(caught(plant_nothing), 0);
}
END_TEST

START_TEST(missing_waits)
{
	ck_assert_uint_gt(caught(plant_no_wait), CASES / 2);
}
END_TEST

START_TEST(short_copies)
{
	ck_assert_uint_gt(caught(plant_short_copy), CASES / 2);
}
END_TEST

/* Step k + 1's samples go where those of step k lie that have not been read. */
START_TEST(overwritten_slots)
{
	ck_assert_uint_eq(caught(plant_late_drain), 0);
	ck_assert_uint_gt(caught(plant_one_slot), CASES * 3 / 4);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("planted");
	TCase *t = tcase_create("planted");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, nothing);
	tcase_add_test(t, missing_waits);
	tcase_add_test(t, short_copies);
	tcase_add_test(t, overwritten_slots);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
