/* Communication over NCCL, one device a rank.  What is posted is NCCL's, on the channel's stream;
 * what ranks tell each other in host memory is the host communication's, by the caller's
 * thread alone.  A group of devices gets its communicator when it is first posted to.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../agree.h"
#include "../comm/post.h"
#include "comm.h"
#include "copy.h"
#include "rows.h"

struct group {
	struct group *next;
	ncclComm_t comm;
	uint32_t n, own; /* devices; this rank's position */
	char call[64];   /* the last that was posted */
	uint16_t device[];
};

/* Device memory.  Streams run in order, so all that is posted may pass through the same. */
struct scratch {
	struct scratch *next; /* smaller and older */
	void *memory;
	size_t bytes;
};

struct ff_comm_nccl {
	struct ff_comm base;
	struct ff_comm *host;
	struct ff_device *dev;
	struct group *groups;
	struct scratch *scratch; /* the newest serves, the others may be under way */
	bool failed;
};

static const ncclDataType_t types[FF_DTYPE_COUNT] = {[FF_F32] = ncclFloat32,
		[FF_I32] = ncclInt32,
		[FF_U8] = ncclUint8,
		[FF_BF16] = ncclBfloat16};
/* Of log-sum-exp there is none. */
static const ncclRedOp_t operations[FF_REDUCE_COUNT] = {
		[FF_REDUCE_SUM] = ncclSum, [FF_REDUCE_MAX] = ncclMax};

static struct ff_comm_nccl *self(struct ff_comm *c)
{
	return (struct ff_comm_nccl *)c; /* the first of it */
}

static int fail(struct ff_comm_nccl *m, const struct group *g, const char *call,
		ncclResult_t status, struct ff_error *err)
{
	const char *more = g && g->comm ? ncclGetLastError(g->comm) : "";

	m->failed = true;
	return ff_fail(err, FF_E_RUN, "NCCL failed on rank %u, last called for %.80s: %s%s%.300s",
			m->base.rank, call, ncclGetErrorString(status), more[0] ? ", " : "", more);
}

static int check(struct ff_comm_nccl *m, const struct group *g, ncclResult_t status,
		struct ff_error *err)
{
	return status == ncclSuccess ? FF_OK : fail(m, g, g->call, status, err);
}

/* What has gone wrong since it was posted, with any group. */
static int ask(void *watcher, struct ff_error *err)
{
	struct ff_comm_nccl *m = watcher;

	for (const struct group *g = m->groups; g; g = g->next) {
		ncclResult_t state = ncclSuccess, status = ncclCommGetAsyncError(g->comm, &state);

		if (status != ncclSuccess || (state != ncclSuccess && state != ncclInProgress))
			return fail(m, g, g->call, status != ncclSuccess ? status : state, err);
	}
	return FF_OK;
}

/* ---- groups ---- */

static bool is_group(const struct group *g, uint32_t n, const uint16_t *device)
{
	return g->n == n && !memcmp(g->device, device, n * sizeof(*device));
}

/* Its members come here in the order of what they post, so whoever waits here waits for those
 * who are at something earlier, and the earliest of all waits for nobody. */
static int group_open(struct ff_comm_nccl *m, struct group *g, struct ff_error *err)
{
	ncclUniqueId id = {{0}};
	ncclResult_t status;
	int code = ff_cuda_enter(m->dev, err);

	if (code < 0)
		return code;
	snprintf(g->call, sizeof(g->call), "a meeting of %u devices", g->n);
	if (g->own == 0 && (status = ncclGetUniqueId(&id)) != ncclSuccess)
		return fail(m, NULL, g->call, status, err);
	code = m->host->share(m->host, g->n, g->device, &id, sizeof(id), err);
	if (code < 0)
		return code;
	status = ncclCommInitRank(&g->comm, (int)g->n, id, (int)g->own);
	if (status == ncclSuccess)
		return FF_OK;
	g->comm = NULL;
	return fail(m, NULL, g->call, status, err);
}

static int group_find(struct ff_comm_nccl *m, uint32_t n, const uint16_t *device,
		struct group **ret, struct ff_error *err)
{
	struct group *g = m->groups;
	int code;

