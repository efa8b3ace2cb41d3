/* Streams: what the device does runs in CUDA's stream; what the host does in between is a host
 * function of it.  CUDA lets those neither fail nor call CUDA, so a stream keeps a ledger of
 * what failed, and skips the host functions behind that, its own and those of streams that
 * have waited for it.  SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "captured.h"
#include "enter.h"
#include "ff/clock.h"
#include "kernel.h"
#include "memory.h"

#define STAGE ((size_t)8 << 20) /* bytes that pass through pinned memory at a time */
#define SMALL_STAGE ((size_t)64 << 10)
#define ASK_US 10000 /* while somebody is waited for */
#define ABORT_US 5e6

/* What host functions and the caller's thread share.  Host functions are numbered from 1. */
struct ff_ledger {
	struct ff_ledger *next; /* of the device */
	pthread_mutex_t mutex;
	struct ff_error failure; /* the first since the last drain */
	uint64_t failed;         /* its number */
	struct job *spare;
};

/* Failures of another stream with these numbers are ours. */
struct upstream {
	struct ff_ledger *ledger;
	uint64_t after, last;
};

struct job {
	struct job *next;
	struct ff_stream *stream;
	uint64_t number;
	int (*fn)(void *arg, struct ff_error *err); /* NULL: a copy */
	void *arg;
	void *sink;
	const void *source;
	size_t bytes;
	struct upstream upstream; /* the last waited for; ledger NULL: none */
};

struct ff_stream {
	struct ff_device *dev;
	cudaStream_t queue;
	struct ff_ledger *ledger;
	uint64_t issued, drained; /* numbers */
	struct upstream upstream;
	void *stage, *small_stage, *tickets;
	struct ff_kernel **unchecked;
	uint32_t n_unchecked, cap_unchecked;
	const struct ff_watcher *watcher; /* or NULL */
};

struct ff_event {
	struct ff_device *dev;
	cudaEvent_t event;
	struct upstream recorded; /* ledger NULL: never */
};

cudaStream_t ff_stream_queue(const struct ff_stream *s)
{
	return s->queue;
}

uint32_t *ff_stream_tickets(const struct ff_stream *s)
{
	return s->tickets;
}

struct ff_device *ff_stream_device(const struct ff_stream *s)
{
	return s->dev;
}

void ff_ledgers_free(struct ff_ledger *l)
{
	while (l) {
		struct ff_ledger *next = l->next;

		while (l->spare) {
			struct job *j = l->spare;

			l->spare = j->next;
			free(j);
		}
		pthread_mutex_destroy(&l->mutex);
		free(l);
		l = next;
	}
}

/* ---- host functions ---- */

/* Whether the ledger has a failure numbered so; then it is in *err. */
static bool has_failed(struct ff_ledger *l, uint64_t after, uint64_t last, struct ff_error *err)
{
	bool failed;

	pthread_mutex_lock(&l->mutex);
	failed = l->failed > after && l->failed <= last;
	if (failed && err)
		*err = l->failure;
	pthread_mutex_unlock(&l->mutex);
	return failed;
}

static void note_failure(struct ff_ledger *l, const struct job *j, int code, struct ff_error *err)
{
	pthread_mutex_lock(&l->mutex);
	l->failure = *err;
	l->failure.code = code;
	l->failed = j->number;
	pthread_mutex_unlock(&l->mutex);
}

/* By CUDA's own thread. */
static void CUDART_CB run_job(void *arg)
{
	struct job *j = arg;
	struct ff_stream *s = j->stream;
	const struct upstream *up = &j->upstream;
	struct ff_error err = {0};
	int code = FF_OK;

	if (!has_failed(s->ledger, s->drained, j->number, NULL)) {
		if (up->ledger && has_failed(up->ledger, up->after, up->last, &err))
			code = err.code;
		else if (j->fn)
			code = j->fn(j->arg, &err);
		else
			memcpy(j->sink, j->source, j->bytes);
		if (code < 0)
			note_failure(s->ledger, j, code, &err);
	}
	pthread_mutex_lock(&s->ledger->mutex);
	j->next = s->ledger->spare;
	s->ledger->spare = j;
	pthread_mutex_unlock(&s->ledger->mutex);
}

static struct job *take_job(struct ff_ledger *l)
{
	struct job *j;

	pthread_mutex_lock(&l->mutex);
	j = l->spare;
	if (j)
		l->spare = j->next;
	pthread_mutex_unlock(&l->mutex);
	return j ? j : malloc(sizeof(*j));
}

