/* Samples that a thread fetches: the right ones for every pass, whatever passes there are, and
 * nothing under the hands of who reads.  SPDX-License-Identifier: Apache-2.0 */
#include "chosen.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "data/prefetch.h"
#include "scene.h"

#define SCENES 40
#define NONE UINT32_MAX
#define LENGTH 4096

/* A source of numbers that notes what is wrong with how it is asked. */
struct source {
	struct ff_batch slot[FF_SLOTS][LENGTH];
	atomic_uint held; /* the slot that is being read */
	atomic_uint fills, trespasses;
	atomic_ullong broken; /* the step that there is no sample of, or ULLONG_MAX */
	atomic_uint slow_us;
};

static int fill(void *arg, const struct ff_batch *pass, struct ff_error *err)
{
	struct source *s = arg;
	uint32_t slot = ff_batch_slot(pass->step);

	atomic_fetch_add(&s->fills, 1);
	usleep(atomic_load(&s->slow_us));
	if (atomic_load(&s->broken) == pass->step)
		return ff_fail(err, FF_E_RUN, "the source has nothing for step %u",
				(unsigned)pass->step);
	for (uint32_t i = 0; i < LENGTH; i++) {
		atomic_fetch_add(&s->trespasses, slot == atomic_load(&s->held));
		s->slot[slot][i] = *pass;
	}
	return FF_OK;
}

static struct source *source_open(struct ff_prefetch **ret)
{
	struct source *s = calloc(1, sizeof(*s));
	struct ff_error err;

	ck_assert_ptr_nonnull(s);
	atomic_store(&s->held, NONE);
	atomic_store(&s->broken, UINT64_MAX);
	RIG_OK(ff_prefetch_create(fill, s, ret, &err));
	return s;
}

static void source_close(struct source *s, struct ff_prefetch *p)
{
	ff_prefetch_destroy(p);
	ck_assert_uint_eq(atomic_load(&s->trespasses), 0);
	free(s);
}

/* Reads a pass as a step does: for a while, when it has been taken. */
static void read_pass(struct source *s, struct ff_prefetch *p, uint64_t step, bool training,
		bool more, uint32_t us)
{
	const struct ff_batch now = {step, training}, next = {step + 1, training};
	uint32_t slot = ff_batch_slot(step);
	struct ff_error err;

	RIG_OK(ff_prefetch_take(p, &now, more ? &next : NULL, &err));
	atomic_store(&s->held, slot);
	usleep(us);
	for (uint32_t i = 0; i < LENGTH; i++) {
		ck_assert_uint_eq(s->slot[slot][i].step, step);
		ck_assert_int_eq(s->slot[slot][i].training, training);
	}
	atomic_store(&s->held, NONE);
}

START_TEST(one_after_the_other)
{
	struct ff_prefetch *p;
	struct source *s = source_open(&p);

	for (uint64_t step = 0; step < 200; step++)
		read_pass(s, p, step, true, true, step % 3 ? 0 : 200);
	/* each once, and one that was never taken */
	ck_assert_uint_ge(atomic_load(&s->fills), 200);
	ck_assert_uint_le(atomic_load(&s->fills), 201);
	source_close(s, p);
}
END_TEST

/* The next one is filled while a step is at its own, not when it is asked for. */
START_TEST(ahead)
{
	struct ff_prefetch *p;
	struct source *s = source_open(&p);

	read_pass(s, p, 0, true, true, 0);
	for (int i = 0; i < 60000 && atomic_load(&s->fills) < 2; i++)
		usleep(1000);
	ck_assert_uint_eq(atomic_load(&s->fills), 2);
	read_pass(s, p, 1, true, false, 0);
	usleep(10000);
	ck_assert_uint_eq(atomic_load(&s->fills), 2);
	source_close(s, p);
}
END_TEST

