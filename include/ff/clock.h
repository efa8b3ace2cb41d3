/* The clock.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CLOCK_H
#define FF_CLOCK_H

/* Microseconds, monotonic, from an arbitrary origin. */
double ff_clock_us(void);

#endif
