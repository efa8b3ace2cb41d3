/* Streams and events of CUDA, with host functions that may fail.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_STREAM_H
#define FF_CUDA_STREAM_H

#include "device.h"

struct ff_kernel;
struct ff_ledger;

/* Where the kernels of `s` are launched. */
cudaStream_t ff_stream_queue(const struct ff_stream *s);
/* FF_TICKETS counters for the kernels that are launched there, one at a time. */
uint32_t *ff_stream_tickets(const struct ff_stream *s);
struct ff_device *ff_stream_device(const struct ff_stream *s);
/* The next drain asks ff_kernel_check() of it. */
int ff_stream_check_later(struct ff_stream *s, struct ff_kernel *k, struct ff_error *err);

/* Whoever posts what may fail later, or never end, as others take part in it. */
struct ff_watcher {
	/* What has failed since; where `waited_s` is not 0, that nothing has come for so long. */
	int (*ask)(void *ctx, double waited_s, struct ff_error *err);
	/* It ends now, with whatever result. */
	void (*end)(void *ctx);
	void *ctx;
	double limit_s; /* that it may take; 0: for ever */
};

/* Until the stream is drained, drains of its device's streams have an eye on what was posted, and
 * its own asks at the end, on success and on failure: that sentence is told before CUDA's.  One
 * watcher at a time, which stays where it is. */
void ff_stream_watch(struct ff_stream *s, const struct ff_watcher *w);

/* Slots of struct ff_backend. */
int ff_cuda_stream(struct ff_device *dev, bool own, struct ff_stream **ret, struct ff_error *err);
void ff_cuda_stream_close(struct ff_stream *s);
int ff_cuda_event(struct ff_device *dev, struct ff_event **ret, struct ff_error *err);
void ff_cuda_event_close(struct ff_event *ev);
int ff_cuda_record(struct ff_stream *s, struct ff_event *ev, struct ff_error *err);
int ff_cuda_wait(struct ff_stream *s, struct ff_event *ev, struct ff_error *err);
int ff_cuda_timer(struct ff_device *dev, struct ff_event **ret, struct ff_error *err);
int ff_cuda_elapsed(
		struct ff_event *start, struct ff_event *finish, double *us, struct ff_error *err);
int ff_cuda_drain(struct ff_stream *s, struct ff_error *err);
int ff_cuda_await(struct ff_stream *s, struct ff_event *ev, struct ff_error *err);
int ff_cuda_call(struct ff_stream *s, int (*fn)(void *arg, struct ff_error *err), void *arg,
		struct ff_error *err);
int ff_cuda_upload(struct ff_stream *s, void *device, const void *host, size_t bytes,
		struct ff_error *err);
int ff_cuda_download(struct ff_stream *s, void *host, const void *device, size_t bytes,
		struct ff_error *err);

void ff_ledgers_free(struct ff_ledger *l);

#endif
