/* What is posted to NCCL.  SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "comm/chunks.h"
#include "comm/parcels.h"
#include "cuda/core/copy.h"
#include "cuda/core/enter.h"
#include "cuda/core/rows.h"
#include "cuda/core/stream.h"
#include "nccl_comm.h"

/* ---- what NCCL does not reduce ---- */

/* Elements that only have a meaning together; and of floats the largest: NCCL's, as fmaxf(), passes
 * over NaN, which all of ours keep. */
static bool is_ours(const struct ff_collective *x)
{
	return x->kind != FF_MOVE_ALL_GATHER &&
	       (ff_reduce_width(x->reduce) > 1 ||
			       (x->reduce == FF_REDUCE_MAX && x->type != FF_I32));
}

/* What this rank gets of the arrays of all: the whole, or its chunk. */
static int64_t share_of(const struct ff_collective *x, uint32_t position)
{
	return x->count[x->kind == FF_MOVE_REDUCE_SCATTER ? position : 0];
}

/* The parts into the scratch memory, one behind the other. */
static ncclResult_t collect(const struct ff_nccl_post *p)
{
	const struct ff_collective *x = p->x;
	size_t own = (size_t)share_of(x, p->g->own);
	ncclResult_t status = ncclSuccess;
	int64_t at = 0;

	if (x->kind == FF_MOVE_ALL_REDUCE)
		return ncclAllGather(p->send, p->scratch, own, ff_nccl_types[x->type], p->g->comm,
				p->queue);
	for (uint32_t i = 0; i < x->n_devices && status == ncclSuccess; at += x->count[i++])
		if (i != p->g->own && x->count[i])
			status = ncclSend(p->send + at * p->size, (size_t)x->count[i],
					ff_nccl_types[x->type], (int)i, p->g->comm, p->queue);
	for (uint32_t i = 0; i < x->n_devices && own && status == ncclSuccess; i++)
		if (i != p->g->own)
			status = ncclRecv(p->scratch + i * own * (size_t)p->size, own,
					ff_nccl_types[x->type], (int)i, p->g->comm, p->queue);
	return status;
}

/* Where position `i`'s part lies: this rank's own was not sent. */
static const char *part(const struct ff_nccl_post *p, uint32_t i)
{
	const struct ff_collective *x = p->x;
	int64_t at = 0;

	if (x->kind == FF_MOVE_ALL_REDUCE || i != p->g->own)
		return p->scratch + i * share_of(x, p->g->own) * p->size;
	for (uint32_t k = 0; k < i; k++)
		at += x->count[k];
	return p->send + at * p->size;
}

/* In the order of the devices, so that all get the same bits; in place what is there is the first,
 * which nobody else has. */
static int reduce_here(const struct ff_nccl_post *p, struct ff_error *err)
{
	const struct ff_collective *x = p->x;
	int64_t n = share_of(x, p->g->own);
	uint32_t first = part(p, p->g->own) == p->recv ? p->g->own : 0;
	const struct ff_strided line = {.rank = 1,
			.n = {n / ff_reduce_width(x->reduce)},
			.source = {1},
			.sink = {1}};
	cudaError_t status = cudaSuccess;

	if (!n)
		return FF_OK;
	if (part(p, first) != p->recv)
		status = ff_cuda_run_of(x->type, part(p, first), p->recv, n, p->queue);
	for (uint32_t i = 0; i < x->n_devices && status == cudaSuccess; i++)
		if (i != first)
			status = ff_launch_reduce(
					&line, x->type, x->reduce, part(p, i), p->recv, p->queue);
	return ff_cuda_check(status, p->m->dev, "reduce what was gathered", err);
}

/* ---- posting ---- */

