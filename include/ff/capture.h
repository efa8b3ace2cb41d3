/* Work that a device is given once and takes again and again, without the host.  What is given
 * to streams between begin and end is kept instead of run, with pointers and arguments as they
 * were; what differs each time, kernels read in device memory.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CAPTURE_H
#define FF_CAPTURE_H

#include "ff/graph.h"
#include "ff/optimizer.h"

struct ff_device; /* each backend has its own */
struct ff_stream;
struct ff_event;
struct ff_captured;

/* What differs from step to step.  Whoever is told of such takes these in the place of their
 * namesakes in struct ff_kernel_io and struct ff_update. */
struct ff_figures {
	uint64_t step;
	int64_t valid[FF_MAX_LOSSES];            /* by number of the loss */
	union ff_factors factors[FF_MAX_GROUPS]; /* by group of parameters */
};

/* What a backend that captures offers; every slot is mandatory. */
struct ff_captures {
	const char *name; /* of what is launched: "a CUDA graph" */
	/* Device memory of the device's own, for as long as it is open: always the same. */
	int (*figures)(struct ff_device *dev, struct ff_figures **ret, struct ff_error *err);
	/* Begins with `s`.  Other streams of the device are in it once they wait for an event
	 * that was recorded in it, and must have been waited for where it ends.  Nothing in
	 * between may need the host: drain, call, uploads and downloads of memory that is not
	 * pinned, and new memory are errors. */
	int (*begin)(struct ff_stream *s, struct ff_error *err);
	/* Ends what began with `s`; to be called after a failure too (`ret` NULL), which makes
	 * the streams usable again. */
	int (*end)(struct ff_stream *s, struct ff_captured **ret, struct ff_error *err);
	/* All of it, in the stream's order.  What its kernels report is told by `await` and by
	 * the stream's drain. */
	int (*launch)(struct ff_stream *s, struct ff_captured *c, struct ff_error *err);
	void (*close)(struct ff_captured *c); /* kernels and communication in it outlive it */
	/* The host waits for `ev`, recorded on `s`; what kernels on it have reported is an
	 * error. */
	int (*await)(struct ff_stream *s, struct ff_event *ev, struct ff_error *err);
};

#endif
