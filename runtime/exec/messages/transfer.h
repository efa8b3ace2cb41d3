/* What is moved between devices, and onto them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_TRANSFER_H
#define FF_EXEC_TRANSFER_H

#include "communication.h"

/* Moves and synchronisations. */
int ff_transfer_build(struct ff_executor *x, const struct ff_task *task, struct ff_transfer **ret,
		struct ff_error *err);
int ff_transfer_issue(struct ff_transfer *t, struct ff_stream *stream, struct ff_error *err);

#endif
