/* The space of strategies that a search may take.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SPACE_H
#define FF_SPACE_H

#include "ff/config.h"
#include "ff/machine.h"
#include "ff/philox.h"

/* The legal configs of every operator of one graph on one machine: all vectors of degrees whose
 * product is at most the number of devices, each on all views.  A view is start + sum over dims of
 * coordinate * stride: contiguous, strided or permuted, on all devices or some. */
struct ff_space;
int ff_space_create(const struct ff_graph *g, const struct ff_machine *m, struct ff_space **ret,
		struct ff_error *err);
void ff_space_destroy(struct ff_space *s);
/* What a search may change besides splits and devices of operators; the preset is nothing.  None of
 * it changes the computed function. */
#define FF_SPACE_UPDATES 1u   /* configs of updates: sharded, or on one device */
#define FF_SPACE_REPLICAS 2u  /* parts computed on several devices */
#define FF_SPACE_MICRO 4u     /* micro-batches, with or without pipeline stages */
#define FF_SPACE_RECOMPUTE 8u /* recomputation */
#define FF_SPACE_ALL 15u
void ff_space_allow(struct ff_space *s, uint32_t what);
/* The numbers of micro-batches that the search may use, ascending from 1.  Each is the least
 * divisor of the batch that is at least twice the one before and that operators allow
 * (ff_graph_micro).  Large machines have fewer, since a strategy would have millions of parts. */
#define FF_MOST_MICRO 7
uint32_t ff_space_micro(const struct ff_space *s, const uint32_t **ret);
/* Removes a number of micro-batches, say because its kernels were not measured. */
void ff_space_forbid_micro(struct ff_space *s, uint32_t micro_batches);
/* How many configs `node` has; 1 means nothing to search.  Saturates. */
uint64_t ff_space_count(const struct ff_space *s, uint32_t node);
/* Config number `i` of `node`. */
void ff_space_config(const struct ff_space *s, uint32_t node, uint64_t i, struct ff_config *ret);
/* Draws a config, independent of the current strategy: first degrees, then a view.  A quarter of
 * the draws is uniform over vectors of degrees and then over views.  The others favour what is
 * often good on large machines: a number of parts that divides the devices, on aligned blocks. */
void ff_space_draw(const struct ff_space *s, uint32_t node, struct ff_random *r,
		struct ff_config *ret);

#endif
