/* What all that is posted to NCCL is made with: types, several calls as one, scratch memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "cuda/core/memory.h"
#include "nccl_comm.h"

const ncclDataType_t ff_nccl_types[FF_DTYPE_COUNT] = {[FF_F32] = ncclFloat32,
		[FF_I32] = ncclInt32,
		[FF_U8] = ncclUint8,
		[FF_BF16] = ncclBfloat16};
/* Of those of several elements together there is none. */
const ncclRedOp_t ff_nccl_operations[FF_REDUCE_COUNT] = {
		[FF_REDUCE_SUM] = ncclSum, [FF_REDUCE_MAX] = ncclMax};

bool ff_nccl_is_even(const struct ff_collective *x)
{
	for (uint32_t i = 1; i < x->n_devices; i++)
		if (x->count[i] != x->count[0])
			return false;
	return true;
}

bool ff_nccl_is_in_order(const struct ff_collective *x)
{
	for (uint32_t i = 0; i < x->n_devices; i++)
		if (x->offset[i] != i * x->count[0])
			return false;
	return true;
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

int ff_nccl_scratch(struct ff_nccl *m, size_t bytes, char **ret, struct ff_error *err)
{
	struct ff_nccl_scratch *s = m->scratch;
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

void ff_nccl_scratch_close(struct ff_nccl *m)
{
	while (m->scratch) {
		struct ff_nccl_scratch *s = m->scratch;

		m->scratch = s->next;
		if (!m->failed) /* it may still be in use, and would be waited for */
			ff_cuda_free(m->dev, s->memory);
		free(s);
	}
}
