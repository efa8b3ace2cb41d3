/* The order in which an epoch of training visits the samples: every one of them once, drawn from
 * the seed and the epoch alone.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DATA_ORDER_H
#define FF_DATA_ORDER_H

#include <stdint.h>

#include "ff/error.h"

struct ff_order;

/* `samples` at most UINT32_MAX. */
int ff_order_create(int64_t samples, uint64_t seed, struct ff_order **ret, struct ff_error *err);
/* Accepts NULL. */
void ff_order_destroy(struct ff_order *o);
/* The sample at place `at` of `epoch`.  One thread at a time; another epoch than the one asked
 * for before is drawn anew. */
int64_t ff_order_at(struct ff_order *o, uint64_t epoch, int64_t at);

#endif
