/* Streams and events of host memory: a queue with a worker thread, one that the caller's own thread
 * works off between other things, or inline.
 * Knows nothing of kernels.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_STREAM_H
#define FF_CPU_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "ff/error.h"

struct ff_stream;
struct ff_event;

/* What a stream runs; `payload` lies in the stream and dies afterwards. */
typedef int (*ff_job)(void *payload, struct ff_error *err);

enum ff_stream_kind {
	FF_STREAM_CALLER, /* all is done when it is pushed */
	FF_STREAM_WORKER, /* by a thread of its own */
	FF_STREAM_GUEST   /* by the caller's thread, which alone may wait for its events: in
			   * ff_stream_go_on, and while it waits */
};

/* `with`: NULL, or for a guest another guest of the same thread, which goes on with all of its. */
int ff_stream_create(enum ff_stream_kind kind, struct ff_stream *with, struct ff_stream **ret,
		struct ff_error *err);
/* Runs what is queued, then ends the worker; what a guest has not done is dropped.  Accepts NULL.
 */
void ff_stream_destroy(struct ff_stream *s);

/* Runs `job` on (a copy of) `payload`, in order.  Inline its
 * failure is returned at once; on a worker the stream's first failure is kept
 * for ff_stream_drain, and what follows it is skipped. */
int ff_stream_push(
		struct ff_stream *s, ff_job job, void *payload, size_t size, struct ff_error *err);
/* A guest, and all that are of its thread, get on with their queues until they have to wait for
 * other ranks or for each other. */
void ff_stream_go_on(struct ff_stream *s);
/* Waits until the queue is empty; returns its first failure and forgets it. */
int ff_stream_drain(struct ff_stream *s, struct ff_error *err);

/* `timed`: it keeps the time when it happens. */
int ff_event_create(bool timed, struct ff_event **ret, struct ff_error *err);
void ff_event_destroy(struct ff_event *ev);
/* The event happens when the stream gets here.  A wait is for the last record
 * issued before it; without one it returns at once.  The failure of the
 * recording stream becomes that of the waiting one. */
int ff_event_record(struct ff_stream *s, struct ff_event *ev, struct ff_error *err);
int ff_event_wait(struct ff_stream *s, struct ff_event *ev, struct ff_error *err);
/* Of two that keep the time; FF_E_RUN unless their last records have happened. */
int ff_event_elapsed(
		struct ff_event *start, struct ff_event *finish, double *us, struct ff_error *err);

#endif
