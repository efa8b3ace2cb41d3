/* Backends: what the executor needs from a device, as tables of function pointers by subject.  A
 * call that takes a stream is ordered within it and may return before the work is done.  Every slot
 * is mandatory unless it says otherwise. SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_BACKEND_H
#define FF_BACKEND_H

#include "ff/kernel_slots.h"
#include "ff/posting.h"

/* Environment variable: the rank whose backend times the algorithms that libraries offer. */
#define FF_TUNING_PROCESS "FF_TUNING_PROCESS"

struct ff_schedule;
struct ff_comm;
struct ff_machine;

/* Alignment of libraries' scratch: cublasLtMatmul's workspace "must be 256B aligned" (cuBLAS
 * Library User Guide), and so is memory of cudaMalloc. */
#define FF_WORKSPACE_ALIGN 256

/* Who progresses communication that overlaps compute (ff/beside.h). */
enum ff_beside {
	FF_BESIDE_THREAD, /* a thread of its own that polls, or the device itself */
	FF_BESIDE_TASKS,  /* the computing thread, between two tasks */
	FF_BESIDE_COUNT
};

/* What measurements of a device depend on. */
struct ff_device_info {
	char processor[96], kernels[64];      /* model; the kernels' library and version */
	uint32_t threads;                     /* host threads that a kernel uses */
	char driver[64];                      /* versions; "": there is none */
	uint32_t clock_mhz, memory_clock_mhz; /* highest; 0: unknown */
	int64_t cache_bytes;                  /* of the last level; 0: unknown */
};

struct ff_device_slots {
	int (*open)(uint32_t ordinal, struct ff_device **ret, struct ff_error *err);
	void (*close)(struct ff_device *dev);
	/* FF_E_INPUT with a sentence unless the device has kernels for graphs of `type`. */
	int (*computes)(struct ff_device *dev, enum ff_dtype type, struct ff_error *err);
	/* Optional (may be NULL): absent in a backend whose times mean nothing. */
	void (*describe)(struct ff_device *dev, struct ff_device_info *ret);
	/* Optional (may be NULL): the schedule of the kernels opened from now on. */
	void (*observe)(struct ff_device *dev, const struct ff_schedule *s);
};

struct ff_memory_slots {
	/* Zeroed memory, aligned to 64 bytes. */
	int (*alloc)(struct ff_device *dev, size_t bytes, void **ret, struct ff_error *err);
	void (*free)(struct ff_device *dev, void *memory);
	/* Optional (both may be NULL): pinned host memory, which uploads and downloads access
	 * directly; other host memory is copied through it. */
	int (*pin)(struct ff_device *dev, size_t bytes, void **ret, struct ff_error *err);
	void (*unpin)(struct ff_device *dev, void *memory);
	bool of_host; /* pointers may be read and sent by the host */
};

struct ff_stream_slots {
	/* A stream with a worker of its own, or (`own` false) the caller's. */
	int (*open)(struct ff_device *dev, bool own, struct ff_stream **ret, struct ff_error *err);
	/* Optional (both may be NULL): a stream for communication, progressed as `by` says.  With
	 * FF_BESIDE_TASKS the caller's thread does it: `go_on` works until it would have to wait,
	 * and no other thread may wait for the stream's events.  `with`: NULL, or another such
	 * stream, whose worker this one shares. */
	int (*beside)(struct ff_device *dev, enum ff_beside by, struct ff_stream *with,
			struct ff_stream **ret, struct ff_error *err);
	void (*go_on)(struct ff_stream *s);
	void (*close)(struct ff_stream *s);
	/* Runs a host function in the stream's order (MPI calls, loads, clocks). */
	int (*call)(struct ff_stream *s, int (*fn)(void *arg, struct ff_error *err), void *arg,
			struct ff_error *err);
	/* Waits until the stream is empty; returns its first failure. */
	int (*drain)(struct ff_stream *s, struct ff_error *err);
	/* Host functions of different streams run concurrently. */
	bool apart;
};

struct ff_event_slots {
	int (*open)(struct ff_device *dev, struct ff_event **ret, struct ff_error *err);
	void (*close)(struct ff_event *ev);
	int (*record)(struct ff_stream *s, struct ff_event *ev, struct ff_error *err);
	int (*wait)(struct ff_stream *s, struct ff_event *ev, struct ff_error *err);
	/* Optional (both may be NULL): an event that records its time; the time between two
	 * recorded ones on one device. */
	int (*timer)(struct ff_device *dev, struct ff_event **ret, struct ff_error *err);
	int (*elapsed)(struct ff_event *start, struct ff_event *finish, double *us,
			struct ff_error *err);
};

struct ff_move_slots {
	int (*upload)(struct ff_stream *s, void *device, const void *host, size_t bytes,
			struct ff_error *err);
	int (*download)(struct ff_stream *s, void *host, const void *device, size_t bytes,
			struct ff_error *err);
	int (*copy)(struct ff_stream *s, const struct ff_copy *copy, struct ff_error *err);
	/* Sets `n` elements of `memory` to `bits`, of a short type to the lowest of them. */
	int (*fill)(struct ff_stream *s, void *memory, enum ff_dtype type, int64_t n, uint32_t bits,
			struct ff_error *err);
};

/* Arithmetic on parameters and gradients; arguments are copied. */
struct ff_math_slots {
	/* `n` updates by one optimizer, with no element in common. */
	int (*update)(struct ff_stream *s, const struct ff_update *u, uint32_t n,
			struct ff_error *err);
	int (*squares)(struct ff_stream *s, const struct ff_squares *n, struct ff_error *err);
	/* values *= factor */
	int (*scale)(struct ff_stream *s, float *values, int64_t n, float factor,
			struct ff_error *err);
	int (*encode)(struct ff_stream *s, const struct ff_coding *c, struct ff_error *err);
	int (*decode)(struct ff_stream *s, const struct ff_coding *c, struct ff_error *err);
};

struct ff_backend {
	const char *name; /* "cpu", "cuda", "null" */
	const char *help; /* one line: what it is, or why it is missing */
	struct ff_device_slots device;
	struct ff_memory_slots memory;
	struct ff_stream_slots stream;
	struct ff_event_slots event;
	struct ff_move_slots move;
	struct ff_math_slots math;
	struct ff_kernel_slots kernel;
	const struct ff_captures *captures; /* NULL: work cannot be captured */
	/* Optional (may be NULL): communication whose posted work needs no host, with one device a
	 * rank of `host`, numbered as `m` does (NULL: one node).  *ret then owns `host`.  If there
	 * is none *ret is left alone; with `insist` that is an error.  All ranks call it. */
	int (*comm)(struct ff_comm *host, const struct ff_machine *m, bool insist,
			struct ff_comm **ret, struct ff_error *err);
};

extern const struct ff_backend ff_backend_cpu, ff_backend_null;

#endif
