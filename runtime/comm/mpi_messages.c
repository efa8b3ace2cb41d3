/* Messages over MPI.  SPDX-License-Identifier: Apache-2.0 */
#include "mpi_messages.h"

#include <stdlib.h>

#include "mpi_calls.h"

static int next_request(struct ff_mpi_requests *r, MPI_Request **ret, struct ff_error *err)
{
	if (r->n == r->cap) {
		int cap = r->cap ? 2 * r->cap : 16;
		MPI_Request *grown = realloc(r->of, (size_t)cap * sizeof(MPI_Request));

		if (!grown)
			return ff_fail_memory(err);
		r->of = grown;
		r->cap = cap;
	}
	*ret = &r->of[r->n];
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
static int start(struct ff_comm_mpi *m, bool messages, enum ff_dtype type,
		const struct ff_parcel *p, bool sending, struct ff_error *err)
{
	enum ff_mpi_tag tag = messages ? FF_MPI_MESSAGE : FF_MPI_EXCHANGE;
	int64_t size = ff_dtype_bytes(type), most = most_of(m, type, p);
	struct ff_mpi_requests *r = &m->requests[messages];
	MPI_Request *request = NULL;
	int code = FF_OK;

	for (int64_t at = 0, n = 0; code == FF_OK && at < p->count; at += n) {
		int bytes;

		n = p->count - at < most ? p->count - at : most;
		bytes = (int)(n * size);
		if ((code = next_request(r, &request, err)) < 0)
			break;
		if (sending)
			code = ff_mpi_send(m, (const char *)p->send + at * size, bytes, p->to, tag,
					request, err);
		else
			code = ff_mpi_receive(m, (char *)p->recv + at * size, bytes, p->from, tag,
					request, err);
		r->n += code == FF_OK;
	}
	return code;
}

int ff_mpi_messages(struct ff_comm_mpi *m, bool messages, enum ff_dtype type,
		const struct ff_parcel *parcel, uint32_t n, struct ff_error *err)
{
	struct ff_mpi_requests *r = &m->requests[messages];
	uint32_t rank = m->host.base.rank;
	int code = FF_OK;

	r->n = 0;
	for (uint32_t i = 0; i < n && code == FF_OK; i++)
		if (parcel[i].to == rank)
			code = start(m, messages, type, &parcel[i], false, err);
	for (uint32_t i = 0; i < n && code == FF_OK; i++)
		if (parcel[i].from == rank)
			code = start(m, messages, type, &parcel[i], true, err);
	/* after a failure the job is lost, and what is under way with it */
	return code < 0 ? code : ff_mpi_wait_all(m, r->n, r->of, err);
}
