/* Streams: a queue of jobs with a worker thread or a fiber, or the caller's own thread;
 * events order streams among each other.  SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/core/threads.h"
#include "ff/clock.h"
#include "process/fiber.h"
#include "process/idle.h"

enum job_kind { JOB_RUN, JOB_RECORD, JOB_WAIT };

/* Jobs come in two sizes and are used again, so that a stream allocates only
 * until its queue has been as long as it ever gets. */
enum job_size { JOB_SMALL, JOB_LARGE, JOB_SIZES };
static const size_t job_bytes[JOB_SIZES] = {256, 4096};

struct job {
	struct job *next;
	ff_job run;
	enum job_kind kind;
	enum job_size size;
	_Alignas(max_align_t) unsigned char payload[];
};

struct ff_stream {
	enum ff_stream_kind kind;
	pthread_t thread;
	struct ff_fiber *fiber; /* a guest's */
	struct ff_stream *next; /* in the ring of the thread's guests */
	pthread_mutex_t mutex;
	pthread_cond_t filled, emptied;
	struct job *first, *last, *spare[JOB_SIZES];
	bool busy, closing;
	struct ff_error failure; /* code < 0: jobs are skipped */
};

struct ff_event {
	pthread_mutex_t mutex;
	pthread_cond_t happened;
	uint64_t issued, done;   /* records so far */
	struct ff_stream *guest; /* NULL, or the last record's stream: who waits runs it */
	struct ff_error failure;
	bool timed;
	double us; /* when it happened, if it is timed */
};

struct ticket {
	struct ff_event *event;
	uint64_t number;
};

static void event_happen(const struct ticket *t, const struct ff_error *failure)
{
	struct ff_event *ev = t->event;

	pthread_mutex_lock(&ev->mutex);
	if (ev->timed)
		ev->us = ff_clock_us();
	if (ev->done < t->number)
		ev->done = t->number;
	if (failure->code < 0 || ev->failure.code < 0) /* a long copy, beside what may be timed */
		ev->failure = *failure;
	pthread_cond_broadcast(&ev->happened);
	pthread_mutex_unlock(&ev->mutex);
}

/* With the lock held. */
static void look_again(struct ff_event *ev)
{
	struct ff_stream *guest = ev->guest;

	if (!guest) {
		pthread_cond_wait(&ev->happened, &ev->mutex);
		return;
	}
	pthread_mutex_unlock(&ev->mutex);
	if (ff_fiber_is_here()) {
		ff_fiber_yield(); /* to who goes on with all guests */
	} else {
		ff_stream_go_on(guest);
		if (guest->busy)
			ff_idle();
	}
	pthread_mutex_lock(&ev->mutex);
}

static int event_await(const struct ticket *t, struct ff_error *err)
{
	struct ff_event *ev = t->event;
	int code;

	pthread_mutex_lock(&ev->mutex);
	while (ev->done < t->number)
		look_again(ev);
	code = ev->failure.code;
	if (code < 0 && err)
		*err = ev->failure;
	pthread_mutex_unlock(&ev->mutex);
	return code;
}

/* Runs one job outside the lock.  Records happen on a failed stream too, else
 * the streams that wait for them would hang. */
static void execute(struct ff_stream *s, struct job *j)
{
	struct ff_error err = {0};
	int code = FF_OK;

	if (j->kind == JOB_RECORD)
		event_happen((struct ticket *)j->payload, &s->failure);
	else if (j->kind == JOB_WAIT)
		code = event_await((struct ticket *)j->payload, &err);
	else if (s->failure.code == FF_OK)
		code = j->run(j->payload, &err);
	if (code < 0 && s->failure.code == FF_OK) {
		s->failure = err;
		s->failure.code = code;
	}
}

/* The first job, which stays in the queue until it is done; called with the lock held. */
static void run_first(struct ff_stream *s)
{
	struct job *j = s->first;

	s->busy = true;
	pthread_mutex_unlock(&s->mutex);
	execute(s, j);
	pthread_mutex_lock(&s->mutex);
	s->busy = false;
	s->first = j->next;
	j->next = s->spare[j->size];
	s->spare[j->size] = j;
	if (!s->first)
		pthread_cond_broadcast(&s->emptied);
}

