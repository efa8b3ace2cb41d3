/* Communication over MPI, one device a rank: which of our collectives what is posted goes by.  What
 * ranks tell each other in host memory is MPI's own.  SPDX-License-Identifier: Apache-2.0 */
#include "mpi_job.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/clock.h"
#include "limit.h"
#include "mpi_check.h"
#include "mpi_direct.h"
#include "mpi_messages.h"
#include "mpi_ring.h"
#include "mpi_shared.h"
#include "process/agree.h"
#include "process/pulse.h"
#include "stages.h"

static struct ff_comm_mpi *self(struct ff_comm *c)
{
	return (struct ff_comm_mpi *)c; /* the first of the first */
}

static bool mpi_hosts(const struct ff_comm *c, uint32_t device)
{
	return device == c->rank;
}

static uint32_t position(const struct ff_comm_mpi *m, const struct ff_collective *x)
{
	uint32_t i = 0;

	while (i + 1 < x->n_devices && x->device[i] != m->host.base.rank)
		i++;
	return i;
}

static bool is_of_one_host(const struct ff_comm_mpi *m, const struct ff_collective *x)
{
	for (uint32_t i = 1; i < x->n_devices; i++)
		if (ff_mpi_is_apart(m, x->device[0], x->device[i]))
			return false;
	return true;
}

static bool is_short(const struct ff_comm_mpi *m, const struct ff_collective *x)
{
	int64_t all = x->count[0];

	for (uint32_t i = 1; i < x->n_devices && x->kind != FF_MOVE_ALL_REDUCE; i++)
		all += x->count[i];
	return all * ff_dtype_bytes(x->type) <= m->segment_bytes;
}

static int whole_collective(
		struct ff_mpi_stream *s, const struct ff_collective *x, struct ff_error *err)
{
	const struct ff_comm_mpi *m = s->m;
	uint32_t me = position(m, x);

	if (x->n_devices > 1 && is_of_one_host(m, x))
		return ff_mpi_shared_run(s, x, me, err);
	return (is_short(m, x) || x->n_devices == 1 ? ff_mpi_direct : ff_mpi_ring)(s, x, me, err);
}

/* Within each host in shared memory, and between the devices of equal place in theirs by rings. */
static int run_stages(struct ff_mpi_stream *s, const struct ff_collective *x,
		struct ff_spread spread, struct ff_error *err)
{
	struct ff_stages in;
	char *sums = NULL;
	int code = ff_stages_init(&in, x, position(s->m, x), spread, err);

	if (code == FF_OK && x->kind == FF_MOVE_REDUCE_SCATTER) {
		sums = malloc((size_t)(in.sums * ff_dtype_bytes(x->type)) + 1);
		code = sums ? FF_OK : ff_fail_memory(err);
	}
	for (uint32_t i = 0; i < in.n && code == FF_OK; i++)
		code = whole_collective(s, ff_stages_tell(&in, i, sums), err);
	free(sums);
	ff_stages_finish(&in);
	return code;
}

static int mpi_collective(struct ff_comm *c, bool messages, const struct ff_collective *x,
		struct ff_error *err)
{
	struct ff_comm_mpi *m = self(c);
	struct ff_mpi_stream *s = &m->stream[messages];
	struct ff_spread spread;

	if (!m->by_nodes || !ff_stages_find(m->host_of, x, &spread))
		return whole_collective(s, x, err);
	return run_stages(s, x, spread, err);
}

static int mpi_exchange(struct ff_comm *c, bool messages, enum ff_dtype type,
		const struct ff_parcel *parcel, uint32_t n, struct ff_error *err)
{
	return ff_mpi_messages(&self(c)->stream[messages], type, parcel, n, err);
}

static int wait_until_done(
		struct ff_comm_mpi *m, MPI_Request *request, const char *what, struct ff_error *err)
{
	double start = ff_clock_us();
	int done = 0, code = FF_OK;

