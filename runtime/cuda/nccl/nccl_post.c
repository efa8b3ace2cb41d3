/* What all that is posted to NCCL is made with: types, collectives, several calls as one, scratch
 * memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "comm/chunks.h"
#include "cuda/core/memory.h"
#include "nccl_comm.h"

const ncclDataType_t ff_nccl_types[FF_DTYPE_COUNT] = {[FF_F32] = ncclFloat32,
		[FF_I32] = ncclInt32,
		[FF_U8] = ncclUint8,
		[FF_BF16] = ncclBfloat16};
/* Of those of several elements together there is none; ncclMax is asked for of int32 alone. */
const ncclRedOp_t ff_nccl_operations[FF_REDUCE_COUNT] = {
		[FF_REDUCE_SUM] = ncclSum, [FF_REDUCE_MAX] = ncclMax};

static ncclResult_t all_reduce(const struct ff_nccl_post *p)
{
	return ncclAllReduce(p->send, p->recv, (size_t)p->x->count[0], ff_nccl_types[p->x->type],
			ff_nccl_operations[p->x->reduce], p->g->comm, p->queue);
}

/* Chunks of all sizes: each device tells the others its own. */
static ncclResult_t all_gather(const struct ff_nccl_post *p)
{
	const struct ff_collective *x = p->x;
	ncclResult_t status = ncclSuccess;

	if (ff_chunks_are_even(x) && ff_chunks_are_in_order(x))
		return ncclAllGather(p->send, p->recv, (size_t)x->count[0], ff_nccl_types[x->type],
				p->g->comm, p->queue);
	for (uint32_t i = 0; i < x->n_devices && status == ncclSuccess; i++)
		if (x->count[i])
			status = ncclBroadcast(p->send, p->recv + x->offset[i] * p->size,
					(size_t)x->count[i], ff_nccl_types[x->type], (int)i,
					p->g->comm, p->queue);
	return status;
}

static ncclResult_t reduce_scatter(const struct ff_nccl_post *p)
{
	const struct ff_collective *x = p->x;
	ncclResult_t status = ncclSuccess;
	int64_t at = 0;

	if (ff_chunks_are_even(x))
		return ncclReduceScatter(p->send, p->recv, (size_t)x->count[0],
				ff_nccl_types[x->type], ff_nccl_operations[x->reduce], p->g->comm,
				p->queue);
	for (uint32_t i = 0; i < x->n_devices && status == ncclSuccess; at += x->count[i++])
		if (x->count[i])
			status = ncclReduce(p->send + at * p->size, p->recv, (size_t)x->count[i],
					ff_nccl_types[x->type], ff_nccl_operations[x->reduce],
					(int)i, p->g->comm, p->queue);
	return status;
}

ncclResult_t ff_nccl_call(const struct ff_nccl_post *p)
{
	if (p->x->kind == FF_MOVE_ALL_GATHER)
		return all_gather(p);
	return p->x->kind == FF_MOVE_ALL_REDUCE ? all_reduce(p) : reduce_scatter(p);
}

/* As NCCL takes several calls: as one. */
int ff_nccl_together(struct ff_nccl_post *p, ncclResult_t (*call)(const struct ff_nccl_post *p),
		struct ff_error *err)
{
	int code = ff_nccl_check(p->m, p->g, ncclGroupStart(), err);
	ncclResult_t status, ended;

	if (code < 0)
		return code;
	status = call(p);
	ended = ncclGroupEnd();
	return ff_nccl_check(p->m, p->g, status != ncclSuccess ? status : ended, err);
}

int ff_nccl_scratch(struct ff_nccl_post *p, int64_t bytes, struct ff_error *err)
{
	struct ff_nccl_scratch **newest = &p->m->scratch[p->messages], *s = *newest;
	int code;

	if (!s || s->bytes < bytes) {
		int64_t room = s && 2 * s->bytes > bytes ? 2 * s->bytes : bytes;

		s = calloc(1, sizeof(*s));
		if (!s)
			return ff_fail_memory(err);
		code = ff_cuda_alloc(p->m->dev, (size_t)room, &s->memory, err);
		if (code < 0) {
			free(s);
			return code;
		}
		s->bytes = room;
		s->next = *newest;
		*newest = s;
	}
	p->scratch = s->memory;
	return FF_OK;
}

void ff_nccl_scratch_close(struct ff_nccl *m)
{
	for (int i = 0; i < 2; i++)
		while (m->scratch[i]) {
			struct ff_nccl_scratch *s = m->scratch[i];

			m->scratch[i] = s->next;
			if (!m->failed) /* it may still be in use, and would be waited for */
				ff_cuda_free(m->dev, s->memory);
			free(s);
		}
}
