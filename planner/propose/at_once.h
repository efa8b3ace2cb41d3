/* Changes of all operators at once.  Between two regular strategies lie others that move data to
 * and fro, and no walk of small changes crosses.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_AT_ONCE_H
#define FF_PLANNER_AT_ONCE_H

#include "proposer.h"

/* Puts change number `i` into the transaction, which may stay empty; false: there are not so many.
 *
 * - ff_proposer_share: some number of shares of samples;
 * - all parameters are updated in one way: one alone leaves its bucket, and gains nothing;
 * - all operators that are split by sample, or not at all, get a divisor of the devices times as
 *   many devices, or as small a part of theirs.  Those that were apart stay apart, or groups of
 *   neighbours meet, or all are as far apart as can be;
 * - ff_proposer_shrink: the heaviest operators are on few devices. */
bool ff_proposer_at_once(struct ff_proposer *p, uint32_t i);

#endif
