/* Plans of cuDNN's graphs: the first engine of its heuristics that is exact enough, gives the same
 * bits each time and can be made into a plan.  SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/core/kernel.h"
#include "engine.h"

#define MAX_ENGINES 32 /* that are tried */

struct ff_plan {
	struct ff_plan *next;
	const char *what; /* a literal */
	void *shape;
	size_t bytes;
	cudnnBackendDescriptor_t plan; /* NULL: cuDNN has none */
	int64_t workspace;
};

struct ff_dnn {
	cudnnHandle_t handle;
	struct ff_plan *plans;
	int32_t after; /* so many plans that are passed over, so that tests meet them too */
};

static int fail(const struct ff_kernel *k, cudnnStatus_t status, const char *verb,
		struct ff_error *err)
{
	char why[256] = "";

	cudnnGetLastErrorString(why, sizeof(why));
	return ff_fail(err, FF_E_RUN, "%s: cuDNN failed to %s: %s %s", k->name, verb,
			cudnnGetErrorString(status), why);
}

static bool is_missing(cudnnStatus_t status)
{
	return status >= CUDNN_STATUS_NOT_SUPPORTED && status < CUDNN_STATUS_INTERNAL_ERROR;
}

/* FF_CUDA_PLAN=N: the plan number N of those that cuDNN has, so that tests meet more than the
 * first. */
static int read_number(int32_t *after, struct ff_error *err)
{
	const char *word = getenv("FF_CUDA_PLAN");
	char *end = NULL;
	long n = word ? strtol(word, &end, 10) : 1;

	if (n < 1 || n > MAX_ENGINES || (end && (end == word || *end)))
		return ff_fail(err, FF_E_INPUT, "FF_CUDA_PLAN: expected 1 to %d, not '%s'",
				MAX_ENGINES, word);
	*after = (int32_t)n - 1;
	return FF_OK;
}

static int open_dnn(const struct ff_kernel *k, struct ff_error *err)
{
	cudnnStatus_t status;
	struct ff_dnn *d;
	int32_t after = 0;
	int code;

	if (k->dev->dnn)
		return FF_OK;
	code = read_number(&after, err);
	if (code < 0)
		return code;
	d = calloc(1, sizeof(*d));
	if (!d)
		return ff_fail_memory(err);
	d->after = after;
	status = cudnnCreate(&d->handle);
	if (status != CUDNN_STATUS_SUCCESS) {
		free(d);
		return fail(k, status, "start", err);
	}
	k->dev->dnn = d;
	return FF_OK;
}

void ff_dnn_close(struct ff_dnn *d)
{
	if (!d)
		return;
	while (d->plans) {
		struct ff_plan *plan = d->plans;

		d->plans = plan->next;
		if (plan->plan)
			cudnnBackendDestroyDescriptor(plan->plan);
		free(plan->shape);
		free(plan);
	}
	cudnnDestroy(d->handle);
	free(d);
}

/* ---- descriptors: after the first failure nothing is done ---- */

static void check(struct ff_parts *p, cudnnStatus_t status)
{
	if (status == CUDNN_STATUS_SUCCESS || p->code < 0)
		return;
	p->missing = is_missing(status);
	p->code = fail(p->k, status, p->verb, p->err);
}

cudnnBackendDescriptor_t ff_parts_make(struct ff_parts *p, cudnnBackendDescriptorType_t type)
{
	cudnnBackendDescriptor_t d = NULL;

	if (p->code < 0)
		return NULL;
	if (p->n == FF_PARTS) {
		p->code = ff_fail(p->err, FF_E_RUN, "%s: a graph of more than %d parts", p->k->name,
				FF_PARTS);
		return NULL;
	}
	check(p, cudnnBackendCreateDescriptor(type, &d));
	if (d)
		p->made[p->n++] = d;
	return d;
}