	if (!(m->limit_s > 0))
		return ff_mpi_check(MPI_Wait(request, MPI_STATUS_IGNORE), what, err);
	while (!done && code == FF_OK) {
		code = ff_mpi_check(MPI_Test(request, &done, MPI_STATUS_IGNORE), what, err);
		if (code == FF_OK && !done && (ff_clock_us() - start) * 1e-6 > m->limit_s)
			code = ff_fail(err, FF_E_RUN,
					"rank %u has waited %.0f s in %s: other ranks are gone or "
					"are at "
					"something else (FF_COMM_TIMEOUT says how long to wait)",
					m->host.base.rank, m->limit_s, what);
	}
	return code;
}

/* A call of the host's own has an end even where another rank never makes it. */
static int finish(
		struct ff_comm_mpi *m, MPI_Request *request, const char *what, struct ff_error *err)
{
	int code;

	ff_pulse_wait(m->host.base.pulse);
	code = wait_until_done(m, request, what, err);
	ff_pulse_met(m->host.base.pulse);
	return code;
}

static int mpi_gather(
		struct ff_comm *c, const void *own, size_t bytes, void *all, struct ff_error *err)
{
	MPI_Request request;
	int code;

	if (bytes > INT_MAX)
		return ff_fail(err, FF_E_RUN, "%zu bytes are too many to tell all ranks", bytes);
	code = ff_mpi_check(MPI_Iallgather(own, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE,
					    self(c)->world, &request),
			"MPI_Iallgather", err);
	return code < 0 ? code : finish(self(c), &request, "MPI_Iallgather", err);
}

static int mpi_sum(struct ff_comm *c, float *v, int64_t n, struct ff_error *err)
{
	struct ff_comm_mpi *m = self(c);
	MPI_Request request;
	int code = FF_OK;

	for (int64_t at = 0, k = 0; code == FF_OK && at < n; at += k) {
		k = n - at < INT_MAX ? n - at : INT_MAX;
		code = ff_mpi_check(MPI_Iallreduce(MPI_IN_PLACE, v + at, (int)k, MPI_FLOAT, MPI_SUM,
						    m->world, &request),
				"MPI_Iallreduce", err);
		if (code == FF_OK)
			code = finish(m, &request, "MPI_Iallreduce", err);
	}
	return code;
}

static int mpi_barrier(struct ff_comm *c, struct ff_error *err)
{
	MPI_Request request;
	int code = ff_mpi_check(MPI_Ibarrier(self(c)->world, &request), "MPI_Ibarrier", err);

	return code < 0 ? code : finish(self(c), &request, "MPI_Ibarrier", err);
}

/* One message from rank to rank keeps those of several groups apart: they come in order. */
static int mpi_share(struct ff_comm *c, uint32_t n, const uint16_t *device, void *v, size_t bytes,
		struct ff_error *err)
{
	MPI_Comm world = self(c)->world;
	MPI_Request request;
	int code = FF_OK;

	if (bytes > INT_MAX)
		return ff_fail(err, FF_E_RUN, "%zu bytes are too many to tell other ranks", bytes);
	if (c->rank != device[0]) {
		code = ff_mpi_check(
				MPI_Irecv(v, (int)bytes, MPI_BYTE, device[0], 0, world, &request),
				"MPI_Irecv", err);
		return code < 0 ? code : finish(self(c), &request, "MPI_Irecv", err);
	}
	for (uint32_t i = 1; i < n && code == FF_OK; i++) {
		code = ff_mpi_check(
				MPI_Isend(v, (int)bytes, MPI_BYTE, device[i], 0, world, &request),
				"MPI_Isend", err);
		if (code == FF_OK)
			code = finish(self(c), &request, "MPI_Isend", err);
	}
	return code;
}

static void mpi_destroy(struct ff_comm *c)
{
	struct ff_comm_mpi *m = self(c);

	for (int i = 0; i < 2; i++) {
		ff_mpi_shared_close(&m->stream[i]);
		free(m->stream[i].request);
		free(m->stream[i].room);
	}
	if (m->world != MPI_COMM_NULL)
		MPI_Comm_free(&m->world);
	ff_host_comm_finish(&m->host);
	pthread_mutex_destroy(&m->calls);
	free(m->host_of);
	free(m);
}

