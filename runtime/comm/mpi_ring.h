/* Rings over MPI.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_MPI_RING_H
#define FF_COMM_MPI_RING_H

#include "mpi_comm.h"

/* A collective as a ring in the order of its devices, which sums a chunk beginning with the device
 * behind its owner; `me`: this rank's place in it. */
int ff_mpi_ring(struct ff_mpi_stream *s, const struct ff_collective *x, uint32_t me,
		struct ff_error *err);

#endif
