/* Runs one Check suite on ranks of MPI, which share a fate; the first one prints.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DOUBLE_RANKS_MAIN_H
#define FF_DOUBLE_RANKS_MAIN_H

#include "check_main.h"
#include "comm/mpi_job.h"
#include "ff/comm.h"

/* `comm` gets the ranks' communication, for as long as the suite runs. */
static inline int ranks_main(Suite *suite, struct ff_comm **comm)
{
	struct ff_error err;
	int status;

	if (ff_mpi_start(&err) < 0 || ff_comm_mpi(comm, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return EXIT_FAILURE;
	}
	if ((*comm)->rank && !freopen("/dev/null", "w", stdout))
		return EXIT_FAILURE;
	status = ff_check_main(suite);
	(*comm)->destroy(*comm);
	if (status != EXIT_SUCCESS)
		ff_mpi_abort(status);
	ff_mpi_finish();
	return status;
}

#endif
