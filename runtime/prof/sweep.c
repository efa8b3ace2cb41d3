/* Caches as training has them.  A kernel in a loop of its own finds all its data in
 * the cache; in a step it finds what the task before it wrote, and much else
 * has gone by.  So before every sample as many bytes go by as have been touched since its node
 * was last computed (ff/reuse.h), and then what would just have been written is.
 * SPDX-License-Identifier: Apache-2.0 */
#include "sweep.h"

#include "ff/clock.h"

/* Cache beyond which more makes nothing colder, where the device does not say. */
#define PRESET_CACHE ((int64_t)32 << 20)
#define PIECE_BYTES ((int64_t)16 << 10) /* that any cache of a processor has room for twice */
#define PIECES 16                       /* that a device's cache has room for */

/* So many, copied to as many others, leave nothing in the caches. */
static int64_t most_bytes(const struct ff_prof *p)
{
	return p->caches.bytes > 0 ? p->caches.bytes : PRESET_CACHE;
}

static int64_t sweep_bytes(const struct ff_prof *p, int64_t reuse_bytes)
{
	int64_t most = most_bytes(p);

	return reuse_bytes / 2 < most ? reuse_bytes / 2 : most;
}

bool ff_prof_is_same(const struct ff_prof *p, int64_t reuse_bytes, int64_t other_bytes)
{
	return sweep_bytes(p, reuse_bytes) == sweep_bytes(p, other_bytes);
}

bool ff_prof_keeps_nothing(const struct ff_prof *p, int64_t reuse_bytes)
{
	return reuse_bytes > most_bytes(p);
}

static void make_room(struct ff_prof *p, int64_t reuse_bytes)
{
	int64_t bytes = sweep_bytes(p, reuse_bytes);

	p->caches.sweep_bytes = bytes > p->caches.sweep_bytes ? bytes : p->caches.sweep_bytes;
}

int ff_prof_sweep_open(struct ff_prof *p, struct ff_error *err)
{
	int code = FF_OK;

	make_room(p, FF_REUSE_NEAR);
	for (uint32_t i = 0; i < p->states.n; i++)
		make_room(p, p->states.reuse_bytes[i]);
	for (uint32_t i = 0; i < p->n_items; i++)
		make_room(p, p->item[i].reuse_bytes);
	for (int i = 0; i < 2 && code == FF_OK; i++)
		code = p->backend->memory.alloc(
				p->dev, (size_t)p->caches.sweep_bytes, &p->caches.sweep[i], err);
	return code;
}

void ff_prof_sweep_close(struct ff_prof *p)
{
	for (int i = 0; i < 2; i++)
		if (p->caches.sweep[i])
			p->backend->memory.free(p->dev, p->caches.sweep[i]);
}

/* The first `bytes` from `from` to `to`, or added there. */
static int carry(struct ff_prof *p, const void *from, void *to, int64_t bytes, bool add,
		struct ff_error *err)
{
	struct ff_region r = {.rank = 1};
	struct ff_copy copy = {.source = from, .sink = to, .order = ff_order_plain, .add = add};

	r.hi[0] = (int32_t)(bytes / FF_F32_BYTES);
	copy.source_region = copy.sink_region = copy.region = r;
	return r.hi[0] ? p->backend->move.copy(p->stream, &copy, err) : FF_OK;
}

/* The end of it, as much as caches hold, was just written, with the values that it has: piece by
 * piece it goes out and comes back.  A copy of all of it would drive out of the caches what it
 * brings there.  A device has one cache, and each piece is two launches. */
static int rewrite_end(struct ff_prof *p, const struct ff_hot *hot, struct ff_error *err)
{
	int64_t most = most_bytes(p),
		piece = p->backend->memory.of_host ? PIECE_BYTES : most / PIECES;
	int64_t bytes = hot->at ? hot->bytes : 0, skip = bytes > most ? bytes - most : 0;
	char *at = (char *)hot->at + skip / FF_F32_BYTES * FF_F32_BYTES;
	int code = FF_OK;

	bytes -= skip;
	piece = piece < p->caches.sweep_bytes ? piece : p->caches.sweep_bytes;
	for (int64_t n; bytes > 0 && code == FF_OK; at += n, bytes -= n) {
		n = bytes < piece ? bytes : piece;
		code = carry(p, at, p->caches.sweep[1], n, false, err);
		if (code == FF_OK)
			code = carry(p, p->caches.sweep[1], at, n, false, err);
	}
	return code;
}

struct sweep {
	struct ff_prof *p;
	int64_t bytes;
};

static int run_sweep(void *arg, struct ff_error *err)
{
	const struct sweep *s = arg;

	return carry(s->p, s->p->caches.sweep[0], s->p->caches.sweep[1], s->bytes, true, err);
}

void ff_prof_rest(double us)
{
	double end = ff_clock_us() + us;

	while (ff_clock_us() < end)
		continue;
}

double ff_prof_rest_us(const struct ff_prof *p, int64_t reuse_bytes)
{
	int64_t bytes = reuse_bytes ? reuse_bytes : p->states.reuse_bytes[0];
	double us = p->caches.decay > 0 ? p->caches.us_per_byte * (double)bytes : 0;

	return us < FF_PROF_LONG_US ? us : FF_PROF_LONG_US;
}

int ff_prof_sweep_bytes(struct ff_prof *p, int64_t bytes, double *us, struct ff_error *err)
{
	struct sweep sweep = {p, bytes};

	return ff_watch_time(&p->watch, run_sweep, &sweep, us, err);
}

int ff_prof_sweep(struct ff_prof *p, int64_t reuse_bytes, double *us, struct ff_error *err)
{
	int64_t bytes = sweep_bytes(p, reuse_bytes ? reuse_bytes : p->states.reuse_bytes[0]);
	int code = ff_prof_sweep_bytes(p, bytes, us, err);

	if (bytes != p->caches.swept_bytes) /* other times are no measure */
		p->reference.memory = (struct ff_baseline){.n = 0};
	p->caches.swept_bytes = bytes;
	if (code == FF_OK)
		ff_baseline_add(&p->reference.memory, *us);
	ff_prof_rest(ff_prof_rest_us(p, reuse_bytes));
	return code;
}

int ff_prof_rewrite(struct ff_prof *p, const struct ff_hot hot[FF_HOT], int64_t since_bytes,
		struct ff_error *err)
{
	struct sweep since = {p, sweep_bytes(p, since_bytes)};
	int code = FF_OK;

	for (int i = 0; i < FF_HOT && code == FF_OK; i++)
		code = rewrite_end(p, &hot[i], err);
	if (code == FF_OK)
		code = run_sweep(&since, err);
	return code == FF_OK ? p->backend->stream.drain(p->stream, err) : code;
}
