/* Fused kernels of the CUDA backend: which operators a kernel computes besides its own.  The
 * executor asks for them, and device models price them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_FUSION_H
#define FF_FUSION_H

#include "ff/work.h"

/* How the kernel of one operator also computes another, `next`.  Chains are fused if each pair in
 * them is. */
enum ff_fusion {
	FF_FUSION_FORWARD = 1, /* forward: then `next`, its only reader */
	FF_FUSION_KEEPS = 2,   /* forward: likewise, and its output is stored for later readers */
	FF_FUSION_AHEAD = 4,   /* backward: then that of `next`, whose output it reads */
	FF_FUSION_BEHIND = 8,  /* backward: after that of `next`, which reads its output */
};
/* The fusions that exist for nodes like `n` and `next`: bits of enum ff_fusion. */
uint32_t ff_fusions(const struct ff_node *n, const struct ff_node *next);

/* If a neighbour's kernel computes `w`, too: the bytes that this kernel accesses in addition; else
 * -1.  Judged by the graph, assuming that the neighbour is split alike. */
int64_t ff_fused_bytes(const struct ff_work *w);

/* Whether a linear layer writes its output transposed, as its only reader wants it.  Judged
 * likewise. */
bool ff_is_written_transposed(const struct ff_work *w);

#endif