/* Testing in between, resuming elsewhere, the same step again. */
START_TEST(in_any_order)
{
	struct ff_random r = {ff_test_seed(60), 0, 0};
	struct ff_prefetch *p;
	struct source *s = source_open(&p);
	uint64_t step = 0;

	for (int i = 0; i < 500; i++) {
		atomic_store(&s->slow_us, ff_random_below(&r, 3) ? 0 : ff_random_below(&r, 100));
		step = ff_random_below(&r, 2) ? step + 1 : ff_random_below(&r, 6);
		read_pass(s, p, step, ff_random_below(&r, 4), ff_random_below(&r, 4),
				ff_random_below(&r, 3) ? 0 : 50);
	}
	source_close(s, p);
}
END_TEST

/* A failure is the step's that would have used it, and of nobody else. */
START_TEST(failures)
{
	const struct ff_batch four = {4, true}, five = {5, true};
	struct ff_prefetch *p;
	struct source *s = source_open(&p);
	struct ff_error err;

	atomic_store(&s->broken, 4);
	for (uint64_t step = 0; step < 4; step++)
		read_pass(s, p, step, true, true, 500);
	for (int i = 0; i < 2; i++) {
		memset(&err, 0, sizeof(err));
		ck_assert_int_eq(ff_prefetch_take(p, &four, &five, &err), FF_E_RUN);
		ck_assert_int_eq(err.code, FF_E_RUN);
		ck_assert_str_eq(err.text, "the source has nothing for step 4");
	}
	atomic_store(&s->broken, UINT64_MAX);
	read_pass(s, p, 4, true, true, 0);
	atomic_store(&s->broken, 6);
	read_pass(s, p, 5, true, true, 500); /* step 6 fails, and nobody asks */
	read_pass(s, p, 0, false, true, 500);
	read_pass(s, p, 7, true, true, 0);
	source_close(s, p);
}
END_TEST

/* It ends in the middle of whatever it is at. */
START_TEST(ends_at_once)
{
	for (uint32_t i = 0; i < 50; i++) {
		struct ff_prefetch *p;
		struct source *s = source_open(&p);

		atomic_store(&s->slow_us, 20 * (i % 10));
		if (i % 5)
			read_pass(s, p, i, true, true, 10 * (i % 7));
		source_close(s, p);
	}
	ff_prefetch_destroy(NULL);
}
END_TEST

/* ---- executors ---- */

#define TRAINED 7

struct outcome {
	const float *weights;
	double loss[TRAINED], accuracy[2], test_loss[2];
};

/* Steps in a row, over the ends of epochs; a test in between; goes on somewhere else. */
static void train(struct scene *s, enum ff_prefetching prefetch, bool bounce, struct outcome *ret)
{
	static const uint64_t steps[TRAINED] = {0, 1, 2, 3, 40, 41, 42};
	struct ff_executor_options opt = s->opt;
	struct ff_error err;
	struct ff_tested tested[2];
	struct rig r;
	struct rig_setup setup;
	int64_t n;

	memset(ret, 0, sizeof(*ret));
	opt.prefetch = prefetch;
	setup = scene_setup(s, rig_backend(bounce));
	setup.opt = &opt;
	rig_open(&r, setup);
	for (int i = 0; i < TRAINED; i++) {
		if (i == 3)
			RIG_OK(ff_executor_test(r.x, &tested[0], &err));
		RIG_OK(ff_executor_step(r.x, steps[i], &err));
	}
	RIG_OK(ff_executor_losses(r.x, ret->loss, TRAINED, &err));
	RIG_OK(ff_executor_test(r.x, &tested[1], &err));
	for (int i = 0; i < 2; i++) {
		ret->accuracy[i] = tested[i].of[0].accuracy;
		ret->test_loss[i] = tested[i].loss;
	}
	ret->weights = rig_weights(&r, false, &s->arena, &n);
	rig_close(&r);
}

