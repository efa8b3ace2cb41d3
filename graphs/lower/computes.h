/* Tasks that compute.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_COMPUTES_H
#define FF_LOWER_COMPUTES_H

#include "lowering.h"

/* A step that computes, for all parts. */
void ff_computes_emit(struct ff_lowering *l, const struct ff_step *s);

#endif
