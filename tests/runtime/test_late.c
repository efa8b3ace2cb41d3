/* Gradients that are applied some steps late: random graphs under random strategies against steps
 * of one device without delay, on the same weights; what waits is read and put back on the way, as
 * checkpoints do.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chosen.h"
#include "ff/workspace.h"
#include "process/agree.h"
#include "scene.h"

#define SCENES 60
#define MOST 3
#define STEPS (MOST + 3)
#define TOLERANCE 1e-4

/* One of the arrays of all parameters. */
static void read_array(struct rig *r, const struct ff_graph *g, uint32_t array, float *at)
{
	struct ff_error err;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_is_parameter(g, i)) {
			RIG_OK(ff_executor_parameter(r->x, i, array, at, &err));
			at += rig_volume(&g->values[g->nodes[i].out]);
		}
}

static void put_array(struct rig *r, const struct ff_graph *g, uint32_t array, const float *at)
{
	struct ff_error err;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_is_parameter(g, i)) {
			RIG_OK(ff_executor_put_parameter(r->x, i, array, at, &err));
			at += rig_volume(&g->values[g->nodes[i].out]);
		}
}

static void open_late(struct rig *r, struct scene *s, const struct ff_machine *m,
		const struct ff_strategy *strategy, const struct ff_lower_options *how)
{
	const struct ff_backend *b = rig_backend(s->opt.seed % 3 == 0);
	struct ff_workspace_query query = {.backend = b};
	struct ff_lower_options lower = *how;
	struct ff_error err;
	int64_t planned = 0;

	lower.optimizer = s->optimizer;
	lower.group = s->opt.groups.of;
	lower.clip = s->opt.clip > 0;
	lower.workspace = ff_backend_workspace;
	lower.ctx = &query;
	RIG_OK(b->device.open(0, &query.device, &err));
	RIG_OK(ff_lower(&s->graph, m, strategy, &lower, &s->arena, &r->schedule, &err));
	b->device.close(query.device);
	ff_workspace_finish(&query);
	r->own_comm = true;
	RIG_OK(ff_comm_local(m->n_devices, &r->comm, &err));
	rig_allocated = 0;
	RIG_OK(ff_executor_create(&r->schedule, b, r->comm, s->data, &s->opt, &r->x, &err));
	for (uint32_t d = 0; d < m->n_devices; d++)
		planned += r->schedule.memory_bytes[d];
	ck_assert_int_eq(rig_allocated, planned);
}

/* What is compared: all parameters, one behind the other. */
struct memory {
	int64_t n;
	float *weights, *before, *found;
	float *history[STEPS]; /* gradients by step */
};

static void near(const struct scene *s, const float *found, const float *expected, uint64_t step,
		const char *what)
{
	const char *name = "";
	double apart = rig_distance(&s->graph, found, expected, &name);

	ck_assert_msg(apart <= TOLERANCE, "step %d: %s of %s is %g apart", (int)step, what, name,
			apart);
}

/* What waits is what the last steps made of the weights that they had; put back it is the same. */
static void check_waiting(struct scene *s, struct rig *late, struct memory *m, uint64_t step)
{
	for (uint32_t age = 0; age < late->schedule.travel.staleness && age <= step; age++) {
		uint32_t array = FF_ARRAY_WAITING + age;

		read_array(late, &s->graph, array, m->found);
		near(s, m->found, m->history[step - age], step, "what waits");
		put_array(late, &s->graph, array, m->found);
		read_array(late, &s->graph, array, m->before);
		for (int64_t i = 0; i < m->n; i++) /* zeros have no sign here */
			m->found[i] += 0.0F, m->before[i] += 0.0F;
		ck_assert_mem_eq(m->before, m->found, (size_t)m->n * sizeof(float));
	}
}

