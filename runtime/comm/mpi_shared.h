/* Collectives in memory that ranks share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_MPI_SHARED_H
#define FF_COMM_MPI_SHARED_H

#include "mpi_comm.h"

/* A collective among ranks of one host, in memory that they share; sums are those of the ring. */
int ff_mpi_shared_run(struct ff_mpi_stream *on, const struct ff_collective *x, uint32_t me,
		struct ff_error *err);
void ff_mpi_shared_close(struct ff_mpi_stream *on);

#endif
