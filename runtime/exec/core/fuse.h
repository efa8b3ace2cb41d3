/* Tasks by one kernel.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_FUSE_H
#define FF_EXEC_FUSE_H

#include "state.h"

/* Two or three tasks by one kernel, where the backend has that. */
int ff_fuse_jobs(struct ff_executor *x, struct ff_error *err);
/* Whether `second` waits for nothing but the `n` tasks `first`, one behind the other on a stream,
 * and what they come after on it. */
bool ff_fuse_is_ready(
		const struct ff_executor *x, const uint32_t *first, uint32_t n, uint32_t second);

#endif
