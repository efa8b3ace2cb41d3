/* Strategies as people write them by hand: tensor, data and pipeline parallelism in fixed degrees
 * (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
 * Megatron-LM", SC 2021).  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_MEGATRON_H
#define FF_PLANNER_MEGATRON_H

#include "ff/strategy.h"

enum { FF_MEGATRON_ZERO_1 = 1, FF_MEGATRON_ZERO_2, FF_MEGATRON_ZERO_3 };
enum { FF_MEGATRON_LIGHT = 1, FF_MEGATRON_FULL };

/* Device number ((share * data + d) * context + c) * tensor + t has part t of the products of
 * stages `share`, `share` + pipeline, ... (in a V `share` and 2 * pipeline - 1 - `share`), and of
 * their sequences share d of the samples and share c of the places. */
struct ff_megatron {
	uint32_t tensor, data, pipeline, micro;
	uint32_t updates;    /* FF_MEGATRON_ZERO_*; 0: parameters are updated wherever they are */
	uint32_t recomputed; /* what is recomputed: all of a block, or what is light; 0: nothing
			      */
	uint32_t recomputed_blocks; /* so many blocks of each stage, the first, are recomputed
				     * whole, whatever `recomputed` says of the others */
	uint32_t sequence;          /* 1: between chains of products places are split */
	uint32_t context;           /* shares of the places, in all of the network; 0: one */
	uint32_t experts;           /* 1: products of groups of channels are split by group */
	uint32_t interleave; /* stages that each of the pipeline's shares of devices has in turn;
			      * 0: one */
	uint32_t rule;   /* FF_ORDER_ZB_H1 or _V: gradients of parameters fill bubbles; 0: none */
	uint32_t hybrid; /* 1: what updates cut is cut over a node's devices alone */
	uint32_t even;   /* 1: stages have equally many blocks, whatever those at the ends take */
	uint32_t uneven_batch; /* 1: some of D's shares may have a sample more than others */
};

/* Whether `name` begins with "megatron:". */
bool ff_is_megatron(const char *name);
/* "megatron:T,D,P,M" and words behind it. */
int ff_megatron_parse(const char *name, struct ff_megatron *ret, struct ff_error *err);
/* FF_E_INPUT, and a sentence that says what would do, where the degrees are not for `g` or `m`.
 * Memory from `a`. */
int ff_start_megatron(const struct ff_megatron *h, const struct ff_graph *g,
		const struct ff_machine *m, struct ff_arena *a, struct ff_strategy *ret,
		struct ff_error *err);

#endif
