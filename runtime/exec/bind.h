/* What tasks are given once.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_BIND_H
#define FF_EXEC_BIND_H

#include "exec/core/state.h"

/* Pointers, kernels and streams of compute tasks and updates. */
int ff_bind_jobs(struct ff_executor *x, struct ff_error *err);

#endif