/* While it is busy the worker alone touches `failure`. */
static void *work(void *arg)
{
	struct ff_stream *s = arg;

	pthread_mutex_lock(&s->mutex);
	while (s->first || !s->closing) {
		if (s->first)
			run_first(s);
		else
			pthread_cond_wait(&s->filled, &s->mutex);
	}
	pthread_mutex_unlock(&s->mutex);
	ff_cpu_threads_end();
	return NULL;
}

static void visit(void *arg)
{
	struct ff_stream *s = arg;

	for (;;) {
		pthread_mutex_lock(&s->mutex);
		while (s->first)
			run_first(s);
		pthread_mutex_unlock(&s->mutex);
		ff_fiber_yield();
	}
}

void ff_stream_go_on(struct ff_stream *s)
{
	struct ff_stream *guest = s;

	do {
		if (guest->fiber && (guest->first || guest->busy))
			ff_fiber_resume(guest->fiber);
		guest = guest->next;
	} while (guest != s);
}

/* A spare job or a new one; called with the lock held. */
static struct job *take_job(struct ff_stream *s, enum job_size size)
{
	struct job *j = s->spare[size];

	if (j) {
		s->spare[size] = j->next;
		return j;
	}
	j = malloc(sizeof(*j) + job_bytes[size]);
	if (j)
		j->size = size;
	return j;
}

static int push(struct ff_stream *s, enum job_kind kind, ff_job run, const void *payload,
		size_t size, struct ff_error *err)
{
	struct job *j;

	if (size > job_bytes[JOB_LARGE])
		return ff_fail(err, FF_E_RUN,
				"a stream's job carries %zu bytes, expected at most %zu", size,
				job_bytes[JOB_LARGE]);
	pthread_mutex_lock(&s->mutex);
	j = take_job(s, size > job_bytes[JOB_SMALL] ? JOB_LARGE : JOB_SMALL);
	if (j) {
		j->next = NULL;
		j->run = run;
		j->kind = kind;
		memcpy(j->payload, payload, size);
		if (s->first)
			s->last->next = j;
		else
			s->first = j;
		s->last = j;
		pthread_cond_signal(&s->filled);
	}
	pthread_mutex_unlock(&s->mutex);
	return j ? FF_OK : ff_fail_memory(err);
}

static bool is_queue(const struct ff_stream *s)
{
	return s->kind != FF_STREAM_CALLER;
}

int ff_stream_push(
		struct ff_stream *s, ff_job job, void *payload, size_t size, struct ff_error *err)
{
	return is_queue(s) ? push(s, JOB_RUN, job, payload, size, err) : job(payload, err);
}

int ff_stream_drain(struct ff_stream *s, struct ff_error *err)
{
	int code;

	while (s->fiber && (s->first || s->busy)) {
		ff_stream_go_on(s);
		if (s->busy)
			ff_idle();
	}
	pthread_mutex_lock(&s->mutex);
	while (s->first || s->busy)
		pthread_cond_wait(&s->emptied, &s->mutex);
	code = s->failure.code;
	if (code < 0 && err)
		*err = s->failure;
	s->failure.code = FF_OK;
	pthread_mutex_unlock(&s->mutex);
	return code;
}

static void leave_ring(struct ff_stream *s)
{
	struct ff_stream *before = s;

	while (before->next != s)
		before = before->next;
	before->next = s->next;
}

int ff_stream_create(enum ff_stream_kind kind, struct ff_stream *with, struct ff_stream **ret,
		struct ff_error *err)
{
	struct ff_stream *s = calloc(1, sizeof(*s));
	int code;