static void check_step(struct scene *s, struct rig *late, struct rig *plain, struct memory *m,
		uint64_t step)
{
	uint32_t staleness = late->schedule.travel.staleness;
	const struct ff_graph *g = &s->graph;
	int64_t sent = late->comm->sent_bytes;
	struct ff_error err;

	read_array(late, g, FF_ARRAY_WEIGHTS, m->weights);
	put_array(plain, g, FF_ARRAY_WEIGHTS, m->weights);
	RIG_OK(ff_executor_step(plain->x, step, &err));
	RIG_OK(ff_executor_step(late->x, step, &err));
	ck_assert_int_eq(late->comm->sent_bytes - sent, late->schedule.network_bytes);
	read_array(plain, g, FF_ARRAY_GRADIENTS, m->history[step]);
	read_array(late, g, FF_ARRAY_GRADIENTS, m->found);
	if (step >= staleness)
		near(s, m->found, m->history[step - staleness], step, "the gradient");
	read_array(late, g, FF_ARRAY_WEIGHTS, m->before);
	for (int64_t i = 0; i < m->n && step < staleness; i++)
		ck_assert(m->found[i] == 0 && m->before[i] == m->weights[i]);
	check_waiting(s, late, m, step);
}

static void check_scene(struct scene *s, const struct ff_lower_options *how)
{
	const struct ff_lower_options alone = {.travel.staleness = how->travel.staleness},
				      none = {0};
	struct memory m = {.n = ff_graph_parameters(&s->graph)};
	struct rig late, whole, plain;
	const char *name = "";
	struct ff_error err;
	double apart;
	float **array[3] = {&m.weights, &m.before, &m.found};

	for (int i = 0; i < 3; i++)
		*array[i] = calloc((size_t)m.n + 1, sizeof(float));
	for (int i = 0; i < STEPS; i++)
		m.history[i] = calloc((size_t)m.n + 1, sizeof(float));
	open_late(&late, s, &s->machine, &s->strategy, how);
	open_late(&whole, s, &s->one, &s->single, &alone);
	s->opt.keep_gradients = true;
	open_late(&plain, s, &s->one, &s->single, &none);
	for (uint64_t step = 0; step < STEPS; step++) {
		check_step(s, &late, &plain, &m, step);
		RIG_OK(ff_executor_step(whole.x, step, &err));
	}
	/* updated as one device does */
	read_array(&late, &s->graph, FF_ARRAY_WEIGHTS, m.found);
	read_array(&whole, &s->graph, FF_ARRAY_WEIGHTS, m.weights);
	apart = rig_distance(&s->graph, m.found, m.weights, &name);
	ck_assert_msg(apart <= TOLERANCE, "%s is %g apart", name, apart);
	rig_close(&late);
	rig_close(&whole);
	rig_close(&plain);
	for (int i = 0; i < 3; i++)
		free(*array[i]);
	for (int i = 0; i < STEPS; i++)
		free(m.history[i]);
}

START_TEST(late_but_the_same)
{
	uint64_t seed = ff_test_seed(71);

	for (uint32_t i = 0; i < ff_test_rounds(SCENES); i++) {
		struct ff_random r = {seed, i, 0};
		struct ff_lower_options how = {.travel.staleness = 1 + i % MOST};
		struct scene s;
		struct ff_error err;

		scene_open(&s, FF_F32, 8, &r);
		s.strategy.scatter = false; /* is refused */
		if (i % 5 == 0)             /* random ones seldom all-reduce */
			RIG_OK(ff_strategy_data_parallel(&s.graph, s.machine.n_devices, &s.arena,
					&s.strategy, &err));
		if (ff_random_below(&r, 2))
			how.bucket_bytes = 64 * (1 + (int64_t)ff_random_below(&r, 40));
		printf("# case %u: %u nodes, %u devices%s, %u late\n", i, s.graph.n_nodes,
				s.machine.n_devices, s.machine.overlap ? ", overlap" : "",
				how.travel.staleness);
		check_scene(&s, &how);
		scene_close(&s);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("late");
	TCase *t = tcase_create("late");

	tcase_add_test(t, late_but_the_same);
	tcase_set_timeout(t, 600);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
