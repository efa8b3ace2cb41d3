/* Messages over MPI.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_MPI_MESSAGES_H
#define FF_COMM_MPI_MESSAGES_H

#include "mpi_comm.h"

/* All parcels from and to this rank, at once; `messages` as ff_channel has it. */
int ff_mpi_messages(struct ff_comm_mpi *m, bool messages, enum ff_dtype type,
		const struct ff_parcel *parcel, uint32_t n, struct ff_error *err);

#endif
