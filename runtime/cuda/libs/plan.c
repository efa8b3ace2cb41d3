/* Plans of cuDNN's graphs: of the engines of its heuristics that are exact enough, give the same
 * bits each time and can be made into a plan, the first, or the fastest.  SPDX-License-Identifier:
 * Apache-2.0 */
#include "plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/core/kernel.h"
#include "engine.h"
#include "ff/cli.h"
#include "tune_plan.h"

#define MAX_ENGINES 32 /* that are tried */

struct ff_dnn_plan {
	struct ff_dnn_plan *next;
	const char *what; /* a literal */
	void *shape;
	size_t bytes;
	cudnnBackendDescriptor_t plan; /* NULL: cuDNN has none */
	int64_t workspace;
};

struct ff_dnn {
	cudnnHandle_t handle;
	struct ff_dnn_plan *plans;
	int64_t after; /* FF_CUDA_PLAN=N: so many are passed over but one, for tests */
	bool tunes;    /* the fastest of some is taken */
};

static int open_dnn(const struct ff_kernel *k, struct ff_error *err)
{
	cudnnStatus_t status;
	struct ff_dnn *d;
	int64_t number = 1;
	bool tunes;
	int code;

	if (k->dev->dnn)
		return FF_OK;
	code = ff_cli_count("FF_CUDA_PLAN", 1, MAX_ENGINES, &number, err);
	if (code == FF_OK)
		code = ff_plans_tune(k->dev, &tunes, err);
	if (code < 0)
		return code;
	d = calloc(1, sizeof(*d));
	if (!d)
		return ff_fail_memory(err);
	d->after = number - 1;
	d->tunes = tunes && number == 1;
	status = cudnnCreate(&d->handle);
	if (status != CUDNN_STATUS_SUCCESS) {
		free(d);
		return ff_parts_fail(k, status, "start", err);
	}
	k->dev->dnn = d;
	return FF_OK;
}

void ff_dnn_close(struct ff_dnn *d)
{
	if (!d)
		return;
	while (d->plans) {
		struct ff_dnn_plan *plan = d->plans;

		d->plans = plan->next;
		if (plan->plan)
			cudnnBackendDestroyDescriptor(plan->plan);
		free(plan->shape);
		free(plan);
	}
	cudnnDestroy(d->handle);
	free(d);
}

/* ---- plans ---- */

/* The engine of a configuration, to be destroyed; NULL where cuDNN does not say. */
static cudnnBackendDescriptor_t engine_of(cudnnBackendDescriptor_t config)
{
	cudnnBackendDescriptor_t engine = NULL;
	int64_t found = 0;

	if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) !=
			CUDNN_STATUS_SUCCESS)
		return NULL;
	if (cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
			    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &found,
			    &engine) == CUDNN_STATUS_SUCCESS)
		return engine;
	cudnnBackendDestroyDescriptor(engine);
	return NULL;
}

/* Not those that other bits come of each time, that reach a result by way of numbers far larger
 * than it, or that convert inputs, as to float16, which has not their range.  Nor, of what is
 * exact, those that round inputs to TF32: tensor cores do, and no conversion is noted. */
