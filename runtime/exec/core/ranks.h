/* Which labels are among the first classes of a test.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_RANKS_H
#define FF_EXEC_RANKS_H

#include "state.h"

/* ranks.c: whether a test tells of this loss which labels are among the first opt.top; memory
 * for that before the first one; of a loss task behind its kernel; of all when the pass is over. */
bool ff_ranks_has(const struct ff_executor *x, uint32_t loss);
int ff_ranks_open(struct ff_executor *x, struct ff_error *err);
void ff_ranks_close(struct ff_executor *x);
int ff_ranks_download(struct ff_executor *x, struct ff_bound_task *j, struct ff_error *err);
int ff_ranks_keep(struct ff_executor *x, uint32_t parity, struct ff_error *err);

#endif
