/* Collectives in stages.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_MPI_NODES_H
#define FF_COMM_MPI_NODES_H

#include "ff/nodes.h"
#include "mpi_comm.h"

/* A collective in stages (stages.h), each of which `run` does; `me`: this rank's place in it. */
typedef int ff_mpi_run(struct ff_comm_mpi *m, const struct ff_collective *x, struct ff_error *err);
int ff_mpi_stages(struct ff_comm_mpi *m, const struct ff_collective *x, uint32_t me,
		struct ff_spread spread, ff_mpi_run *run, struct ff_error *err);

#endif
