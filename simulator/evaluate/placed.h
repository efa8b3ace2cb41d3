/* The blocks of a strategy that are in place, and what they say of values and parameters.
 * place.c and swap.c change them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_PLACED_H
#define FF_SIMULATOR_PLACED_H

#include "ff/sharing.h"
#include "memo/memo.h"
#include "pass.h"

struct ff_placed {
	struct ff_memo_node **node;         /* by node; NULL for inputs and synced parameters */
	const struct ff_node_block **block; /* by node: its block */
	struct ff_memo_edge **edge;         /* NULL for those of synced parameters */
	uint8_t *state[2];                  /* by pass, by edge: enum ff_edge_state */
	/* Of parameters, by node. */
	bool *synced;
	uint8_t *flat;            /* enum ff_flat: it has flat buckets */
	struct ff_shards *shards; /* where it lies */
	uint32_t n_flat;          /* how many have flat buckets; */
	uint32_t n_dropped; /* of those, that are gathered again: their buckets may be dropped */
	uint32_t n_summed;  /* and whose gradients may be summed in every micro-batch */
	/* Of values, by edge. */
	uint32_t *shared_from; /* ff_sharing_find, of the blocks in place */
	bool *is_shared;       /* its moves bring what another reads */
	struct ff_sums sums;   /* `first` is that of the order */
	uint32_t *n_added;     /* by node: of how many uses the gradient is added to another's */
	uint32_t n_sums;       /* uses whose gradients others' moves take; 0: mostly none does */
	/* Buckets: the current strategy's, a proposal's. */
	struct ff_gathered gathered[2], *now, *next;
};

#endif
