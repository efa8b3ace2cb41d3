/* The longest of all chains of parts (docs/simulator.md).  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CHECK_LONGEST_H
#define FF_CHECK_LONGEST_H

#include "kinds.h"

/* No strategy takes less.  Where `k` is stopped meanwhile *us says nothing.  Memory from `a`. */
int ff_longest_us(struct ff_kinds *k, struct ff_arena *a, double *us, struct ff_error *err);

#endif
