/* Each way runs some times, and the least time counts: heuristics of libraries know all that there
 * is, and what is left of it, deterministic and exact, may be far from the fastest of these.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tune.h"

#define RUNS 3
#define ALIGNMENT 256

struct bench {
	const struct ff_trial *t;
	cudaStream_t queue;
	cudaEvent_t begin, end;
	char *memory;
};

int64_t ff_trial_take(struct ff_trial *t, int64_t bytes)
{
	int64_t at = t->bytes;

	t->bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	return at;
}

static bool open_bench(struct bench *b)
{
	void *memory = NULL;

	if (cudaStreamCreateWithFlags(&b->queue, cudaStreamNonBlocking) != cudaSuccess ||
			cudaEventCreate(&b->begin) != cudaSuccess ||
			cudaEventCreate(&b->end) != cudaSuccess ||
			cudaMalloc(&memory, (size_t)b->t->bytes) != cudaSuccess)
		return false;
	b->memory = memory;
	return true;
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

/* Zeroed anew, which takes the device longer than the host takes to give it the work behind: else
 * that would be timed, too. */
static bool clear(const struct bench *b)
{
	return cudaMemsetAsync(b->memory, 0, (size_t)b->t->bytes, b->queue) == cudaSuccess;
}

/* Negative: it does not run. */
static float time_once(const struct bench *b, int64_t i)
{
	float ms = -1;

	if (!clear(b) || cudaEventRecord(b->begin, b->queue) != cudaSuccess ||
			!b->t->run(b->t->arg, i, b->memory, b->queue) ||
			cudaEventRecord(b->end, b->queue) != cudaSuccess ||
			cudaEventSynchronize(b->end) != cudaSuccess ||
			cudaEventElapsedTime(&ms, b->begin, b->end) != cudaSuccess)
		return -1;
	return ms;
}

/* The first run, which may load a kernel, does not count; what is far from the best so far is not
 * run again. */
static float time_way(const struct bench *b, int64_t i, float best)
{
	float least = -1;

	if (time_once(b, i) < 0)
		return -1;
	for (int run = 0; run < RUNS; run++) {
		float ms = time_once(b, i);

		if (ms < 0)
			return -1;
		least = run == 0 || ms < least ? ms : least;
		if (best >= 0 && least > 2 * best)
			break;
	}
	return least;
}

int64_t ff_tune(const struct ff_trial *t)
{
	struct bench b = {.t = t};
	int64_t fastest = 0;
	float best = -1;

	if (t->n < 2)
		return 0;
	if (open_bench(&b))
		for (int64_t i = 0; i < t->n; i++) {
			float ms = time_way(&b, i, best);

			if (ms >= 0 && (best < 0 || ms < best)) {
				best = ms;
				fastest = i;
			}
		}
	close_bench(&b);
	return fastest;
}
