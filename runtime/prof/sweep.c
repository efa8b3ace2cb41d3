/* Caches as training has them.  A kernel in a loop of its own finds all its data in
 * the cache; in a step it finds what the task before it wrote, and everything else
 * has gone by.  So before every sample as many bytes go by as a step touches, or one of its
 * micro-batches, and then what would just have been written is read.  SPDX-License-Identifier:
 * Apache-2.0 */
#include "prof.h"

/* Cache beyond which more makes nothing colder, where the device does not say. */
#define PRESET_CACHE ((int64_t)32 << 20)

/* So many, copied to as many others, leave nothing in the caches. */
static int64_t most_bytes(const struct ff_prof *p)
{
	return p->cache_bytes > 0 ? p->cache_bytes : PRESET_CACHE;
}

static int64_t sweep_bytes(const struct ff_prof *p, int64_t passed_bytes)
{
	int64_t most = most_bytes(p);

	return passed_bytes / 2 < most ? passed_bytes / 2 : most;
}

bool ff_prof_is_same(const struct ff_prof *p, int64_t passed_bytes, int64_t other_bytes)
{
	return sweep_bytes(p, passed_bytes) == sweep_bytes(p, other_bytes);
}

int ff_prof_sweep_open(struct ff_prof *p, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < p->states.n; i++) {
		int64_t bytes = sweep_bytes(p, p->states.passed_bytes[i]);

		p->sweep_bytes = bytes > p->sweep_bytes ? bytes : p->sweep_bytes;
	}
	for (int i = 0; i < 2 && code == FF_OK; i++)
		code = p->backend->alloc(p->dev, (size_t)p->sweep_bytes, &p->sweep[i], err);
	return code;
}

void ff_prof_sweep_close(struct ff_prof *p)
{
	for (int i = 0; i < 2; i++)
		if (p->sweep[i])
			p->backend->free(p->dev, p->sweep[i]);
}

/* The first `bytes` of `from` go by: a copy reads them and as many others. */
static int pass_by(
		struct ff_prof *p, const void *from, int64_t bytes, bool add, struct ff_error *err)
{
	struct ff_region r = {.rank = 1};
	struct ff_copy copy = {
			.source = from, .sink = p->sweep[1], .order = ff_order_plain, .add = add};

	r.hi[0] = (int32_t)((bytes < p->sweep_bytes ? bytes : p->sweep_bytes) / FF_F32_BYTES);
	copy.source_region = copy.sink_region = copy.region = r;
	return r.hi[0] ? p->backend->copy(p->stream, &copy, err) : FF_OK;
}

struct sweep {
	struct ff_prof *p;
	int64_t bytes;
};

static int run_sweep(void *arg, struct ff_error *err)
{
	const struct sweep *s = arg;

	return pass_by(s->p, s->p->sweep[0], s->bytes, true, err);
}

int ff_prof_sweep(struct ff_prof *p, int64_t passed_bytes, const void *hot, int64_t hot_bytes,
		double *us, struct ff_error *err)
{
	struct sweep sweep = {
			p, sweep_bytes(p, passed_bytes ? passed_bytes : p->states.passed_bytes[0])};
	int64_t bytes = sweep.bytes;
	int code = ff_watch_time(&p->watch, run_sweep, &sweep, us, err);

	if (bytes != p->swept_bytes) /* other times are no measure */
		p->reference.memory = (struct ff_baseline){.n = 0};
	p->swept_bytes = bytes;
	if (code < 0)
		return code;
	ff_baseline_add(&p->reference.memory, *us);
	if (hot)
		code = pass_by(p, hot, hot_bytes, false, err);
	return code == FF_OK ? p->backend->drain(p->stream, err) : code;
}
