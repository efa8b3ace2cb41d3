/* Tasks to their streams.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_ISSUE_H
#define FF_EXEC_ISSUE_H

#include "exec/core/state.h"

/* Gives the tasks that the pass under way has to their streams. */
int ff_executor_issue(struct ff_executor *x, struct ff_error *err);

#endif
