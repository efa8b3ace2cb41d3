/* Waiting for MPI: by its own calls, or, where the thread has something else to do meanwhile, by
 * looking now and then.  SPDX-License-Identifier: Apache-2.0 */
#include "mpi_wait.h"

#include "mpi_check.h"
#include "process/idle.h"

int ff_mpi_wait(MPI_Request *request, const char *what, struct ff_error *err)
{
	int done = 0, code = FF_OK;

	if (ff_idle_may_block())
		return ff_mpi_check(MPI_Wait(request, MPI_STATUS_IGNORE), what, err);
	while (code == FF_OK && !done) {
		code = ff_mpi_check(MPI_Test(request, &done, MPI_STATUS_IGNORE), what, err);
		if (code == FF_OK && !done)
			ff_idle();
	}
	return code;
}

int ff_mpi_wait_all(int n, MPI_Request *request, struct ff_error *err)
{
	int done = 0, code = FF_OK;

	if (ff_idle_may_block())
		return ff_mpi_check(
				MPI_Waitall(n, request, MPI_STATUSES_IGNORE), "MPI_Waitall", err);
	while (code == FF_OK && !done) {
		code = ff_mpi_check(MPI_Testall(n, request, &done, MPI_STATUSES_IGNORE),
				"MPI_Testall", err);
		if (code == FF_OK && !done)
			ff_idle();
	}
	return code;
}
