/* Emission, inside: what the files share that tell a schedule's tasks.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_EMIT_H
#define FF_LOWER_EMIT_H

#include "lower/state/lowering.h"

/* Opens a task of step `s`, the one at hand; dependencies and buffers follow.  One that computes,
 * on `device`; or one that moves: of `edge`, or (FF_NONE) of a bucket. */
struct ff_task *ff_emit_compute(struct ff_lowering *l, const struct ff_step *s,
		enum ff_compute compute, uint32_t device);
struct ff_task *ff_emit_move(struct ff_lowering *l, const struct ff_step *s, uint32_t edge,
		const struct ff_move *mv);
/* The task at hand comes after `task`, unless that is FF_NONE. */
void ff_emit_depend(struct ff_lowering *l, uint32_t task);
/* All that it comes after is told: dependencies stand in order, each once, and clocks go on. */
void ff_emit_ready(struct ff_lowering *l);
/* A buffer of its own; FF_NONE where there is nothing in it. */
uint32_t ff_emit_shard(struct ff_lowering *l, uint32_t device, int64_t bytes);

/* The list at `i`, an edge or a value, of an instance. */
uint32_t *ff_emit_list(const struct ff_lowering *l, const uint32_t *const *table, size_t i,
		uint32_t instance);
/* The first task of what a phase computes of `node`. */
uint32_t *ff_emit_computed(
		const struct ff_lowering *l, enum ff_phase phase, uint32_t micro, uint32_t node);
/* The task that computes `part` of `node`; FF_NONE: the phase computes nothing of it. */
uint32_t ff_emit_task(const struct ff_lowering *l, enum ff_phase phase, uint32_t micro,
		uint32_t node, uint32_t part);
bool ff_emit_from_parameter(const struct ff_lowering *l, uint32_t edge);
/* The instance of the gradient at `edge`: parameters have one for all micro-batches. */
uint32_t ff_emit_gradient_of(const struct ff_lowering *l, uint32_t edge, uint32_t micro);
/* The task at hand comes after what has put gradients of a part of `value` there where they are
 * summed or read; what is moved there arrives (arrivals.h). */
void ff_emit_depend_gradients(struct ff_lowering *l, uint32_t value, uint32_t micro, uint32_t part);
/* Where gradients wait: the task at hand comes after what has put there the one that is due in
 * `buffer`. */
void ff_emit_depend_due(struct ff_lowering *l, uint32_t buffer);

#endif
