/* Random scenes.  SPDX-License-Identifier: Apache-2.0 */
#include "scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "process/agree.h"

/* Parameters of three groups, mixed. */
static void draw_groups(struct scene *s)
{
	struct ff_groups *groups = &s->opt.groups;
	uint8_t *of = ff_arena_array(&s->arena, s->graph.n_nodes, sizeof(*of));

	ck_assert_ptr_nonnull(of);
	for (; groups->n < 3; groups->n++) {
		double *setting = groups->setting[groups->n];

		memcpy(setting, groups->setting[0], sizeof(groups->setting[0]));
		setting[FF_SETTING_RATE] /= 1 << groups->n;
		setting[FF_SETTING_DECAY] *= groups->n == 1 ? 0 : 3;
	}
	for (uint32_t i = 0; i < s->graph.n_nodes; i++)
		of[i] = (uint8_t)(ff_hash_mix(s->opt.seed, i) % groups->n);
	groups->of = of;
}

void scene_optimizer(struct scene *s, enum ff_optimizer_id id)
{
	double told[FF_SETTING_COUNT], value[FF_SETTING_COUNT];
	struct ff_error err;

	s->optimizer = ff_optimizer(id);
	for (uint32_t i = 0; i < FF_SETTING_COUNT; i++)
		told[i] = NAN;
	told[FF_SETTING_RATE] = told[FF_SETTING_DECAY] = 0.01;
	/* a gradient that is nothing but rounding would else move its weight as far as any */
	if (s->optimizer->setting[FF_SETTING_EPSILON].used)
		told[FF_SETTING_EPSILON] = 0.1;
	RIG_OK(ff_optimizer_set(s->optimizer, told, value, &err));
	ff_groups_single(value, &s->opt.groups);
	draw_groups(s);
}

void scene_open(struct scene *s, enum ff_dtype type, uint32_t max_devices, struct ff_random *r)
{
	struct ff_random order = *r; /* whatever else is drawn stays */
	struct ff_error err;

	memset(s, 0, sizeof(*s));
	ff_arena_init(&s->arena);
	RIG_OK(random_graph(r, type, 6, &s->arena, &s->graph, &err));
	RIG_OK(random_machine(
			r, 1 + ff_random_below(r, max_devices), &s->arena, &s->machine, &err));
	RIG_OK(random_machine(r, 1, &s->arena, &s->one, &err));
	RIG_OK(random_strategy(r, &s->graph, s->machine.n_devices, &s->arena, &s->strategy,
			&s->micro, &err));
	random_order(&order, &s->strategy);
	random_scattered(&order, &s->micro, &s->arena, &s->strategy);
	RIG_OK(ff_strategy_single(&s->graph, 0, &s->arena, &s->single, &err));
	RIG_OK(ff_dataset_open("synthetic:18", &s->graph, ff_random_u32(r), &s->data, &err));
	s->opt.seed = ff_random_u32(r);
	s->opt.clip = s->opt.seed / 8 % 3 ? 0 : 0.1;
	s->opt.top = s->opt.seed / 64 % 4;
	s->opt.beside = (enum ff_beside)(s->opt.seed / 256 % FF_BESIDE_COUNT);
	scene_optimizer(s, (enum ff_optimizer_id)(s->opt.seed % FF_OPTIMIZER_COUNT));
}

void scene_group(struct scene *s, uint32_t each, bool scattered)
{
	struct ff_machine *m = &s->machine;
	uint32_t n = 2 * each;
	struct ff_machine_node *node = ff_arena_array(&s->arena, 2, sizeof(*node));
	uint32_t *node_of = ff_arena_array(&s->arena, n, sizeof(*node_of));
	struct ff_error err;

	ck_assert(node && node_of);
	for (uint32_t i = 0; i < 2; i++) {
		node[i] = m->nodes[0];
		node[i].first = i * each;
		node[i].count = each;
	}
	for (uint32_t d = 0; d < n; d++)
		node_of[d] = d / each;
	m->nodes = node;
	m->node_of = node_of;
	m->n_nodes = 2;
	m->n_devices = n;
	m->overlap = m->message_lane = true;
	ff_machine_number_cards(m);
	RIG_OK(ff_strategy_data_parallel(&s->graph, n, &s->arena, &s->strategy, &err));
	s->strategy.shards = each;
	s->strategy.scatter = scattered;
	for (uint32_t i = 0; i < s->graph.n_nodes; i++)
		s->strategy.config[i].flat = ff_node_is_parameter(&s->graph, i);
}

void scene_close(struct scene *s)
{
	ff_dataset_close(s->data);
	ff_arena_finish(&s->arena);
}

static void check_memory(const struct rig *r, const struct ff_machine *m)
{
	int64_t planned = 0;

	for (uint32_t d = 0; d < m->n_devices; d++) {
		int64_t here = r->comm->hosts(r->comm, d) ? r->schedule.memory_bytes[d] : 0;

		ck_assert_int_eq(ff_executor_memory(r->x, d), here);
		planned += here;
	}
	ck_assert_int_eq(rig_allocated, planned);
}

