/* Messages over MPI.  SPDX-License-Identifier: Apache-2.0 */
#include "mpi_messages.h"

#include <stdlib.h>

#include "mpi_calls.h"

static int next_request(struct ff_mpi_stream *s, MPI_Request **ret, struct ff_error *err)
{
	if (s->n_requests == s->most_requests) {
		int most = s->most_requests ? 2 * s->most_requests : 16;
		MPI_Request *grown = realloc(s->request, (size_t)most * sizeof(MPI_Request));

		if (!grown)
			return ff_fail_memory(err);
		s->request = grown;
		s->most_requests = most;
	}
	*ret = &s->request[s->n_requests];
	return FF_OK;
}

/* Elements of a message, of those that are left. */
static int64_t most_of(const struct ff_comm_mpi *m, enum ff_dtype type, const struct ff_parcel *p)
{
	bool apart = ff_mpi_is_apart(m, p->from, p->to) && m->segment_bytes < m->limit_bytes;
	int64_t most = (apart ? m->segment_bytes : m->limit_bytes) / ff_dtype_bytes(type);

	return most ? most : 1;
}

/* Starts one direction of one parcel, in as many messages as it takes. */
static int start(struct ff_mpi_stream *s, enum ff_dtype type, const struct ff_parcel *p,
		bool sending, struct ff_error *err)
{
	int64_t size = ff_dtype_bytes(type), most = most_of(s->m, type, p);
	MPI_Request *request = NULL;
	int code = FF_OK;

	for (int64_t at = 0, n = 0; code == FF_OK && at < p->count; at += n) {
		int bytes;

		n = p->count - at < most ? p->count - at : most;
		bytes = (int)(n * size);
		if ((code = next_request(s, &request, err)) < 0)
			break;
		if (sending)
			code = ff_mpi_send(s, (const char *)p->send + at * size, bytes, p->to,
					FF_MPI_EXCHANGE, request, err);
		else
			code = ff_mpi_receive(s, (char *)p->recv + at * size, bytes, p->from,
					FF_MPI_EXCHANGE, request, err);
		s->n_requests += code == FF_OK;
	}
	return code;
}

int ff_mpi_messages(struct ff_mpi_stream *s, enum ff_dtype type, const struct ff_parcel *parcel,
		uint32_t n, struct ff_error *err)
{
	uint32_t rank = s->m->host.base.rank;
	int code = FF_OK;

	s->n_requests = 0;
	for (uint32_t i = 0; i < n && code == FF_OK; i++)
		if (parcel[i].to == rank)
			code = start(s, type, &parcel[i], false, err);
	for (uint32_t i = 0; i < n && code == FF_OK; i++)
		if (parcel[i].from == rank)
			code = start(s, type, &parcel[i], true, err);
	/* after a failure the job is lost, and what is under way with it */
	return code < 0 ? code : ff_mpi_wait_all(s->m, s->n_requests, s->request, err);
}
