/* Bytes that each device holds in all steps.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_PINNED_H
#define FF_SIMULATOR_PINNED_H

#include "evaluate/trial.h"

/* Becomes `pinned` of the tally; buckets are gathered. */
void ff_pinned_count(struct ff_trial *e);

#endif
