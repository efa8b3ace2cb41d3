/* Communication among devices.  A process hosts some devices of the job: all
 * of them (local), or one (MPI).  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_H
#define FF_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ff/error.h"
#include "ff/reduce.h"

/* A collective on float32 among `n_devices` devices.  Arrays are indexed by
 * position in `device`; entries of devices hosted elsewhere are NULL. */
struct ff_collective {
	uint32_t n_devices;
	const uint16_t *device; /* ascending */
	const void *const *send;
	void *const *recv;     /* send == recv: in place (all-reduce only) */
	const int64_t *count;  /* elements: of each device's chunk (gather, scatter); all-reduce:
				  count[0] */
	const int64_t *offset; /* all-gather: where each chunk lies in recv, elements */
	enum ff_reduce reduce; /* all-reduce, reduce-scatter */
};

struct ff_parcel {
	uint16_t from, to;
	const void *send; /* NULL: not hosted here */
	void *recv;
	int64_t bytes;
};

struct ff_comm {
	uint32_t n_devices; /* in the job */
	bool (*hosts)(const struct ff_comm *c, uint32_t device);
	int (*all_reduce)(struct ff_comm *c, const struct ff_collective *x, struct ff_error *err);
	int (*all_gather)(struct ff_comm *c, const struct ff_collective *x, struct ff_error *err);
	int (*reduce_scatter)(
			struct ff_comm *c, const struct ff_collective *x, struct ff_error *err);
	/* All parcels between two of the devices, at once. */
	int (*exchange)(struct ff_comm *c, const struct ff_parcel *parcel, uint32_t n,
			struct ff_error *err);
	int (*barrier)(struct ff_comm *c, struct ff_error *err);
	void (*destroy)(struct ff_comm *c);
	int64_t sent_bytes;     /* by hosted devices so far; rings as in ff_move.network_bytes */
	uint32_t rank, n_ranks; /* of processes */
};

/* All devices in this process. */
int ff_comm_local(uint32_t n_devices, struct ff_comm **ret, struct ff_error *err);
/* One device a rank of MPI_COMM_WORLD; MPI must be initialised. */
int ff_comm_mpi(struct ff_comm **ret, struct ff_error *err);

#endif
