/* The greatest common divisor.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_GCD_H
#define FF_PLANNER_GCD_H

#include <stdint.h>

/* Of 0 and b: b. */
static inline uint32_t ff_gcd(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

#endif
