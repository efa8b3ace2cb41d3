/* Micro-batches: a batch is trained in equal parts, one after the other, and the
 * gradients of all are summed before the update (Huang et al., GPipe, NeurIPS 2019).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_MICRO_H
#define FF_MICRO_H

#include "ff/graph.h"

#define FF_MAX_MICRO_BATCHES 1024

/* The graph that one of `micro_batches` sees: nodes, values and edges by the same
 * numbers, batch / micro_batches samples.  Shares names and links with `g`, which must
 * outlive it; the rest from `a`.  FF_E_INPUT where the batch does not divide, or an
 * operator does not keep apart samples, or groups of them, that a micro-batch has whole. */
int ff_graph_micro(const struct ff_graph *g, uint32_t micro_batches, struct ff_arena *a,
		struct ff_graph *ret, struct ff_error *err);
/* The network of `g` for a batch of `samples`, under the contract of ff_graph_micro. */
int ff_graph_batch(const struct ff_graph *g, int32_t samples, struct ff_arena *a,
		struct ff_graph *ret, struct ff_error *err);

#endif
