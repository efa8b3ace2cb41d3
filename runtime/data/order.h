/* The order in which an epoch of training visits the samples: every one of them once, drawn from
 * the seed and the epoch alone.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DATA_ORDER_H
#define FF_DATA_ORDER_H

#include <stdint.h>

#include "ff/error.h"

struct ff_order;

int ff_order_create(int64_t samples, uint64_t seed, struct ff_order **ret, struct ff_error *err);
/* Accepts NULL. */
void ff_order_destroy(struct ff_order *o);
/* The sample at place `at` of `epoch`.  One thread at a time; another epoch than the one asked
 * for before is drawn anew. */
int64_t ff_order_at(struct ff_order *o, uint64_t epoch, int64_t at);

/* More samples than this are not kept in a table but computed one by one. */
#define FF_ORDER_TABLE (INT64_C(1) << 26)
/* The sample at place `at` of `samples`: by a Feistel network of six rounds on as many bits as
 * `samples` has, again and again until a place comes out that there is (cycle walking; Black and
 * Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002).  No order is as likely as any
 * other, but none is kept in memory. */
int64_t ff_order_walk(uint64_t seed, uint64_t epoch, int64_t samples, int64_t at);

#endif
