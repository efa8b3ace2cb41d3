/* One device a rank of MPI: what the files of this communication have in common.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_MPI_COMM_H
#define FF_COMM_MPI_COMM_H

#include <mpi.h>

#include "post.h"

/* Bytes of a message between hosts.  MPI asks the receiver before it sends a longer one, and over
 * TCP the answer waits behind all that goes that way already (docs/runtime.md). */
#define FF_MPI_SEGMENT_BYTES 32768

/* What a message belongs to, on each stream. */
enum ff_mpi_tag {
	FF_MPI_EXCHANGE,
	FF_MPI_RING,
	FF_MPI_DIRECT,
	FF_MPI_SHARED,
	FF_MPI_TAGS,
};

struct ff_mpi_shared;

/* What one stream communicates with.  The other one runs at the same time, in another order on each
 * rank, so that they have nothing in common: no memory, no tag. */
struct ff_mpi_stream {
	struct ff_comm_mpi *m;
	int first_tag;
	struct ff_mpi_shared *shared; /* by group, of one host */
	MPI_Request *request;         /* of exchanges */
	int n_requests, most_requests;
	char *room; /* of rings */
	size_t room_bytes;
};

struct ff_comm_mpi {
	struct ff_host_comm host; /* its base is the comm */
	MPI_Comm world;
	pthread_mutex_t calls; /* MPI_THREAD_SERIALIZED: of one thread at a time */
	int64_t limit_bytes;   /* of one message */
	double limit_s; /* that other ranks are waited for in a call of the host; 0: for ever */
	struct ff_mpi_stream stream[2]; /* by ff_channel.messages */
	uint32_t *host_of;              /* by rank: the first rank on its host */
	int64_t segment_bytes;          /* of a message between hosts */
	bool by_nodes; /* collectives of several hosts go in stages where they can */
};

/* Whether two ranks are on two hosts: what they send goes in segments. */
static inline bool ff_mpi_is_apart(const struct ff_comm_mpi *m, uint32_t a, uint32_t b)
{
	return m->host_of[a] != m->host_of[b];
}

#endif