static void run_step(struct rig *r, uint64_t step)
{
	int64_t sent = r->comm->sent_bytes;
	struct ff_error err;

	RIG_OK(ff_executor_step(r->x, step, &err));
	sent = r->comm->sent_bytes - sent;
	RIG_OK(ff_agree_sum(r->comm, &sent, 1, &err));
	ck_assert_int_eq(sent, r->schedule.network_bytes);
}

struct rig_setup scene_setup(struct scene *s, const struct ff_backend *b)
{
	return (struct rig_setup){.graph = &s->graph,
			.machine = &s->machine,
			.strategy = &s->strategy,
			.backend = b,
			.data = s->data,
			.optimizer = s->optimizer,
			.opt = &s->opt,
			.arena = &s->arena};
}

struct rig_setup scene_single(struct scene *s, const struct ff_backend *b)
{
	struct rig_setup of = scene_setup(s, b);

	of.machine = &s->one;
	of.strategy = &s->single;
	return of;
}

void scene_run(struct scene *s, const struct ff_machine *m, const struct ff_strategy *strategy,
		const struct ff_backend *b, struct ff_comm *comm, int64_t bucket_bytes,
		struct result *ret)
{
	struct ff_tested tested;
	struct ff_error err;
	struct rig r;
	struct rig_setup setup;
	int64_t n;

	rig_allocated = 0;
	setup = scene_setup(s, b);
	setup.machine = m;
	setup.strategy = strategy;
	setup.comm = comm;
	setup.bucket_bytes = bucket_bytes;
	rig_open(&r, setup);
	check_memory(&r, m);
	RIG_OK(ff_agree_hash(r.comm, ff_schedule_hash(&r.schedule), &err));
	ret->initial = rig_weights(&r, false, &s->arena, &n);
	for (uint64_t step = 0; step < SCENE_STEPS; step++) {
		run_step(&r, step);
		ret->gradients[step] = rig_weights(&r, true, &s->arena, &n);
	}
	RIG_OK(ff_executor_losses(r.x, ret->loss, SCENE_STEPS, &err));
	ret->weights = rig_weights(&r, false, &s->arena, &n);
	RIG_OK(ff_executor_test(r.x, &tested, &err));
	ret->accuracy = tested.of[0].accuracy;
	ret->top = tested.of[0].top;
	ret->test_loss = tested.loss;
	rig_close(&r);
}

double scene_tolerance(void)
{
	const char *module = getenv("FF_CUDA_MODULE");
	bool is_double = module && strstr(module, "double");

	return getenv("FF_CUDA_TF32") && !is_double ? SCENE_ROUGH : SCENE_TOLERANCE;
}

double scene_apart(const struct scene *s, const float *a, const float *b)
{
	double apart = 0, size = 0;

	for (int64_t i = 0; i < ff_graph_parameters(&s->graph); i++) {
		double d = (double)a[i] - (double)b[i];

		apart += d * d;
		size += (double)b[i] * (double)b[i];
	}
	return size > 0 ? sqrt(apart / size) : apart > 0 ? INFINITY : 0;
}

void scene_compare(const struct scene *s, const struct result *split, const struct result *whole)
{
	const char *name = "";
	double d;

	ck_assert_mem_eq(split->initial, whole->initial,
			(size_t)ff_graph_parameters(&s->graph) * sizeof(float));
	for (int i = 0; i < SCENE_STEPS; i++) {
		/* the logarithm of a probability near 1 is its rounding */
		d = fabs(split->loss[i] - whole->loss[i]) / fmax(whole->loss[i], 0.1);
		ck_assert_msg(d <= scene_tolerance(), "loss %d: %.9g, expected %.9g", i,
				split->loss[i], whole->loss[i]);
		/* and of its difference from 1, all gradients are made */
		if (whole->loss[i] < 0.02)
			continue;
		d = rig_distance(&s->graph, split->gradients[i], whole->gradients[i], &name);
		ck_assert_msg(d <= scene_tolerance(), "gradient %d of %s: %g apart", i, name, d);
	}
	d = rig_distance(&s->graph, split->weights, whole->weights, &name);
	ck_assert_msg(d <= scene_tolerance(), "weights of %s: %g apart", name, d);
	d = fabs(split->test_loss - whole->test_loss) / fmax(whole->test_loss, 0.1);
	ck_assert_msg(d <= scene_tolerance(), "test loss: %.9g, expected %.9g", split->test_loss,
			whole->test_loss);
	/* one sample may be told otherwise */
	ck_assert(isnan(split->top) == isnan(whole->top));
	ck_assert(isnan(whole->top) || fabs(split->top - whole->top) <= 0.26);
}