	while (g && !is_group(g, n, device))
		g = g->next;
	*ret = g;
	if (g)
		return FF_OK;
	g = calloc(1, sizeof(*g) + n * sizeof(*device));
	if (!g)
		return ff_fail_memory(err);
	g->n = n;
	memcpy(g->device, device, n * sizeof(*device));
	while (g->own < n && device[g->own] != m->base.rank)
		g->own++;
	code = g->own < n ? group_open(m, g, err)
			  : ff_fail(err, FF_E_RUN, "rank %u is not among those it posts to",
					    m->base.rank);
	if (code < 0) {
		free(g);
		return code;
	}
	g->next = m->groups;
	m->groups = g;
	*ret = g;
	return FF_OK;
}

/* That of all devices. */
static int group_all(struct ff_comm_nccl *m, struct group **ret, struct ff_error *err)
{
	uint16_t *device = malloc(m->base.n_devices * sizeof(*device));
	int code;

	if (!device)
		return ff_fail_memory(err);
	for (uint32_t d = 0; d < m->base.n_devices; d++)
		device[d] = (uint16_t)d;
	code = group_find(m, m->base.n_devices, device, ret, err);
	free(device);
	return code;
}

/* ---- collectives ---- */

/* One that is being posted. */
struct posting {
	struct ff_comm_nccl *m;
	struct group *g;
	const struct ff_collective *x;
	cudaStream_t queue;
	const char *send; /* this rank's */
	char *recv;
	char *scratch; /* log-sum-exp: for every device's part of what this rank gets */
	int64_t size;  /* of an element */
};

static bool is_even(const struct ff_collective *x)
{
	for (uint32_t i = 1; i < x->n_devices; i++)
		if (x->count[i] != x->count[0])
			return false;
	return true;
}

static bool is_in_order(const struct ff_collective *x)
{
	for (uint32_t i = 0; i < x->n_devices; i++)
		if (x->offset[i] != i * x->count[0])
			return false;
	return true;
}

static ncclResult_t all_reduce(const struct posting *p)
{
	return ncclAllReduce(p->send, p->recv, (size_t)p->x->count[0], types[p->x->type],
			operations[p->x->reduce], p->g->comm, p->queue);
}

/* Chunks of all sizes: each device tells the others its own. */
static ncclResult_t all_gather(const struct posting *p)
{
	const struct ff_collective *x = p->x;
	ncclResult_t status = ncclSuccess;

	if (is_even(x) && is_in_order(x))
		return ncclAllGather(p->send, p->recv, (size_t)x->count[0], types[x->type],
				p->g->comm, p->queue);
	for (uint32_t i = 0; i < x->n_devices && status == ncclSuccess; i++)
		if (x->count[i])
			status = ncclBroadcast(p->send, p->recv + x->offset[i] * p->size,
					(size_t)x->count[i], types[x->type], (int)i, p->g->comm,
					p->queue);
	return status;
}

static ncclResult_t reduce_scatter(const struct posting *p)
{
	const struct ff_collective *x = p->x;
	ncclResult_t status = ncclSuccess;
	int64_t at = 0;

	if (is_even(x))
		return ncclReduceScatter(p->send, p->recv, (size_t)x->count[0], types[x->type],
				operations[x->reduce], p->g->comm, p->queue);
	for (uint32_t i = 0; i < x->n_devices && status == ncclSuccess; at += x->count[i++])
		if (x->count[i])
			status = ncclReduce(p->send + at * p->size, p->recv, (size_t)x->count[i],
					types[x->type], operations[x->reduce], (int)i, p->g->comm,
					p->queue);
	return status;
}

/* ---- what NCCL does not reduce ---- */

static int scratch_open(struct ff_comm_nccl *m, size_t bytes, char **ret, struct ff_error *err)
{
	struct scratch *s = m->scratch;
	int code;

	if (!s || s->bytes < bytes) {
		size_t room = s && 2 * s->bytes > bytes ? 2 * s->bytes : bytes;

		s = calloc(1, sizeof(*s));
		if (!s)
			return ff_fail_memory(err);
		code = ff_cuda_alloc(m->dev, room, &s->memory, err);
		if (code < 0) {
			free(s);
			return code;
		}
		s->bytes = room;
		s->next = m->scratch;
		m->scratch = s;
	}
	*ret = s->memory;
	return FF_OK;
}