	if (!s)
		return ff_fail_memory(err);
	s->kind = kind;
	s->next = s;
	pthread_mutex_init(&s->mutex, NULL);
	pthread_cond_init(&s->filled, NULL);
	pthread_cond_init(&s->emptied, NULL);
	if (kind == FF_STREAM_WORKER && pthread_create(&s->thread, NULL, work, s)) {
		s->kind = FF_STREAM_CALLER;
		ff_stream_destroy(s);
		return ff_fail(err, FF_E_RUN, "a stream's worker thread cannot be started");
	}
	if (kind == FF_STREAM_GUEST && (code = ff_fiber_create(visit, s, &s->fiber, err)) < 0) {
		ff_stream_destroy(s);
		return code;
	}
	if (with) {
		s->next = with->next;
		with->next = s;
	}
	*ret = s;
	return FF_OK;
}

static void free_jobs(struct job *first)
{
	while (first) {
		struct job *j = first;

		first = j->next;
		free(j);
	}
}

void ff_stream_destroy(struct ff_stream *s)
{
	if (!s)
		return;
	if (s->kind == FF_STREAM_WORKER) {
		pthread_mutex_lock(&s->mutex);
		s->closing = true;
		pthread_cond_signal(&s->filled);
		pthread_mutex_unlock(&s->mutex);
		pthread_join(s->thread, NULL);
	}
	leave_ring(s);
	ff_fiber_destroy(s->fiber);
	free_jobs(s->first);
	for (uint32_t i = 0; i < JOB_SIZES; i++)
		free_jobs(s->spare[i]);
	pthread_cond_destroy(&s->emptied);
	pthread_cond_destroy(&s->filled);
	pthread_mutex_destroy(&s->mutex);
	free(s);
}

int ff_event_create(bool timed, struct ff_event **ret, struct ff_error *err)
{
	struct ff_event *ev = calloc(1, sizeof(*ev));

	if (!ev)
		return ff_fail_memory(err);
	pthread_mutex_init(&ev->mutex, NULL);
	pthread_cond_init(&ev->happened, NULL);
	ev->timed = timed;
	*ret = ev;
	return FF_OK;
}

void ff_event_destroy(struct ff_event *ev)
{
	if (!ev)
		return;
	pthread_cond_destroy(&ev->happened);
	pthread_mutex_destroy(&ev->mutex);
	free(ev);
}

int ff_event_record(struct ff_stream *s, struct ff_event *ev, struct ff_error *err)
{
	struct ticket t = {.event = ev};
	int code;

	pthread_mutex_lock(&ev->mutex);
	t.number = ++ev->issued;
	ev->guest = s->fiber ? s : NULL;
	pthread_mutex_unlock(&ev->mutex);
	code = is_queue(s) ? push(s, JOB_RECORD, NULL, &t, sizeof(t), err) : FF_OK;
	if (code < 0) { /* nobody may wait for a record that was never queued */
		struct ff_error failure = {0};

		ff_fail_memory(&failure);
		event_happen(&t, &failure);
	} else if (!is_queue(s)) {
		event_happen(&t, &s->failure);
	}
	return code;
}

int ff_event_wait(struct ff_stream *s, struct ff_event *ev, struct ff_error *err)
{
	struct ticket t = {.event = ev};

	pthread_mutex_lock(&ev->mutex);
	t.number = ev->issued;
	pthread_mutex_unlock(&ev->mutex);
	if (is_queue(s))
		return push(s, JOB_WAIT, NULL, &t, sizeof(t), err);
	return event_await(&t, err);
}

/* When its last record happened. */
static int event_time(struct ff_event *ev, double *us, struct ff_error *err)
{
	int code = FF_OK;

	pthread_mutex_lock(&ev->mutex);
	*us = ev->us;
	if (!ev->timed)
		code = ff_fail(err, FF_E_RUN, "an event that keeps no time was asked for it");
	else if (!ev->issued || ev->done < ev->issued)
		code = ff_fail(err, FF_E_RUN, "an event was asked for its time before it happened");
	pthread_mutex_unlock(&ev->mutex);
	return code;
}

int ff_event_elapsed(
		struct ff_event *start, struct ff_event *finish, double *us, struct ff_error *err)
{
	double from, to;
	int code = event_time(start, &from, err);

	if (code == FF_OK)
		code = event_time(finish, &to, err);
	if (code == FF_OK)
		*us = to - from;
	return code;
}