static bool is_welcome(const struct ff_dnn_plan_problem *q, cudnnBackendDescriptor_t config)
{
	cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
	cudnnBackendDescriptor_t engine = engine_of(config);
	bool welcome;
	int64_t n = 0;

	welcome = engine &&
		  cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
				  CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n,
				  note) == CUDNN_STATUS_SUCCESS;
	for (int64_t i = 0; i < n && welcome; i++)
		welcome = note[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC &&
			  note[i] != CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION &&
			  note[i] != CUDNN_NUMERICAL_NOTE_FFT &&
			  note[i] != CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13 &&
			  note[i] != CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS &&
			  !(q->exact && note[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
	if (engine)
		cudnnBackendDestroyDescriptor(engine);
	return welcome;
}

/* Whether an engine compiles its kernel when a plan is made, which takes seconds. */
static bool is_slow_to_plan(cudnnBackendDescriptor_t config)
{
	cudnnBackendBehaviorNote_t note[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
	cudnnBackendDescriptor_t engine = engine_of(config);
	bool slow = false;
	int64_t n = 0;

	if (engine && cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
				      CUDNN_TYPE_BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &n,
				      note) == CUDNN_STATUS_SUCCESS)
		for (int64_t i = 0; i < n; i++)
			slow = slow || note[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
	if (engine)
		cudnnBackendDestroyDescriptor(engine);
	return slow;
}

/* A plan of that engine, unless it cannot be made or takes too much. */
static cudnnBackendDescriptor_t plan_of(
		const struct ff_dnn *d, cudnnBackendDescriptor_t config, int64_t *workspace)
{
	cudnnBackendDescriptor_t plan = NULL;
	int64_t n = 0;

	if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) !=
			CUDNN_STATUS_SUCCESS)
		return NULL;
	if (cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
			    &d->handle) == CUDNN_STATUS_SUCCESS &&
			cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
					CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
					&config) == CUDNN_STATUS_SUCCESS &&
			cudnnBackendFinalize(plan) == CUDNN_STATUS_SUCCESS &&
			cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
					CUDNN_TYPE_INT64, 1, &n,
					workspace) == CUDNN_STATUS_SUCCESS &&
			*workspace <= FF_PLAN_WORKSPACE)
		return plan;
	cudnnBackendDestroyDescriptor(plan);
	return NULL;
}

/* What a plan is kept for; false: for nothing. */
static bool print_problem(const struct ff_dnn_plan_problem *q, bool timed, char text[FF_PLANS_TEXT])
{
	snprintf(text, FF_PLANS_TEXT, "%s within %" PRId64 " bytes%s, by its bytes ", q->what,
			FF_PLAN_WORKSPACE, timed ? ", timed" : "");
	return ff_plans_print(text, q->shape, q->bytes);
}

/* Whether the plans of a problem are timed. */
static bool tunes(const struct ff_kernel *k, const struct ff_dnn_plan_problem *q)
{
	return k->dev->dnn->tunes && q->tensors;
}