/* What this rank gets of the arrays of all: the whole, or its chunk. */
static int64_t share_of(const struct ff_collective *x, uint32_t position)
{
	return x->count[x->kind == FF_MOVE_REDUCE_SCATTER ? position : 0];
}

/* The parts into the scratch memory, one behind the other. */
static ncclResult_t collect(const struct posting *p)
{
	const struct ff_collective *x = p->x;
	size_t own = (size_t)share_of(x, p->g->own);
	ncclResult_t status = ncclSuccess;
	int64_t at = 0;

	if (x->kind == FF_MOVE_ALL_REDUCE)
		return ncclAllGather(
				p->send, p->scratch, own, types[x->type], p->g->comm, p->queue);
	for (uint32_t i = 0; i < x->n_devices && status == ncclSuccess; at += x->count[i++])
		if (i != p->g->own && x->count[i])
			status = ncclSend(p->send + at * p->size, (size_t)x->count[i],
					types[x->type], (int)i, p->g->comm, p->queue);
	for (uint32_t i = 0; i < x->n_devices && own && status == ncclSuccess; i++)
		if (i != p->g->own)
			status = ncclRecv(p->scratch + i * own * (size_t)p->size, own,
					types[x->type], (int)i, p->g->comm, p->queue);
	return status;
}

/* Where position `i`'s part lies: this rank's own was not sent. */
static const char *part(const struct posting *p, uint32_t i)
{
	const struct ff_collective *x = p->x;
	int64_t at = 0;

	if (x->kind == FF_MOVE_ALL_REDUCE || i != p->g->own)
		return p->scratch + i * share_of(x, p->g->own) * p->size;
	for (uint32_t k = 0; k < i; k++)
		at += x->count[k];
	return p->send + at * p->size;
}

/* In the order of the devices, so that all get the same bits. */
static int reduce_here(const struct posting *p, struct ff_error *err)
{
	const struct ff_collective *x = p->x;
	int64_t n = share_of(x, p->g->own);
	const struct ff_strided line = {.rank = 1,
			.n = {n / ff_reduce_width(x->reduce)},
			.source = {1},
			.sink = {1}};
	cudaError_t status;

	if (!n)
		return FF_OK;
	status = ff_cuda_run_of(x->type, part(p, 0), p->recv, n, p->queue);
	for (uint32_t i = 1; i < x->n_devices && status == cudaSuccess; i++)
		status = ff_launch_reduce(&line, x->type, x->reduce, part(p, i), p->recv, p->queue);
	return ff_cuda_check(status, p->m->dev, "reduce what was gathered", err);
}

/* ---- posting ---- */

/* As NCCL takes several calls: as one. */
static int together(const struct posting *p, ncclResult_t (*call)(const struct posting *p),
		struct ff_error *err)
{
	int code = check(p->m, p->g, ncclGroupStart(), err);
	ncclResult_t status, ended;

	if (code < 0)
		return code;
	status = call(p);
	ended = ncclGroupEnd();
	return check(p->m, p->g, status != ncclSuccess ? status : ended, err);
}

static int post_pairs(struct posting *p, struct ff_error *err)
{
	size_t bytes = (size_t)(p->x->n_devices * share_of(p->x, p->g->own) * p->size);
	int code = bytes ? scratch_open(p->m, bytes, &p->scratch, err) : FF_OK;

	if (code == FF_OK)
		code = together(p, collect, err);
	return code < 0 ? code : reduce_here(p, err);
}

static int64_t elements(const struct ff_collective *x)
{
	int64_t n = 0;

	if (x->kind == FF_MOVE_ALL_REDUCE)
		return x->count[0];
	for (uint32_t i = 0; i < x->n_devices; i++)
		n += x->count[i];
	return n;
}

static int post_collective(struct posting *p, struct ff_error *err)
{
	const struct ff_collective *x = p->x;

	snprintf(p->g->call, sizeof(p->g->call), "%s of %" PRId64 " %s", ff_move_name(x->kind),
			elements(x), ff_dtype_name(x->type));
	if (!elements(x))
		return FF_OK;
	if (x->kind == FF_MOVE_ALL_GATHER)
		return together(p, all_gather, err);
	if (x->reduce == FF_REDUCE_LOG_SUM_EXP)
		return post_pairs(p, err);
	return together(p, x->kind == FF_MOVE_ALL_REDUCE ? all_reduce : reduce_scatter, err);
}

