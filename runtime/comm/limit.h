/* How long a rank waits for others.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_LIMIT_H
#define FF_COMM_LIMIT_H

#include "ff/error.h"

/* Seconds without an end before a rank takes the others for lost: FF_COMM_TIMEOUT of the
 * environment, preset 600; 0: it waits for ever. */
int ff_comm_limit(double *seconds, struct ff_error *err);

#endif
