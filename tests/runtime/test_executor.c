/* Every strategy computes the same function: random graphs under random legal
 * strategies against one device.  SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"

#include <math.h>
#include <string.h>

#include "random_graph.h"
#include "rig.h"

#define CASES 400
#define STEPS 2
#define TOLERANCE 1e-5

/* What a run leaves behind. */
struct result {
	const float *initial, *weights;
	const float *gradients[STEPS];
	double loss[STEPS], accuracy, test_loss;
};

struct scene {
	struct ff_arena arena;
	struct ff_graph graph;
	struct ff_machine machine, one;
	struct ff_strategy strategy, single;
	struct ff_dataset *data;
	struct ff_executor_options opt;
};

static void scene_open(struct scene *s, struct ff_random *r)
{
	struct ff_error err;

	memset(s, 0, sizeof(*s));
	ff_arena_init(&s->arena);
	RIG_OK(random_graph(r, 6, &s->arena, &s->graph, &err));
	RIG_OK(random_machine(r, 1 + ff_random_below(r, 8), &s->arena, &s->machine, &err));
	RIG_OK(random_machine(r, 1, &s->arena, &s->one, &err));
	RIG_OK(random_strategy(r, &s->graph, s->machine.n_devices, &s->arena, &s->strategy, &err));
	RIG_OK(ff_strategy_single(&s->graph, 0, &s->arena, &s->single, &err));
	RIG_OK(ff_dataset_open("synthetic:18", &s->graph, ff_random_u32(r), &s->data, &err));
	s->opt.seed = ff_random_u32(r);
	s->opt.sgd = (struct ff_sgd){0.01f, 0.9f, 0.01f};
}

static void scene_close(struct scene *s)
{
	ff_dataset_close(s->data);
	ff_arena_finish(&s->arena);
}

/* Runs the steps and checks on the way that memory and messages are as planned. */
static void run(struct scene *s, const struct ff_machine *m, const struct ff_strategy *strategy,
		const struct ff_backend *b, int64_t bucket_bytes, struct result *ret)
{
	struct ff_error err;
	int64_t n, planned = 0;
	struct rig r;

	rig_allocated = 0;
	rig_open(&r, &s->graph, m, strategy, b, s->data, &s->opt, bucket_bytes, &s->arena);
	for (uint32_t d = 0; d < m->n_devices; d++) {
		ck_assert_int_eq(ff_executor_memory(r.x, d), r.schedule.memory_bytes[d]);
		planned += r.schedule.memory_bytes[d];
	}
	ck_assert_int_eq(rig_allocated, planned);
	ret->initial = rig_weights(&r, false, &s->arena, &n);
	for (uint64_t step = 0; step < STEPS; step++) {
		int64_t sent = r.comm->sent_bytes;

		RIG_OK(ff_executor_step(r.x, step, &err));
		ck_assert_int_eq(r.comm->sent_bytes - sent, r.schedule.network_bytes);
		ret->gradients[step] = rig_weights(&r, true, &s->arena, &n);
	}
	RIG_OK(ff_executor_losses(r.x, ret->loss, STEPS, &err));
	ret->weights = rig_weights(&r, false, &s->arena, &n);
	RIG_OK(ff_executor_test(r.x, &ret->accuracy, &ret->test_loss, &err));
	rig_close(&r);
}

static void compare(const struct scene *s, const struct result *split, const struct result *whole)
{
	const char *name = "";
	double d;

	ck_assert_mem_eq(split->initial, whole->initial,
			(size_t)ff_graph_parameters(&s->graph) * sizeof(float));
	for (int i = 0; i < STEPS; i++) {
		/* the logarithm of a probability near 1 is its rounding */
		d = fabs(split->loss[i] - whole->loss[i]) / fmax(whole->loss[i], 0.1);
		ck_assert_msg(d <= TOLERANCE, "loss %d: %.9g, expected %.9g", i, split->loss[i],
				whole->loss[i]);
		/* and of its difference from 1, all gradients are made */
		if (whole->loss[i] < 0.02)
			continue;
		d = rig_distance(&s->graph, split->gradients[i], whole->gradients[i], &name);
		ck_assert_msg(d <= TOLERANCE, "gradient %d of %s: %g apart", i, name, d);
	}
	d = rig_distance(&s->graph, split->weights, whole->weights, &name);
	ck_assert_msg(d <= TOLERANCE, "weights of %s: %g apart", name, d);
	d = fabs(split->test_loss - whole->test_loss) / fmax(whole->test_loss, 0.1);
	ck_assert_msg(d <= TOLERANCE, "test loss: %.9g, expected %.9g", split->test_loss,
			whole->test_loss);
}

START_TEST(same_function)
{
	uint64_t seed = ff_test_seed(20);

	for (uint32_t i = 0; i < CASES; i++) {
		struct ff_random r = {seed, i, 0};
		struct result split, whole;
		struct scene s;
		bool bounce;

		scene_open(&s, &r);
		bounce = ff_random_below(&r, 4) == 0;
		printf("# case %u: %u nodes, %u devices%s%s\n", i, s.graph.n_nodes,
				s.machine.n_devices, s.machine.overlap ? ", overlap" : "",
				bounce ? ", bounce" : "");
		run(&s, &s.machine, &s.strategy, rig_backend(bounce),
				ff_random_below(&r, 2) ? 0 : 64 * (1 + ff_random_below(&r, 40)), &split);
		run(&s, &s.one, &s.single, rig_backend(false), 0, &whole);
		compare(&s, &split, &whole);
		scene_close(&s);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("executor");
	TCase *t = tcase_create("property");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, same_function);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
