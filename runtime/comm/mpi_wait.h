/* Waiting for MPI.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_MPI_WAIT_H
#define FF_COMM_MPI_WAIT_H

#include <mpi.h>

#include "ff/error.h"

/* As the thread at hand waits (idle.h); `what` words the error. */
int ff_mpi_wait(MPI_Request *request, const char *what, struct ff_error *err);
int ff_mpi_wait_all(int n, MPI_Request *request, struct ff_error *err);

#endif
