/* Communicators of MPI.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_MPI_GROUP_H
#define FF_COMM_MPI_GROUP_H

#include "mpi_comm.h"

/* The communicator of a collective's devices, made when all of them first come here. */
int ff_mpi_group_find(struct ff_comm_mpi *m, const struct ff_collective *x,
		struct ff_mpi_group **ret, struct ff_error *err);
void ff_mpi_groups_close(struct ff_comm_mpi *m);

#endif
