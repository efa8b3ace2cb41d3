/* Whole parameters.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_GATHER_H
#define FF_EXEC_GATHER_H

#include "exec/core/state.h"

/* Whole weights. */
int ff_executor_init_weights(struct ff_executor *x, struct ff_error *err);

#endif