static int nccl_collective(struct ff_comm *c, const struct ff_channel *on,
		const struct ff_collective *x, struct ff_error *err)
{
	struct ff_comm_nccl *m = self(c);
	struct posting p = {.m = m,
			.x = x,
			.queue = ff_stream_queue(on->stream),
			.size = ff_dtype_bytes(x->type)};
	int code;

	if (x->kind != FF_MOVE_ALL_GATHER && !ff_reduce_takes(x->reduce, x->type))
		return ff_fail(err, FF_E_RUN, "elements of type %s are not reduced by %s",
				ff_dtype_name(x->type), ff_reduce_name(x->reduce));
	if ((code = group_find(m, x->n_devices, x->device, &p.g, err)) < 0 ||
			(code = ff_cuda_enter(m->dev, err)) < 0)
		return code;
	c->sent_bytes += ff_ring_bytes(x, p.g->own);
	p.send = x->send[p.g->own];
	p.recv = x->recv[p.g->own];
	ff_stream_watch(on->stream, ask, m);
	code = post_collective(&p, err);
	return code < 0 ? code : ask(m, err);
}

/* Empty parcels are not sent: both ends know. */
static ncclResult_t send_and_receive(const struct ff_comm_nccl *m, const struct group *all,
		cudaStream_t queue, enum ff_dtype type, const struct ff_parcel *parcel, uint32_t n)
{
	ncclResult_t status = ncclSuccess;

	for (uint32_t i = 0; i < n && status == ncclSuccess; i++) {
		const struct ff_parcel *q = &parcel[i];

		if (q->from == m->base.rank && q->count)
			status = ncclSend(q->send, (size_t)q->count, types[type], q->to, all->comm,
					queue);
		if (q->to == m->base.rank && q->count && status == ncclSuccess)
			status = ncclRecv(q->recv, (size_t)q->count, types[type], q->from,
					all->comm, queue);
	}
	return status;
}

static int nccl_exchange(struct ff_comm *c, const struct ff_channel *on, enum ff_dtype type,
		const struct ff_parcel *parcel, uint32_t n, struct ff_error *err)
{
	struct ff_comm_nccl *m = self(c);
	ncclResult_t status, ended;
	struct group *all;
	int code;

	if ((code = group_all(m, &all, err)) < 0 || (code = ff_cuda_enter(m->dev, err)) < 0)
		return code;
	snprintf(all->call, sizeof(all->call), "an exchange of %u parcels of %s", n,
			ff_dtype_name(type));
	for (uint32_t i = 0; i < n; i++)
		if (parcel[i].from == c->rank)
			c->sent_bytes += parcel[i].count * ff_dtype_bytes(type);
	ff_stream_watch(on->stream, ask, m);
	if ((code = check(m, all, ncclGroupStart(), err)) < 0)
		return code;
	status = send_and_receive(m, all, ff_stream_queue(on->stream), type, parcel, n);
	ended = ncclGroupEnd();
	code = check(m, all, status != ncclSuccess ? status : ended, err);
	return code < 0 ? code : ask(m, err);
}

/* ---- the host's ---- */

static bool nccl_hosts(const struct ff_comm *c, uint32_t device)
{
	return device == c->rank;
}

static int nccl_gather(
		struct ff_comm *c, const void *own, size_t bytes, void *all, struct ff_error *err)
{
	return self(c)->host->gather(self(c)->host, own, bytes, all, err);
}

static int nccl_sum(struct ff_comm *c, float *v, int64_t n, struct ff_error *err)
{
	return self(c)->host->sum(self(c)->host, v, n, err);
}

static int nccl_barrier(struct ff_comm *c, struct ff_error *err)
{
	return self(c)->host->barrier(self(c)->host, err);
}

static int nccl_share(struct ff_comm *c, uint32_t n, const uint16_t *device, void *v, size_t bytes,
		struct ff_error *err)
{
	return self(c)->host->share(self(c)->host, n, device, v, bytes, err);
}

