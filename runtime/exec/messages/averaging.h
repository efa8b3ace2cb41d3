/* Synchronisations of weights and states.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_AVERAGING_H
#define FF_EXEC_AVERAGING_H

#include "communication.h"

/* Of a transfer that is one. */
int ff_averaging_build(struct ff_transfer *t, struct ff_error *err);
int ff_averaging_issue(const struct ff_transfer *t, struct ff_stream *stream, struct ff_error *err);

#endif
