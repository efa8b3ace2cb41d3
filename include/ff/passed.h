/* How much goes by: what a kernel finds in the caches depends on it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PASSED_H
#define FF_PASSED_H

#include "ff/graph.h"

/* Bytes that a device touches, near enough, between two uses of a parameter: in a step of
 * `g` on `n_devices`, or, where there are several, in one of its `micro_batches`.  Rounded to
 * a power of the root of two, so that what differs little is measured once. */
int64_t ff_passed_bytes(const struct ff_graph *g, uint32_t n_devices, uint32_t micro_batches);

#endif
