/* Synthetic samples that can be learned: every class has a random prototype,
 * every sample adds noise to its class's.  Both are read from one pool of
 * random numbers at random places, so that a batch costs two reads a value,
 * whatever the number of classes.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "ff/philox.h"
#include "source.h"

#define POOL_VALUES (UINT64_C(1) << 20)

/* Streams of the data set's own; nodes, the other users of the seed, have
 * small numbers. */
enum purpose { PURPOSE_POOL = 1, PURPOSE_CLASS, PURPOSE_LABEL, PURPOSE_SAMPLE, PURPOSE_IDS };
#define STREAM(purpose) ff_philox_stream(UINT32_MAX, purpose)
/* Two streams an input of ids: its classes' and its samples'. */
#define IDS_STREAM(node, which) STREAM(PURPOSE_IDS + 2 * (node) + (which))

struct synthetic {
	struct ff_source base;
	uint64_t seed;
	int32_t classes;
	float pool[POOL_VALUES]; /* uniform, of variance 1/2 */
};

/* Training samples come first, then those for testing. */
static uint64_t sample_id(const struct ff_source *s, bool train, int64_t sample)
{
	return (uint64_t)(train ? sample : s->samples[1] + sample);
}

static int32_t synthetic_label(const struct ff_source *s, bool train, int64_t sample)
{
	const struct synthetic *y = (const struct synthetic *)s;
	uint32_t word = ff_philox_at(y->seed, STREAM(PURPOSE_LABEL), sample_id(s, train, sample));

	return (int32_t)(word % (uint32_t)y->classes);
}

static void synthetic_line(const struct ff_source *s, bool train, int64_t sample, int64_t first,
		int32_t n, float *out, int64_t step)
{
	const struct synthetic *y = (const struct synthetic *)s;
	uint64_t label = (uint64_t)synthetic_label(s, train, sample);
	uint64_t id = sample_id(s, train, sample), k = (uint64_t)first;
	uint64_t a = ff_philox_at(y->seed, STREAM(PURPOSE_CLASS), label) + k;
	uint64_t b = ff_philox_at(y->seed, STREAM(PURPOSE_SAMPLE), id) + k;

	for (int32_t i = 0; i < n; i++, a++, b++)
		out[i * step] = y->pool[a % POOL_VALUES] + y->pool[b % POOL_VALUES];
}

static int32_t synthetic_id(const struct ff_source *s, bool train, int64_t sample,
		const struct ff_ids *ids, int64_t at)
{
	const struct synthetic *y = (const struct synthetic *)s;
	uint64_t n = (uint64_t)ids->elements, own = sample_id(s, train, sample) * n + (uint64_t)at;
	uint32_t word = ff_philox_at(y->seed, IDS_STREAM(ids->node, 1), own);
	uint64_t shared;

	if (word % 4 == 0)
		return (int32_t)(word / 4 % (uint32_t)ids->classes);
	shared = (uint64_t)synthetic_label(s, train, sample) * n + (uint64_t)at;
	word = ff_philox_at(y->seed, IDS_STREAM(ids->node, 0), shared);
	return (int32_t)(word % (uint32_t)ids->classes);
}

static void synthetic_close(struct ff_source *s)
{
	free(s);
}

int ff_synthetic_open(int64_t samples, const struct ff_sample_shape *shape, uint64_t seed,
		struct ff_source **ret, struct ff_error *err)
{
	struct synthetic *y = malloc(sizeof(*y));

	if (!y)
		return ff_fail_memory(err);
	y->base = (struct ff_source){
			.samples = {(samples + 3) / 4, samples},
			.line = synthetic_line,
			.label = synthetic_label,
			.id = synthetic_id,
			.close = synthetic_close,
	};
	y->seed = seed;
	y->classes = shape->classes;
	ff_philox_uniform(seed, STREAM(PURPOSE_POOL), 0, POOL_VALUES, y->pool);
	for (uint64_t i = 0; i < POOL_VALUES; i++)
		y->pool[i] = (y->pool[i] - 0.5f) * 2.449489743f; /* sqrt(6): variance 1/2 */
	*ret = &y->base;
	return FF_OK;
}