/* ---- the comm ---- */

/* All but the host's part. */
static void close_own(struct ff_comm_nccl *m)
{
	if (m->dev)
		ff_cuda_enter(m->dev, NULL);
	while (m->groups) {
		struct group *g = m->groups;

		m->groups = g->next;
		if (m->failed) /* the others may not come any more */
			ncclCommAbort(g->comm);
		else
			ncclCommDestroy(g->comm);
		free(g);
	}
	while (m->scratch) {
		struct scratch *s = m->scratch;

		m->scratch = s->next;
		ff_cuda_free(m->dev, s->memory);
		free(s);
	}
	ff_cuda_close(m->dev);
	free(m);
}

static void nccl_destroy(struct ff_comm *c)
{
	struct ff_comm *host = self(c)->host;

	close_own(self(c));
	host->destroy(host);
}

/* Whether ranks share a device; `all` has room for one a rank. */
static int find_shared(struct ff_comm_nccl *m, cudaUUID_t *all, bool *ret, struct ff_error *err)
{
	struct cudaDeviceProp own = {0};
	int code = ff_cuda_check(cudaGetDeviceProperties(&own, m->dev->ordinal), m->dev,
			"say which it is", err);

	code = ff_agree_code(m->host, code, err);
	if (code == FF_OK)
		code = m->host->gather(m->host, &own.uuid, sizeof(own.uuid), all, err);
	*ret = false;
	for (uint32_t i = 0; i < m->base.n_ranks && code == FF_OK; i++)
		for (uint32_t k = 0; k < i; k++)
			*ret |= !memcmp(&all[i], &all[k], sizeof(*all));
	return code;
}

static int is_shared(struct ff_comm_nccl *m, bool *ret, struct ff_error *err)
{
	cudaUUID_t *all = calloc(m->base.n_ranks, sizeof(*all));
	int code = ff_agree_code(m->host, all ? FF_OK : ff_fail_memory(err), err);

	if (code == FF_OK && all)
		code = find_shared(m, all, ret, err);
	free(all);
	return code;
}

/* NCCL refuses two ranks on one device of one host, so each is a host of its own. */
static void part_hosts(const struct ff_comm_nccl *m)
{
	char name[32];

	snprintf(name, sizeof(name), "ffsoap-%u", m->base.rank);
	setenv("NCCL_HOSTID", name, 0);
}

static int open_comm(struct ff_comm_nccl *m, uint32_t ordinal, bool insist, bool *shared,
		struct ff_error *err)
{
	int version = 0, code = ff_cuda_open(ordinal, &m->dev, err);
	struct group *all;

	code = ff_agree_code(m->host, code, err);
	if (code == FF_OK)
		code = is_shared(m, shared, err);
	if (code < 0 || (*shared && !insist))
		return code;
	if (*shared)
		part_hosts(m);
	ncclGetVersion(&version);
	snprintf(m->base.name, sizeof(m->base.name), "nccl %d.%d.%d", version / 10000,
			version / 100 % 100, version % 100);
	return group_all(m, &all, err);
}

int ff_cuda_comm(struct ff_comm *host, uint32_t ordinal, bool insist, struct ff_comm **ret,
		struct ff_error *err)
{
	struct ff_comm_nccl *m = calloc(1, sizeof(*m));
	bool shared = false;
	int code = ff_agree_code(host, m ? FF_OK : ff_fail_memory(err), err);

	if (code == FF_OK && m) {
		m->host = host;
		m->base = (struct ff_comm){.n_devices = host->n_devices,
				.in_stream = true,
				.hosts = nccl_hosts,
				.collective = nccl_collective,
				.exchange = nccl_exchange,
				.gather = nccl_gather,
				.sum = nccl_sum,
				.barrier = nccl_barrier,
				.share = nccl_share,
				.destroy = nccl_destroy,
				.rank = host->rank,
				.n_ranks = host->n_ranks};
		code = open_comm(m, ordinal, insist, &shared, err);
	}
	if (code == FF_OK && m && (!shared || insist))
		*ret = &m->base;
	else if (m)
		close_own(m);
	return code;
}
