/* What a part of an attention has to do, for the kernels of every backend.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_ATTENTION_H
#define FF_RUNTIME_ATTENTION_H

#include <stdint.h>

struct ff_work;

/* Queries, keys and values lie sample by sample, row by row, head by head; rows of scores, of
 * which there is a pair each, sample by sample, head by head.  Kernels of devices take it as it
 * is: without padding. */
struct ff_attention {
	int64_t samples, heads, queries, keys, size; /* of the part; elements of a head */
	int64_t key_heads;
	/* of the part's first in the whole: which of two is ahead, which heads share one */
	int64_t first_head, first_key_head, first_query, first_key;
	int64_t shared; /* heads that have one key head */
	int64_t mask_stride[4];
	/* weights that are dropped: among all of a micro-batch the number of the part's first, and
	 * from one sample, head and row to the next (keys follow each other); of how many */
	int64_t first_number, number_stride[3], numbers;
	int32_t causal, masked;
	int32_t all_keys; /* nothing is exchanged */
	float scale;
	float dropped, kept;   /* which share (0: none are drawn), and what the others are times */
	uint32_t node, unused; /* whose they are: not its prelude's */
};

/* Of the node or of its prelude. */
void ff_attention_fill(const struct ff_work *w, struct ff_attention *ret);

#endif
