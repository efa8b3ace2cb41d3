/* Collectives in stages.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_MPI_NODES_H
#define FF_COMM_MPI_NODES_H

#include "ff/nodes.h"
#include "mpi_comm.h"

/* Whether a collective goes in stages, within hosts and between them (ff/nodes.h), and how; `run`
 * does one of them. */
typedef int ff_mpi_run(struct ff_comm_mpi *m, const struct ff_collective *x, struct ff_error *err);
bool ff_mpi_has_stages(
		const struct ff_comm_mpi *m, const struct ff_collective *x, struct ff_spread *ret);
int ff_mpi_stages(struct ff_comm_mpi *m, const struct ff_collective *x, uint32_t me,
		struct ff_spread spread, ff_mpi_run *run, struct ff_error *err);

#endif
