/* Each plan runs some times, and the least time counts: heuristics of cuDNN know all engines, and
 * what is left of them, deterministic and exact, may be far from the fastest of these.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tune.h"

#define RUNS 3
#define ALIGNMENT 256

struct bench {
	const struct ff_kernel *k;
	cudnnHandle_t handle;
	cudaStream_t queue;
	cudaEvent_t begin, end;
	int64_t n, id[FF_PLAN_TENSORS];
	const void *at[FF_PLAN_TENSORS];
	char *memory, *workspace;
};

static int64_t aligned(int64_t bytes)
{
	return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Memory for tensors and the largest workspace, zeroed: a NaN could take longer. */
static bool open_memory(struct bench *b, const struct ff_plan_problem *q,
		const struct ff_tried *tried, int64_t n)
{
	int64_t bytes[FF_PLAN_TENSORS], sum = 0, most = 0;
	void *memory = NULL;

	b->n = q->tensors(q->shape, b->id, bytes);
	for (int64_t i = 0; i < b->n; i++)
		sum += aligned(bytes[i]);
	for (int64_t i = 0; i < n; i++)
		most = tried[i].workspace > most ? tried[i].workspace : most;
	if (cudaMalloc(&memory, (size_t)(sum + aligned(most))) != cudaSuccess)
		return false;
	b->memory = memory;
	b->workspace = b->memory + sum;
	sum = 0;
	for (int64_t i = 0; i < b->n; sum += aligned(bytes[i++]))
		b->at[i] = b->memory + sum;
	return cudaMemsetAsync(memory, 0, (size_t)(sum + aligned(most)), b->queue) == cudaSuccess;
}

static bool open_bench(struct bench *b)
{
	return cudaStreamCreateWithFlags(&b->queue, cudaStreamNonBlocking) == cudaSuccess &&
	       cudaEventCreate(&b->begin) == cudaSuccess && cudaEventCreate(&b->end) == cudaSuccess;
}

static void close_bench(struct bench *b)
{
	if (b->queue) {
		cudaStreamSynchronize(b->queue);
		cudaStreamDestroy(b->queue);
	}
	if (b->begin)
		cudaEventDestroy(b->begin);
	if (b->end)
		cudaEventDestroy(b->end);
	cudaFree(b->memory);
	cudaGetLastError(); /* what could not be timed is nobody's failure */
}

/* Negative: it does not run. */
static float time_once(const struct bench *b, const struct ff_tried *t)
{
	struct ff_error ignored;
	float ms = -1;

	if (cudaEventRecord(b->begin, b->queue) != cudaSuccess ||
			ff_parts_run(b->k, b->handle, t->plan, b->queue, b->n, b->id, b->at,
					b->workspace, &ignored) < 0 ||
			cudaEventRecord(b->end, b->queue) != cudaSuccess ||
			cudaEventSynchronize(b->end) != cudaSuccess ||
			cudaEventElapsedTime(&ms, b->begin, b->end) != cudaSuccess)
		return -1;
	return ms;
}

/* The first run, which may load a kernel, does not count; what is far from the best so far is not
 * run again. */
static float time_plan(const struct bench *b, const struct ff_tried *t, float best)
{
	float least = -1;

	if (time_once(b, t) < 0)
		return -1;
	for (int i = 0; i < RUNS; i++) {
		float ms = time_once(b, t);

		if (ms < 0)
			return -1;
		least = i == 0 || ms < least ? ms : least;
		if (best >= 0 && least > 2 * best)
			break;
	}
	return least;
}

int64_t ff_tune(const struct ff_kernel *k, cudnnHandle_t handle, const struct ff_plan_problem *q,
		const struct ff_tried *tried, int64_t n)
{
	struct bench b = {.k = k, .handle = handle};
	int64_t fastest = 0;
	float best = -1;

	if (n < 2)
		return 0;
	if (open_bench(&b) && open_memory(&b, q, tried, n))
		for (int64_t i = 0; i < n; i++) {
			float ms = time_plan(&b, &tried[i], best);

			if (ms >= 0 && (best < 0 || ms < best)) {
				best = ms;
				fastest = i;
			}
		}
	close_bench(&b);
	return fastest;
}
