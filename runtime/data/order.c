/* Shuffling.  SPDX-License-Identifier: Apache-2.0 */
#include "order.h"

#include <stdbool.h>
#include <stdlib.h>

#include "ff/philox.h"

#define SHUFFLE_STREAM ff_philox_stream(UINT32_MAX - 1, 0)

/* The order of the epoch last asked for. */
struct ff_order {
	uint64_t seed, epoch;
	bool valid;
	uint32_t n;
	uint32_t *sample;
};

int ff_order_create(int64_t samples, uint64_t seed, struct ff_order **ret, struct ff_error *err)
{
	struct ff_order *o = calloc(1, sizeof(*o));

	if (!o)
		return ff_fail_memory(err);
	o->seed = seed;
	o->n = (uint32_t)samples;
	o->sample = malloc((size_t)samples * sizeof(*o->sample));
	if (!o->sample) {
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

	for (uint32_t i = 0; i < o->n; i++)
		o->sample[i] = i;
	for (uint32_t i = o->n; i > 1; i--) {
		uint32_t k = ff_random_below(&random, i), keep = o->sample[i - 1];

		o->sample[i - 1] = o->sample[k];
		o->sample[k] = keep;
	}
	o->epoch = epoch;
	o->valid = true;
}

int64_t ff_order_at(struct ff_order *o, uint64_t epoch, int64_t at)
{
	if (!o->valid || o->epoch != epoch)
		reshuffle(o, epoch);
	return o->sample[at];
}
