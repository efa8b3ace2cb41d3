/* The MPI job.  SPDX-License-Identifier: Apache-2.0 */
#include "mpi_job.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ff/clock.h"
#include "mpi_check.h"

#define PATIENCE_US 1e6
#define TELL_US 3e5
#define PAUSE_US 200

int ff_mpi_check(int code, const char *what, struct ff_error *err)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int len;

	if (code == MPI_SUCCESS)
		return FF_OK;
	MPI_Error_string(code, text, &len);
	return ff_fail(err, FF_E_IO, "%s failed: %s", what, text);
}

int ff_mpi_start(struct ff_error *err)
{
	int provided, code;

	code = ff_mpi_check(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided),
			"MPI_Init_thread", err);
	if (code < 0)
		return code;
	if (provided < MPI_THREAD_SERIALIZED)
		return ff_fail(err, FF_E_RUN,
				"this MPI offers thread level %d, but MPI_THREAD_SERIALIZED (%d) "
				"is needed",
				provided, MPI_THREAD_SERIALIZED);
	return FF_OK;
}

void ff_mpi_version(char *text, size_t size)
{
	char whole[MPI_MAX_LIBRARY_VERSION_STRING] = "";
	int len;

	MPI_Get_library_version(whole, &len);
	/* what follows says who built it */
	snprintf(text, size, "%.*s", (int)strcspn(whole, ",\n"), whole);
}

int ff_mpi_neighbours(uint32_t *n, uint32_t *own, struct ff_error *err)
{
	MPI_Comm host = MPI_COMM_NULL;
	int ranks = 1, rank = 0;
	int code = ff_mpi_check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0,
						MPI_INFO_NULL, &host),
			"MPI_Comm_split_type", err);

	if (code < 0)
		return code;
	code = ff_mpi_check(MPI_Comm_size(host, &ranks), "MPI_Comm_size", err);
	if (code == FF_OK)
		code = ff_mpi_check(MPI_Comm_rank(host, &rank), "MPI_Comm_rank", err);
	MPI_Comm_free(&host);
	*n = (uint32_t)ranks;
	*own = (uint32_t)rank;
	return code;
}

int ff_mpi_host(uint32_t *first, struct ff_error *err)
{
	MPI_Comm host = MPI_COMM_NULL;
	int rank = 0, least = 0;
	int code;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	code = ff_mpi_check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0,
					    MPI_INFO_NULL, &host),
			"MPI_Comm_split_type", err);
	if (code < 0)
		return code;
	code = ff_mpi_check(MPI_Allreduce(&rank, &least, 1, MPI_INT, MPI_MIN, host),
			"MPI_Allreduce", err);
	MPI_Comm_free(&host);
	*first = (uint32_t)least;
	return code;
}

void ff_mpi_abort(int status)
{
	MPI_Abort(MPI_COMM_WORLD, status);
}

void ff_mpi_finish(void)
{
	MPI_Finalize();
}

/* Nothing else is called on MPI_COMM_WORLD (ff_comm_mpi has its own), so ranks meet there whatever
 * they were in the middle of. */
void ff_mpi_meet(int status, void (*tell)(void *ctx), void *ctx)
{
	const double start = ff_clock_us();
	MPI_Request all = MPI_REQUEST_NULL;
	int *first = malloc(sizeof(*first)); /* stays while the meeting is under way */
	int rank, here = 0, code = MPI_ERR_NO_MEM;
	bool told = false, patient = true;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (first) {
		*first = tell ? rank : INT_MAX;
		code = MPI_Iallreduce(
				MPI_IN_PLACE, first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD, &all);
	}
	while (code == MPI_SUCCESS && !here && patient) {
		double waited_us = ff_clock_us() - start;

		if (tell && !told && waited_us > TELL_US) {
			tell(ctx);
			told = true;
		}
		patient = !status || !tell || waited_us < PATIENCE_US;
		code = MPI_Test(&all, &here, MPI_STATUS_IGNORE);
		if (!here)
			usleep(PAUSE_US);
	}
	if (tell && !told && (!here || *first == rank))
		tell(ctx);
	if (here)
		free(first);
	else
		MPI_Abort(MPI_COMM_WORLD, status);
}