static cudnnBackendDescriptor_t graph(struct ff_parts *p, const struct ff_dnn_plan_problem *q)
{
	cudnnBackendDescriptor_t ops[FF_PLAN_OPS], g;
	int64_t n = q->describe(p, ops);

	g = ff_parts_make(p, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
	ff_parts_set(p, g, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
			&p->k->dev->dnn->handle);
	ff_parts_set(p, g, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, ops);
	ff_parts_finish(p, g);
	return g;
}

/* As it was chosen before. */
static cudnnBackendDescriptor_t chosen_plan(const struct ff_parts *p,
		const struct ff_dnn_plan_problem *q, bool timed, cudnnBackendDescriptor_t g,
		int64_t *workspace)
{
	char problem[FF_PLANS_TEXT], choice[FF_PLANS_TEXT];
	cudnnBackendDescriptor_t plan = NULL;
	struct ff_engine e;

	if (!print_problem(q, timed, problem) || !ff_plans_find(p->k->dev, problem, choice))
		return NULL;
	if (ff_engine_init(&e, g, choice) && is_welcome(q, e.config))
		plan = plan_of(p->k->dev->dnn, e.config, workspace);
	ff_engine_finish(&e);
	return plan;
}

/* What was timed is better than what was not. */
static cudnnBackendDescriptor_t kept_plan(const struct ff_parts *p,
		const struct ff_dnn_plan_problem *q, cudnnBackendDescriptor_t g, int64_t *workspace)
{
	cudnnBackendDescriptor_t plan;

	if (p->code < 0 || p->k->dev->dnn->after > 0)
		return NULL;
	plan = chosen_plan(p, q, true, g, workspace);
	return plan || tunes(p->k, q) ? plan : chosen_plan(p, q, false, g, workspace);
}

/* Whether it is there from now on. */
static bool keep_plan(const struct ff_kernel *k, const struct ff_dnn_plan_problem *q,
		cudnnBackendDescriptor_t config)
{
	char problem[FF_PLANS_TEXT], choice[FF_PLANS_TEXT], kept[FF_PLANS_TEXT];

	if (k->dev->dnn->after > 0 || !print_problem(q, tunes(k, q), problem) ||
			!ff_engine_print(config, choice))
		return false;
	ff_plans_keep(k->dev, problem, choice);
	return ff_plans_find(k->dev, problem, kept) && !strcmp(kept, choice);
}

/* What heuristics of one kind propose. */
struct proposed {
	cudnnBackendDescriptor_t config[MAX_ENGINES];
	int64_t n;
};

/* Of engines in the order of heuristics the first plans that can be made, up to `most`; how many.
 */
static int64_t make_plans(const struct ff_parts *p, const struct ff_dnn_plan_problem *q,
		const struct proposed *by, bool slow, int64_t most, struct ff_tried *tried)
{
	int64_t made = 0;

	for (int64_t i = 0; i < by->n && made < most; i++) {
		struct ff_tried *t = &tried[made];

		if (!is_welcome(q, by->config[i]) || is_slow_to_plan(by->config[i]) != slow)
			continue;
		t->plan = plan_of(p->k->dev->dnn, by->config[i], &t->workspace);
		t->config = by->config[i];
		made += t->plan != NULL;
	}
	return made;
}

/* The fastest of them, kept from now on; what somebody else chose meanwhile stays.  Where it cannot
 * be kept the first, as next time another might be faster. */
static int64_t tune(const struct ff_parts *p, const struct ff_dnn_plan_problem *q,
		cudnnBackendDescriptor_t g, const struct ff_tried *tried, int64_t made,
		struct ff_tried *other)
{
	int64_t best = ff_tune_plans(p->k, p->k->dev->dnn->handle, q, tried, made);

	other->plan = chosen_plan(p, q, true, g, &other->workspace);
	if (other->plan)
		return FF_TRIED;
	return keep_plan(p->k, q, tried[best].config) ? best : 0;
}

/* The fastest, or the one whose number tests ask for. */
static cudnnBackendDescriptor_t take_plan(const struct ff_parts *p,
		const struct ff_dnn_plan_problem *q, cudnnBackendDescriptor_t g,
		const struct proposed *by, bool slow, int64_t *workspace)
{
	struct ff_tried tried[MAX_ENGINES + 1] = {{NULL, NULL, 0}};
	bool timed = tunes(p->k, q);
	int64_t most = timed ? FF_TRIED : p->k->dev->dnn->after + 1;
	int64_t made = make_plans(p, q, by, slow, most, tried), best = made - 1;

	if (!made)
		return NULL;
	if (timed)
		best = tune(p, q, g, tried, made, &tried[FF_TRIED]);
	else
		keep_plan(p->k, q, tried[best].config);
	for (int64_t i = 0; i < made; i++)
		if (i != best)
			cudnnBackendDestroyDescriptor(tried[i].plan);
	*workspace = tried[best].workspace;
	return tried[best].plan;
}

static void propose(struct ff_parts *p, cudnnBackendDescriptor_t g, cudnnBackendHeurMode_t mode,
		struct proposed *ret)
{
	cudnnBackendDescriptor_t heuristics = ff_parts_make(p, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);

	ff_parts_set_part(p, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g);
	ff_parts_set(p, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
	if (p->code < 0 || cudnnBackendFinalize(heuristics) != CUDNN_STATUS_SUCCESS)
		return;
	for (int i = 0; i < MAX_ENGINES && p->code == FF_OK; i++)
		ff_parts_check(p, cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
						  &ret->config[i]));
	if (p->code == FF_OK)
		ff_parts_check(p,
				cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
						CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_ENGINES, &ret->n,
						ret->config));
}