void ff_parts_set(struct ff_parts *p, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
		cudnnBackendAttributeType_t type, int64_t n, const void *value)
{
	if (p->code == FF_OK)
		check(p, cudnnBackendSetAttribute(d, name, type, n, value));
}

void ff_parts_set_part(struct ff_parts *p, cudnnBackendDescriptor_t d,
		cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t part)
{
	ff_parts_set(p, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

void ff_parts_finish(struct ff_parts *p, cudnnBackendDescriptor_t d)
{
	if (p->code == FF_OK)
		check(p, cudnnBackendFinalize(d));
}

static void drop(struct ff_parts *p)
{
	while (p->n)
		cudnnBackendDestroyDescriptor(p->made[--p->n]);
}

cudnnDataType_t ff_parts_type(enum ff_dtype t)
{
	return t == FF_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

/* ---- plans ---- */

/* Not those that other bits come of each time, that reach a result by way of numbers far larger
 * than it, or that convert inputs, as to float16, which has not their range.  Nor, of what is
 * exact, those that round inputs to TF32: tensor cores do, and no conversion is noted. */
static bool is_welcome(const struct ff_plan_problem *q, cudnnBackendDescriptor_t config)
{
	cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
	cudnnBackendDescriptor_t engine = NULL;
	bool welcome;
	int64_t n = 0, found = 0;

	if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) !=
			CUDNN_STATUS_SUCCESS)
		return false;
	welcome = cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
				  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &found,
				  &engine) == CUDNN_STATUS_SUCCESS &&
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
	cudnnBackendDestroyDescriptor(engine);
	return welcome;
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
static bool print_problem(const struct ff_plan_problem *q, char text[FF_PLANS_TEXT])
{
	snprintf(text, FF_PLANS_TEXT, "%s within %" PRId64 " bytes, by its bytes ", q->what,
			FF_PLAN_WORKSPACE);
	return ff_plans_print(text, q->shape, q->bytes);
}

static cudnnBackendDescriptor_t graph(struct ff_parts *p, const struct ff_plan_problem *q)
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
static cudnnBackendDescriptor_t kept_plan(const struct ff_parts *p, const struct ff_plan_problem *q,
		cudnnBackendDescriptor_t g, int64_t *workspace)
{
	char problem[FF_PLANS_TEXT], choice[FF_PLANS_TEXT];
	cudnnBackendDescriptor_t plan = NULL;
	struct ff_engine e;

	if (p->code < 0 || !print_problem(q, problem) || !ff_plans_find(p->k->dev, problem, choice))
		return NULL;
	if (ff_engine_init(&e, g, choice) && is_welcome(q, e.config))
		plan = plan_of(p->k->dev->dnn, e.config, workspace);
	ff_engine_finish(&e);
	return plan;
}

static void keep_plan(const struct ff_kernel *k, const struct ff_plan_problem *q,
		cudnnBackendDescriptor_t config)
{
	char problem[FF_PLANS_TEXT], choice[FF_PLANS_TEXT];

	if (print_problem(q, problem) && ff_engine_print(config, choice))
		ff_plans_keep(k->dev, problem, choice);
}

/* Of so many engines in the order of heuristics, the plan number `after` that can be made, or the
 * last one that can. */
static cudnnBackendDescriptor_t nth_plan(const struct ff_parts *p, const struct ff_plan_problem *q,
		cudnnBackendDescriptor_t *config, int64_t n, int64_t *workspace)
{
	cudnnBackendDescriptor_t plan = NULL;
	int32_t after = p->k->dev->dnn->after;

	for (int64_t i = 0; i < n && after >= 0; i++) {
		int64_t bytes = 0;
		cudnnBackendDescriptor_t next =
				is_welcome(q, config[i])
						? plan_of(p->k->dev->dnn, config[i], &bytes)
						: NULL;

		if (!next)
			continue;
		if (plan)
			cudnnBackendDestroyDescriptor(plan);
		plan = next;
		*workspace = bytes;
		if (after-- == 0)
			keep_plan(p->k, q, config[i]);
	}
	return plan;
}

/* Of the engines that heuristics `mode` names. */
static cudnnBackendDescriptor_t first_plan(struct ff_parts *p, const struct ff_plan_problem *q,
		cudnnBackendDescriptor_t g, cudnnBackendHeurMode_t mode, int64_t *workspace)
{
	cudnnBackendDescriptor_t config[MAX_ENGINES] = {NULL}, plan = NULL;
	cudnnBackendDescriptor_t heuristics = ff_parts_make(p, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
	int64_t n = 0;

	ff_parts_set_part(p, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g);
	ff_parts_set(p, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
	if (p->code < 0 || cudnnBackendFinalize(heuristics) != CUDNN_STATUS_SUCCESS)
		return NULL;
	for (int i = 0; i < MAX_ENGINES && p->code == FF_OK; i++)
		check(p, cudnnBackendCreateDescriptor(
					 CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[i]));
	if (p->code == FF_OK)
		check(p, cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
					 CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_ENGINES, &n, config));
	if (p->code == FF_OK)
		plan = nth_plan(p, q, config, n, workspace);
	for (int i = 0; i < MAX_ENGINES; i++)
		if (config[i])
			cudnnBackendDestroyDescriptor(config[i]);
	return plan;
}

static int make_plan(const struct ff_kernel *k, const struct ff_plan_problem *q,
		struct ff_plan *plan, struct ff_error *err)
{
	struct ff_error why;
	struct ff_parts p = {.k = k, .verb = q->verb, .shape = q->shape, .err = &why};
	cudnnBackendDescriptor_t g = graph(&p, q);

	plan->plan = kept_plan(&p, q, g, &plan->workspace);
	if (!plan->plan)
		plan->plan = first_plan(&p, q, g, CUDNN_HEUR_MODE_A, &plan->workspace);
	if (!plan->plan)
		plan->plan = first_plan(&p, q, g, CUDNN_HEUR_MODE_FALLBACK, &plan->workspace);
	drop(&p);
	if (p.code == FF_OK || p.missing)
		return FF_OK;
	if (err)
		*err = why;
	return p.code;
}

static struct ff_plan *known_plan(const struct ff_dnn *d, const struct ff_plan_problem *q)
{
	for (struct ff_plan *plan = d->plans; plan; plan = plan->next)
		if (!strcmp(plan->what, q->what) && plan->bytes == q->bytes &&
				!memcmp(plan->shape, q->shape, q->bytes))
			return plan;
	return NULL;
}

/* Without a plan as yet; NULL: no memory. */
static struct ff_plan *new_plan(struct ff_dnn *d, const struct ff_plan_problem *q)
{
	struct ff_plan *plan = calloc(1, sizeof(*plan));

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

int ff_plan_find(struct ff_kernel *k, const struct ff_plan_problem *q, const struct ff_plan **ret,
		struct ff_error *err)
{
	int code = open_dnn(k, err);
	struct ff_plan *plan;

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

int64_t ff_plan_workspace(const struct ff_plan *plan)
{
	return plan->workspace;
}

int ff_plan_run(const struct ff_kernel *k, const struct ff_plan *plan, cudaStream_t queue,
		int64_t n, const int64_t *ids, const void *const *pointers, void *workspace,
		struct ff_error *err)
{
	struct ff_parts p = {.k = k, .verb = "run what it has planned", .err = err};
	cudnnBackendDescriptor_t pack = ff_parts_make(&p, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
	cudnnHandle_t handle = k->dev->dnn->handle;

	ff_parts_set(&p, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n,
			pointers);
	ff_parts_set(&p, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids);
	ff_parts_set(&p, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
			&workspace);
	ff_parts_finish(&p, pack);
	if (p.code == FF_OK)
		check(&p, cudnnSetStream(handle, queue));
	if (p.code == FF_OK)
		check(&p, cudnnBackendExecute(handle, plan->plan, pack));
	drop(&p);
	return p.code;
}