static int open_world(struct ff_comm_mpi *m, struct ff_error *err)
{
	int rank, n, code;

	if ((code = ff_mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &m->world), "MPI_Comm_dup", err)) <
					0 ||
			(code = ff_mpi_check(MPI_Comm_set_errhandler(m->world, MPI_ERRORS_RETURN),
					 "MPI_Comm_set_errhandler", err)) < 0 ||
			(code = ff_mpi_check(MPI_Comm_rank(m->world, &rank), "MPI_Comm_rank",
					 err)) < 0 ||
			(code = ff_mpi_check(MPI_Comm_size(m->world, &n), "MPI_Comm_size", err)) <
					0)
		return code;
	m->host.base.rank = (uint32_t)rank;
	m->host.base.n_ranks = m->host.base.n_devices = (uint32_t)n;
	return FF_OK;
}

/* The name says what measured figures are of; how hosts lie is known. */
static void set_name(struct ff_comm_mpi *m)
{
	uint32_t n = m->host.base.n_ranks;
	bool apart = false, beside = false;

	for (uint32_t i = 1; i < n; i++) {
		apart |= m->host_of[i] != m->host_of[0];
		beside |= m->host_of[i] != i; /* not the first there */
	}
	m->by_nodes = apart && beside;
	if (apart || beside)
		snprintf(m->host.base.name, sizeof(m->host.base.name), "mpi %s%s",
				apart ? "rings" : "shared", m->by_nodes ? FF_BY_NODES : "");
}

static int find_hosts(struct ff_comm_mpi *m, struct ff_error *err)
{
	struct ff_comm *c = &m->host.base;
	uint32_t own = 0;
	int code = ff_mpi_host(&own, err);

	m->host_of = malloc(c->n_ranks * sizeof(*m->host_of));
	if (code == FF_OK && !m->host_of)
		code = ff_fail_memory(err);
	code = ff_agree_code(c, code, err);
	if (code == FF_OK && m->host_of) /* all have it where all agree */
		code = c->gather(c, &own, sizeof(own), m->host_of, err);
	if (code == FF_OK)
		set_name(m);
	return code;
}

int ff_comm_mpi(struct ff_comm **ret, struct ff_error *err)
{
	struct ff_comm_mpi *m = calloc(1, sizeof(*m));
	int code;

	if (!m)
		return ff_fail_memory(err);
	m->host = (struct ff_host_comm){
			.base = {.name = "mpi",
					.hosts = mpi_hosts,
					.gather = mpi_gather,
					.sum = mpi_sum,
					.barrier = mpi_barrier,
					.share = mpi_share,
					.destroy = mpi_destroy},
			.run_collective = mpi_collective,
			.run_exchange = mpi_exchange,
	};
	ff_host_comm_init(&m->host);
	pthread_mutex_init(&m->calls, NULL);
	for (int i = 0; i < 2; i++) {
		m->stream[i].m = m;
		m->stream[i].first_tag = i * FF_MPI_TAGS;
	}
	m->world = MPI_COMM_NULL;
	m->limit_bytes = INT_MAX;
	m->segment_bytes = FF_MPI_SEGMENT_BYTES;
	if ((code = ff_comm_limit(&m->limit_s, err)) < 0 || (code = open_world(m, err)) < 0 ||
			(code = find_hosts(m, err)) < 0) {
		mpi_destroy(&m->host.base);
		return code;
	}
	*ret = &m->host.base;
	return FF_OK;
}

void ff_comm_mpi_limit(struct ff_comm *c, int64_t bytes)
{
	self(c)->limit_bytes = bytes;
}

void ff_comm_mpi_part(struct ff_comm *c, uint32_t each, bool by_nodes, int64_t segment_bytes)
{
	struct ff_comm_mpi *m = self(c);

	for (uint32_t i = 0; i < c->n_ranks; i++)
		m->host_of[i] = i / each * each;
	m->segment_bytes = segment_bytes;
	m->by_nodes = by_nodes;
}
