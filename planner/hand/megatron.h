/* Strategies as people write them by hand: tensor, data and pipeline parallelism in fixed degrees
 * (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
 * Megatron-LM", SC 2021).  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_MEGATRON_H
#define FF_PLANNER_MEGATRON_H

#include "ff/strategy.h"

enum { FF_MEGATRON_ZERO_1 = 1, FF_MEGATRON_ZERO_2, FF_MEGATRON_ZERO_3 };
enum { FF_MEGATRON_LIGHT = 1, FF_MEGATRON_FULL };

/* Degrees and options.  Device ((p * data + d) * context + c) * tensor + t has pipeline rank p,
 * that is stages p, p + pipeline, ... (in a V stages p and 2 * pipeline - 1 - p); share d of the
 * samples; share c of the sequence; and part t of every product. */
struct ff_megatron {
	uint32_t tensor, data, pipeline, micro;
	uint32_t updates;    /* FF_MEGATRON_ZERO_*; 0: states are not sharded */
	uint32_t recomputed; /* FF_MEGATRON_LIGHT: cheap operators; _FULL: whole blocks; 0: nothing
			      */
	uint32_t recomputed_blocks; /* the first so many blocks of each stage are recomputed whole,
				     * whatever `recomputed` says of the others */
	uint32_t sequence;          /* 1: sequence parallelism between tensor-parallel products */
	uint32_t context;           /* degree of context parallelism; 0: 1 */
	uint32_t experts;           /* 1: expert parallelism: grouped products are split by group */
	uint32_t interleave;        /* stages a device (virtual pipeline stages); 0: 1 */
	uint32_t rule;              /* FF_ORDER_ZB_H1 or _V (zero-bubble); 0: 1F1B or interleaved */
	uint32_t hybrid;            /* 1: states are sharded over a node's devices only */
	uint32_t even; /* 1: stages have equally many blocks; 0: stages are balanced by time */
	uint32_t uneven_batch; /* 1: shares of the samples may differ by one sample */
};

/* Whether `name` begins with "megatron:". */
bool ff_is_megatron(const char *name);
/* Parses "megatron:T,D,P,M" and the options after it. */
int ff_megatron_parse(const char *name, struct ff_megatron *ret, struct ff_error *err);
/* FF_E_INPUT, with a sentence that says what would work, if the degrees do not suit `g` or `m`.
 * Memory from `a`. */
int ff_start_megatron(const struct ff_megatron *h, const struct ff_graph *g,
		const struct ff_machine *m, struct ff_arena *a, struct ff_strategy *ret,
		struct ff_error *err);

#endif
