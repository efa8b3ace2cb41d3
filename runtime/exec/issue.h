/* Tasks to their streams.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_ISSUE_H
#define FF_EXEC_ISSUE_H

#include "exec/core/state.h"

/* Whether the pass under way has this task; all of its tasks to the streams. */
bool ff_executor_runs(const struct ff_executor *x, uint32_t task);
int ff_executor_issue(struct ff_executor *x, struct ff_error *err);

#endif
