/* Dropped buckets in the account of memory.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_DROPPED_H
#define FF_SIMULATOR_DROPPED_H

#include "evaluate/trial.h"

/* Counts all that buckets `b` take while they are read and written, or (`sign` -1) takes it out
 * again; of `other`, if it is not NULL, what it has alike stays as it is. */
void ff_dropped_count(struct ff_trial *e, const struct ff_bucketing *b,
		const struct ff_bucketing *other, int64_t sign);

#endif
