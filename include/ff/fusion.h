/* Which operators a kernel of the CUDA backend computes beside its own: what the backend is asked
 * for, and what models of devices price.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_FUSION_H
#define FF_FUSION_H

#include "ff/work.h"

/* What the kernel of one operator computes of another, `next`; of more behind it, too, if each has
 * such a kernel with the next. */
enum ff_fusion {
	FF_FUSION_FORWARD = 1, /* it goes before `next`, which is all that reads it */
	FF_FUSION_KEEPS = 2,   /* likewise, but what lies between is read later */
	FF_FUSION_AHEAD = 4,   /* backward: it reads `next`, and goes on to that one's gradient */
	FF_FUSION_BEHIND = 8,  /* backward: it goes before `next`, whose gradient it begins with */
};
/* Of kernels of nodes as `n` and `next`: those that there are. */
uint32_t ff_fusions(const struct ff_node *n, const struct ff_node *next);

/* Bytes that a neighbour's kernel reads and writes more for computing `w`, too; or -1: it has a
 * kernel of its own.  By the graph alone, as if the neighbour were cut alike. */
int64_t ff_fused_bytes(const struct ff_work *w);

/* Whether a linear layer is computed transposed, as its only reader wants it: rows of products are
 * places in place of features.  By the graph alone, likewise. */
bool ff_is_written_transposed(const struct ff_work *w);

#endif
