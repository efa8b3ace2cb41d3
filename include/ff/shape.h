/* Elements of shapes, as many as 64 bits hold.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SHAPE_H
#define FF_SHAPE_H

#include "ff/saturate.h"

/* Elements of a shape, saturating; 1 for rank 0. */
static inline int64_t ff_shape_volume(uint32_t rank, const int32_t *shape)
{
	int64_t n = 1;

	for (uint32_t i = 0; i < rank; i++)
		n = ff_sat_mul(n, shape[i]);
	return n;
}

#endif
