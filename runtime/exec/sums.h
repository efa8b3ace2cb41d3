/* Sums of gradients, by the kernels that make what is added.  SPDX-License-Identifier: Apache-2.0
 */
#ifndef FF_EXEC_SUMS_H
#define FF_EXEC_SUMS_H

#include "exec/core/state.h"

/* Behind ff_fuse_jobs(). */
int ff_sums_give(struct ff_executor *x, struct ff_error *err);

#endif