static void drop_proposed(struct proposed *by)
{
	for (int i = 0; i < MAX_ENGINES; i++)
		if (by->config[i])
			cudnnBackendDestroyDescriptor(by->config[i]);
}

/* Of a graph of one convolution there are kernels that need not be compiled, of attention none. */
static cudnnBackendDescriptor_t find_plan(struct ff_parts *p, const struct ff_dnn_plan_problem *q,
		cudnnBackendDescriptor_t g, int64_t *workspace)
{
	static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
	struct proposed by[2] = {{{NULL}, 0}, {{NULL}, 0}};
	cudnnBackendDescriptor_t plan = NULL;

	for (int slow = 0; slow < 2; slow++)
		for (int i = 0; i < 2 && !plan && p->code == FF_OK; i++) {
			if (!slow)
				propose(p, g, modes[i], &by[i]);
			plan = take_plan(p, q, g, &by[i], slow, workspace);
		}
	drop_proposed(&by[0]);
	drop_proposed(&by[1]);
	return plan;
}

static int make_plan(const struct ff_kernel *k, const struct ff_dnn_plan_problem *q,
		struct ff_dnn_plan *plan, struct ff_error *err)
{
	struct ff_error why;
	struct ff_parts p = {.k = k, .verb = q->verb, .shape = q->shape, .err = &why};
	cudnnBackendDescriptor_t g = graph(&p, q);

	plan->plan = kept_plan(&p, q, g, &plan->workspace);
	if (!plan->plan)
		plan->plan = find_plan(&p, q, g, &plan->workspace);
	ff_parts_drop(&p);
	if (p.code == FF_OK || p.missing)
		return FF_OK;
	if (err)
		*err = why;
	return p.code;
}

static struct ff_dnn_plan *known_plan(const struct ff_dnn *d, const struct ff_dnn_plan_problem *q)
{
	for (struct ff_dnn_plan *plan = d->plans; plan; plan = plan->next)
		if (!strcmp(plan->what, q->what) && plan->bytes == q->bytes &&
				!memcmp(plan->shape, q->shape, q->bytes))
			return plan;
	return NULL;
}

/* Without a plan as yet; NULL: no memory. */
static struct ff_dnn_plan *new_plan(struct ff_dnn *d, const struct ff_dnn_plan_problem *q)
{
	struct ff_dnn_plan *plan = calloc(1, sizeof(*plan));

	if (!plan)
		return NULL;
	plan->shape = malloc(q->bytes);
	if (!plan->shape) {
		free(plan);
		return NULL;
	}
	memcpy(plan->shape, q->shape, q->bytes);
	plan->bytes = q->bytes;
	plan->what = q->what;
	plan->next = d->plans;
	d->plans = plan;
	return plan;
}

int ff_dnn_plan_find(struct ff_kernel *k, const struct ff_dnn_plan_problem *q,
		const struct ff_dnn_plan **ret, struct ff_error *err)
{
	int code = open_dnn(k, err);
	struct ff_dnn_plan *plan;

	if (code < 0)
		return code;
	plan = known_plan(k->dev->dnn, q);
	if (!plan) {
		plan = new_plan(k->dev->dnn, q);
		if (!plan)
			return ff_fail_memory(err);
		code = make_plan(k, q, plan, err);
	}
	*ret = plan->plan ? plan : NULL;
	ff_kernel_need(k, plan->plan ? plan->workspace : 0);
	return code;
}

int ff_dnn_plan_run(const struct ff_kernel *k, const struct ff_dnn_plan *plan, cudaStream_t queue,
		int64_t n, const int64_t *ids, const void *const *pointers, void *workspace,
		struct ff_error *err)
{
	return ff_parts_run(k, k->dev->dnn->handle, plan->plan, queue, n, ids, pointers, workspace,
			err);
}
