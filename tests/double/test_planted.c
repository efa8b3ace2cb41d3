/* Faults planted between the executor and the CUDA backend on its double: what is trained comes
 * out otherwise than without, if only in its last bit, or training fails.  (Planted below the
 * backend: test_double.cpp, test_products.cpp and test_libraries.cpp.)
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <string.h>

#include "chosen.h"
#include "exec/messages/load.h"
#include "launches.h"

/* Scenes that each fault is planted in. */
static uint32_t cases(void)
{
	return ff_test_rounds(24);
}

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

/* What is trained; NULL: no step is under way. */
static const struct ff_executor *trained;

/* The stream gets to its loads when the next step's samples have been fetched: who asks for those
 * waits for that. */
static int late_drain(struct ff_stream *s, struct ff_error *err)
{
	const struct ff_batch next = {trained ? trained->step + 1 : 0, true};
	int code = FF_OK;

	if (trained)
		code = ff_prefetch_take(trained->prefetched->prefetch, &next, NULL, err);
	return code < 0 ? code : honest_drain(s, err);
}

/* The weights after some steps; NULL when one failed. */
static const float *train(struct scene *s, const struct ff_backend *b)
{
	const float *weights = NULL;
	struct ff_error err;
	int code = FF_OK;
	struct rig rig;

	rig_open(&rig, scene_setup(s, b));
	for (uint64_t step = 0; step < SCENE_STEPS && code == FF_OK; step++) {
		trained = rig.x;
		code = ff_executor_step(rig.x, step, &err);
		trained = NULL;
	}
	if (code == FF_OK)
		rig_read(&rig, false, &s->arena, &weights, &err);
	rig_close(&rig);
	return weights;
}

static bool same(const struct scene *s, const float *a, const float *b)
{
	return !memcmp(a, b, (size_t)ff_graph_parameters(&s->graph) * sizeof(*a));
}

/* Of scenes with streams beside each other, those that come out otherwise or fail. */
static uint32_t caught(void (*plant)(struct ff_backend *b))
{
	uint64_t seed = ff_test_seed(50);
	uint32_t found = 0;

	for (uint32_t i = 0, n = 0; n < cases(); i++) {
		struct ff_random r = {seed, i, 0};
		struct ff_backend bad = *rig_backend(false);
		const float *spoiled, *honest;
		struct scene s;

		scene_open(&s, FF_F32, 4, &r);
		if (s.machine.n_devices > 1 && s.machine.overlap) {
			plant(&bad);
			spoiled = train(&s, &bad);
			honest = train(&s, rig_backend(false));
			ck_assert_ptr_nonnull(honest);
			found += !spoiled || !same(&s, spoiled, honest);
			n++;
		}
		scene_close(&s);
	}
	printf("# %u of %u are caught\n", found, cases());
	return found;
}

static void plant_nothing(struct ff_backend *b)
{
	(void)b;
}

static void plant_no_wait(struct ff_backend *b)
{
	b->event.wait = no_wait;
}

static void plant_short_copy(struct ff_backend *b)
{
	honest_copy = b->move.copy;
	b->move.copy = short_copy;
}

static void plant_late_drain(struct ff_backend *b)
{
	honest_drain = b->stream.drain;
	b->stream.drain = late_drain;
}

static void plant_one_slot(struct ff_backend *b)
{
	plant_late_drain(b);
	honest_pin = b->memory.pin;
	honest_unpin = b->memory.unpin;
	b->memory.pin = one_slot;
	b->memory.unpin = leave_slot;
	slots = 0;
}

/* ---- in what is captured ---- */

/* Of scenes with captured steps, those that come out otherwise than task by task, or fail. */
static uint32_t caught_captured(void (*plant)(struct ff_backend *b, struct ff_captures *c))
{
	uint64_t seed = ff_test_seed(51);
	uint32_t found = 0;

	for (uint32_t i = 0, n = 0; n < cases(); i++) {
		struct ff_random r = {seed, i, 0};
		struct ff_backend bad = *rig_backend(false);
		struct ff_captures captures = *bad.captures;
		struct launched spoiled, plain;
		struct ff_error err = {0};
		struct scene s;

		scene_open(&s, FF_F32, 1, &r);
		scene_optimizer(&s, FF_OPTIMIZER_ADAMW);
		if (s.machine.overlap) {
			launch_train(&s, &s.machine, &s.strategy, rig_backend(false), NULL, "0",
					&plain);
			plant(&bad, &captures);
			bad.captures = &captures;
			found += launch_try(&s, &s.machine, &s.strategy, &bad, NULL, "1", &spoiled,
						 &err) < 0 ||
				 !launch_same(&s, &spoiled, &plain);
			n++;
		}
		scene_close(&s);
	}
	printf("# %u of %u are caught\n", found, cases());
	return found;
}