static int push(struct ff_stream *s, const struct job *job, struct ff_error *err)
{
	struct job *j;

	if (s->dev->capturing) /* what it is told is told once */
		return ff_fail(err, FF_E_RUN, "a function of the host's cannot be captured");
	j = take_job(s->ledger);
	if (!j)
		return ff_fail_memory(err);
	*j = *job;
	j->stream = s;
	j->number = ++s->issued;
	j->upstream = s->upstream;
	return ff_cuda_check(cudaLaunchHostFunc(s->queue, run_job, j), s->dev,
			"queue a host function", err);
}

int ff_cuda_call(struct ff_stream *s, int (*fn)(void *arg, struct ff_error *err), void *arg,
		struct ff_error *err)
{
	struct job j = {.fn = fn, .arg = arg};
	int code = ff_cuda_enter(s->dev, err);

	return code < 0 ? code : push(s, &j, err);
}

/* ---- copies between host and device ---- */

/* Pinned memory that is busy only while the stream is at one copy. */
static int stage_for(struct ff_stream *s, size_t bytes, void **ret, struct ff_error *err)
{
	void **stage = bytes > SMALL_STAGE ? &s->stage : &s->small_stage;
	int code = FF_OK;

	if (!*stage)
		code = ff_cuda_pin(s->dev, bytes > SMALL_STAGE ? STAGE : SMALL_STAGE, stage, err);
	*ret = *stage;
	return code;
}

static bool is_pinned(const void *host)
{
	struct cudaPointerAttributes a = {0};

	if (cudaPointerGetAttributes(&a, host) == cudaSuccess)
		return a.type == cudaMemoryTypeHost;
	cudaGetLastError(); /* nothing that CUDA knows */
	return false;
}

static int move(struct ff_stream *s, void *sink, const void *source, size_t bytes,
		enum cudaMemcpyKind kind, struct ff_error *err)
{
	return ff_cuda_check(cudaMemcpyAsync(sink, source, bytes, kind, s->queue), s->dev,
			kind == cudaMemcpyHostToDevice ? "take an upload" : "take a download", err);
}

/* The host's memory is read when the stream gets there, piece by piece. */
int ff_cuda_upload(struct ff_stream *s, void *device, const void *host, size_t bytes,
		struct ff_error *err)
{
	void *stage = NULL;
	int code = ff_cuda_enter(s->dev, err);

	if (code < 0 || !bytes)
		return code;
	if (is_pinned(host))
		return move(s, device, host, bytes, cudaMemcpyHostToDevice, err);
	code = stage_for(s, bytes, &stage, err);
	for (size_t at = 0; at < bytes && code == FF_OK; at += STAGE) {
		struct job j = {.sink = stage,
				.source = (const char *)host + at,
				.bytes = bytes - at < STAGE ? bytes - at : STAGE};

		code = push(s, &j, err);
		if (code == FF_OK)
			code = move(s, (char *)device + at, stage, j.bytes, cudaMemcpyHostToDevice,
					err);
	}
	return code;
}

int ff_cuda_download(struct ff_stream *s, void *host, const void *device, size_t bytes,
		struct ff_error *err)
{
	void *stage = NULL;
	int code = ff_cuda_enter(s->dev, err);

	if (code < 0 || !bytes)
		return code;
	if (is_pinned(host))
		return move(s, host, device, bytes, cudaMemcpyDeviceToHost, err);
	code = stage_for(s, bytes, &stage, err);
	for (size_t at = 0; at < bytes && code == FF_OK; at += STAGE) {
		struct job j = {.sink = (char *)host + at,
				.source = stage,
				.bytes = bytes - at < STAGE ? bytes - at : STAGE};

		code = move(s, stage, (const char *)device + at, j.bytes, cudaMemcpyDeviceToHost,
				err);
		if (code == FF_OK)
			code = push(s, &j, err);
	}
	return code;
}

/* ---- streams ---- */

static struct ff_ledger *new_ledger(struct ff_device *dev)
{
	struct ff_ledger *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	pthread_mutex_init(&l->mutex, NULL);
	l->next = dev->ledgers;
	dev->ledgers = l;
	return l;
}

int ff_cuda_stream(struct ff_device *dev, bool own, struct ff_stream **ret, struct ff_error *err)
{
	struct ff_stream *s = calloc(1, sizeof(*s));
	int code;

	(void)own; /* all are the device's */
	if (!s)
		return ff_fail_memory(err);
	s->dev = dev;
	s->ledger = new_ledger(dev);
	code = s->ledger ? ff_cuda_enter(dev, err) : ff_fail_memory(err);
	if (code == FF_OK)
		code = ff_cuda_check(cudaStreamCreateWithFlags(&s->queue, cudaStreamNonBlocking),
				dev, "make a stream", err);
	if (code == FF_OK)
		code = ff_cuda_alloc(dev, (FF_TICKETS + 1) * sizeof(uint32_t), &s->tickets, err);
	if (code < 0) {
		ff_cuda_stream_close(s);
		return code;
	}
	*ret = s;
	return FF_OK;
}

