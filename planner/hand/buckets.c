/* Tuning of buckets: small ones start early, large ones pay latency seldom, and which is better
 * depends on links and on what is computed meanwhile.  SPDX-License-Identifier: Apache-2.0 */
#include "buckets.h"

#define LEAST_GAIN 1.01 /* less is within what predictions are off by */
#define MOST_TIMES 256  /* as large as the preset, or as small */
#define PATIENCE 3      /* sizes in turn that help nothing before no further one is tried */
/* What is dropped is brought bucket by bucket, so larger ones take the memory that this is to save.
 * A layer of a transformer whose width is 3,000 has as much. */
#define MOST_DROPPED ((int64_t)400 << 20)

/* Whether the buckets of some parameter are dropped while nobody reads them. */
static bool drops(const struct ff_strategy *s)
{
	bool any = false;

	for (uint32_t i = 0; i < s->n_nodes && !any; i++)
		any = s->config[i].flat && s->recompute[i];
	return any;
}

int64_t ff_buckets_most(const struct ff_strategy *s)
{
	return drops(s) ? MOST_DROPPED : INT64_MAX;
}

/* Whether `s` with buckets of `bytes` is better than *at, which it becomes then. */
static int try(struct ff_evaluator *e, struct ff_strategy *s, int64_t bytes,
		struct ff_evaluation *at, bool *better, struct ff_error *err)
{
	int64_t was = s->bucket_bytes;
	struct ff_evaluation now;
	int code;

	s->bucket_bytes = bytes;
	code = ff_evaluator_set(e, s, &now, err);
	*better = code == FF_OK && now.fits && LEAST_GAIN * now.step_us < at->step_us;
	if (*better && now.tight)
		code = ff_evaluator_lays_out(e, better, err);
	if (code == FF_OK && *better)
		*at = now;
	else
		s->bucket_bytes = was;
	return code;
}

/* Tries sizes from the current one on, twice as large each time or (`up` false) half as large, up
 * to `end`. *any: some was better. */
static int go(struct ff_evaluator *e, struct ff_strategy *s, bool up, int64_t end,
		struct ff_evaluation *at, bool *any, struct ff_error *err)
{
	int64_t bytes = up ? 2 * s->bucket_bytes : s->bucket_bytes / 2;
	uint32_t misses = 0;
	int code = FF_OK;

	while (misses < PATIENCE && code == FF_OK && (up ? bytes <= end : bytes >= end)) {
		bool better;

		code = try(e, s, bytes, at, &better, err);
		misses = better ? 0 : misses + 1;
		*any = *any || better;
		bytes = up ? 2 * bytes : bytes / 2;
	}
	return code;
}

int ff_buckets_tune(struct ff_evaluator *e, struct ff_strategy *s, int64_t preset_bytes,
		struct ff_evaluation *at, struct ff_error *err)
{
	int64_t first = s->bucket_bytes ? s->bucket_bytes : preset_bytes;
	int64_t most = ff_buckets_most(s);
	bool any = false;
	int code;

	if (!at->fits)
		return FF_OK;
	if (most > MOST_TIMES * first)
		most = MOST_TIMES * first;
	s->bucket_bytes = first;
	code = go(e, s, true, most, at, &any, err);
	if (code == FF_OK && !any)
		code = go(e, s, false, first / MOST_TIMES, at, &any, err);
	return code;
}
