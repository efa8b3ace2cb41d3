/* Communication among devices.  A process hosts some devices of the job: all
 * of them (local), or one (MPI).
 *
 * What schedules need is posted: the call returns, and the stream communicates when
 * it gets there.  Arguments are read before the call returns; the memory that they
 * point to is the backend's, and busy until the stream has passed.  All ranks post
 * in the same order, and a process on one stream at a time: what it posted on
 * another has been drained.  There may be a second stream, that of messages, which runs
 * beside it: exchanges and collectives on it have nothing in common with those on the
 * first.  SPDX-License-Identifier: Apache-2.0 */
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
	bool messages; /* the stream is that of messages */
};

/* A collective among `n_devices` devices.  Arrays are indexed by position in
 * `device`; entries of devices hosted elsewhere are NULL. */
struct ff_collective {
	enum ff_move_kind kind; /* all-reduce, all-gather, reduce-scatter */
	enum ff_dtype type;
	enum ff_reduce reduce; /* all but all-gather; takes the type */
	uint32_t n_devices;
	const uint16_t *device; /* ascending */
	const void *const *send;
	/* In place: of an all-reduce recv is send; of a reduce-scatter, recv is the device's own
	 * chunk of send, and of an all-gather send is that of recv. */
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
	bool in_stream;      /* what is posted needs no host, and can be captured */
	bool takes_messages; /* there may be a stream of messages, */
	bool two_streams;    /* and there is: said before anything is posted on it */
	bool (*hosts)(const struct ff_comm *c, uint32_t device);
	/* Posted. */
	int (*collective)(struct ff_comm *c, const struct ff_channel *on,
			const struct ff_collective *x, struct ff_error *err);
	/* Parcels between devices, at once.  A rank lists those that have an end here, and no
	 * others: what it lists, two ranks have in common only the parcels between them, which both
	 * list, in one order, with equal counts.  Those that have none need not call. */
	int (*exchange)(struct ff_comm *c, const struct ff_channel *on, enum ff_dtype type,
			const struct ff_parcel *parcel, uint32_t n, struct ff_error *err);
	/* Among processes, in host memory, by the caller's own thread while nothing that
	 * was posted is under way: `bytes` of each into `all`, in the order of ranks; the sum
	 * of all processes' `v`, in place. */
	int (*gather)(struct ff_comm *c, const void *own, size_t bytes, void *all,
			struct ff_error *err);
	int (*sum)(struct ff_comm *c, float *v, int64_t n, struct ff_error *err);
	int (*barrier)(struct ff_comm *c, struct ff_error *err);
	/* Among the processes that host one of these devices, which call it in one order: `v`
	 * becomes what the first of them has. */
	int (*share)(struct ff_comm *c, uint32_t n, const uint16_t *device, void *v, size_t bytes,
			struct ff_error *err);
	/* Optional (may be NULL): one of the streams has failed.  What the other one waits for may
	 * never come, so it fails, too. */
	void (*give_up)(struct ff_comm *c);
	void (*destroy)(struct ff_comm *c);
	int64_t sent_bytes; /* posted by hosted devices so far; rings as in ff_move.network_bytes */
	uint32_t rank, n_ranks; /* of processes */
	struct ff_pulse *pulse; /* where it gives signs of life; NULL: nobody looks */
};

/* All devices in this process. */
int ff_comm_local(uint32_t n_devices, struct ff_comm **ret, struct ff_error *err);
/* One device a rank of MPI_COMM_WORLD; MPI must be initialised. */
int ff_comm_mpi(struct ff_comm **ret, struct ff_error *err);
/* Replaces *comm by the backend's own communication, which takes it over, where there is such and
 * each rank has a device, as `m` has them on its nodes (NULL: one node); else *comm stays.
 * FF_NCCL=0 in the first rank's environment refuses it, FF_NCCL=1 insists: what
 * is in the way is an error then. */
int ff_comm_prefer(const struct ff_backend *b, const struct ff_machine *m, struct ff_comm **comm,
		struct ff_error *err);

#endif