void ff_cuda_stream_close(struct ff_stream *s)
{
	if (!s)
		return;
	ff_cuda_enter(s->dev, NULL);
	if (s->queue) {
		if (!s->dev->lost)
			cudaStreamSynchronize(s->queue);
		cudaStreamDestroy(s->queue);
	}
	ff_cuda_unpin(s->dev, s->stage);
	ff_cuda_unpin(s->dev, s->small_stage);
	ff_cuda_free(s->dev, s->tickets);
	free(s->unchecked);
	free(s);
}

int ff_stream_check_later(struct ff_stream *s, struct ff_kernel *k, struct ff_error *err)
{
	if (s->dev->capturing && ff_captured_check_later(s->dev->capturing, k, err) < 0)
		return FF_E_NOMEM;
	if (k->unchecked)
		return FF_OK;
	if (s->n_unchecked == s->cap_unchecked) {
		uint32_t cap = s->cap_unchecked ? 2 * s->cap_unchecked : 16;
		struct ff_kernel **grown = realloc(s->unchecked, cap * sizeof(*grown));

		if (!grown)
			return ff_fail_memory(err);
		s->unchecked = grown;
		s->cap_unchecked = cap;
	}
	s->unchecked[s->n_unchecked++] = k;
	k->unchecked = true;
	return FF_OK;
}

/* The first that a kernel reported. */
static int check_kernels(struct ff_stream *s, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < s->n_unchecked; i++) {
		struct ff_error later;
		int told = ff_kernel_check(s->unchecked[i], code < 0 ? &later : err);

		code = code < 0 ? code : told;
	}
	return code;
}

static void forget_unchecked(struct ff_stream *s)
{
	for (uint32_t i = 0; i < s->n_unchecked; i++)
		s->unchecked[i]->unchecked = false;
	s->n_unchecked = 0;
}

void ff_stream_watch(struct ff_stream *s, const struct ff_watcher *w)
{
	s->watcher = s->dev->watcher = w;
	if (s->dev->capturing)
		ff_captured_watch(s->dev->capturing, w);
}

/* What it says replaces what CUDA said. */
static int ask_watcher(struct ff_stream *s, int code, struct ff_error *err)
{
	const struct ff_watcher *w = s->watcher;
	int told = w ? w->ask(w->ctx, 0, err) : FF_OK;

	if (w)
		s->watcher = s->dev->watcher = NULL;
	return told < 0 ? told : code;
}

/* What is aborted leaves the stream soon, or never. */
static void give_up(struct ff_stream *s, const struct ff_watcher *w)
{
	double start = ff_clock_us();

	w->end(w->ctx);
	while (cudaStreamQuery(s->queue) == cudaErrorNotReady) {
		s->dev->lost = ff_clock_us() - start > ABORT_US;
		if (s->dev->lost)
			break;
		sched_yield();
	}
	cudaGetLastError();
}

/* Of an event, or (NULL) of all. */
static cudaError_t query(const struct ff_stream *s, const struct ff_event *ev)
{
	return ev ? cudaEventQuery(ev->event) : cudaStreamQuery(s->queue);
}

/* As NCCL's manual has it: what hangs or fails there is noticed.  A stream that waits for another
 * one, which was posted to, knows the watcher by the device; until the first of these is drained.
 */
static int wait_watched(struct ff_stream *s, const struct ff_event *ev, const struct ff_watcher *w,
		struct ff_error *err)
{
	double start = ff_clock_us(), asked = start;
	cudaError_t status;
	int code = FF_OK;

	while ((status = query(s, ev)) == cudaErrorNotReady) {
		double now = ff_clock_us(), waited_s = (now - start) * 1e-6;
		bool late = w->limit_s > 0 && waited_s > w->limit_s;

		if (late || now - asked > ASK_US) {
			asked = now;
			code = w->ask(w->ctx, late ? waited_s : 0, err);
		}
		if (code < 0) {
			give_up(s, w);
			return code;
		}
		sched_yield();
	}
	return ff_cuda_check(status, s->dev, "finish its work", err);
}

