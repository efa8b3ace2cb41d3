/* Messages over MPI.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_MPI_MESSAGES_H
#define FF_COMM_MPI_MESSAGES_H

#include "mpi_comm.h"

/* All parcels from and to this rank, at once. */
int ff_mpi_messages(struct ff_mpi_stream *s, enum ff_dtype type, const struct ff_parcel *parcel,
		uint32_t n, struct ff_error *err);

#endif