START_TEST(same_bits)
{
	uint64_t seed = ff_test_seed(61);

	for (uint32_t i = 0; i < ff_test_rounds(SCENES); i++) {
		struct ff_random r = {seed, i, 0};
		struct outcome on, off;
		struct scene s;
		bool bounce;

		scene_open(&s, FF_F32, 6, &r);
		bounce = ff_random_below(&r, 2);
		printf("# case %u: %u nodes, %u devices, %u micro-batches%s\n", i, s.graph.n_nodes,
				s.machine.n_devices, s.strategy.micro_batches,
				bounce ? ", bounce" : "");
		train(&s, FF_PREFETCH_ON, bounce, &on);
		train(&s, FF_PREFETCH_OFF, bounce, &off);
		ck_assert_mem_eq(on.loss, off.loss, sizeof(on.loss));
		ck_assert_mem_eq(on.accuracy, off.accuracy, sizeof(on.accuracy));
		ck_assert_mem_eq(on.test_loss, off.test_loss, sizeof(on.test_loss));
		ck_assert_mem_eq(on.weights, off.weights,
				(size_t)ff_graph_parameters(&s.graph) * sizeof(float));
		scene_close(&s);
	}
}
END_TEST

static uint32_t calls, pins;

static int counting_call(struct ff_stream *s, int (*fn)(void *arg, struct ff_error *err), void *arg,
		struct ff_error *err)
{
	calls++;
	return chosen_backend()->stream.call(s, fn, arg, err);
}

static int counting_pin(struct ff_device *dev, size_t bytes, void **ret, struct ff_error *err)
{
	pins++;
	return chosen_backend()->memory.pin(dev, bytes, ret, err);
}

/* On one device nothing else of a step is the host's. */
static uint32_t calls_of(struct scene *s, enum ff_prefetching prefetch)
{
	struct ff_backend b = *rig_backend(false);
	struct ff_executor_options opt = s->opt;
	struct ff_error err;
	struct rig r;
	struct rig_setup setup;

	opt.prefetch = prefetch;
	b.stream.call = counting_call;
	b.memory.pin = b.memory.pin ? counting_pin : NULL;
	calls = pins = 0;
	setup = scene_single(s, &b);
	setup.opt = &opt;
	rig_open(&r, setup);
	RIG_OK(ff_executor_step(r.x, 0, &err));
	rig_close(&r);
	return calls;
}

/* A load that was prefetched is a copy and nothing else, from memory that is pinned where the
 * backend has that; and the preset is what it is said to be. */
START_TEST(no_host_functions)
{
	uint64_t seed = ff_test_seed(62);
	bool far = !rig_backend(false)->memory.of_host;

	for (uint32_t i = 0; i < 8; i++) {
		struct ff_random r = {seed, i, 0};
		struct scene s;
		uint32_t off;

		scene_open(&s, FF_F32, 1, &r);
		ck_assert_uint_eq(calls_of(&s, FF_PREFETCH_ON), 0);
		ck_assert_uint_eq(pins, far ? FF_SLOTS : 0);
		off = calls_of(&s, FF_PREFETCH_OFF);
		ck_assert_uint_ge(off, 2); /* samples, labels */
		ck_assert_uint_eq(calls_of(&s, FF_PREFETCH_PRESET), far ? 0 : off);
		ck_assert_int_eq(setenv("FF_PREFETCH", far ? "0" : "1", 1), 0);
		ck_assert_uint_eq(calls_of(&s, FF_PREFETCH_PRESET), far ? off : 0);
		ck_assert_int_eq(unsetenv("FF_PREFETCH"), 0);
		scene_close(&s);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("prefetch");
	TCase *t = tcase_create("prefetch");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, one_after_the_other);
	tcase_add_test(t, ahead);
	tcase_add_test(t, in_any_order);
	tcase_add_test(t, failures);
	tcase_add_test(t, ends_at_once);
	tcase_add_test(t, same_bits);
	tcase_add_test(t, no_host_functions);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
