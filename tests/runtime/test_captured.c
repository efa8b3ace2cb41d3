/* Steps that are captured and launched: the same bits as task by task, the same sentences, and
 * what is done where they cannot be.  SPDX-License-Identifier: Apache-2.0 */
#include "chosen.h"

#include <string.h>

#include "exec/messages/communication.h"
#include "exec/messages/load.h"
#include "launches.h"

#define SCENES 48
#define SOME 4

START_TEST(same_bits)
{
	launch_compare(ff_test_rounds(SCENES), ff_test_seed(82), NULL, 1);
}
END_TEST

/* ---- whether ---- */

static const char *obstacle_of(struct scene *s, const struct ff_backend *b,
		const struct ff_machine *m, const struct ff_strategy *strategy,
		enum ff_prefetching prefetch, char *insisted)
{
	struct ff_executor_options opt = s->opt;
	static char text[FF_ERROR_TEXT];
	struct ff_executor *x = NULL;
	struct ff_error err = {0};
	struct rig r;
	struct rig_setup setup;

	opt.prefetch = prefetch;
	setup = scene_setup(s, b);
	setup.machine = m;
	setup.strategy = strategy;
	setup.opt = &opt;
	rig_open(&r, setup);
	snprintf(text, sizeof(text), "%s",
			ff_executor_obstacle(r.x) ? ff_executor_obstacle(r.x) : "");
	ck_assert_int_eq(setenv("FF_CUDA_GRAPH", "1", 1), 0);
	ck_assert_int_eq(ff_executor_create(&r.schedule, b, r.comm, s->data, &opt, &x, &err),
			text[0] ? FF_E_INPUT : FF_OK);
	ck_assert_int_eq(unsetenv("FF_CUDA_GRAPH"), 0);
	snprintf(insisted, FF_ERROR_TEXT, "%s", err.text);
	ff_executor_destroy(x);
	rig_close(&r);
	return text;
}

START_TEST(obstacles)
{
	struct ff_random r = {ff_test_seed(72), 0, 0};
	const struct ff_backend *b = rig_backend(false);
	struct ff_executor *x = NULL;
	char told[FF_ERROR_TEXT];
	struct ff_error err;
	struct scene s;
	struct rig rig;

	scene_open(&s, FF_F32, 4, &r);
	while (s.machine.n_devices == 1) {
		scene_close(&s);
		scene_open(&s, FF_F32, 4, &r);
	}
	ck_assert_str_eq(obstacle_of(&s, b, &s.one, &s.single, FF_PREFETCH_ON, told), "");
	ck_assert_str_eq(obstacle_of(&s, b, &s.machine, &s.strategy, FF_PREFETCH_ON, told),
			"one process has several devices");
	ck_assert_str_eq(told, "FF_CUDA_GRAPH=1, but one process has several devices");
	ck_assert_ptr_nonnull(strstr(obstacle_of(&s, b, &s.one, &s.single, FF_PREFETCH_OFF, told),
			"FF_PREFETCH=0"));
	ck_assert_str_eq(obstacle_of(&s, &ff_backend_null, &s.one, &s.single, FF_PREFETCH_ON, told),
			"the null backend captures nothing");
	ck_assert_str_eq(told, "FF_CUDA_GRAPH=1, but the null backend captures nothing");
	rig_open(&rig, scene_single(&s, b));
	ck_assert_int_eq(setenv("FF_CUDA_GRAPH", "yes", 1), 0);
	ck_assert_int_eq(ff_executor_create(&rig.schedule, b, rig.comm, s.data, &s.opt, &x, &err),
			FF_E_INPUT);
	ck_assert_str_eq(err.text, "FF_CUDA_GRAPH=yes: expected 0 or 1");
	ck_assert_int_eq(unsetenv("FF_CUDA_GRAPH"), 0);
	rig_close(&rig);
	scene_close(&s);
}
END_TEST

/* ---- what cannot be captured ---- */

static int fail_end(struct ff_stream *s, struct ff_captured **ret, struct ff_error *err)
{
	(void)ret;
	chosen_backend()->captures->end(s, NULL, err);
	return ff_fail(err, FF_E_RUN, "planted");
}

static int nothing(void *arg, struct ff_error *err)
{
	(void)arg, (void)err;
	return FF_OK;
}

static int update_and_call(
		struct ff_stream *s, const struct ff_update *u, uint32_t n, struct ff_error *err)
{
	int code = chosen_backend()->math.update(s, u, n, err);

