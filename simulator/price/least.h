/* The least that moves take, whatever their algorithm and wherever their devices are.
 * docs/certificate.md derives it.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_LEAST_H
#define FF_SIMULATOR_LEAST_H

#include "links.h"

/* Of a byte that some device receives from others; 0: nothing is known. */
double ff_links_least_received_us(const struct ff_links *l);
/* ff_price_least_wait, where of a byte something is known. */
int ff_links_least_wait(const struct ff_links *l, struct ff_arena *a, struct ff_least_wait *ret,
		struct ff_error *err);
/* Sums that each of `n` devices gets of all; 0: nothing is known. */
double ff_links_least_sum_us(
		const struct ff_links *l, uint32_t n, enum ff_reduce reduce, int64_t elements);

#endif
