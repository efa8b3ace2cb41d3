/* What plans have to be like, what a search goes on from, how much memory it leaves, and how
 * regular its plan is.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hand/alike.h"
#include "hand/megatron.h"
#include "hand/resume.h"
#include "job.h"
#include "space/limits.h"
#include "space/pins.h"
#include "space/torch.h"

#define REGULAR_EVERY 16 /* proposals for one strategy that is tried to make a plan regular */

static int fail_torch(const struct ff_job *j, uint32_t node, struct ff_error *err)
{
	return ff_fail(err, FF_E_INPUT,
			"option --space torch: operator %s cannot be split over %u devices in "
			"PyTorch%s",
			j->in.graph.nodes[node].name, j->in.machine.n_devices,
			j->opt.limits.pin.n ? " as --pin says" : "");
}

int ff_job_limit(struct ff_job *j, struct ff_error *err)
{
	const struct ff_job_limits *o = &j->opt.limits;
	struct ff_limits l = {.no_pipeline = o->no_pipeline,
			.tensor_inside_node = o->tensor_inside_node,
			.max_micro = o->max_micro == FF_NOT_GIVEN ? 0 : (uint32_t)o->max_micro};
	int code = FF_OK;

	if (o->pin.n)
		code = ff_pins_parse(o->pin.text, o->pin.n, &j->in.graph, &j->in.machine, &j->arena,
				&l.pin, err);
	if (code == FF_OK && o->torch)
		code = ff_torch_limit(o->map, &j->in.graph, &j->arena, &l, err);
	if (code == FF_OK)
		code = ff_space_limit(j->tools.space, &l, err);
	for (uint32_t i = 0; i < j->in.graph.n_nodes && code == FF_OK && (l.pin || l.mesh); i++) {
		struct ff_config c = {.n_parts = 1, .replicas = 1};

		if (!l.mesh && !l.pin[i])
			continue;
		ff_space_fit(j->tools.space, i, &c);
		if (!ff_space_admits(j->tools.space, i, &c))
			return o->torch ? fail_torch(j, i, err)
					: ff_fail(err, FF_E_INPUT,
							  "option --pin: operator %s is pinned "
							  "across nodes, which "
							  "--tensor-inside-node rules out",
							  j->in.graph.nodes[i].name);
	}
	return code;
}

/* --init pipeline-N, tables-N or megatron:T,D,P,M, which the search would leave out where they
 * cannot be. */
int ff_job_check_starts(struct ff_job *j, struct ff_error *err)
{
	struct ff_strategy s;
	struct ff_error why;
	int code = FF_OK;

	for (uint32_t i = 0; i < j->opt.init.n && code == FF_OK; i++) {
		struct ff_tables tables;
		uint32_t n;

		if (!ff_is_pipeline(j->starts[i], &n) && !ff_is_tables(j->starts[i], &tables) &&
				!ff_is_megatron(j->starts[i]))
			continue;
		code = ff_init_strategy(j->starts[i], j->tools.space, &j->in.graph, &j->in.machine,
				j->opt.seed, &j->arena, &s, &why);
		if (code == FF_E_INPUT)
			return ff_fail(err, code, "option --init: %.200s", why.text);
		if (code < 0)
			*err = why;
	}
	return code;
}

/* --init PLAN, and in a line what of it is not as it was. */
int ff_job_load_plans(struct ff_job *j, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < j->n_init && code == FF_OK; i++) {
		struct ff_resumed told;
		char text[256];

		/* of measured kernels there are those that a search needs */
		code = ff_resume_load(j->init_path[i], j->tools.space, &j->in.graph, !j->in.costs,
				&j->arena, &j->init[i], &told, err);
		if (code < 0)
			break;
		ff_resumed_tell(&told, sizeof(text), text);
		if (*text)
			fprintf(stderr, "%s: of %s, %u operators are split as there%s\n",
					ff_job_command.name, j->init_path[i], told.kept, text);
	}
	return code;
}

int64_t ff_job_without_reserve(const struct ff_job *j, int64_t bytes)
{
	double reserve = j->opt.choice.reserve;

	return reserve > 0 ? bytes - (int64_t)((double)bytes * reserve / 100) : bytes;
}

int ff_job_reserve(struct ff_job *j, struct ff_error *err)
{
	struct ff_machine *lean = &j->in.lean;

	*lean = j->in.machine;
	lean->kinds = ff_arena_copy(&j->arena, lean->kinds, lean->n_kinds, sizeof(*lean->kinds));
	if (!lean->kinds)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < lean->n_kinds; i++)
		lean->kinds[i].memory_bytes =
				ff_job_without_reserve(j, lean->kinds[i].memory_bytes);
	return FF_OK;
}

/* The fastest plan that was given; *us stays where none fits. */
static int price_given(struct ff_job *j, double *us, struct ff_error *err)
{
	struct ff_evaluation at;
	int code = FF_OK;

	for (uint32_t i = 0; i < j->n_init && code == FF_OK; i++) {
		code = ff_evaluator_set(j->tools.evaluator, &j->init[i], &at, err);
		if (code == FF_OK && at.fits)
			*us = *us > 0 ? fmin(*us, at.step_us) : at.step_us;
	}
	return code;
}

int ff_job_regularise(struct ff_job *j, bool (*stop)(void *ctx), struct ff_error *err)
{
	double given_us = 0; /* none is made slower than what the search went on from */
	int code = stop(j) ? FF_OK : price_given(j, &given_us, err);
	const struct ff_alike regular = {.evaluator = j->tools.evaluator,
			.space = j->tools.space,
			.graph = &j->in.graph,
			.machine = &j->in.machine,
			.percent = j->opt.choice.regular,
			.most_us = given_us,
			.most = j->opt.proposals ? 64 + j->opt.proposals / REGULAR_EVERY : 0,
			.stop = stop,
			.ctx = j};
	struct ff_search_result *found = &j->found;
	double ragged_us = found->evaluation.step_us;

	if (code == FF_OK)
		code = ff_alike_make(&regular, &j->arena, &found->best, &found->evaluation, err);
	if (code == FF_OK && found->evaluation.step_us > ragged_us)
		j->summary.found.ragged_us = ragged_us;
	return code == FF_OK ? ff_alike_count(&j->in.graph, &found->best, &j->arena,
					       &j->summary.found.n_ragged, err)
			     : code;
}