static int wait_until_done(struct ff_stream *s, const struct ff_event *ev, struct ff_error *err)
{
	if (s->dev->lost)
		return ff_fail(err, FF_E_RUN, "CUDA device %d is lost", s->dev->ordinal);
	if (s->watcher || s->dev->watcher)
		return wait_watched(s, ev, s->watcher ? s->watcher : s->dev->watcher, err);
	return ff_cuda_check(ev ? cudaEventSynchronize(ev->event) : cudaStreamSynchronize(s->queue),
			s->dev, "finish its work", err);
}

int ff_cuda_drain(struct ff_stream *s, struct ff_error *err)
{
	const struct upstream up = s->upstream;
	struct ff_error failure = {0};
	int code = ff_cuda_enter(s->dev, err), told;

	if (code == FF_OK)
		code = wait_until_done(s, NULL, err);
	code = ask_watcher(s, code, err);
	told = check_kernels(s, code < 0 ? NULL : err);
	forget_unchecked(s);
	code = code < 0 ? code : told;
	if (code == FF_OK && (has_failed(s->ledger, s->drained, s->issued, &failure) ||
					     (up.ledger && has_failed(up.ledger, up.after, up.last,
									   &failure)))) {
		code = failure.code;
		if (err)
			*err = failure;
	}
	s->drained = s->issued;
	s->upstream.ledger = NULL;
	return code;
}

/* What is behind the event may report still, so all stay unchecked and watched. */
int ff_cuda_await(struct ff_stream *s, struct ff_event *ev, struct ff_error *err)
{
	int code = ff_cuda_enter(s->dev, err), told;

	if (code == FF_OK)
		code = wait_until_done(s, ev, err);
	told = s->watcher ? s->watcher->ask(s->watcher->ctx, 0, err) : FF_OK;
	code = told < 0 ? told : code;
	told = check_kernels(s, code < 0 ? NULL : err);
	return code < 0 ? code : told;
}

/* ---- events ---- */

static int new_event(struct ff_device *dev, unsigned int flags, struct ff_event **ret,
		struct ff_error *err)
{
	struct ff_event *ev = calloc(1, sizeof(*ev));
	int code;

	if (!ev)
		return ff_fail_memory(err);
	ev->dev = dev;
	code = ff_cuda_enter(dev, err);
	if (code == FF_OK)
		code = ff_cuda_check(cudaEventCreateWithFlags(&ev->event, flags), dev,
				"make an event", err);
	if (code < 0) {
		ff_cuda_event_close(ev);
		return code;
	}
	*ret = ev;
	return FF_OK;
}

int ff_cuda_event(struct ff_device *dev, struct ff_event **ret, struct ff_error *err)
{
	return new_event(dev, cudaEventDisableTiming, ret, err);
}

int ff_cuda_timer(struct ff_device *dev, struct ff_event **ret, struct ff_error *err)
{
	return new_event(dev, cudaEventDefault, ret, err);
}

void ff_cuda_event_close(struct ff_event *ev)
{
	if (!ev)
		return;
	ff_cuda_enter(ev->dev, NULL);
	if (ev->event)
		cudaEventDestroy(ev->event);
	free(ev);
}

int ff_cuda_record(struct ff_stream *s, struct ff_event *ev, struct ff_error *err)
{
	int code = ff_cuda_enter(s->dev, err);

	if (code == FF_OK)
		code = ff_cuda_check(cudaEventRecord(ev->event, s->queue), s->dev,
				"record an event", err);
	if (code == FF_OK)
		ev->recorded = (struct upstream){s->ledger, s->drained, s->issued};
	return code;
}

/* Of several streams that were waited for, the failure of the last one is known at once; that
 * of the others when they are drained. */
int ff_cuda_wait(struct ff_stream *s, struct ff_event *ev, struct ff_error *err)
{
	int code = ff_cuda_enter(s->dev, err);

	if (code < 0 || !ev->recorded.ledger)
		return code;
	code = ff_cuda_check(cudaStreamWaitEvent(s->queue, ev->event, 0), s->dev,
			"wait for an event", err);
	if (code == FF_OK && ev->recorded.ledger != s->ledger)
		s->upstream = ev->recorded;
	return code;
}

int ff_cuda_elapsed(
		struct ff_event *start, struct ff_event *finish, double *us, struct ff_error *err)
{
	float ms = 0;
	int code = ff_cuda_enter(finish->dev, err);

	if (code == FF_OK)
		code = ff_cuda_check(cudaEventElapsedTime(&ms, start->event, finish->event),
				finish->dev, "tell the time between two events", err);
	if (code == FF_OK)
		*us = (double)ms * 1e3;
	return code;
}
