/* The MPI job: what only the commands and the tests of comm/mpi.c need.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_MPI_JOB_H
#define FF_COMM_MPI_JOB_H

#include "ff/comm.h"

/* Initialises MPI for a worker thread that communicates while the main thread
 * computes.  Call once, before ff_comm_mpi. */
int ff_mpi_start(struct ff_error *err);
/* Ranks on this rank's host, and its number among them; call on all ranks, after
 * ff_mpi_start. */
int ff_mpi_neighbours(uint32_t *n, uint32_t *own, struct ff_error *err);
/* The first of the ranks on this rank's host; likewise. */
int ff_mpi_host(uint32_t *first, struct ff_error *err);
/* "Open MPI v4.1.4" */
void ff_mpi_version(char *text, size_t size);
/* Ends the whole job with `status`; call after the sentence was printed. */
void ff_mpi_abort(int status);
/* What each rank calls before it ends, well or not: `status` is 0 where all is well; `tell` is of a
 * rank that knows what failed, and prints it: where all come here at once, of the first such rank
 * alone.  Who knows aborts the job unless all come here within a second; so where all know, all end
 * in good order.  (mpirun of Open MPI 4.1 now and then crashes or hangs
 * when a rank aborts while others end.) */
void ff_mpi_meet(int status, void (*tell)(void *ctx), void *ctx);
/* Ends MPI in good order. */
void ff_mpi_finish(void);

/* Bytes of one message, INT_MAX unless a test wants to see longer ones cut without holding them. */
void ff_comm_mpi_limit(struct ff_comm *c, int64_t bytes);
/* For tests: as if every `each` ranks were on a host, with messages of so many bytes between
 * hosts, and collectives in stages or not. */
void ff_comm_mpi_part(struct ff_comm *c, uint32_t each, bool by_nodes, int64_t segment_bytes);

#endif
