/* Runs one Check suite on all ranks of an MPI job, the first of which prints TAP.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CHECK_RANKS_H
#define FF_CHECK_RANKS_H

#include "check_main.h"

#include "comm/mpi_job.h"
#include "ff/comm.h"

static inline int ff_check_ranks(Suite *suite)
{
	struct ff_error err;
	struct ff_comm *c;
	bool lead;
	int status;

	if (ff_mpi_start(&err) < 0 || ff_comm_mpi(&c, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return EXIT_FAILURE;
	}
	lead = c->rank == 0;
	c->destroy(c);
	if (!lead && !freopen("/dev/null", "w", stdout))
		return EXIT_FAILURE;
	status = ff_check_main(suite);
	fflush(stdout);
	if (status != EXIT_SUCCESS) {
		if (!lead)
			fprintf(stderr, "a rank other than the first failed; its seed is printed "
					"above\n");
		ff_mpi_abort(status); /* the others may wait for this one */
	}
	ff_mpi_finish();
	return status;
}

#endif
