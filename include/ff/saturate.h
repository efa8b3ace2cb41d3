/* Arithmetic on counts that stays within 64 bits.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SATURATE_H
#define FF_SATURATE_H

#include <stdint.h>

/* Of counts >= 0; INT64_MAX where the result is more. */
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

#endif
