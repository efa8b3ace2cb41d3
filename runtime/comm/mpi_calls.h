/* Calls of MPI by what is posted.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_MPI_CALLS_H
#define FF_COMM_MPI_CALLS_H

#include "mpi_comm.h"

/* Start; `bytes` is more than 0. */
int ff_mpi_send(struct ff_mpi_stream *s, const void *from, int bytes, int to, enum ff_mpi_tag tag,
		MPI_Request *request, struct ff_error *err);
int ff_mpi_receive(struct ff_mpi_stream *s, void *to, int bytes, int from, enum ff_mpi_tag tag,
		MPI_Request *request, struct ff_error *err);
/* As the thread at hand waits (idle.h). */
int ff_mpi_wait(struct ff_comm_mpi *m, MPI_Request *request, struct ff_error *err);
int ff_mpi_wait_all(struct ff_comm_mpi *m, int n, MPI_Request *request, struct ff_error *err);
/* Has MPI get on with what is under way, for who waits for something else; fails where that has
 * been given up. */
int ff_mpi_look(struct ff_comm_mpi *m, struct ff_error *err);

#endif
