/* Communication over MPI, one device a rank: what is posted goes as MPI has it or by collectives of
 * our own.  SPDX-License-Identifier: Apache-2.0 */
#include "mpi_job.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/clock.h"
#include "limit.h"
#include "mpi_check.h"
#include "mpi_group.h"
#include "mpi_messages.h"
#include "mpi_nodes.h"
#include "mpi_ring.h"
#include "mpi_shared.h"
#include "mpi_wait.h"
#include "process/agree.h"
#include "process/idle.h"
#include "process/pulse.h"
#include "stages.h"

static int wait_later(int code, MPI_Request *request, const char *what, struct ff_error *err)
{
	code = ff_mpi_check(code, what, err);
	return code < 0 ? code : ff_mpi_wait(request, what, err);
}

/* One of MPI's collectives, which blocks where the thread may. */
#define CALL(now, later, ...)                                                                      \
	(ff_idle_may_block() ? ff_mpi_check(MPI_##now(__VA_ARGS__), "MPI_" #now, err)              \
			     : wait_later(MPI_##later(__VA_ARGS__, &request), &request,            \
					       "MPI_" #later, err))

static struct ff_comm_mpi *self(struct ff_comm *c)
{
	return (struct ff_comm_mpi *)c; /* the first of the first */
}

static bool mpi_hosts(const struct ff_comm *c, uint32_t device)
{
	return device == c->rank;
}

static void log_sum_exp(void *source, void *sink, int *n, MPI_Datatype *type)
{
	(void)type;
	ff_reduce(FF_REDUCE_LOG_SUM_EXP, FF_F32, 2 * (int64_t)*n, source, sink);
}

static void moments(void *source, void *sink, int *n, MPI_Datatype *type)
{
	(void)type;
	ff_reduce(FF_REDUCE_MOMENTS, FF_F32, 4 * (int64_t)*n, source, sink);
}

static void ties(void *source, void *sink, int *n, MPI_Datatype *type)
{
	(void)type;
	ff_reduce(FF_REDUCE_TIES, FF_F32, 2 * (int64_t)*n, source, sink);
}

static void bf16_sum(void *source, void *sink, int *n, MPI_Datatype *type)
{
	(void)type;
	ff_reduce(FF_REDUCE_SUM, FF_BF16, *n, source, sink);
}

static void bf16_max(void *source, void *sink, int *n, MPI_Datatype *type)
{
	(void)type;
	ff_reduce(FF_REDUCE_MAX, FF_BF16, *n, source, sink);
}

/* Those that MPI has not. */
static const struct own_operation {
	enum ff_reduce reduce;
	enum ff_dtype type;
	MPI_User_function *run;
} own_operations[] = {
		{FF_REDUCE_LOG_SUM_EXP, FF_F32, log_sum_exp},
		{FF_REDUCE_MOMENTS, FF_F32, moments},
		{FF_REDUCE_TIES, FF_F32, ties},
		{FF_REDUCE_SUM, FF_BF16, bf16_sum},
		{FF_REDUCE_MAX, FF_BF16, bf16_max},
};
#define OWN_OPERATIONS (sizeof(own_operations) / sizeof(*own_operations))

/* Those of elements that belong together, which are one of MPI's types. */
static const enum ff_reduce wide[] = {FF_REDUCE_LOG_SUM_EXP, FF_REDUCE_MOMENTS, FF_REDUCE_TIES};
#define WIDE (sizeof(wide) / sizeof(*wide))

/* So that closing knows what was opened. */
static void operations_init(struct ff_comm_mpi *m)
{
	for (size_t i = 0; i < WIDE; i++)
		m->operation[wide[i]][FF_F32].type = MPI_DATATYPE_NULL;
	for (size_t i = 0; i < OWN_OPERATIONS; i++)
		m->operation[own_operations[i].reduce][own_operations[i].type].op = MPI_OP_NULL;
}

static int operations_open(struct ff_comm_mpi *m, struct ff_error *err)
{
	const MPI_Datatype types[] = {[FF_F32] = MPI_FLOAT,
			[FF_I32] = MPI_INT32_T,
			[FF_U8] = MPI_UINT8_T,
			[FF_BF16] = MPI_UINT16_T};
	int code = FF_OK;

	memcpy(m->type, types, sizeof(types));
	for (int t = 0; t < FF_DTYPE_COUNT; t++) {
		m->operation[FF_REDUCE_SUM][t] = (struct ff_mpi_operation){MPI_SUM, types[t], 1};
		m->operation[FF_REDUCE_MAX][t] = (struct ff_mpi_operation){MPI_MAX, types[t], 1};
	}
	operations_init(m);
	for (size_t i = 0; i < OWN_OPERATIONS && code == FF_OK; i++) {
		const struct own_operation *o = &own_operations[i];

		code = ff_mpi_check(MPI_Op_create(o->run, 1, &m->operation[o->reduce][o->type].op),
				"MPI_Op_create", err);
	}
	for (size_t i = 0; i < WIDE && code == FF_OK; i++) {
		struct ff_mpi_operation *o = &m->operation[wide[i]][FF_F32];

		o->width = ff_reduce_width(wide[i]);
		code = ff_mpi_check(MPI_Type_contiguous((int)o->width, MPI_FLOAT, &o->type),
				"MPI_Type_contiguous", err);
		if (code == FF_OK)
			code = ff_mpi_check(MPI_Type_commit(&o->type), "MPI_Type_commit", err);
	}
	return code;
}

static void operations_close(struct ff_comm_mpi *m)
{
	for (size_t i = 0; i < OWN_OPERATIONS; i++) {
		MPI_Op *op = &m->operation[own_operations[i].reduce][own_operations[i].type].op;

		if (*op != MPI_OP_NULL)
			MPI_Op_free(op);
	}
	for (size_t i = 0; i < WIDE; i++)
		if (m->operation[wide[i]][FF_F32].type != MPI_DATATYPE_NULL)
			MPI_Type_free(&m->operation[wide[i]][FF_F32].type);
}

static uint32_t position(const struct ff_comm_mpi *m, const struct ff_collective *x)
{
	uint32_t i = 0;

	while (i + 1 < x->n_devices && x->device[i] != m->host.base.rank)
		i++;
	return i;
}

static int chunk(const struct ff_comm_mpi *m, int64_t left)
{
	return (int)(left < m->limit ? left : m->limit);
}

static int all_reduce(struct ff_comm_mpi *m, const struct ff_collective *x, struct ff_error *err)
{
	uint32_t me = position(m, x);
	const struct ff_mpi_operation *o = &m->operation[x->reduce][x->type];
	int64_t size = ff_dtype_bytes(x->type);
	const char *send = x->send[me];
	char *recv = x->recv[me];
	struct ff_mpi_group *g = NULL;
	MPI_Request request;
	int code = ff_mpi_group_find(m, x, &g, err);

	for (int64_t at = 0, n = 0; code == FF_OK && at < x->count[0]; at += n * o->width) {
		n = chunk(m, (x->count[0] - at) / o->width);
		code = CALL(Allreduce, Iallreduce, send == recv ? MPI_IN_PLACE : send + at * size,
				recv + at * size, (int)n, o->type, o->op, g->comm);
	}
	return code;
}

/* Arrays too long for MPI's ints: every chunk is broadcast by its owner. */
static int gather_long(struct ff_comm_mpi *m, const struct ff_mpi_group *g,
		const struct ff_collective *x, uint32_t me, struct ff_error *err)
{
	int64_t size = ff_dtype_bytes(x->type);
	MPI_Request request;
	int code = FF_OK;

	for (uint32_t i = 0; i < x->n_devices; i++) {
		char *recv = (char *)x->recv[me] + x->offset[i] * size;

		if (i == me && recv != x->send[me])
			memcpy(recv, x->send[me], (size_t)(x->count[me] * size));
		for (int64_t at = 0, n = 0; code == FF_OK && at < x->count[i]; at += n) {
			n = chunk(m, x->count[i] - at);
			code = CALL(Bcast, Ibcast, recv + at * size, (int)n, m->type[x->type],
					(int)i, g->comm);
		}
	}
	return code;
}

static int all_gather(struct ff_comm_mpi *m, const struct ff_collective *x, struct ff_error *err)
{
	uint32_t me = position(m, x);
	const char *own = (char *)x->recv[me] + x->offset[me] * ff_dtype_bytes(x->type);
	bool in_place = x->send[me] == own;
	int64_t end = 0;
	struct ff_mpi_group *g = NULL;
	MPI_Request request;
	int code = ff_mpi_group_find(m, x, &g, err);

	if (code < 0 || !g)
		return code;
	for (uint32_t i = 0; i < x->n_devices; i++) {
		if (x->offset[i] + x->count[i] > end)
			end = x->offset[i] + x->count[i];
		g->count[i] = (int)x->count[i];
		g->offset[i] = (int)x->offset[i];
	}
	if (end > m->limit)
		code = gather_long(m, g, x, me, err);
	else
		code = CALL(Allgatherv, Iallgatherv, in_place ? MPI_IN_PLACE : x->send[me],
				(int)x->count[me], m->type[x->type], x->recv[me], g->count,
				g->offset, m->type[x->type], g->comm);
	return code;
}

static int scatter_long(struct ff_comm_mpi *m, const struct ff_mpi_group *g,
		const struct ff_collective *x, uint32_t me, char *own, struct ff_error *err)
{
	const struct ff_mpi_operation *o = &m->operation[x->reduce][x->type];
	int64_t size = ff_dtype_bytes(x->type);
	const char *send = x->send[me];
	MPI_Request request;
	int code = FF_OK;

	for (uint32_t i = 0; i < x->n_devices; send += x->count[i++] * size) {
		for (int64_t at = 0, n = 0; code == FF_OK && at < x->count[i]; at += n * o->width) {
			char *recv = i == me ? own + at * size : NULL;

			n = chunk(m, (x->count[i] - at) / o->width);
			code = CALL(Reduce, Ireduce, send + at * size, recv, (int)n, o->type, o->op,
					(int)i, g->comm);
		}
	}
	return code;
}

/* What comes of this device's chunk goes to `own`. */
static int scatter_to(struct ff_comm_mpi *m, const struct ff_collective *x, uint32_t me, char *own,
		struct ff_error *err)
{
	const struct ff_mpi_operation *o = &m->operation[x->reduce][x->type];
	int64_t whole = 0;
	struct ff_mpi_group *g = NULL;
	MPI_Request request;
	int code = ff_mpi_group_find(m, x, &g, err);

	if (code < 0 || !g)
		return code;
	for (uint32_t i = 0; i < x->n_devices; i++) {
		whole += x->count[i] / o->width;
		g->count[i] = (int)(x->count[i] / o->width);
	}
	if (whole > m->limit)
		code = scatter_long(m, g, x, me, own, err);
	else
		code = CALL(Reduce_scatter, Ireduce_scatter, x->send[me], own, g->count, o->type,
				o->op, g->comm);
	return code;
}

/* MPI's result may not lie in what is sent, unless at its beginning. */
static int reduce_scatter(
		struct ff_comm_mpi *m, const struct ff_collective *x, struct ff_error *err)
{
	uint32_t me = position(m, x);
	const char *send = x->send[me];
	char *own = x->recv[me];
	size_t bytes = (size_t)(x->count[me] * ff_dtype_bytes(x->type));
	int64_t at = 0;
	char *aside;
	int code;

	for (uint32_t i = 0; i < me; i++)
		at += x->count[i];
	if (send + at * ff_dtype_bytes(x->type) != own)
		return scatter_to(m, x, me, own, err);
	aside = malloc(bytes + 1);
	if (!aside)
		return ff_fail_memory(err);
	code = scatter_to(m, x, me, aside, err);
	if (code == FF_OK)
		memcpy(own, aside, bytes);
	free(aside);
	return code;
}

/* How a collective goes. */
enum way { BY_MPI, BY_RING, BY_MEMORY };

static enum way way_of(const struct ff_comm_mpi *m, const struct ff_collective *x)
{
	int64_t all = 0;

	for (uint32_t i = 0; i < x->n_devices && x->kind != FF_MOVE_ALL_REDUCE; i++)
		all += x->count[i];
	if (x->kind == FF_MOVE_ALL_REDUCE)
		all = x->count[0];
	if (!m->segment_bytes || x->n_devices < 2)
		return BY_MPI;
	for (uint32_t i = 1; i < x->n_devices; i++)
		if (ff_mpi_is_apart(m, x->device[0], x->device[i]))
			return all * ff_dtype_bytes(x->type) > m->segment_bytes ? BY_RING : BY_MPI;
	return BY_MEMORY;
}

static int whole_collective(
		struct ff_comm_mpi *m, const struct ff_collective *x, struct ff_error *err)
{
	enum way way = way_of(m, x);

	if (way == BY_RING)
		return ff_mpi_ring(m, x, position(m, x), err);
	if (way == BY_MEMORY)
		return ff_mpi_shared_run(m, x, position(m, x), err);
	if (x->kind == FF_MOVE_ALL_REDUCE)
		return all_reduce(m, x, err);
	return x->kind == FF_MOVE_ALL_GATHER ? all_gather(m, x, err) : reduce_scatter(m, x, err);
}

static int mpi_collective(struct ff_comm *c, const struct ff_collective *x, struct ff_error *err)
{
	struct ff_comm_mpi *m = self(c);
	struct ff_spread spread;

	if (!m->by_nodes || !ff_stages_find(m->host_of, x, &spread))
		return whole_collective(m, x, err);
	return ff_mpi_stages(m, x, position(m, x), spread, whole_collective, err);
}

static int mpi_exchange(struct ff_comm *c, enum ff_dtype type, const struct ff_parcel *parcel,
		uint32_t n, struct ff_error *err)
{
	return ff_mpi_messages(self(c), type, parcel, n, err);
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
		k = chunk(m, n - at);
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

	ff_mpi_shared_close(m);
	ff_mpi_groups_close(m);
	if (m->world != MPI_COMM_NULL)
		MPI_Comm_free(&m->world);
	operations_close(m);
	ff_host_comm_finish(&m->host);
	free(m->request);
	free(m->host_of);
	free(m->room);
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
	m->by_nodes = m->segment_bytes && apart && beside;
	if (m->segment_bytes && (apart || beside))
		snprintf(m->host.base.name, sizeof(m->host.base.name), "mpi %s%s",
				apart ? "rings" : "shared", m->by_nodes ? FF_BY_NODES : "");
}

/* Collectives are ours unless that is refused: what the first rank is told holds for all. */
static int choose_own(struct ff_comm_mpi *m, struct ff_error *err)
{
	const char *word = getenv("FF_MPI_OWN");
	struct place {
		uint32_t host;
		int word; /* -1: neither 0 nor 1 */
	} own = {0, !word || !strcmp(word, "1") ? 1 : strcmp(word, "0") ? -1 : 0}, *all;
	uint32_t n = m->host.base.n_ranks;
	int code = ff_mpi_host(&own.host, err);

	all = malloc(n * sizeof(*all));
	m->host_of = malloc(n * sizeof(*m->host_of));
	if (code == FF_OK && (!all || !m->host_of))
		code = ff_fail_memory(err);
	code = ff_agree_code(&m->host.base, code, err);
	if (code == FF_OK && all) /* all are there where all agree */
		code = m->host.base.gather(&m->host.base, &own, sizeof(own), all, err);
	if (code == FF_OK && all) {
		for (uint32_t i = 0; i < n; i++)
			m->host_of[i] = all[i].host;
		m->segment_bytes = all[0].word > 0 ? FF_MPI_SEGMENT_BYTES : m->segment_bytes;
		if (all[0].word < 0)
			code = ff_fail(err, FF_E_INPUT, "FF_MPI_OWN=%.100s: expected 0 or 1",
					m->host.base.rank ? "?" : word);
	}
	if (code == FF_OK)
		set_name(m);
	free(all);
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
	m->world = MPI_COMM_NULL;
	m->limit = INT_MAX;
	operations_init(m);
	if ((code = ff_comm_limit(&m->limit_s, err)) < 0 || (code = open_world(m, err)) < 0 ||
			(code = operations_open(m, err)) < 0 || (code = choose_own(m, err)) < 0) {
		mpi_destroy(&m->host.base);
		return code;
	}
	*ret = &m->host.base;
	return FF_OK;
}

void ff_comm_mpi_limit(struct ff_comm *c, int64_t limit)
{
	self(c)->limit = limit;
}

void ff_comm_mpi_part(struct ff_comm *c, uint32_t each, bool by_nodes, int64_t segment_bytes)
{
	struct ff_comm_mpi *m = self(c);

	for (uint32_t i = 0; i < c->n_ranks; i++)
		m->host_of[i] = i / each * each;
	m->segment_bytes = segment_bytes;
	m->by_nodes = by_nodes;
}
