/* Offsets of buffers.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_LAYOUT_H
#define FF_LOWER_LAYOUT_H

#include "lower/state/lowering.h"

/* Places what is in no bucket, from `base` on (by device). */
int ff_layout_place(struct ff_lowering *l, const int64_t *base, struct ff_error *err);

#endif
