/* How much scratch the kernels of a schedule need: a backend knows when it has prepared
 * one.  A schedule has many parts and few kinds of them, and every rank asks for those of
 * all devices.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "ff/workspace.h"

static int prepare(struct ff_workspace_query *q, const struct ff_work *w, int64_t *ret)
{
	struct ff_kernel *k = NULL;
	int code = q->backend->kernel.open(q->device, w, &k, &q->err);

	if (code < 0)
		return code;
	*ret = q->backend->kernel.workspace(k);
	q->backend->kernel.close(k);
	return FF_OK;
}

static int keep(struct ff_workspace_query *q, uint64_t hash, int64_t bytes)
{
	uint32_t n = q->seen.n;

	if (n == q->cap) {
		uint32_t cap = q->cap ? 2 * q->cap : 64;
		int64_t *grown = realloc(q->bytes, cap * sizeof(*grown));

		if (!grown)
			return ff_fail_memory(&q->err);
		q->bytes = grown;
		q->cap = cap;
	}
	if (ff_table_put(&q->seen, hash, n) < 0)
		return ff_fail_memory(&q->err);
	q->bytes[n] = bytes;
	return FF_OK;
}

int64_t ff_backend_workspace(void *query, const struct ff_work *w)
{
	struct ff_workspace_query *q = query;
	uint64_t hash = ff_work_hash(w);
	uint32_t at, i = ff_table_first(&q->seen, hash, &at);
	int64_t bytes;

	if (i != FF_NONE)
		return q->bytes[i];
	if (q->err.code < 0 || prepare(q, w, &bytes) < 0 || keep(q, hash, bytes) < 0)
		return 0;
	return bytes;
}

void ff_workspace_finish(struct ff_workspace_query *q)
{
	ff_table_finish(&q->seen);
	free(q->bytes);
	q->bytes = NULL;
	q->cap = 0;
}
