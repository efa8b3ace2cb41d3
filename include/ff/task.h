/* Tasks of a schedule: each moves something between devices or computes something on one.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TASK_H
#define FF_TASK_H

#include "ff/phase.h"
#include "ff/redistribution.h"

/* What a task computes that moves nothing. */
enum ff_compute {
	FF_COMPUTE_PART,   /* a part of a node, in a phase */
	FF_COMPUTE_UPDATE, /* of a bucket */
	/* The squares of the gradients in a bucket, added up: of each of its devices, which have
	 * the same elements, a share that no other takes (ff_norm_share). */
	FF_COMPUTE_NORM,
	/* Gradients of an earlier step come to their turn, and those that wait move up: of a bucket
	 * on one device, or (`edge`) what a part of a reader has made, which is moved from there.
	 */
	FF_COMPUTE_DELAY,
};

struct ff_task {
	/* NULL: it computes.  A move of a redistribution (`edge`), or the collective of a bucket:
	 * backward its gradients are all-reduced or, where it is flat, reduce-scattered; forward
	 * the weights of a flat one are gathered. */
	const struct ff_move *move;
	enum ff_compute compute;
	enum ff_phase phase; /* WEIGHTS: parts alone; what moves behind them has BACKWARD */
	enum ff_grads grads; /* a part, backward: that it makes */
	uint32_t micro;      /* micro-batch: a part, a move of an edge or of a dropped bucket */
	uint32_t node;       /* a part; what is of an edge: the consumer */
	uint32_t part;       /* a part; a delay of an edge */
	uint32_t device;     /* what computes */
	uint32_t edge;       /* or FF_NONE */
	uint32_t bucket;     /* or FF_NONE */
	/* A move: first of n_devices buffers (FF_NONE where no stage); of a dropped bucket that is
	 * gathered, those of all its weights. */
	uint32_t stage;
	uint32_t residual; /* a move, compressed: likewise, of what its devices have not sent yet */
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
/* A part of a node; in which pass. */
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