static int post_ours(struct ff_nccl_post *p, struct ff_error *err)
{
	int64_t bytes = p->x->n_devices * share_of(p->x, p->g->own) * p->size;
	int code = bytes ? ff_nccl_scratch(p, bytes, err) : FF_OK;

	if (code == FF_OK)
		code = ff_nccl_together(p, collect, err);
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

static int post_collective(struct ff_nccl_post *p, struct ff_error *err)
{
	const struct ff_collective *x = p->x;
	struct ff_spread spread;

	snprintf(p->g->call, sizeof(p->g->call), "%s of %" PRId64 " %s", ff_move_name(x->kind),
			elements(x), ff_dtype_name(x->type));
	if (!elements(x))
		return FF_OK;
	if (is_ours(x))
		return post_ours(p, err);
	if (p->m->node_of && ff_stages_find(p->m->node_of, x, &spread))
		return ff_nccl_post_by_nodes(p, spread, err);
	return ff_nccl_together(p, ff_nccl_call, err);
}

int ff_nccl_collective(struct ff_comm *c, const struct ff_channel *on,
		const struct ff_collective *x, struct ff_error *err)
{
	struct ff_nccl *m = ff_nccl(c);
	struct ff_nccl_post p = {.m = m,
			.x = x,
			.queue = ff_stream_queue(on->stream),
			.messages = on->messages,
			.size = ff_dtype_bytes(x->type)};
	int code;

	if (x->kind != FF_MOVE_ALL_GATHER && !ff_reduce_takes(x->reduce, x->type))
		return ff_fail(err, FF_E_RUN, "elements of type %s are not reduced by %s",
				ff_dtype_name(x->type), ff_reduce_name(x->reduce));
	if ((code = ff_nccl_group_find(m, p.messages, x->n_devices, x->device, &p.g, err)) < 0 ||
			(code = ff_cuda_enter(m->dev, err)) < 0)
		return code;
	c->sent_bytes += ff_ring_bytes(x, p.g->own);
	p.send = x->send[p.g->own];
	p.recv = x->recv[p.g->own];
	ff_nccl_note(m, p.g, on->stream);
	code = post_collective(&p, err);
	return code < 0 ? code : ff_nccl_ask(m, 0, err);
}

/* Empty parcels are not sent: both ends know. */
static ncclResult_t send_and_receive(const struct ff_nccl *m, const struct ff_nccl_group *all,
		cudaStream_t queue, enum ff_dtype type, const struct ff_parcel *parcel, uint32_t n)
{
	ncclResult_t status = ncclSuccess;

	for (uint32_t i = 0; i < n && status == ncclSuccess; i++) {
		const struct ff_parcel *q = &parcel[i];

		if (q->from == m->base.rank && q->count)
			status = ncclSend(q->send, (size_t)q->count, ff_nccl_types[type], q->to,
					all->comm, queue);
		if (q->to == m->base.rank && q->count && status == ncclSuccess)
			status = ncclRecv(q->recv, (size_t)q->count, ff_nccl_types[type], q->from,
					all->comm, queue);
	}
	return status;
}

int ff_nccl_exchange(struct ff_comm *c, const struct ff_channel *on, enum ff_dtype type,
		const struct ff_parcel *parcel, uint32_t n, struct ff_error *err)
{
	struct ff_nccl *m = ff_nccl(c);
	ncclResult_t status, ended;
	struct ff_nccl_group *all;
	int code;

	if ((code = ff_parcels_count(c, type, parcel, n, err)) < 0 ||
			(code = ff_nccl_group_all(m, on->messages, &all, err)) < 0 ||
			(code = ff_cuda_enter(m->dev, err)) < 0)
		return code;
	snprintf(all->call, sizeof(all->call), "an exchange of %u parcels of %s", n,
			ff_dtype_name(type));
	ff_nccl_note(m, all, on->stream);
	if ((code = ff_nccl_check(m, all, ncclGroupStart(), err)) < 0)
		return code;
	status = send_and_receive(m, all, ff_stream_queue(on->stream), type, parcel, n);
	ended = ncclGroupEnd();
	code = ff_nccl_check(m, all, status != ncclSuccess ? status : ended, err);
	return code < 0 ? code : ff_nccl_ask(m, 0, err);
}