static void plant_nothing_captured(struct ff_backend *b, struct ff_captures *c)
{
	(void)b, (void)c;
}

static const struct ff_backend *whole;
static struct ff_figures *figures, first_figures;
static bool capturing;
static uint32_t waits;

static int begin(struct ff_stream *s, struct ff_error *err)
{
	capturing = true;
	waits = 0;
	return whole->captures->begin(s, err);
}

static int end(struct ff_stream *s, struct ff_captured **ret, struct ff_error *err)
{
	capturing = false;
	return whole->captures->end(s, ret, err);
}

/* The second edge between streams is missing; the first one begins the other stream. */
static int drop_edge(struct ff_stream *s, struct ff_event *ev, struct ff_error *err)
{
	return capturing && ++waits == 2 ? FF_OK : whole->event.wait(s, ev, err);
}

static void plant_dropped_edge(struct ff_backend *b, struct ff_captures *c)
{
	whole = rig_backend(false);
	b->event.wait = drop_edge;
	c->begin = begin;
	c->end = end;
}

static int note_figures(struct ff_stream *s, void *device, const void *host, size_t bytes,
		struct ff_error *err)
{
	if (capturing && bytes == sizeof(*figures))
		memcpy(&figures, &host, sizeof(figures));
	return whole->move.upload(s, device, host, bytes, err);
}

/* They are what they were when the first step was launched. */
static int launch_stale(struct ff_stream *s, struct ff_captured *c, struct ff_error *err)
{
	if (waits++ == 0)
		first_figures = *figures;
	*figures = first_figures;
	return whole->captures->launch(s, c, err);
}

static void plant_stale_figures(struct ff_backend *b, struct ff_captures *c)
{
	whole = rig_backend(false);
	b->move.upload = note_figures;
	c->begin = begin;
	c->end = end;
	c->launch = launch_stale;
	waits = 0;
}

/* Who takes a step's or an update's own arguments, and not what is in device memory. */
static int update_by_value(
		struct ff_stream *s, const struct ff_update *u, uint32_t n, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < n && code == FF_OK; i++) {
		struct ff_update own = u[i];

		own.figures = NULL;
		code = whole->math.update(s, &own, 1, err);
	}
	return code;
}

static void plant_arguments(struct ff_backend *b, struct ff_captures *c)
{
	(void)c;
	whole = rig_backend(false);
	b->math.update = update_by_value;
}

/* The host does not wait for a pass that has read its samples, and not for what it left. */
static int await_nothing(struct ff_stream *s, struct ff_event *ev, struct ff_error *err)
{
	(void)s, (void)ev, (void)err;
	return FF_OK;
}

static int elapsed_nothing(
		struct ff_event *start, struct ff_event *finish, double *us, struct ff_error *err)
{
	(void)start, (void)finish, (void)err;
	*us = 0;
	return FF_OK;
}

static void plant_no_await(struct ff_backend *b, struct ff_captures *c)
{
	b->event.elapsed = elapsed_nothing;
	c->await = await_nothing;
}

START_TEST(captured_faults)
{
	ck_assert_uint_eq(caught_captured(plant_nothing_captured), 0);
	ck_assert_uint_gt(caught_captured(plant_dropped_edge), cases() / 2);
	ck_assert_uint_eq(caught_captured(plant_stale_figures), cases());
	ck_assert_uint_eq(caught_captured(plant_arguments), cases());
	ck_assert_uint_eq(caught_captured(plant_no_await), cases());
}
END_TEST

START_TEST(nothing)
{
	ck_assert_uint_eq(caught(plant_nothing), 0);
}
END_TEST

START_TEST(missing_waits)
{
	ck_assert_uint_gt(caught(plant_no_wait), cases() / 2);
}
END_TEST

START_TEST(short_copies)
{
	ck_assert_uint_gt(caught(plant_short_copy), cases() / 2);
}
END_TEST

static void seed_double(uint64_t seed)
{
	void *module = dlopen(getenv("FF_CUDA_MODULE"), RTLD_NOW | RTLD_LOCAL);
	void (*tell)(uint64_t seed);

	ck_assert_ptr_nonnull(module);
	*(void **)&tell = dlsym(module, "ff_double_seed");
	ck_assert_ptr_nonnull((void *)tell);
	tell(seed);
	dlclose(module);
}

/* Step k + 1's samples go where those of step k lie that have not been read.  Nothing is drawn, so
 * that nothing is read before somebody waits for it. */
START_TEST(overwritten_slots)
{
	seed_double(0);
	ck_assert_uint_eq(caught(plant_late_drain), 0);
	ck_assert_uint_eq(caught(plant_one_slot), cases());
	seed_double(1);
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
	tcase_add_test(t, captured_faults);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
