/* Short collectives over MPI.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_MPI_DIRECT_H
#define FF_COMM_MPI_DIRECT_H

#include "mpi_comm.h"

/* A collective by messages from each to each, with the sums of a ring (mpi_ring.h); also of one
 * device alone.  `me`: this rank's place in it. */
int ff_mpi_direct(struct ff_mpi_stream *s, const struct ff_collective *x, uint32_t me,
		struct ff_error *err);

#endif
