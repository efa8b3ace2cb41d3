/* Elements of shapes, as many as 64 bits hold.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_OPERATOR_SHAPE_H
#define FF_OPERATOR_SHAPE_H

#include <stdint.h>

/* Saturating arithmetic on counts >= 0. */
static inline int64_t ff_sat_mul(int64_t a, int64_t b)
{
	int64_t r;
	return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}
static inline int64_t ff_sat_add(int64_t a, int64_t b)
{
	int64_t r;
	return __builtin_add_overflow(a, b, &r) ? INT64_MAX : r;
}
/* Elements of a shape, saturating. */
int64_t ff_shape_volume(uint32_t rank, const int32_t *shape);

#endif