	return code < 0 ? code : chosen_backend()->stream.call(s, nothing, NULL, err);
}

static int update_and_drain(
		struct ff_stream *s, const struct ff_update *u, uint32_t n, struct ff_error *err)
{
	int code = chosen_backend()->math.update(s, u, n, err);

	return code < 0 ? code : chosen_backend()->stream.drain(s, err);
}

/* Steps go on without, or end where somebody insisted. */
static void check_give_up(const struct ff_backend *b, const char *why)
{
	struct ff_random r = {ff_test_seed(73), 0, 0};

	for (int i = 0; i < SOME; i++) {
		struct launched without, plain;
		struct ff_error err = {0};
		struct scene s;

		scene_open(&s, FF_F32, 1, &r);
		launch_train(&s, &s.machine, &s.strategy, rig_backend(false), NULL, "0", &plain);
		launch_train(&s, &s.machine, &s.strategy, b, NULL, NULL, &without);
		ck_assert(!without.captured);
		ck_assert_uint_eq(without.captures, 1);
		ck_assert_uint_eq(without.launches, 0);
		ck_assert(launch_same(&s, &without, &plain));
		ck_assert_int_eq(launch_try(&s, &s.machine, &s.strategy, b, NULL, "1", &without,
						 &err),
				FF_E_RUN);
		ck_assert_msg(strstr(err.text, "a step could not be captured: ") &&
						strstr(err.text, why),
				"%s", err.text);
		scene_close(&s);
	}
}

START_TEST(gives_up)
{
	struct ff_captures captures = *chosen_backend()->captures;
	struct ff_backend b = *rig_backend(false);

	captures.end = fail_end;
	b.captures = &captures;
	check_give_up(&b, "planted");
	b = *rig_backend(false);
	b.math.update = update_and_call;
	check_give_up(&b, "a function of the host's cannot be captured");
	b = *rig_backend(false);
	b.math.update = update_and_drain;
	check_give_up(&b, "CUDA device 0 failed to finish its work");
}
END_TEST

/* ---- what kernels report ---- */

static struct ff_executor *spoiled;
static int32_t wrong_label;
static int countdown;

static bool is_label(const struct ff_transfer *t)
{
	const struct ff_graph *g = spoiled->s->graph;

	return t && t->task->move->kind == FF_MOVE_LOAD && t->task->move->type == FF_I32 &&
	       g->nodes[g->edges[t->task->edge].node].op == FF_OP_SOFTMAX_STATISTICS;
}

/* In the samples of the step that is launched. */
static int launch_with_wrong_label(struct ff_stream *s, struct ff_captured *c, struct ff_error *err)
{
	const struct ff_samples *samples = &spoiled->prefetched->slot[ff_batch_slot(spoiled->step)];

	for (uint32_t i = 0; countdown == 0 && i < spoiled->s->n_tasks; i++)
		if (is_label(spoiled->bound[i].transfer))
			*(int32_t *)(samples->memory + spoiled->bound[i].transfer->prefetched) =
					wrong_label;
	countdown--;
	return chosen_backend()->captures->launch(s, c, err);
}

/* It is told two posts later at the latest. */
START_TEST(wrong_labels)
{
	struct ff_random r = {ff_test_seed(74), 0, 0};
	struct ff_captures captures = *chosen_backend()->captures;
	struct ff_backend b = *rig_backend(false);

	captures.launch = launch_with_wrong_label;
	b.captures = &captures;
	for (int i = 0; i < 2 * SOME; i++) {
		struct ff_error err = {0};
		int code = FF_OK, n = 0;
		struct scene s;
		struct rig rig;

		scene_open(&s, FF_F32, 1, &r);
		rig_open(&rig, scene_single(&s, &b));
		spoiled = rig.x;
		wrong_label = i % 2 ? 1000 : -7;
		countdown = i;
		while (code == FF_OK && n < 2 * SOME + 4)
			code = ff_executor_post(rig.x, (uint64_t)n++, &err);
		/* the first is not launched, step countdown + 1 is spoiled */
		ck_assert_int_eq(code, FF_E_INPUT);
		ck_assert_int_le(n, i + 2 + 2);
		ck_assert_msg(strstr(err.text, i % 2 ? ": label 1000 is neither "
						     : ": label -7 is neither "),
				"%s", err.text);
		rig_close(&rig);
		scene_close(&s);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("captured");
	TCase *t = tcase_create("captured");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, same_bits);
	tcase_add_test(t, obstacles);
	tcase_add_test(t, gives_up);
	tcase_add_test(t, wrong_labels);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
