/* Scratch of kernels, as a backend has it.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_WORKSPACE_H
#define FF_WORKSPACE_H

#include "ff/backend.h"
#include "ff/hash.h"

/* Scratch figures for ff_lower on this backend: set `backend` and `device`, an open
 * one.  Kernels are prepared to be asked, equal ones once. */
struct ff_workspace_query {
	const struct ff_backend *backend;
	struct ff_device *device;
	struct ff_error err;  /* first failure */
	struct ff_table seen; /* hashes of works to `bytes` */
	int64_t *bytes;
	uint32_t cap;
};
int64_t ff_backend_workspace(void *query, const struct ff_work *w);
void ff_workspace_finish(struct ff_workspace_query *q);

#endif
