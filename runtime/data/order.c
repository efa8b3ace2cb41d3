/* Shuffling.  SPDX-License-Identifier: Apache-2.0 */
#include "order.h"

#include <stdbool.h>
#include <stdlib.h>

#include "ff/philox.h"

#define SHUFFLE_STREAM ff_philox_stream(UINT32_MAX - 1, 0)

#define ROUNDS 6

/* The order of the epoch last asked for. */
struct ff_order {
	uint64_t seed, epoch;
	bool valid;
	int64_t samples;
	uint32_t *sample; /* NULL: they are too many */
};

int ff_order_create(int64_t samples, uint64_t seed, struct ff_order **ret, struct ff_error *err)
{
	struct ff_order *o = calloc(1, sizeof(*o));

	if (!o)
		return ff_fail_memory(err);
	o->seed = seed;
	o->samples = samples;
	if (samples <= FF_ORDER_TABLE)
		o->sample = malloc((size_t)samples * sizeof(*o->sample));
	if (samples <= FF_ORDER_TABLE && !o->sample) {
		free(o);
		return ff_fail_memory(err);
	}
	*ret = o;
	return FF_OK;
}

void ff_order_destroy(struct ff_order *o)
{
	if (!o)
		return;
	free(o->sample);
	free(o);
}

/* Fisher and Yates' shuffle, from scratch for every epoch, so that an epoch's
 * order does not depend on which were asked for before. */
static void reshuffle(struct ff_order *o, uint64_t epoch)
{
	struct ff_random random = {o->seed, SHUFFLE_STREAM + epoch, 0};
	uint32_t n = (uint32_t)o->samples;

	for (uint32_t i = 0; i < n; i++)
		o->sample[i] = i;
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k = ff_random_below(&random, i), keep = o->sample[i - 1];

		o->sample[i - 1] = o->sample[k];
		o->sample[k] = keep;
	}
	o->epoch = epoch;
	o->valid = true;
}

/* A permutation of 2 * `half` bits. */
static uint64_t mix(uint64_t seed, uint64_t stream, uint32_t half, uint64_t at)
{
	uint64_t mask = (UINT64_C(1) << half) - 1, left = at >> half, right = at & mask;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t keep = right;

		right = left ^ (ff_philox_at(seed, stream, i << 32 | right) & mask);
		left = keep;
	}
	return left << half | right;
}

int64_t ff_order_walk(uint64_t seed, uint64_t epoch, int64_t samples, int64_t at)
{
	uint64_t n = (uint64_t)samples, to = (uint64_t)at;
	uint32_t half = 1;

	while (half < 31 && UINT64_C(1) << 2 * half < n)
		half++;
	do
		to = mix(seed, SHUFFLE_STREAM + epoch, half, to);
	while (to >= n);
	return (int64_t)to;
}

int64_t ff_order_at(struct ff_order *o, uint64_t epoch, int64_t at)
{
	if (!o->sample)
		return ff_order_walk(o->seed, epoch, o->samples, at);
	if (!o->valid || o->epoch != epoch)
		reshuffle(o, epoch);
	return o->sample[at];
}
