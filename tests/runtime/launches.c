/* Training whose steps are captured beside the same without.
 * SPDX-License-Identifier: Apache-2.0 */
#include "launches.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chosen.h"
#include "seen.h"

#define ENOUGH 12 /* cases, of which something is demanded */
#define MOST 4    /* times the cases that were asked for */

static const struct ff_captures *honest;
static uint32_t n_begun, n_launched;

static int counting_begin(struct ff_stream *s, struct ff_error *err)
{
	n_begun++;
	return honest->begin(s, err);
}

static int counting_launch(struct ff_stream *s, struct ff_captured *c, struct ff_error *err)
{
	n_launched++;
	return honest->launch(s, c, err);
}

static void set_word(const char *word)
{
	if (word)
		ck_assert_int_eq(setenv("FF_CUDA_GRAPH", word, 1), 0);
	else
		ck_assert_int_eq(unsetenv("FF_CUDA_GRAPH"), 0);
}

static int train(struct scene *s, struct rig *r, struct launched *ret, struct ff_error *err)
{
	static const uint64_t steps[LAUNCH_STEPS] = {0, 1, 2, 3, 41, 42, 44, 45, 46};
	struct ff_tested tested;
	int code = FF_OK;

	for (int i = 0; i < LAUNCH_STEPS && code == FF_OK; i++) {
		ff_executor_set_rate(r->x, 0, 0.01 * (1 + i % 4));
		if (i == 4 || i == 7)
			code = ff_executor_test(r->x, &tested, err);
		if ((i == 4 || i == 7) && code == FF_OK) {
			ret->accuracy[i == 7] = tested.of[0].accuracy;
			ret->top[i == 7] = isnan(tested.of[0].top) ? -1 : tested.of[0].top;
			ret->test_loss[i == 7] = tested.loss;
		}
		if (i == 6 && code == FF_OK)
			code = ff_executor_wait(r->x, err);
		if (i == 6 && code == FF_OK)
			code = rig_read(r, false, &s->arena, &ret->weights[0], err);
		if (code == FF_OK)
			code = ff_executor_post(r->x, steps[i], err);
	}
	if (code == FF_OK)
		code = ff_executor_times(r->x, ret->us, LAUNCH_STEPS, err);
	if (code == FF_OK)
		code = ff_executor_losses(r->x, ret->loss, LAUNCH_STEPS, err);
	if (code == FF_OK)
		code = rig_read(r, false, &s->arena, &ret->weights[1], err);
	return code;
}

int launch_try(struct scene *s, const struct ff_machine *m, const struct ff_strategy *strategy,
		const struct ff_backend *b, struct ff_comm *comm, const char *word,
		struct launched *ret, struct ff_error *err)
{
	struct ff_backend counted = *b;
	struct ff_captures captures;
	struct rig r;
	struct rig_setup setup;
	int code;

	memset(ret, 0, sizeof(*ret));
	honest = b->captures;
	if (honest) {
		captures = *honest;
		captures.begin = counting_begin;
		captures.launch = counting_launch;
		counted.captures = &captures;
	}
	n_begun = n_launched = 0;
	set_word(word);
	setup = scene_setup(s, &counted);
	setup.machine = m;
	setup.strategy = strategy;
	setup.comm = comm;
	rig_open(&r, setup);
	code = train(s, &r, ret, err);
	ret->captured = !ff_executor_obstacle(r.x);
	ret->captures = n_begun;
	ret->launches = n_launched;
	rig_close(&r);
	set_word(NULL);
	return code;
}

void launch_train(struct scene *s, const struct ff_machine *m, const struct ff_strategy *strategy,
		const struct ff_backend *b, struct ff_comm *comm, const char *word,
		struct launched *ret)
{
	struct ff_error err = {0};
	int code = launch_try(s, m, strategy, b, comm, word, ret, &err);

	ck_assert_msg(code == FF_OK, "%s", err.text);
	for (int i = 0; i < LAUNCH_STEPS; i++)
		ck_assert_msg(ret->us[i] >= 0, "step %d took %g us", i, ret->us[i]);
}

