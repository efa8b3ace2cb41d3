/* Calls of MPI.  What is posted on two streams calls it from two threads, one at a time, so that
 * none may wait inside: who has something else to do meanwhile looks now and then, too.
 * SPDX-License-Identifier: Apache-2.0 */
#include "mpi_calls.h"

#include "mpi_check.h"
#include "process/idle.h"

static void enter(struct ff_comm_mpi *m)
{
	if (m->host.base.two_streams)
		pthread_mutex_lock(&m->calls);
}

static void leave(struct ff_comm_mpi *m)
{
	if (m->host.base.two_streams)
		pthread_mutex_unlock(&m->calls);
}

static bool may_block(const struct ff_comm_mpi *m)
{
	return ff_idle_may_block() && !m->host.base.two_streams;
}

static int check_given_up(const struct ff_comm_mpi *m, struct ff_error *err)
{
	return m->host.given_up ? ff_fail(err, FF_E_RUN, "rank %u has given up what it waits for",
						  m->host.base.rank)
				: FF_OK;
}

int ff_mpi_send(struct ff_mpi_stream *s, const void *from, int bytes, int to, enum ff_mpi_tag tag,
		MPI_Request *request, struct ff_error *err)
{
	int status;

	enter(s->m);
	status = MPI_Isend(
			from, bytes, MPI_BYTE, to, s->first_tag + (int)tag, s->m->world, request);
	leave(s->m);
	return ff_mpi_check(status, "MPI_Isend", err);
}

int ff_mpi_receive(struct ff_mpi_stream *s, void *to, int bytes, int from, enum ff_mpi_tag tag,
		MPI_Request *request, struct ff_error *err)
{
	int status;

	enter(s->m);
	status = MPI_Irecv(
			to, bytes, MPI_BYTE, from, s->first_tag + (int)tag, s->m->world, request);
	leave(s->m);
	return ff_mpi_check(status, "MPI_Irecv", err);
}

int ff_mpi_wait_all(struct ff_comm_mpi *m, int n, MPI_Request *request, struct ff_error *err)
{
	int done = 0, code = FF_OK, status;

	if (may_block(m))
		return ff_mpi_check(
				MPI_Waitall(n, request, MPI_STATUSES_IGNORE), "MPI_Waitall", err);
	while (code == FF_OK && !done) {
		enter(m);
		status = MPI_Testall(n, request, &done, MPI_STATUSES_IGNORE);
		leave(m);
		code = ff_mpi_check(status, "MPI_Testall", err);
		if (code == FF_OK && !done) {
			ff_idle();
			code = check_given_up(m, err);
		}
	}
	return code;
}

int ff_mpi_wait(struct ff_comm_mpi *m, MPI_Request *request, struct ff_error *err)
{
	return ff_mpi_wait_all(m, 1, request, err);
}

int ff_mpi_look(struct ff_comm_mpi *m, struct ff_error *err)
{
	int any, status;

	enter(m);
	status = MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, m->world, &any, MPI_STATUS_IGNORE);
	leave(m);
	status = ff_mpi_check(status, "MPI_Iprobe", err);
	return status < 0 ? status : check_given_up(m, err);
}
