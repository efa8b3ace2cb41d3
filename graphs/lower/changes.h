/* What does not go with what.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_CHANGES_H
#define FF_LOWER_CHANGES_H

#include "lower/state/lowering.h"

/* FF_E_INPUT for what does not go with the rest of what was asked for. */
int ff_changes_check(const struct ff_lowering *l, struct ff_error *err);

#endif
