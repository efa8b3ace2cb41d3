/* Times by the device's events.  SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"

#include <sched.h>
#include <stdlib.h>

#include "ff/clock.h"

#define HOLD_US 10000 /* the stream goes on by itself: something may wait for it */
#define LEAST_US 0.01 /* what took no time took this */
#define LAUNCHES 200  /* in a row; streams have room for about a thousand */
#define ROUNDS 15

int ff_watch_open(struct ff_watch *w, const struct ff_backend *b, struct ff_device *dev,
		struct ff_stream *s, struct ff_error *err)
{
	int code;

	w->backend = b;
	w->dev = dev;
	w->stream = s;
	w->extra_us = 0;
	if (!b->event.timer || !b->event.elapsed)
		return ff_fail(err, FF_E_INPUT, "events of backend %s tell no time", b->name);
	code = b->event.timer(dev, &w->start, err);
	return code < 0 ? code : b->event.timer(dev, &w->finish, err);
}

void ff_watch_close(struct ff_watch *w)
{
	if (w->start)
		w->backend->event.close(w->start);
	if (w->finish)
		w->backend->event.close(w->finish);
	w->start = w->finish = NULL;
}

/* In the stream's order.  A stream that is the caller's own thread has nothing to wait for. */
static int wait_until_open(void *arg, struct ff_error *err)
{
	struct ff_watch *w = arg;
	double start = ff_clock_us();

	(void)err;
	if (pthread_equal(pthread_self(), w->holder))
		return FF_OK;
	while (!atomic_load(&w->open) && ff_clock_us() - start < HOLD_US)
		sched_yield();
	return FF_OK;
}

static int give(struct ff_watch *w, int (*run)(void *arg, struct ff_error *err), void *arg,
		struct ff_error *err)
{
	const struct ff_backend *b = w->backend;
	int code = b->event.record(w->stream, w->start, err);

	if (code == FF_OK)
		code = run(arg, err);
	return code < 0 ? code : b->event.record(w->stream, w->finish, err);
}

int ff_watch_time(struct ff_watch *w, int (*run)(void *arg, struct ff_error *err), void *arg,
		double *us, struct ff_error *err)
{
	return ff_watch_time_behind(w, NULL, run, arg, us, err);
}

int ff_watch_time_behind(struct ff_watch *w, int (*before)(void *arg, struct ff_error *err),
		int (*run)(void *arg, struct ff_error *err), void *arg, double *us,
		struct ff_error *err)
{
	int code;

	*us = 0;
	w->holder = pthread_self();
	atomic_store(&w->open, false);
	code = w->backend->stream.call(w->stream, wait_until_open, w, err);
	if (code == FF_OK && before)
		code = before(arg, err);
	if (code == FF_OK)
		code = give(w, run, arg, err);
	atomic_store(&w->open, true);
	if (code == FF_OK)
		code = w->backend->stream.drain(w->stream, err);
	if (code == FF_OK)
		code = w->backend->event.elapsed(w->start, w->finish, us, err);
	if (code < 0)
		return code;
	*us -= w->extra_us;
	*us = *us > LEAST_US ? *us : LEAST_US;
	return FF_OK;
}

/* ---- launches ---- */

struct row {
	struct ff_watch *watch;
	void *memory;
	uint32_t n;
	double host_us; /* to give all of them */
};

/* Fills of one number are as near to nothing as what all backends have. */
static int launch_row(void *arg, struct ff_error *err)
{
	struct row *r = arg;
	double start = ff_clock_us();
	int code = FF_OK;

	for (uint32_t i = 0; i < r->n && code == FF_OK; i++)
		code = r->watch->backend->move.fill(r->watch->stream, r->memory, FF_F32, 1, 1, err);
	r->host_us = ff_clock_us() - start;
	return code;
}

static int compare_reals(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Medians, of both times, of a row of `n`. */
static int time_row(
		struct row *r, uint32_t n, double *stream_us, double *host_us, struct ff_error *err)
{
	double on_stream[ROUNDS], on_host[ROUNDS];
	int code = FF_OK;

	r->n = n;
	for (int i = 0; i < ROUNDS && code == FF_OK; i++) {
		code = ff_watch_time(r->watch, launch_row, r, &on_stream[i], err);
		on_host[i] = r->host_us;
	}
	if (code < 0)
		return code;
	qsort(on_stream, ROUNDS, sizeof(*on_stream), compare_reals);
	qsort(on_host, ROUNDS, sizeof(*on_host), compare_reals);
	*stream_us = on_stream[ROUNDS / 2];
	*host_us = on_host[ROUNDS / 2];
	return FF_OK;
}

int ff_watch_launches(struct ff_watch *w, struct ff_launches *ret, struct ff_error *err)
{
	struct row r = {.watch = w};
	double alone_us = 0, all_us = 0, host_us = 0;
	int code = w->backend->memory.alloc(w->dev, FF_F32_BYTES, &r.memory, err);

	w->extra_us = 0;
	if (code < 0)
		return code;
	code = time_row(&r, 1, &alone_us, &host_us, err);
	if (code == FF_OK)
		code = time_row(&r, LAUNCHES, &all_us, &host_us, err);
	w->backend->memory.free(w->dev, r.memory);
	if (code < 0)
		return code;
	*ret = (struct ff_launches){.host_us = host_us / LAUNCHES,
			.alone_us = alone_us,
			.stream_us = all_us > alone_us ? (all_us - alone_us) / (LAUNCHES - 1) : 0};
	w->extra_us = alone_us > ret->stream_us ? alone_us - ret->stream_us : 0;
	return FF_OK;
}
