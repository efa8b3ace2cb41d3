/* Elements of shapes, as many as 64 bits hold.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_OPERATOR_SHAPE_H
#define FF_OPERATOR_SHAPE_H

#include "ff/saturate.h"

/* Elements of a shape, saturating. */
int64_t ff_shape_volume(uint32_t rank, const int32_t *shape);

#endif
