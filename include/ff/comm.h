/* Communication among devices.  A process hosts all devices of the job (local), or one (MPI).
 *
 * Communication of schedules is posted: the call returns at once, and the stream communicates in
 * its order.  Arguments are read before the call returns.  The buffers that they point to belong to
 * the backend, and are busy until the stream has passed.
 *
 * All ranks post in the same order.  A process posts on one stream at a time; before it changes to
 * another, it drains the first.  The stream of messages is an exception: it may run beside the
 * first, and its exchanges and collectives are independent of those on the first.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_H
#define FF_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ff/error.h"
#include "ff/move.h"
#include "ff/reduce.h"

struct ff_backend;
struct ff_machine;
struct ff_pulse;
struct ff_stream;

/* Where to post. */
struct ff_channel {
	const struct ff_backend *backend;
	struct ff_stream *stream;
	bool messages; /* it is the stream of messages */
};

/* A collective among `n_devices` devices.  Arrays are indexed by position in
 * `device`; entries of devices hosted elsewhere are NULL. */
struct ff_collective {
	enum ff_move_kind kind; /* all-reduce, all-gather, reduce-scatter */
	enum ff_dtype type;
	enum ff_reduce reduce; /* not for all-gather; must be defined for the type */
	uint32_t n_devices;
	const uint16_t *device; /* ascending */
	const void *const *send;
	/* May be in place.  All-reduce: recv == send.  Reduce-scatter: recv is the device's own
	 * chunk of send.  All-gather: send is the device's own chunk of recv. */
	void *const *recv;
	const int64_t *count;  /* elements: of each device's chunk (gather, scatter); all-reduce:
				  count[0] */
	const int64_t *offset; /* all-gather: where each chunk lies in recv, elements; chunks
				  leave no gaps */
};

/* `count` elements from one device to another. */
struct ff_parcel {
	uint16_t from, to;
	const void *send; /* NULL: not hosted here */
	void *recv;
	int64_t count;
};

struct ff_comm {
	char name[32];       /* "local", "mpi", "mpi shared", "nccl 2.28.3" */
	uint32_t n_devices;  /* in the job */
	bool in_stream;      /* posted work needs no host, and can be captured in a graph */
	bool takes_messages; /* supports a stream of messages */
	bool two_streams;    /* set by the user, before it posts on a stream of messages */
	bool (*hosts)(const struct ff_comm *c, uint32_t device);
	/* Posted. */
	int (*collective)(struct ff_comm *c, const struct ff_channel *on,
			const struct ff_collective *x, struct ff_error *err);
	/* Sends all parcels at once.  A rank lists the parcels that have an end here, and no
	 * others. Two ranks list the parcels between them in the same order, with equal counts.  A
	 * rank without parcels need not call. */
	int (*exchange)(struct ff_comm *c, const struct ff_channel *on, enum ff_dtype type,
			const struct ff_parcel *parcel, uint32_t n, struct ff_error *err);
	/* Host memory, in the caller's thread, while nothing posted is in flight.  gather: `bytes`
	 * of each process into `all`, in the order of ranks.  sum: all processes' `v`, in place. */
	int (*gather)(struct ff_comm *c, const void *own, size_t bytes, void *all,
			struct ff_error *err);
	int (*sum)(struct ff_comm *c, float *v, int64_t n, struct ff_error *err);
	int (*barrier)(struct ff_comm *c, struct ff_error *err);
	/* Broadcast among the processes that host one of these devices, all of which call it: `v`
	 * becomes that of the first device's process. */
	int (*share)(struct ff_comm *c, uint32_t n, const uint16_t *device, void *v, size_t bytes,
			struct ff_error *err);
	/* Optional (may be NULL): a stream has failed.  The other stream may wait for what never
	 * comes, so this makes it fail, too. */
	void (*give_up)(struct ff_comm *c);
	void (*destroy)(struct ff_comm *c);
	int64_t sent_bytes;     /* by hosted devices so far, counted as in ff_move.network_bytes */
	uint32_t rank, n_ranks; /* of processes */
	struct ff_pulse *pulse; /* its heartbeat; NULL: nobody watches */
};

/* All devices in this process. */
int ff_comm_local(uint32_t n_devices, struct ff_comm **ret, struct ff_error *err);
/* One device a rank of MPI_COMM_WORLD; MPI must be initialised. */
int ff_comm_mpi(struct ff_comm **ret, struct ff_error *err);
/* Replaces *comm by the backend's own communication (NCCL), which then owns *comm, if the backend
 * has one and each rank has a device of its own.  `m`: devices on nodes; NULL: one node.  Otherwise
 * *comm stays.  FF_NCCL=0 in the first rank's environment refuses it; with FF_NCCL=1 any obstacle
 * is an error. */
int ff_comm_prefer(const struct ff_backend *b, const struct ff_machine *m, struct ff_comm **comm,
		struct ff_error *err);

#endif
