/* How communication goes on beside what is computed, where the machine says that it does: it takes
 * somebody who looks whether others' messages have come.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_BESIDE_H
#define FF_BESIDE_H

#include "ff/backend.h"

/* "thread", "tasks" */
const char *ff_beside_name(enum ff_beside k);
/* Which is best here, the same on all ranks, which all call it: a thread of its own where each rank
 * has a core more than its kernels use, else between tasks.  FF_OVERLAP=NAME in the first rank's
 * environment says which. */
int ff_beside_choose(const struct ff_backend *b, struct ff_comm *c, enum ff_beside *ret,
		struct ff_error *err);

#endif
