/* The clock.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/clock.h"

#include <time.h>

double ff_clock_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}
