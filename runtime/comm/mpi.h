/* One device a rank of MPI: what the files of this communication have in common.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_MPI_H
#define FF_COMM_MPI_H

#include <mpi.h>

#include "ff/nodes.h"
#include "post.h"

/* Bytes of a message between hosts.  MPI asks the receiver before it sends a longer one, and over
 * TCP the answer waits behind all that goes that way already (docs/runtime.md). */
#define FF_MPI_SEGMENT_BYTES 32768

/* A reduction as MPI has it.  What only has a meaning together is one element, so that
 * no chunk of MPI's or of ours parts it. */
struct ff_mpi_operation {
	MPI_Op op;
	MPI_Datatype type;
	int64_t width; /* elements of ours in one of MPI's */
};

struct ff_mpi_group {
	struct ff_mpi_group *next;
	MPI_Comm comm;
	int *count, *offset; /* n each, scratch of the calls with vectors */
	uint32_t n;
	uint16_t device[];
};

struct ff_mpi_shared;

struct ff_comm_mpi {
	struct ff_host_comm host; /* its base is the comm */
	MPI_Comm world;
	MPI_Datatype type[FF_DTYPE_COUNT];
	struct ff_mpi_operation operation[FF_REDUCE_COUNT][FF_DTYPE_COUNT]; /* reduced so */
	int64_t limit;  /* elements in one call */
	double limit_s; /* that other ranks are waited for in a call of the host; 0: for ever */
	struct ff_mpi_group *groups;
	struct ff_mpi_shared *shared; /* by group, of one host */
	MPI_Request *request;
	int n_requests, cap_requests;
	uint32_t *host_of;     /* by rank: the first rank on its host */
	int64_t segment_bytes; /* of a message between hosts; 0: MPI has it all */
	bool by_nodes;         /* collectives of several hosts go in stages where they can */
	char *room;            /* of rings */
	size_t room_bytes;
};

/* Whether two ranks are on two hosts, and what they send goes in segments. */
static inline bool ff_mpi_is_apart(const struct ff_comm_mpi *m, uint32_t a, uint32_t b)
{
	return m->segment_bytes && m->host_of[a] != m->host_of[b];
}

/* mpi_wait.c: as the thread at hand waits (idle.h); `what` words the error. */
int ff_mpi_wait(MPI_Request *request, const char *what, struct ff_error *err);
int ff_mpi_wait_all(int n, MPI_Request *request, struct ff_error *err);

/* All parcels from and to this rank, at once. */
int ff_mpi_messages(struct ff_comm_mpi *m, enum ff_dtype type, const struct ff_parcel *parcel,
		uint32_t n, struct ff_error *err);

/* A collective as a ring in the order of its devices, which sums a chunk beginning with the device
 * behind its owner; `me`: this rank's place in it. */
int ff_mpi_ring(struct ff_comm_mpi *m, const struct ff_collective *x, uint32_t me,
		struct ff_error *err);

/* The communicator of a collective's devices, made when all of them first come here. */
int ff_mpi_group_find(struct ff_comm_mpi *m, const struct ff_collective *x,
		struct ff_mpi_group **ret, struct ff_error *err);
void ff_mpi_groups_close(struct ff_comm_mpi *m);

/* A collective among ranks of one host, in memory that they share; sums are those of the ring. */
int ff_mpi_shared_run(struct ff_comm_mpi *m, const struct ff_collective *x, uint32_t me,
		struct ff_error *err);
/* Whether a collective goes in stages, within hosts and between them (ff/nodes.h), and how; `run`
 * does one of them. */
typedef int ff_mpi_run(struct ff_comm_mpi *m, const struct ff_collective *x, struct ff_error *err);
bool ff_mpi_has_stages(
		const struct ff_comm_mpi *m, const struct ff_collective *x, struct ff_spread *ret);
int ff_mpi_stages(struct ff_comm_mpi *m, const struct ff_collective *x, uint32_t me,
		struct ff_spread spread, ff_mpi_run *run, struct ff_error *err);
void ff_mpi_shared_close(struct ff_comm_mpi *m);

#endif
