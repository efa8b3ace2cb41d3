/* Faults planted between the executor and the CUDA backend on its double, in what kernels are told
 * of memory: an address that is off, rows that are further apart than they lie.  What is trained
 * comes out otherwise than without, or training fails.  (In waits, copies and slots:
 * test_planted.c.)  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check_main.h"
#include "launches.h"

#define CASES 24
#define OFF 64 /* bytes: as buffers are aligned, so that no library refuses it */

static int (*honest_run)(struct ff_stream *s, struct ff_kernel *k, const struct ff_kernel_io *io,
		struct ff_error *err);
static int (*honest_kernel)(struct ff_device *dev, const struct ff_work *w, struct ff_kernel **ret,
		struct ff_error *err);

/* The first input is read from behind where it begins. */
static int run_off(struct ff_stream *s, struct ff_kernel *k, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	struct ff_kernel_io off = *io;

	if (off.in[0])
		off.in[0] = (const char *)off.in[0] + OFF;
	return honest_run(s, k, &off, err);
}

/* What a linear layer reads is taken to have rows that are longer by one: leading dimensions of
 * its products. */
static int kernel_apart(struct ff_device *dev, const struct ff_work *w, struct ff_kernel **ret,
		struct ff_error *err)
{
	struct ff_work *apart;
	int code;

	if (w->node->op != FF_OP_LINEAR)
		return honest_kernel(dev, w, ret, err);
	apart = malloc(sizeof(*apart));
	ck_assert_ptr_nonnull(apart);
	*apart = *w;
	for (int i = 0; i < 2; i++)
		apart->in[i].hi[apart->in[i].rank - 1]++;
	code = honest_kernel(dev, apart, ret, err);
	free(apart);
	return code;
}

static void plant_nothing(struct ff_backend *b)
{
	(void)b;
}

static void plant_off(struct ff_backend *b)
{
	honest_run = b->kernel.run;
	b->kernel.run = run_off;
}

static void plant_apart(struct ff_backend *b)
{
	honest_kernel = b->kernel.open;
	b->kernel.open = kernel_apart;
}

/* All weights after some steps; NULL when one failed. */
static const float *train(struct scene *s, const struct ff_backend *b)
{
	const struct ff_graph *g = &s->graph;
	float *all = ff_arena_array(&s->arena, (size_t)ff_graph_parameters(g), sizeof(*all));
	float *at = all;
	struct ff_error err;
	int code = FF_OK;
	struct rig rig;
	struct rig_setup setup;

	ck_assert_ptr_nonnull(all);
	setup = scene_setup(s, b);
	setup.graph = g;
	rig_open(&rig, setup);
	for (uint64_t step = 0; step < SCENE_STEPS && code == FF_OK; step++)
		code = ff_executor_step(rig.x, step, &err);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		if (!ff_node_is_parameter(g, i))
			continue;
		code = ff_executor_parameter(rig.x, i, FF_ARRAY_WEIGHTS, at, &err);
		at += rig_volume(&g->values[g->nodes[i].out]);
	}
	rig_close(&rig);
	return code == FF_OK ? all : NULL;
}

/* Does a drawn scene come out otherwise, or fail? */
static bool is_caught(uint32_t i, void (*plant)(struct ff_backend *b))
{
	struct ff_random r = {ff_test_seed(51), i, 0};
	struct ff_backend bad = *rig_backend(false);
	const float *spoiled, *honest;
	struct scene s;
	size_t n;

	bad.kernel.fuse = NULL; /* kernels that are one task's each, here and there */
	scene_open(&s, FF_F32, 4, &r);
	n = (size_t)ff_graph_parameters(&s.graph);
	honest = train(&s, &bad);
	plant(&bad);
	spoiled = train(&s, &bad);
	return !spoiled || memcmp(spoiled, honest, n * sizeof(*honest)) != 0;
}

/* Of so many scenes.  After an illegal access a process has no device any more, so each has a
 * process of its own; what else goes wrong there ends it otherwise. */
static uint32_t caught(void (*plant)(struct ff_backend *b))
{
	uint32_t found = 0;

	fflush(NULL);
	for (uint32_t i = 0; i < CASES; i++) {
		pid_t child = fork();
		int status = -1;

		ck_assert_int_ge(child, 0);
		if (!child)
			_exit(is_caught(i, plant));
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) < 2, "case %u: status %d", i,
				status);
		found += WEXITSTATUS(status) == 1;
	}
	printf("# %u of %u are caught\n", found, CASES);
	return found;
}

START_TEST(nothing)
{
	ck_assert_uint_eq(caught(plant_nothing), 0);
}
END_TEST

START_TEST(wrong_offsets)
{
	ck_assert_uint_eq(caught(plant_off), CASES);
}
END_TEST

START_TEST(wrong_leading_dimensions)
{
	ck_assert_uint_eq(caught(plant_apart), CASES);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("misplaced");
	TCase *t = tcase_create("misplaced");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, nothing);
	tcase_add_test(t, wrong_offsets);
	tcase_add_test(t, wrong_leading_dimensions);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
