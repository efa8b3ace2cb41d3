/* Tuning of buckets: small ones start early, large ones pay latency seldom, and which is better
 * depends on links and on what is computed meanwhile.  SPDX-License-Identifier: Apache-2.0 */
#include "buckets.h"

#define LEAST_GAIN 1.01 /* less is within what predictions are off by */
#define MOST_TIMES 256  /* as large as the preset, or as small */
#define PATIENCE 3      /* sizes in turn that help nothing before no further one is tried */
/* What is dropped is brought bucket by bucket, and so are gradients that are scattered summed;
 * larger ones take the memory that this is to save.
 * A layer of a transformer whose width is 3,000 has as much. */
#define MOST_DROPPED ((int64_t)400 << 20)

/* Whether the buckets of some parameter are scattered, or dropped while nobody reads them. */
static bool saves(const struct ff_strategy *s)
{
	bool any = false;

	for (uint32_t i = 0; i < s->n_nodes && !any; i++)
		any = s->config[i].flat && (s->scatter || s->recompute[i]);
	return any;
}

int64_t ff_buckets_most(const struct ff_strategy *s)
{
	return saves(s) ? MOST_DROPPED : INT64_MAX;
}

/* Sizes that are tried in turn. */
struct tuning {
	struct ff_evaluator *e;
	struct ff_strategy *s;
	int64_t first, most;
	bool lays_out; /* each that is better is laid out before the next is tried */
};

/* Whether what is set has a layout.  It has one where half of the memory is free. */
static int has_layout(const struct tuning *t, const struct ff_evaluation *at, bool *ret,
		struct ff_error *err)
{
	*ret = true;
	return at->tight ? ff_evaluator_lays_out(t->e, ret, err) : FF_OK;
}

/* Whether the strategy with buckets of `bytes` is better than *at, which it becomes then. */
static int try(const struct tuning *t, int64_t bytes, struct ff_evaluation *at, bool *better,
		struct ff_error *err)
{
	int64_t was = t->s->bucket_bytes;
	struct ff_evaluation now;
	int code;

	t->s->bucket_bytes = bytes;
	code = ff_evaluator_set(t->e, t->s, &now, err);
	*better = code == FF_OK && now.fits && LEAST_GAIN * now.step_us < at->step_us;
	if (*better && t->lays_out)
		code = has_layout(t, &now, better, err);
	if (code == FF_OK && *better)
		*at = now;
	else
		t->s->bucket_bytes = was;
	return code;
}

/* Tries sizes from the current one on, twice as large each time or (`up` false) half as large.
 * *any: some was better. */
static int go(const struct tuning *t, bool up, struct ff_evaluation *at, bool *any,
		struct ff_error *err)
{
	int64_t end = up ? t->most : t->first / MOST_TIMES;
	int64_t bytes = up ? 2 * t->first : t->first / 2;
	uint32_t misses = 0;
	int code = FF_OK;

	while (misses < PATIENCE && code == FF_OK && (up ? bytes <= end : bytes >= end)) {
		bool better;

		code = try(t, bytes, at, &better, err);
		misses = better ? 0 : misses + 1;
		*any = *any || better;
		bytes = up ? 2 * bytes : bytes / 2;
	}
	return code;
}

static int go_both(
		const struct tuning *t, struct ff_evaluation *at, bool *any, struct ff_error *err)
{
	int code;

	*any = false;
	t->s->bucket_bytes = t->first;
	code = go(t, true, at, any, err);
	return code == FF_OK && !*any ? go(t, false, at, any, err) : code;
}

/* A layout takes as long as many steps are timed, and nearly all are found; so the best is laid
 * out alone, and what was better on the way only where that has none. */
int ff_buckets_tune(struct ff_evaluator *e, struct ff_strategy *s, int64_t preset_bytes,
		struct ff_evaluation *at, struct ff_error *err)
{
	int64_t first = s->bucket_bytes ? s->bucket_bytes : preset_bytes;
	struct tuning t = {e, s, first, ff_buckets_most(s), false};
	struct ff_evaluation was = *at;
	bool any, fits = true;
	int code;

	if (!at->fits)
		return FF_OK;
	if (t.most > MOST_TIMES * first)
		t.most = MOST_TIMES * first;
	code = go_both(&t, at, &any, err);
	if (code < 0 || !any || !at->tight)
		return code;
	code = ff_evaluator_set(e, s, at, err);
	if (code == FF_OK)
		code = has_layout(&t, at, &fits, err);
	if (code < 0 || fits)
		return code;
	*at = was;
	t.lays_out = true;
	return go_both(&t, at, &any, err);
}