bool launch_same(const struct scene *s, const struct launched *a, const struct launched *b)
{
	size_t bytes = (size_t)ff_graph_parameters(&s->graph) * sizeof(float);
	bool same = !memcmp(a->loss, b->loss, sizeof(a->loss)) &&
		    !memcmp(a->accuracy, b->accuracy, sizeof(a->accuracy)) &&
		    !memcmp(a->top, b->top, sizeof(a->top)) &&
		    !memcmp(a->test_loss, b->test_loss, sizeof(a->test_loss));

	for (int i = 0; i < 2; i++)
		same &= a->weights[i] && b->weights[i] &&
			!memcmp(a->weights[i], b->weights[i], bytes);
	return same;
}

/* Passes that are launched: all but the first of training and the first of testing. */
static uint32_t expected_launches(const struct scene *s)
{
	uint32_t batches = (uint32_t)ff_dataset_steps(s->data, false);

	return LAUNCH_STEPS - 1 + 2 * batches - 1;
}

/* Communication of its own: the double adds up from another rank on at each of its calls. */
static void train_in(struct ff_comm *(*world)(const struct ff_machine *m), struct scene *s,
		const char *word, struct launched *ret)
{
	struct ff_comm *c = world ? world(&s->machine) : NULL;

	launch_train(s, &s->machine, &s->strategy, rig_backend(false), c, word, ret);
	if (c)
		c->destroy(c);
}

/* Whether what ranks post needs no host. */
static bool in_stream(struct ff_comm *(*world)(const struct ff_machine *m), const struct scene *s)
{
	struct ff_comm *c = world ? world(&s->machine) : NULL;
	bool yes = !c || c->in_stream;

	if (c)
		c->destroy(c);
	return yes;
}

/* What cases must have met, or they test too little; and how many there were. */
struct met {
	uint32_t done, overlapping, partial, forked, clipped[2];
	struct seen seen;
};

static void meet(struct met *m, const struct scene *s)
{
	m->done++;
	seen_look(&m->seen, s);
	m->overlapping += s->machine.overlap;
	m->forked += s->machine.n_devices > 1;
	m->clipped[s->graph.dtype == FF_BF16] += s->opt.clip > 0;
	m->partial += ff_dataset_samples(s->data, false) % s->graph.batch != 0;
}

static bool met_all(const struct met *m, uint32_t n_ranks)
{
	return m->overlapping && m->partial && m->seen.op[FF_OP_DROPOUT] &&
	       (n_ranks == 1 || m->forked) && m->clipped[0] && m->clipped[1];
}

static void compare(struct scene *s, struct ff_comm *(*world)(const struct ff_machine *m),
		uint32_t n_ranks)
{
	struct launched captured, plain;

	train_in(world, s, "1", &captured);
	train_in(world, s, "0", &plain);
	ck_assert(captured.captured && !plain.captured);
	ck_assert_uint_eq(plain.launches, 0);
	if (captured.launches) { /* this rank has a device in it */
		ck_assert_uint_eq(captured.launches, expected_launches(s));
		ck_assert_uint_le(captured.captures, 4);
	} else {
		ck_assert_uint_gt(n_ranks, 1);
	}
	ck_assert(launch_same(s, &captured, &plain));
}

/* Where cases are that many, more of them until all is met, which no number of them is sure of. */
void launch_compare(uint32_t cases, uint64_t seed,
		struct ff_comm *(*world)(const struct ff_machine *m), uint32_t n_ranks)
{
	struct met met = {0};

	for (uint32_t i = 0; i < cases ||
			     (i < MOST * cases && met.done >= ENOUGH && !met_all(&met, n_ranks));
			i++) {
		struct ff_random r = {seed, i, 0};
		struct scene s;

		scene_open(&s, i % 4 == 3 ? FF_BF16 : FF_F32, n_ranks, &r);
		scene_optimizer(&s, (enum ff_optimizer_id)(i % FF_OPTIMIZER_COUNT));
		if (in_stream(world, &s)) { /* else ranks of this machine share a GPU */
			printf("# case %u: %u nodes, %u devices, %u micro-batches%s, %s\n", i,
					s.graph.n_nodes, s.machine.n_devices,
					s.strategy.micro_batches,
					s.machine.overlap ? ", overlap" : "", s.optimizer->name);
			meet(&met, &s);
			compare(&s, world, n_ranks);
		}
		scene_close(&s);
	}
	ck_assert(met.done < ENOUGH || met_all(&met, n_ranks));
}
