/* Slices: several devices of a node that want the same of other nodes are sent a slice of it each,
 * and gather the others from each other (Narayanan et al., "Efficient Large-Scale Language Model
 * Training on GPU Clusters Using Megatron-LM", SC 2021, section 4.1: scatter and gather).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_MOVE_SLICES_H
#define FF_MOVE_SLICES_H

#include "ff/redistribution.h"

/* A sink whose copies and replicas each have a slice, in place of all of it. */
struct ff_slices {
	struct ff_placement place;  /* part by part the sink's */
	uint32_t each[FF_MAX_RANK]; /* by axis: what an interval of the sink's is cut in */
};

/* Whether they are sent so.  Each slice is one run of the sink's shard, so that it arrives in its
 * place.  No device may have both a source and a sink, nor a node, and by the machine's links it
 * must take less, for each cell of the sink.  All memory from `a`. */
int ff_slices_find(const struct ff_machine *m, const struct ff_side *source,
		const struct ff_side *sink, struct ff_arena *a, struct ff_slices *ret, bool *found,
		struct ff_error *err);
/* The part that has slice number `slice` of the cell whose first part is `part`. */
uint32_t ff_slices_part(const struct ff_placement *sink, uint32_t part, uint32_t slice);

#endif
