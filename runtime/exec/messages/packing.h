/* Synchronisations whose messages are compressed.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_PACKING_H
#define FF_EXEC_PACKING_H

#include "communication.h"

/* Of a transfer that is one. */
int ff_packing_build(struct ff_transfer *t, struct ff_error *err);
int ff_packing_issue(const struct ff_transfer *t, struct ff_stream *stream, struct ff_error *err);

#endif
