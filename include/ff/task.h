/* Tasks of a schedule: each moves something between devices or computes something on one.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TASK_H
#define FF_TASK_H

#include "ff/phase.h"
#include "ff/redistribution.h"

/* What a compute task does. */
enum ff_compute {
	FF_COMPUTE_PART,   /* a part of a node, in a phase */
	FF_COMPUTE_UPDATE, /* of a bucket, on one device */
	/* The sum of squares of a bucket's gradients, on one device: over its share of the elements
	 * (ff_norm_share). */
	FF_COMPUTE_NORM,
	/* Delayed gradients move one step up: those of a bucket on one device, or (`edge`) those
	 * that a part of a reader has computed and a move then sends. */
	FF_COMPUTE_DELAY,
};

struct ff_task {
	/* NULL: a compute task.  Else a move of the redistribution at `edge`, or the collective of
	 * `bucket`: forward the all-gather of its weights; backward the all-reduce, or if it is
	 * flat the reduce-scatter, of its gradients. */
	const struct ff_move *move;
	enum ff_compute compute;
	enum ff_phase phase; /* FF_PHASE_WEIGHTS only of parts; moves after them have BACKWARD */
	enum ff_grads grads; /* parts, backward: the gradients that it computes */
	uint32_t micro;      /* micro-batch, of parts and of moves of an edge or a dropped bucket */
	uint32_t node;       /* of parts; with an edge: its reader */
	uint32_t part;       /* of parts and of the delay of an edge */
	uint32_t device;     /* of compute tasks */
	uint32_t edge;       /* or FF_NONE */
	uint32_t bucket;     /* or FF_NONE */
	/* Moves: the first of n_devices staging buffers, each perhaps FF_NONE; for the gather of a
	 * dropped bucket: the buffers of its weights. */
	uint32_t stage;
	uint32_t residual; /* compressed moves: likewise, the buffers of error feedback */
	uint32_t first_lane, n_lanes; /* ff_schedule.lanes */
	uint32_t first_dep, n_deps;   /* ff_schedule.deps: earlier tasks */
};

static inline bool ff_task_moves_edge(const struct ff_task *t)
{
	return t->move && t->bucket == FF_NONE;
}
static inline bool ff_task_moves_bucket(const struct ff_task *t)
{
	return t->move && t->bucket != FF_NONE;
}
static inline enum ff_pass ff_task_pass(const struct ff_task *t)
{
	return ff_phase_pass(t->phase);
}
/* Whether it computes a part of a node; and in that pass. */
static inline bool ff_task_computes_part(const struct ff_task *t)
{
	return !t->move && t->compute == FF_COMPUTE_PART;
}
static inline bool ff_task_computes_in(const struct ff_task *t, enum ff_pass pass)
{
	return ff_task_computes_part(t) && ff_task_pass(t) == pass;
}
/* The devices that take part in it, ascending; `one` has room for the one that computes. */
static inline uint32_t ff_task_devices(
		const struct ff_task *t, const uint16_t **device, uint16_t *one)
{
	if (t->move) {
		*device = t->move->device;
		return t->move->n_devices;
	}
	*one = (uint16_t)t->device;
	*device = one;
	return 1;
}

#endif
