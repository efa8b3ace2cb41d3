/* Plans of a problem, and where its tensors are while they are timed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tune_plan.h"

#include "tune.h"

struct plans {
	const struct ff_kernel *k;
	cudnnHandle_t handle;
	const struct ff_tried *tried;
	int64_t n, id[FF_PLAN_TENSORS], at[FF_PLAN_TENSORS], workspace;
};

static bool run(const void *arg, int64_t i, char *memory, cudaStream_t queue)
{
	const struct plans *p = arg;
	const void *at[FF_PLAN_TENSORS];
	struct ff_error ignored;

	for (int64_t t = 0; t < p->n; t++)
		at[t] = memory + p->at[t];
	return ff_parts_run(p->k, p->handle, p->tried[i].plan, queue, p->n, p->id, at,
			       memory + p->workspace, &ignored) == FF_OK;
}

int64_t ff_tune_plans(const struct ff_kernel *k, cudnnHandle_t handle,
		const struct ff_dnn_plan_problem *q, const struct ff_tried *tried, int64_t n)
{
	struct plans p = {.k = k, .handle = handle, .tried = tried};
	struct ff_trial trial = {.n = n, .arg = &p, .run = run};
	int64_t bytes[FF_PLAN_TENSORS], most = 0;

	p.n = q->tensors(q->shape, p.id, bytes);
	for (int64_t i = 0; i < p.n; i++)
		p.at[i] = ff_trial_take(&trial, bytes[i]);
	for (int64_t i = 0; i < n; i++)
		most = tried[i].workspace > most ? tried[i].workspace : most;
	p.workspace = ff_trial_take(&trial, most);
	return ff_tune(&trial);
}
