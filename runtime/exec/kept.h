/* What operators keep.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_KEPT_H
#define FF_EXEC_KEPT_H

#include "exec/core/state.h"

/* What operators keep from step to step, as it begins. */
int ff_executor_init_kept(struct ff_executor *x, struct ff_error *err);
/* Before a pass without training: parts that keep each what is of their own samples have the mean.
 */
int ff_executor_settle(struct ff_executor *x, struct ff_error *err);

#endif
