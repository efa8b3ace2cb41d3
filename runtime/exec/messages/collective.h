/* Collectives among devices.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_COLLECTIVE_H
#define FF_EXEC_COLLECTIVE_H

#include "communication.h"

/* Of a transfer that is one. */
int ff_collective_build(struct ff_transfer *t, struct ff_error *err);
int ff_sync_build(struct ff_transfer *t, struct ff_error *err);

#endif
