/* What the executor needs from a device: tables of slots, one a trade.  Calls taking a stream are
 * ordered within it and may return before the work is done; every slot is mandatory unless it says
 * otherwise.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_BACKEND_H
#define FF_BACKEND_H

#include "ff/kernel_slots.h"
#include "ff/posting.h"

/* The environment's name for the number of the process whose backend times what libraries offer. */
#define FF_TUNING_PROCESS "FF_TUNING_PROCESS"

struct ff_schedule;
struct ff_comm;
struct ff_machine;

/* Where scratch of libraries begins: cuBLASLt's "must be 256B aligned" (cuBLAS Library User Guide,
 * cublasLtMatmul), as is what cudaMalloc gives. */
#define FF_WORKSPACE_ALIGN 256

/* Who sees to communication beside what is computed (ff/beside.h). */
enum ff_beside {
	FF_BESIDE_THREAD, /* a thread that looks all the time, or the device itself */
	FF_BESIDE_TASKS,  /* the thread that computes, between two tasks */
	FF_BESIDE_COUNT
};

/* What figures measured on a device depend on. */
struct ff_device_info {
	char processor[96], kernels[64];      /* model; the kernels' library and version */
	uint32_t threads;                     /* of the host that a kernel uses */
	char driver[64];                      /* its versions; "": there is none */
	uint32_t clock_mhz, memory_clock_mhz; /* at most; 0: not told */
	int64_t cache_bytes;                  /* of the last one before memory; 0: not told */
};

struct ff_device_slots {
	int (*open)(uint32_t ordinal, struct ff_device **ret, struct ff_error *err);
	void (*close)(struct ff_device *dev);
	/* FF_E_INPUT with a sentence unless the device has kernels that compute in `type`, a
	 * graph's. */
	int (*computes)(struct ff_device *dev, enum ff_dtype type, struct ff_error *err);
	/* Optional (may be NULL): backends whose times mean nothing have none. */
	void (*describe)(struct ff_device *dev, struct ff_device_info *ret);
	/* Optional (may be NULL): the schedule that kernels to come belong to. */
	void (*observe)(struct ff_device *dev, const struct ff_schedule *s);
};

struct ff_memory_slots {
	/* Zeroed memory, aligned to 64 bytes. */
	int (*alloc)(struct ff_device *dev, size_t bytes, void **ret, struct ff_error *err);
	void (*free)(struct ff_device *dev, void *memory);
	/* Optional (both may be NULL): host memory that uploads read, and downloads write, as it
	 * is; any other goes by way of such. */
	int (*pin)(struct ff_device *dev, size_t bytes, void **ret, struct ff_error *err);
	void (*unpin)(struct ff_device *dev, void *memory);
	bool of_host; /* pointers may be read and sent by the host */
};

struct ff_stream_slots {
	/* A stream with a worker of its own, or (`own` false) the caller's. */
	int (*open)(struct ff_device *dev, bool own, struct ff_stream **ret, struct ff_error *err);
	/* Optional (both may be NULL): a stream for communication, whose worker waits for other
	 * ranks as `by` says.  With FF_BESIDE_TASKS that is the caller's thread: `go_on` has it
	 * work until it has to wait, and nobody else may wait for the stream's events.  `with`:
	 * NULL, or another such stream, whose worker this one then shares. */
	int (*beside)(struct ff_device *dev, enum ff_beside by, struct ff_stream *with,
			struct ff_stream **ret, struct ff_error *err);
	void (*go_on)(struct ff_stream *s);
	void (*close)(struct ff_stream *s);
	/* Runs a host function in the stream's order (MPI calls, loads, clocks). */
	int (*call)(struct ff_stream *s, int (*fn)(void *arg, struct ff_error *err), void *arg,
			struct ff_error *err);
	/* Waits for all that the stream was given; its first failure is returned. */
	int (*drain)(struct ff_stream *s, struct ff_error *err);
	/* Host functions of several streams run at the same time: none waits for another's end. */
	bool apart;
};

struct ff_event_slots {
	int (*open)(struct ff_device *dev, struct ff_event **ret, struct ff_error *err);
	void (*close)(struct ff_event *ev);
	int (*record)(struct ff_stream *s, struct ff_event *ev, struct ff_error *err);
	int (*wait)(struct ff_stream *s, struct ff_event *ev, struct ff_error *err);
	/* Optional (both may be NULL): an event that keeps the time when it happens, and the time
	 * between two such that have, on one device. */
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
	/* The `n` elements of `memory` all have these bits (the lowest, of a short type). */
	int (*fill)(struct ff_stream *s, void *memory, enum ff_dtype type, int64_t n, uint32_t bits,
			struct ff_error *err);
};

/* What is computed of parameters and gradients; arguments are copied. */
struct ff_math_slots {
	/* `n` of one optimizer, which share no element: none waits for another. */
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
	const char *help; /* one line: what it is, or why it is not here */
	struct ff_device_slots device;
	struct ff_memory_slots memory;
	struct ff_stream_slots stream;
	struct ff_event_slots event;
	struct ff_move_slots move;
	struct ff_math_slots math;
	struct ff_kernel_slots kernel;
	const struct ff_captures *captures; /* NULL: work is always given anew */
	/* Optional (may be NULL): communication that needs the host for nothing that is posted,
	 * one device a rank of `host`, as `m` (NULL: one node) numbers them; `host` then is *ret's.
	 * *ret stays where there is none; if `insist`, that is an error.  All ranks call it. */
	int (*comm)(struct ff_comm *host, const struct ff_machine *m, bool insist,
			struct ff_comm **ret, struct ff_error *err);
};

extern const struct ff_backend ff_backend_cpu, ff_backend_null;

#endif
