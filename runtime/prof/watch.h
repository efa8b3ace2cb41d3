/* How long a device's stream is busy with something: one way for every backend.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PROF_WATCH_H
#define FF_PROF_WATCH_H

#include <pthread.h>
#include <stdatomic.h>

#include "ff/backend.h"
#include "ff/costs.h"

struct ff_watch {
	const struct ff_backend *backend;
	struct ff_device *dev;
	struct ff_stream *stream;
	struct ff_event *start, *finish;
	pthread_t holder; /* who lets the stream go on */
	atomic_bool open;
	double extra_us; /* that events add to what they enclose */
};

/* Fails for a backend whose events tell no time. */
int ff_watch_open(struct ff_watch *w, const struct ff_backend *b, struct ff_device *dev,
		struct ff_stream *s, struct ff_error *err);
void ff_watch_close(struct ff_watch *w);
/* From where the stream begins with what `run` gives to it until it is done; it begins when all
 * of it was given, so that what the host needs to do so does not count. */
int ff_watch_time(struct ff_watch *w, int (*run)(void *arg, struct ff_error *err), void *arg,
		double *us, struct ff_error *err);
/* Likewise, right behind what `before` (or NULL) gives, with the same argument. */
int ff_watch_time_behind(struct ff_watch *w, int (*before)(void *arg, struct ff_error *err),
		int (*run)(void *arg, struct ff_error *err), void *arg, double *us,
		struct ff_error *err);
/* What launches cost where a device is not the host.  From then on ff_watch_time leaves out what
 * a launch alone takes longer than one of many: a figure is what it adds to a busy stream. */
int ff_watch_launches(struct ff_watch *w, struct ff_launches *ret, struct ff_error *err);

#endif
